// SPDX-License-Identifier: GPL-2.0-only
#include "punt-rule.h"

#include "ns3/ipv4-address.h"
#include "ns3/ipv4.h"
#include "ns3/ipv6-address.h"
#include "ns3/ipv6.h"
#include "ns3/node.h"

#include <array>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(PuntRule);

namespace
{

constexpr uint16_t ETHERTYPE_IPV4 = 0x0800;
constexpr uint16_t ETHERTYPE_IPV6 = 0x86dd;
constexpr uint32_t IPV4_HEADER = 20;
constexpr uint32_t IPV6_HEADER = 40;

} // namespace

TypeId
PuntRule::GetTypeId()
{
    static TypeId tid = TypeId("ns3::PuntRule")
                            .SetParent<Object>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<PuntRule>();
    return tid;
}

PuntRule::PuntRule()
{
}

PuntRule::~PuntRule()
{
}

bool
PuntRule::Matches(const RouterItem& item, const Node& node) const
{
    std::array<uint8_t, IPV6_HEADER> header;
    const uint32_t size = item.packet->CopyData(header.data(), header.size());
    switch (item.protocol)
    {
    case ETHERTYPE_IPV4:
        return MatchesIpv4(header.data(), size, node);
    case ETHERTYPE_IPV6:
        return MatchesIpv6(header.data(), size, node);
    default:
        return true;
    }
}

bool
PuntRule::MatchesIpv4(const uint8_t* header, uint32_t size, const Node& node) const
{
    constexpr uint8_t VERSION_AND_LENGTH = 0x45; // version 4, five words: no options
    if (size < IPV4_HEADER || header[0] != VERSION_AND_LENGTH || header[8] <= 1)
    {
        return true;
    }
    const Ipv4Address destination = Ipv4Address::Deserialize(header + 16);
    if (destination.IsMulticast() || destination.IsBroadcast())
    {
        return true;
    }
    const Ptr<Ipv4> ipv4 = node.GetObject<Ipv4>();
    return ipv4 && ipv4->GetInterfaceForAddress(destination) >= 0;
}

bool
PuntRule::MatchesIpv6(const uint8_t* header, uint32_t size, const Node& node) const
{
    constexpr uint8_t HOP_BY_HOP = 0;
    if (size < IPV6_HEADER || (header[0] >> 4) != 6 || header[6] == HOP_BY_HOP || header[7] <= 1)
    {
        return true;
    }
    const Ipv6Address destination = Ipv6Address::Deserialize(header + 24);
    if (destination.IsMulticast() || destination.IsLinkLocal())
    {
        return true;
    }
    const Ptr<Ipv6> ipv6 = node.GetObject<Ipv6>();
    return ipv6 && ipv6->GetInterfaceForAddress(destination) >= 0;
}

} // namespace ns3
