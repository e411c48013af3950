// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/boolean.h"
#include "ns3/callback.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/router-item.h"
#include "ns3/simulator.h"
#include "ns3/test.h"
#include "ns3/transmit-buffer.h"
#include "ns3/uinteger.h"

#include <cstdint>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \brief A transmit buffer before a device that writes down what it gets.
 */
class TransmitBufferTest : public TestCase
{
  public:
    using TestCase::TestCase;

  protected:
    /// What the device got: a packet's number, and when, in ns.
    struct Sent
    {
        uint32_t number;
        int64_t when;

        bool operator==(const Sent& other) const
        {
            return number == other.number && when == other.when;
        }
    };

    /// Makes the buffer.
    void Make(uint32_t size, Time timeout)
    {
        m_buffer = CreateObject<TransmitBuffer>();
        m_buffer->SetAttribute("Size", UintegerValue(size));
        m_buffer->SetAttribute("Timeout", TimeValue(timeout));
        m_buffer->SetSend(MakeCallback(&TransmitBufferTest::Send, this));
        m_buffer->TraceConnectWithoutContext("Burst",
                                             MakeCallback(&TransmitBufferTest::Burst, this));
        m_buffer->TraceConnectWithoutContext("Drop", MakeCallback(&TransmitBufferTest::Drop, this));
    }

    /// Adds a packet, whose number is its frame size.
    void Add(uint32_t number)
    {
        RouterItem item;
        item.packet = Create<Packet>(64);
        item.frameSize = number;
        m_buffer->Add(item);
    }

    /// Adds a packet at a time in ns.
    void AddAt(int64_t when, uint32_t number)
    {
        Simulator::Schedule(NanoSeconds(when), &TransmitBufferTest::Add, this, number);
    }

    /// Runs the simulation to its end.
    void RunAll()
    {
        Simulator::Run();
        Simulator::Destroy();
    }

    /// Checks what was sent, and in which bursts.
    void Check(const std::vector<Sent>& sent, const std::vector<uint32_t>& bursts)
    {
        NS_TEST_ASSERT_MSG_EQ(m_sent.size(), sent.size(), "packets sent");
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        for (std::size_t i = 0; i < sent.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(m_sent[i].number, sent[i].number, "packet " << i);
            NS_TEST_EXPECT_MSG_EQ(m_sent[i].when, sent[i].when, "time of packet " << i);
        }
        NS_TEST_EXPECT_MSG_EQ((m_bursts == bursts),
                              true,
                              "sizes of " << bursts.size() << " bursts");
    }

    Ptr<TransmitBuffer> m_buffer;      //!< what is tested
    std::vector<Sent> m_sent;          //!< in order
    std::vector<uint32_t> m_bursts;    //!< packets of each
    std::vector<uint32_t> m_drops;     //!< numbers of refused packets
    uint32_t m_refuseFrom{UINT32_MAX}; //!< packets from this number on are refused
    uint32_t m_addWhile{0};            //!< when this packet is sent, the next number comes

  private:
    bool Send(const RouterItem& item)
    {
        if (item.frameSize == m_addWhile)
        {
            m_addWhile = 0;
            Add(item.frameSize + 100);
        }
        if (item.frameSize >= m_refuseFrom)
        {
            return false;
        }
        m_sent.push_back({item.frameSize, Simulator::Now().GetNanoSeconds()});
        return true;
    }

    void Burst(uint32_t packets)
    {
        m_bursts.push_back(packets);
    }

    void Drop(const RouterItem& item, const char* cause)
    {
        NS_TEST_EXPECT_MSG_EQ(std::string(cause), TransmitBuffer::REFUSED, "cause");
        m_drops.push_back(item.frameSize);
    }
};

/// Size 1: nothing waits.
class UnbufferedTest : public TransmitBufferTest
{
  public:
    UnbufferedTest()
        : TransmitBufferTest("a size of 1 hands each packet on at once")
    {
    }

  private:
    void DoRun() override
    {
        Make(1, Time(0));
        AddAt(5, 1);
        AddAt(5, 2);
        AddAt(9, 3);
        RunAll();
        Check({{1, 5}, {2, 5}, {3, 9}}, {1, 1, 1});
    }
};

/// Full bursts go at once, the rest when its first packet is old enough.
class SizeAndTimeoutTest : public TransmitBufferTest
{
  public:
    SizeAndTimeoutTest()
        : TransmitBufferTest("bursts go when they are full, or at the timeout of their first")
    {
    }

  private:
    void DoRun() override
    {
        Make(3, NanoSeconds(100));
        for (uint32_t i = 1; i <= 5; i++)
        {
            AddAt(10 * i, i); // 3 at 30; 4 and 5 wait from 40 on
        }
        AddAt(140, 6);  // fills the burst in the moment of its timeout
        AddAt(150, 7);  // waits alone
        AddAt(250, 8);  // comes when 7 goes, in an event that was scheduled before
        AddAt(1000, 9); // after a pause
        RunAll();
        NS_TEST_EXPECT_MSG_EQ(m_buffer->GetWaiting(), 0, "nothing is left");
        NS_TEST_EXPECT_MSG_EQ(m_buffer->GetSent(), 9, "sent");
        Check({{1, 30},
               {2, 30},
               {3, 30},
               {4, 140},
               {5, 140},
               {6, 140},
               {7, 250},
               {8, 250},
               {9, 1100}},
              {3, 3, 2, 1});
    }
};

/// What the device refuses is lost, and said to be.
class RefusedTest : public TransmitBufferTest
{
  public:
    RefusedTest()
        : TransmitBufferTest("what the device refuses is dropped with its cause")
    {
    }

  private:
    void DoRun() override
    {
        m_refuseFrom = 3;
        Make(4, NanoSeconds(100));
        for (uint32_t i = 1; i <= 4; i++)
        {
            AddAt(i, i);
        }
        RunAll();
        Check({{1, 4}, {2, 4}}, {4});
        NS_TEST_EXPECT_MSG_EQ((m_drops == std::vector<uint32_t>{3, 4}), true, "refused");
        NS_TEST_EXPECT_MSG_EQ(m_buffer->GetDropped(), 2, "counted");
        NS_TEST_EXPECT_MSG_EQ(m_buffer->GetSent(), 2, "counted");
    }
};

/// A packet that comes while others are being sent is not lost, nor sent before its time.
class ReentranceTest : public TransmitBufferTest
{
  public:
    ReentranceTest()
        : TransmitBufferTest("packets that come while others are being sent; explicit flush")
    {
    }

  private:
    void DoRun() override
    {
        m_addWhile = 1;
        Make(2, NanoSeconds(100));
        AddAt(1, 1);
        AddAt(5, 2);
        RunAll();
        Check({{1, 5}, {2, 5}, {101, 105}}, {2, 1});

        m_sent.clear();
        m_bursts.clear();
        Make(8, NanoSeconds(100));
        AddAt(1, 1);
        AddAt(2, 2);
        Simulator::Schedule(NanoSeconds(50), &TransmitBuffer::Flush, m_buffer);
        Simulator::Schedule(NanoSeconds(60), &TransmitBuffer::Flush, m_buffer);
        AddAt(70, 3);
        RunAll();
        Check({{1, 50}, {2, 50}, {3, 170}}, {2, 1});

        // Disposed of, it sends nothing and waits for nothing.
        m_sent.clear();
        Make(8, NanoSeconds(100));
        AddAt(1, 1);
        Simulator::Schedule(NanoSeconds(50), &TransmitBuffer::Dispose, m_buffer);
        RunAll();
        NS_TEST_EXPECT_MSG_EQ(m_sent.size(), 0, "disposed of");
        NS_TEST_EXPECT_MSG_EQ(m_buffer->GetWaiting(), 0, "disposed of");
    }
};

/// Packets of a core's burst that join together.
class TogetherTest : public TransmitBufferTest
{
  public:
    TogetherTest()
        : TransmitBufferTest("bursts that join together: half of Size goes at once if none wait")
    {
    }

  private:
    /// Adds a burst at a time in ns; numbers from the first one on.
    void BurstAt(int64_t when, uint32_t first, uint32_t packets)
    {
        Simulator::Schedule(NanoSeconds(when), [this, first, packets]() {
            for (uint32_t i = 0; i < packets; i++)
            {
                Add(first + i);
            }
            m_buffer->EndBurst();
        });
    }

    void DoRun() override
    {
        Make(8, NanoSeconds(100));
        m_buffer->SetAttribute("Together", BooleanValue(true));
        BurstAt(10, 1, 3);  // too few: they wait
        BurstAt(20, 4, 4);  // half of Size, but behind others
        BurstAt(30, 8, 3);  // ten are enough, and all go
        BurstAt(40, 11, 4); // half of Size, alone
        BurstAt(50, 15, 9); // more than Size, alone
        BurstAt(60, 24, 1); // waits for the timeout
        BurstAt(170, 25, 1);
        Simulator::Schedule(NanoSeconds(180), &TransmitBuffer::Flush, m_buffer);
        BurstAt(190, 26, 0); // no packet is no burst
        RunAll();
        std::vector<Sent> sent;
        const auto expect = [&sent](uint32_t first, uint32_t last, int64_t when) {
            for (uint32_t i = first; i <= last; i++)
            {
                sent.push_back({i, when});
            }
        };
        expect(1, 10, 30);
        expect(11, 14, 40);
        expect(15, 23, 50);
        expect(24, 24, 160);
        expect(25, 25, 180);
        Check(sent, {10, 4, 9, 1, 1});
        // Without Together a burst's end means nothing.
        m_sent.clear();
        m_bursts.clear();
        Make(8, NanoSeconds(100));
        BurstAt(10, 1, 9);
        RunAll();
        sent.clear();
        expect(1, 8, 10);
        expect(9, 9, 110);
        Check(sent, {8, 1});
    }
};

/**
 * \brief The suite of transmit buffers.
 */
class TransmitBufferTestSuite : public TestSuite
{
  public:
    TransmitBufferTestSuite()
        : TestSuite("softrouter-transmit-buffer", Type::UNIT)
    {
        AddTestCase(new UnbufferedTest);
        AddTestCase(new SizeAndTimeoutTest);
        AddTestCase(new RefusedTest);
        AddTestCase(new ReentranceTest);
        AddTestCase(new TogetherTest);
    }
};

TransmitBufferTestSuite g_transmitBufferTestSuite; //!< registers the suite

} // namespace
