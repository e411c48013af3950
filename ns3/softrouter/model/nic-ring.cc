// SPDX-License-Identifier: GPL-2.0-only
#include "nic-ring.h"

#include "ns3/abort.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <utility>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(NicRing);

TypeId
NicRing::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NicRing")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<NicRing>()
            .AddAttribute("Size",
                          "Packets that fit into the ring.",
                          UintegerValue(512),
                          MakeUintegerAccessor(&NicRing::SetSize, &NicRing::GetSize),
                          MakeUintegerChecker<uint32_t>(1, 1 << 20))
            .AddTraceSource("Length",
                            "Packets in the ring.",
                            MakeTraceSourceAccessor(&NicRing::m_length),
                            "ns3::TracedValueCallback::Uint32")
            .AddTraceSource("Drop",
                            "A packet found the ring full.",
                            MakeTraceSourceAccessor(&NicRing::m_dropTrace),
                            "ns3::Packet::TracedCallback");
    return tid;
}

NicRing::NicRing()
    : m_length(0)
{
}

NicRing::~NicRing()
{
}

void
NicRing::DoDispose()
{
    Clear();
    Object::DoDispose();
}

bool
NicRing::Push(RouterItem& item)
{
    const uint32_t length = m_length;
    if (length >= m_size)
    {
        m_drops++;
        m_dropTrace(item.packet);
        return false;
    }
    if (m_items.size() < m_size)
    {
        m_items.resize(m_size);
    }
    uint32_t at = m_head + length;
    if (at >= m_size)
    {
        at -= m_size;
    }
    m_items[at] = std::move(item);
    m_length = length + 1;
    return true;
}

RouterItem
NicRing::Pop()
{
    NS_ABORT_MSG_IF(IsEmpty(), "Found an empty ring, expected a packet in it");
    RouterItem item = std::move(m_items[m_head]);
    if (++m_head == m_size)
    {
        m_head = 0;
    }
    m_length = m_length - 1;
    return item;
}

void
NicRing::Clear()
{
    m_items.clear();
    m_head = 0;
    m_length = 0;
}

bool
NicRing::IsEmpty() const
{
    return m_length == 0;
}

uint32_t
NicRing::GetLength() const
{
    return m_length;
}

uint32_t
NicRing::GetSize() const
{
    return m_size;
}

void
NicRing::SetSize(uint32_t size)
{
    NS_ABORT_MSG_IF(size == 0, "A ring's Size: found 0, expected at least 1");
    NS_ABORT_MSG_IF(!IsEmpty(), "A ring's Size changes only while it is empty");
    m_size = size;
    m_items.clear();
    m_head = 0;
}

uint64_t
NicRing::GetDrops() const
{
    return m_drops;
}

} // namespace ns3
