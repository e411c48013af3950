// SPDX-License-Identifier: GPL-2.0-only
// Routers with finite hardware in ns-3's distributed simulator: the network is cut between its two
// routers, and each half is simulated by a process of its own.
//
//              rank 0              |              rank 1
//   frames ---+                    |                    +--- frames
//   TCP ------+--- first router ---|--- second router --+--- TCP
//   TCP ------+                    |                    +--- TCP
//
// Prints what each rank's router did. Then rank 0 simulates the whole network alone, and compares.
//
//   mpiexec -n 2 softrouter-distributed          (ns-3 built with MPI)
//   softrouter-distributed --sequential          (any ns-3)
#include "split-network.h"

#include "ns3/command-line.h"
#include "ns3/config.h"
#include "ns3/nstime.h"
#include "ns3/soft-router-profile.h"
#include "ns3/uinteger.h"

#ifdef NS3_MPI
#include "ns3/global-value.h"
#include "ns3/mpi-interface.h"
#include "ns3/string.h"

#include <mpi.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace ns3;

namespace
{

/// What was counted in both halves; those of another rank are empty.
using Halves = std::array<SplitNetwork::Counts, 2>;

/**
 * \brief Print what one process has seen.
 * \param setup which
 * \param counts of both halves; those of other ranks are empty
 */
void
PrintHere(const SplitNetwork::Setup& setup, const Halves& counts)
{
    std::string text;
    for (uint32_t half = 0; half < 2; half++)
    {
        const SplitNetwork::Counts& mine = counts[half];
        if (half % setup.ranks != setup.rank)
        {
            continue;
        }
        char line[400];
        std::snprintf(
            line,
            sizeof(line),
            "rank %u of %u: the %s router received %llu packets, forwarded %llu, lost %llu "
            "in receive and %llu in transmit rings,\n  had %llu bursts and a mean sojourn time of "
            "%.3f us; end devices sent %llu frames, got %llu, and %llu bytes by TCP\n",
            setup.rank,
            setup.ranks,
            half == 0 ? "first" : "second",
            static_cast<unsigned long long>(mine[SplitNetwork::RECEIVED]),
            static_cast<unsigned long long>(mine[SplitNetwork::FORWARDED]),
            static_cast<unsigned long long>(mine[SplitNetwork::RECEIVE_RING]),
            static_cast<unsigned long long>(mine[SplitNetwork::TRANSMIT_RING]),
            static_cast<unsigned long long>(mine[SplitNetwork::BURSTS]),
            mine[SplitNetwork::SOJOURN] * 1e-6 /
                std::max<uint64_t>(mine[SplitNetwork::FORWARDED], 1),
            static_cast<unsigned long long>(mine[SplitNetwork::FRAMES_SENT]),
            static_cast<unsigned long long>(mine[SplitNetwork::FRAMES_ARRIVED]),
            static_cast<unsigned long long>(mine[SplitNetwork::TCP_BYTES]));
        text += line;
    }
    std::cout << text << std::flush; // at once: another rank writes to the same terminal
}

/**
 * \brief Write a table of what was counted.
 * \param csv file; none: none
 * \param ways to simulate: how many processes, and what they counted
 * \return whether it could be written; otherwise the reason was told
 */
bool
Write(const std::string& csv, const std::vector<std::pair<uint32_t, Halves>>& ways)
{
    if (csv == "none")
    {
        return true;
    }
    std::ofstream out(csv);
    out << "# plot: {\"title\": \"Two routers, simulated by one process or two\", \"x\": "
           "\"router\", "
           "\"y\": [\"received\", \"forwarded\"], \"series\": \"processes\", \"x_label\": "
           "\"Router\", \"y_label\": \"Packets\"}\n"
           "processes,router,received,forwarded,receive_ring,transmit_ring,bursts,sojourn_ps,"
           "frames_sent,frames_arrived,tcp_bytes\n";
    for (const auto& [processes, halves] : ways)
    {
        for (uint32_t half = 0; half < 2; half++)
        {
            out << processes << ',' << half + 1;
            for (const uint64_t count : halves[half])
            {
                out << ',' << count;
            }
            out << '\n';
        }
    }
    out.close();
    if (!out)
    {
        std::cerr << csv << ": cannot be written, expected a file that can, or none" << std::endl;
        return false;
    }
    std::printf("%s written; draw it: perigee predict plot %s\n", csv.c_str(), csv.c_str());
    return true;
}

/**
 * \brief Simulate in one process.
 * \param setup what
 * \return what was counted
 */
Halves
RunAlone(SplitNetwork::Setup setup)
{
    setup.ranks = 1;
    setup.rank = 0;
    return SplitNetwork(setup).Run();
}

#ifdef NS3_MPI
/**
 * \brief Print the counts of two ways to simulate the same, side by side.
 * \param apart by two processes
 * \param alone by one
 * \return whether they are equal
 */
bool
Compare(const Halves& apart, const Halves& alone)
{
    std::printf("\n%-38s | %15s %15s | %15s %15s\n"
                "%-38s | %15s %15s | %15s %15s\n",
                "",
                "two processes:",
                "",
                "one process:",
                "",
                "",
                "first half",
                "second half",
                "first half",
                "second half");
    bool equal = true;
    for (uint32_t counter = 0; counter < SplitNetwork::COUNTERS; counter++)
    {
        std::printf("%-38s | %15llu %15llu | %15llu %15llu\n",
                    SplitNetwork::GetName(counter),
                    static_cast<unsigned long long>(apart[0][counter]),
                    static_cast<unsigned long long>(apart[1][counter]),
                    static_cast<unsigned long long>(alone[0][counter]),
                    static_cast<unsigned long long>(alone[1][counter]));
        equal = equal && apart[0][counter] == alone[0][counter] &&
                apart[1][counter] == alone[1][counter];
    }
    std::printf("%s\n", equal ? "All are equal." : "They differ, and should not.");
    return equal;
}

/**
 * \brief Simulate in as many processes as mpiexec started, and compare with one.
 * \param setup what
 * \param implementation of the simulator
 * \param csv file to write
 * \param argc of the program
 * \param argv of the program
 * \return the program's status
 */
int
RunApart(SplitNetwork::Setup setup,
         const std::string& implementation,
         const std::string& csv,
         int argc,
         char** argv)
{
    GlobalValue::Bind("SimulatorImplementationType", StringValue(implementation));
    MpiInterface::Enable(&argc, &argv);
    setup.ranks = MpiInterface::GetSize();
    setup.rank = MpiInterface::GetSystemId();
    if (setup.ranks > 2)
    {
        if (setup.rank == 0)
        {
            std::cerr << "Found " << setup.ranks << " processes, expected 1 or 2: mpiexec -n 2"
                      << std::endl;
        }
        MpiInterface::Disable();
        return 1;
    }
    const auto mine = SplitNetwork(setup).Run();
    PrintHere(setup, mine);
    // Of each counter, all ranks but one have 0.
    Halves all{};
    MPI_Reduce(mine.data(),
               all.data(),
               2 * SplitNetwork::COUNTERS,
               MPI_UINT64_T,
               MPI_SUM,
               0,
               MpiInterface::GetCommunicator());
    const uint32_t rank = setup.rank;
    const uint32_t ranks = setup.ranks;
    MpiInterface::Disable();
    if (rank > 0)
    {
        return 0;
    }
    if (ranks == 1)
    {
        return Write(csv, {{1, all}}) ? 0 : 1;
    }
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
    const auto alone = RunAlone(setup);
    const bool equal = Compare(all, alone);
    return Write(csv, {{2, all}, {1, alone}}) && equal ? 0 : 1;
}
#endif

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    SplitNetwork::Setup setup;
    std::string file = SOFTROUTER_PROFILES "/published-contention.json";
    std::string csv = "softrouter-distributed.csv";
    bool sequential = false;
    bool nullMessages = false;
    CommandLine cmd(__FILE__);
    cmd.AddValue("profile", "Profile of both routers", file);
    cmd.AddValue("seconds", "Simulated time", setup.seconds);
    cmd.AddValue("seed", "Seed of the frames' times", setup.seed);
    cmd.AddValue("csv", "File to write; none: none", csv);
    cmd.AddValue("sequential", "All in one process, without MPI", sequential);
    cmd.AddValue("null-messages",
                 "Ranks keep in step by null messages, not by windows",
                 nullMessages);
    cmd.Parse(argc, argv);

    std::string error;
    if (!SoftRouterProfile::Read(file, setup.profile, error))
    {
        std::cerr << error << std::endl;
        return 1;
    }
    if (setup.profile.transmitBuffer > 1)
    {
        // SoftRouterHelper would end the program without naming the file.
        std::cerr << file << ": router.transmit_buffer: found " << setup.profile.transmitBuffer
                  << ", expected 1: this network's links have no flow control" << std::endl;
        return 1;
    }
    if (!(setup.seconds > 0 && setup.seconds <= 1000) || setup.seed == 0)
    {
        std::cerr
            << "--seconds, --seed: expected a time above 0 and up to 1000 s, and a seed from 1 on"
            << std::endl;
        return 1;
    }
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    if (sequential)
    {
        const auto alone = RunAlone(setup);
        PrintHere(setup, alone);
        return Write(csv, {{1, alone}}) ? 0 : 1;
    }
#ifdef NS3_MPI
    return RunApart(setup,
                    nullMessages ? "ns3::NullMessageSimulatorImpl"
                                 : "ns3::DistributedSimulatorImpl",
                    csv,
                    argc,
                    argv);
#else
    std::cout
        << "skipped: this ns-3 was built without MPI. With an MPI (apt install libopenmpi-dev), "
           "configure ns-3's sources by ./ns3 configure --enable-mpi --enable-examples, with "
           "softrouter in contrib/. In one process: --sequential"
        << std::endl;
    return 0;
#endif
}
