// SPDX-License-Identifier: GPL-2.0-only
#include "split-network.h"

#include "ns3/boolean.h"
#include "ns3/bulk-send-helper.h"
#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/ethernet-link-helper.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/ipv4-interface-container.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/ipv4-static-routing.h"
#include "ns3/ipv4.h"
#include "ns3/packet-sink-helper.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/soft-router-helper.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace ns3
{

namespace
{

constexpr uint32_t HOSTS = 3;       // on each side; the first one has frames, the others TCP
constexpr uint32_t FLOWS = 100;     // of frames
constexpr uint32_t FRAME = 64;      // bytes
constexpr double FRAME_GBPS = 0.6;  // of frames on the wire, at random times
constexpr uint32_t QUEUE = 64;      // packets of each transmit ring
constexpr uint16_t PORT = 5001;     // of TCP receivers
constexpr double HOST_DELAY = 1e-4; // seconds
constexpr double CUT_DELAY = 5e-4;  // seconds: what ranks may be apart in time

const char* const NAMES[SplitNetwork::COUNTERS] = {"packets that the router received",
                                                   "packets that it forwarded",
                                                   "packets lost in its receive rings",
                                                   "packets lost in its transmit rings",
                                                   "bursts of its core",
                                                   "their sojourn times, added up, ps",
                                                   "frames sent by the end device",
                                                   "frames that came to the end device",
                                                   "bytes that came by TCP"};

} // namespace

const char*
SplitNetwork::GetName(uint32_t counter)
{
    return NAMES[counter];
}

std::string
SplitNetwork::Describe(const Setup& setup, const std::array<Counts, 2>& counts)
{
    std::ostringstream text;
    text << std::fixed << std::setprecision(3);
    for (uint32_t half = 0; half < 2; half++)
    {
        const Counts& mine = counts[half];
        if (half % setup.ranks != setup.rank)
        {
            continue;
        }
        text << "rank " << setup.rank << " of " << setup.ranks << ": the "
             << (half == 0 ? "first" : "second") << " router received " << mine[RECEIVED]
             << " packets, forwarded " << mine[FORWARDED] << ", lost " << mine[RECEIVE_RING]
             << " in receive and " << mine[TRANSMIT_RING] << " in transmit rings,\n  had "
             << mine[BURSTS] << " bursts and a mean sojourn time of "
             << mine[SOJOURN] * 1e-6 / std::max<uint64_t>(mine[FORWARDED], 1)
             << " us; end devices sent " << mine[FRAMES_SENT] << " frames, got "
             << mine[FRAMES_ARRIVED] << ", and " << mine[TCP_BYTES] << " bytes by TCP\n";
    }
    return text.str();
}

SplitNetwork::SplitNetwork(const Setup& setup)
    : m_setup(setup)
{
    RngSeedManager::SetSeed(setup.seed);
    BuildNetwork();
    BuildRouters();
    BuildTraffic();
}

uint32_t
SplitNetwork::GetRank(uint32_t half) const
{
    return half % m_setup.ranks;
}

bool
SplitNetwork::IsHere(uint32_t half) const
{
    return GetRank(half) == m_setup.rank;
}

void
SplitNetwork::BuildNetwork()
{
    EthernetLinkHelper links;
    links.SetRate(DataRate("10Gbps"));
    links.SetQueueSize(QUEUE);
    links.SetDelay(Seconds(HOST_DELAY));
    for (uint32_t half = 0; half < 2; half++)
    {
        m_nodes[half] = CreateObject<Node>(GetRank(half));
        m_hosts[half].Create(HOSTS, GetRank(half));
        for (uint32_t host = 0; host < HOSTS; host++)
        {
            m_links[half].push_back(links.Install(m_nodes[half], m_hosts[half].Get(host)));
        }
    }
    links.SetRate(DataRate("1Gbps"));
    links.SetDelay(Seconds(CUT_DELAY));
    m_cut = links.Install(m_nodes[0], m_nodes[1]);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    for (uint32_t half = 0; half < 2; half++)
    {
        stack.Install(NodeContainer(m_hosts[half], m_nodes[half]));
    }
    const Ipv4Address second = addresses.Assign(m_cut).GetAddress(1);
    for (uint32_t half = 0; half < 2; half++)
    {
        for (const auto& link : m_links[half])
        {
            addresses.NewNetwork();
            const auto assigned = addresses.Assign(link);
            if (half == 1)
            {
                m_receivers.push_back(assigned.GetAddress(1));
            }
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    RouteFrames(m_cut.Get(0), second);
    RouteFrames(m_links[1][0].Get(0), m_receivers[0]);
}

void
SplitNetwork::RouteFrames(Ptr<NetDevice> device, Ipv4Address next)
{
    const auto ipv4 = device->GetNode()->GetObject<Ipv4>();
    Ipv4StaticRoutingHelper().GetStaticRouting(ipv4)->AddNetworkRouteTo(
        "198.19.0.0",
        "255.255.0.0",
        next,
        ipv4->GetInterfaceForDevice(device));
}

void
SplitNetwork::BuildRouters()
{
    const SoftRouterHelper helper;
    m_setup.profile.transmitRing = QUEUE;
    for (uint32_t half = 0; half < 2; half++)
    {
        m_routers[half] = helper.Install(m_nodes[half], m_setup.profile);
        if (!m_routers[half])
        {
            continue; // the other rank has it
        }
        uint64_t& sum = m_sojourn[half];
        const auto add = [&sum](Ptr<const Packet>, Time sojourn) {
            sum += static_cast<uint64_t>(sojourn.GetPicoSeconds());
        };
        m_routers[half]->TraceConnectWithoutContext("Sojourn",
                                                    Callback<void, Ptr<const Packet>, Time>(add));
    }
}

void
SplitNetwork::BuildTraffic()
{
    for (uint32_t host = 1; host < HOSTS; host++)
    {
        if (IsHere(0))
        {
            BulkSendHelper sender("ns3::TcpSocketFactory",
                                  InetSocketAddress(m_receivers[host], PORT));
            sender.SetAttribute("MaxBytes", UintegerValue(0)); // without end
            sender.Install(m_hosts[0].Get(host));
        }
        if (IsHere(1))
        {
            PacketSinkHelper receiver("ns3::TcpSocketFactory",
                                      InetSocketAddress(Ipv4Address::GetAny(), PORT));
            const auto apps = receiver.Install(m_hosts[1].Get(host));
            m_tcp.push_back(DynamicCast<PacketSink>(apps.Get(0)));
        }
    }
    if (IsHere(0))
    {
        m_source = CreateObject<FrameSource>();
        m_source->SetAttribute("Rate",
                               DataRateValue(DataRate(static_cast<uint64_t>(FRAME_GBPS * 1e9))));
        m_source->SetAttribute("Poisson", BooleanValue(true));
        m_source->SetDevice(m_links[0][0].Get(1));
        m_source->SetFlows(0, 1, FLOWS);
        m_source->AddSize(FRAME, 1);
        // Streams that are given out by turns would not be the same on one rank and on two.
        m_source->AssignStreams(1);
        m_hosts[0].Get(0)->AddApplication(m_source);
    }
    if (IsHere(1))
    {
        m_sink = CreateObject<FrameSink>();
        m_sink->Attach(m_links[1][0].Get(1));
    }
}

std::array<SplitNetwork::Counts, 2>
SplitNetwork::Run()
{
    Simulator::Stop(Seconds(m_setup.seconds));
    Simulator::Run();
    std::array<Counts, 2> counts{};
    for (uint32_t half = 0; half < 2; half++)
    {
        if (const auto router = m_routers[half])
        {
            counts[half][RECEIVED] = router->GetReceived();
            counts[half][FORWARDED] = router->GetForwarded();
            counts[half][RECEIVE_RING] = router->GetDrops(SoftRouter::RECEIVE_RING);
            counts[half][TRANSMIT_RING] = router->GetDrops(SoftRouter::TRANSMIT_RING);
            counts[half][SOJOURN] = m_sojourn[half];
            for (const auto& unit : router->GetUnits())
            {
                counts[half][BURSTS] += unit->GetBursts();
            }
        }
    }
    counts[0][FRAMES_SENT] = m_source ? m_source->GetOffered() : 0;
    counts[1][FRAMES_ARRIVED] = m_sink ? m_sink->GetPackets() : 0;
    for (const auto& sink : m_tcp)
    {
        counts[1][TCP_BYTES] += sink->GetTotalRx();
    }
    m_routers = {};
    m_source = nullptr;
    m_sink = nullptr;
    m_tcp.clear();
    Simulator::Destroy();
    return counts;
}

} // namespace ns3
