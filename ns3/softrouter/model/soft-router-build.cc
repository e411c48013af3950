// SPDX-License-Identifier: GPL-2.0-only
// How a router is described (attributes, trace sources) and put together. A packet's path through
// it is in soft-router.cc.
#include "enum-accessor.h"
#include "soft-router.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/node.h"
#include "ns3/object-vector.h"
#include "ns3/pointer.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(SoftRouter);

TypeId
SoftRouter::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::SoftRouter")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<SoftRouter>()
            .AddAttribute("Cores",
                          "Cores that forward.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&SoftRouter::m_cores),
                          MakeUintegerChecker<uint32_t>(1, 1024))
            .AddAttribute("Burst",
                          "Packets that a core takes from a receive ring at once, at most.",
                          UintegerValue(32),
                          MakeUintegerAccessor(&SoftRouter::m_burst),
                          MakeUintegerChecker<uint32_t>(1, 1024))
            .AddAttribute("ReceiveRing",
                          "Packets that fit into a receive ring; each port has one per core.",
                          UintegerValue(512),
                          MakeUintegerAccessor(&SoftRouter::m_receiveRing),
                          MakeUintegerChecker<uint32_t>(1, 65536))
            .AddAttribute("PuntRing",
                          "Packets that wait for the slow path, at most.",
                          UintegerValue(512),
                          MakeUintegerAccessor(&SoftRouter::m_puntRing),
                          MakeUintegerChecker<uint32_t>(1, 65536))
            .AddAttribute("TransmitBuffer",
                          "Packets that a core gathers for a port before they are sent; 1: none. "
                          "With the node's stack, TransmitBufferQueueDisc does that.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&SoftRouter::m_transmitBuffer),
                          MakeUintegerChecker<uint32_t>(1, 1024))
            .AddAttribute("TransmitTimeout",
                          "How long the first of these waits for others.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&SoftRouter::m_transmitTimeout),
                          MakeTimeChecker(Seconds(0), Seconds(1000)))
            .AddAttribute("TransmitWhenIdle",
                          "A core that has looked for packets and found none sends what it has "
                          "gathered. At least half of TransmitBuffer that come in one burst are "
                          "sent at once then, if none wait.",
                          BooleanValue(false),
                          MakeBooleanAccessor(&SoftRouter::m_transmitWhenIdle),
                          MakeBooleanChecker())
            .AddAttribute("PollTime",
                          "Time of a core's look for packets that finds none: what comes meanwhile "
                          "is seen at its end. Zero: a core that is idle sees a packet when it "
                          "comes.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&SoftRouter::m_pollTime),
                          MakeTimeChecker(Seconds(0), Seconds(1)))
            .AddAttribute("FrameOverhead",
                          "Bytes of a frame around what its device hands over: Ethernet header and "
                          "FCS.",
                          UintegerValue(18),
                          MakeUintegerAccessor(&SoftRouter::m_overhead),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("ServiceModel",
                          "How long a burst takes on the fast path.",
                          PointerValue(),
                          MakePointerAccessor(&SoftRouter::m_model),
                          MakePointerChecker<ServiceTimeModel>())
            .AddAttribute("SlowPathModel",
                          "How long a packet takes on the slow path; none: there is no slow path, "
                          "and the fast path finishes all packets.",
                          PointerValue(),
                          MakePointerAccessor(&SoftRouter::m_slowModel),
                          MakePointerChecker<ServiceTimeModel>())
            .AddAttribute("SlowPathCore",
                          "Where the slow path works: on the cores of the fast path while they "
                          "have nothing else to do, or on one of its own.",
                          EnumValue(SHARED),
                          MakeAnyEnumAccessor<SlowPathCore>(&SoftRouter::m_slowPathCore),
                          MakeEnumChecker(SHARED, "Shared", OWN, "Own"))
            .AddAttribute("PuntShare",
                          "Share of the packets, at random, that go to the slow path. Without one "
                          "they only cost what the ServiceModel says.",
                          DoubleValue(0),
                          MakeDoubleAccessor(&SoftRouter::m_puntShare),
                          MakeDoubleChecker<double>(0, 1))
            .AddAttribute("PuntRule",
                          "Which packets go to the slow path; none: no rule.",
                          PointerValue(),
                          MakePointerAccessor(&SoftRouter::m_puntRule),
                          MakePointerChecker<PuntRule>())
            .AddAttribute("SleepAfter",
                          "Idle time after which a core sleeps; negative: it polls and never does.",
                          TimeValue(Seconds(-1)),
                          MakeTimeAccessor(&SoftRouter::m_sleepAfter),
                          MakeTimeChecker())
            .AddAttribute("WakeUpTime",
                          "Time that a sleeping core takes to get to work.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&SoftRouter::m_wakeUpTime),
                          MakeTimeChecker(Seconds(0), Seconds(1000)))
            .AddAttribute("Truncate",
                          "Cut each packet's service time to whole nanoseconds, as the published "
                          "simulation did.",
                          BooleanValue(false),
                          MakeBooleanAccessor(&SoftRouter::m_truncate),
                          MakeBooleanChecker())
            .AddAttribute("SampleInterval",
                          "Time between two reports of utilisation and of sojourn time by Little's "
                          "law; zero: none.",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&SoftRouter::m_sampleInterval),
                          MakeTimeChecker(Seconds(0)))
            .AddAttribute("Contention",
                          "What cores slow each other down by.",
                          TypeId::ATTR_GET,
                          PointerValue(),
                          MakePointerAccessor(&SoftRouter::m_contention),
                          MakePointerChecker<ContentionDomain>())
            .AddAttribute("Distributor",
                          "Which core a packet goes to.",
                          TypeId::ATTR_GET,
                          PointerValue(),
                          MakePointerAccessor(&SoftRouter::m_distributor),
                          MakePointerChecker<RssDistributor>())
            .AddAttribute("Rings",
                          "The receive rings: of port 0 for each core, of port 1 for each core, "
                          "and so on. Their length is a trace source.",
                          ObjectVectorValue(),
                          MakeObjectVectorAccessor(&SoftRouter::m_rings),
                          MakeObjectVectorChecker<NicRing>())
            .AddAttribute("Units",
                          "The task units: one per core, then the slow path's. Their bursts are a "
                          "trace source.",
                          ObjectVectorValue(),
                          MakeObjectVectorAccessor(&SoftRouter::m_units),
                          MakeObjectVectorChecker<TaskUnit>())
            .AddTraceSource("Sojourn",
                            "A packet has left the router, and how long it stayed.",
                            MakeTraceSourceAccessor(&SoftRouter::m_sojournTrace),
                            "ns3::SoftRouter::SojournTracedCallback")
            .AddTraceSource("LittleSojourn",
                            "Mean sojourn time over the last SampleInterval by Little's law: "
                            "packets in the router over the rate of departures (Eq. 4).",
                            MakeTraceSourceAccessor(&SoftRouter::m_littleTrace),
                            "ns3::SoftRouter::LittleTracedCallback")
            .AddTraceSource("Utilisation",
                            "Share of the last SampleInterval that a core was busy.",
                            MakeTraceSourceAccessor(&SoftRouter::m_utilisationTrace),
                            "ns3::SoftRouter::UtilisationTracedCallback")
            .AddTraceSource("Drop",
                            "A packet is lost, and where.",
                            MakeTraceSourceAccessor(&SoftRouter::m_dropTrace),
                            "ns3::SoftRouter::DropTracedCallback");
    return tid;
}

void
SoftRouter::Build(Ptr<Node> node)
{
    NS_ABORT_MSG_UNLESS(m_units.empty(), "A router is built once");
    NS_ABORT_MSG_IF(m_ports.empty(), "A router has no port, expected AddPort() before Build()");
    NS_ABORT_MSG_UNLESS(m_model, "A router has no ServiceModel, expected one before Build()");
    BuildCores();
    BuildFastPath();
    BuildSlowPath();
    BuildTransmitBuffers();
    if (m_forward.IsNull())
    {
        m_tap = CreateObject<SoftRouterTap>();
        node->AddDevice(m_tap);
    }
    m_node = node;
    for (uint32_t port = 0; port < m_ports.size(); port++)
    {
        const uint32_t index = m_ports[port].device->GetIfIndex();
        if (index >= m_portOfDevice.size())
        {
            m_portOfDevice.resize(index + 1, -1);
        }
        m_portOfDevice[index] = static_cast<int32_t>(port);
        m_ports[port].device->SetReceiveCallback(
            MakeCallback(&SoftRouter::ReceiveFromDevice, this));
    }
    if (m_sampleInterval.IsStrictlyPositive())
    {
        m_sampleBusy.assign(m_cores, Time(0));
        m_sample = Simulator::Schedule(m_sampleInterval, &SoftRouter::Sample, this);
    }
}

void
SoftRouter::BuildCores()
{
    for (uint32_t i = 0; i < m_cores; i++)
    {
        m_pool->Add(MakeCore());
    }
    m_contention->SetPool(m_pool);
    m_distributor->SetQueues(m_cores);
    m_received.assign(m_cores, 0);
    // With nobody to share cores with, each task unit keeps its own: no messages, twice the speed.
    if (m_slowModel && m_slowPathCore == SHARED)
    {
        m_manager = CreateObject<LocalResourceManager>();
        m_manager->SetPool(m_pool);
    }
}

void
SoftRouter::BuildFastPath()
{
    for (uint32_t i = 0; i < m_ports.size() * m_cores; i++)
    {
        auto ring = CreateObject<NicRing>();
        ring->SetSize(m_receiveRing);
        m_rings.push_back(ring);
    }
    for (uint32_t core = 0; core < m_cores; core++)
    {
        auto unit = CreateObject<TaskUnit>();
        unit->SetAttribute("BurstSize", UintegerValue(m_burst));
        unit->SetAttribute("Priority", UintegerValue(1));
        unit->SetAttribute("Truncate", BooleanValue(m_truncate));
        unit->SetServiceModel(m_model);
        unit->SetContention(m_contention);
        unit->SetAttribute("PollTime", TimeValue(m_pollTime));
        unit->SetOutput(MakeCallback(&SoftRouter::FastPathDone, this).Bind(core));
        if (m_slowModel || m_model->GetPuntNs() > 0 || m_model->GetPuntBurstNs() > 0)
        {
            unit->SetPunt(MakeCallback(&SoftRouter::IsPunted, this));
        }
        for (uint32_t port = 0; port < m_ports.size(); port++)
        {
            unit->AddQueue(m_rings[port * m_cores + core]);
        }
        Employ(unit, static_cast<int32_t>(core));
        m_units.push_back(unit);
    }
}

void
SoftRouter::BuildSlowPath()
{
    if (!m_slowModel)
    {
        return;
    }
    m_punted = CreateObject<NicRing>();
    m_punted->SetSize(m_puntRing);
    auto unit = CreateObject<TaskUnit>();
    unit->SetAttribute("BurstSize", UintegerValue(1));
    unit->SetAttribute("Priority", UintegerValue(0));
    unit->SetServiceModel(m_slowModel);
    unit->AddQueue(m_punted);
    unit->SetOutput(MakeCallback(&SoftRouter::Deliver, this).Bind(m_cores));
    if (m_slowPathCore == OWN)
    {
        m_slowCore = MakeCore();
        unit->SetCore(m_slowCore);
    }
    else
    {
        Employ(unit, ResourceDemand::ANY);
    }
    m_units.push_back(unit);
}

void
SoftRouter::BuildTransmitBuffers()
{
    for (uint32_t number = 0; number < m_units.size(); number++)
    {
        for (uint32_t port = 0; port < m_ports.size() && !m_forward.IsNull(); port++)
        {
            auto buffer = CreateObject<TransmitBuffer>();
            buffer->SetAttribute("Size", UintegerValue(m_transmitBuffer));
            buffer->SetAttribute("Timeout", TimeValue(m_transmitTimeout));
            buffer->SetAttribute("Together", BooleanValue(m_transmitWhenIdle));
            buffer->SetSend(MakeCallback(&SoftRouter::Transmit, this).Bind(port));
            m_ports[port].buffers.push_back(buffer);
        }
        if (m_transmitWhenIdle)
        {
            m_units[number]->SetHooks(MakeCallback(&SoftRouter::EndBurst, this).Bind(number),
                                      MakeCallback(&SoftRouter::FlushBuffers, this).Bind(number));
        }
    }
}

Ptr<Resource>
SoftRouter::MakeCore() const
{
    auto core = CreateObject<Resource>();
    core->SetAttribute("SleepAfter", TimeValue(m_sleepAfter));
    core->SetAttribute("WakeUpTime", TimeValue(m_wakeUpTime));
    if (m_pausesPerSecond > 0)
    {
        auto pauses = CreateObject<CorePauses>();
        pauses->SetAttribute("PerSecond", DoubleValue(m_pausesPerSecond));
        pauses->SetLengths(m_pausesNs);
        pauses->SetRandom(m_pauseRandom);
        core->SetPauses(pauses);
    }
    return core;
}

void
SoftRouter::Employ(Ptr<TaskUnit> unit, int32_t core)
{
    if (m_manager)
    {
        ResourceDemand demand;
        demand.pool = m_pool;
        demand.index = core;
        unit->SetManager(m_manager, {demand});
        return;
    }
    unit->SetCore(m_pool->Get(core));
}

} // namespace ns3
