// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RESOURCE_POOL_H
#define SOFTROUTER_RESOURCE_POOL_H

#include "resource.h"

#include "ns3/object.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief All resources of one kind, such as a router's cores.
 */
class ResourcePool : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    ResourcePool();
    ~ResourcePool() override;

    /**
     * \brief Add a resource; its index is the number of those added before.
     * \param resource the resource
     */
    void Add(Ptr<Resource> resource);
    /**
     * \param index of a resource, from 0 on
     * \return the resource
     */
    Ptr<Resource> Get(uint32_t index) const;
    /**
     * \return number of resources
     */
    uint32_t GetSize() const;
    /**
     * \return number of resources that somebody holds
     */
    uint32_t GetBusy() const;
    /**
     * \return what it holds, such as "core"
     */
    const std::string& GetKind() const;

  protected:
    void DoDispose() override;

  private:
    std::string m_kind;                     //!< what it holds
    std::vector<Ptr<Resource>> m_resources; //!< by index
};

} // namespace ns3

#endif // SOFTROUTER_RESOURCE_POOL_H
