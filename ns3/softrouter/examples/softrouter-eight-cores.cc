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
#include <cstdio>
#include <string>

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
    auto setup = RouterTestbed::Setup::Saturated(profile, cores, MAX_CORES, size);
    // A tenth more than what is expected: enough for overload, without simulating packets that are
    // only dropped.
    setup.rateGbps = std::min(setup.rateGbps, 1.1 * ClosedForm(profile, cores, size));
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
    CheckSeconds(seconds);
    const auto eq7 = SoftRouterProfile::Load(eq7File);
    const auto contention = SoftRouterProfile::Load(contentionFile);
    CsvFile out(csv,
                "{\"title\": \"Predicted: 8 cores, two 50 Gbit/s links, linear "
                "contention\", \"x\": \"frame_size\", \"y\": [\"contention_gbps\"], \"series\": "
                "\"cores\", \"x_label\": \"Frame size, bytes\", \"y_label\": \"Throughput on the "
                "wire, Gbit/s\"}",
                "cores,frame_size,eq7_gbps,contention_gbps,eq7_mpps,contention_mpps");
    std::printf("Throughput of a router with two 50 Gbit/s links, simulated; a flow per core\n"
                "              Eq. 7             linear contention\n"
                "cores  size   Gbit/s    Mpps     Gbit/s    Mpps\n");
    uint64_t packets = 0;
    const Stopwatch watch;
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
            out.Row(cores,
                    size,
                    published.acceptedGbps,
                    linear.acceptedGbps,
                    published.acceptedPps / 1e6,
                    linear.acceptedPps / 1e6);
        }
    }
    std::printf("\n8 cores, 64 bytes: Eq. 7 gives %.2f Mpps, linear contention %.2f Mpps (closed "
                "forms).\n",
                ClosedForm(eq7, MAX_CORES, 64) * 1000 / (84 * 8),
                ClosedForm(contention, MAX_CORES, 64) * 1000 / (84 * 8));
    watch.Print(packets);
    out.Close();
    return 0;
}
