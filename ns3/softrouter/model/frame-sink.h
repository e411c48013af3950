// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_FRAME_SINK_H
#define SOFTROUTER_FRAME_SINK_H

#include "ns3/address.h"
#include "ns3/net-device.h"
#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"
#include "ns3/traced-callback.h"
#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Counts what devices receive, and keeps nothing else of it.
 */
class FrameSink : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    FrameSink();
    ~FrameSink() override;

    /**
     * \brief Takes what a device receives, instead of its node.
     * \param device which may be one of several
     */
    void Attach(Ptr<NetDevice> device);

    /**
     * \brief Gets how many frames came.
     * \return frames
     */
    uint64_t GetPackets() const;

    /**
     * \brief Gets how many bytes came.
     * \return bytes of frames, from the Ethernet header to the FCS
     */
    uint64_t GetBytes() const;

    /**
     * \brief Gets what the frames took of the wire, 20 bytes more than each frame.
     * \return bits
     */
    uint64_t GetWireBits() const;

    /**
     * \brief Gets when the first frame came.
     * \return its last bit's arrival; 0 if none came
     */
    Time GetFirst() const;

    /**
     * \brief Gets when the last frame came.
     * \return its last bit's arrival; 0 if none came
     */
    Time GetLast() const;

    /**
     * \brief Forgets all that came, as after a warm-up.
     */
    void Reset();

  private:
    /**
     * \brief Counts a packet.
     * \param device that received it
     * \param packet without link-layer header
     * \param protocol its Ethernet type
     * \param from link-layer source
     * \return true: the packet is wanted
     */
    bool Receive(Ptr<NetDevice> device,
                 Ptr<const Packet> packet,
                 uint16_t protocol,
                 const Address& from);

    uint64_t m_packets{0};                  //!< frames
    uint64_t m_bytes{0};                    //!< of frames
    Time m_first;                           //!< the first frame's arrival
    Time m_last;                            //!< the last frame's arrival
    TracedCallback<Ptr<const Packet>> m_rx; //!< each packet
};

} // namespace ns3

#endif // SOFTROUTER_FRAME_SINK_H
