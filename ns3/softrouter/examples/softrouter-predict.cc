// SPDX-License-Identifier: GPL-2.0-only
// The simulator of `perigee predict`: takes a scenario in JSON, returns measurements in JSON.
#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/router-testbed.h"
#include "ns3/soft-router-profile.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#ifdef __linux__
#include <csignal>
#include <sys/prctl.h>
#endif

using namespace ns3;

namespace
{

using Json = nlohmann::json;

/**
 * \brief Reads a scenario, which `perigee predict run` has checked: only the profile is checked
 * again, as it may come from elsewhere.
 * \param in JSON
 * \return what to measure
 */
RouterTestbed::Setup
ReadScenario(std::istream& in)
{
    const Json scenario = Json::parse(in);
    RouterTestbed::Setup setup;
    std::string error;
    if (!SoftRouterProfile::Parse(scenario.at("profile").dump(), "profile", setup.profile, error))
    {
        throw std::runtime_error(error);
    }
    setup.profile.ports = scenario.at("ports").get<uint32_t>();
    setup.profile.linkGbps = scenario.at("link_gbps").get<double>();
    setup.cores = scenario.at("cores").get<uint32_t>();
    setup.directions = scenario.at("directions").get<uint32_t>();
    setup.flows = scenario.at("flows").get<uint32_t>();
    setup.seed = scenario.at("seed").get<uint32_t>();
    setup.rateGbps = scenario.at("rate_gbps").get<double>();
    setup.warmUp = scenario.at("warm_up_s").get<double>();
    setup.duration = scenario.at("duration_s").get<double>();
    setup.poisson = scenario.at("arrivals") == "poisson";
    setup.sizes.clear();
    for (const Json& size : scenario.at("sizes"))
    {
        setup.sizes.emplace_back(size.at("bytes").get<uint32_t>(), size.at("weight").get<double>());
    }
    return setup;
}

/**
 * \param result what was measured
 * \return the same as JSON
 */
Json
Answer(const RouterTestbed::Result& result)
{
    Json drops = Json::object();
    for (uint32_t cause = 0; cause < SoftRouter::DROP_CAUSES; cause++)
    {
        drops[SoftRouter::GetName(static_cast<SoftRouter::DropCause>(cause))] = result.drops[cause];
    }
    drops["end_device"] = result.refused;
    return {{"ns3", SOFTROUTER_NS3_VERSION},
            {"events", result.events},
            {"packets", result.packets},
            {"measured_s", result.seconds},
            {"offered_pps", result.offered / result.seconds},
            {"offered_gbps", result.offeredGbps},
            {"accepted_pps", result.acceptedPps},
            {"accepted_gbps", result.acceptedGbps},
            {"loss", result.GetLoss()},
            {"drops", drops},
            {"sojourn_ns",
             {{"mean", result.meanNs},
              {"p50", result.p50Ns},
              {"p90", result.p90Ns},
              {"p99", result.p99Ns},
              {"p99.9", result.p999Ns},
              {"max", result.maxNs}}},
            {"sojourn_little_ns", result.littleNs},
            {"batch_mean", result.batchMean},
            {"utilisation", result.utilisation},
            {"shares", result.shares}};
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    std::string file;
    CommandLine cmd(__FILE__);
    cmd.Usage("Simulates a software router between two end devices, for `perigee predict`.");
    cmd.AddValue("scenario", "JSON file that says what to simulate; -: standard input", file);
    cmd.Parse(argc, argv);
    if (file.empty())
    {
        std::cerr << "Found no scenario, expected --scenario=FILE" << std::endl;
        return 1;
    }
#ifdef __linux__
    if (file == "-")
    {
        // The process that writes the scenario into a pipe waits for the answer: when it is gone,
        // nobody does.
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
#endif
    try
    {
        std::ifstream opened(file);
        const auto setup = ReadScenario(file == "-" ? std::cin : opened);
        std::cout << Answer(RouterTestbed::Run(setup)).dump(2) << std::endl;
    }
    catch (const std::exception& mistake)
    {
        std::cerr << file << ": " << mistake.what() << std::endl;
        return 1;
    }
    return 0;
}
