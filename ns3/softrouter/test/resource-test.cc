// SPDX-License-Identifier: GPL-2.0-only
// Resources, and the managers that hand them out: all or nothing, by priority, with revocation.
#include "test-seed.h"

#include "ns3/boolean.h"
#include "ns3/global-resource-manager.h"
#include "ns3/local-resource-manager.h"
#include "ns3/resource-pool.h"
#include "ns3/resource.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/test.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/**
 * \param kind of the resources
 * \param size how many
 * \return a pool
 */
Ptr<ResourcePool>
MakePool(const std::string& kind, uint32_t size)
{
    auto pool = CreateObjectWithAttributes<ResourcePool>("Kind", StringValue(kind));
    for (uint32_t i = 0; i < size; i++)
    {
        pool->Add(CreateObject<Resource>());
    }
    return pool;
}

/**
 * \param pool the resources
 * \param preemptive whether higher priorities take them
 * \return their manager
 */
Ptr<LocalResourceManager>
MakeManager(Ptr<ResourcePool> pool, bool preemptive)
{
    auto manager =
        CreateObjectWithAttributes<LocalResourceManager>("Preemptive", BooleanValue(preemptive));
    manager->SetPool(pool);
    return manager;
}

/// A task unit that only counts its notifications.
struct Counting : public ResourceUser
{
    uint32_t replies{0}; //!< times it got its resources
    uint32_t revokes{0}; //!< times it lost them

    void Reply(Time) override
    {
        replies++;
    }

    void Revoke() override
    {
        revokes++;
    }

    bool IsRevocable() const override
    {
        return true;
    }
};

} // namespace

/**
 * \ingroup softrouter-test
 * \brief A core sleeps after its idle time, gets up in its wake-up time, and accounts for both.
 */
class ResourceSleepTestCase : public TestCase
{
  public:
    ResourceSleepTestCase()
        : TestCase("a resource sleeps, wakes up and keeps account of it")
    {
    }

  private:
    void DoRun() override
    {
        auto core = CreateObjectWithAttributes<Resource>("SleepAfter",
                                                         TimeValue(NanoSeconds(100)),
                                                         "WakeUpTime",
                                                         TimeValue(NanoSeconds(30)));
        std::vector<Time> delays;
        auto acquire = [&]() { delays.push_back(core->Acquire()); };
        auto release = [&]() { core->Release(); };
        Simulator::Schedule(NanoSeconds(99), acquire); // awake still
        Simulator::Schedule(NanoSeconds(150), release);
        Simulator::Schedule(NanoSeconds(150), acquire); // had no time to fall asleep
        Simulator::Schedule(NanoSeconds(200), release);
        Simulator::Schedule(NanoSeconds(500), acquire); // asleep since 300
        Simulator::Schedule(NanoSeconds(510), release); // revoked while it wakes up
        Simulator::Schedule(NanoSeconds(520), acquire); // ready at 530
        Simulator::Schedule(NanoSeconds(600), release);
        Simulator::Schedule(NanoSeconds(800), [&]() {
            NS_TEST_EXPECT_MSG_EQ(core->GetSleepTime(), NanoSeconds(300), "asleep since 700");
        });
        Simulator::Run();
        Simulator::Destroy();
        const std::vector<Time> expected{Time(0), Time(0), NanoSeconds(30), NanoSeconds(10)};
        NS_TEST_ASSERT_MSG_EQ(delays.size(), expected.size(), "acquired four times");
        for (uint32_t i = 0; i < expected.size(); i++)
        {
            NS_TEST_EXPECT_MSG_EQ(delays[i], expected[i], "wake-up of acquisition " << i);
        }
        NS_TEST_EXPECT_MSG_EQ(core->GetBusyTime(), NanoSeconds(51 + 50 + 10 + 80), "time held");
        NS_TEST_EXPECT_MSG_EQ(core->GetWakeUps(), 1, "times woken");
    }
};

/**
 * \ingroup softrouter-test
 * \brief The four messages of one exchange, in order, with what they are about.
 */
class ResourceMessageTestCase : public TestCase
{
  public:
    ResourceMessageTestCase()
        : TestCase("request, reply, release and revoke are trace sources")
    {
    }

  private:
    void Hear(std::string name, const ResourceMessage& message)
    {
        std::ostringstream line;
        line << name << " " << message.id << " user " << message.user << " priority "
             << message.priority;
        for (const auto& demand : message.demands)
        {
            line << " wants " << demand.count << " " << demand.pool->GetKind();
        }
        for (const auto& grant : message.grants)
        {
            line << " " << grant.pool->GetKind() << " " << grant.index;
        }
        m_heard.push_back(line.str());
    }

    void DoRun() override
    {
        auto manager = MakeManager(MakePool("core", 1), true);
        for (const std::string name : {"Request", "Reply", "Release", "Revoke"})
        {
            const bool connected =
                manager->TraceConnect(name,
                                      name,
                                      MakeCallback(&ResourceMessageTestCase::Hear, this));
            NS_TEST_EXPECT_MSG_EQ(connected, true, "trace source " << name);
        }
        Counting low;
        Counting high;
        const ResourceDemand any{manager->GetPool(), 1, ResourceDemand::ANY};
        const uint32_t lowUser = manager->AddUser(&low, 3, {any});
        const uint32_t highUser = manager->AddUser(&high, 7, {any});
        manager->Request(lowUser);
        manager->Request(highUser);
        manager->Release(highUser, false);
        manager->Release(lowUser, true);
        const std::vector<std::string> expected{
            "Request 1 user 0 priority 3 wants 1 core",
            "Reply 1 user 0 priority 3 core 0",
            "Request 2 user 1 priority 7 wants 1 core",
            "Revoke 1 user 0 priority 3 core 0",
            "Reply 2 user 1 priority 7 core 0",
            "Release 2 user 1 priority 7 core 0",
            "Reply 1 user 0 priority 3 core 0",
            "Release 1 user 0 priority 3 core 0",
            "Request 3 user 0 priority 3 wants 1 core",
            "Reply 3 user 0 priority 3 core 0",
        };
        for (uint32_t i = 0; i < std::max(expected.size(), m_heard.size()); i++)
        {
            NS_TEST_EXPECT_MSG_EQ((i < m_heard.size() ? m_heard[i] : "nothing"),
                                  (i < expected.size() ? expected[i] : "nothing"),
                                  "message " << i);
        }
        NS_TEST_EXPECT_MSG_EQ(low.revokes, 1, "revoked once");
        Simulator::Destroy();
    }

    std::vector<std::string> m_heard; //!< the messages, as text
};

/**
 * \ingroup softrouter-test
 * \brief Dining philosophers: each needs two forks, a kind each; all of them eat for ever.
 */
class ResourcePhilosophersTestCase : public TestCase
{
  public:
    ResourcePhilosophersTestCase()
        : TestCase("a global manager never locks up, and nobody starves")
    {
    }

  private:
    static constexpr uint32_t SEATS = 7;
    static constexpr uint32_t ROUNDS = 10000;

    void DoRun() override
    {
        auto global = CreateObject<GlobalResourceManager>();
        std::vector<Ptr<LocalResourceManager>> forks;
        for (uint32_t i = 0; i < SEATS; i++)
        {
            forks.push_back(MakeManager(MakePool("fork", 1), false));
            global->AddManager(forks.back());
        }
        std::vector<Counting> seats(SEATS);
        std::vector<uint32_t> users;
        for (uint32_t i = 0; i < SEATS; i++)
        {
            const ResourceDemand left{forks[i]->GetPool(), 1, 0};
            const ResourceDemand right{forks[(i + 1) % SEATS]->GetPool(), 1, 0};
            users.push_back(global->AddUser(&seats[i], 1, {left, right}));
        }
        // One who needs a single fork asks its local manager, in the same order as all.
        Counting guest;
        const uint32_t guestUser =
            forks[0]->AddUser(&guest, 1, {{forks[0]->GetPool(), 1, ResourceDemand::ANY}});
        for (const uint32_t user : users)
        {
            global->Request(user);
        }
        forks[0]->Request(guestUser);
        for (uint32_t round = 0; round < ROUNDS; round++)
        {
            bool somebody = false;
            for (uint32_t i = 0; i < SEATS; i++)
            {
                if (global->IsHolding(users[i]))
                {
                    somebody = true;
                    const uint32_t right = (i + 1) % SEATS;
                    NS_TEST_ASSERT_MSG_EQ(global->IsHolding(users[right]),
                                          false,
                                          "two neighbors have one fork");
                    global->Release(users[i], true);
                }
            }
            if (forks[0]->IsHolding(guestUser))
            {
                forks[0]->Release(guestUser, true);
            }
            NS_TEST_ASSERT_MSG_EQ(somebody, true, "all wait: deadlock in round " << round);
        }
        for (uint32_t i = 0; i < SEATS; i++)
        {
            NS_TEST_EXPECT_MSG_GT(seats[i].replies, ROUNDS / 3, "meals of seat " << i);
        }
        NS_TEST_EXPECT_MSG_GT(guest.replies, ROUNDS / 3, "meals of the guest");
        Simulator::Destroy();
    }
};

/**
 * \ingroup softrouter-test
 * \brief Random requests and releases; after each, what the rule promises is checked by looking at
 * everything.
 */
class ResourceOracleTestCase : public TestCase
{
  public:
    ResourceOracleTestCase()
        : TestCase("grants keep to the rule, checked by brute force")
    {
    }

  private:
    /// A task unit of the test.
    struct User : public ResourceUser
    {
        uint32_t priority{0};                //!< higher goes first
        std::vector<ResourceDemand> demands; //!< what it needs
        uint32_t number{0};                  //!< at the manager
        uint64_t asked{0};                   //!< rank of its request; 0: it does not wait
        bool holding{false};                 //!< it has its resources

        void Reply(Time) override
        {
            holding = true;
        }

        void Revoke() override
        {
            holding = false;
        }

        bool IsRevocable() const override
        {
            return true;
        }
    };

    void Hear(std::string name, const ResourceMessage& message)
    {
        if (name == "Revoke")
        {
            m_revoked.insert(message.priority);
        }
        else if (name == "Reply")
        {
            // Who took something away goes before whom it was taken from.
            for (const uint32_t priority : m_revoked)
            {
                NS_TEST_EXPECT_MSG_GT(message.priority, priority, "revoked for a lower one");
            }
            m_revoked.clear();
            for (const auto& grant : message.grants)
            {
                m_owner[{PeekPointer(grant.pool), grant.index}] = message.user;
            }
        }
    }

    /**
     * \brief Set up pools, managers and task units at random.
     * \param random the source of it
     */
    void SetUp(std::mt19937& random)
    {
        m_global = CreateObject<GlobalResourceManager>();
        m_locals.clear();
        m_users.clear();
        m_owner.clear();
        for (uint32_t kind = 0; kind < 3; kind++)
        {
            auto pool = MakePool("kind" + std::to_string(kind), 1 + random() % 4);
            m_locals.push_back(MakeManager(pool, random() % 2 == 0));
            m_global->AddManager(m_locals.back());
        }
        for (const std::string name : {"Revoke", "Reply"})
        {
            m_global->TraceConnect(name, name, MakeCallback(&ResourceOracleTestCase::Hear, this));
        }
        const uint32_t users = 2 + random() % 10;
        for (uint32_t i = 0; i < users; i++)
        {
            auto user = std::make_unique<User>();
            user->priority = random() % 4;
            for (const auto& local : m_locals)
            {
                const uint32_t size = local->GetPool()->GetSize();
                if (random() % 2 == 0)
                {
                    const bool one = random() % 2 == 0;
                    user->demands.push_back(
                        {local->GetPool(),
                         one ? 1 : 1 + static_cast<uint32_t>(random() % size),
                         one ? static_cast<int32_t>(random() % size) : ResourceDemand::ANY});
                }
            }
            if (user->demands.empty())
            {
                user->demands.push_back({m_locals[0]->GetPool(), 1, ResourceDemand::ANY});
            }
            user->number = m_global->AddUser(user.get(), user->priority, user->demands);
            m_users.push_back(std::move(user));
        }
    }

    /**
     * \param user a task unit that waits
     * \param available by pool, which resources it might take
     * \return whether these are all that it needs
     */
    static bool Suffices(const User& user,
                         const std::map<ResourcePool*, std::set<uint32_t>>& available)
    {
        return std::all_of(user.demands.begin(), user.demands.end(), [&](const ResourceDemand& d) {
            const auto found = available.find(PeekPointer(d.pool));
            const auto& here = found->second;
            return d.index == ResourceDemand::ANY ? here.size() >= d.count
                                                  : here.count(d.index) == 1;
        });
    }

    /**
     * \return whether somebody holds this resource
     * \param pool of which kind
     * \param index of the resource
     * \param holder [out] who
     */
    bool HeldBy(ResourcePool* pool, uint32_t index, const User*& holder) const
    {
        const auto found = m_owner.find({pool, index});
        if (found == m_owner.end() || pool->Get(index)->IsFree())
        {
            return false;
        }
        holder = m_users[found->second].get();
        return true;
    }

    /**
     * \param user who holds something
     * \return whether all of it may be taken away
     */
    bool IsRevocable(const User& user) const
    {
        return std::all_of(user.demands.begin(), user.demands.end(), [this](const auto& demand) {
            return std::any_of(m_locals.begin(), m_locals.end(), [&demand](const auto& local) {
                return local->GetPool() == demand.pool && local->IsPreemptive();
            });
        });
    }

    /**
     * \brief Check all that the rule promises at rest.
     */
    void Check()
    {
        std::vector<const User*> waiting;
        for (const auto& user : m_users)
        {
            uint32_t has = 0;
            uint32_t needs = 0;
            for (const auto& demand : user->demands)
            {
                needs += demand.count;
                for (uint32_t i = 0; i < demand.pool->GetSize(); i++)
                {
                    const User* holder = nullptr;
                    has += HeldBy(PeekPointer(demand.pool), i, holder) && holder == user.get();
                }
            }
            NS_TEST_EXPECT_MSG_EQ(has, (user->holding ? needs : 0), "all or nothing");
            if (user->asked > 0 && !user->holding)
            {
                waiting.push_back(user.get());
            }
        }
        std::sort(waiting.begin(), waiting.end(), [](const User* a, const User* b) {
            return a->priority != b->priority ? a->priority > b->priority : a->asked < b->asked;
        });
        // A unit that waits could not be served with what is free or revocable, less all of each
        // kind that somebody before it waits for.
        std::set<ResourcePool*> wanted;
        for (const User* user : waiting)
        {
            std::map<ResourcePool*, std::set<uint32_t>> available;
            for (const auto& local : m_locals)
            {
                ResourcePool* pool = PeekPointer(local->GetPool());
                auto& here = available[pool];
                for (uint32_t i = 0; i < pool->GetSize() && wanted.count(pool) == 0; i++)
                {
                    const User* holder = nullptr;
                    if (!HeldBy(pool, i, holder) ||
                        (holder->priority < user->priority && IsRevocable(*holder)))
                    {
                        here.insert(i);
                    }
                }
            }
            NS_TEST_EXPECT_MSG_EQ(Suffices(*user, available), false, "it waits for nothing");
            for (const auto& demand : user->demands)
            {
                wanted.insert(PeekPointer(demand.pool));
            }
        }
    }

    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-resource");
        std::mt19937 random(seed);
        for (uint32_t run = 0; run < 300; run++)
        {
            SetUp(random);
            uint64_t rank = 0;
            for (uint32_t step = 0; step < 300; step++)
            {
                User& user = *m_users[random() % m_users.size()];
                if (user.holding)
                {
                    const bool again = random() % 2 == 0;
                    user.holding = false;
                    user.asked = again ? ++rank : 0;
                    m_global->Release(user.number, again);
                }
                else if (user.asked == 0)
                {
                    user.asked = ++rank;
                    m_global->Request(user.number);
                }
                Check();
            }
            // No more requests: all that wait are served in the end.
            for (uint32_t round = 0; round <= m_users.size(); round++)
            {
                for (const auto& user : m_users)
                {
                    if (user->holding)
                    {
                        user->holding = false;
                        user->asked = 0;
                        m_global->Release(user->number, false);
                    }
                }
            }
            NS_TEST_EXPECT_MSG_EQ(m_global->GetWaiting(), 0, "somebody waits for ever");
            if (IsStatusFailure())
            {
                NS_TEST_EXPECT_MSG_EQ(true, false, "seed " << seed << ", run " << run);
                break;
            }
        }
        m_global = nullptr;
        m_locals.clear();
        Simulator::Destroy();
    }

    Ptr<GlobalResourceManager> m_global;                            //!< decides
    std::vector<Ptr<LocalResourceManager>> m_locals;                //!< one per kind
    std::vector<std::unique_ptr<User>> m_users;                     //!< by number
    std::map<std::pair<ResourcePool*, uint32_t>, uint32_t> m_owner; //!< who had what last
    std::multiset<uint32_t> m_revoked;                              //!< priorities, since a reply
};

/**
 * \ingroup softrouter-test
 * \brief Resources and their managers.
 */
class ResourceTestSuite : public TestSuite
{
  public:
    ResourceTestSuite()
        : TestSuite("softrouter-resource", Type::UNIT)
    {
        AddTestCase(new ResourceSleepTestCase);
        AddTestCase(new ResourceMessageTestCase);
        AddTestCase(new ResourcePhilosophersTestCase);
        AddTestCase(new ResourceOracleTestCase);
    }
};

static ResourceTestSuite g_resourceTestSuite; //!< registers itself
