// SPDX-License-Identifier: GPL-2.0-only
#include "ethernet-link-helper.h"

#include "ns3/abort.h"
#include "ns3/ethernet-cable.h"
#include "ns3/ethernet-port.h"
#include "ns3/mac48-address.h"
#include "ns3/object-factory.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/queue-size.h"
#include "ns3/uinteger.h"

namespace ns3
{

EthernetLinkHelper::EthernetLinkHelper()
    : m_rate("10Gbps"),
      m_queueSize(512),
      m_mtu(1500),
      m_flowControl(false),
      m_raw(false)
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

void
EthernetLinkHelper::SetRaw(bool on)
{
    m_raw = on;
}

NetDeviceContainer
EthernetLinkHelper::Install(Ptr<Node> first, Ptr<Node> second) const
{
    if (m_raw)
    {
        return InstallRaw(first, second);
    }
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

NetDeviceContainer
EthernetLinkHelper::InstallRaw(Ptr<Node> first, Ptr<Node> second) const
{
    NS_ABORT_MSG_IF(m_flowControl || first->GetSystemId() != second->GetSystemId(),
                    "EthernetLinkHelper: found raw links with flow control or between processes, "
                    "expected neither: do not call SetRaw()");
    NetDeviceContainer devices;
    for (const auto& node : {first, second})
    {
        auto port = CreateObject<EthernetPort>();
        port->SetAttribute("DataRate", DataRateValue(m_rate));
        port->SetAttribute("QueueSize", UintegerValue(m_queueSize));
        port->SetAttribute("Mtu", UintegerValue(m_mtu));
        port->SetAddress(Mac48Address::Allocate());
        node->AddDevice(port);
        devices.Add(port);
    }
    auto cable = CreateObjectWithAttributes<EthernetCable>("Delay", TimeValue(m_delay));
    cable->Connect(DynamicCast<EthernetPort>(devices.Get(0)),
                   DynamicCast<EthernetPort>(devices.Get(1)));
    return devices;
}

} // namespace ns3
