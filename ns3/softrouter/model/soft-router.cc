// SPDX-License-Identifier: GPL-2.0-only
#include "soft-router.h"

#include "ns3/abort.h"
#include "ns3/node.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ns3
{

namespace
{

constexpr uint32_t MIN_FRAME = 64; // bytes: the shortest Ethernet frame (IEEE 802.3, 4A.4.2)

} // namespace

SoftRouter::SoftRouter()
    : m_contention(CreateObject<ContentionDomain>()),
      m_distributor(CreateObject<RssDistributor>()),
      m_pool(CreateObject<ResourcePool>()),
      m_random(CreateObject<UniformRandomVariable>()),
      m_pauseRandom(CreateObject<UniformRandomVariable>())
{
}

SoftRouter::~SoftRouter()
{
}

void
SoftRouter::DoDispose()
{
    m_sample.Cancel();
    // Of these, some hold callbacks to us or to each other.
    for (auto& unit : m_units)
    {
        unit->Dispose();
    }
    if (m_manager)
    {
        m_manager->Dispose();
    }
    for (auto& port : m_ports)
    {
        if (!m_portOfDevice.empty())
        {
            port.device->SetReceiveCallback(NetDevice::ReceiveCallback());
        }
        for (auto& buffer : port.buffers)
        {
            buffer->Dispose();
        }
    }
    m_units.clear();
    m_rings.clear();
    m_ports.clear();
    m_node = nullptr;
    m_manager = nullptr;
    m_punted = nullptr;
    m_tap = nullptr;
    m_slowCore = nullptr;
    m_pool = nullptr;
    m_contention = nullptr;
    m_distributor = nullptr;
    m_model = nullptr;
    m_slowModel = nullptr;
    m_puntRule = nullptr;
    m_random = nullptr;
    m_pauseRandom = nullptr;
    m_discs.clear();
    m_forward = Forward();
    m_distribute = Distribute();
    m_punt = Callback<bool, const RouterItem&>();
    Object::DoDispose();
}

uint32_t
SoftRouter::AddPort(Ptr<NetDevice> device)
{
    NS_ABORT_MSG_UNLESS(m_units.empty(), "A router's ports are added before it is built");
    m_ports.push_back({device, {}});
    return m_ports.size() - 1;
}

void
SoftRouter::SetForward(Forward forward)
{
    m_forward = forward;
}

void
SoftRouter::SetDistribute(Distribute distribute)
{
    m_distribute = distribute;
}

void
SoftRouter::SetPunt(Callback<bool, const RouterItem&> punt)
{
    m_punt = punt;
}

void
SoftRouter::SetPauses(double perSecond, const std::vector<double>& lengthsNs)
{
    NS_ABORT_MSG_UNLESS(m_units.empty(), "A router's pauses are set before it is built");
    m_pausesPerSecond = perSecond;
    m_pausesNs = lengthsNs;
}

void
SoftRouter::AddTransmitBuffer(Ptr<TransmitBufferQueueDisc> disc)
{
    m_discs.push_back(disc);
}

bool
SoftRouter::ReceiveFromDevice(Ptr<NetDevice> device,
                              Ptr<const Packet> packet,
                              uint16_t protocol,
                              const Address& from)
{
    RouterItem item;
    // Nobody changes it on its way: who sends it on sends a copy.
    item.packet = ConstCast<Packet>(packet);
    item.protocol = protocol;
    if (m_tap)
    {
        item.fromSize = from.CopyAllTo(item.from.data(), item.from.size());
    }
    Receive(std::move(item), m_portOfDevice[device->GetIfIndex()]);
    return true;
}

void
SoftRouter::Receive(RouterItem item, uint32_t port)
{
    const Time now = Simulator::Now();
    item.arrival = now;
    item.port = port;
    item.frameSize = std::max(item.packet->GetSize() + m_overhead, MIN_FRAME);
    uint32_t core = 0;
    if (!m_distribute.IsNull())
    {
        core = m_distribute(item);
        NS_ABORT_MSG_IF(core >= m_cores,
                        "Found core " << core << " for a packet, expected one of " << m_cores);
    }
    else if (m_cores > 1)
    {
        item.hash = m_distributor->Hash(item.packet, item.protocol);
        core = m_distributor->GetQueue(item.hash);
    }
    m_received[core]++;
    NicRing& ring = *m_rings[port * m_cores + core];
    if (!ring.Push(item))
    {
        Drop(item.packet, RECEIVE_RING);
        return;
    }
    m_meter.Arrive(now);
    m_units[core]->Notify();
}

void
SoftRouter::FastPathDone(uint32_t unit, RouterItem& item)
{
    if (!m_punted || !item.punted)
    {
        Deliver(unit, item);
        return;
    }
    if (!m_punted->Push(item))
    {
        DropInside(item.packet, PUNT_RING);
        return;
    }
    m_units.back()->Notify();
}

bool
SoftRouter::IsPunted(const RouterItem& item)
{
    return (m_puntShare > 0 && m_random->GetValue(0, 1) < m_puntShare) ||
           (m_puntRule && m_puntRule->Matches(item, *m_node)) || (!m_punt.IsNull() && m_punt(item));
}

void
SoftRouter::Deliver(uint32_t unit, RouterItem& item)
{
    if (m_tap)
    {
        Depart(item);
        Address from;
        from.CopyAllFrom(item.from.data(), item.fromSize);
        m_tap->HandOver(m_ports[item.port].device, item.packet, item.protocol, from);
        return;
    }
    const int32_t port = m_forward(item);
    if (port < 0 || static_cast<uint32_t>(port) >= m_ports.size())
    {
        DropInside(item.packet, NO_ROUTE);
        return;
    }
    m_ports[port].buffers[unit]->Add(std::move(item));
}

void
SoftRouter::EndBurst(uint32_t unit)
{
    for (auto& port : m_ports)
    {
        if (!port.buffers.empty())
        {
            port.buffers[unit]->EndBurst();
        }
    }
    for (auto& disc : m_discs)
    {
        disc->EndBurst();
    }
}

void
SoftRouter::FlushBuffers(uint32_t unit)
{
    for (auto& port : m_ports)
    {
        if (!port.buffers.empty())
        {
            port.buffers[unit]->Flush();
        }
    }
    for (auto& disc : m_discs)
    {
        disc->Flush();
    }
}

bool
SoftRouter::Transmit(uint32_t port, const RouterItem& item)
{
    const Ptr<NetDevice>& device = m_ports[port].device;
    // The sender writes into the packet: if observers still look at it, into a copy.
    const bool alone = item.packet->GetReferenceCount() == 1;
    if (!device->Send(alone ? item.packet : item.packet->Copy(),
                      device->GetBroadcast(),
                      item.protocol))
    {
        DropInside(item.packet, TRANSMIT_RING);
        return false;
    }
    Depart(item);
    return true;
}

void
SoftRouter::Depart(const RouterItem& item)
{
    const Time now = Simulator::Now();
    m_forwarded++;
    m_meter.Depart(item.arrival, now);
    m_sojournTrace(item.packet, now - item.arrival);
}

void
SoftRouter::Drop(Ptr<const Packet> packet, DropCause cause)
{
    m_drops[cause]++;
    m_dropTrace(packet, cause);
}

void
SoftRouter::CountTransmitDrop(Ptr<const Packet> packet)
{
    Drop(packet, TRANSMIT_RING);
}

void
SoftRouter::DropInside(Ptr<const Packet> packet, DropCause cause)
{
    m_meter.Drop(Simulator::Now());
    Drop(packet, cause);
}

void
SoftRouter::Sample()
{
    const Time now = Simulator::Now();
    for (uint32_t core = 0; core < m_cores; core++)
    {
        const Time busy = m_pool->Get(core)->GetBusyTime();
        const Time since = busy - m_sampleBusy[core];
        m_sampleBusy[core] = busy;
        m_utilisationTrace(core, since.ToDouble(Time::NS) / m_sampleInterval.ToDouble(Time::NS));
    }
    const auto counters = m_meter.GetCounters(now);
    const uint64_t departures = counters.departures - m_sampleCounters.departures;
    if (departures > 0)
    {
        const double area = counters.area - m_sampleCounters.area;
        m_littleTrace(Time(std::llround(area / static_cast<double>(departures))));
    }
    m_sampleCounters = counters;
    m_sample = Simulator::Schedule(m_sampleInterval, &SoftRouter::Sample, this);
}

Ptr<ResourcePool>
SoftRouter::GetCores() const
{
    return m_pool;
}

Ptr<RssDistributor>
SoftRouter::GetDistributor() const
{
    return m_distributor;
}

Ptr<LocalResourceManager>
SoftRouter::GetManager() const
{
    return m_manager;
}

const std::vector<Ptr<TaskUnit>>&
SoftRouter::GetUnits() const
{
    return m_units;
}

const std::vector<Ptr<NicRing>>&
SoftRouter::GetRings() const
{
    return m_rings;
}

SojournMeter&
SoftRouter::GetMeter()
{
    return m_meter;
}

uint64_t
SoftRouter::GetReceived() const
{
    uint64_t sum = 0;
    for (const uint64_t received : m_received)
    {
        sum += received;
    }
    return sum;
}

uint64_t
SoftRouter::GetReceived(uint32_t core) const
{
    return m_received.at(core);
}

uint64_t
SoftRouter::GetForwarded() const
{
    return m_forwarded;
}

uint64_t
SoftRouter::GetDrops(DropCause cause) const
{
    return m_drops.at(cause);
}

const char*
SoftRouter::GetName(DropCause cause)
{
    switch (cause)
    {
    case RECEIVE_RING:
        return "receive_ring";
    case PUNT_RING:
        return "punt_ring";
    case TRANSMIT_RING:
        return "transmit_ring";
    case NO_ROUTE:
        return "no_route";
    case DROP_CAUSES:
        break;
    }
    return "unknown";
}

int64_t
SoftRouter::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    m_pauseRandom->SetStream(stream + 1);
    return 2;
}

} // namespace ns3
