// SPDX-License-Identifier: GPL-2.0-only
#include "resource.h"

#include "ns3/abort.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(Resource);

TypeId
Resource::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::Resource")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<Resource>()
            .AddAttribute("SleepAfter",
                          "Idle time after which it sleeps; negative: it never does.",
                          TimeValue(Seconds(-1)),
                          MakeTimeAccessor(&Resource::m_sleepAfter),
                          MakeTimeChecker())
            .AddAttribute("WakeUpTime",
                          "Time from a task for a sleeping resource until it can begin.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&Resource::m_wakeUpTime),
                          MakeTimeChecker(Seconds(0)))
            .AddTraceSource("Sleep",
                            "It has slept; fired when it is woken, with when it began and how "
                            "long it took.",
                            MakeTraceSourceAccessor(&Resource::m_sleepTrace),
                            "ns3::Resource::SleepTracedCallback")
            .AddTraceSource("Busy",
                            "It was taken (true) or given back (false).",
                            MakeTraceSourceAccessor(&Resource::m_busyTrace),
                            "ns3::Resource::BusyTracedCallback");
    return tid;
}

Resource::Resource()
{
}

Resource::~Resource()
{
}

Time
Resource::Acquire()
{
    NS_ABORT_MSG_IF(!m_free, "A resource was taken that somebody holds");
    const Time now = Simulator::Now();
    if (IsAsleep(now))
    {
        // Found out only now: an event for every idle moment would cost more than it tells.
        const Time fell = m_since + m_sleepAfter;
        m_sleepTime += now - fell;
        m_wakeUps++;
        m_ready = now + m_wakeUpTime;
        m_sleepTrace(fell, now - fell);
    }
    m_free = false;
    m_since = now;
    m_pausedBefore = m_pauses ? m_pauses->GetPaused() : Time(0);
    m_busyTrace(this, true);
    // One that was revoked from its holder while it woke up is still waking.
    return std::max(m_ready - now, Time(0));
}

void
Resource::Release()
{
    NS_ABORT_MSG_IF(m_free, "A resource was given back that nobody holds");
    const Time now = Simulator::Now();
    m_busyTime += GetHeldTime();
    m_since = now;
    m_free = true;
    m_busyTrace(this, false);
}

void
Resource::SetPauses(Ptr<CorePauses> pauses)
{
    m_pauses = pauses;
}

Time
Resource::Work(Time work)
{
    return m_pauses ? m_pauses->Work(work) - Simulator::Now() : work;
}

Time
Resource::Interrupt(Time begun)
{
    return m_pauses ? m_pauses->Interrupt() : Simulator::Now() - begun;
}

Time
Resource::Idle(Time until)
{
    return m_pauses ? m_pauses->Idle(until) : until;
}

void
Resource::KeepAwake()
{
    if (m_free)
    {
        m_since = Simulator::Now();
    }
}

bool
Resource::IsAsleep() const
{
    return IsAsleep(Simulator::Now());
}

bool
Resource::IsFree() const
{
    return m_free;
}

Time
Resource::GetBusyTime() const
{
    return m_free ? m_busyTime : m_busyTime + GetHeldTime();
}

Time
Resource::GetHeldTime() const
{
    const Time held = Simulator::Now() - m_since;
    return m_pauses ? held - (m_pauses->GetPaused() - m_pausedBefore) : held;
}

Time
Resource::GetSleepTime() const
{
    const Time now = Simulator::Now();
    return IsAsleep(now) ? m_sleepTime + (now - m_since - m_sleepAfter) : m_sleepTime;
}

bool
Resource::IsAsleep(Time now) const
{
    // One that is given back and taken in the same instant had no time to fall asleep.
    return m_free && !m_sleepAfter.IsStrictlyNegative() && now > m_since && now >= m_ready &&
           now - m_since >= m_sleepAfter;
}

uint64_t
Resource::GetWakeUps() const
{
    return m_wakeUps;
}

} // namespace ns3
