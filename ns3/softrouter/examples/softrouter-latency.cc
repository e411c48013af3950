// SPDX-License-Identifier: GPL-2.0-only
// Latency against load: how long packets stay in a router with one core, when they come at random
// times (Poisson) and when they come like clockwork, compared with queueing theory. Twice: a
// core that takes packets in bursts, and one that takes them one by one as in the published model.
#include "example-files.h"

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/single-core-testbed.h"
#include "ns3/soft-router-profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

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
    std::string name;         //!< of its profile
    std::string how;          //!< it takes packets
    double share;             //!< of a point's packets that are enough for it
    SingleCoreTestbed router; //!< itself
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

    /**
     * \param result of a run
     * \param runs of which it is one
     */
    void Add(const RouterTestbed::Result& result, double runs)
    {
        meanNs += result.meanNs / runs;
        p50Ns += result.p50Ns / runs;
        p99Ns += result.p99Ns / runs;
        p999Ns += result.p999Ns / runs;
        loss += result.GetLoss() / runs;
        packets += result.packets;
    }
};

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
    const double rate = point.load * server.router.GetCapacity();
    Found found;
    double squares = 0;
    for (uint32_t run = 0; run < RUNS; run++)
    {
        const double packets = point.packets * server.share * scale / RUNS;
        const auto result = server.router.Run(rate, packets, point.warmUp, seed + run);
        // Beside theory for the rate that this run's random arrivals came to, which halves the
        // variance. Nearer to a load of 1, runs are too short for that.
        const double came = result.offered / (result.seconds * 1e9);
        const double theory = server.router.GetTheoryNs(point.load <= SETTLED ? came : rate);
        const double difference = 100 * (result.meanNs / theory - 1);
        found.Add(result, RUNS);
        found.difference += difference / RUNS;
        squares += difference * difference / RUNS;
    }
    const double variance = std::max(0.0, squares - found.difference * found.difference);
    found.halfWidth = STUDENT * std::sqrt(variance / (RUNS - 1));
    found.theoryNs = server.router.GetTheoryNs(rate);
    return found;
}

/**
 * \param out where to
 * \param server which router
 * \param arrivals what they are
 * \param load of it
 * \param found what was found there
 */
void
Write(CsvFile& out,
      const Server& server,
      const std::string& arrivals,
      double load,
      const Found& found)
{
    std::ostringstream theory;
    theory << found.theoryNs << ',' << found.difference << ',' << found.halfWidth;
    out.Row(server.name + ' ' + arrivals,
            server.name,
            arrivals,
            load,
            load * server.router.GetCapacity() * 1e3,
            found.meanNs,
            found.theoryNs > 0 ? theory.str() : ",,",
            found.p50Ns,
            found.p99Ns,
            found.p999Ns,
            found.loss);
}

/**
 * \param server which router
 * \param scale of the packets
 * \param seed of the first run
 * \param out where to, if it is open
 * \return packets simulated
 */
uint64_t
Measure(const Server& server, double scale, uint32_t seed, CsvFile& out)
{
    std::printf("%s: one core, %s; it can do %.3f Mpps\n"
                "                         Poisson arrivals                                       |"
                "      constant rate\n"
                " load   Mpps |  mean ns   theory     differs by     p50 ns   p99 ns p99.9 ns loss "
                "%% |  mean ns   p99 ns loss %%\n",
                server.name.c_str(),
                server.how.c_str(),
                server.router.GetCapacity() * 1e3);
    uint64_t packets = 0;
    Found poissonFull;  // at a load of 1
    Found constantFull; // likewise
    for (const Point& point : POINTS)
    {
        const Found poisson = SimulatePoisson(server, point, scale, seed);
        // At a constant rate nothing is random, and one run is enough.
        Found constant;
        const double rate = point.load * server.router.GetCapacity();
        constant.Add(server.router.Run(rate, 20000, 10000, 0), 1);
        packets += poisson.packets + constant.packets;
        std::printf("%5.2f %6.3f | %8.0f %8.0f %+6.2f +-%5.2f %% %8.0f %8.0f %8.0f %6.3f | %8.0f "
                    "%8.0f %6.3f\n",
                    point.load,
                    point.load * server.router.GetCapacity() * 1e3,
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
        Write(out, server, "Poisson", point.load, poisson);
        Write(out, server, "constant", point.load, constant);
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
 * \param burst of the router; 0: the profile's
 * \param share of a point's packets that are enough
 * \return the router
 */
Server
Load(const std::string& file, uint32_t burst, double share)
{
    auto profile = SoftRouterProfile::Load(file);
    Require(profile.receiveRing <= BatchServer::MAX_RING,
            file + ": router.receive_ring: found " + std::to_string(profile.receiveRing) +
                ", expected at most " + std::to_string(BatchServer::MAX_RING) +
                ", for which theory is calculated here");
    profile.burst = burst > 0 ? burst : profile.burst;
    const std::string how =
        burst == 1 ? "one packet at a time" : "bursts of up to " + std::to_string(profile.burst);
    return {profile.name, how, share, SingleCoreTestbed(profile)};
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

    Require(scale > 0 && scale <= 1000 && seed > 0,
            "--scale, --seed: expected a scale above 0 and up to 1000, and a seed from 1 on");
    const Server batch = Load(batchFile, 0, 0.5);
    const Server single = Load(singleFile, 1, 1);
    CsvFile out(csv,
                "{\"title\": \"Sojourn time in a router with one core\", \"x\": \"load\", "
                "\"y\": [\"mean_ns\", \"p99_ns\"], \"series\": \"series\", \"x_label\": \"Load\", "
                "\"y_label\": \"Sojourn time, ns\", \"log_y\": true}",
                "series,profile,arrivals,load,mpps,mean_ns,theory_ns,difference_percent,"
                "half_width_percent,p50_ns,p99_ns,p999_ns,loss");
    std::printf("Sojourn time of %u-byte frames. Theory: the embedded Markov chain of a batch "
                "server; one packet at a time,\nPollaczek and Khinchine up to a load of 1. Each "
                "difference with its 95 %% interval, from %u runs, seeds %u to %u.\n\n",
                SingleCoreTestbed::FRAME,
                RUNS,
                seed,
                seed + RUNS - 1);
    const Stopwatch watch;
    const uint64_t packets = Measure(batch, scale, seed, out);
    watch.Print(packets + Measure(single, scale, seed, out));
    out.Close();
    return 0;
}
