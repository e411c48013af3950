// SPDX-License-Identifier: GPL-2.0-only
#include "soft-router-tap.h"

#include "ns3/channel.h"
#include "ns3/mac48-address.h"
#include "ns3/node.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(SoftRouterTap);

TypeId
SoftRouterTap::GetTypeId()
{
    static TypeId tid = TypeId("ns3::SoftRouterTap")
                            .SetParent<NetDevice>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<SoftRouterTap>();
    return tid;
}

SoftRouterTap::SoftRouterTap()
    : m_address(Mac48Address("00:00:00:00:00:00"))
{
}

SoftRouterTap::~SoftRouterTap()
{
}

void
SoftRouterTap::DoDispose()
{
    m_node = nullptr;
    m_receive = NetDevice::ReceiveCallback();
    NetDevice::DoDispose();
}

bool
SoftRouterTap::HandOver(Ptr<NetDevice> port,
                        Ptr<const Packet> packet,
                        uint16_t protocol,
                        const Address& from)
{
    return !m_receive.IsNull() && m_receive(port, packet, protocol, from);
}

void
SoftRouterTap::SetReceiveCallback(NetDevice::ReceiveCallback cb)
{
    m_receive = cb;
}

void
SoftRouterTap::SetIfIndex(const uint32_t index)
{
    m_index = index;
}

uint32_t
SoftRouterTap::GetIfIndex() const
{
    return m_index;
}

Ptr<Channel>
SoftRouterTap::GetChannel() const
{
    return nullptr;
}

void
SoftRouterTap::SetAddress(Address address)
{
    m_address = address;
}

Address
SoftRouterTap::GetAddress() const
{
    return m_address;
}

bool
SoftRouterTap::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
SoftRouterTap::GetMtu() const
{
    return m_mtu;
}

bool
SoftRouterTap::IsLinkUp() const
{
    return false;
}

void
SoftRouterTap::AddLinkChangeCallback(Callback<void>)
{
}

bool
SoftRouterTap::IsBroadcast() const
{
    return false;
}

Address
SoftRouterTap::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
SoftRouterTap::IsMulticast() const
{
    return false;
}

Address
SoftRouterTap::GetMulticast(Ipv4Address multicastGroup) const
{
    return Mac48Address::GetMulticast(multicastGroup);
}

Address
SoftRouterTap::GetMulticast(Ipv6Address addr) const
{
    return Mac48Address::GetMulticast(addr);
}

bool
SoftRouterTap::IsBridge() const
{
    return false;
}

bool
SoftRouterTap::IsPointToPoint() const
{
    return false;
}

bool
SoftRouterTap::Send(Ptr<Packet>, const Address&, uint16_t)
{
    return false;
}

bool
SoftRouterTap::SendFrom(Ptr<Packet>, const Address&, const Address&, uint16_t)
{
    return false;
}

Ptr<Node>
SoftRouterTap::GetNode() const
{
    return m_node;
}

void
SoftRouterTap::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
SoftRouterTap::NeedsArp() const
{
    return false;
}

void
SoftRouterTap::SetPromiscReceiveCallback(PromiscReceiveCallback)
{
}

bool
SoftRouterTap::SupportsSendFrom() const
{
    return false;
}

} // namespace ns3
