// SPDX-License-Identifier: GPL-2.0-only
#include "ethernet-port.h"

#include "ns3/abort.h"
#include "ns3/log.h"
#include "ns3/nstime.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("EthernetPort");

NS_OBJECT_ENSURE_REGISTERED(EthernetPort);

namespace
{

constexpr uint32_t ETHERNET = 18;  // bytes of header and FCS
constexpr uint32_t MIN_FRAME = 64; // bytes; shorter ones are padded
constexpr uint32_t PREAMBLE = 8;   // bytes, with the start delimiter
constexpr uint32_t GAP = 12;       // bytes

} // namespace

TypeId
EthernetPort::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::EthernetPort")
            .SetParent<NetDevice>()
            .SetGroupName("SoftRouter")
            .AddConstructor<EthernetPort>()
            .AddAttribute("Address",
                          "MAC address",
                          Mac48AddressValue(Mac48Address("ff:ff:ff:ff:ff:ff")),
                          MakeMac48AddressAccessor(&EthernetPort::m_address),
                          MakeMac48AddressChecker())
            .AddAttribute("Mtu",
                          "Bytes that a packet may have",
                          UintegerValue(1500),
                          MakeUintegerAccessor(&EthernetPort::SetMtu, &EthernetPort::GetMtu),
                          MakeUintegerChecker<uint16_t>())
            .AddAttribute("DataRate",
                          "Rate of the link",
                          DataRateValue(DataRate("10Gbps")),
                          MakeDataRateAccessor(&EthernetPort::SetRate, &EthernetPort::GetRate),
                          MakeDataRateChecker())
            .AddAttribute("QueueSize",
                          "Packets in the transmit ring, without the one on the wire",
                          UintegerValue(512),
                          MakeUintegerAccessor(&EthernetPort::m_queueSize),
                          MakeUintegerChecker<uint32_t>(1))
            .AddTraceSource("MacTx",
                            "A packet is given to the port",
                            MakeTraceSourceAccessor(&EthernetPort::m_txTrace),
                            "ns3::Packet::TracedCallback")
            .AddTraceSource("MacTxDrop",
                            "A packet is refused: the transmit ring is full, or there is no cable",
                            MakeTraceSourceAccessor(&EthernetPort::m_dropTrace),
                            "ns3::Packet::TracedCallback")
            .AddTraceSource("MacRx",
                            "A packet has come",
                            MakeTraceSourceAccessor(&EthernetPort::m_rxTrace),
                            "ns3::Packet::TracedCallback");
    return tid;
}

EthernetPort::EthernetPort()
{
    NS_LOG_FUNCTION(this);
}

EthernetPort::~EthernetPort()
{
    NS_LOG_FUNCTION(this);
}

void
EthernetPort::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_node = nullptr;
    m_cable = nullptr;
    m_peer = nullptr;
    m_receive = ReceiveCallback();
    m_promisc = PromiscReceiveCallback();
    NetDevice::DoDispose();
}

void
EthernetPort::Plug(Ptr<EthernetCable> cable, Ptr<EthernetPort> peer)
{
    NS_LOG_FUNCTION(this << cable << peer);
    NS_ABORT_MSG_IF(m_cable, "EthernetPort: found a second cable, expected one per port");
    m_cable = cable;
    m_peer = peer;
    m_delay = cable->GetDelay().GetTimeStep();
    m_peerAddress = peer->GetAddress();
    m_linkTrace();
}

void
EthernetPort::SetRate(DataRate rate)
{
    NS_ABORT_MSG_IF(rate.GetBitRate() == 0, "EthernetPort: found a rate of 0, expected more");
    m_rate = rate;
    m_stepsPerByte = 0;
}

DataRate
EthernetPort::GetRate() const
{
    return m_rate;
}

double
EthernetPort::GetSteps(uint32_t bytes)
{
    if (m_stepsPerByte == 0)
    {
        // Not earlier: the simulation's resolution may have been set after this port was made.
        m_stepsPerByte = 8.0 * static_cast<double>(Seconds(1).GetTimeStep()) /
                         static_cast<double>(m_rate.GetBitRate());
    }
    return bytes * m_stepsPerByte;
}

uint32_t
EthernetPort::GetWaiting()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    while (!m_waiting.empty() && m_waiting.front() <= now)
    {
        m_waiting.pop_front();
    }
    return static_cast<uint32_t>(m_waiting.size());
}

bool
EthernetPort::Send(Ptr<Packet> packet, const Address& to, uint16_t protocol)
{
    NS_LOG_FUNCTION(this << packet << to << protocol);
    m_txTrace(packet);
    if (!m_peer || GetWaiting() >= m_queueSize)
    {
        m_dropTrace(packet);
        return false;
    }
    const uint32_t frame = std::max(packet->GetSize() + ETHERNET, MIN_FRAME);
    const int64_t now = Simulator::Now().GetTimeStep();
    const int64_t start = std::max(now, m_free);
    if (start > now)
    {
        m_waiting.push_back(start);
    }
    // Back to back, what a time step cannot hold of one packet's time is carried over to the next:
    // the rate of a link does not depend on the simulation's resolution.
    const double carry = start > now ? m_carry : 0;
    const double end = GetSteps(PREAMBLE + frame + GAP) + carry;
    m_free = start + static_cast<int64_t>(end);
    m_carry = end - std::floor(end);
    const int64_t arrival = start + std::llround(GetSteps(PREAMBLE + frame) + carry) + m_delay;
    Simulator::ScheduleWithContext(m_peer->m_node->GetId(),
                                   TimeStep(static_cast<uint64_t>(arrival - now)),
                                   &EthernetPort::Receive,
                                   m_peer,
                                   packet,
                                   protocol);
    return true;
}

void
EthernetPort::Receive(Ptr<Packet> packet, uint16_t protocol)
{
    NS_LOG_FUNCTION(this << packet << protocol);
    m_rxTrace(packet);
    if (!m_promisc.IsNull())
    {
        m_promisc(this, packet, protocol, m_peerAddress, m_address, PACKET_HOST);
    }
    if (!m_receive.IsNull())
    {
        m_receive(this, packet, protocol, m_peerAddress);
    }
}

void
EthernetPort::SetIfIndex(const uint32_t index)
{
    m_index = index;
}

uint32_t
EthernetPort::GetIfIndex() const
{
    return m_index;
}

Ptr<Channel>
EthernetPort::GetChannel() const
{
    return m_cable;
}

void
EthernetPort::SetAddress(Address address)
{
    m_address = Mac48Address::ConvertFrom(address);
    if (m_peer)
    {
        m_peer->m_peerAddress = address;
    }
}

Address
EthernetPort::GetAddress() const
{
    return m_address;
}

bool
EthernetPort::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
EthernetPort::GetMtu() const
{
    return m_mtu;
}

bool
EthernetPort::IsLinkUp() const
{
    return m_peer != nullptr;
}

void
EthernetPort::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkTrace.ConnectWithoutContext(callback);
}

bool
EthernetPort::IsBroadcast() const
{
    return true;
}

Address
EthernetPort::GetBroadcast() const
{
    static const Address broadcast = Mac48Address::GetBroadcast();
    return broadcast;
}

bool
EthernetPort::IsMulticast() const
{
    return true;
}

Address
EthernetPort::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
EthernetPort::GetMulticast(Ipv6Address address) const
{
    return Mac48Address::GetMulticast(address);
}

bool
EthernetPort::IsBridge() const
{
    return false;
}

bool
EthernetPort::IsPointToPoint() const
{
    return true;
}

bool
EthernetPort::SendFrom(Ptr<Packet> packet,
                       const Address& /* from */,
                       const Address& /* to */,
                       uint16_t /* protocol */)
{
    m_dropTrace(packet);
    return false;
}

Ptr<Node>
EthernetPort::GetNode() const
{
    return m_node;
}

void
EthernetPort::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
EthernetPort::NeedsArp() const
{
    return false;
}

void
EthernetPort::SetReceiveCallback(ReceiveCallback callback)
{
    m_receive = callback;
}

void
EthernetPort::SetPromiscReceiveCallback(PromiscReceiveCallback callback)
{
    m_promisc = callback;
}

bool
EthernetPort::SupportsSendFrom() const
{
    return false;
}

} // namespace ns3
