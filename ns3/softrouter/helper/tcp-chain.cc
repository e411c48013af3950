// SPDX-License-Identifier: GPL-2.0-only
#include "tcp-chain.h"

#include "ns3/bulk-send-helper.h"
#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/ethernet-link-helper.h"
#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/ipv4-interface-container.h"
#include "ns3/ipv6-address-helper.h"
#include "ns3/ipv6-interface-container.h"
#include "ns3/ipv6-static-routing-helper.h"
#include "ns3/ipv6-static-routing.h"
#include "ns3/ipv6.h"
#include "ns3/packet-sink-helper.h"
#include "ns3/pointer.h"
#include "ns3/queue.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/soft-router-helper.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

namespace
{

constexpr uint16_t PORT = 5001;       // of receivers
constexpr double STAGGER = 0.05;      // seconds from one flow's start to the next one's
constexpr double ROUTER_DELAY = 2e-4; // seconds, of each link between routers
constexpr double HOST_DELAY = 1e-4;   // seconds, of each link to a receiver

static_assert(TcpChain::LEAST_RTT_MS == 2e3 * (2 * ROUTER_DELAY + HOST_DELAY));

/**
 * \brief Count what a packet takes of the wire.
 * \param bits the counter
 * \param packet from IP header on
 */
void
CountBits(uint64_t* bits, Ptr<const Packet> packet)
{
    *bits += 8 * (packet->GetSize() + 38); // Ethernet header, FCS, preamble and gap
}

/**
 * \brief Count a packet that a queue has no room for.
 * \param count the counter
 */
void
CountDrop(uint64_t* count, Ptr<const Packet> /* packet */)
{
    ++*count;
}

} // namespace

TcpChain::TcpChain(const Setup& setup,
                   const Variant& variant,
                   const SoftRouterProfile& profile,
                   std::ostream* out)
    : m_setup(setup),
      m_variant(variant),
      m_out(out),
      m_flows(setup.flows)
{
    const uint32_t pairs = setup.flows + 1; // the last one has the cross traffic
    m_senders.Create(pairs);
    m_routers.Create(ROUTERS);
    m_receivers.Create(pairs);
    EthernetLinkHelper links;
    links.SetQueueSize(RING);
    links.SetRate(DataRate(static_cast<uint64_t>(HOST_GBPS * 1e9)));
    for (uint32_t flow = 0; flow < pairs; flow++)
    {
        const double oneWay = GetBaseRttMs(setup, std::min(flow, setup.flows - 1)) / 2e3;
        links.SetDelay(Seconds(oneWay - HOST_DELAY - 2 * ROUTER_DELAY));
        m_left.push_back(links.Install(m_senders.Get(flow), m_routers.Get(0)));
        links.SetDelay(Seconds(HOST_DELAY));
        m_right.push_back(links.Install(m_routers.Get(2), m_receivers.Get(flow)));
    }
    links.SetRate(DataRate(static_cast<uint64_t>(LINK_GBPS * 1e9)));
    links.SetDelay(Seconds(ROUTER_DELAY));
    m_middle.push_back(links.Install(m_routers.Get(0), m_routers.Get(1)));
    m_middle.push_back(links.Install(m_routers.Get(1), m_routers.Get(2)));
    InternetStackHelper stack;
    stack.SetIpv4StackInstall(!setup.ipv6);
    stack.SetIpv6StackInstall(setup.ipv6);
    stack.Install(NodeContainer(m_senders, m_routers, m_receivers));
    setup.ipv6 ? AddressIpv6() : AddressIpv4();
    BuildRouters(profile);
    WatchQueues();
    for (uint32_t flow = 0; flow < setup.flows; flow++)
    {
        BuildFlow(flow);
    }
    BuildCross();
}

TcpChain::Found
TcpChain::Run()
{
    const Time start = Seconds(START);
    Simulator::Schedule(start + Seconds(SETTLED), &TcpChain::Begin, this);
    if (m_out)
    {
        Simulator::Schedule(start + MilliSeconds(INTERVAL_MS), &TcpChain::Sample, this);
    }
    Simulator::Schedule(start + Seconds(m_setup.seconds), &TcpChain::End, this);
    Simulator::Run();
    m_found.events = Simulator::GetEventCount();
    m_flows.clear();
    m_cross = nullptr;
    m_cores = {};
    Simulator::Destroy();
    return m_found;
}

double
TcpChain::GetBaseRttMs(const Setup& setup, uint32_t flow)
{
    const double share = setup.flows == 1 ? 0 : flow / (setup.flows - 1.0);
    return setup.shortestMs + share * (setup.longestMs - setup.shortestMs);
}

void
TcpChain::AddressIpv4()
{
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    for (const auto& link : m_middle)
    {
        addresses.Assign(link);
        addresses.NewNetwork();
    }
    for (uint32_t flow = 0; flow < m_left.size(); flow++)
    {
        addresses.Assign(m_left[flow]);
        addresses.NewNetwork();
        const auto right = addresses.Assign(m_right[flow]);
        addresses.NewNetwork();
        m_destinations.push_back(InetSocketAddress(right.GetAddress(1), PORT));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
}

void
TcpChain::AddressIpv6()
{
    // fd00:1::/32 is to the left of the routers, fd00:2::/32 to the right, fd00:3::/32 between
    // them.
    Ipv6AddressHelper addresses;
    const auto assign = [&addresses](const NetDeviceContainer& link, const std::string& network) {
        addresses.SetBase(Ipv6Address(network.c_str()), Ipv6Prefix(64));
        return addresses.Assign(link);
    };
    for (uint32_t flow = 0; flow < m_left.size(); flow++)
    {
        const std::string number = std::to_string(flow + 1);
        auto left = assign(m_left[flow], "fd00:1:0:" + number + "::");
        left.SetForwarding(1, true);
        left.SetDefaultRouteInAllNodes(1);
        auto right = assign(m_right[flow], "fd00:2:0:" + number + "::");
        right.SetForwarding(0, true);
        right.SetDefaultRouteInAllNodes(0);
        m_destinations.push_back(Inet6SocketAddress(right.GetAddress(1, 1), PORT));
    }
    const auto route = [](Ptr<NetDevice> device, const char* to, const Ipv6Address& next) {
        const auto ipv6 = device->GetNode()->GetObject<Ipv6>();
        Ipv6StaticRoutingHelper().GetStaticRouting(ipv6)->AddNetworkRouteTo(
            Ipv6Address(to),
            Ipv6Prefix(32),
            next,
            ipv6->GetInterfaceForDevice(device));
    };
    for (uint32_t link = 0; link < m_middle.size(); link++)
    {
        auto between = assign(m_middle[link], "fd00:3:0:" + std::to_string(link + 1) + "::");
        between.SetForwarding(0, true);
        between.SetForwarding(1, true);
        route(m_middle[link].Get(0), "fd00:2::", between.GetLinkLocalAddress(1));
        route(m_middle[link].Get(1), "fd00:1::", between.GetLinkLocalAddress(0));
    }
}

void
TcpChain::BuildRouters(const SoftRouterProfile& profile)
{
    SoftRouterProfile rings = profile;
    rings.receiveRing = RING;
    rings.transmitRing = RING;
    for (uint32_t router = 0; router < ROUTERS; router++)
    {
        if (m_variant.cores[router] > 0)
        {
            SoftRouterHelper helper;
            helper.Set("Cores", UintegerValue(m_variant.cores[router]));
            m_cores[router] = helper.Install(m_routers.Get(router), rings);
        }
    }
}

void
TcpChain::WatchQueues()
{
    const auto count = [](Ptr<NetDevice> device, uint64_t& drops) {
        PointerValue queue;
        device->GetAttribute("TxQueue", queue);
        queue.GetObject()->TraceConnectWithoutContext("Drop",
                                                      MakeBoundCallback(&CountDrop, &drops));
    };
    for (uint32_t flow = 0; flow < m_left.size(); flow++)
    {
        count(m_left[flow].Get(0), m_found.hostDrops);
        count(m_left[flow].Get(1), m_found.transmitDrops[0]);
        count(m_right[flow].Get(0), m_found.transmitDrops[2]);
        count(m_right[flow].Get(1), m_found.hostDrops);
    }
    for (uint32_t link = 0; link < m_middle.size(); link++)
    {
        count(m_middle[link].Get(0), m_found.transmitDrops[link]);
        count(m_middle[link].Get(1), m_found.transmitDrops[link + 1]);
    }
}

Address
TcpChain::GetAny() const
{
    if (m_setup.ipv6)
    {
        return Inet6SocketAddress(Ipv6Address::GetAny(), PORT);
    }
    return InetSocketAddress(Ipv4Address::GetAny(), PORT);
}

void
TcpChain::BuildFlow(uint32_t flow)
{
    PacketSinkHelper sink("ns3::TcpSocketFactory", GetAny());
    m_flows[flow].sink = DynamicCast<PacketSink>(sink.Install(m_receivers.Get(flow)).Get(0));
    m_right[flow].Get(1)->TraceConnectWithoutContext("MacRx",
                                                     MakeBoundCallback(&CountBits, &m_bits));
    const Time start = Seconds(START + STAGGER * flow);
    BulkSendHelper source("ns3::TcpSocketFactory", m_destinations[flow]);
    source.SetAttribute("MaxBytes", UintegerValue(0)); // without end
    source.Install(m_senders.Get(flow)).Start(start);
    // By then it has its socket, and no answer yet.
    Simulator::Schedule(start + MicroSeconds(1), &TcpChain::WatchSocket, this, flow);
}

void
TcpChain::BuildCross()
{
    const double pps = m_setup.cross * LINK_GBPS * 1e9 / (8 * (FRAME + 20));
    if (pps <= 0)
    {
        return;
    }
    RngSeedManager::SetSeed(m_setup.seed);
    m_gap = CreateObject<ExponentialRandomVariable>();
    m_gap->SetAttribute("Mean", DoubleValue(1 / pps));
    m_gap->SetStream(1);
    PacketSinkHelper sink("ns3::UdpSocketFactory", GetAny());
    sink.Install(m_receivers.Get(m_setup.flows));
    m_cross = Socket::CreateSocket(m_senders.Get(m_setup.flows), UdpSocketFactory::GetTypeId());
    m_setup.ipv6 ? m_cross->Bind6() : m_cross->Bind();
    m_cross->Connect(m_destinations[m_setup.flows]);
    Simulator::Schedule(Seconds(START), &TcpChain::SendCross, this);
}

void
TcpChain::SendCross()
{
    const uint32_t headers = m_setup.ipv6 ? 48 : 28;
    m_cross->Send(Create<Packet>(FRAME - 18 - headers));
    Simulator::Schedule(Seconds(m_gap->GetValue()), &TcpChain::SendCross, this);
}

} // namespace ns3
