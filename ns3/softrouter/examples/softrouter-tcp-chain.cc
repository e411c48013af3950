// SPDX-License-Identifier: GPL-2.0-only
// Three routers in a row and TCP through them: what a router with too few cores does to flows,
// beside the same nodes with infinite capacity.
//
//   senders --- first --- middle --- last --- receivers
//
// The routers are the published one, slowed down so much that one core can forward 60 % of a link:
// full data frames, and an acknowledgment for every second of them. Prints what flows get, and what
// happens in the routers.
#include "tcp-chain.h"

#include "ns3/command-line.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/eq7-service-time-model.h"
#include "ns3/nstime.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/service-time-model.h"
#include "ns3/string.h"
#include "ns3/type-id.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

using namespace ns3;

namespace
{

constexpr uint32_t ACK_FRAME = 70; // bytes: Ethernet, IPv4, TCP with timestamps
constexpr uint32_t MOST_FLOWS = 200;
constexpr double FRAME_BITS = 8 * (TcpChain::FRAME + 20); // on the wire

const char* const ROUTER_NAMES[] = {"first", "middle", "last"};

const std::vector<TcpChain::Variant> VARIANTS = {
    {"infinite capacity", {0, 0, 0}},
    {"4 cores each", {4, 4, 4}},
    {"middle 1 core", {4, 1, 4}},
};

/**
 * \brief Make a router slower.
 * \param [in,out] profile of it
 * \param factor how many times as long everything takes
 */
void
SlowDown(SoftRouterProfile& profile, double factor)
{
    const auto model = profile.CreateServiceTimeModel();
    const TypeId type = model->GetInstanceTypeId();
    const bool rates = type == Eq7ServiceTimeModel::GetTypeId();
    for (std::size_t i = 0; i < type.GetAttributeN(); i++)
    {
        const auto attribute = type.GetAttribute(i);
        DoubleValue value;
        if (attribute.checker->GetValueTypeName() == "ns3::DoubleValue" &&
            attribute.name != "CacheSize")
        {
            model->GetAttribute(attribute.name, value);
            profile.model.Set(attribute.name,
                              DoubleValue(rates ? value.Get() / factor : value.Get() * factor));
        }
    }
}

/// What one core needs, ns.
struct Needs
{
    double frame; //!< for a full data frame
    double ack;   //!< for an acknowledgment
};

/**
 * \param profile of a router
 * \return what a core needs when no other works, and bursts are full
 */
Needs
GetNeeds(const SoftRouterProfile& profile)
{
    const auto model = profile.CreateServiceTimeModel();
    const ServiceContext context{1, false, profile.workingSetBytes};
    const double burst = model->GetBurstNs(context) / profile.burst;
    return {burst + model->GetPacketNs(TcpChain::FRAME, context),
            burst + model->GetPacketNs(ACK_FRAME, context)};
}

/**
 * \param profile of a router
 * \return share of a link that one core can forward in full frames, with an acknowledgment for
 * every second of them
 */
double
GetShare(const SoftRouterProfile& profile)
{
    const Needs needs = GetNeeds(profile);
    return FRAME_BITS / (needs.frame + needs.ack / 2) / TcpChain::LINK_GBPS;
}

/**
 * \param ipv6 whether headers are IPv6's
 * \return bytes of data in a full frame: 1500 less IP header, TCP header and timestamps
 */
uint32_t
GetSegment(bool ipv6)
{
    return ipv6 ? 1428 : 1448;
}

/**
 * \brief Print what theory allows.
 * \param setup what is simulated
 * \param profile of the routers
 */
void
PrintLimits(const TcpChain::Setup& setup, const SoftRouterProfile& profile)
{
    const Needs needs = GetNeeds(profile);
    const double line = TcpChain::LINK_GBPS / FRAME_BITS; // frames per ns
    const double cross = setup.cross * line;
    const double core = (1 - cross * needs.frame) / (needs.frame + needs.ack / 2);
    const double mbps = 8e3 * GetSegment(setup.ipv6);
    std::printf(
        "Beside the datagrams, links allow a goodput of %.1f Mbit/s, one core %.1f Mbit/s if "
        "nothing is lost.\nWhat is lost and sent again counts from the start, all else from "
        "%.0f s on.\n\n",
        (line - cross) * mbps,
        std::max(0.0, std::min(core, line - cross)) * mbps,
        TcpChain::SETTLED);
}

/**
 * \param rates of flows
 * \return Jain's index of fairness (1984): 1 if all are equal, 1/n if one has it all
 */
double
GetFairness(const std::vector<double>& rates)
{
    double sum = 0;
    double squares = 0;
    for (const double rate : rates)
    {
        sum += rate;
        squares += rate * rate;
    }
    return squares > 0 ? sum * sum / (rates.size() * squares) : 0;
}

/**
 * \param ipv6 whether headers are IPv6's
 * \param tcp congestion control, such as TcpCubic
 */
void
SetDefaults(bool ipv6, const std::string& tcp)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + tcp));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(GetSegment(ipv6)));
    // With ns-3's 128 KiB, a flow of 20 ms could not have more than half of a link.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    // As Linux has them; ns-3's are 1 s and 200 ms. A receiver must not wait for a second segment
    // longer than a sender for the acknowledgment of one.
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
}

/**
 * \param found of each variant
 */
void
PrintSummary(const std::vector<TcpChain::Found>& found)
{
    std::printf("                     goodput  Jain's    RTT   segments     sent\n"
                "                      Mbit/s  index      ms       sent    again\n");
    for (std::size_t i = 0; i < found.size(); i++)
    {
        const auto& one = found[i];
        double sum = 0;
        for (const double rate : one.mbps)
        {
            sum += rate;
        }
        std::printf("%-18s   %7.1f  %5.3f  %6.2f  %9llu  %7llu\n",
                    VARIANTS[i].name.c_str(),
                    sum,
                    GetFairness(one.mbps),
                    one.rttMs,
                    static_cast<unsigned long long>(one.sent),
                    static_cast<unsigned long long>(one.again));
    }
}

/**
 * \param found of each variant
 */
void
PrintRouters(const std::vector<TcpChain::Found>& found)
{
    std::printf("\n                             utili-  sojourn us           lost in rings\n"
                "                     router  sation    mean     p99   receive  transmit\n");
    for (std::size_t i = 0; i < found.size(); i++)
    {
        for (uint32_t router = 0; router < TcpChain::ROUTERS; router++)
        {
            const auto& one = found[i];
            std::printf("%-18s  %7s", VARIANTS[i].name.c_str(), ROUTER_NAMES[router]);
            if (VARIANTS[i].cores[router] == 0)
            {
                std::printf("       -       -       -         -");
            }
            else
            {
                std::printf("  %6.3f %7.0f %7.0f  %8llu",
                            one.utilisation[router],
                            one.sojournUs[router],
                            one.p99Us[router],
                            static_cast<unsigned long long>(one.receiveDrops[router]));
            }
            std::printf("  %8llu\n", static_cast<unsigned long long>(one.transmitDrops[router]));
        }
    }
}

/**
 * \param setup what was simulated
 * \param found of each variant
 */
void
PrintFlows(const TcpChain::Setup& setup, const std::vector<TcpChain::Found>& found)
{
    std::printf("\nGoodput of each flow, Mbit/s\nflow  RTT ms");
    for (const auto& variant : VARIANTS)
    {
        std::printf("  %18s", variant.name.c_str());
    }
    std::printf("\n");
    for (uint32_t flow = 0; flow < setup.flows; flow++)
    {
        std::printf("%4u  %6.2f", flow, TcpChain::GetBaseRttMs(setup, flow));
        for (const auto& one : found)
        {
            std::printf("  %18.1f", one.mbps[flow]);
        }
        std::printf("\n");
    }
    std::printf("\n");
}

/**
 * \param setup what is to be simulated
 * \param share of a link that a core can do
 * \param tcp congestion control
 * \return what is wrong with it; empty: nothing
 */
std::string
Check(const TcpChain::Setup& setup, double share, const std::string& tcp)
{
    TypeId type;
    if (setup.flows < 1 || setup.flows > MOST_FLOWS)
    {
        return "--flows: expected 1 to " + std::to_string(MOST_FLOWS);
    }
    if (!(setup.seconds > TcpChain::SETTLED && setup.seconds <= 1000))
    {
        return "--seconds: expected more than 2, after which flows are measured, and at most 1000";
    }
    if (!(setup.shortestMs > TcpChain::LEAST_RTT_MS && setup.longestMs >= setup.shortestMs &&
          setup.longestMs <= 1000))
    {
        return "--shortest, --longest: expected milliseconds, more than 1 and at most 1000, the "
               "shortest first";
    }
    if (!(share > 0 && share <= 100))
    {
        return "--share: expected a number above 0 and up to 100, of links that a core can do";
    }
    if (!(setup.cross >= 0 && setup.cross < 1) || setup.seed == 0)
    {
        return "--cross, --seed: expected a share below 1, and a seed from 1 on";
    }
    if (!TypeId::LookupByNameFailSafe("ns3::" + tcp, &type))
    {
        return "--tcp: found no ns3::" + tcp +
               ", expected a congestion control such as TcpCubic "
               "or TcpLinuxReno";
    }
    return "";
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    std::string file = SOFTROUTER_PROFILES "/published-contention.json";
    std::string csv = "softrouter-tcp-chain.csv";
    std::string tcp = "TcpCubic";
    double share = 0.6;
    TcpChain::Setup setup;
    CommandLine cmd(__FILE__);
    cmd.AddValue("profile", "Profile of the routers", file);
    cmd.AddValue("share", "Share of a link that one core can do", share);
    cmd.AddValue("flows", "TCP flows, with a sender and a receiver each", setup.flows);
    cmd.AddValue("shortest",
                 "Round-trip time of the first flow without queues, ms",
                 setup.shortestMs);
    cmd.AddValue("longest", "Round-trip time of the last flow without queues, ms", setup.longestMs);
    cmd.AddValue("seconds", "Simulated time", setup.seconds);
    cmd.AddValue("cross", "Share of a link for datagrams at random times", setup.cross);
    cmd.AddValue("seed", "Seed of these times", setup.seed);
    cmd.AddValue("tcp", "Congestion control", tcp);
    cmd.AddValue("ipv6", "IPv6 instead of IPv4", setup.ipv6);
    cmd.AddValue("csv", "File to write; none: none", csv);
    cmd.Parse(argc, argv);

    SoftRouterProfile profile;
    std::string error;
    if (!SoftRouterProfile::Read(file, profile, error) ||
        !(error = Check(setup, share, tcp)).empty())
    {
        std::cerr << error << std::endl;
        return 1;
    }
    const double factor = GetShare(profile) / share;
    SlowDown(profile, factor);
    SetDefaults(setup.ipv6, tcp);
    std::ofstream out;
    if (csv != "none")
    {
        out.open(csv);
        if (!out)
        {
            std::cerr << csv << ": cannot be written, expected a file that can, or none"
                      << std::endl;
            return 1;
        }
        out << "# plot: {\"title\": \"TCP through three routers\", \"x\": \"time_ms\", \"y\": "
               "[\"throughput_mbps\"], \"series\": \"variant\", \"x_label\": \"Time, ms\", "
               "\"y_label\": \"Throughput on the wire, Mbit/s\"}\n"
            << TcpChain::GetHeader() << '\n';
    }
    std::printf(
        "%u flows of %s over %s, without queues %.1f to %.1f ms round trip, %.0f Mbit/s "
        "between routers.\nThe routers: %s with links of %.1f Gbit/s, in slow motion: a core "
        "can do %.0f %% of a link.\n",
        setup.flows,
        tcp.c_str(),
        setup.ipv6 ? "IPv6" : "IPv4",
        setup.shortestMs,
        setup.longestMs,
        1e3 * TcpChain::LINK_GBPS,
        profile.name.c_str(),
        factor * TcpChain::LINK_GBPS,
        100 * share);
    PrintLimits(setup, profile);
    std::vector<TcpChain::Found> found;
    uint64_t events = 0;
    const auto start = std::chrono::steady_clock::now();
    for (const auto& variant : VARIANTS)
    {
        TcpChain chain(setup, variant, profile, out.is_open() ? &out : nullptr);
        found.push_back(chain.Run());
        events += found.back().events;
    }
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    PrintSummary(found);
    PrintRouters(found);
    PrintFlows(setup, found);
    std::printf("%llu events in %.1f s\n", static_cast<unsigned long long>(events), took);
    if (out.is_open())
    {
        std::printf("%s written; draw it: perigee predict plot %s\n", csv.c_str(), csv.c_str());
    }
    return 0;
}
