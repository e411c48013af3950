// SPDX-License-Identifier: GPL-2.0-only
// Latency against load: how long packets stay in a router with one core, when they come at random
// times (Poisson) and when they come like clockwork, beside what queueing theory says. Twice: a
// core that takes packets in bursts, and one that takes them one by one as in the published model.
#include "batch-server.h"
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/router-testbed.h"
#include "ns3/service-time-model.h"
#include "ns3/soft-router-profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t FRAME = 64; // bytes
constexpr double WIRE_BITS = 8 * (FRAME + 20);
constexpr double LINK_GBPS = 100; // so fast that the link does not space packets out
constexpr uint32_t RUNS = 5;      // of each point with random arrivals, seeds in a row
constexpr double STUDENT = 2.776; // 97.5 % quantile of Student's t with RUNS - 1 degrees

/// A load, and how much is simulated for it. Near 1, queues change slowly and need many packets.
struct Point
{
    double load;    //!< of what full bursts can do
    double packets; //!< measured, of all runs together
    double warmUp;  //!< packets before, of each run
};

const std::vector<Point> POINTS = {
    {0.05, 5e4, 5e3},
    {0.1, 5e4, 5e3},
    {0.2, 5e4, 5e3},
    {0.3, 5e4, 5e3},
    {0.5, 1e5, 5e3},
    {0.7, 1e5, 5e3},
    {0.8, 2e5, 5e3},
    {0.9, 4e5, 1e4},
    {0.95, 8e5, 2e4},
    {0.98, 4e6, 3e4},
    {0.99, 5e5, 5e4},
    {1.0, 2e5, 1e5},
    {1.1, 1e5, 2e4},
};

/// Up to this load, these runs are so long that the rate of their arrivals explains much of their
/// mean.
constexpr double SETTLED = 0.98;

/// A router with one core.
struct Server
{
    std::string name;          //!< for people
    SoftRouterProfile profile; //!< what it is
    double share;              //!< of a point's packets that are enough for it
};

/// What was found at a point.
struct Found
{
    double meanNs{0};     //!< sojourn time
    double p50Ns{0};      //!< sojourn time
    double p99Ns{0};      //!< sojourn time
    double p999Ns{0};     //!< sojourn time
    double loss{0};       //!< share of the packets
    double theoryNs{0};   //!< mean; 0: unknown
    double difference{0}; //!< of the mean from theory, %
    double halfWidth{0};  //!< of that difference's 95 % interval, %
    uint64_t packets{0};  //!< simulated
};

/**
 * \param server of which
 * \return the same in theory
 */
BatchServer
MakeTheory(const Server& server)
{
    const auto model = server.profile.CreateServiceTimeModel();
    const ServiceContext context{1, false, server.profile.workingSetBytes};
    return {model->GetBurstNs(context),
            model->GetPacketNs(FRAME, context),
            server.profile.burst,
            server.profile.receiveRing};
}

/**
 * \param server of which
 * \param rate packets per ns
 * \return its mean sojourn time in theory, with Poisson arrivals
 */
double
GetTheoryNs(const Server& server, double rate)
{
    const BatchServer theory = MakeTheory(server);
    if (server.profile.burst == 1 && rate < theory.GetCapacity())
    {
        return theory.GetMd1Ns(rate);
    }
    return theory.Solve(rate).sojournNs;
}

/**
 * \param server which router
 * \param rate packets per ns
 * \param packets that are measured
 * \param warmUp packets before
 * \param seed of random arrivals; 0: constant rate
 * \return what was measured
 */
RouterTestbed::Result
Simulate(const Server& server, double rate, double packets, double warmUp, uint32_t seed)
{
    RouterTestbed::Setup setup;
    setup.profile = server.profile;
    setup.directions = 1;
    setup.rateGbps = rate * WIRE_BITS;
    setup.sizes = {{FRAME, 1.0}};
    setup.poisson = seed != 0;
    setup.seed = std::max(seed, 1U);
    setup.warmUp = warmUp / rate / 1e9;
    setup.duration = packets / rate / 1e9;
    return RouterTestbed::Run(setup);
}

/**
 * \brief Random arrivals: several runs. Percentiles are the means of theirs.
 * \param server which router
 * \param point which load
 * \param scale of the packets
 * \param seed of the first run
 * \return what was found
 */
Found
SimulatePoisson(const Server& server, const Point& point, double scale, uint32_t seed)
{
    const double rate = point.load * MakeTheory(server).GetCapacity();
    Found found;
    double squares = 0;
    for (uint32_t run = 0; run < RUNS; run++)
    {
        const double packets = point.packets * server.share * scale / RUNS;
        const auto result = Simulate(server, rate, packets, point.warmUp, seed + run);
        // Beside theory for the rate that this run's random arrivals came to, which halves the
        // variance. Nearer to a load of 1, runs are too short for that.
        const double came = result.offered / (result.seconds * 1e9);
        const double theory = GetTheoryNs(server, point.load <= SETTLED ? came : rate);
        const double difference = 100 * (result.meanNs / theory - 1);
        found.meanNs += result.meanNs / RUNS;
        found.p50Ns += result.p50Ns / RUNS;
        found.p99Ns += result.p99Ns / RUNS;
        found.p999Ns += result.p999Ns / RUNS;
        found.loss += result.GetLoss() / RUNS;
        found.difference += difference / RUNS;
        squares += difference * difference / RUNS;
        found.packets += result.packets;
    }
    const double variance = std::max(0.0, squares - found.difference * found.difference);
    found.halfWidth = STUDENT * std::sqrt(variance / (RUNS - 1));
    found.theoryNs = GetTheoryNs(server, rate);
    return found;
}

/**
 * \brief Arrivals at a constant rate: nothing is random.
 * \param server which router
 * \param point which load
 * \return what was found
 */
Found
SimulateConstant(const Server& server, const Point& point)
{
    const double rate = point.load * MakeTheory(server).GetCapacity();
    const auto result = Simulate(server, rate, 20000, 10000, 0);
    Found found;
    found.meanNs = result.meanNs;
    found.p50Ns = result.p50Ns;
    found.p99Ns = result.p99Ns;
    found.p999Ns = result.p999Ns;
    found.loss = result.GetLoss();
    found.packets = result.packets;
    return found;
}

/**
 * \param out where to
 * \param server which router
 * \param arrivals what they are
 * \param point which load
 * \param found what was found there
 */
void
Write(std::ofstream& out,
      const Server& server,
      const std::string& arrivals,
      const Point& point,
      const Found& found)
{
    const double mpps = point.load * MakeTheory(server).GetCapacity() * 1e3;
    out << server.profile.name << ' ' << arrivals << ',' << server.profile.name << ',' << arrivals
        << ',' << point.load << ',' << mpps << ',' << found.meanNs << ',';
    if (found.theoryNs > 0)
    {
        out << found.theoryNs << ',' << found.difference << ',' << found.halfWidth;
    }
    else
    {
        out << ",,";
    }
    out << ',' << found.p50Ns << ',' << found.p99Ns << ',' << found.p999Ns << ',' << found.loss
        << '\n';
}

/**
 * \param server which router
 * \param scale of the packets
 * \param seed of the first run
 * \param out where to, if it is open
 * \return packets simulated
 */
uint64_t
Measure(const Server& server, double scale, uint32_t seed, std::ofstream& out)
{
    std::printf("%s: one core, %s; it can do %.3f Mpps\n"
                "                         Poisson arrivals                                       |"
                "      constant rate\n"
                " load   Mpps |  mean ns   theory     differs by     p50 ns   p99 ns p99.9 ns loss "
                "%% |  mean ns   p99 ns loss %%\n",
                server.profile.name.c_str(),
                server.name.c_str(),
                MakeTheory(server).GetCapacity() * 1e3);
    uint64_t packets = 0;
    Found poissonFull;  // at a load of 1
    Found constantFull; // likewise
    for (const Point& point : POINTS)
    {
        const Found poisson = SimulatePoisson(server, point, scale, seed);
        const Found constant = SimulateConstant(server, point);
        packets += poisson.packets + constant.packets;
        std::printf("%5.2f %6.3f | %8.0f %8.0f %+6.2f +-%5.2f %% %8.0f %8.0f %8.0f %6.3f | %8.0f "
                    "%8.0f %6.3f\n",
                    point.load,
                    point.load * MakeTheory(server).GetCapacity() * 1e3,
                    poisson.meanNs,
                    poisson.theoryNs,
                    poisson.difference,
                    poisson.halfWidth,
                    poisson.p50Ns,
                    poisson.p99Ns,
                    poisson.p999Ns,
                    100 * poisson.loss,
                    constant.meanNs,
                    constant.p99Ns,
                    100 * constant.loss);
        std::fflush(stdout);
        if (point.load == 1)
        {
            poissonFull = poisson;
            constantFull = constant;
        }
        if (out.is_open())
        {
            Write(out, server, "Poisson", point, poisson);
            Write(out, server, "constant", point, constant);
        }
    }
    std::printf(
        "At exactly its capacity, one packet in 100 stayed longer than %.1f us with Poisson "
        "arrivals, and than %.2f us at a\nconstant rate, which hides what queues do. (So "
        "near a load of 1 they change slowly: these runs say little of the\nmean; --scale "
        "makes them longer.)\n\n",
        poissonFull.p99Ns / 1e3,
        constantFull.p99Ns / 1e3);
    return packets;
}

/**
 * \param file of a profile
 * \param server whose it is; left alone if there is a mistake
 * \return whether it is good; otherwise the reason was told
 */
bool
Read(const std::string& file, Server& server)
{
    if (!ReadProfile(file, server.profile))
    {
        return false;
    }
    if (server.profile.receiveRing > BatchServer::MAX_RING)
    {
        std::cerr << file << ": router.receive_ring: found " << server.profile.receiveRing
                  << ", expected at most " << BatchServer::MAX_RING
                  << ", for which theory is calculated here" << std::endl;
        return false;
    }
    server.profile.linkGbps = LINK_GBPS;
    server.profile.ports = 2;
    return true;
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    std::string batchFile = SOFTROUTER_PROFILES "/batch-example.json";
    std::string singleFile = SOFTROUTER_PROFILES "/published-eq7.json";
    std::string csv = "softrouter-latency.csv";
    double scale = 1;
    uint32_t seed = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("batch", "Profile whose bursts are simulated as it says", batchFile);
    cmd.AddValue("single", "Profile that is simulated with one packet at a time", singleFile);
    cmd.AddValue("csv", "File to write; none: none", csv);
    cmd.AddValue("scale", "How many times as many packets with random arrivals", scale);
    cmd.AddValue("seed", "Seed of the first run; each point has five", seed);
    cmd.Parse(argc, argv);

    Server batch{"", {}, 0.5};
    Server single{"one packet at a time", {}, 1};
    if (!Read(batchFile, batch) || !Read(singleFile, single))
    {
        return 1;
    }
    if (!(scale > 0 && scale <= 1000) || seed == 0)
    {
        std::cerr << "Found --scale=" << scale << " --seed=" << seed
                  << ", expected a scale above 0 and up to 1000, and a seed from 1 on" << std::endl;
        return 1;
    }
    batch.name = "bursts of up to " + std::to_string(batch.profile.burst);
    single.profile.burst = 1;
    std::ofstream out;
    if (!OpenCsv(csv, out))
    {
        return 1;
    }
    if (out.is_open())
    {
        out << "# plot: {\"title\": \"Sojourn time in a router with one core\", \"x\": \"load\", "
               "\"y\": [\"mean_ns\", \"p99_ns\"], \"series\": \"series\", \"x_label\": \"Load\", "
               "\"y_label\": \"Sojourn time, ns\", \"log_y\": true}\n"
               "series,profile,arrivals,load,mpps,mean_ns,theory_ns,difference_percent,"
               "half_width_percent,p50_ns,p99_ns,p999_ns,loss\n";
    }
    std::printf("Sojourn time of %u-byte frames. Theory: the embedded Markov chain of a batch "
                "server; one packet at a time,\nPollaczek and Khinchine up to a load of 1. Each "
                "difference with its 95 %% interval, from %u runs, seeds %u to %u.\n\n",
                FRAME,
                RUNS,
                seed,
                seed + RUNS - 1);
    const auto start = std::chrono::steady_clock::now();
    uint64_t packets = Measure(batch, scale, seed, out);
    packets += Measure(single, scale, seed, out);
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
