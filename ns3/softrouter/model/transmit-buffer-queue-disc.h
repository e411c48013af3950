// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_TRANSMIT_BUFFER_QUEUE_DISC_H
#define SOFTROUTER_TRANSMIT_BUFFER_QUEUE_DISC_H

#include "ns3/event-id.h"
#include "ns3/nstime.h"
#include "ns3/ptr.h"
#include "ns3/queue-disc.h"
#include "ns3/queue-item.h"
#include "ns3/traced-callback.h"
#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A transmit buffer as a root queue disc, for ordinary nodes with an IP stack.
 *
 * Packets are held until BurstSize of them have come, or Timeout after the first; then all of them
 * go to the device, as fast as its queue takes them. What the device does not take at once stays
 * here, first in first out, and no longer counts as held. Packets beyond MaxSize are dropped
 * (reason LIMIT_EXCEEDED_DROP).
 */
class TransmitBufferQueueDisc : public QueueDisc
{
  public:
    /**
     * \brief Signature of trace source Burst.
     * \param packets how many packets were released together
     */
    typedef void (*BurstTracedCallback)(uint32_t packets);

    /// Reason of a drop: MaxSize packets wait already.
    static constexpr const char* LIMIT_EXCEEDED_DROP = "Transmit buffer full";

    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    TransmitBufferQueueDisc();
    ~TransmitBufferQueueDisc() override;

    /**
     * \brief Gets how many packets are held, waiting for more to come.
     * \return packets, less than BurstSize
     */
    uint32_t GetHeld() const;

    /**
     * \brief Lets the held packets go now: a core of the node has nothing else to do.
     */
    void Flush();

    /**
     * \brief A core has handed over all packets of a burst: if none were held before, and at least
     * half of BurstSize are now, they go.
     */
    void EndBurst();

  protected:
    void DoDispose() override;

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override;
    Ptr<QueueDiscItem> DoDequeue() override;
    bool CheckConfig() override;
    void InitializeParams() override;

    /**
     * \brief Lets the held packets go when the queue disc runs next.
     */
    void Release();

    /**
     * \brief Releases the held packets if they are due, else waits on.
     */
    void OnTimer();

    uint32_t m_burstSize;                  //!< packets per burst
    Time m_timeout;                        //!< after the first held packet
    uint32_t m_held{0};                    //!< packets at the queue's end that must stay
    uint32_t m_before{0};                  //!< of these, from earlier bursts
    Time m_due;                            //!< when the held packets must go
    EventId m_timer;                       //!< the next look at m_due
    TracedCallback<uint32_t> m_burstTrace; //!< packets of each burst
};

} // namespace ns3

#endif // SOFTROUTER_TRANSMIT_BUFFER_QUEUE_DISC_H
