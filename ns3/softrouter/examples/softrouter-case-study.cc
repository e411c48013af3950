// SPDX-License-Identifier: GPL-2.0-only
// The published case study: two end devices, a router between them, constant-rate traffic of 1 to 4
// and of 100 flows with six frame sizes. Prints the published table and the simulated one.
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/router-testbed.h"
#include "ns3/soft-router-profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// A row of the published table; rates on the wire in Gbit/s.
struct Row
{
    uint32_t flows;   //!< constant-rate, 1 to 4 with a core each, or 100 over four cores
    uint32_t size;    //!< frame, bytes
    double measured;  //!< on the real router
    double simulated; //!< as published
    double eq5;       //!< Eq. 5, as published
};

/// The published table.
const std::vector<Row> TABLE = {
    {1, 64, 1.1928, 1.1943, 1.1928},     {1, 128, 2.0936, 2.0968, 2.0952},
    {1, 256, 3.9097, 3.9033, 3.9000},    {1, 512, 7.5099, 7.5237, 7.5096},
    {1, 1024, 9.9379, 9.9276, 10},       {1, 1518, 9.9682, 9.8951, 10},
    {2, 64, 2.2265, 2.1516, 2.1489},     {2, 128, 3.9251, 3.7849, 3.7804},
    {2, 256, 7.3182, 7.0583, 7.0433},    {2, 512, 14.0514, 13.5834, 13.5693},
    {3, 64, 3.1858, 3.1073, 3.1050},     {3, 128, 5.6076, 5.4744, 5.4656},
    {3, 256, 10.4578, 10.1926, 10.1867}, {3, 512, 16.7076, 16.4304, 16.5430},
    {4, 64, 4.0612, 4.0686, 4.0611},     {4, 128, 7.1429, 7.1573, 7.1508},
    {4, 256, 13.3304, 13.3450, 13.3301}, {100, 64, 4.0191, 4.0686, 4.0611},
    {100, 128, 7.0684, 7.1574, 7.1508},  {100, 256, 13.1533, 13.3461, 13.3301},
};

/// Mean of errors in per cent, as they are and without their signs.
struct Errors
{
    double sum{0};      //!< of the errors
    double absolute{0}; //!< of their sizes
    uint32_t rows{0};   //!< how many

    /**
     * \param value that was found
     * \param reference that it should be
     */
    void Add(double value, double reference)
    {
        const double error = 100 * (value / reference - 1);
        sum += error;
        absolute += std::abs(error);
        rows++;
    }

    /**
     * \param what these errors are of
     */
    void Print(const char* what) const
    {
        std::printf("%-52s signed mean %+7.3f %%, mean absolute %6.3f %%  (%u rows)\n",
                    what,
                    sum / rows,
                    absolute / rows,
                    rows);
    }
};

/**
 * \param profile of the router
 * \param row which measurement
 * \param seconds how long
 * \param truncate service times to whole ns
 * \return what was measured
 */
RouterTestbed::Result
Simulate(const SoftRouterProfile& profile, const Row& row, double seconds, bool truncate)
{
    auto setup = RouterTestbed::Setup::Saturated(profile, row.flows, 4, row.size);
    setup.truncate = truncate;
    setup.duration = seconds;
    return RouterTestbed::Run(setup);
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    std::string eq7File = SOFTROUTER_PROFILES "/published-eq7.json";
    std::string contentionFile = SOFTROUTER_PROFILES "/published-contention.json";
    std::string csv = "softrouter-case-study.csv";
    double seconds = 0.02;
    CommandLine cmd(__FILE__);
    cmd.AddValue("eq7", "Profile with the published model", eq7File);
    cmd.AddValue("contention", "Profile with linear contention", contentionFile);
    cmd.AddValue("csv", "File to write; none: none", csv);
    cmd.AddValue("seconds", "Simulated time of each measurement", seconds);
    cmd.Parse(argc, argv);
    CheckSeconds(seconds);
    const auto eq7 = SoftRouterProfile::Load(eq7File);
    const auto contention = SoftRouterProfile::Load(contentionFile);
    CsvFile out(csv,
                "{\"title\": \"Published case study: throughput of a software router\", "
                "\"x\": \"frame_size\", \"y\": [\"measured_gbps\", \"eq7_gbps\", "
                "\"contention_gbps\"], \"series\": \"flows\", \"x_label\": \"Frame size, bytes\", "
                "\"y_label\": \"Throughput on the wire, Gbit/s\", \"log_x\": true}",
                "flows,frame_size,measured_gbps,published_simulation_gbps,published_eq5_gbps,"
                "eq7_gbps,eq7_truncated_gbps,contention_gbps");
    std::printf("Throughput on the wire, Gbit/s.      published             simulated here\n"
                "flows  size  measured | simulated    Eq. 5 |    Eq. 7  in whole ns  contention\n");
    Errors publishedSimulation;
    Errors publishedSmall;
    Errors againstEq5;
    Errors eq7Measured;
    Errors eq7Cpu;
    Errors contentionCpu;
    Errors truncatedPublished;
    double worst = 0;
    uint64_t packets = 0;
    const Stopwatch watch;
    for (const Row& row : TABLE)
    {
        const auto plain = Simulate(eq7, row, seconds, false);
        const auto whole = Simulate(eq7, row, seconds, true);
        const auto linear = Simulate(contention, row, seconds, false);
        packets += plain.packets + whole.packets + linear.packets;
        std::printf("%5u %5u   %7.4f |   %7.4f  %7.4f |  %7.4f      %7.4f     %7.4f\n",
                    row.flows,
                    row.size,
                    row.measured,
                    row.simulated,
                    row.eq5,
                    plain.acceptedGbps,
                    whole.acceptedGbps,
                    linear.acceptedGbps);
        out.Row(row.flows,
                row.size,
                row.measured,
                row.simulated,
                row.eq5,
                plain.acceptedGbps,
                whole.acceptedGbps,
                linear.acceptedGbps);
        publishedSimulation.Add(row.simulated, row.measured);
        againstEq5.Add(plain.acceptedGbps, row.eq5);
        worst = std::max(worst, std::abs(plain.acceptedGbps / row.eq5 - 1));
        eq7Measured.Add(plain.acceptedGbps, row.measured);
        truncatedPublished.Add(whole.acceptedGbps, row.simulated);
        const bool line = row.size > 512 || (row.flows == 3 && row.size == 512);
        if (row.flows <= 4 && !line)
        {
            publishedSmall.Add(row.simulated, row.measured);
            eq7Cpu.Add(plain.acceptedGbps, row.measured);
            contentionCpu.Add(linear.acceptedGbps, row.measured);
        }
    }
    std::printf("\nErrors\n");
    publishedSimulation.Print("published simulation - measured, all rows");
    publishedSmall.Print("published simulation - measured, CPU-bound, 1..4");
    eq7Measured.Print("Eq. 7 - measured, all rows");
    eq7Cpu.Print("Eq. 7 - measured, CPU-bound, 1..4");
    contentionCpu.Print("linear contention - measured, CPU-bound, 1..4");
    truncatedPublished.Print("Eq. 7 in whole ns - published simulation");
    againstEq5.Print("Eq. 7 - published Eq. 5");
    std::printf("Largest difference of Eq. 7 from the published Eq. 5: %.4f %%\n", 100 * worst);
    std::printf("\n");
    watch.Print(packets);
    out.Close();
    return 0;
}
