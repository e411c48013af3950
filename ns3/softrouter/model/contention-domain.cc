// SPDX-License-Identifier: GPL-2.0-only
#include "contention-domain.h"

#include "enum-accessor.h"

#include "ns3/double.h"
#include "ns3/enum.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(ContentionDomain);

TypeId
ContentionDomain::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::ContentionDomain")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<ContentionDomain>()
            .AddAttribute("Count",
                          "Which cores slow each other down: those allotted to forwarding, or "
                          "those that work when a burst begins.",
                          EnumValue(ALLOTTED),
                          MakeAnyEnumAccessor<Count>(&ContentionDomain::m_count),
                          MakeEnumChecker(ALLOTTED, "Allotted", BUSY, "Busy"))
            .AddAttribute("Direction",
                          "Whether packets cross the router in both directions; Auto: from two "
                          "cores on.",
                          EnumValue(AUTO),
                          MakeAnyEnumAccessor<Direction>(&ContentionDomain::m_direction),
                          MakeEnumChecker(AUTO, "Auto", ONE_WAY, "OneWay", TWO_WAY, "TwoWay"))
            .AddAttribute("WorkingSet",
                          "Bytes of the routing table that are looked up.",
                          DoubleValue(0),
                          MakeDoubleAccessor(&ContentionDomain::m_workingSet),
                          MakeDoubleChecker<double>(0, 1e15));
    return tid;
}

ContentionDomain::ContentionDomain()
{
}

ContentionDomain::~ContentionDomain()
{
}

void
ContentionDomain::DoDispose()
{
    m_pool = nullptr;
    Object::DoDispose();
}

void
ContentionDomain::SetPool(Ptr<ResourcePool> pool)
{
    m_pool = pool;
}

ServiceContext
ContentionDomain::GetContext() const
{
    ServiceContext context;
    if (m_pool)
    {
        const uint32_t cores = m_count == BUSY ? m_pool->GetBusy() : m_pool->GetSize();
        context.cores = std::max(cores, 1U);
    }
    context.twoWay = m_direction == TWO_WAY || (m_direction == AUTO && context.cores >= 2);
    context.workingSet = m_workingSet;
    return context;
}

} // namespace ns3
