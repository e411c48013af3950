// SPDX-License-Identifier: GPL-2.0-only
// A router with finite hardware in ns-3's own networks, and as the published case study measured
// it.
#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4.h"
#include "ns3/ipv6-address-helper.h"
#include "ns3/ipv6-interface-container.h"
#include "ns3/ipv6.h"
#include "ns3/node-container.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/pointer.h"
#include "ns3/queue-disc.h"
#include "ns3/router-testbed.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/soft-router-helper.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \param ns of each packet
 * \return a profile in which each packet takes that
 */
SoftRouterProfile
FixedProfile(double ns)
{
    SoftRouterProfile profile;
    profile.name = "made up for a test";
    profile.model.SetTypeId("ns3::LinearContentionServiceTimeModel");
    profile.model.Set("C0", DoubleValue(ns), "D", DoubleValue(0), "U", DoubleValue(0));
    return profile;
}

/// Two hosts with a router between them, of ns-3's ordinary parts; UDP from one to the other.
class Network
{
  public:
    /**
     * \param rate of both links
     * \param ipv6 whether there is IPv6, which sends a few packets by itself
     */
    explicit Network(const std::string& rate, bool ipv6 = false)
    {
        nodes.Create(3);
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", StringValue(rate));
        link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(10)));
        const auto left = link.Install(nodes.Get(0), nodes.Get(1));
        const auto right = link.Install(nodes.Get(1), nodes.Get(2));
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(ipv6);
        stack.Install(nodes);
        Ipv4AddressHelper ipv4;
        ipv4.SetBase("10.0.1.0", "255.255.255.0");
        ipv4.Assign(left);
        ipv4.SetBase("10.0.2.0", "255.255.255.0");
        ipv4.Assign(right);
        if (ipv6)
        {
            AddIpv6(left, right);
        }
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
        ports.Add(left.Get(1));
        ports.Add(right.Get(0));
    }

    /**
     * \brief Give the devices IPv6 addresses too.
     * \param left devices of the first link
     * \param right devices of the second
     */
    void AddIpv6(const NetDeviceContainer& left, const NetDeviceContainer& right)
    {
        Ipv6AddressHelper ipv6;
        ipv6.SetBase("fd00:1::", Ipv6Prefix(64));
        auto first = ipv6.Assign(left);
        first.SetForwarding(1, true);
        first.SetDefaultRouteInAllNodes(1);
        ipv6.SetBase("fd00:2::", Ipv6Prefix(64));
        auto second = ipv6.Assign(right);
        second.SetForwarding(0, true);
        second.SetDefaultRouteInAllNodes(0);
        destination6 = second.GetAddress(1, 1);
    }

    /**
     * \brief Open the sockets, once the router is what it should be.
     */
    void Open()
    {
        const auto factory = UdpSocketFactory::GetTypeId();
        receiver = Socket::CreateSocket(nodes.Get(2), factory);
        receiver->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        receiver->SetRecvCallback(MakeCallback(&Network::Received, this));
        sender = Socket::CreateSocket(nodes.Get(0), factory);
        if (!nodes.Get(0)->GetObject<Ipv6>())
        {
            return;
        }
        receiver6 = Socket::CreateSocket(nodes.Get(2), factory);
        receiver6->Bind(Inet6SocketAddress(Ipv6Address::GetAny(), 9));
        receiver6->SetRecvCallback(MakeCallback(&Network::Received, this));
        sender6 = Socket::CreateSocket(nodes.Get(0), factory);
        sender6->Bind6();
    }

    /**
     * \brief Send datagrams from the first host to the last.
     * \param packets how many
     * \param gap between two
     * \param start when
     */
    void Send(uint32_t packets, Time gap, Time start)
    {
        for (uint32_t i = 0; i < packets; i++)
        {
            Simulator::Schedule(start + gap * i, [this]() {
                sender->SendTo(Create<Packet>(100), 0, InetSocketAddress("10.0.2.2", 9));
            });
        }
    }

    /**
     * \brief Send one datagram over IPv6 now.
     */
    void Send6()
    {
        // ns-3 drops what goes to the documentation prefix.
        sender6->SendTo(Create<Packet>(100), 0, Inet6SocketAddress(destination6, 9));
    }

    /// \param socket with datagrams
    void Received(Ptr<Socket> socket)
    {
        while (socket->Recv())
        {
            arrivals.push_back(Simulator::Now());
        }
    }

    NodeContainer nodes;        //!< host, router, host
    NetDeviceContainer ports;   //!< of the router
    Ipv6Address destination6;   //!< of the last host
    Ptr<Socket> sender;         //!< at the first host
    Ptr<Socket> sender6;        //!< likewise, IPv6
    Ptr<Socket> receiver;       //!< at the last host
    Ptr<Socket> receiver6;      //!< likewise, IPv6
    std::vector<Time> arrivals; //!< of datagrams, at the last host
};

} // namespace

/**
 * \ingroup softrouter-test
 * \brief What an ordinary node forwards, a node with cores forwards as well, later by its service
 * time.
 */
class SoftRouterForwardsTestCase : public TestCase
{
  public:
    SoftRouterForwardsTestCase()
        : TestCase("an ordinary node becomes a router with cores, and forwards the same")
    {
    }

  private:
    static constexpr uint32_t PACKETS = 50;

    /**
     * \param helper to install a router with; null: none
     * \return arrivals at the last host
     */
    std::vector<Time> Run(const SoftRouterHelper* helper)
    {
        Network network("1Gbps", true);
        Ptr<SoftRouter> router;
        if (helper != nullptr)
        {
            router = helper->Install(network.nodes.Get(1), FixedProfile(7000));
        }
        network.Open();
        network.Send(PACKETS, MicroSeconds(20), Seconds(2));
        Simulator::Schedule(Seconds(3), &Network::Send6, &network);
        Simulator::Stop(Seconds(4));
        Simulator::Run();
        if (router)
        {
            // IPv6 resolves neighbors on the way: more than the datagrams is right.
            NS_TEST_EXPECT_MSG_GT(router->GetForwarded(), PACKETS, "through the cores");
            NS_TEST_EXPECT_MSG_EQ(router->GetReceived(), router->GetForwarded(), "nothing lost");
        }
        const auto arrivals = network.arrivals;
        router = nullptr;
        Simulator::Destroy();
        return arrivals;
    }

    void DoRun() override
    {
        const SoftRouterHelper helper;
        const auto plain = Run(nullptr);
        const auto real = Run(&helper);
        NS_TEST_ASSERT_MSG_EQ(plain.size(), PACKETS + 1, "IPv4 and IPv6 without a router");
        NS_TEST_ASSERT_MSG_EQ(real.size(), plain.size(), "all arrive");
        for (uint32_t i = 0; i < PACKETS; i++)
        {
            NS_TEST_EXPECT_MSG_EQ(real[i] - plain[i], NanoSeconds(7000), "datagram " << i);
        }
    }
};

/**
 * \ingroup softrouter-test
 * \brief Overload: the core is busy, the ring drops what is too much, and every packet is counted.
 */
class SoftRouterOverloadTestCase : public TestCase
{
  public:
    SoftRouterOverloadTestCase()
        : TestCase("overload: drops by cause, utilisation, sojourn time by Little's law")
    {
    }

  private:
    void DoRun() override
    {
        Network network("10Gbps");
        SoftRouterHelper helper;
        helper.Set("SampleInterval", TimeValue(MilliSeconds(1)));
        const auto router = helper.Install(network.nodes.Get(1), FixedProfile(2000));
        uint64_t traced = 0;
        const auto drop = [&traced](Ptr<const Packet>, SoftRouter::DropCause cause) {
            traced += cause == SoftRouter::RECEIVE_RING;
        };
        router->TraceConnectWithoutContext(
            "Drop",
            Callback<void, Ptr<const Packet>, SoftRouter::DropCause>(drop));
        std::vector<double> utilisation;
        const auto used = [&utilisation](uint32_t, double share) { utilisation.push_back(share); };
        router->TraceConnectWithoutContext("Utilisation", Callback<void, uint32_t, double>(used));
        std::vector<Time> little;
        const auto sojourn = [&little](Time mean) { little.push_back(mean); };
        router->TraceConnectWithoutContext("LittleSojourn", Callback<void, Time>(sojourn));
        uint32_t longest = 0;
        const auto length = [&longest](uint32_t, uint32_t now) {
            longest = std::max(longest, now);
        };
        const bool rings =
            Config::ConnectWithoutContextFailSafe("/NodeList/1/$ns3::SoftRouter/Rings/*/Length",
                                                  Callback<void, uint32_t, uint32_t>(length));
        NS_TEST_EXPECT_MSG_EQ(rings, true, "rings are found by their path");
        uint32_t bursts = 0;
        const auto burst = [&bursts](uint32_t packets, Time service) {
            bursts += service == NanoSeconds(2000) * packets;
        };
        const bool units =
            Config::ConnectWithoutContextFailSafe("/NodeList/1/$ns3::SoftRouter/Units/*/Burst",
                                                  Callback<void, uint32_t, Time>(burst));
        NS_TEST_EXPECT_MSG_EQ(units, true, "task units are found by their path");
        network.Open();
        network.Send(10000, MicroSeconds(1), Seconds(1)); // twice what a core of 2 us can do
        Simulator::Stop(Seconds(1.1));
        Simulator::Run();
        const uint64_t drops = router->GetDrops(SoftRouter::RECEIVE_RING);
        NS_TEST_EXPECT_MSG_EQ(router->GetReceived(), router->GetForwarded() + drops, "all counted");
        NS_TEST_EXPECT_MSG_EQ(traced, drops, "drops are traced");
        NS_TEST_EXPECT_MSG_EQ(longest, 512, "the ring was full");
        NS_TEST_EXPECT_MSG_EQ(bursts, router->GetUnits()[0]->GetBursts(), "bursts are traced");
        // It works from the first packet until 512 more and those of its burst are done.
        NS_TEST_EXPECT_MSG_EQ_TOL(network.arrivals.size(), 5512, 40, "half, and a ring");
        NS_TEST_EXPECT_MSG_EQ_TOL(utilisation.at(1005), 1, 1e-9, "busy");
        NS_TEST_EXPECT_MSG_EQ(utilisation.at(1050), 0, "idle");
        // The ring is full: 512 packets of 2 us, and half a burst on the mean is being served.
        NS_TEST_EXPECT_MSG_EQ_TOL(little.at(8).GetMicroSeconds(), 1024 + 32, 40, "Little's law");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief The slow path gets what the fast path cannot finish, and only idle cores.
 */
class SoftRouterSlowPathTestCase : public TestCase
{
  public:
    SoftRouterSlowPathTestCase()
        : TestCase("the slow path works when the fast path does not")
    {
    }

  private:
    void DoRun() override
    {
        Network network("10Gbps");
        auto profile = FixedProfile(1000);
        profile.slowPathNs = 50000;
        const auto router = SoftRouterHelper().Install(network.nodes.Get(1), profile);
        network.Open();
        std::vector<Time> revokes;
        const auto revoke = [&revokes](const ResourceMessage&) {
            revokes.push_back(Simulator::Now());
        };
        router->GetManager()->TraceConnectWithoutContext(
            "Revoke",
            Callback<void, const ResourceMessage&>(revoke));
        // A datagram whose TTL ends at the router, and 20 others behind it.
        Simulator::Schedule(Seconds(1), [&network]() {
            network.sender->SetIpTtl(1);
            network.sender->SendTo(Create<Packet>(100), 0, InetSocketAddress("10.0.2.2", 9));
            network.sender->SetIpTtl(64);
        });
        network.Send(20, MicroSeconds(2), Seconds(1) + MicroSeconds(10));
        uint64_t before = 0;
        Simulator::Schedule(Seconds(0.99), [&before, &router]() {
            before = router->GetUnits().back()->GetPackets();
        });
        Simulator::Stop(Seconds(1.1));
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(network.arrivals.size(), 20, "the others arrive");
        NS_TEST_EXPECT_MSG_EQ(router->GetUnits().back()->GetPackets() - before, 1, "punted");
        NS_TEST_EXPECT_MSG_EQ(revokes.size(), 20, "each takes the core from the slow path");
        // Service times are not added up: each datagram is as late as alone.
        for (uint32_t i = 1; i < network.arrivals.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(network.arrivals[i] - network.arrivals[i - 1],
                                  MicroSeconds(2),
                                  "datagram " << i);
        }
        const Time busy = router->GetCores()->Get(0)->GetBusyTime();
        const double forwarded = router->GetForwarded();
        const double slow = router->GetUnits().back()->GetPackets();
        NS_TEST_EXPECT_MSG_EQ_TOL(busy.GetMicroSeconds(),
                                  forwarded + 50 * slow,
                                  1,
                                  "no work is lost, none is done twice");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief A transmit ring that is too small for a slower link loses packets under that name.
 */
class SoftRouterTransmitRingTestCase : public TestCase
{
  public:
    SoftRouterTransmitRingTestCase()
        : TestCase("a full transmit ring is a cause of its own; the default queue disc is gone")
    {
    }

  private:
    void DoRun() override
    {
        Network network("10Gbps");
        network.ports.Get(1)->SetAttribute("DataRate", StringValue("10Mbps"));
        auto profile = FixedProfile(100);
        profile.transmitRing = 16;
        const auto router = SoftRouterHelper().Install(network.nodes.Get(1), profile);
        const auto control = network.nodes.Get(1)->GetObject<TrafficControlLayer>();
        const auto disc = control->GetRootQueueDiscOnDevice(network.ports.Get(1));
        NS_TEST_EXPECT_MSG_EQ(disc->GetInstanceTypeId().GetName(),
                              "ns3::TransmitBufferQueueDisc",
                              "what is on the port");
        network.Open();
        network.Send(100, MicroSeconds(1), Seconds(1));
        Simulator::Stop(Seconds(1.5));
        Simulator::Run();
        // In the ring 16, in the device 1, on the wire 1, when the others come.
        NS_TEST_EXPECT_MSG_EQ_TOL(network.arrivals.size(), 18, 1, "those that found room");
        NS_TEST_EXPECT_MSG_EQ(router->GetDrops(SoftRouter::TRANSMIT_RING),
                              100 - network.arrivals.size(),
                              "the others");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Bursts wait for their size or the timeout on their way out.
 */
class SoftRouterTransmitBufferTestCase : public TestCase
{
  public:
    SoftRouterTransmitBufferTestCase()
        : TestCase("a transmit buffer delays packets at low load")
    {
    }

  private:
    void DoRun() override
    {
        RouterTestbed::Setup setup;
        setup.profile = FixedProfile(100);
        setup.profile.transmitBuffer = 8;
        setup.profile.transmitTimeoutUs = 100;
        setup.directions = 1;
        setup.rateGbps = 0.672; // a packet each microsecond
        const auto full = RouterTestbed::Run(setup);
        // Of eight packets, the first waits for seven others, the last for none.
        NS_TEST_EXPECT_MSG_EQ_TOL(full.meanNs, 100 + 3500, 20, "until it is full");
        setup.rateGbps = 0.0000672; // one each 10 ms
        setup.duration = 0.5;
        const auto alone = RouterTestbed::Run(setup);
        NS_TEST_EXPECT_MSG_EQ_TOL(alone.meanNs, 100 + 100000, 20, "until the timeout");
    }
};

/**
 * \ingroup softrouter-test
 * \brief With the node's stack, too, an idle core sends what waits at the end of its look.
 */
class SoftRouterWhenIdleTestCase : public TestCase
{
  public:
    SoftRouterWhenIdleTestCase()
        : TestCase(
              "an idle core sends what a transmit buffer holds, with the node's stack and without")
    {
    }

  private:
    void DoRun() override
    {
        auto profile = FixedProfile(100);
        profile.transmitBuffer = 8;
        profile.transmitTimeoutUs = 100;
        profile.pollNs = 400;
        std::vector<Time> arrivals;
        for (const bool whenIdle : {false, true})
        {
            profile.transmitWhenIdle = whenIdle;
            Network network("10Gbps");
            const auto router = SoftRouterHelper().Install(network.nodes.Get(1), profile);
            network.Open();
            network.Send(1, MicroSeconds(1), Seconds(1));
            Simulator::Stop(Seconds(1.1));
            Simulator::Run();
            NS_TEST_ASSERT_MSG_EQ(network.arrivals.size(), 1, "the datagram arrives");
            arrivals.push_back(network.arrivals.front());
            Simulator::Destroy();
        }
        NS_TEST_EXPECT_MSG_EQ(arrivals[0] - arrivals[1],
                              NanoSeconds(100000 - 400),
                              "the timeout, or a look that finds nothing");

        RouterTestbed::Setup setup;
        setup.profile = profile;
        setup.directions = 1;
        setup.rateGbps = 0.0672; // one each 10 us
        const auto result = RouterTestbed::Run(setup);
        // Half a look until it is seen, one until it is sent; whole looks are in step with packets.
        NS_TEST_EXPECT_MSG_GT(result.meanNs, 100 + 400 - 1, "a look and the service");
        NS_TEST_EXPECT_MSG_LT(result.maxNs, 100 + 800 + 1, "two looks");
    }
};

/**
 * \ingroup softrouter-test
 * \brief RSS puts flows on cores, and cores with more flows lose packets first.
 */
class SoftRouterRssTestCase : public TestCase
{
  public:
    SoftRouterRssTestCase()
        : TestCase("flows go to cores by their hash")
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t FLOWS = 20;
        RouterTestbed::Setup setup;
        setup.profile = FixedProfile(1000);
        setup.cores = 4;
        setup.flows = FLOWS;
        setup.rateGbps = 1;
        setup.duration = 0.01;
        const auto result = RouterTestbed::Run(setup);
        auto rss = CreateObject<RssDistributor>();
        rss->SetQueues(4);
        std::vector<double> expected(4, 0.0);
        for (uint32_t flow = 0; flow < FLOWS; flow++)
        {
            const uint32_t hash = rss->Hash(FrameSource::MakePacket(flow, 64), 0x0800);
            expected[rss->GetQueue(hash)] += 1.0 / FLOWS;
        }
        for (uint32_t core = 0; core < 4; core++)
        {
            NS_TEST_EXPECT_MSG_EQ_TOL(result.shares[core], expected[core], 0.002, "core " << core);
        }
        NS_TEST_EXPECT_MSG_EQ(result.GetLoss(), 0, "there is time enough");
        // Half of what all cores can do is too much for one that has more than half.
        setup.profile.model.Set("C0", DoubleValue(4e9 * 84 * 8 / 1e9 / 2));
        const auto half = RouterTestbed::Run(setup);
        const double most = *std::max_element(expected.begin(), expected.end());
        NS_TEST_EXPECT_MSG_EQ((half.GetLoss() > 0), (most > 0.5), "by the worst core");
    }
};

/**
 * \ingroup softrouter-test
 * \brief The published case study: each value of Eq. 5, by simulating packets.
 */
class SoftRouterCaseStudyTestCase : public TestCase
{
  public:
    SoftRouterCaseStudyTestCase()
        : TestCase("every published value of Eq. 5 within 0.05 %")
    {
    }

  private:
    void DoRun() override
    {
        /// Flows, frame size, Gbit/s by Eq. 5.
        struct Row
        {
            uint32_t flows;
            uint32_t size;
            double eq5;
        };

        const std::vector<Row> table{
            {1, 64, 1.1928},   {1, 128, 2.0952},  {1, 256, 3.9000},   {1, 512, 7.5096},
            {1, 1024, 10},     {1, 1518, 10},     {2, 64, 2.1489},    {2, 128, 3.7804},
            {2, 256, 7.0433},  {2, 512, 13.5693}, {3, 64, 3.1050},    {3, 128, 5.4656},
            {3, 256, 10.1867}, {3, 512, 16.5430}, {4, 64, 4.0611},    {4, 128, 7.1508},
            {4, 256, 13.3301}, {100, 64, 4.0611}, {100, 128, 7.1508}, {100, 256, 13.3301},
        };
        SoftRouterProfile profile;
        profile.model.SetTypeId("ns3::Eq7ServiceTimeModel"); // whose defaults are published
        profile.burst = 1;
        for (const auto& row : table)
        {
            auto setup = RouterTestbed::Setup::Saturated(profile, row.flows, 4, row.size);
            setup.warmUp = 0.001;
            setup.duration = 0.01;
            const auto result = RouterTestbed::Run(setup);
            NS_TEST_EXPECT_MSG_EQ_TOL(result.acceptedGbps,
                                      row.eq5,
                                      0.0005 * row.eq5,
                                      row.flows << " flows of " << row.size << " bytes");
        }
    }
};

/**
 * \ingroup softrouter-test
 * \brief Routers.
 */
class SoftRouterTestSuite : public TestSuite
{
  public:
    SoftRouterTestSuite()
        : TestSuite("softrouter-router", Type::UNIT)
    {
        AddTestCase(new SoftRouterForwardsTestCase);
        AddTestCase(new SoftRouterOverloadTestCase);
        AddTestCase(new SoftRouterSlowPathTestCase);
        AddTestCase(new SoftRouterTransmitRingTestCase);
        AddTestCase(new SoftRouterTransmitBufferTestCase);
        AddTestCase(new SoftRouterWhenIdleTestCase);
        AddTestCase(new SoftRouterRssTestCase);
        AddTestCase(new SoftRouterCaseStudyTestCase);
    }
};

static SoftRouterTestSuite g_softRouterTestSuite; //!< registers itself
