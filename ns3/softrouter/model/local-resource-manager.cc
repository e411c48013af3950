// SPDX-License-Identifier: GPL-2.0-only
#include "local-resource-manager.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(LocalResourceManager);

TypeId
LocalResourceManager::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::LocalResourceManager")
            .SetParent<ResourceManager>()
            .SetGroupName("SoftRouter")
            .AddConstructor<LocalResourceManager>()
            .AddAttribute("Preemptive",
                          "Whether a task unit of higher priority takes resources from one of "
                          "lower priority.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&LocalResourceManager::m_preemptive),
                          MakeBooleanChecker());
    return tid;
}

LocalResourceManager::LocalResourceManager()
{
}

LocalResourceManager::~LocalResourceManager()
{
}

void
LocalResourceManager::DoDispose()
{
    m_pool = nullptr;
    ResourceManager::DoDispose();
}

void
LocalResourceManager::SetPool(Ptr<ResourcePool> pool)
{
    NS_ABORT_MSG_IF(m_pool, "A local resource manager has one pool, and it has one already");
    m_pool = pool;
    GetArbiter().AddPool(pool, m_preemptive);
}

Ptr<ResourcePool>
LocalResourceManager::GetPool() const
{
    return m_pool;
}

bool
LocalResourceManager::IsPreemptive() const
{
    return m_preemptive;
}

uint32_t
LocalResourceManager::AddUser(ResourceUser* user,
                              uint32_t priority,
                              const std::vector<ResourceDemand>& demands)
{
    for (const auto& demand : demands)
    {
        NS_ABORT_MSG_IF(demand.pool != m_pool,
                        "A local resource manager has one kind of resource; a task unit that "
                        "needs several asks a GlobalResourceManager");
    }
    return ResourceManager::AddUser(user, priority, demands);
}

} // namespace ns3
