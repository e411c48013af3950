// SPDX-License-Identifier: GPL-2.0-only
#include "service-time-model.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(ServiceTimeModel);

TypeId
ServiceTimeModel::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::ServiceTimeModel").SetParent<Object>().SetGroupName("SoftRouter");
    return tid;
}

ServiceTimeModel::~ServiceTimeModel()
{
}

double
ServiceTimeModel::GetPuntNs() const
{
    return 0;
}

double
ServiceTimeModel::GetPuntBurstNs() const
{
    return 0;
}

} // namespace ns3
