// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ROUTER_ITEM_H
#define SOFTROUTER_ROUTER_ITEM_H

#include "ns3/address.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <array>
#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A packet on its way through a software router, with what the router remembers of it.
 *
 * Small, and cheap to move: a packet passes through some rings.
 */
struct RouterItem
{
    RouterItem() = default;
    /// \param other item to copy
    RouterItem(const RouterItem& other) = default;
    /// \param other item to copy \return this
    RouterItem& operator=(const RouterItem& other) = default;
    ~RouterItem() = default;

    /// \param other item that loses its packet: ns-3's Ptr alone would keep a reference
    RouterItem(RouterItem&& other)
        : RouterItem(static_cast<const RouterItem&>(other))
    {
        other.packet = nullptr;
    }

    /// \param other item that loses its packet \return this
    RouterItem& operator=(RouterItem&& other)
    {
        *this = static_cast<const RouterItem&>(other);
        other.packet = nullptr;
        return *this;
    }

    Ptr<Packet> packet;    //!< the packet, its link-layer header removed
    Time arrival;          //!< when its last bit had been received
    uint32_t frameSize{0}; //!< bytes from the Ethernet header to the FCS
    uint32_t hash{0};      //!< of its flow, by receive side scaling
    uint16_t port{0};      //!< number of the port it arrived on
    uint16_t protocol{0};  //!< Ethernet type
    bool punted{false};    //!< for the slow path, known once a core has taken it
    /// Link-layer source as Address::CopyAllTo() writes it; empty where no stack asks for it.
    std::array<uint8_t, Address::MAX_SIZE + 2> from;
    uint8_t fromSize{0}; //!< bytes of from
};

} // namespace ns3

#endif // SOFTROUTER_ROUTER_ITEM_H
