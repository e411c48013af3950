// SPDX-License-Identifier: GPL-2.0-only
#include "resource-pool.h"

#include "ns3/abort.h"
#include "ns3/object-vector.h"
#include "ns3/string.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(ResourcePool);

TypeId
ResourcePool::GetTypeId()
{
    static TypeId tid = TypeId("ns3::ResourcePool")
                            .SetParent<Object>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<ResourcePool>()
                            .AddAttribute("Kind",
                                          "What the resources are, for messages and logs.",
                                          StringValue("core"),
                                          MakeStringAccessor(&ResourcePool::m_kind),
                                          MakeStringChecker())
                            .AddAttribute("Resources",
                                          "The resources, by index.",
                                          ObjectVectorValue(),
                                          MakeObjectVectorAccessor(&ResourcePool::m_resources),
                                          MakeObjectVectorChecker<Resource>());
    return tid;
}

ResourcePool::ResourcePool()
{
}

ResourcePool::~ResourcePool()
{
}

void
ResourcePool::DoDispose()
{
    m_resources.clear();
    Object::DoDispose();
}

void
ResourcePool::Add(Ptr<Resource> resource)
{
    m_resources.push_back(resource);
}

Ptr<Resource>
ResourcePool::Get(uint32_t index) const
{
    NS_ABORT_MSG_IF(index >= m_resources.size(),
                    "Found " << m_kind << " " << index << ", expected one of "
                             << m_resources.size());
    return m_resources[index];
}

uint32_t
ResourcePool::GetSize() const
{
    return m_resources.size();
}

uint32_t
ResourcePool::GetBusy() const
{
    return std::count_if(m_resources.begin(), m_resources.end(), [](const Ptr<Resource>& r) {
        return !r->IsFree();
    });
}

const std::string&
ResourcePool::GetKind() const
{
    return m_kind;
}

} // namespace ns3
