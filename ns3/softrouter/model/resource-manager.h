// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RESOURCE_MANAGER_H
#define SOFTROUTER_RESOURCE_MANAGER_H

#include "resource-arbiter.h"

#include "ns3/object.h"
#include "ns3/traced-callback.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief The management plane: task units ask it for resources and give them back.
 *
 * Each message between it and its task units is a trace source. ResourceArbiter says who gets what.
 */
class ResourceManager : public Object, private ResourceListener
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    ResourceManager();
    ~ResourceManager() override;

    /**
     * \brief Make a task unit known.
     * \param user the task unit; it must live as long as the manager
     * \param priority higher goes first
     * \param demands what it needs for each burst, all at once
     * \return its number, for the other calls
     */
    virtual uint32_t AddUser(ResourceUser* user,
                             uint32_t priority,
                             const std::vector<ResourceDemand>& demands);
    /**
     * \brief The message request: the task unit needs its resources.
     * \param user its number
     */
    void Request(uint32_t user);
    /**
     * \brief The message release: the task unit gives its resources back.
     * \param user its number
     * \param again whether a request follows at once
     */
    void Release(uint32_t user, bool again);
    /**
     * \param user its number
     * \return whether it holds its resources
     */
    bool IsHolding(uint32_t user) const;
    /**
     * \param user number of a task unit that holds its resources
     * \return the first of them
     */
    Ptr<Resource> GetHeld(uint32_t user) const;
    /**
     * \return requests that wait, those of managers that share their order included
     */
    uint32_t GetWaiting() const;

    /**
     * \brief Share the order of requests with another manager. Only before task units are known.
     * \param manager the other
     */
    void ShareArbiter(ResourceManager& manager);

    /**
     * TracedCallback signature of the messages.
     *
     * \param [in] message the message
     */
    typedef void (*MessageTracedCallback)(const ResourceMessage& message);

  protected:
    void DoDispose() override;
    /**
     * \return who decides
     */
    ResourceArbiter& GetArbiter();
    /**
     * \return whether a task unit is known already
     */
    bool HasUsers() const;

  private:
    bool Hears(ResourceMessage::Type type) const override;
    void Hear(const ResourceMessage& message) override;
    /**
     * \param type of a message
     * \return its trace source
     */
    const TracedCallback<const ResourceMessage&>& GetTrace(ResourceMessage::Type type) const;

    Ptr<ResourceArbiter> m_arbiter;                        //!< who decides
    uint32_t m_users{0};                                   //!< task units known
    TracedCallback<const ResourceMessage&> m_requestTrace; //!< request
    TracedCallback<const ResourceMessage&> m_replyTrace;   //!< reply
    TracedCallback<const ResourceMessage&> m_releaseTrace; //!< release
    TracedCallback<const ResourceMessage&> m_revokeTrace;  //!< revoke
};

} // namespace ns3

#endif // SOFTROUTER_RESOURCE_MANAGER_H
