// SPDX-License-Identifier: GPL-2.0-only
// Task units against schedules computed manually or by brute force.
#include "station.h"
#include "test-seed.h"

#include "ns3/boolean.h"
#include "ns3/global-resource-manager.h"
#include "ns3/local-resource-manager.h"
#include "ns3/string.h"
#include "ns3/test.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

using namespace ns3;

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
        const uint32_t seed = GetTestSeed("softrouter-task-unit");
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
 * \brief Task units.
 */
class TaskUnitTestSuite : public TestSuite
{
  public:
    TaskUnitTestSuite()
        : TestSuite("softrouter-task-unit", Type::UNIT)
    {
        AddTestCase(new TaskUnitRevokeTestCase);
        AddTestCase(new TaskUnitPreemptionTestCase);
        AddTestCase(new TaskUnitTurnsTestCase);
        AddTestCase(new TaskUnitSeveralKindsTestCase);
        AddTestCase(new TaskUnitWakeUpTestCase);
        AddTestCase(new TaskUnitRoundingTestCase);
    }
};

static TaskUnitTestSuite g_taskUnitTestSuite; //!< registers itself
