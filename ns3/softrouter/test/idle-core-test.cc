// SPDX-License-Identifier: GPL-2.0-only
// Cores that look for packets, send what they have gathered when they find none, and are taken away
// now and then: against brute force, nanosecond by nanosecond, and against closed forms.
#include "station.h"
#include "test-seed.h"

#include "ns3/boolean.h"
#include "ns3/core-pauses.h"
#include "ns3/local-resource-manager.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/router-testbed.h"
#include "ns3/test.h"
#include "ns3/transmit-buffer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace ns3;

namespace
{

/// Random numbers of the simulation from another seed, for as long as this lives.
class Seed
{
  public:
    /// \param test whose seed it is
    explicit Seed(const std::string& test)
        : m_before(RngSeedManager::GetSeed())
    {
        RngSeedManager::SetSeed(GetTestSeed(test) % 4000000000U + 1);
    }

    ~Seed()
    {
        RngSeedManager::SetSeed(m_before);
    }

  private:
    uint32_t m_before; //!< the seed of other tests
};

/// Pauses that take a tenth of a core's time.
struct Tenth
{
    static constexpr double PER_SECOND = 50000;
    static constexpr double LENGTHS[2] = {1000, 3000}; // ns
    static constexpr double SHARE = 0.1;               // PER_SECOND times the mean length
    static constexpr double SQUARES = (1e6 + 9e6) / 2; // mean square of a length, ns^2
    static constexpr double RATE = PER_SECOND / 1e9;   // pauses in a ns

    /**
     * \return these pauses
     */
    static Ptr<CorePauses> Make()
    {
        auto pauses = CreateObject<CorePauses>();
        pauses->SetAttribute("PerSecond", DoubleValue(PER_SECOND));
        pauses->SetLengths({LENGTHS[0], LENGTHS[1]});
        return pauses;
    }

    /**
     * \param pauses of a core
     * \return the core
     */
    static Ptr<Resource> MakeCore(Ptr<CorePauses> pauses)
    {
        auto core = CreateObject<Resource>();
        core->SetPauses(pauses);
        return core;
    }

    /**
     * \brief Pauses prolong work, and so do those that begin in them: it takes as long as the busy
     * period of M/G/1 that begins with this much work, which is work / (1 - SHARE) on the mean.
     * \param work ns
     * \return standard deviation of that, ns
     */
    static double GetDeviation(double work)
    {
        return std::sqrt(work * RATE * SQUARES / std::pow(1 - SHARE, 3));
    }
};

} // namespace

/**
 * \ingroup softrouter-test
 * \brief A core that looks for packets and gathers them for its port: exactly what brute force
 * gives.
 */
class IdleCoreLooksTestCase : public TestCase
{
  public:
    IdleCoreLooksTestCase()
        : TestCase("looks and transmit buffers are exact, checked nanosecond by nanosecond")
    {
    }

  private:
    static constexpr uint32_t BURST = 4;     // packets
    static constexpr int64_t BURST_NS = 50;  // of a burst
    static constexpr int64_t PACKET_NS = 10; // of each of its packets
    static constexpr int64_t END = 40000;    // ns, when all is over

    /// When a packet came, and when it was sent, ns.
    using Sent = std::vector<std::pair<int64_t, int64_t>>;

    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-idle-core");
        std::mt19937 random(seed);
        for (uint32_t run = 0; run < GetTestRounds(100) && !IsStatusFailure(); run++)
        {
            const int64_t poll = 1 + random() % 90;
            const uint32_t size = 1 + random() % 12;
            const uint32_t mean = 20 + random() % 200;
            std::set<int64_t> arrivals; // one at a time: equal ones have no order
            for (uint32_t i = 0; i < 100; i++)
            {
                arrivals.insert(random() % (100 * mean));
            }
            const Sent expected = BruteForce(arrivals, poll, size);
            const Sent simulated = Simulate(arrivals, poll, size);
            NS_TEST_EXPECT_MSG_EQ(simulated.size(), arrivals.size(), "all are sent");
            NS_TEST_EXPECT_MSG_EQ((simulated == expected),
                                  true,
                                  "seed " << seed << ", run " << run << ", looks of " << poll
                                          << " ns, buffer of " << size);
        }
    }

    /**
     * \param arrivals ns
     * \param poll ns of a look
     * \param size of the buffer
     * \return what is sent, in order
     */
    static Sent BruteForce(const std::set<int64_t>& arrivals, int64_t poll, uint32_t size)
    {
        Sent sent;
        std::vector<int64_t> ring;
        std::vector<int64_t> burst;
        std::vector<int64_t> buffer;
        int64_t end = 0; // of the present look or burst
        const auto send = [&sent](std::vector<int64_t>& packets, int64_t now) {
            for (const int64_t packet : packets)
            {
                sent.emplace_back(packet, now);
            }
            packets.clear();
        };
        for (int64_t now = 0; now < END; now++)
        {
            if (arrivals.count(now) > 0)
            {
                ring.push_back(now);
            }
            if (now < end)
            {
                continue;
            }
            if (burst.empty())
            {
                send(buffer, now); // a look has found nothing
            }
            else if (buffer.empty() && 2 * burst.size() >= size)
            {
                send(burst, now);
            }
            else
            {
                buffer.insert(buffer.end(), burst.begin(), burst.end());
                burst.clear();
                if (buffer.size() >= size)
                {
                    send(buffer, now);
                }
            }
            const auto last = ring.begin() + std::min<std::size_t>(ring.size(), BURST);
            burst.assign(ring.begin(), last);
            ring.erase(ring.begin(), last);
            const auto packets = static_cast<int64_t>(burst.size());
            end = now + (burst.empty() ? poll : BURST_NS + packets * PACKET_NS);
        }
        return sent;
    }

    /**
     * \param arrivals ns
     * \param poll ns of a look
     * \param size of the buffer
     * \return what is sent, in order
     */
    static Sent Simulate(const std::set<int64_t>& arrivals, int64_t poll, uint32_t size)
    {
        Sent sent;
        auto model = CreateObject<BatchServiceTimeModel>();
        model->SetAttribute("BurstCost", DoubleValue(BURST_NS));
        model->SetAttribute("PacketCost", DoubleValue(PACKET_NS));
        Station station(model, BURST);
        auto buffer = CreateObject<TransmitBuffer>();
        buffer->SetAttribute("Size", UintegerValue(size));
        buffer->SetAttribute("Timeout", TimeValue(Seconds(1))); // never needed
        buffer->SetAttribute("Together", BooleanValue(true));
        buffer->SetSend(TransmitBuffer::SendCallback([&sent](const RouterItem& item) {
            sent.emplace_back(item.arrival.GetNanoSeconds(), Simulator::Now().GetNanoSeconds());
            return true;
        }));
        station.unit->SetAttribute("PollTime", TimeValue(NanoSeconds(poll)));
        station.unit->SetCore(CreateObject<Resource>());
        station.unit->SetOutput(
            TaskUnit::Output([buffer](RouterItem& item) { buffer->Add(std::move(item)); }));
        station.unit->SetHooks(MakeCallback(&TransmitBuffer::EndBurst, buffer),
                               MakeCallback(&TransmitBuffer::Flush, buffer));
        for (const int64_t time : arrivals)
        {
            Simulator::Schedule(NanoSeconds(time), &Station::Arrive, &station);
        }
        Simulator::Stop(NanoSeconds(END));
        Simulator::Run();
        Simulator::Destroy();
        return sent;
    }
};

/**
 * \ingroup softrouter-test
 * \brief A core that looks sleeps after a while; whether it does is decided when a packet comes,
 * not when it is seen, which once woke cores that were awake.
 */
class IdleCoreSleepsTestCase : public TestCase
{
  public:
    IdleCoreSleepsTestCase()
        : TestCase("looks of a core that sleeps, against a schedule computed manually")
    {
    }

  private:
    void DoRun() override
    {
        auto core = CreateObjectWithAttributes<Resource>("SleepAfter",
                                                         TimeValue(NanoSeconds(1000)),
                                                         "WakeUpTime",
                                                         TimeValue(NanoSeconds(5000)));
        Station station(Fixed(100), 32);
        station.unit->SetAttribute("PollTime", TimeValue(NanoSeconds(400)));
        station.unit->SetCore(core);
        for (const uint32_t ns : {10, 1450, 5000, 10300})
        {
            Simulator::Schedule(NanoSeconds(ns), &Station::Arrive, &station);
        }
        Simulator::Run();
        // Seen at 400. Idle from 500 on: awake at 1450, after 950 ns, and seen at 1700. Idle from
        // 1800 on: asleep at 5000. The look from 10100 to 10500 sees the last.
        const std::vector<uint32_t> expected{500, 1800, 10100, 10600};
        NS_TEST_ASSERT_MSG_EQ(station.done.size(), expected.size(), "all are done");
        for (uint32_t i = 0; i < expected.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(station.done.at(i), NanoSeconds(expected[i]), "packet " << i);
        }
        NS_TEST_EXPECT_MSG_EQ(core->GetWakeUps(), 1, "times woken");
        NS_TEST_EXPECT_MSG_EQ(core->GetBusyTime(), NanoSeconds(5400), "work and one wake-up");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief A packet that comes to an idle core in a pause waits for its end.
 */
class IdleCorePausesTestCase : public TestCase
{
  public:
    IdleCorePausesTestCase()
        : TestCase("pauses of an idle core: the mean wait within five standard errors")
    {
    }

  private:
    static constexpr double WORK = 10;          // ns of a packet
    static constexpr uint32_t PACKETS = 100000; // each far from the next

    void DoRun() override
    {
        const Seed seed("softrouter-idle-core, pauses");
        Station station(Fixed(WORK), 1);
        station.unit->SetCore(Tenth::MakeCore(Tenth::Make()));
        for (uint32_t i = 1; i <= PACKETS; i++)
        {
            Simulator::Schedule(MicroSeconds(50) * i, &Station::Arrive, &station);
        }
        Simulator::Run();
        double sum = 0;
        double squares = 0;
        for (uint32_t i = 0; i < PACKETS; i++)
        {
            const Time sojourn = station.done.at(i) - MicroSeconds(50) * (i + 1);
            const double ns = sojourn.ToDouble(Time::NS);
            sum += ns;
            squares += ns * ns;
        }
        const double mean = sum / PACKETS;
        const double error = std::sqrt((squares / PACKETS - mean * mean) / PACKETS);
        // A wait exceeds w if any pause that has begun lasts beyond w: Poisson, of the mean number
        // RATE E[(L - w)+]. Work takes what it takes with a tenth of the time gone.
        double expected = WORK / (1 - Tenth::SHARE);
        constexpr double STEP = 0.1;
        for (double w = STEP / 2; w < Tenth::LENGTHS[1]; w += STEP)
        {
            const double beyond =
                (std::max(Tenth::LENGTHS[0] - w, 0.0) + std::max(Tenth::LENGTHS[1] - w, 0.0)) / 2;
            expected += (1 - std::exp(-Tenth::RATE * beyond)) * STEP;
        }
        NS_TEST_EXPECT_MSG_EQ_TOL(mean, expected, 5 * error, "standard error " << error << " ns");
        NS_TEST_EXPECT_MSG_LT(error, 0.02 * expected, "it tells something");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief A core with enough to do loses the pauses' share of its time, and is not busy meanwhile.
 */
class BusyCorePausesTestCase : public TestCase
{
  public:
    BusyCorePausesTestCase()
        : TestCase("pauses of a busy core: its rate within five standard deviations")
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t PACKETS = 60000;
        constexpr double WORK = 100.0 * PACKETS;
        const Seed seed("softrouter-idle-core, busy");
        const Ptr<Resource> core = Tenth::MakeCore(Tenth::Make());
        Station station(Fixed(100), 32);
        station.unit->SetCore(core);
        for (uint32_t i = 0; i < PACKETS; i++)
        {
            station.Arrive();
        }
        Simulator::Run();
        const double left = 1 - Tenth::SHARE;
        const double deviation = Tenth::GetDeviation(WORK);
        NS_TEST_EXPECT_MSG_EQ_TOL(station.done.back().ToDouble(Time::NS),
                                  WORK / left,
                                  5 * deviation,
                                  "standard deviation " << deviation << " ns");
        NS_TEST_EXPECT_MSG_LT(10 * deviation, WORK / left - WORK, "it tells something");
        NS_TEST_EXPECT_MSG_EQ(core->GetBusyTime(), NanoSeconds(100 * PACKETS), "work alone");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Pauses and revocations at once: no work is lost, none is done twice.
 */
class RevokedPausesTestCase : public TestCase
{
  public:
    RevokedPausesTestCase()
        : TestCase("pauses of a core that is revoked now and then")
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t HIGH = 2000;
        constexpr uint32_t LOW = 300;
        const Seed seed("softrouter-idle-core, revoked");
        auto pool = CreateObject<ResourcePool>();
        const auto pauses = Tenth::Make();
        pool->Add(Tenth::MakeCore(pauses));
        auto manager = CreateObject<LocalResourceManager>();
        manager->SetPool(pool);
        Station low(Fixed(5000), 1, 0);
        Station high(Fixed(100), 1, 1);
        low.unit->SetManager(manager, {{pool, 1, ResourceDemand::ANY}});
        high.unit->SetManager(manager, {{pool, 1, 0}});
        for (uint32_t i = 0; i < LOW; i++)
        {
            Simulator::Schedule(NanoSeconds(7000 * i), &Station::Arrive, &low);
        }
        for (uint32_t i = 0; i < HIGH; i++)
        {
            Simulator::Schedule(NanoSeconds(1003 * i + 1), &Station::Arrive, &high);
        }
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(low.done.size(), LOW, "low did all");
        NS_TEST_EXPECT_MSG_EQ(high.done.size(), HIGH, "high did all");
        constexpr double WORK = 5000.0 * LOW + 100.0 * HIGH;
        NS_TEST_EXPECT_MSG_EQ(pool->Get(0)->GetBusyTime(),
                              NanoSeconds(static_cast<int64_t>(WORK)),
                              "work alone");
        const double deviation = Tenth::GetDeviation(WORK);
        NS_TEST_EXPECT_MSG_EQ_TOL(pauses->GetPaused().ToDouble(Time::NS),
                                  WORK * Tenth::SHARE / (1 - Tenth::SHARE),
                                  5 * deviation,
                                  "standard deviation " << deviation << " ns");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Packets for the slow path cost a saturated router what the closed form says.
 */
class PuntedBurstsTestCase : public TestCase
{
  public:
    PuntedBurstsTestCase()
        : TestCase("punted packets in full bursts: the rate within five standard errors")
    {
    }

  private:
    void DoRun() override
    {
        constexpr double BURST = 32;
        constexpr double PUNT = 18;        // ns
        constexpr double PUNT_BURST = 292; // ns
        RouterTestbed::Setup setup;
        setup.profile.model.SetTypeId("ns3::BatchServiceTimeModel");
        setup.profile.model.Set("BurstCost", DoubleValue(396), "PacketCost", DoubleValue(20.8));
        setup.profile.model.Set("PuntCost", DoubleValue(PUNT));
        setup.profile.model.Set("PuntBurstCost", DoubleValue(PUNT_BURST));
        setup.profile.linkGbps = 100;
        setup.directions = 1;
        setup.rateGbps = 40; // two to four times what the core can do
        setup.seed = GetTestSeed("softrouter-idle-core, punted") % 4000000000U + 1;
        const uint32_t before = RngSeedManager::GetSeed();
        for (const double share : {0.0, 0.01, 0.1})
        {
            setup.profile.puntShare = share;
            const auto result = RouterTestbed::Run(setup);
            const double punted = 1 - std::pow(1 - share, BURST);
            const double expected = 396 + BURST * (20.8 + share * PUNT) + punted * PUNT_BURST;
            const double bursts = result.acceptedPps * setup.duration / BURST;
            // Of the two costs of a burst, which vary together, at most.
            const double error = (std::sqrt(punted * (1 - punted)) * PUNT_BURST +
                                  std::sqrt(BURST * share * (1 - share)) * PUNT) /
                                 std::sqrt(bursts);
            NS_TEST_EXPECT_MSG_EQ_TOL(result.batchMean, BURST, 1e-9, "full bursts");
            NS_TEST_EXPECT_MSG_EQ_TOL(BURST / result.acceptedPps * 1e9,
                                      expected,
                                      5 * error + 1e-3 * expected,
                                      "share " << share << ", standard error " << error << " ns");
        }
        RngSeedManager::SetSeed(before);
    }
};

/**
 * \ingroup softrouter-test
 * \brief Cores that are not always at work.
 */
class IdleCoreTestSuite : public TestSuite
{
  public:
    IdleCoreTestSuite()
        : TestSuite("softrouter-idle-core", Type::UNIT)
    {
        AddTestCase(new IdleCoreLooksTestCase);
        AddTestCase(new IdleCoreSleepsTestCase);
        AddTestCase(new IdleCorePausesTestCase);
        AddTestCase(new BusyCorePausesTestCase);
        AddTestCase(new RevokedPausesTestCase);
        AddTestCase(new PuntedBurstsTestCase);
    }
};

static IdleCoreTestSuite g_idleCoreTestSuite; //!< registers itself
