// SPDX-License-Identifier: GPL-2.0-only
#include "frame-source.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/ipv4-address.h"
#include "ns3/ipv4-header.h"
#include "ns3/log.h"
#include "ns3/nstime.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/udp-header.h"

#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("FrameSource");

NS_OBJECT_ENSURE_REGISTERED(FrameSource);

namespace
{

constexpr uint16_t IPV4 = 0x0800;
constexpr uint32_t ETHERNET = 18; // bytes of header and FCS
constexpr uint32_t WIRE = 20;     // bytes of preamble, start delimiter and gap
constexpr uint32_t HEADERS = 28;  // bytes of IPv4 and UDP header
constexpr uint32_t SOURCE = 198U << 24 | 18U << 16;
constexpr uint32_t DESTINATION = 198U << 24 | 19U << 16;

} // namespace

TypeId
FrameSource::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::FrameSource")
            .SetParent<Application>()
            .SetGroupName("SoftRouter")
            .AddConstructor<FrameSource>()
            .AddAttribute("Rate",
                          "Rate on the wire, 20 bytes more than each frame; 0 sends nothing",
                          DataRateValue(DataRate("1Gbps")),
                          MakeDataRateAccessor(&FrameSource::m_rate),
                          MakeDataRateChecker())
            .AddAttribute("Poisson",
                          "Whether frames come at random times, not one after the other",
                          BooleanValue(false),
                          MakeBooleanAccessor(&FrameSource::m_poisson),
                          MakeBooleanChecker())
            .AddTraceSource("Tx",
                            "A frame is offered to the device",
                            MakeTraceSourceAccessor(&FrameSource::m_tx),
                            "ns3::Packet::TracedCallback");
    return tid;
}

FrameSource::FrameSource()
    : m_random(CreateObject<UniformRandomVariable>())
{
    NS_LOG_FUNCTION(this);
}

FrameSource::~FrameSource()
{
    NS_LOG_FUNCTION(this);
}

void
FrameSource::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_next.Cancel();
    m_device = nullptr;
    m_templates.clear();
    Application::DoDispose();
}

void
FrameSource::SetDevice(Ptr<NetDevice> device)
{
    NS_LOG_FUNCTION(this << device);
    m_device = device;
}

void
FrameSource::AddSize(uint32_t bytes, double weight)
{
    NS_LOG_FUNCTION(this << bytes << weight);
    NS_ABORT_MSG_IF(bytes < MIN_SIZE || bytes > MAX_SIZE || !(weight > 0) || !std::isfinite(weight),
                    "FrameSource: found frames of " << bytes << " bytes with weight " << weight
                                                    << ", expected " << MIN_SIZE << " to "
                                                    << MAX_SIZE << " bytes and a weight above 0");
    m_sizes.push_back({bytes, weight, 0, 0});
    m_templates.clear();
}

void
FrameSource::SetFlows(uint32_t first, uint32_t step, uint32_t count)
{
    NS_LOG_FUNCTION(this << first << step << count);
    NS_ABORT_MSG_IF(count == 0 || first + static_cast<uint64_t>(step) * (count - 1) >= MAX_FLOWS,
                    "FrameSource: found " << count << " flows from " << first << " in steps of "
                                          << step << ", expected at least one, and none from "
                                          << MAX_FLOWS << " on");
    m_first = first;
    m_step = step;
    m_count = count;
    m_turn = 0;
    m_templates.clear();
}

uint64_t
FrameSource::GetOffered() const
{
    return m_offered;
}

uint64_t
FrameSource::GetOfferedBytes() const
{
    return m_offeredBytes;
}

uint64_t
FrameSource::GetRefused() const
{
    return m_refused;
}

void
FrameSource::ResetCounters()
{
    m_offered = 0;
    m_offeredBytes = 0;
    m_refused = 0;
}

int64_t
FrameSource::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

Ptr<Packet>
FrameSource::MakePacket(uint32_t flow, uint32_t size)
{
    auto packet = Create<Packet>(size - ETHERNET - HEADERS);
    UdpHeader udp;
    udp.SetSourcePort(static_cast<uint16_t>(1024 + flow % 60000));
    udp.SetDestinationPort(9); // discard
    packet->AddHeader(udp);
    Ipv4Header ip;
    ip.EnableChecksum();
    ip.SetSource(Ipv4Address(SOURCE | (flow & 0xffff)));
    ip.SetDestination(Ipv4Address(DESTINATION | (flow & 0xffff)));
    ip.SetProtocol(17);
    ip.SetPayloadSize(static_cast<uint16_t>(size - ETHERNET - 20));
    ip.SetTtl(64);
    packet->AddHeader(ip);
    return packet;
}

void
FrameSource::StartApplication()
{
    NS_LOG_FUNCTION(this);
    NS_ABORT_MSG_IF(!m_device, "FrameSource: found no device, call SetDevice() first");
    if (m_rate.GetBitRate() == 0)
    {
        return;
    }
    m_to = m_device->GetBroadcast(); // which devices make each time
    if (m_sizes.empty())
    {
        AddSize(MIN_SIZE, 1);
    }
    double weights = 0;
    for (const Size& size : m_sizes)
    {
        weights += size.weight;
    }
    const double stepsPerBit =
        static_cast<double>(Seconds(1).GetTimeStep()) / static_cast<double>(m_rate.GetBitRate());
    double cumulative = 0;
    m_meanSteps = 0;
    for (Size& size : m_sizes)
    {
        cumulative += size.weight / weights;
        size.cumulative = cumulative;
        size.steps = (size.bytes + WIRE) * 8 * stepsPerBit;
        m_meanSteps += size.weight / weights * size.steps;
    }
    m_templates.resize(static_cast<std::size_t>(m_count) * m_sizes.size());
    m_carry = 0;
    ScheduleAfter(m_poisson ? -std::log(m_random->GetValue(0, 1)) * m_meanSteps : 0);
}

void
FrameSource::StopApplication()
{
    NS_LOG_FUNCTION(this);
    m_next.Cancel();
}

uint32_t
FrameSource::DrawSize()
{
    if (m_sizes.size() == 1)
    {
        return 0;
    }
    const double drawn = m_random->GetValue(0, 1);
    uint32_t index = 0;
    while (index + 1 < m_sizes.size() && drawn >= m_sizes[index].cumulative)
    {
        index++;
    }
    return index;
}

void
FrameSource::SendNext()
{
    const uint32_t size = DrawSize();
    uint32_t flow = m_turn;
    if (m_poisson)
    {
        flow = m_count == 1 ? 0 : m_random->GetInteger(0, m_count - 1);
        ScheduleAfter(-std::log(m_random->GetValue(0, 1)) * m_meanSteps);
    }
    else
    {
        m_turn = m_turn + 1 == m_count ? 0 : m_turn + 1;
        ScheduleAfter(m_sizes[size].steps);
    }
    Ptr<Packet>& original = m_templates[static_cast<std::size_t>(flow) * m_sizes.size() + size];
    if (!original)
    {
        original = MakePacket(m_first + flow * m_step, m_sizes[size].bytes);
    }
    Ptr<Packet> packet = original->Copy();
    m_tx(packet);
    m_offered++;
    m_offeredBytes += m_sizes[size].bytes;
    if (!m_device->Send(packet, m_to, IPV4))
    {
        m_refused++;
    }
}

void
FrameSource::ScheduleAfter(double steps)
{
    // Rounding is carried on to the next frame: the rate is exact in the long run.
    m_carry += steps;
    const double whole = std::floor(m_carry);
    m_carry -= whole;
    m_next =
        Simulator::Schedule(TimeStep(static_cast<uint64_t>(whole)), &FrameSource::SendNext, this);
}

} // namespace ns3
