// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_GLOBAL_RESOURCE_MANAGER_H
#define SOFTROUTER_GLOBAL_RESOURCE_MANAGER_H

#include "local-resource-manager.h"

#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Manages several kinds of resources for task units that need some of each: all or nothing.
 *
 * It stands above local managers, one per kind. Their requests and its own wait in one order, so
 * that neither starves the other.
 */
class GlobalResourceManager : public ResourceManager
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    GlobalResourceManager();
    ~GlobalResourceManager() override;

    /**
     * \brief Stand above a local manager, which has a pool and no task units yet.
     * \param manager the local manager
     */
    void AddManager(Ptr<LocalResourceManager> manager);

  protected:
    void DoDispose() override;

  private:
    std::vector<Ptr<LocalResourceManager>> m_managers; //!< one per kind
};

} // namespace ns3

#endif // SOFTROUTER_GLOBAL_RESOURCE_MANAGER_H
