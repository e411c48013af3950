// SPDX-License-Identifier: GPL-2.0-only
// A router that was not measured: up to 8 cores and two 50 Gbit/s links, as the published model and
// as linear contention predict it from measurements with 4 cores and 10 Gbit/s.
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/router-testbed.h"
#include "ns3/service-time-model.h"
#include "ns3/soft-router-profile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

constexpr double LINK_GBPS = 50;
constexpr uint32_t MAX_CORES = 8;

/**
 * \param profile of the router
 * \param cores of it
 * \param size of the frames
 * \return Gbit/s on the wire that the cores or the links allow
 */
double
ClosedForm(const SoftRouterProfile& profile, uint32_t cores, uint32_t size)
{
    const ServiceContext context{cores, cores >= 2, profile.workingSetBytes};
    const double ns = profile.CreateServiceTimeModel()->GetPacketNs(size, context);
    return std::min(cores * (size + 20) * 8 / ns, LINK_GBPS * (cores >= 2 ? 2 : 1));
}

/**
 * \param profile of the router
 * \param cores of it, a flow each, alternating the direction
 * \param size of the frames
 * \param seconds how long
 * \return what was measured
 */
RouterTestbed::Result
Simulate(SoftRouterProfile profile, uint32_t cores, uint32_t size, double seconds)
{
    profile.linkGbps = LINK_GBPS;
    RouterTestbed::Setup setup;
    setup.profile = profile;
    setup.cores = cores;
    setup.flows = cores;
    setup.pinned = true;
    setup.directions = cores == 1 ? 1 : 2;
    // A tenth more than what is expected: enough for overload, without simulating packets that are
    // only dropped.
    setup.rateGbps = std::min(LINK_GBPS * setup.directions, 1.1 * ClosedForm(profile, cores, size));
    setup.sizes = {{size, 1.0}};
    setup.warmUp = 0.0005;
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
    std::string csv = "softrouter-eight-cores.csv";
    double seconds = 0.004;
    CommandLine cmd(__FILE__);
    cmd.AddValue("eq7", "Profile with the published model", eq7File);
    cmd.AddValue("contention", "Profile with linear contention", contentionFile);
    cmd.AddValue("csv", "File to write; none: none", csv);
    cmd.AddValue("seconds", "Simulated time of each point", seconds);
    cmd.Parse(argc, argv);
    SoftRouterProfile eq7;
    SoftRouterProfile contention;
    std::ofstream out;
    if (!AreSeconds(seconds) || !ReadProfile(eq7File, eq7) ||
        !ReadProfile(contentionFile, contention) || !OpenCsv(csv, out))
    {
        return 1;
    }
    if (out.is_open())
    {
        out << "# plot: {\"title\": \"Predicted: 8 cores, two 50 Gbit/s links, linear "
               "contention\", \"x\": \"frame_size\", \"y\": [\"contention_gbps\"], \"series\": "
               "\"cores\", \"x_label\": \"Frame size, bytes\", \"y_label\": \"Throughput on the "
               "wire, Gbit/s\"}\n"
               "cores,frame_size,eq7_gbps,contention_gbps,eq7_mpps,contention_mpps\n";
    }
    std::printf("Throughput of a router with two 50 Gbit/s links, simulated; a flow per core\n"
                "              Eq. 7             linear contention\n"
                "cores  size   Gbit/s    Mpps     Gbit/s    Mpps\n");
    uint64_t packets = 0;
    const auto start = std::chrono::steady_clock::now();
    for (uint32_t cores = 1; cores <= MAX_CORES; cores++)
    {
        for (const uint32_t size : {64U, 128U, 256U, 512U, 1024U, 1518U})
        {
            const auto published = Simulate(eq7, cores, size, seconds);
            const auto linear = Simulate(contention, cores, size, seconds);
            packets += published.packets + linear.packets;
            std::printf("%5u %5u  %7.3f  %6.2f    %7.3f  %6.2f\n",
                        cores,
                        size,
                        published.acceptedGbps,
                        published.acceptedPps / 1e6,
                        linear.acceptedGbps,
                        linear.acceptedPps / 1e6);
            if (out.is_open())
            {
                out << cores << ',' << size << ',' << published.acceptedGbps << ','
                    << linear.acceptedGbps << ',' << published.acceptedPps / 1e6 << ','
                    << linear.acceptedPps / 1e6 << '\n';
            }
        }
    }
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("\n8 cores, 64 bytes: Eq. 7 gives %.2f Mpps, linear contention %.2f Mpps (closed "
                "forms).\n",
                ClosedForm(eq7, MAX_CORES, 64) * 1000 / (84 * 8),
                ClosedForm(contention, MAX_CORES, 64) * 1000 / (84 * 8));
    std::printf("%llu packets in %.1f s: %.2f million packets per second\n",
                static_cast<unsigned long long>(packets),
                took,
                static_cast<double>(packets) / took / 1e6);
    if (out.is_open())
    {
        std::printf("%s written; draw it: perigee predict plot %s\n", csv.c_str(), csv.c_str());
    }
    return 0;
}
