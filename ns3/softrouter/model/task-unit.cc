// SPDX-License-Identifier: GPL-2.0-only
#include "task-unit.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/pointer.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TaskUnit);

TypeId
TaskUnit::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TaskUnit")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<TaskUnit>()
            .AddAttribute("BurstSize",
                          "Packets of a burst, at most.",
                          UintegerValue(32),
                          MakeUintegerAccessor(&TaskUnit::m_burstSize),
                          MakeUintegerChecker<uint32_t>(1, 1024))
            .AddAttribute("Priority",
                          "Higher gets resources first.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&TaskUnit::m_priority),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("ServiceModel",
                          "How long a burst takes.",
                          PointerValue(),
                          MakePointerAccessor(&TaskUnit::m_model),
                          MakePointerChecker<ServiceTimeModel>())
            .AddAttribute("Truncate",
                          "Cut the time of each packet to whole nanoseconds, as the published "
                          "simulation did. Otherwise what a time step cannot hold is carried over "
                          "to the next burst, so that no rate depends on the resolution.",
                          BooleanValue(false),
                          MakeBooleanAccessor(&TaskUnit::m_truncate),
                          MakeBooleanChecker())
            .AddAttribute("PollTime",
                          "Time of a look at its queues that finds nothing; zero: it sees a packet "
                          "when it comes.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&TaskUnit::m_pollTime),
                          MakeTimeChecker(Seconds(0), Seconds(1)))
            .AddTraceSource("Burst",
                            "A burst begins: its packets, and how long it takes if not disturbed.",
                            MakeTraceSourceAccessor(&TaskUnit::m_burstTrace),
                            "ns3::TaskUnit::BurstTracedCallback");
    return tid;
}

TaskUnit::TaskUnit()
{
}

TaskUnit::~TaskUnit()
{
}

void
TaskUnit::DoDispose()
{
    m_event.Cancel();
    m_queues.clear();
    m_output = Output();
    m_punt = Punt();
    m_burstEnd = Hook();
    m_nothing = Hook();
    m_home = nullptr;
    m_working = nullptr;
    m_model = nullptr;
    m_contention = nullptr;
    m_core = nullptr;
    m_manager = nullptr;
    m_burst.clear();
    m_done.clear();
    Object::DoDispose();
}

void
TaskUnit::AddQueue(Ptr<NicRing> queue)
{
    m_queues.push_back(queue);
}

void
TaskUnit::SetOutput(Output output)
{
    m_output = output;
}

void
TaskUnit::SetPunt(Punt punt)
{
    m_punt = punt;
}

void
TaskUnit::SetHooks(Hook burstEnd, Hook nothing)
{
    m_burstEnd = burstEnd;
    m_nothing = nothing;
}

void
TaskUnit::SetServiceModel(Ptr<ServiceTimeModel> model)
{
    m_model = model;
}

void
TaskUnit::SetContention(Ptr<ContentionDomain> contention)
{
    m_contention = contention;
}

void
TaskUnit::SetCore(Ptr<Resource> core)
{
    NS_ABORT_MSG_IF(m_manager, "A task unit has a core of its own or a manager, not both");
    m_core = core;
    m_home = core;
}

void
TaskUnit::SetManager(Ptr<ResourceManager> manager, const std::vector<ResourceDemand>& demands)
{
    NS_ABORT_MSG_IF(m_core || m_manager, "A task unit has a core of its own or one manager");
    m_manager = manager;
    m_user = manager->AddUser(this, m_priority, demands);
    const ResourceDemand& first = demands.front();
    m_home = first.index == ResourceDemand::ANY ? nullptr : first.pool->Get(first.index);
}

TaskUnit::State
TaskUnit::GetState() const
{
    return m_state;
}

uint64_t
TaskUnit::GetPackets() const
{
    return m_packets;
}

uint64_t
TaskUnit::GetBursts() const
{
    return m_bursts;
}

void
TaskUnit::Notify()
{
    if (m_state != IDLE || !HasPackets())
    {
        return;
    }
    const Time now = Simulator::Now();
    m_seen = now;
    if (m_pollTime.IsStrictlyPositive())
    {
        // Look by look since the last one that is known: they need no events.
        const int64_t poll = m_pollTime.GetTimeStep();
        const int64_t looks = ((now - m_looked).GetTimeStep() + poll - 1) / poll;
        m_seen = m_looked + Time(looks * poll);
    }
    if (m_home)
    {
        m_seen = m_home->Idle(m_seen);
    }
    // One that sleeps is woken by the packet, not by a look.
    if (m_seen > now && !(m_home && m_home->IsAsleep()))
    {
        m_state = LOOKING;
        m_event = Simulator::Schedule(m_seen - now, &TaskUnit::See, this);
        return;
    }
    Ask();
}

void
TaskUnit::Ask()
{
    m_state = WAITING;
    if (m_manager)
    {
        m_manager->Request(m_user);
        return;
    }
    Reply(m_core ? m_core->Acquire() : Time(0));
}

void
TaskUnit::Reply(Time delay)
{
    delay = std::max(delay, m_seen - Simulator::Now());
    if (!delay.IsStrictlyPositive())
    {
        Begin();
        return;
    }
    // The packets that come while the core wakes up belong to its first burst.
    m_state = WAKING;
    m_event = Simulator::Schedule(delay, &TaskUnit::Begin, this);
}

void
TaskUnit::Revoke()
{
    m_event.Cancel();
    if (m_state == WORKING)
    {
        m_remaining -= m_working ? m_working->Interrupt(m_begun) : Simulator::Now() - m_begun;
    }
    m_state = WAITING;
}

bool
TaskUnit::IsRevocable() const
{
    return m_state != WORKING || m_end > Simulator::Now();
}

void
TaskUnit::Begin()
{
    if (m_burst.empty())
    {
        m_remaining = TakeBurst();
    }
    m_state = WORKING;
    m_begun = Simulator::Now();
    m_working = m_manager ? m_manager->GetHeld(m_user) : m_core;
    const Time work = m_working ? m_working->Work(m_remaining) : m_remaining;
    m_end = m_begun + work;
    m_event = Simulator::Schedule(work, &TaskUnit::Finish, this);
}

Time
TaskUnit::TakeBurst()
{
    NS_ABORT_MSG_UNLESS(m_model, "A task unit has no ServiceModel, expected one");
    while (m_queues[m_turn]->IsEmpty())
    {
        m_turn = (m_turn + 1) % m_queues.size();
    }
    NicRing& queue = *m_queues[m_turn];
    m_turn = (m_turn + 1) % m_queues.size();
    const double ns = TakePackets(queue, std::min(queue.GetLength(), m_burstSize));
    NS_ABORT_MSG_UNLESS(std::isfinite(ns) && ns >= 0,
                        "A service-time model says " << ns << " ns, expected 0 or more");
    if (m_stepsPerNs == 0)
    {
        m_stepsPerNs = 1 / Time(1).ToDouble(Time::NS);
    }
    const double steps = ns * m_stepsPerNs + (m_truncate ? 0 : m_carry);
    const double whole = std::floor(steps);
    m_carry = steps - whole;
    const Time service(static_cast<int64_t>(whole));
    m_bursts++;
    m_burstTrace(m_burst.size(), service);
    return service;
}

double
TaskUnit::TakePackets(NicRing& queue, uint32_t packets)
{
    const ServiceContext context = m_contention ? m_contention->GetContext() : ServiceContext();
    double ns = m_model->GetBurstNs(context);
    bool punted = false;
    for (uint32_t i = 0; i < packets; i++)
    {
        m_burst.push_back(queue.Pop());
        RouterItem& item = m_burst.back();
        double packet = m_model->GetPacketNs(item.frameSize, context);
        if (!m_punt.IsNull() && m_punt(item))
        {
            item.punted = punted = true;
            packet += m_model->GetPuntNs();
        }
        ns += m_truncate ? std::floor(packet) : packet;
    }
    return punted ? ns + m_model->GetPuntBurstNs() : ns;
}

void
TaskUnit::Finish()
{
    std::swap(m_burst, m_done);
    m_packets += m_done.size();
    for (auto& item : m_done)
    {
        m_output(item);
    }
    m_done.clear();
    if (!m_burstEnd.IsNull())
    {
        m_burstEnd();
    }
    const bool more = HasPackets();
    m_state = more ? WAITING : LOOKING;
    if (m_manager)
    {
        m_manager->Release(m_user, more);
    }
    else if (more)
    {
        Begin();
    }
    else if (m_core)
    {
        m_core->Release();
    }
    if (!more)
    {
        Look();
    }
}

void
TaskUnit::Look()
{
    if (m_pollTime.IsZero())
    {
        EndLook();
        return;
    }
    const Time now = Simulator::Now();
    const Time end = m_home ? m_home->Idle(now + m_pollTime) : now + m_pollTime;
    m_event = Simulator::Schedule(end - now, &TaskUnit::EndLook, this);
}

void
TaskUnit::EndLook()
{
    m_looked = Simulator::Now();
    m_seen = m_looked;
    m_state = IDLE;
    if (!m_nothing.IsNull())
    {
        m_nothing();
    }
    if (HasPackets())
    {
        See();
    }
}

void
TaskUnit::See()
{
    if (m_home)
    {
        m_home->KeepAwake();
    }
    Ask();
}

bool
TaskUnit::HasPackets() const
{
    return std::any_of(m_queues.begin(), m_queues.end(), [](const Ptr<NicRing>& queue) {
        return !queue->IsEmpty();
    });
}

} // namespace ns3
