// SPDX-License-Identifier: GPL-2.0-only
#include "ethernet-link-helper.h"

#include "ns3/abort.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/queue-size.h"
#include "ns3/uinteger.h"

namespace ns3
{

EthernetLinkHelper::EthernetLinkHelper()
    : m_rate("10Gbps"),
      m_queueSize(512),
      m_mtu(1500),
      m_flowControl(false)
{
}

void
EthernetLinkHelper::SetRate(DataRate rate)
{
    NS_ABORT_MSG_IF(rate.GetBitRate() == 0, "EthernetLinkHelper: found a rate of 0, expected more");
    m_rate = rate;
}

void
EthernetLinkHelper::SetDelay(Time delay)
{
    m_delay = delay;
}

void
EthernetLinkHelper::SetQueueSize(uint32_t packets)
{
    NS_ABORT_MSG_IF(packets == 0,
                    "EthernetLinkHelper: found a queue of 0 packets, expected at least 1");
    m_queueSize = packets;
}

void
EthernetLinkHelper::SetMtu(uint16_t mtu)
{
    m_mtu = mtu;
}

void
EthernetLinkHelper::SetFlowControl(bool on)
{
    m_flowControl = on;
}

NetDeviceContainer
EthernetLinkHelper::Install(Ptr<Node> first, Ptr<Node> second) const
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(m_rate));
    link.SetDeviceAttribute("InterframeGap", TimeValue(m_rate.CalculateBytesTxTime(36)));
    link.SetDeviceAttribute("Mtu", UintegerValue(m_mtu));
    link.SetChannelAttribute("Delay", TimeValue(m_delay));
    link.SetQueue("ns3::DropTailQueue<Packet>",
                  "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, m_queueSize)));
    if (!m_flowControl)
    {
        link.DisableFlowControl();
    }
    return link.Install(first, second);
}

} // namespace ns3
