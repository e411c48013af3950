// SPDX-License-Identifier: GPL-2.0-only
// What is measured in a TcpChain, and what its routers are worth by their profile.
#include "tcp-chain.h"

#include "ns3/bulk-send-application.h"
#include "ns3/double.h"
#include "ns3/eq7-service-time-model.h"
#include "ns3/pointer.h"
#include "ns3/queue.h"
#include "ns3/service-time-model.h"
#include "ns3/simulator.h"

#include <cmath>
#include <numeric>

namespace ns3
{

TcpChain::Needs
TcpChain::GetNeeds(const SoftRouterProfile& profile)
{
    const auto model = profile.CreateServiceTimeModel();
    const ServiceContext context{1, false, profile.workingSetBytes};
    const double burst = model->GetBurstNs(context) / profile.burst;
    return {burst + model->GetPacketNs(FRAME, context),
            burst + model->GetPacketNs(ACK_FRAME, context)};
}

double
TcpChain::SlowDown(SoftRouterProfile& profile, double share)
{
    const Needs needs = GetNeeds(profile);
    const double factor = FRAME_BITS / (needs.frame + needs.ack / 2) / LINK_GBPS / share;
    const auto model = profile.CreateServiceTimeModel();
    const TypeId type = model->GetInstanceTypeId();
    const bool rates = type == Eq7ServiceTimeModel::GetTypeId();
    for (std::size_t i = 0; i < type.GetAttributeN(); i++)
    {
        const auto attribute = type.GetAttribute(i);
        DoubleValue value;
        if (DynamicCast<DoubleValue>(attribute.checker->Create()) && attribute.name != "CacheSize")
        {
            model->GetAttribute(attribute.name, value);
            profile.model.Set(attribute.name,
                              DoubleValue(rates ? value.Get() / factor : value.Get() * factor));
        }
    }
    return factor;
}

uint32_t
TcpChain::GetSegment(bool ipv6)
{
    return ipv6 ? 1428 : 1448;
}

std::string
TcpChain::Check(const Setup& setup)
{
    if (setup.flows < 1 || setup.flows > MAX_FLOWS)
    {
        return "--flows: expected 1 to " + std::to_string(MAX_FLOWS);
    }
    if (!(setup.seconds > SETTLED && setup.seconds <= 1000))
    {
        return "--seconds: expected more than 2, after which flows are measured, and at most 1000";
    }
    if (!(setup.shortestMs > LEAST_RTT_MS && setup.longestMs >= setup.shortestMs &&
          setup.longestMs <= 1000))
    {
        return "--shortest, --longest: expected milliseconds, more than 1 and at most 1000, the "
               "shortest first";
    }
    if (!(setup.cross >= 0 && setup.cross < 1) || setup.seed == 0)
    {
        return "--cross, --seed: expected a share below 1, and a seed from 1 on";
    }
    return "";
}

double
TcpChain::Found::GetGoodput() const
{
    return std::accumulate(mbps.begin(), mbps.end(), 0.0);
}

double
TcpChain::Found::GetFairness() const
{
    double squares = 0;
    for (const double rate : mbps)
    {
        squares += rate * rate;
    }
    const double sum = GetGoodput();
    return squares > 0 ? sum * sum / (mbps.size() * squares) : 0;
}

void
TcpChain::WatchSocket(uint32_t flow)
{
    const auto source = DynamicCast<BulkSendApplication>(m_senders.Get(flow)->GetApplication(0));
    source->GetSocket()->TraceConnectWithoutContext("Tx",
                                                    MakeCallback(&TcpChain::Sent, this).Bind(flow));
    source->GetSocket()->TraceConnectWithoutContext(
        "Rx",
        MakeCallback(&TcpChain::Received, this).Bind(flow));
}

void
TcpChain::Sent(uint32_t number,
               Ptr<const Packet> packet,
               const TcpHeader& header,
               Ptr<const TcpSocketBase> /* socket */)
{
    if (packet->GetSize() == 0)
    {
        return;
    }
    Flow& flow = m_flows[number];
    m_found.sent++;
    if (header.GetSequenceNumber() < flow.next)
    {
        m_found.again++;
        flow.probed = -1; // whose acknowledgment comes would be unclear (Karn and Partridge 1987)
        return;
    }
    flow.next = header.GetSequenceNumber() + packet->GetSize();
    if (flow.probed < 0)
    {
        flow.probed = Simulator::Now().GetSeconds() * 1e3;
        flow.probe = flow.next;
    }
}

void
TcpChain::Received(uint32_t number,
                   Ptr<const Packet> /* packet */,
                   const TcpHeader& header,
                   Ptr<const TcpSocketBase> /* socket */)
{
    Flow& flow = m_flows[number];
    if (flow.probed < 0 || header.GetAckNumber() < flow.probe)
    {
        return;
    }
    const double rtt = Simulator::Now().GetSeconds() * 1e3 - flow.probed;
    flow.probed = -1;
    for (Rtt* sum : {&m_rtt, &m_recent})
    {
        sum->sumMs += rtt;
        sum->samples++;
    }
}

void
TcpChain::Begin()
{
    for (auto& flow : m_flows)
    {
        flow.before = flow.sink->GetTotalRx();
    }
    m_rtt = Rtt();
    for (uint32_t router = 0; router < ROUTERS; router++)
    {
        if (m_cores[router])
        {
            m_busy[router] = GetBusy(router);
            m_cores[router]->GetMeter().Reset(Simulator::Now());
        }
    }
}

const char*
TcpChain::GetHeader()
{
    return "variant,time_ms,throughput_mbps,rtt_ms,first_transmit_ring,middle_receive_ring,"
           "retransmitted";
}

void
TcpChain::Sample()
{
    uint32_t received = 0;
    if (m_cores[1])
    {
        for (const auto& ring : m_cores[1]->GetRings())
        {
            received += ring->GetLength();
        }
    }
    PointerValue queue;
    m_middle[0].Get(0)->GetAttribute("TxQueue", queue);
    const double now = Simulator::Now().GetSeconds() - START;
    *m_out << m_variant.name << ',' << std::llround(now * 1e3) << ','
           << (m_bits - m_sampled) * 1e-3 / INTERVAL_MS << ',';
    if (m_recent.samples > 0)
    {
        *m_out << m_recent.sumMs / m_recent.samples;
    }
    *m_out << ',' << queue.Get<QueueBase>()->GetNPackets() << ',' << received << ','
           << m_found.again << '\n';
    m_sampled = m_bits;
    m_recent = Rtt();
    Simulator::Schedule(MilliSeconds(INTERVAL_MS), &TcpChain::Sample, this);
}

void
TcpChain::End()
{
    const double seconds = m_setup.seconds - SETTLED;
    for (const auto& flow : m_flows)
    {
        m_found.mbps.push_back((flow.sink->GetTotalRx() - flow.before) * 8e-6 / seconds);
    }
    m_found.rttMs = m_rtt.samples == 0 ? 0 : m_rtt.sumMs / m_rtt.samples;
    for (uint32_t router = 0; router < ROUTERS; router++)
    {
        const auto& cores = m_cores[router];
        if (!cores)
        {
            continue;
        }
        m_found.receiveDrops[router] = cores->GetDrops(SoftRouter::RECEIVE_RING);
        m_found.utilisation[router] =
            (GetBusy(router) - m_busy[router]) / seconds / m_variant.cores[router];
        m_found.sojournUs[router] = cores->GetMeter().GetMeanNs() / 1e3;
        m_found.p99Us[router] = cores->GetMeter().GetPercentileNs(0.99) / 1e3;
        m_found.forwarded += cores->GetForwarded();
    }
    Simulator::Stop();
}

double
TcpChain::GetBusy(uint32_t router) const
{
    double seconds = 0;
    for (uint32_t core = 0; core < m_variant.cores[router]; core++)
    {
        seconds += m_cores[router]->GetCores()->Get(core)->GetBusyTime().GetSeconds();
    }
    return seconds;
}

} // namespace ns3
