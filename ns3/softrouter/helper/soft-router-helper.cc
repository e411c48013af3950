// SPDX-License-Identifier: GPL-2.0-only
#include "soft-router-helper.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/linear-contention-service-time-model.h"
#include "ns3/loopback-net-device.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/nstime.h"
#include "ns3/pointer.h"
#include "ns3/punt-rule.h"
#include "ns3/queue-item.h"
#include "ns3/queue-size.h"
#include "ns3/queue.h"
#include "ns3/simulator.h"
#include "ns3/soft-router-tap.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/transmit-buffer-queue-disc.h"
#include "ns3/uinteger.h"

namespace ns3
{

namespace
{

/**
 * \brief A transmit ring was full.
 * \param router whose
 * \param item what was dropped
 */
void
CountDrop(Ptr<SoftRouter> router, Ptr<const QueueDiscItem> item)
{
    router->CountTransmitDrop(item->GetPacket());
}

/**
 * \brief A device without flow control had no room.
 * \param router whose
 * \param packet what was dropped
 */
void
CountDeviceDrop(Ptr<SoftRouter> router, Ptr<const Packet> packet)
{
    router->CountTransmitDrop(packet);
}

/**
 * \param us microseconds
 * \return the time
 */
Time
Microseconds(double us)
{
    return Time::FromDouble(us, Time::US);
}

} // namespace

void
SoftRouterHelper::Set(std::string name, const AttributeValue& value)
{
    m_attributes.emplace_back(name, value.Copy());
}

void
SoftRouterHelper::SetContention(std::string name, const AttributeValue& value)
{
    m_contention.emplace_back(name, value.Copy());
}

void
SoftRouterHelper::SetForward(SoftRouter::Forward forward)
{
    m_forward = forward;
}

Ptr<SoftRouter>
SoftRouterHelper::Install(Ptr<Node> node, const std::string& file) const
{
    return Install(node, SoftRouterProfile::Load(file));
}

std::vector<Ptr<SoftRouter>>
SoftRouterHelper::Install(NodeContainer nodes, const std::string& file) const
{
    std::vector<Ptr<SoftRouter>> routers;
    for (auto node = nodes.Begin(); node != nodes.End(); ++node)
    {
        if (auto router = Install(*node, file))
        {
            routers.push_back(router);
        }
    }
    return routers;
}

Ptr<SoftRouter>
SoftRouterHelper::Install(Ptr<Node> node, const SoftRouterProfile& profile) const
{
    if (node->GetSystemId() != Simulator::GetSystemId())
    {
        return nullptr;
    }
    NS_ABORT_MSG_IF(node->GetObject<SoftRouter>(), "This node is a SoftRouter already");
    auto router = Create(profile);
    for (uint32_t i = 0; i < node->GetNDevices(); i++)
    {
        const Ptr<NetDevice> device = node->GetDevice(i);
        if (DynamicCast<LoopbackNetDevice>(device) || DynamicCast<SoftRouterTap>(device))
        {
            continue;
        }
        router->AddPort(device);
        if (m_forward.IsNull())
        {
            InstallTransmitRing(router, device, profile);
        }
    }
    router->Build(node);
    node->AggregateObject(router);
    return router;
}

Ptr<SoftRouter>
SoftRouterHelper::Create(const SoftRouterProfile& profile) const
{
    auto router = CreateObject<SoftRouter>();
    router->SetAttribute("ServiceModel", PointerValue(profile.CreateServiceTimeModel()));
    router->SetAttribute("Burst", UintegerValue(profile.burst));
    router->SetAttribute("ReceiveRing", UintegerValue(profile.receiveRing));
    router->SetAttribute("PuntRing", UintegerValue(profile.puntRing));
    router->SetAttribute("TransmitBuffer", UintegerValue(profile.transmitBuffer));
    router->SetAttribute("TransmitTimeout", TimeValue(Microseconds(profile.transmitTimeoutUs)));
    router->SetAttribute("TransmitWhenIdle", BooleanValue(profile.transmitWhenIdle));
    router->SetAttribute("PollTime", TimeValue(Time::FromDouble(profile.pollNs, Time::NS)));
    if (profile.pausesPerSecond > 0)
    {
        router->SetPauses(profile.pausesPerSecond, profile.pausesNs);
    }
    router->SetAttribute("PuntShare", DoubleValue(profile.puntShare));
    if (profile.sleeps)
    {
        router->SetAttribute("SleepAfter", TimeValue(Microseconds(profile.sleepAfterUs)));
        router->SetAttribute("WakeUpTime", TimeValue(Microseconds(profile.wakeUpUs)));
    }
    if (profile.slowPathNs > 0)
    {
        auto slow = CreateObject<LinearContentionServiceTimeModel>();
        slow->SetAttribute("C0", DoubleValue(profile.slowPathNs));
        slow->SetAttribute("CByte", DoubleValue(0));
        slow->SetAttribute("D", DoubleValue(0));
        slow->SetAttribute("U", DoubleValue(0));
        router->SetAttribute("SlowPathModel", PointerValue(slow));
        if (m_forward.IsNull())
        {
            router->SetAttribute("PuntRule", PointerValue(CreateObject<PuntRule>()));
        }
    }
    PointerValue contention;
    router->GetAttribute("Contention", contention);
    contention.GetObject()->SetAttribute("WorkingSet", DoubleValue(profile.workingSetBytes));
    for (const auto& [name, value] : m_contention)
    {
        contention.GetObject()->SetAttribute(name, *value);
    }
    for (const auto& [name, value] : m_attributes)
    {
        router->SetAttribute(name, *value);
    }
    if (!m_forward.IsNull())
    {
        router->SetForward(m_forward);
    }
    return router;
}

void
SoftRouterHelper::InstallTransmitRing(Ptr<SoftRouter> router,
                                      Ptr<NetDevice> device,
                                      const SoftRouterProfile& profile) const
{
    PointerValue queue;
    const bool hasQueue = device->GetAttributeFailSafe("TxQueue", queue) && queue.GetObject();
    auto control = device->GetNode()->GetObject<TrafficControlLayer>();
    if (!control || !device->GetObject<NetDeviceQueueInterface>())
    {
        NS_ABORT_MSG_IF(profile.transmitBuffer > 1,
                        "A transmit_buffer needs devices with flow control and an internet stack "
                        "on the node, and here is neither");
        if (hasQueue)
        {
            queue.GetObject()->SetAttributeFailSafe(
                "MaxSize",
                QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, profile.transmitRing)));
            queue.GetObject()->TraceConnectWithoutContext(
                "Drop",
                MakeBoundCallback(&CountDeviceDrop, router));
        }
        else
        {
            // An EthernetPort, say: its ring is its own.
            device->SetAttributeFailSafe("QueueSize", UintegerValue(profile.transmitRing));
            device->TraceConnectWithoutContext("MacTxDrop",
                                               MakeBoundCallback(&CountDeviceDrop, router));
        }
        return;
    }
    if (control->GetRootQueueDiscOnDevice(device))
    {
        control->DeleteRootQueueDiscOnDevice(device);
    }
    auto ring = CreateObject<TransmitBufferQueueDisc>();
    ring->SetAttribute("BurstSize", UintegerValue(profile.transmitBuffer));
    ring->SetAttribute("Timeout", TimeValue(Microseconds(profile.transmitTimeoutUs)));
    ring->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, profile.transmitRing));
    ring->TraceConnectWithoutContext("Drop", MakeBoundCallback(&CountDrop, router));
    control->SetRootQueueDiscOnDevice(device, ring);
    router->AddTransmitBuffer(ring);
    if (hasQueue)
    {
        // What waits, waits in the ring: the device itself has the packet that it sends next.
        queue.GetObject()->SetAttributeFailSafe(
            "MaxSize",
            QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 1)));
    }
}

int32_t
SoftRouterHelper::CrossConnect(const RouterItem& item)
{
    return static_cast<int32_t>(item.port ^ 1U);
}

} // namespace ns3
