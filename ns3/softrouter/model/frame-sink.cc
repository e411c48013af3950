// SPDX-License-Identifier: GPL-2.0-only
#include "frame-sink.h"

#include "ns3/callback.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("FrameSink");

NS_OBJECT_ENSURE_REGISTERED(FrameSink);

TypeId
FrameSink::GetTypeId()
{
    static TypeId tid = TypeId("ns3::FrameSink")
                            .SetParent<Object>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<FrameSink>()
                            .AddTraceSource("Rx",
                                            "A packet came, its link-layer header removed",
                                            MakeTraceSourceAccessor(&FrameSink::m_rx),
                                            "ns3::Packet::TracedCallback");
    return tid;
}

FrameSink::FrameSink()
{
    NS_LOG_FUNCTION(this);
}

FrameSink::~FrameSink()
{
    NS_LOG_FUNCTION(this);
}

void
FrameSink::Attach(Ptr<NetDevice> device)
{
    NS_LOG_FUNCTION(this << device);
    device->SetReceiveCallback(MakeCallback(&FrameSink::Receive, Ptr<FrameSink>(this)));
}

uint64_t
FrameSink::GetPackets() const
{
    return m_packets;
}

uint64_t
FrameSink::GetBytes() const
{
    return m_bytes;
}

uint64_t
FrameSink::GetWireBits() const
{
    return (m_bytes + 20 * m_packets) * 8;
}

Time
FrameSink::GetFirst() const
{
    return m_first;
}

Time
FrameSink::GetLast() const
{
    return m_last;
}

void
FrameSink::Reset()
{
    NS_LOG_FUNCTION(this);
    m_packets = 0;
    m_bytes = 0;
    m_first = Time(0);
    m_last = Time(0);
}

bool
FrameSink::Receive(Ptr<NetDevice> /* device */,
                   Ptr<const Packet> packet,
                   uint16_t /* protocol */,
                   const Address& /* from */)
{
    m_last = Simulator::Now();
    if (m_packets == 0)
    {
        m_first = m_last;
    }
    m_packets++;
    // Ethernet header and FCS; shorter frames are padded.
    m_bytes += std::max(packet->GetSize() + 18, 64U);
    m_rx(packet);
    return true;
}

} // namespace ns3
