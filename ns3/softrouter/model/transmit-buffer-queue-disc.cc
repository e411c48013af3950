// SPDX-License-Identifier: GPL-2.0-only
#include "transmit-buffer-queue-disc.h"

#include "ns3/abort.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/log.h"
#include "ns3/object-factory.h"
#include "ns3/queue-size.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TransmitBufferQueueDisc");

NS_OBJECT_ENSURE_REGISTERED(TransmitBufferQueueDisc);

TypeId
TransmitBufferQueueDisc::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TransmitBufferQueueDisc")
            .SetParent<QueueDisc>()
            .SetGroupName("SoftRouter")
            .AddConstructor<TransmitBufferQueueDisc>()
            .AddAttribute("MaxSize",
                          "Packets that may wait, held ones and those the device has no room for",
                          QueueSizeValue(QueueSize("1000p")),
                          MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                          MakeQueueSizeChecker())
            .AddAttribute("BurstSize",
                          "Packets that are handed to the device together; 1: no buffer",
                          UintegerValue(32),
                          MakeUintegerAccessor(&TransmitBufferQueueDisc::m_burstSize),
                          MakeUintegerChecker<uint32_t>(1, 65536))
            .AddAttribute("Timeout",
                          "Time after which the first held packet goes, with those that have "
                          "joined it; must be more than 0 if BurstSize is more than 1",
                          TimeValue(MicroSeconds(100)),
                          MakeTimeAccessor(&TransmitBufferQueueDisc::m_timeout),
                          MakeTimeChecker(Time(0)))
            .AddTraceSource("Burst",
                            "Packets released together",
                            MakeTraceSourceAccessor(&TransmitBufferQueueDisc::m_burstTrace),
                            "ns3::TransmitBufferQueueDisc::BurstTracedCallback");
    return tid;
}

TransmitBufferQueueDisc::TransmitBufferQueueDisc()
    : QueueDisc(QueueDiscSizePolicy::SINGLE_INTERNAL_QUEUE, QueueSizeUnit::PACKETS)
{
    NS_LOG_FUNCTION(this);
}

TransmitBufferQueueDisc::~TransmitBufferQueueDisc()
{
    NS_LOG_FUNCTION(this);
}

void
TransmitBufferQueueDisc::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_timer.Cancel();
    QueueDisc::DoDispose();
}

uint32_t
TransmitBufferQueueDisc::GetHeld() const
{
    return m_held;
}

void
TransmitBufferQueueDisc::Flush()
{
    NS_LOG_FUNCTION(this << m_held);
    if (m_held > 0)
    {
        Release();
        Run();
    }
}

void
TransmitBufferQueueDisc::EndBurst()
{
    NS_LOG_FUNCTION(this << m_held);
    if (m_before == 0 && 2 * m_held >= m_burstSize)
    {
        Flush();
    }
    m_before = m_held;
}

bool
TransmitBufferQueueDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
    NS_LOG_FUNCTION(this << item);
    if (GetCurrentSize() + item > GetMaxSize())
    {
        DropBeforeEnqueue(item, LIMIT_EXCEEDED_DROP);
        return false;
    }
    if (!GetInternalQueue(0)->Enqueue(item))
    {
        return false; // the internal queue's trace has counted the drop
    }
    m_held++;
    if (m_held >= m_burstSize)
    {
        Release(); // the traffic control layer runs us as soon as this returns
    }
    else if (m_held == 1)
    {
        m_due = Simulator::Now() + m_timeout;
        if (m_timer.IsExpired() || m_timer.GetTs() > static_cast<uint64_t>(m_due.GetTimeStep()))
        {
            m_timer.Cancel();
            m_timer = Simulator::Schedule(m_timeout, &TransmitBufferQueueDisc::OnTimer, this);
        }
    }
    return true;
}

Ptr<QueueDiscItem>
TransmitBufferQueueDisc::DoDequeue()
{
    NS_LOG_FUNCTION(this);
    Ptr<InternalQueue> queue = GetInternalQueue(0);
    // First in, first out: the held packets are the last ones.
    return queue->GetNPackets() > m_held ? queue->Dequeue() : nullptr;
}

void
TransmitBufferQueueDisc::Release()
{
    NS_LOG_FUNCTION(this << m_held);
    m_burstTrace(m_held);
    m_held = 0;
    m_before = 0;
}

void
TransmitBufferQueueDisc::OnTimer()
{
    if (m_held == 0)
    {
        return;
    }
    const Time now = Simulator::Now();
    if (now < m_due)
    {
        m_timer = Simulator::Schedule(m_due - now, &TransmitBufferQueueDisc::OnTimer, this);
        return;
    }
    Release();
    Run();
}

bool
TransmitBufferQueueDisc::CheckConfig()
{
    NS_LOG_FUNCTION(this);
    // Debian's ns-3 ignores a false from here, and the queue disc would fail later: say it now.
    NS_ABORT_MSG_IF(GetNQueueDiscClasses() > 0 || GetNPacketFilters() > 0,
                    "TransmitBufferQueueDisc: found classes or packet filters, expected none");
    NS_ABORT_MSG_IF(m_burstSize > 1 && !m_timeout.IsStrictlyPositive(),
                    "TransmitBufferQueueDisc: found BurstSize "
                        << m_burstSize << " and no Timeout, expected a Timeout of more than 0");
    NS_ABORT_MSG_IF(GetMaxSize().GetValue() < m_burstSize,
                    "TransmitBufferQueueDisc: found MaxSize " << GetMaxSize() << " and BurstSize "
                                                              << m_burstSize
                                                              << ", expected room for a burst");
    if (GetNInternalQueues() == 0)
    {
        AddInternalQueue(
            CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize",
                                                                     QueueSizeValue(GetMaxSize())));
    }
    NS_ABORT_MSG_IF(GetNInternalQueues() != 1,
                    "TransmitBufferQueueDisc: found " << GetNInternalQueues()
                                                      << " internal queues, expected one");
    return true;
}

void
TransmitBufferQueueDisc::InitializeParams()
{
    NS_LOG_FUNCTION(this);
    // Nobody runs a queue disc on that stopped at its quota: it must suffice for all that waits.
    SetQuota(std::max(GetQuota(), GetMaxSize().GetValue() + 1));
}

} // namespace ns3
