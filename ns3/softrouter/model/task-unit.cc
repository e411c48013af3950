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
}

void
TaskUnit::SetManager(Ptr<ResourceManager> manager, const std::vector<ResourceDemand>& demands)
{
    NS_ABORT_MSG_IF(m_core || m_manager, "A task unit has a core of its own or one manager");
    m_manager = manager;
    m_user = manager->AddUser(this, m_priority, demands);
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
    if (delay.IsZero())
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
        m_remaining -= Simulator::Now() - m_begun;
    }
    m_state = WAITING;
}

bool
TaskUnit::IsRevocable() const
{
    return m_state != WORKING || m_begun + m_remaining > Simulator::Now();
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
    m_event = Simulator::Schedule(m_remaining, &TaskUnit::Finish, this);
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
    for (uint32_t i = 0; i < packets; i++)
    {
        m_burst.push_back(queue.Pop());
        const double packet = m_model->GetPacketNs(m_burst.back().frameSize, context);
        ns += m_truncate ? std::floor(packet) : packet;
    }
    return ns;
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
    const bool more = HasPackets();
    m_state = more ? WAITING : IDLE;
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
}

bool
TaskUnit::HasPackets() const
{
    return std::any_of(m_queues.begin(), m_queues.end(), [](const Ptr<NicRing>& queue) {
        return !queue->IsEmpty();
    });
}

} // namespace ns3
