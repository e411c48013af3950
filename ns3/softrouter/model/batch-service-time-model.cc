// SPDX-License-Identifier: GPL-2.0-only
#include "batch-service-time-model.h"

#include "ns3/boolean.h"
#include "ns3/double.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(BatchServiceTimeModel);

TypeId
BatchServiceTimeModel::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::BatchServiceTimeModel")
            .SetParent<ServiceTimeModel>()
            .SetGroupName("SoftRouter")
            .AddConstructor<BatchServiceTimeModel>()
            .AddAttribute("BurstCost",
                          "Nanoseconds per burst",
                          DoubleValue(400),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_burst),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("PacketCost",
                          "Nanoseconds per packet",
                          DoubleValue(300),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_packet),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("ByteCost",
                          "Nanoseconds per byte of frame size",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_byte),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("MissCost",
                          "Nanoseconds per lookup that misses the cache",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_miss),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("CacheSize",
                          "Bytes of cache that routes can be in",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_cache),
                          MakeDoubleChecker<double>(0, 1e15))
            .AddAttribute("D",
                          "Nanoseconds for each core beyond the first",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_d),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("U",
                          "Nanoseconds where packets cross in both directions",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_u),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("PuntCost",
                          "Nanoseconds that a packet for the slow path costs more than others",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_punt),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("PuntBurstCost",
                          "Nanoseconds that a burst with such packets costs more than others",
                          DoubleValue(0),
                          MakeDoubleAccessor(&BatchServiceTimeModel::m_puntBurst),
                          MakeDoubleChecker<double>(0, 1e9))
            .AddAttribute("ContentionPerPacket",
                          "Whether D and U count for each packet, not for each burst",
                          BooleanValue(false),
                          MakeBooleanAccessor(&BatchServiceTimeModel::m_contentionPerPacket),
                          MakeBooleanChecker());
    return tid;
}

BatchServiceTimeModel::BatchServiceTimeModel()
{
}

BatchServiceTimeModel::~BatchServiceTimeModel()
{
}

double
BatchServiceTimeModel::GetContentionNs(const ServiceContext& context) const
{
    return m_d * (context.cores - 1.0) + (context.twoWay ? m_u : 0);
}

double
BatchServiceTimeModel::GetMissShare(double workingSet) const
{
    return workingSet > m_cache ? 1 - m_cache / workingSet : 0;
}

double
BatchServiceTimeModel::GetBurstNs(const ServiceContext& context) const
{
    return m_burst + (m_contentionPerPacket ? 0 : GetContentionNs(context));
}

double
BatchServiceTimeModel::GetPacketNs(uint32_t frameSize, const ServiceContext& context) const
{
    return m_packet + m_byte * frameSize + GetMissShare(context.workingSet) * m_miss +
           (m_contentionPerPacket ? GetContentionNs(context) : 0);
}

double
BatchServiceTimeModel::GetPuntNs() const
{
    return m_punt;
}

double
BatchServiceTimeModel::GetPuntBurstNs() const
{
    return m_puntBurst;
}

} // namespace ns3
