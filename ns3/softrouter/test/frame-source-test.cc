// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/boolean.h"
#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/ethernet-link-helper.h"
#include "ns3/frame-sink.h"
#include "ns3/frame-source.h"
#include "ns3/ipv4-address.h"
#include "ns3/ipv4-header.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/test.h"
#include "ns3/udp-header.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \brief A source, a link of 1 Gbit/s (so that times are whole nanoseconds), and a sink.
 */
class FrameTest : public TestCase
{
  public:
    using TestCase::TestCase;

  protected:
    /// Makes all three.
    void Make(const char* rate, bool poisson, uint32_t queueSize)
    {
        NodeContainer nodes(2);
        EthernetLinkHelper link;
        link.SetRate(DataRate("1Gbps"));
        link.SetQueueSize(queueSize);
        m_devices = link.Install(nodes.Get(0), nodes.Get(1));
        m_source = CreateObject<FrameSource>();
        m_source->SetAttribute("Rate", DataRateValue(DataRate(rate)));
        m_source->SetAttribute("Poisson", BooleanValue(poisson));
        m_source->SetDevice(m_devices.Get(0));
        m_source->AssignStreams(7);
        nodes.Get(0)->AddApplication(m_source);
        m_sink = CreateObject<FrameSink>();
        m_sink->Attach(m_devices.Get(1));
        m_source->TraceConnectWithoutContext("Tx", MakeCallback(&FrameTest::Tx, this));
    }

    /// Runs until the source has stopped and everything has arrived.
    void RunFor(Time time)
    {
        m_source->SetStopTime(time);
        Simulator::Run();
    }

    Ptr<FrameSource> m_source;    //!< of frames
    Ptr<FrameSink> m_sink;        //!< of frames
    NetDeviceContainer m_devices; //!< of source and sink
    std::vector<int64_t> m_times; //!< when each was sent, in ns

  private:
    void Tx(Ptr<const Packet> /* packet */)
    {
        m_times.push_back(Simulator::Now().GetNanoSeconds());
    }
};

/// Back to back, frames keep Ethernet's time exactly.
class LineRateTest : public FrameTest
{
  public:
    LineRateTest()
        : FrameTest("frames back to back take Ethernet's time, to the nanosecond")
    {
    }

  private:
    void DoRun() override
    {
        for (const uint32_t size : {64U, 65U, 256U, 1518U})
        {
            const int64_t frame = (size + 20) * 8; // ns at 1 Gbit/s
            Make("1Gbps", false, 1);
            m_source->AddSize(size, 1);
            RunFor(NanoSeconds(1000 * frame));
            NS_TEST_EXPECT_MSG_EQ(m_source->GetOffered(), 1000, "offered");
            NS_TEST_EXPECT_MSG_EQ(m_source->GetOfferedBytes(), 1000 * size, "offered");
            NS_TEST_EXPECT_MSG_EQ(m_source->GetRefused(), 0, "a queue of one is enough");
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetPackets(), 1000, "arrived");
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetBytes(), 1000 * size, "arrived");
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetWireBits(), 1000 * frame, "1 ns per bit");
            // The last bit on the wire is 36 byte times before the next frame may start.
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetFirst(), NanoSeconds(frame - 36 * 8), "first");
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetLast(), NanoSeconds(1000 * frame - 36 * 8), "last");
            m_sink->Reset();
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetPackets(), 0, "forgotten");
            NS_TEST_EXPECT_MSG_EQ(m_sink->GetLast(), Time(0), "forgotten");
            Simulator::Destroy();
        }
    }
};

/// A rate whose gap is no whole number of time steps is exact in the long run.
class ExactRateTest : public FrameTest
{
  public:
    ExactRateTest()
        : FrameTest("gaps that are no whole time steps do not add up to a wrong rate")
    {
    }

  private:
    void DoRun() override
    {
        Make("900Mbps", false, 10); // 746.67 ns a frame
        RunFor(NanoSeconds(7466667));
        NS_TEST_ASSERT_MSG_EQ(m_times.size(), 10001, "10000 gaps");
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        NS_TEST_EXPECT_MSG_EQ(m_times.back(), 7466666, "the last one's time");
        int64_t shortest = INT64_MAX;
        int64_t longest = 0;
        for (std::size_t i = 1; i < m_times.size(); i++)
        {
            shortest = std::min(shortest, m_times[i] - m_times[i - 1]);
            longest = std::max(longest, m_times[i] - m_times[i - 1]);
        }
        NS_TEST_EXPECT_MSG_EQ(shortest, 746, "rounded down");
        NS_TEST_EXPECT_MSG_EQ(longest, 747, "rounded up");
        Simulator::Destroy();
    }
};

/// Sizes come by weight, and the rate is that of the wire whatever the sizes.
class SizesTest : public FrameTest
{
  public:
    SizesTest()
        : FrameTest("sizes by weight; the rate counts the wire")
    {
    }

  private:
    void Count(Ptr<const Packet> packet)
    {
        m_counts[packet->GetSize() + 18]++;
    }

    void DoRun() override
    {
        Make("500Mbps", false, 10);
        m_source->AddSize(64, 7);
        m_source->AddSize(594, 4);
        m_source->AddSize(1518, 1);
        m_source->TraceConnectWithoutContext("Tx", MakeCallback(&SizesTest::Count, this));
        RunFor(MilliSeconds(100));
        NS_TEST_EXPECT_MSG_EQ(m_source->GetRefused(), 0, "half the link's rate");
        const double frames = static_cast<double>(m_source->GetOffered());
        NS_TEST_EXPECT_MSG_EQ_TOL(m_sink->GetWireBits() / 1e-1,
                                  5e8,
                                  5e8 * 3e-4,
                                  "one frame at most");
        // 16000 draws: standard deviations of 0.4 % and less.
        NS_TEST_EXPECT_MSG_EQ_TOL(m_counts[64] / frames, 7.0 / 12, 0.016, "64 bytes");
        NS_TEST_EXPECT_MSG_EQ_TOL(m_counts[594] / frames, 4.0 / 12, 0.015, "594 bytes");
        NS_TEST_EXPECT_MSG_EQ_TOL(m_counts[1518] / frames, 1.0 / 12, 0.009, "1518 bytes");
        NS_TEST_EXPECT_MSG_EQ(m_counts.size(), 3, "no other sizes");
        Simulator::Destroy();
    }

    std::map<uint32_t, uint32_t> m_counts; //!< frames of each size
};

/// Random arrivals: the gaps are exponential, and each flow has its share.
class PoissonTest : public FrameTest
{
  public:
    PoissonTest()
        : FrameTest("Poisson arrivals: mean and variance of gaps, shares of flows")
    {
    }

  private:
    void Count(Ptr<const Packet> packet)
    {
        Ipv4Header header;
        packet->PeekHeader(header);
        m_counts[header.GetSource()]++;
    }

    void DoRun() override
    {
        Make("100Mbps", true, 1000); // 6720 ns a frame on the mean
        m_source->SetFlows(1, 2, 4);
        m_source->TraceConnectWithoutContext("Tx", MakeCallback(&PoissonTest::Count, this));
        RunFor(MilliSeconds(200));
        const double frames = static_cast<double>(m_source->GetOffered());
        // 29762 expected; tolerances are 4 standard deviations.
        NS_TEST_EXPECT_MSG_EQ_TOL(frames, 2e8 / 6720, 4 * std::sqrt(2e8 / 6720), "frames");
        double sum = 0;
        double squares = 0;
        uint32_t longer = 0;
        for (std::size_t i = 1; i < m_times.size(); i++)
        {
            const double gap = static_cast<double>(m_times[i] - m_times[i - 1]) / 6720;
            sum += gap;
            squares += gap * gap;
            longer += gap > 2 ? 1 : 0;
        }
        NS_TEST_EXPECT_MSG_EQ_TOL(sum / frames, 1, 4 / std::sqrt(frames), "mean");
        NS_TEST_EXPECT_MSG_EQ_TOL(squares / frames, 2, 4 * std::sqrt(20 / frames), "second moment");
        NS_TEST_EXPECT_MSG_EQ_TOL(longer / frames,
                                  std::exp(-2),
                                  4 * std::sqrt(0.117 / frames),
                                  "more than twice the mean");
        NS_TEST_EXPECT_MSG_EQ(m_counts.size(), 4, "flows");
        for (const uint32_t flow : {1, 3, 5, 7})
        {
            const Ipv4Address source(0xc6120000 | flow);
            NS_TEST_EXPECT_MSG_EQ_TOL(m_counts[source] / frames,
                                      0.25,
                                      4 * std::sqrt(0.1875 / frames),
                                      "flow " << flow);
        }
        Simulator::Destroy();
    }

    std::map<Ipv4Address, uint32_t> m_counts; //!< frames of each flow
};

/// Flows take turns, and have the headers that are promised.
class FlowsTest : public FrameTest
{
  public:
    FlowsTest()
        : FrameTest("flows take turns, each with its headers")
    {
    }

  private:
    void Note(Ptr<const Packet> packet)
    {
        Ptr<Packet> copy = packet->Copy();
        Ipv4Header ip;
        ip.EnableChecksum();
        copy->RemoveHeader(ip);
        NS_TEST_EXPECT_MSG_EQ(ip.IsChecksumOk(), true, "checksum");
        NS_TEST_EXPECT_MSG_EQ(ip.GetPayloadSize(), copy->GetSize(), "length");
        m_sources.push_back(ip.GetSource().Get());
    }

    void DoRun() override
    {
        Make("1Gbps", false, 10);
        m_source->SetFlows(300, 7, 3);
        m_source->TraceConnectWithoutContext("Tx", MakeCallback(&FlowsTest::Note, this));
        RunFor(NanoSeconds(672 * 7));
        const std::vector<uint32_t> expected{300, 307, 314, 300, 307, 314, 300};
        NS_TEST_ASSERT_MSG_EQ(m_sources.size(), expected.size(), "frames");
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        for (std::size_t i = 0; i < expected.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(m_sources[i], (0xc6120000 | expected[i]), "frame " << i);
        }
        Simulator::Destroy();

        auto packet = FrameSource::MakePacket(61234, 100);
        NS_TEST_EXPECT_MSG_EQ(packet->GetSize(), 82, "size");
        Ipv4Header ip;
        packet->RemoveHeader(ip);
        UdpHeader udp;
        packet->RemoveHeader(udp);
        NS_TEST_EXPECT_MSG_EQ(ip.GetSource(), Ipv4Address("198.18.239.50"), "source");
        NS_TEST_EXPECT_MSG_EQ(ip.GetDestination(), Ipv4Address("198.19.239.50"), "destination");
        NS_TEST_EXPECT_MSG_EQ(ip.GetProtocol(), 17, "protocol");
        NS_TEST_EXPECT_MSG_EQ(udp.GetSourcePort(), 1024 + 1234, "source port");
        NS_TEST_EXPECT_MSG_EQ(udp.GetDestinationPort(), 9, "destination port");
    }

    std::vector<uint32_t> m_sources; //!< addresses, in order
};

/// What the device has no room for is counted.
class SourceRefusedTest : public FrameTest
{
  public:
    SourceRefusedTest()
        : FrameTest("what the device refuses is counted; counters start again; nothing at rate 0")
    {
    }

  private:
    void DoRun() override
    {
        Make("2Gbps", false, 5);
        RunFor(NanoSeconds(336 * 1000));
        // 500 frames were sent while 1000 were offered, 5 wait in the queue, 1 is on the wire: what
        // of these was there at the end is not lost.
        NS_TEST_EXPECT_MSG_EQ(m_source->GetOffered(), 1000, "offered");
        NS_TEST_EXPECT_MSG_EQ(m_source->GetRefused() + m_sink->GetPackets(), 1000, "no other loss");
        NS_TEST_EXPECT_MSG_EQ_TOL(static_cast<double>(m_sink->GetPackets()), 505, 1, "arrived");
        m_source->ResetCounters();
        NS_TEST_EXPECT_MSG_EQ(m_source->GetOffered() + m_source->GetRefused(), 0, "reset");
        Simulator::Destroy();

        Make("0bps", true, 5);
        RunFor(MilliSeconds(1));
        NS_TEST_EXPECT_MSG_EQ(m_source->GetOffered(), 0, "rate 0");
        Simulator::Destroy();
    }
};

/**
 * \brief The suite of frame sources, sinks and links.
 */
class FrameSourceTestSuite : public TestSuite
{
  public:
    FrameSourceTestSuite()
        : TestSuite("softrouter-frame-source", Type::UNIT)
    {
        AddTestCase(new LineRateTest);
        AddTestCase(new ExactRateTest);
        AddTestCase(new SizesTest);
        AddTestCase(new PoissonTest);
        AddTestCase(new FlowsTest);
        AddTestCase(new SourceRefusedTest);
    }
};

FrameSourceTestSuite g_frameSourceTestSuite; //!< registers the suite

} // namespace
