// SPDX-License-Identifier: GPL-2.0-only
#include "transmit-buffer.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <utility>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TransmitBuffer");

NS_OBJECT_ENSURE_REGISTERED(TransmitBuffer);

TypeId
TransmitBuffer::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TransmitBuffer")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<TransmitBuffer>()
            .AddAttribute("Size",
                          "Packets that are handed to the device together; 1: no buffer",
                          UintegerValue(1),
                          MakeUintegerAccessor(&TransmitBuffer::m_size),
                          MakeUintegerChecker<uint32_t>(1, 65536))
            .AddAttribute("Timeout",
                          "Time after which a burst's first packet goes, with those that have "
                          "joined it; must be more than 0 if Size is more than 1",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&TransmitBuffer::m_timeout),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("Together",
                          "Packets of a core's burst join together; at least half of Size go at "
                          "once if none wait",
                          BooleanValue(false),
                          MakeBooleanAccessor(&TransmitBuffer::m_together),
                          MakeBooleanChecker())
            .AddTraceSource("Burst",
                            "Packets handed to the device together",
                            MakeTraceSourceAccessor(&TransmitBuffer::m_burstTrace),
                            "ns3::TransmitBuffer::BurstTracedCallback")
            .AddTraceSource("Drop",
                            "A packet that the device refused",
                            MakeTraceSourceAccessor(&TransmitBuffer::m_dropTrace),
                            "ns3::TransmitBuffer::DropTracedCallback");
    return tid;
}

TransmitBuffer::TransmitBuffer()
{
    NS_LOG_FUNCTION(this);
}

TransmitBuffer::~TransmitBuffer()
{
    NS_LOG_FUNCTION(this);
}

void
TransmitBuffer::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_timer.Cancel();
    m_items.clear();
    m_send = SendCallback();
    Object::DoDispose();
}

void
TransmitBuffer::SetSend(SendCallback send)
{
    m_send = std::move(send);
}

void
TransmitBuffer::Add(RouterItem item)
{
    NS_LOG_FUNCTION(this << item.packet);
    if (m_size == 1 && m_items.empty())
    {
        Send(item);
        m_burstTrace(1);
        return;
    }
    m_items.push_back(std::move(item));
    if (m_together)
    {
        m_added++;
    }
    else if (m_items.size() >= m_size)
    {
        Flush();
    }
    else if (m_items.size() == 1)
    {
        StartTimer();
    }
}

void
TransmitBuffer::EndBurst()
{
    NS_LOG_FUNCTION(this << m_added);
    const uint32_t added = std::exchange(m_added, 0);
    if (added == 0)
    {
        return;
    }
    const bool alone = m_items.size() == added;
    if (m_items.size() >= m_size || (alone && 2 * added >= m_size))
    {
        Flush();
    }
    else if (alone)
    {
        StartTimer();
    }
}

void
TransmitBuffer::Flush()
{
    NS_LOG_FUNCTION(this << m_items.size());
    if (m_flushing || m_items.empty())
    {
        return; // a packet that came while others were being sent waits for its own turn
    }
    m_flushing = true;
    do
    {
        m_burst.swap(m_items);
        for (const RouterItem& item : m_burst)
        {
            Send(item);
        }
        m_burstTrace(static_cast<uint32_t>(m_burst.size()));
        m_burst.clear();
    } while (m_items.size() >= m_size);
    m_flushing = false;
}

void
TransmitBuffer::Send(const RouterItem& item)
{
    NS_ABORT_MSG_IF(m_send.IsNull(),
                    "TransmitBuffer: found nothing to send packets with, call SetSend() first");
    if (m_send(item))
    {
        m_sent++;
    }
    else
    {
        m_dropped++;
        m_dropTrace(item, REFUSED);
    }
}

void
TransmitBuffer::StartTimer()
{
    NS_ABORT_MSG_IF(!m_timeout.IsStrictlyPositive(),
                    "TransmitBuffer: found Size " << m_size
                                                  << " and no Timeout, expected a Timeout of more "
                                                     "than 0 if Size is more than 1");
    m_due = Simulator::Now() + m_timeout;
    // One event at a time, which looks when the packets of that time are due: bursts are often full
    // long before, and an event for each of them would cost more than the rest.
    if (m_timer.IsExpired() || m_timer.GetTs() > static_cast<uint64_t>(m_due.GetTimeStep()))
    {
        m_timer.Cancel();
        m_timer = Simulator::Schedule(m_timeout, &TransmitBuffer::OnTimer, this);
    }
}

void
TransmitBuffer::OnTimer()
{
    if (m_items.empty())
    {
        return;
    }
    const Time now = Simulator::Now();
    if (now >= m_due)
    {
        Flush();
    }
    else
    {
        m_timer = Simulator::Schedule(m_due - now, &TransmitBuffer::OnTimer, this);
    }
}

uint32_t
TransmitBuffer::GetWaiting() const
{
    return static_cast<uint32_t>(m_items.size());
}

uint64_t
TransmitBuffer::GetSent() const
{
    return m_sent;
}

uint64_t
TransmitBuffer::GetDropped() const
{
    return m_dropped;
}

} // namespace ns3
