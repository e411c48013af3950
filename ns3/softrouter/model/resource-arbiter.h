// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RESOURCE_ARBITER_H
#define SOFTROUTER_RESOURCE_ARBITER_H

#include "resource-message.h"

#include "ns3/ptr.h"
#include "ns3/simple-ref-count.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Who gets which resources next: the rule that local and global managers share.
 *
 * Requests wait in one order: higher priority first, and among equals as they came. A request is
 * granted whole or not at all, and nobody asks while holding something; so there is no circle of
 * holders that wait for each other, and no deadlock. A request may overtake earlier ones only with
 * resources that none of them lacks; so nobody starves behind equals. A request takes resources
 * from holders of lower priority (the lowest first, of these the latest) if and only if it then has
 * all that it needs, and only from those whose resources are all from preemptive pools. A unit
 * that lost its resources waits with its old rank.
 */
class ResourceArbiter : public SimpleRefCount<ResourceArbiter>
{
  public:
    /**
     * \brief Make a pool known.
     * \param pool the pool
     * \param preemptive whether higher priorities may take its resources from lower ones
     */
    void AddPool(Ptr<ResourcePool> pool, bool preemptive);
    /**
     * \brief Make a task unit known.
     * \param user the task unit; it must live as long as it uses resources
     * \param priority higher goes first
     * \param demands what it needs, all at once; aborts if the pools could never give that
     * \param listener hears of the messages about it; must live as long as the user
     * \return its number
     */
    uint32_t AddUser(ResourceUser* user,
                     uint32_t priority,
                     const std::vector<ResourceDemand>& demands,
                     ResourceListener* listener);
    /**
     * \brief A task unit needs its resources; it must neither hold them nor wait for them.
     * \param user its number
     */
    void Request(uint32_t user);
    /**
     * \brief A task unit gives its resources back.
     * \param user its number
     * \param again whether it needs them once more, now behind its equals
     */
    void Release(uint32_t user, bool again);
    /**
     * \param user number of a task unit
     * \return whether it holds its resources
     */
    bool IsHolding(uint32_t user) const;
    /**
     * \param user number of a task unit that holds its resources
     * \return the first of them
     */
    Ptr<Resource> GetHeld(uint32_t user) const;
    /**
     * \return requests that wait
     */
    uint32_t GetWaiting() const;

  private:
    /// What a pool's resources are to the requests that are looked at later in one pass.
    struct Pool
    {
        Ptr<ResourcePool> pool;     //!< the resources
        bool preemptive{false};     //!< higher priorities may take them from lower ones
        std::vector<bool> reserved; //!< wanted by an earlier request
        bool wanted{false};         //!< an earlier request lacks some, whichever
    };

    /// A demand with its pool's number.
    struct Need
    {
        uint32_t pool;  //!< number of the pool
        uint32_t count; //!< how many
        int32_t index;  //!< this one, or ResourceDemand::ANY
    };

    /// A resource that is held.
    struct Held
    {
        uint32_t pool;  //!< number of the pool
        uint32_t index; //!< of the resource
    };

    /// A task unit.
    struct Claim
    {
        ResourceUser* user;                  //!< the task unit
        uint32_t number;                     //!< its number
        uint32_t priority;                   //!< higher goes first
        std::vector<ResourceDemand> demands; //!< as they were given
        std::vector<Need> needs;             //!< the same
        ResourceListener* listener;          //!< hears of its messages
        uint64_t id{0};                      //!< of its request
        uint64_t granted{0};                 //!< rank of its grant, for revocation
        bool waiting{false};                 //!< its request stands
        std::vector<Held> held;              //!< what it has
    };

    /// Who goes first.
    struct Order
    {
        /**
         * \param a one request
         * \param b another
         * \return whether a goes before b
         */
        bool operator()(const Claim* a, const Claim* b) const
        {
            return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
        }
    };

    /**
     * \param demand of a task unit
     * \return the same with its pool's number; aborts if it can never be met
     */
    Need Resolve(const ResourceDemand& demand) const;
    /**
     * \brief Put a request among those that wait.
     * \param claim whose
     */
    void Wait(Claim& claim);
    /**
     * \brief Grant all that can be granted.
     */
    void Grant();
    /**
     * \brief Look at each request that waits, in order, up to the first that needed a revocation.
     * \return whether there was one
     */
    bool Pass();
    /**
     * \brief Hand out resources.
     * \param claim to whom
     * \param found what, all free
     */
    void Give(Claim& claim, const std::vector<Held>& found);
    /**
     * \brief Find free resources that no earlier request lacks.
     * \param claim whose request
     * \param found [out] the resources
     * \return whether they are all that it needs
     */
    bool Find(const Claim& claim, std::vector<Held>& found) const;
    /**
     * \brief Find holders of lower priority whose resources would complete what a request needs.
     * \param claim whose request
     * \param found its resources that are free already
     * \return these holders; none if they would not suffice
     */
    std::vector<Claim*> FindVictims(const Claim& claim, const std::vector<Held>& found) const;
    /**
     * \brief Keep later requests from what this one needs.
     * \param claim whose request
     * \param found its resources that are free already
     */
    void Reserve(const Claim& claim, const std::vector<Held>& found);
    /**
     * \brief Take resources from a holder.
     * \param claim whose
     */
    void Revoke(Claim& claim);
    /**
     * \brief Tell the listener of a task unit.
     * \param claim the task unit
     * \param type what it is about
     */
    void Tell(const Claim& claim, ResourceMessage::Type type) const;

    std::vector<Pool> m_pools;                    //!< by number
    std::vector<std::unique_ptr<Claim>> m_claims; //!< by number of the task unit
    std::set<Claim*, Order> m_waiting;            //!< requests that wait
    std::vector<Claim*> m_holding;                //!< those who hold something
    uint64_t m_requests{0};                       //!< requests so far
    uint64_t m_grants{0};                         //!< grants so far
    bool m_granting{false};                       //!< Grant() is at work
};

} // namespace ns3

#endif // SOFTROUTER_RESOURCE_ARBITER_H
