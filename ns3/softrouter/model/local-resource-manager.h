// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_LOCAL_RESOURCE_MANAGER_H
#define SOFTROUTER_LOCAL_RESOURCE_MANAGER_H

#include "resource-manager.h"

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Manages the resources of one kind, with priorities and revocation.
 */
class LocalResourceManager : public ResourceManager
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    LocalResourceManager();
    ~LocalResourceManager() override;

    /**
     * \brief Set what it manages; once, after its attributes.
     * \param pool the resources
     */
    void SetPool(Ptr<ResourcePool> pool);
    /**
     * \return what it manages
     */
    Ptr<ResourcePool> GetPool() const;
    /**
     * \return whether higher priorities take resources from lower ones
     */
    bool IsPreemptive() const;

    uint32_t AddUser(ResourceUser* user,
                     uint32_t priority,
                     const std::vector<ResourceDemand>& demands) override;

  protected:
    void DoDispose() override;

  private:
    Ptr<ResourcePool> m_pool; //!< what it manages
    bool m_preemptive{true};  //!< higher priorities take resources from lower ones
};

} // namespace ns3

#endif // SOFTROUTER_LOCAL_RESOURCE_MANAGER_H
