// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RESOURCE_MESSAGE_H
#define SOFTROUTER_RESOURCE_MESSAGE_H

#include "resource-pool.h"

#include "ns3/nstime.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Some resources of one kind that a task unit needs at once.
 */
struct ResourceDemand
{
    static constexpr int32_t ANY = -1; //!< whichever is free

    Ptr<ResourcePool> pool; //!< of which kind
    uint32_t count{1};      //!< how many
    int32_t index{ANY};     //!< this one alone (count is 1 then), or ANY
};

/**
 * \ingroup softrouter
 * \brief A resource that was granted, and the pool it is from.
 */
struct ResourceGrant
{
    Ptr<ResourcePool> pool; //!< of which kind
    uint32_t index{0};      //!< which one of the pool
};

/**
 * \ingroup softrouter
 * \brief What task units and resource managers say to each other.
 */
struct ResourceMessage
{
    /// The four messages.
    enum Type
    {
        REQUEST, //!< a task unit needs resources
        REPLY,   //!< it has them
        RELEASE, //!< it gives them back
        REVOKE   //!< they are taken from it, for one of higher priority
    };

    Type type{REQUEST};                  //!< which of the four
    uint64_t id{0};                      //!< of the request that all four belong to
    uint32_t user{0};                    //!< number of the task unit, as given when it was added
    uint32_t priority{0};                //!< of the task unit; higher goes first
    Time time;                           //!< when
    std::vector<ResourceDemand> demands; //!< what is needed (REQUEST)
    std::vector<ResourceGrant> grants;   //!< what changes hands (REPLY, RELEASE, REVOKE)
};

/**
 * \ingroup softrouter
 * \brief What asks a resource manager: a task unit.
 */
class ResourceUser
{
  public:
    virtual ~ResourceUser() = default;

    /**
     * \brief It has all that it asked for.
     * \param delay until the last of the resources can be used (one that slept wakes up)
     */
    virtual void Reply(Time delay) = 0;
    /**
     * \brief All its resources are gone. It keeps what remains of its work; its request stands
     * again, before those that came after it.
     */
    virtual void Revoke() = 0;
    /**
     * \return false if it gives its resources back in this very instant: taking them away would
     * have it wait with nothing left to do
     */
    virtual bool IsRevocable() const = 0;
};

/**
 * \ingroup softrouter
 * \brief What is notified of the messages: a manager with its trace sources.
 */
class ResourceListener
{
  public:
    virtual ~ResourceListener() = default;

    /**
     * \param type of a message
     * \return whether anybody wants to hear of such ones: composing a message takes time
     */
    virtual bool Hears(ResourceMessage::Type type) const = 0;
    /**
     * \brief Hear of a message.
     * \param message the message
     */
    virtual void Hear(const ResourceMessage& message) = 0;
};

} // namespace ns3

#endif // SOFTROUTER_RESOURCE_MESSAGE_H
