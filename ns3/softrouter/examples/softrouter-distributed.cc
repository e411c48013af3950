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
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/config.h"
#include "ns3/nstime.h"
#include "ns3/soft-router-profile.h"
#include "ns3/split-network.h"
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
#include <iostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace ns3;

namespace
{

/// What was counted in both halves; those of another rank are empty.
using Halves = std::array<SplitNetwork::Counts, 2>;

/**
 * \brief Write a table of what was counted.
 * \param csv file; none: none
 * \param ways to simulate: how many processes, and what they counted
 */
void
Write(const std::string& csv, const std::vector<std::pair<uint32_t, Halves>>& ways)
{
    CsvFile out(csv,
                "{\"title\": \"Two routers, simulated by one process or two\", \"x\": "
                "\"router\", "
                "\"y\": [\"received\", \"forwarded\"], \"series\": \"processes\", \"x_label\": "
                "\"Router\", \"y_label\": \"Packets\"}",
                "processes,router,received,forwarded,receive_ring,transmit_ring,bursts,sojourn_ps,"
                "frames_sent,frames_arrived,tcp_bytes");
    for (const auto& [processes, halves] : ways)
    {
        for (uint32_t half = 0; half < 2; half++)
        {
            std::apply([&, p = processes](auto... counts) { out.Row(p, half + 1, counts...); },
                       halves[half]);
        }
    }
    out.Close();
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
    // At once: another rank writes to the same terminal.
    std::cout << SplitNetwork::Describe(setup, mine) << std::flush;
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
        Write(csv, {{1, all}});
        return 0;
    }
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::DefaultSimulatorImpl"));
    const auto alone = RunAlone(setup);
    const bool equal = Compare(all, alone);
    Write(csv, {{2, all}, {1, alone}});
    return equal ? 0 : 1;
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

    setup.profile = SoftRouterProfile::Load(file);
    Require(setup.profile.transmitBuffer == 1,
            file +
                ": router.transmit_buffer: expected 1: this network's links have no flow control");
    Require(setup.seconds > 0 && setup.seconds <= 1000 && setup.seed > 0,
            "--seconds, --seed: expected a time above 0 and up to 1000 s, and a seed from 1 on");
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    if (sequential)
    {
        const auto alone = RunAlone(setup);
        std::cout << SplitNetwork::Describe(setup, alone) << std::flush;
        Write(csv, {{1, alone}});
        return 0;
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
