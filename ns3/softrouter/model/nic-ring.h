// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_NIC_RING_H
#define SOFTROUTER_NIC_RING_H

#include "router-item.h"

#include "ns3/object.h"
#include "ns3/traced-callback.h"
#include "ns3/traced-value.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A bounded first-in first-out queue of packets, as a NIC's descriptor ring is.
 *
 * A packet that finds the ring full is dropped: it is the only place of a software router where
 * packets are lost for want of processing capacity.
 */
class NicRing : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    NicRing();
    ~NicRing() override;

    /**
     * \brief Append a packet.
     * \param item the packet; moved from when there was room, left alone otherwise
     * \return false when the ring is full
     */
    bool Push(RouterItem& item);

    /**
     * \brief Take the oldest packet. The ring must not be empty.
     * \return the packet
     */
    RouterItem Pop();

    /**
     * \brief Forget all packets.
     */
    void Clear();

    /**
     * \return whether there is no packet
     */
    bool IsEmpty() const;
    /**
     * \return packets in the ring
     */
    uint32_t GetLength() const;
    /**
     * \return packets that fit into the ring
     */
    uint32_t GetSize() const;
    /**
     * \brief Set how many packets fit. Only while the ring is empty.
     * \param size packets, at least 1
     */
    void SetSize(uint32_t size);
    /**
     * \return packets that found the ring full
     */
    uint64_t GetDrops() const;

  protected:
    void DoDispose() override;

  private:
    std::vector<RouterItem> m_items;               //!< as many as fit, filled from m_head on
    uint32_t m_size{512};                          //!< packets that fit
    uint32_t m_head{0};                            //!< where the oldest packet is
    uint64_t m_drops{0};                           //!< packets refused
    TracedValue<uint32_t> m_length;                //!< packets in the ring
    TracedCallback<Ptr<const Packet>> m_dropTrace; //!< a packet found the ring full
};

} // namespace ns3

#endif // SOFTROUTER_NIC_RING_H
