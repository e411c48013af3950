// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_TRANSMIT_BUFFER_H
#define SOFTROUTER_TRANSMIT_BUFFER_H

#include "router-item.h"

#include "ns3/callback.h"
#include "ns3/event-id.h"
#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/traced-callback.h"
#include "ns3/type-id.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Gathers packets for one transmit port, and hands them to its device in bursts.
 *
 * A burst is handed on when Size packets have come, or Timeout after the first of them. A Size of
 * 1 hands each packet on at once. At low load the timeout is what packets wait for: half of it on
 * the mean and more, which is how it is identified (latency at 1 to 10 % load).
 *
 * With Together, packets are put in a core's burst at a time: EndBurst() says that one is complete.
 * Then all that wait are handed on if they are Size or more; so is a burst that found nothing
 * waiting, if it has at least half of Size.
 */
class TransmitBuffer : public Object
{
  public:
    /// Sends one packet; returns false if the device refused it.
    typedef Callback<bool, const RouterItem&> SendCallback;

    /**
     * \brief Signature of trace source Burst.
     * \param packets how many packets were handed on together
     */
    typedef void (*BurstTracedCallback)(uint32_t packets);

    /**
     * \brief Signature of trace source Drop.
     * \param item the packet
     * \param cause why it was dropped
     */
    typedef void (*DropTracedCallback)(const RouterItem& item, const char* cause);

    /// Cause of a drop: the device's queue had no room, or its link is down.
    static constexpr const char* REFUSED = "transmit ring refused the packet";

    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    TransmitBuffer();
    ~TransmitBuffer() override;

    /**
     * \brief Sets what sends a packet. It must be set before the first packet comes.
     * \param send called for each packet of a burst, in order
     */
    void SetSend(SendCallback send);

    /**
     * \brief Takes a packet to be sent.
     * \param item the packet
     */
    void Add(RouterItem item);

    /**
     * \brief All packets of a core's burst have been added. Does nothing without Together.
     */
    void EndBurst();

    /**
     * \brief Hands on now what has been gathered.
     */
    void Flush();

    /**
     * \brief Gets how many packets wait.
     * \return packets; less than Size, except within a burst with Together
     */
    uint32_t GetWaiting() const;

    /**
     * \brief Gets how many packets the device has taken.
     * \return packets
     */
    uint64_t GetSent() const;

    /**
     * \brief Gets how many packets the device has refused.
     * \return packets
     */
    uint64_t GetDropped() const;

  protected:
    void DoDispose() override;

  private:
    /**
     * \brief Hands one packet to the device.
     * \param item the packet
     */
    void Send(const RouterItem& item);

    /**
     * \brief Starts the time of a burst's first packet.
     */
    void StartTimer();

    /**
     * \brief Hands on what has been gathered if it is due, else waits on.
     */
    void OnTimer();

    uint32_t m_size;                       //!< packets per burst
    Time m_timeout;                        //!< after a burst's first packet
    bool m_together;                       //!< a core's burst counts, not each packet
    uint32_t m_added{0};                   //!< packets of the core's burst so far
    SendCallback m_send;                   //!< sends one packet
    std::vector<RouterItem> m_items;       //!< gathered
    std::vector<RouterItem> m_burst;       //!< being handed on
    bool m_flushing{false};                //!< whether m_burst is in use
    Time m_due;                            //!< when the gathered packets must go
    EventId m_timer;                       //!< the next look at m_due
    uint64_t m_sent{0};                    //!< packets the device took
    uint64_t m_dropped{0};                 //!< packets the device refused
    TracedCallback<uint32_t> m_burstTrace; //!< packets of each burst
    TracedCallback<const RouterItem&, const char*> m_dropTrace; //!< refused packets
};

} // namespace ns3

#endif // SOFTROUTER_TRANSMIT_BUFFER_H
