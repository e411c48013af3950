// SPDX-License-Identifier: GPL-2.0-only
#include "router-testbed.h"

#include "ethernet-link-helper.h"
#include "soft-router-helper.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/data-rate.h"
#include "ns3/enum.h"
#include "ns3/node.h"
#include "ns3/object-factory.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

namespace
{

constexpr uint32_t END_DEVICE_QUEUE = 65536; // packets

} // namespace

RouterTestbed::Setup
RouterTestbed::Setup::Saturated(const SoftRouterProfile& profile,
                                uint32_t flows,
                                uint32_t maxCores,
                                uint32_t size)
{
    Setup setup;
    setup.profile = profile;
    setup.flows = flows;
    setup.cores = std::min(flows, maxCores);
    setup.pinned = flows <= maxCores;
    setup.directions = flows == 1 ? 1 : 2;
    setup.rateGbps = profile.linkGbps * setup.directions;
    setup.sizes = {{size, 1.0}};
    return setup;
}

double
RouterTestbed::Result::GetLoss() const
{
    // From the drops, not from what is missing: packets are on their way when it begins and ends.
    uint64_t lost = 0;
    for (const uint64_t dropped : drops)
    {
        lost += dropped;
    }
    // Some of those dropped behind the receive ring were received before it began.
    return received == 0 ? 0 : std::min(1.0, static_cast<double>(lost) / received);
}

RouterTestbed::Result
RouterTestbed::Run(const Setup& setup)
{
    NS_ABORT_MSG_UNLESS(setup.directions == 1 || setup.directions == 2,
                        "Found " << setup.directions << " directions, expected 1 or 2");
    NS_ABORT_MSG_IF(setup.flows == 0, "Found no flows, expected at least one");
    NS_ABORT_MSG_IF(setup.profile.ports < 2 || setup.profile.ports % 2 != 0,
                    "Found " << setup.profile.ports << " ports, expected pairs of them");
    // With few events ahead, as here, it is a fifth faster than the default.
    ObjectFactory scheduler;
    scheduler.SetTypeId("ns3::PriorityQueueScheduler");
    Simulator::SetScheduler(scheduler);
    RngSeedManager::SetSeed(setup.seed);
    RngSeedManager::SetRun(1);
    RouterTestbed testbed(setup);
    testbed.Build();
    Simulator::Schedule(Seconds(setup.warmUp), &RouterTestbed::Begin, &testbed);
    Simulator::Schedule(Seconds(setup.warmUp + setup.duration), &RouterTestbed::End, &testbed);
    Simulator::Run();
    testbed.m_result.events = Simulator::GetEventCount();
    testbed.m_sources.clear();
    testbed.m_sinks.clear();
    testbed.m_router = nullptr;
    Simulator::Destroy();
    return testbed.m_result;
}

RouterTestbed::RouterTestbed(const Setup& setup)
    : m_setup(setup)
{
}

void
RouterTestbed::Build()
{
    NodeContainer nodes;
    nodes.Create(3);
    const Ptr<Node> router = nodes.Get(1);
    EthernetLinkHelper links;
    links.SetRate(DataRate(static_cast<uint64_t>(std::llround(m_setup.profile.linkGbps * 1e9))));
    links.SetQueueSize(m_setup.profile.transmitRing);
    links.SetMtu(FrameSource::MAX_SIZE);
    links.SetRaw(true);
    const uint32_t pairs = m_setup.profile.ports / 2;
    for (uint32_t pair = 0; pair < pairs; pair++)
    {
        // So that the router's ports are 2 pair, towards the first end device, and 2 pair + 1.
        const auto left = links.Install(nodes.Get(0), router);
        const auto right = links.Install(router, nodes.Get(2));
        // What comes faster than a link is no matter of the router's, whatever ring that has.
        left.Get(0)->SetAttribute("QueueSize", UintegerValue(END_DEVICE_QUEUE));
        right.Get(1)->SetAttribute("QueueSize", UintegerValue(END_DEVICE_QUEUE));
        AddTraffic(pair, 0, left.Get(0), right.Get(1));
        if (m_setup.directions == 2)
        {
            AddTraffic(pair, 1, right.Get(1), left.Get(0));
        }
    }
    SoftRouterHelper helper;
    helper.Set("Cores", UintegerValue(m_setup.cores));
    helper.Set("Truncate", BooleanValue(m_setup.truncate));
    helper.SetForward(MakeCallback(&SoftRouterHelper::CrossConnect));
    const bool twoWay = m_setup.directions == 2;
    helper.SetContention("Direction",
                         EnumValue(twoWay ? ContentionDomain::TWO_WAY : ContentionDomain::ONE_WAY));
    m_router = helper.Install(router, m_setup.profile);
    m_router->AssignStreams(1000);
    if (m_setup.pinned)
    {
        const uint32_t cores = m_setup.cores;
        m_router->SetDistribute(SoftRouter::Distribute([cores](const RouterItem& item) {
            // The last two bytes of the source address are the flow's number.
            uint8_t header[16];
            item.packet->CopyData(header, sizeof(header));
            return ((header[14] << 8U) | header[15]) % cores;
        }));
    }
}

void
RouterTestbed::AddTraffic(uint32_t pair, uint32_t direction, Ptr<NetDevice> from, Ptr<NetDevice> to)
{
    auto sink = CreateObject<FrameSink>();
    sink->Attach(to);
    m_sinks.push_back(sink);
    const uint32_t pairs = m_setup.profile.ports / 2;
    const uint32_t first = pair * m_setup.directions + direction;
    const uint32_t step = m_setup.directions * pairs;
    if (first >= m_setup.flows)
    {
        return;
    }
    const uint32_t flows = (m_setup.flows - first + step - 1) / step;
    const uint32_t ofDirection =
        (m_setup.flows - direction + m_setup.directions - 1) / m_setup.directions;
    const double gbps = m_setup.rateGbps / m_setup.directions * flows / ofDirection;
    auto source = CreateObject<FrameSource>();
    source->SetAttribute("Rate",
                         DataRateValue(DataRate(static_cast<uint64_t>(std::llround(gbps * 1e9)))));
    source->SetAttribute("Poisson", BooleanValue(m_setup.poisson));
    source->SetDevice(from);
    source->SetFlows(first, step, flows);
    for (const auto& [bytes, weight] : m_setup.sizes)
    {
        source->AddSize(bytes, weight);
    }
    source->AssignStreams(static_cast<int64_t>(m_sources.size()) * 10);
    source->SetStopTime(Seconds(m_setup.warmUp + m_setup.duration));
    from->GetNode()->AddApplication(source);
    m_sources.push_back(source);
}

void
RouterTestbed::Begin()
{
    for (uint32_t core = 0; core < m_setup.cores; core++)
    {
        m_busy.push_back(m_router->GetCores()->Get(core)->GetBusyTime());
        m_received.push_back(m_router->GetReceived(core));
        m_units += m_router->GetUnits()[core]->GetPackets();
        m_bursts += m_router->GetUnits()[core]->GetBursts();
    }
    for (uint32_t cause = 0; cause < SoftRouter::DROP_CAUSES; cause++)
    {
        m_drops[cause] = m_router->GetDrops(static_cast<SoftRouter::DropCause>(cause));
    }
    for (const auto& source : m_sources)
    {
        m_before += source->GetOffered();
        source->ResetCounters();
    }
    for (const auto& sink : m_sinks)
    {
        sink->Reset();
    }
    m_router->GetMeter().Reset(Simulator::Now());
}

void
RouterTestbed::End()
{
    Result& result = m_result;
    result.seconds = m_setup.duration;
    for (const auto& source : m_sources)
    {
        result.offered += source->GetOffered();
        result.refused += source->GetRefused();
        result.offeredGbps +=
            8 * (source->GetOfferedBytes() + 20.0 * source->GetOffered()) / m_setup.duration / 1e9;
    }
    result.packets = m_before + result.offered;
    for (const auto& sink : m_sinks)
    {
        result.accepted += sink->GetPackets();
        const double between = (sink->GetLast() - sink->GetFirst()).ToDouble(Time::NS);
        if (sink->GetPackets() > 1 && between > 0)
        {
            // From the first packet to the last, there is one gap less than there are packets.
            const double gaps = static_cast<double>(sink->GetPackets() - 1) / sink->GetPackets();
            result.acceptedGbps += sink->GetWireBits() * gaps / between;
            result.acceptedPps += sink->GetPackets() * gaps / between * 1e9;
        }
    }
    for (uint32_t cause = 0; cause < SoftRouter::DROP_CAUSES; cause++)
    {
        result.drops[cause] =
            m_router->GetDrops(static_cast<SoftRouter::DropCause>(cause)) - m_drops[cause];
    }
    uint64_t units = 0;
    uint64_t bursts = 0;
    for (uint32_t core = 0; core < m_setup.cores; core++)
    {
        const Time busy = m_router->GetCores()->Get(core)->GetBusyTime() - m_busy[core];
        result.utilisation.push_back(busy.ToDouble(Time::S) / m_setup.duration);
        result.shares.push_back(
            static_cast<double>(m_router->GetReceived(core) - m_received[core]));
        result.received += m_router->GetReceived(core) - m_received[core];
        units += m_router->GetUnits()[core]->GetPackets();
        bursts += m_router->GetUnits()[core]->GetBursts();
    }
    for (double& share : result.shares)
    {
        share = result.received == 0 ? 0 : share / result.received;
    }
    result.batchMean =
        bursts == m_bursts ? 0 : static_cast<double>(units - m_units) / (bursts - m_bursts);
    const SojournMeter& meter = m_router->GetMeter();
    result.meanNs = meter.GetMeanNs();
    result.p50Ns = meter.GetPercentileNs(0.5);
    result.p90Ns = meter.GetPercentileNs(0.9);
    result.p99Ns = meter.GetPercentileNs(0.99);
    result.p999Ns = meter.GetPercentileNs(0.999);
    result.maxNs = meter.GetMaxNs();
    result.littleNs = meter.GetLittleNs(Simulator::Now());
    Simulator::Stop();
}

} // namespace ns3
