// SPDX-License-Identifier: GPL-2.0-only
// Three routers in a row and TCP through them: what a router with too few cores does to flows,
// compared with the same nodes with infinite capacity.
//
//   senders --- first --- middle --- last --- receivers
//
// The routers are the published one, slowed down so much that one core can forward 60 % of a link:
// full data frames, and an acknowledgment for every second of them. Prints what flows get, and what
// happens in the routers.
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/config.h"
#include "ns3/nstime.h"
#include "ns3/string.h"
#include "ns3/tcp-chain.h"
#include "ns3/type-id.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cstdio>

using namespace ns3;

namespace
{

const char* const ROUTER_NAMES[] = {"first", "middle", "last"};

const std::vector<TcpChain::Variant> VARIANTS = {
    {"infinite capacity", {0, 0, 0}},
    {"4 cores each", {4, 4, 4}},
    {"middle 1 core", {4, 1, 4}},
};

/**
 * \brief Print what theory allows.
 * \param setup what is simulated
 * \param profile of the routers
 */
void
PrintLimits(const TcpChain::Setup& setup, const SoftRouterProfile& profile)
{
    const auto needs = TcpChain::GetNeeds(profile);
    const double line = TcpChain::LINK_GBPS / TcpChain::FRAME_BITS; // frames per ns
    const double cross = setup.cross * line;
    const double core = (1 - cross * needs.frame) / (needs.frame + needs.ack / 2);
    const double mbps = 8e3 * TcpChain::GetSegment(setup.ipv6);
    std::printf(
        "Beside the datagrams, links allow a goodput of %.1f Mbit/s, one core %.1f Mbit/s if "
        "nothing is lost.\nWhat is lost and sent again counts from the start, all else from "
        "%.0f s on.\n\n",
        (line - cross) * mbps,
        std::max(0.0, std::min(core, line - cross)) * mbps,
        TcpChain::SETTLED);
}

/**
 * \param ipv6 whether headers are IPv6's
 * \param tcp congestion control, such as TcpCubic
 */
void
SetDefaults(bool ipv6, const std::string& tcp)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + tcp));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(TcpChain::GetSegment(ipv6)));
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
        std::printf("%-18s   %7.1f  %5.3f  %6.2f  %9llu  %7llu\n",
                    VARIANTS[i].name.c_str(),
                    one.GetGoodput(),
                    one.GetFairness(),
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

    auto profile = SoftRouterProfile::Load(file);
    const std::string wrong = TcpChain::Check(setup);
    Require(wrong.empty(), wrong);
    Require(share > 0 && share <= 100,
            "--share: expected a number above 0 and up to 100, of links that a core can do");
    TypeId type;
    Require(TypeId::LookupByNameFailSafe("ns3::" + tcp, &type),
            "--tcp: found no ns3::" + tcp +
                ", expected a congestion control such as TcpCubic or TcpLinuxReno");
    const double factor = TcpChain::SlowDown(profile, share);
    SetDefaults(setup.ipv6, tcp);
    CsvFile out(csv,
                "{\"title\": \"TCP through three routers\", \"x\": \"time_ms\", \"y\": "
                "[\"throughput_mbps\"], \"series\": \"variant\", \"x_label\": \"Time, ms\", "
                "\"y_label\": \"Throughput on the wire, Mbit/s\"}",
                TcpChain::GetHeader());
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
    const Stopwatch watch;
    for (const auto& variant : VARIANTS)
    {
        TcpChain chain(setup, variant, profile, out.GetStream());
        found.push_back(chain.Run());
        events += found.back().events;
    }
    PrintSummary(found);
    PrintRouters(found);
    PrintFlows(setup, found);
    std::printf("%llu events in %.1f s\n",
                static_cast<unsigned long long>(events),
                watch.GetSeconds());
    out.Close();
    return 0;
}
