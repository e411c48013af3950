// SPDX-License-Identifier: GPL-2.0-only
#include "linear-contention-service-time-model.h"

#include "ns3/double.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(LinearContentionServiceTimeModel);

TypeId
LinearContentionServiceTimeModel::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::LinearContentionServiceTimeModel")
            .SetParent<ServiceTimeModel>()
            .SetGroupName("SoftRouter")
            .AddConstructor<LinearContentionServiceTimeModel>()
            .AddAttribute("C0",
                          "Nanoseconds per packet",
                          DoubleValue(563.4),
                          MakeDoubleAccessor(&LinearContentionServiceTimeModel::m_c0),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("CByte",
                          "Nanoseconds per byte of frame size",
                          DoubleValue(0),
                          MakeDoubleAccessor(&LinearContentionServiceTimeModel::m_cByte),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("D",
                          "Nanoseconds per packet for each core beyond the first",
                          DoubleValue(29.1),
                          MakeDoubleAccessor(&LinearContentionServiceTimeModel::m_d),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("U",
                          "Nanoseconds per packet where packets cross in both directions",
                          DoubleValue(11.1),
                          MakeDoubleAccessor(&LinearContentionServiceTimeModel::m_u),
                          MakeDoubleChecker<double>(0, 1e9));
    return tid;
}

LinearContentionServiceTimeModel::LinearContentionServiceTimeModel()
{
}

LinearContentionServiceTimeModel::~LinearContentionServiceTimeModel()
{
}

double
LinearContentionServiceTimeModel::GetBurstNs(const ServiceContext& /* context */) const
{
    return 0;
}

double
LinearContentionServiceTimeModel::GetPacketNs(uint32_t frameSize,
                                              const ServiceContext& context) const
{
    return m_c0 + m_cByte * frameSize + m_d * (context.cores - 1.0) + (context.twoWay ? m_u : 0);
}

} // namespace ns3
