// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-interface-container.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/queue-size.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/transmit-buffer-queue-disc.h"
#include "ns3/uinteger.h"

#include <cstdint>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \brief Two nodes with IP on a point-to-point link; the first sends through a transmit buffer.
 *
 * Packets have 1000 bytes on the link: 970 of UDP payload, 28 of headers, 2 of PPP.
 */
class TransmitBufferQueueDiscTest : public TestCase
{
  public:
    using TestCase::TestCase;

  protected:
    /// Makes the nodes.
    void Make(uint32_t burstSize, const char* maxSize, const char* rate, const char* deviceQueue)
    {
        NodeContainer nodes(2);
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", StringValue(rate));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(deviceQueue));
        NetDeviceContainer devices = link.Install(nodes);
        InternetStackHelper().Install(nodes);
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::TransmitBufferQueueDisc",
                                 "BurstSize",
                                 UintegerValue(burstSize),
                                 "Timeout",
                                 TimeValue(MicroSeconds(100)),
                                 "MaxSize",
                                 QueueSizeValue(QueueSize(maxSize)));
        m_disc = DynamicCast<TransmitBufferQueueDisc>(control.Install(devices.Get(0)).Get(0));
        m_disc->TraceConnectWithoutContext("Burst",
                                           MakeCallback(&TransmitBufferQueueDiscTest::Burst, this));
        devices.Get(0)->TraceConnectWithoutContext(
            "MacTx",
            MakeCallback(&TransmitBufferQueueDiscTest::MacTx, this));
        Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
        m_peer = addresses.Assign(devices).GetAddress(1);
        m_sender =
            Socket::CreateSocket(nodes.Get(0), TypeId::LookupByName("ns3::UdpSocketFactory"));
        m_receiver =
            Socket::CreateSocket(nodes.Get(1), TypeId::LookupByName("ns3::UdpSocketFactory"));
        m_receiver->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        m_receiver->SetRecvCallback(MakeCallback(&TransmitBufferQueueDiscTest::Receive, this));
    }

    /// Sends a packet, whose first byte is its number.
    void Send(uint8_t number)
    {
        std::vector<uint8_t> bytes(970);
        bytes[0] = number;
        m_sender->SendTo(Create<Packet>(bytes.data(), bytes.size()),
                         0,
                         InetSocketAddress(m_peer, 9));
    }

    /// Sends a packet at a time in microseconds.
    void SendAt(int64_t when, uint8_t number)
    {
        Simulator::Schedule(MicroSeconds(when), &TransmitBufferQueueDiscTest::Send, this, number);
    }

    Ptr<TransmitBufferQueueDisc> m_disc; //!< what is tested
    std::vector<int64_t> m_sent;         //!< when the device got each packet, in microseconds
    std::vector<uint32_t> m_received;    //!< numbers, in order
    std::vector<uint32_t> m_bursts;      //!< packets of each

  private:
    void MacTx(Ptr<const Packet> /* packet */)
    {
        m_sent.push_back(Simulator::Now().GetMicroSeconds());
    }

    void Burst(uint32_t packets)
    {
        m_bursts.push_back(packets);
    }

    void Receive(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            uint8_t number;
            packet->CopyData(&number, 1);
            m_received.push_back(number);
        }
    }

    Ipv4Address m_peer;     //!< of the second node
    Ptr<Socket> m_sender;   //!< of the first node
    Ptr<Socket> m_receiver; //!< of the second node
};

/// Numbers from 1 to a last one.
std::vector<uint32_t>
UpTo(uint32_t last)
{
    std::vector<uint32_t> numbers;
    for (uint32_t i = 1; i <= last; i++)
    {
        numbers.push_back(i);
    }
    return numbers;
}

/// A fast link: packets leave in bursts.
class QueueDiscBurstTest : public TransmitBufferQueueDiscTest
{
  public:
    QueueDiscBurstTest()
        : TransmitBufferQueueDiscTest("an IP node sends in bursts of a size, or at the timeout")
    {
    }

  private:
    void DoRun() override
    {
        Make(4, "100p", "10Gbps", "100p");
        for (uint8_t i = 1; i <= 10; i++)
        {
            SendAt(10 * i, i);
        }
        SendAt(500, 11);
        Simulator::Run();
        const std::vector<int64_t> expected{40, 40, 40, 40, 80, 80, 80, 80, 190, 190, 600};
        NS_TEST_EXPECT_MSG_EQ((m_sent == expected), true, "when the device got the packets");
        NS_TEST_EXPECT_MSG_EQ((m_received == UpTo(11)), true, "what the other node got");
        NS_TEST_EXPECT_MSG_EQ((m_bursts == std::vector<uint32_t>{4, 4, 2, 1}), true, "bursts");
        NS_TEST_EXPECT_MSG_EQ(m_disc->GetHeld(), 0, "nothing is left");
        NS_TEST_EXPECT_MSG_EQ(m_disc->GetStats().nTotalDroppedPackets, 0, "nothing is lost");
        Simulator::Destroy();
    }
};

/// A slow link with a short queue: what does not fit there waits here, in order.
class QueueDiscBackPressureTest : public TransmitBufferQueueDiscTest
{
  public:
    QueueDiscBackPressureTest()
        : TransmitBufferQueueDiscTest("a full device queue holds a burst up, and loses nothing")
    {
    }

  private:
    void DoRun() override
    {
        // 80 us a packet. 100 packets, more than the quota of a queue disc, within 1 ms.
        Make(25, "200p", "100Mbps", "2p");
        for (uint8_t i = 1; i <= 100; i++)
        {
            SendAt(10 * i, i);
        }
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ((m_received == UpTo(100)), true, "what the other node got");
        NS_TEST_ASSERT_MSG_EQ(m_sent.size(), 100, "what the device got");
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        NS_TEST_EXPECT_MSG_EQ(m_sent.front(), 110, "the first burst goes at the timeout");
        // The last packet enters the device's queue of 2 when the one before it on the link has
        // left: 97 packets of 80 us after the first.
        NS_TEST_EXPECT_MSG_EQ(m_sent.back(), 110 + 97 * 80, "the link is never idle");
        NS_TEST_EXPECT_MSG_EQ(m_disc->GetNPackets(), 0, "nothing is left");
        Simulator::Destroy();
    }
};

/// More than may wait is dropped, under its reason.
class QueueDiscLimitTest : public TransmitBufferQueueDiscTest
{
  public:
    QueueDiscLimitTest()
        : TransmitBufferQueueDiscTest("what is beyond the limit is dropped with its reason")
    {
    }

  private:
    void DoRun() override
    {
        // 80 us a packet; of 20 in 20 us the first two are on the link and in its queue.
        Make(2, "5p", "100Mbps", "1p");
        for (uint8_t i = 1; i <= 20; i++)
        {
            SendAt(i, i);
        }
        Simulator::Run();
        const auto& stats = m_disc->GetStats();
        NS_TEST_EXPECT_MSG_EQ(stats.nTotalReceivedPackets, 20, "received");
        NS_TEST_EXPECT_MSG_EQ(
            stats.GetNDroppedPackets(TransmitBufferQueueDisc::LIMIT_EXCEEDED_DROP),
            13,
            "dropped: 20, less 2 in the device, less 5 that may wait");
        NS_TEST_EXPECT_MSG_EQ(stats.nTotalDroppedPackets, 13, "for no other reason");
        NS_TEST_EXPECT_MSG_EQ((m_received == UpTo(7)), true, "what the other node got");
        Simulator::Destroy();
    }
};

/// A core that has handed over a burst, or has nothing to do.
class QueueDiscIdleTest : public TransmitBufferQueueDiscTest
{
  public:
    QueueDiscIdleTest()
        : TransmitBufferQueueDiscTest("idle cores send what is held; half of a burst goes at once")
    {
    }

  private:
    void DoRun() override
    {
        Make(4, "100p", "10Gbps", "100p");
        SendAt(10, 1);
        EndBurstAt(11); // too few
        SendAt(20, 2);
        SendAt(21, 3);
        EndBurstAt(22); // half of a burst, but behind the first
        Simulator::Schedule(MicroSeconds(30), &TransmitBufferQueueDisc::Flush, m_disc);
        Simulator::Schedule(MicroSeconds(31), &TransmitBufferQueueDisc::Flush, m_disc);
        SendAt(40, 4);
        SendAt(41, 5);
        EndBurstAt(42); // half of a burst, alone
        SendAt(50, 6);
        EndBurstAt(51);
        Simulator::Run();
        const std::vector<int64_t> expected{30, 30, 30, 42, 42, 150};
        NS_TEST_EXPECT_MSG_EQ((m_sent == expected), true, "when the device got the packets");
        NS_TEST_EXPECT_MSG_EQ((m_received == UpTo(6)), true, "what the other node got");
        NS_TEST_EXPECT_MSG_EQ((m_bursts == std::vector<uint32_t>{3, 2, 1}), true, "bursts");
        Simulator::Destroy();
    }

    /// A core's burst ends at a time in microseconds.
    void EndBurstAt(int64_t when)
    {
        Simulator::Schedule(MicroSeconds(when), &TransmitBufferQueueDisc::EndBurst, m_disc);
    }
};

/**
 * \brief The suite of transmit buffers of IP nodes.
 */
class TransmitBufferQueueDiscTestSuite : public TestSuite
{
  public:
    TransmitBufferQueueDiscTestSuite()
        : TestSuite("softrouter-transmit-buffer-queue-disc", Type::UNIT)
    {
        AddTestCase(new QueueDiscBurstTest);
        AddTestCase(new QueueDiscBackPressureTest);
        AddTestCase(new QueueDiscLimitTest);
        AddTestCase(new QueueDiscIdleTest);
    }
};

TransmitBufferQueueDiscTestSuite g_transmitBufferQueueDiscTestSuite; //!< registers the suite

} // namespace
