// SPDX-License-Identifier: GPL-2.0-only
#include "resource-arbiter.h"

#include "ns3/abort.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <iterator>

namespace ns3
{

void
ResourceArbiter::AddPool(Ptr<ResourcePool> pool, bool preemptive)
{
    for (const auto& known : m_pools)
    {
        NS_ABORT_MSG_IF(known.pool == pool,
                        "The pool of " << pool->GetKind() << "s is managed already");
    }
    m_pools.push_back({pool, preemptive, {}, false});
}

uint32_t
ResourceArbiter::AddUser(ResourceUser* user,
                         uint32_t priority,
                         const std::vector<ResourceDemand>& demands,
                         ResourceListener* listener)
{
    auto claim = std::make_unique<Claim>();
    claim->user = user;
    claim->number = m_claims.size();
    claim->priority = priority;
    claim->demands = demands;
    claim->listener = listener;
    NS_ABORT_MSG_IF(demands.empty(), "Found a task unit that needs nothing, expected a demand");
    for (const auto& demand : demands)
    {
        const Need need = Resolve(demand);
        for (const auto& other : claim->needs)
        {
            NS_ABORT_MSG_IF(other.pool == need.pool,
                            "Found two demands for " << demand.pool->GetKind()
                                                     << "s, expected one with a count");
        }
        claim->needs.push_back(need);
    }
    m_claims.push_back(std::move(claim));
    return m_claims.size() - 1;
}

ResourceArbiter::Need
ResourceArbiter::Resolve(const ResourceDemand& demand) const
{
    for (uint32_t i = 0; i < m_pools.size(); i++)
    {
        if (m_pools[i].pool == demand.pool)
        {
            const uint32_t size = demand.pool->GetSize();
            NS_ABORT_MSG_IF(demand.count == 0 || demand.count > size,
                            "Found a demand for " << demand.count << " " << demand.pool->GetKind()
                                                  << "s, expected 1 to " << size);
            NS_ABORT_MSG_IF(demand.index != ResourceDemand::ANY &&
                                (demand.count != 1 || demand.index < 0 ||
                                 static_cast<uint32_t>(demand.index) >= size),
                            "Found a demand for " << demand.count << " " << demand.pool->GetKind()
                                                  << " with index " << demand.index
                                                  << ", expected one with an index below " << size);
            return {i, demand.count, demand.index};
        }
    }
    NS_ABORT_MSG("Found a demand for a pool that this manager does not have");
}

void
ResourceArbiter::Request(uint32_t user)
{
    Claim& claim = *m_claims.at(user);
    NS_ABORT_MSG_IF(claim.waiting || !claim.held.empty(),
                    "A task unit asks for resources while it waits for some or holds some");
    claim.id = ++m_requests;
    Tell(claim, ResourceMessage::REQUEST);
    Wait(claim);
    Grant();
}

void
ResourceArbiter::Release(uint32_t user, bool again)
{
    Claim& claim = *m_claims.at(user);
    NS_ABORT_MSG_IF(claim.held.empty(), "A task unit gives back what it does not have");
    Tell(claim, ResourceMessage::RELEASE);
    for (const auto& held : claim.held)
    {
        m_pools[held.pool].pool->Get(held.index)->Release();
    }
    claim.held.clear();
    m_holding.erase(std::find(m_holding.begin(), m_holding.end(), &claim));
    if (again)
    {
        // Before anybody else is served: one of lower priority must not slip in between.
        claim.id = ++m_requests;
        Tell(claim, ResourceMessage::REQUEST);
        Wait(claim);
    }
    Grant();
}

bool
ResourceArbiter::IsHolding(uint32_t user) const
{
    return !m_claims.at(user)->held.empty();
}

Ptr<Resource>
ResourceArbiter::GetHeld(uint32_t user) const
{
    const Claim& claim = *m_claims.at(user);
    NS_ABORT_MSG_IF(claim.held.empty(), "A task unit works without its resources");
    return m_pools[claim.held.front().pool].pool->Get(claim.held.front().index);
}

uint32_t
ResourceArbiter::GetWaiting() const
{
    return m_waiting.size();
}

void
ResourceArbiter::Wait(Claim& claim)
{
    claim.waiting = true;
    m_waiting.insert(&claim);
}

void
ResourceArbiter::Grant()
{
    NS_ABORT_MSG_IF(m_granting, "A task unit asks for resources while it is notified of some");
    m_granting = true;
    // A revocation may set free more than was asked for: then all look once more. That ends, as
    // each time resources go to a higher priority.
    while (Pass())
    {
    }
    m_granting = false;
}

bool
ResourceArbiter::Pass()
{
    for (auto& pool : m_pools)
    {
        pool.reserved.assign(pool.pool->GetSize(), false);
        pool.wanted = false;
    }
    std::vector<Held> found;
    for (auto next = m_waiting.begin(); next != m_waiting.end();)
    {
        Claim& claim = **next;
        if (Find(claim, found))
        {
            next = m_waiting.erase(next);
            Give(claim, found);
            continue;
        }
        const auto victims = FindVictims(claim, found);
        if (!victims.empty())
        {
            for (Claim* victim : victims)
            {
                Revoke(*victim);
            }
            Find(claim, found);
            m_waiting.erase(next);
            Give(claim, found);
            return true;
        }
        Reserve(claim, found);
        ++next;
    }
    return false;
}

void
ResourceArbiter::Give(Claim& claim, const std::vector<Held>& found)
{
    claim.waiting = false;
    claim.granted = ++m_grants;
    claim.held = found;
    m_holding.push_back(&claim);
    Time delay(0);
    for (const auto& held : found)
    {
        delay = std::max(delay, m_pools[held.pool].pool->Get(held.index)->Acquire());
    }
    Tell(claim, ResourceMessage::REPLY);
    claim.user->Reply(delay);
}

bool
ResourceArbiter::Find(const Claim& claim, std::vector<Held>& found) const
{
    found.clear();
    bool all = true;
    for (const auto& need : claim.needs)
    {
        const Pool& pool = m_pools[need.pool];
        const bool any = need.index == ResourceDemand::ANY;
        const uint32_t first = any ? 0 : need.index;
        const uint32_t end = any ? pool.pool->GetSize() : first + 1;
        uint32_t missing = need.count;
        for (uint32_t i = first; i < end && missing > 0; i++)
        {
            if (!pool.reserved[i] && pool.pool->Get(i)->IsFree())
            {
                found.push_back({need.pool, i});
                missing--;
            }
        }
        all = all && missing == 0;
    }
    return all;
}

std::vector<ResourceArbiter::Claim*>
ResourceArbiter::FindVictims(const Claim& claim, const std::vector<Held>& found) const
{
    std::vector<Claim*> holders;
    const auto preemptive = [this](const Held& held) { return m_pools[held.pool].preemptive; };
    const auto givesWay = [&claim, &preemptive](const Claim* holder) {
        return holder->priority < claim.priority && holder->user->IsRevocable() &&
               std::all_of(holder->held.begin(), holder->held.end(), preemptive);
    };
    std::copy_if(m_holding.begin(), m_holding.end(), std::back_inserter(holders), givesWay);
    std::sort(holders.begin(), holders.end(), [](const Claim* a, const Claim* b) {
        return a->priority != b->priority ? a->priority < b->priority : a->granted > b->granted;
    });
    std::vector<Claim*> victims;
    for (const auto& need : claim.needs)
    {
        const Pool& pool = m_pools[need.pool];
        auto here = [&need](const Held& held) {
            return held.pool == need.pool && (need.index == ResourceDemand::ANY ||
                                              held.index == static_cast<uint32_t>(need.index));
        };
        auto gives = [&pool, &here](const Held& held) {
            return here(held) && !pool.reserved[held.index];
        };
        uint32_t has = std::count_if(found.begin(), found.end(), here);
        for (const Claim* victim : victims)
        {
            has += std::count_if(victim->held.begin(), victim->held.end(), gives);
        }
        for (Claim* holder : holders)
        {
            if (has >= need.count || pool.wanted)
            {
                break;
            }
            const uint32_t more = std::count_if(holder->held.begin(), holder->held.end(), gives);
            if (more > 0 && std::find(victims.begin(), victims.end(), holder) == victims.end())
            {
                victims.push_back(holder);
                has += more;
            }
        }
        if (has < need.count)
        {
            return {};
        }
    }
    return victims;
}

void
ResourceArbiter::Reserve(const Claim& claim, const std::vector<Held>& found)
{
    for (const auto& held : found)
    {
        m_pools[held.pool].reserved[held.index] = true;
    }
    for (const auto& need : claim.needs)
    {
        Pool& pool = m_pools[need.pool];
        if (need.index != ResourceDemand::ANY)
        {
            pool.reserved[need.index] = true;
            continue;
        }
        const uint32_t has = std::count_if(found.begin(), found.end(), [&need](const Held& held) {
            return held.pool == need.pool;
        });
        // Which of those that come free will be its own is not known yet.
        pool.wanted = pool.wanted || has < need.count;
    }
}

void
ResourceArbiter::Revoke(Claim& claim)
{
    Tell(claim, ResourceMessage::REVOKE);
    for (const auto& held : claim.held)
    {
        m_pools[held.pool].pool->Get(held.index)->Release();
    }
    claim.held.clear();
    m_holding.erase(std::find(m_holding.begin(), m_holding.end(), &claim));
    claim.user->Revoke();
    // With its old number, and so before those that asked later.
    Wait(claim);
}

void
ResourceArbiter::Tell(const Claim& claim, ResourceMessage::Type type) const
{
    if (!claim.listener->Hears(type))
    {
        return;
    }
    ResourceMessage message;
    message.type = type;
    message.id = claim.id;
    message.user = claim.number;
    message.priority = claim.priority;
    message.time = Simulator::Now();
    if (type == ResourceMessage::REQUEST)
    {
        message.demands = claim.demands;
    }
    for (const auto& held : claim.held)
    {
        message.grants.push_back({m_pools[held.pool].pool, held.index});
    }
    claim.listener->Hear(message);
}

} // namespace ns3
