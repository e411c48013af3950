// SPDX-License-Identifier: GPL-2.0-only
#include "eq7-service-time-model.h"

#include "ns3/abort.h"
#include "ns3/double.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(Eq7ServiceTimeModel);

TypeId
Eq7ServiceTimeModel::GetTypeId()
{
    static TypeId tid = TypeId("ns3::Eq7ServiceTimeModel")
                            .SetParent<ServiceTimeModel>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<Eq7ServiceTimeModel>()
                            .AddAttribute("A",
                                          "Gbit/s that a core adds per byte of frame size",
                                          DoubleValue(0.011392),
                                          MakeDoubleAccessor(&Eq7ServiceTimeModel::m_a),
                                          MakeDoubleChecker<double>(0, 1e6))
                            .AddAttribute("A0",
                                          "Gbit/s per byte of frame size, whatever the cores",
                                          DoubleValue(0.002709),
                                          MakeDoubleAccessor(&Eq7ServiceTimeModel::m_a0),
                                          MakeDoubleChecker<double>(-1e6, 1e6))
                            .AddAttribute("B",
                                          "Gbit/s that a core adds",
                                          DoubleValue(0.227037),
                                          MakeDoubleAccessor(&Eq7ServiceTimeModel::m_b),
                                          MakeDoubleChecker<double>(0, 1e6))
                            .AddAttribute("B0",
                                          "Gbit/s, whatever the cores",
                                          DoubleValue(0.063321),
                                          MakeDoubleAccessor(&Eq7ServiceTimeModel::m_b0),
                                          MakeDoubleChecker<double>(-1e6, 1e6));
    return tid;
}

Eq7ServiceTimeModel::Eq7ServiceTimeModel()
{
}

Eq7ServiceTimeModel::~Eq7ServiceTimeModel()
{
}

double
Eq7ServiceTimeModel::GetBurstNs(const ServiceContext& /* context */) const
{
    return 0;
}

double
Eq7ServiceTimeModel::GetPacketNs(uint32_t frameSize, const ServiceContext& context) const
{
    const double k = context.cores;
    const double rate = (m_a * k + m_a0) * frameSize + (m_b * k + m_b0);
    NS_ABORT_MSG_IF(!(rate > 0),
                    "Eq7ServiceTimeModel: the rate of "
                        << context.cores << " cores with frames of " << frameSize << " bytes is "
                        << rate << " Gbit/s, expected more than 0: correct A, A0, B, B0");
    return k * (frameSize + 20) * 8 / rate;
}

} // namespace ns3
