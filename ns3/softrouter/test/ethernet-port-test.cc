// SPDX-License-Identifier: GPL-2.0-only
#include "test-seed.h"

#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/ethernet-link-helper.h"
#include "ns3/ethernet-port.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/ipv4-interface-container.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/test.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

constexpr int64_t BYTE = 8; // ns at 1 Gbit/s

/**
 * \brief Random packets through both kinds of links, and through a queue by its definition.
 */
class LinkOracleTest : public TestCase
{
  public:
    LinkOracleTest()
        : TestCase("random packets: both kinds of links against a queue by its definition")
    {
    }

  private:
    /// A packet.
    struct Offer
    {
        int64_t when;  // ns
        uint32_t size; // frame bytes
        int64_t start; // on the wire, ns; negative: refused
    };

    /// Makes packets, and what a queue does with them.
    std::vector<Offer> MakeOffers(uint32_t queueSize)
    {
        std::vector<Offer> offers;
        std::vector<int64_t> starts; // of accepted packets
        int64_t when = 1;
        int64_t free = 0;
        for (uint32_t i = 0; i < 300; i++)
        {
            when += m_random() % 4 == 0 ? m_random() % 30000 : m_random() % 1000;
            const uint32_t size = 64 + m_random() % 1000;
            // In the moment that a place becomes free, order is nobody's promise.
            while (when == free || std::count(starts.begin(), starts.end(), when) > 0)
            {
                when++;
            }
            const auto waiting =
                std::count_if(starts.begin(), starts.end(), [when](int64_t s) { return s > when; });
            Offer offer{when, size, -1};
            if (waiting < queueSize)
            {
                offer.start = std::max(when, free);
                starts.push_back(offer.start);
                free = offer.start + (size + 20) * BYTE;
            }
            offers.push_back(offer);
        }
        return offers;
    }

    void Send(Ptr<NetDevice> device, uint32_t size)
    {
        const bool taken = device->Send(Create<Packet>(size - 18), device->GetBroadcast(), 0x0800);
        m_refused += taken ? 0 : 1;
        m_taken.push_back(taken);
    }

    bool Receive(Ptr<NetDevice> device,
                 Ptr<const Packet> packet,
                 uint16_t protocol,
                 const Address& from)
    {
        NS_TEST_EXPECT_MSG_EQ(protocol, 0x0800, "protocol");
        NS_TEST_EXPECT_MSG_EQ((from == device->GetChannel()->GetDevice(0)->GetAddress()),
                              true,
                              "sender");
        m_sizes.push_back(packet->GetSize() + 18);
        m_arrivals.push_back(Simulator::Now().GetNanoSeconds());
        return true;
    }

    void RunLink(bool raw, uint32_t queueSize, int64_t delay, const std::vector<Offer>& offers)
    {
        m_refused = 0;
        m_taken.clear();
        m_sizes.clear();
        m_arrivals.clear();
        NodeContainer nodes(2);
        EthernetLinkHelper link;
        link.SetRate(DataRate("1Gbps"));
        link.SetQueueSize(queueSize);
        link.SetDelay(NanoSeconds(delay));
        link.SetRaw(raw);
        const auto devices = link.Install(nodes.Get(0), nodes.Get(1));
        devices.Get(1)->SetReceiveCallback(MakeCallback(&LinkOracleTest::Receive, this));
        for (const Offer& offer : offers)
        {
            Simulator::Schedule(NanoSeconds(offer.when),
                                &LinkOracleTest::Send,
                                this,
                                devices.Get(0),
                                offer.size);
        }
        Simulator::Run();
        Simulator::Destroy();
    }

    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-ethernet-port");
        m_random.seed(seed);
        for (uint32_t round = 0; round < GetTestRounds(20); round++)
        {
            const uint32_t queueSize = 1 + m_random() % 8;
            const int64_t delay = m_random() % 2 == 0 ? 0 : 5000;
            const auto offers = MakeOffers(queueSize);
            for (const bool raw : {false, true})
            {
                RunLink(raw, queueSize, delay, offers);
                // Preamble and frame; on point-to-point links, the gap is behind the packet.
                const int64_t behind = raw ? 8 : -16;
                std::size_t arrived = 0;
                for (std::size_t i = 0; i < offers.size(); i++)
                {
                    const std::string what = (raw ? "raw" : "point-to-point") +
                                             std::string(", seed ") + std::to_string(seed) +
                                             ", round " + std::to_string(round) + ", packet " +
                                             std::to_string(i);
                    NS_TEST_ASSERT_MSG_EQ(m_taken.at(i), (offers[i].start >= 0), what);
                    if (IsStatusFailure())
                    {
                        return; // an ASSERT alone goes on
                    }
                    if (offers[i].start < 0)
                    {
                        continue;
                    }
                    NS_TEST_ASSERT_MSG_LT(arrived, m_sizes.size(), what);
                    if (IsStatusFailure())
                    {
                        return; // an ASSERT alone goes on
                    }
                    NS_TEST_ASSERT_MSG_EQ(m_sizes.at(arrived), offers[i].size, what);
                    NS_TEST_ASSERT_MSG_EQ(m_arrivals.at(arrived),
                                          offers[i].start + (offers[i].size + behind) * BYTE +
                                              delay,
                                          what);
                    if (IsStatusFailure())
                    {
                        return; // an ASSERT alone goes on
                    }
                    arrived++;
                }
                NS_TEST_EXPECT_MSG_EQ(arrived, m_arrivals.size(), "no others");
                NS_TEST_EXPECT_MSG_GT(m_refused, 0, "some are refused, seed " << seed);
            }
        }
    }

    std::mt19937 m_random;
    uint32_t m_refused{0};           //!< packets
    std::vector<bool> m_taken;       //!< by the device
    std::vector<uint32_t> m_sizes;   //!< of frames that came
    std::vector<int64_t> m_arrivals; //!< their times, ns
};

/**
 * \brief What a port says of itself, short frames, and ports without a cable.
 */
class PortTest : public TestCase
{
  public:
    PortTest()
        : TestCase("short frames are padded; the ring's length; no cable, no packets")
    {
    }

  private:
    bool Receive(Ptr<NetDevice> /* device */,
                 Ptr<const Packet> packet,
                 uint16_t /* protocol */,
                 const Address& /* from */)
    {
        NS_TEST_EXPECT_MSG_EQ(packet->GetSize(), 20, "the padding is not in the packet");
        m_arrivals.push_back(Simulator::Now().GetNanoSeconds());
        return true;
    }

    bool See(Ptr<NetDevice> /* device */,
             Ptr<const Packet> /* packet */,
             uint16_t /* protocol */,
             const Address& /* from */,
             const Address& /* to */,
             NetDevice::PacketType /* type */)
    {
        m_seen++;
        return true;
    }

    void DoRun() override
    {
        NodeContainer nodes(2);
        EthernetLinkHelper link;
        link.SetRate(DataRate("1Gbps"));
        link.SetRaw(true);
        link.SetMtu(9000);
        const auto devices = link.Install(nodes.Get(0), nodes.Get(1));
        auto port = DynamicCast<EthernetPort>(devices.Get(0));
        NS_TEST_ASSERT_MSG_NE(port, nullptr, "a raw link has EthernetPorts");
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        NS_TEST_EXPECT_MSG_EQ(port->GetMtu(), 9000, "mtu");
        NS_TEST_EXPECT_MSG_EQ(port->IsLinkUp(), true, "link");
        NS_TEST_EXPECT_MSG_EQ(port->GetNode(), nodes.Get(0), "node");
        NS_TEST_EXPECT_MSG_EQ(port->GetChannel()->GetNDevices(), 2, "cable");
        NS_TEST_EXPECT_MSG_EQ((port->GetAddress() == devices.Get(1)->GetAddress()),
                              false,
                              "addresses");
        devices.Get(1)->SetReceiveCallback(MakeCallback(&PortTest::Receive, this));
        devices.Get(1)->SetPromiscReceiveCallback(MakeCallback(&PortTest::See, this));
        for (uint32_t i = 0; i < 3; i++)
        {
            port->Send(Create<Packet>(20), port->GetBroadcast(), 0x0800);
        }
        NS_TEST_EXPECT_MSG_EQ(port->GetWaiting(), 2, "one is on the wire");
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(port->GetWaiting(), 0, "all are gone");
        const std::vector<int64_t> expected{72 * BYTE, (84 + 72) * BYTE, (2 * 84 + 72) * BYTE};
        NS_TEST_EXPECT_MSG_EQ((m_arrivals == expected), true, "as frames of 64 bytes");
        NS_TEST_EXPECT_MSG_EQ(m_seen, 3, "promiscuous");

        auto alone = CreateObject<EthernetPort>();
        NS_TEST_EXPECT_MSG_EQ(alone->IsLinkUp(), false, "no cable");
        NS_TEST_EXPECT_MSG_EQ(alone->Send(Create<Packet>(20), Address(), 0x0800),
                              false,
                              "no cable");
        Simulator::Destroy();
    }

    std::vector<int64_t> m_arrivals; //!< ns
    uint32_t m_seen{0};              //!< packets
};

/**
 * \brief An IP stack can use the ports: UDP over a router between two nodes.
 */
class PortIpTest : public TestCase
{
  public:
    PortIpTest()
        : TestCase("UDP over two raw links and an IP router")
    {
    }

  private:
    void Receive(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            m_bytes += packet->GetSize();
        }
    }

    void DoRun() override
    {
        NodeContainer nodes(3);
        EthernetLinkHelper link;
        link.SetRaw(true);
        const auto left = link.Install(nodes.Get(0), nodes.Get(1));
        const auto right = link.Install(nodes.Get(1), nodes.Get(2));
        InternetStackHelper().Install(nodes);
        Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(left);
        const auto ends = Ipv4AddressHelper("10.0.1.0", "255.255.255.0").Assign(right);
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
        const auto udp = TypeId::LookupByName("ns3::UdpSocketFactory");
        auto receiver = Socket::CreateSocket(nodes.Get(2), udp);
        receiver->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        receiver->SetRecvCallback(MakeCallback(&PortIpTest::Receive, this));
        auto sender = Socket::CreateSocket(nodes.Get(0), udp);
        sender->Connect(InetSocketAddress(ends.GetAddress(1), 9));
        // More than an MTU, so that fragments are made and put together again.
        Simulator::ScheduleNow([sender]() { sender->Send(Create<Packet>(4000)); });
        Simulator::Run();
        Simulator::Destroy();
        NS_TEST_EXPECT_MSG_EQ(m_bytes, 4000, "bytes that came");
    }

    uint32_t m_bytes{0}; //!< received
};

/**
 * \brief The suite of Ethernet ports.
 */
class EthernetPortTestSuite : public TestSuite
{
  public:
    EthernetPortTestSuite()
        : TestSuite("softrouter-ethernet-port", Type::UNIT)
    {
        AddTestCase(new LinkOracleTest);
        AddTestCase(new PortTest);
        AddTestCase(new PortIpTest);
    }
};

EthernetPortTestSuite g_ethernetPortTestSuite; //!< registers the suite

} // namespace
