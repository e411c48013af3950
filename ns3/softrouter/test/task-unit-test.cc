// SPDX-License-Identifier: GPL-2.0-only
// Task units against queueing theory, and against schedules computed by hand or by brute force.
#include "ns3/batch-service-time-model.h"
#include "ns3/boolean.h"
#include "ns3/contention-domain.h"
#include "ns3/double.h"
#include "ns3/global-resource-manager.h"
#include "ns3/linear-contention-service-time-model.h"
#include "ns3/local-resource-manager.h"
#include "ns3/nic-ring.h"
#include "ns3/packet.h"
#include "ns3/pointer.h"
#include "ns3/random-variable-stream.h"
#include "ns3/simulator.h"
#include "ns3/sojourn-meter.h"
#include "ns3/string.h"
#include "ns3/task-unit.h"
#include "ns3/test.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \param ns of each packet
 * \return a model in which each packet takes that, whatever else
 */
Ptr<ServiceTimeModel>
Fixed(double ns)
{
    auto model = CreateObject<BatchServiceTimeModel>();
    model->SetAttribute("BurstCost", DoubleValue(0));
    model->SetAttribute("PacketCost", DoubleValue(ns));
    model->SetAttribute("ByteCost", DoubleValue(0));
    return model;
}

/// A task unit with one queue, whose packets' number is their size.
class Station
{
  public:
    /**
     * \param model how long it takes
     * \param burst packets at once
     * \param priority of the task unit
     */
    Station(Ptr<ServiceTimeModel> model, uint32_t burst, uint32_t priority = 1)
        : ring(CreateObject<NicRing>()),
          unit(CreateObject<TaskUnit>())
    {
        ring->SetSize(65536);
        unit->SetAttribute("BurstSize", UintegerValue(burst));
        unit->SetAttribute("Priority", UintegerValue(priority));
        unit->SetServiceModel(model);
        unit->AddQueue(ring);
        unit->SetOutput(MakeCallback(&Station::Done, this));
    }

    /**
     * \brief A packet arrives.
     */
    void Arrive()
    {
        RouterItem item;
        item.arrival = Simulator::Now();
        item.frameSize = 64;
        if (ring->Push(item))
        {
            meter.Arrive(Simulator::Now());
            unit->Notify();
        }
    }

    /**
     * \param item a packet that is done
     */
    void Done(RouterItem& item)
    {
        meter.Depart(item.arrival, Simulator::Now());
        done.push_back(Simulator::Now());
    }

    Ptr<NicRing> ring;      //!< its queue
    Ptr<TaskUnit> unit;     //!< the task unit
    SojournMeter meter;     //!< its packets
    std::vector<Time> done; //!< when each was done
};

/// Poisson arrivals at a station.
class Arrivals
{
  public:
    /**
     * \param station where packets arrive
     * \param meanNs between two
     * \param packets how many
     */
    Arrivals(Station& station, double meanNs, uint32_t packets)
        : m_station(station),
          m_left(packets),
          m_gap(CreateObject<ExponentialRandomVariable>())
    {
        m_gap->SetAttribute("Mean", DoubleValue(meanNs));
        m_gap->SetStream(7);
        Next();
    }

  private:
    void Next()
    {
        if (m_left-- > 0)
        {
            // Sums of rounded gaps drift: the rest is carried over.
            const double ns = m_gap->GetValue() + m_carry;
            m_carry = ns - std::floor(ns);
            Simulator::Schedule(NanoSeconds(static_cast<int64_t>(ns)), &Arrivals::Arrive, this);
        }
    }

    void Arrive()
    {
        m_station.Arrive();
        Next();
    }

    Station& m_station;                   //!< where packets arrive
    uint32_t m_left;                      //!< packets still to come
    double m_carry{0};                    //!< part of a nanosecond
    Ptr<ExponentialRandomVariable> m_gap; //!< between two
};

} // namespace

/**
 * \ingroup softrouter-test
 * \brief One packet at a time, always the same service time, Poisson arrivals: M/D/1.
 */
class TaskUnitMd1TestCase : public TestCase
{
  public:
    /**
     * \param load arrivals per service time
     */
    explicit TaskUnitMd1TestCase(double load)
        : TestCase("M-D-1, mean sojourn at load " + std::to_string(load)),
          m_load(load)
    {
    }

  private:
    void DoRun() override
    {
        constexpr double SERVICE = 500;
        Station station(Fixed(SERVICE), 1);
        Arrivals arrivals(station, SERVICE / m_load, 1000000);
        Simulator::Run();
        // Pollaczek and Khinchine: x + load x / (2 (1 - load)).
        const double expected = SERVICE * (1 + m_load / (2 * (1 - m_load)));
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetMeanNs(), expected, 0.03 * expected, "M/D/1");
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetLittleNs(Simulator::Now()),
                                  station.meter.GetMeanNs(),
                                  1e-6 * expected,
                                  "Little's law: the queue is empty in the end, so it is exact");
        Simulator::Destroy();
    }

    double m_load; //!< arrivals per service time
};

/**
 * \ingroup softrouter-test
 * \brief A server of batches, against its embedded Markov chain.
 */
class TaskUnitBatchTestCase : public TestCase
{
  public:
    /**
     * \param load arrivals per service time of a full batch
     * \param published mean sojourn time, ns
     */
    TaskUnitBatchTestCase(double load, double published)
        : TestCase("batch server: mean sojourn at load " + std::to_string(load)),
          m_load(load),
          m_published(published)
    {
    }

  private:
    static constexpr uint32_t BATCH = 32;
    static constexpr double BATCH_NS = 400;
    static constexpr double PACKET_NS = 300;

    /**
     * \param packets of a batch
     * \return how long it takes, ns
     */
    static double Service(uint32_t packets)
    {
        return BATCH_NS + packets * PACKET_NS;
    }

    /**
     * \param rate packets per ns
     * \return mean sojourn time, ns: from the chain of the packets that are left when a batch is
     * done, and Little's law over the cycles between these moments
     */
    static double Chain(double rate)
    {
        constexpr uint32_t STATES = 1200;
        std::vector<double> now(STATES, 0.0);
        now[0] = 1;
        std::map<uint32_t, std::vector<double>> arrivals; // by batch size: Poisson probabilities
        for (uint32_t batch = 1; batch <= BATCH; batch++)
        {
            const double mean = rate * Service(batch);
            auto& poisson = arrivals[batch];
            double p = std::exp(-mean);
            for (uint32_t n = 0; n < 200; n++)
            {
                poisson.push_back(p);
                p *= mean / (n + 1);
            }
        }
        double change = 1;
        for (uint32_t step = 0; step < 20000 && change > 1e-9; step++)
        {
            std::vector<double> next(STATES, 0.0);
            for (uint32_t q = 0; q < STATES; q++)
            {
                if (now[q] < 1e-15)
                {
                    continue;
                }
                const uint32_t batch = std::clamp(q, 1U, BATCH);
                const uint32_t rest = q > batch ? q - batch : 0;
                for (uint32_t n = 0; n < 200; n++)
                {
                    next[std::min(rest + n, STATES - 1)] += now[q] * arrivals[batch][n];
                }
            }
            change = 0;
            for (uint32_t q = 0; q < STATES; q++)
            {
                change += std::abs(next[q] - now[q]);
            }
            now = next;
        }
        double area = 0;
        double length = 0;
        for (uint32_t q = 0; q < STATES; q++)
        {
            const uint32_t batch = std::clamp(q, 1U, BATCH);
            const double service = Service(batch);
            // From an empty router the cycle begins with waiting for a packet, with nobody there.
            length += now[q] * (service + (q == 0 ? 1 / rate : 0));
            area += now[q] * (std::max(q, 1U) * service + rate * service * service / 2);
        }
        return area / length / rate;
    }

    void DoRun() override
    {
        const double rate = m_load * BATCH / Service(BATCH);
        const double expected = Chain(rate);
        NS_TEST_EXPECT_MSG_EQ_TOL(expected, m_published, 1, "the chain against published values");
        auto model = CreateObject<BatchServiceTimeModel>();
        model->SetAttribute("BurstCost", DoubleValue(BATCH_NS));
        model->SetAttribute("PacketCost", DoubleValue(PACKET_NS));
        Station station(model, BATCH);
        Arrivals arrivals(station, 1 / rate, m_load > 0.95 ? 3000000 : 1000000);
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetMeanNs(),
                                  expected,
                                  0.03 * expected,
                                  "simulated");
        Simulator::Destroy();
    }

    double m_load;      //!< arrivals per service time
    double m_published; //!< mean sojourn time, ns
};

/**
 * \ingroup softrouter-test
 * \brief Revoked task units keep what remains of their service time, to the picosecond.
 */
class TaskUnitRevokeTestCase : public TestCase
{
  public:
    TaskUnitRevokeTestCase()
        : TestCase("revocation keeps the remaining service time")
    {
    }

  private:
    void DoRun() override
    {
        auto pool = CreateObject<ResourcePool>();
        pool->Add(CreateObject<Resource>());
        auto manager = CreateObject<LocalResourceManager>();
        manager->SetPool(pool);
        Station low(Fixed(1000), 1, 0);
        Station middle(Fixed(300), 1, 1);
        Station high(Fixed(50), 1, 2);
        for (Station* station : {&low, &middle, &high})
        {
            station->unit->SetManager(manager, {{pool, 1, ResourceDemand::ANY}});
        }
        Simulator::Schedule(NanoSeconds(0), &Station::Arrive, &low);
        Simulator::Schedule(NanoSeconds(400), &Station::Arrive, &middle); // low has 600 left
        Simulator::Schedule(NanoSeconds(500), &Station::Arrive, &high);   // middle has 200 left
        Simulator::Schedule(NanoSeconds(900), &Station::Arrive, &high); // low, at 750, has 450 left
        Simulator::Schedule(NanoSeconds(900), &Station::Arrive, &low);
        Simulator::Run();
        Expect(high, {550, 950}, "high");
        Expect(middle, {750}, "middle");
        Expect(low, {1400, 2400}, "low");
        NS_TEST_EXPECT_MSG_EQ(pool->Get(0)->GetBusyTime(), NanoSeconds(2400), "never idle");
        Simulator::Destroy();
    }

    /**
     * \param station whose packets
     * \param ns when they should be done
     * \param name of the station
     */
    void Expect(const Station& station, const std::vector<uint32_t>& ns, const std::string& name)
    {
        NS_TEST_ASSERT_MSG_EQ(station.done.size(), ns.size(), name << " did all");
        for (uint32_t i = 0; i < ns.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(station.done[i], NanoSeconds(ns[i]), name << ", packet " << i);
        }
    }
};

/**
 * \ingroup softrouter-test
 * \brief One core, three priorities, random arrivals: exactly the schedule that brute force gives.
 */
class TaskUnitPreemptionTestCase : public TestCase
{
  public:
    TaskUnitPreemptionTestCase()
        : TestCase("preemption by priority is exact, checked nanosecond by nanosecond")
    {
    }

  private:
    static constexpr uint32_t CLASSES = 3;
    static constexpr int64_t SERVICE[CLASSES] = {97, 41, 13}; // ns; class 2 goes first

    void DoRun() override
    {
        const uint32_t seed = std::random_device{}();
        std::mt19937 random(seed);
        for (uint32_t run = 0; run < 200 && !IsStatusFailure(); run++)
        {
            std::vector<std::vector<int64_t>> arrivals(CLASSES);
            for (uint32_t i = 0; i < 60; i++)
            {
                arrivals[random() % CLASSES].push_back(random() % 3000);
            }
            for (auto& times : arrivals)
            {
                std::sort(times.begin(), times.end());
            }
            const auto expected = BruteForce(arrivals);
            const auto simulated = Simulate(arrivals);
            for (uint32_t c = 0; c < CLASSES; c++)
            {
                NS_TEST_ASSERT_MSG_EQ(simulated[c].size(), expected[c].size(), "seed " << seed);
                for (uint32_t i = 0; i < expected[c].size(); i++)
                {
                    NS_TEST_EXPECT_MSG_EQ(simulated[c][i],
                                          NanoSeconds(expected[c][i]),
                                          "seed " << seed << ", run " << run << ", class " << c
                                                  << ", packet " << i);
                }
            }
        }
    }

    /**
     * \param arrivals by class, sorted, ns
     * \return when each packet is done, ns
     */
    static std::vector<std::vector<int64_t>> BruteForce(
        const std::vector<std::vector<int64_t>>& arrivals)
    {
        std::vector<std::vector<int64_t>> done(CLASSES);
        std::vector<int64_t> left(CLASSES, 0);     // of the packet at the head of each class
        std::vector<std::size_t> next(CLASSES, 0); // packet of each class
        for (int64_t now = 0; now < 20000; now++)
        {
            for (int32_t c = CLASSES - 1; c >= 0; c--)
            {
                if (next[c] < arrivals[c].size() && arrivals[c][next[c]] <= now)
                {
                    left[c] = left[c] == 0 ? SERVICE[c] : left[c];
                    if (--left[c] == 0)
                    {
                        done[c].push_back(now + 1);
                        next[c]++;
                    }
                    break; // this nanosecond is spent
                }
            }
        }
        return done;
    }

    /**
     * \param arrivals by class, sorted, ns
     * \return when each packet is done
     */
    static std::vector<std::vector<Time>> Simulate(
        const std::vector<std::vector<int64_t>>& arrivals)
    {
        auto pool = CreateObject<ResourcePool>();
        pool->Add(CreateObject<Resource>());
        auto manager = CreateObject<LocalResourceManager>();
        manager->SetPool(pool);
        std::deque<Station> stations;
        for (uint32_t c = 0; c < CLASSES; c++)
        {
            stations.emplace_back(Fixed(SERVICE[c]), 1, c);
            auto& station = stations.back();
            station.unit->SetManager(manager, {{pool, 1, 0}});
            // The callback of the constructor points to an object that does not move.
            for (const int64_t time : arrivals[c])
            {
                Simulator::Schedule(NanoSeconds(time), &Station::Arrive, &station);
            }
        }
        Simulator::Run();
        std::vector<std::vector<Time>> done;
        for (const auto& station : stations)
        {
            done.push_back(station.done);
        }
        Simulator::Destroy();
        return done;
    }
};

/**
 * \ingroup softrouter-test
 * \brief Task units of equal priority on one core take turns, burst by burst; a core of several
 * queues does so, too.
 */
class TaskUnitTurnsTestCase : public TestCase
{
  public:
    TaskUnitTurnsTestCase()
        : TestCase("equals take turns")
    {
    }

  private:
    void DoRun() override
    {
        auto pool = CreateObject<ResourcePool>();
        pool->Add(CreateObject<Resource>());
        auto manager = CreateObject<LocalResourceManager>();
        manager->SetPool(pool);
        Station a(Fixed(100), 2);
        Station b(Fixed(100), 2);
        for (Station* station : {&a, &b})
        {
            station->unit->SetManager(manager, {{pool, 1, 0}});
            for (uint32_t i = 0; i < 5; i++)
            {
                Simulator::Schedule(NanoSeconds(0), &Station::Arrive, station);
            }
        }
        Simulator::Run();
        // a took its first packet alone: the others came in the same instant, but after it.
        const std::vector<uint32_t> expectedA{100, 500, 500, 900, 900};
        const std::vector<uint32_t> expectedB{300, 300, 700, 700, 1000};
        for (uint32_t i = 0; i < 5; i++)
        {
            NS_TEST_EXPECT_MSG_EQ(a.done.at(i), NanoSeconds(expectedA[i]), "a, packet " << i);
            NS_TEST_EXPECT_MSG_EQ(b.done.at(i), NanoSeconds(expectedB[i]), "b, packet " << i);
        }
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Several kinds at once: a task unit works only while it holds a core and the bus.
 */
class TaskUnitSeveralKindsTestCase : public TestCase
{
  public:
    TaskUnitSeveralKindsTestCase()
        : TestCase("a core and a bus, all or nothing")
    {
    }

  private:
    void DoRun() override
    {
        auto cores = CreateObjectWithAttributes<ResourcePool>("Kind", StringValue("core"));
        auto buses = CreateObjectWithAttributes<ResourcePool>("Kind", StringValue("bus"));
        for (uint32_t i = 0; i < 4; i++)
        {
            cores->Add(CreateObject<Resource>());
        }
        buses->Add(CreateObject<Resource>());
        auto global = CreateObject<GlobalResourceManager>();
        auto coreManager = CreateObject<LocalResourceManager>();
        coreManager->SetPool(cores);
        auto busManager = CreateObject<LocalResourceManager>();
        busManager->SetPool(buses);
        global->AddManager(coreManager);
        global->AddManager(busManager);
        Station a(Fixed(100), 1);
        Station b(Fixed(100), 1);
        Station coreOnly(Fixed(100), 1);
        const std::vector<ResourceDemand> both{{cores, 1, ResourceDemand::ANY},
                                               {buses, 1, ResourceDemand::ANY}};
        a.unit->SetManager(global, both);
        b.unit->SetManager(global, both);
        coreOnly.unit->SetManager(coreManager, {{cores, 1, ResourceDemand::ANY}});
        for (Station* station : {&a, &b, &coreOnly})
        {
            Simulator::Schedule(NanoSeconds(10), &Station::Arrive, station);
        }
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ(a.done.at(0), NanoSeconds(110), "first");
        NS_TEST_EXPECT_MSG_EQ(b.done.at(0), NanoSeconds(210), "there are four cores, one bus");
        NS_TEST_EXPECT_MSG_EQ(coreOnly.done.at(0), NanoSeconds(110), "needs no bus");
        NS_TEST_EXPECT_MSG_EQ(buses->Get(0)->GetBusyTime(), NanoSeconds(200), "the bus");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief A core that sleeps: the first burst waits for it, and takes along what came meanwhile.
 */
class TaskUnitWakeUpTestCase : public TestCase
{
  public:
    TaskUnitWakeUpTestCase()
        : TestCase("a core wakes up, and then takes all that has come")
    {
    }

  private:
    void DoRun() override
    {
        auto core = CreateObjectWithAttributes<Resource>("SleepAfter",
                                                         TimeValue(MicroSeconds(1)),
                                                         "WakeUpTime",
                                                         TimeValue(MicroSeconds(5)));
        Station station(Fixed(100), 32);
        station.unit->SetCore(core);
        for (const uint32_t us : {10, 12, 14, 20})
        {
            Simulator::Schedule(MicroSeconds(us), &Station::Arrive, &station);
        }
        Simulator::Run();
        const std::vector<uint32_t> expected{15300, 15300, 15300, 25100};
        for (uint32_t i = 0; i < expected.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(station.done.at(i), NanoSeconds(expected[i]), "packet " << i);
        }
        NS_TEST_EXPECT_MSG_EQ(station.unit->GetBursts(), 2, "bursts");
        NS_TEST_EXPECT_MSG_EQ(core->GetWakeUps(), 2, "times woken");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Rates do not depend on the resolution of time unless the service times are to be cut.
 */
class TaskUnitRoundingTestCase : public TestCase
{
  public:
    TaskUnitRoundingTestCase()
        : TestCase("what a time step cannot hold is carried over")
    {
    }

  private:
    void DoRun() override
    {
        constexpr uint32_t PACKETS = 60000;
        for (const bool truncate : {false, true})
        {
            Station station(Fixed(563.3762), 32);
            station.unit->SetAttribute("Truncate", BooleanValue(truncate));
            for (uint32_t i = 0; i < PACKETS; i++)
            {
                station.Arrive();
            }
            Simulator::Run();
            const double ns = Simulator::Now().ToDouble(Time::NS);
            NS_TEST_EXPECT_MSG_EQ_TOL(ns,
                                      PACKETS * (truncate ? 563 : 563.3762),
                                      1,
                                      "truncate " << truncate);
            Simulator::Destroy();
        }
    }
};

/**
 * \ingroup softrouter-test
 * \brief Percentiles of the histogram against sorted values.
 */
class SojournMeterTestCase : public TestCase
{
  public:
    SojournMeterTestCase()
        : TestCase("percentiles, against sorted values")
    {
    }

  private:
    void DoRun() override
    {
        const uint32_t seed = std::random_device{}();
        std::mt19937_64 random(seed);
        SojournMeter meter;
        NS_TEST_EXPECT_MSG_EQ(std::isnan(meter.GetPercentileNs(0.5)), true, "nothing measured");
        std::vector<double> all;
        for (uint32_t i = 0; i < 20000; i++)
        {
            // From 1 ns to a second, evenly over the orders of magnitude.
            const int64_t ns = std::pow(10, std::uniform_real_distribution<double>(0, 9)(random));
            all.push_back(static_cast<double>(ns));
            meter.Arrive(Seconds(0));
            meter.Depart(Seconds(0), NanoSeconds(ns));
        }
        std::sort(all.begin(), all.end());
        for (const double share : {0.0001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0})
        {
            const double exact = all[static_cast<std::size_t>(std::ceil(share * all.size())) - 1];
            NS_TEST_EXPECT_MSG_EQ_TOL(meter.GetPercentileNs(share),
                                      exact,
                                      exact / 128,
                                      "percentile " << share << ", seed " << seed);
        }
        NS_TEST_EXPECT_MSG_EQ(meter.GetMaxNs(), all.back(), "largest");
        const double mean = std::accumulate(all.begin(), all.end(), 0.0) / all.size();
        NS_TEST_EXPECT_MSG_EQ_TOL(meter.GetMeanNs(), mean, 1e-9 * mean, "mean");
    }
};

/**
 * \ingroup softrouter-test
 * \brief Task units.
 */
class TaskUnitTestSuite : public TestSuite
{
  public:
    TaskUnitTestSuite()
        : TestSuite("softrouter-task-unit", Type::UNIT)
    {
        for (const double load : {0.3, 0.5, 0.8, 0.9})
        {
            AddTestCase(new TaskUnitMd1TestCase(load));
        }
        AddTestCase(new TaskUnitBatchTestCase(0.5, 1562));
        AddTestCase(new TaskUnitBatchTestCase(0.9, 6102));
        AddTestCase(new TaskUnitBatchTestCase(0.98, 15859));
        AddTestCase(new TaskUnitRevokeTestCase);
        AddTestCase(new TaskUnitPreemptionTestCase);
        AddTestCase(new TaskUnitTurnsTestCase);
        AddTestCase(new TaskUnitSeveralKindsTestCase);
        AddTestCase(new TaskUnitWakeUpTestCase);
        AddTestCase(new TaskUnitRoundingTestCase);
        AddTestCase(new SojournMeterTestCase);
    }
};

static TaskUnitTestSuite g_taskUnitTestSuite; //!< registers itself
