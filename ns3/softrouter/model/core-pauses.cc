// SPDX-License-Identifier: GPL-2.0-only
#include "core-pauses.h"

#include "ns3/abort.h"
#include "ns3/double.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(CorePauses);

TypeId
CorePauses::GetTypeId()
{
    static TypeId tid = TypeId("ns3::CorePauses")
                            .SetParent<Object>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<CorePauses>()
                            .AddAttribute("PerSecond",
                                          "Pauses that begin in a second, on the mean.",
                                          DoubleValue(0),
                                          MakeDoubleAccessor(&CorePauses::m_perSecond),
                                          MakeDoubleChecker<double>(0, 1e6));
    return tid;
}

CorePauses::CorePauses()
    : m_random(CreateObject<UniformRandomVariable>())
{
}

CorePauses::~CorePauses()
{
}

void
CorePauses::SetLengths(const std::vector<double>& lengthsNs)
{
    NS_ABORT_MSG_IF(lengthsNs.empty(), "Found no lengths of pauses, expected at least one");
    m_lengths.clear();
    for (const double ns : lengthsNs)
    {
        m_lengths.push_back(Time::FromDouble(ns, Time::NS));
    }
    m_longest = *std::max_element(m_lengths.begin(), m_lengths.end());
}

void
CorePauses::SetRandom(Ptr<UniformRandomVariable> random)
{
    m_random = random;
}

Time
CorePauses::Work(Time work)
{
    m_paused += GetPausedInWork(Time::Max());
    m_pauses.clear();
    m_begun = Simulator::Now();
    Time end = m_begun + work;
    if (m_perSecond <= 0)
    {
        return end;
    }
    if (m_until > m_begun)
    {
        // Whoever had the core before was interrupted in a pause, which lasts.
        m_pauses.push_back({m_begun, m_until});
        end += m_until - m_begun;
    }
    if (!m_drawn || m_next < m_begun)
    {
        // One that passed while the core was idle has cost nothing.
        Next(m_begun);
    }
    for (; m_next < end; Next(m_next))
    {
        // Those that begin in another one follow it.
        const Time from = m_pauses.empty() ? m_next : std::max(m_next, m_pauses.back().to);
        const Time length = GetLength();
        m_pauses.push_back({from, from + length});
        end += length;
    }
    return end;
}

Time
CorePauses::Interrupt()
{
    const Time now = Simulator::Now();
    const Time paused = GetPausedInWork(now);
    for (const auto& pause : m_pauses)
    {
        if (pause.from < now)
        {
            m_until = pause.to;
        }
    }
    m_paused += paused;
    m_pauses.clear();
    // Those that would have begun later on have not been seen by anybody, and have no memory.
    if (m_perSecond > 0)
    {
        Next(now);
    }
    return now - m_begun - paused;
}

Time
CorePauses::Idle(Time until)
{
    if (m_perSecond <= 0)
    {
        return until;
    }
    if (!m_drawn || m_next < until - m_longest)
    {
        // Earlier ones are over by then.
        Next(std::max(until - m_longest, Time(0)));
    }
    for (; m_next < until; Next(m_next))
    {
        m_until = std::max(m_until, m_next + GetLength());
    }
    return std::max(until, m_until);
}

Time
CorePauses::GetPaused() const
{
    return m_paused + GetPausedInWork(Simulator::Now());
}

Time
CorePauses::GetPausedInWork(Time until) const
{
    Time paused;
    for (const auto& pause : m_pauses)
    {
        paused += std::max(std::min(pause.to, until) - pause.from, Time(0));
    }
    return paused;
}

void
CorePauses::Next(Time after)
{
    const double seconds = -std::log1p(-m_random->GetValue(0, 1)) / m_perSecond;
    m_next = after + Time::FromDouble(seconds, Time::S);
    m_drawn = true;
}

Time
CorePauses::GetLength()
{
    return m_lengths[m_random->GetInteger(0, m_lengths.size() - 1)];
}

} // namespace ns3
