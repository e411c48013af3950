// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ROUTER_ITEM_H
#define SOFTROUTER_ROUTER_ITEM_H

#include "ns3/address.h"
#include "ns3/net-device.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A packet on its way through a software router, with what the router remembers of it.
 */
struct RouterItem
{
    Ptr<Packet> packet;                  //!< the packet, its link-layer header removed
    Ptr<NetDevice> device;               //!< the port it arrived on
    uint32_t port{0};                    //!< its number
    Address from;                        //!< link-layer source
    Address to;                          //!< link-layer destination
    NetDevice::PacketType type{NetDevice::PACKET_HOST}; //!< as the port classified it
    uint16_t protocol{0};                //!< Ethernet type
    uint32_t frameSize{0};               //!< bytes from the Ethernet header to the FCS
    uint32_t hash{0};                    //!< of its flow, by receive side scaling
    Time arrival;                        //!< when its last bit had been received
};

} // namespace ns3

#endif // SOFTROUTER_ROUTER_ITEM_H
