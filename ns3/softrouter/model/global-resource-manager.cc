// SPDX-License-Identifier: GPL-2.0-only
#include "global-resource-manager.h"

#include "ns3/abort.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(GlobalResourceManager);

TypeId
GlobalResourceManager::GetTypeId()
{
    static TypeId tid = TypeId("ns3::GlobalResourceManager")
                            .SetParent<ResourceManager>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<GlobalResourceManager>();
    return tid;
}

GlobalResourceManager::GlobalResourceManager()
{
}

GlobalResourceManager::~GlobalResourceManager()
{
}

void
GlobalResourceManager::DoDispose()
{
    m_managers.clear();
    ResourceManager::DoDispose();
}

void
GlobalResourceManager::AddManager(Ptr<LocalResourceManager> manager)
{
    NS_ABORT_MSG_UNLESS(manager->GetPool(), "A local manager needs its pool first");
    GetArbiter().AddPool(manager->GetPool(), manager->IsPreemptive());
    manager->ShareArbiter(*this);
    m_managers.push_back(manager);
}

} // namespace ns3
