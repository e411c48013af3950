// SPDX-License-Identifier: GPL-2.0-only
// What `perigee predict` asks ns-3: a scenario in JSON in, what was measured in JSON out.
#include "../model/json-section.h" // not one of the module's headers: it needs nlohmann_json

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/router-testbed.h"
#include "ns3/soft-router-profile.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#ifdef __linux__
#include <csignal>
#include <sys/prctl.h>
#endif

using namespace ns3;

namespace
{

using Json = nlohmann::json;

constexpr std::size_t MAX_FILE_BYTES = 8 << 20;

/**
 * \param file to read; -: standard input
 * \return its text
 */
std::string
ReadFile(const std::string& file)
{
    std::ifstream opened;
    if (file != "-")
    {
        opened.open(file, std::ios::binary);
    }
    std::istream& in = file == "-" ? std::cin : opened;
    if (!in)
    {
        throw JsonMistake("cannot be read, expected a scenario as `perigee predict run` writes it");
    }
    std::string text;
    for (std::istreambuf_iterator<char> next(in), end; next != end; ++next)
    {
        text.push_back(*next);
        if (text.size() > MAX_FILE_BYTES)
        {
            throw JsonMistake("found more than 8 MiB, expected a scenario");
        }
    }
    return text;
}

/**
 * \param scenario whose frame sizes
 * \return bytes and weight of each
 */
std::vector<std::pair<uint32_t, double>>
ReadSizes(const Json& scenario)
{
    const Json* list = nullptr;
    if (const auto found = scenario.find("sizes"); found != scenario.end() && found->is_array())
    {
        list = &*found;
    }
    if (list == nullptr || list->empty() || list->size() > 64)
    {
        throw JsonMistake("sizes: expected a list of 1 to 64 objects with bytes and weight");
    }
    std::vector<std::pair<uint32_t, double>> sizes;
    for (std::size_t i = 0; i < list->size(); i++)
    {
        const JsonSection size((*list)[i], "sizes[" + std::to_string(i) + "]", {"bytes", "weight"});
        uint32_t bytes = 0;
        size.Whole("bytes", FrameSource::MIN_SIZE, FrameSource::MAX_SIZE, bytes);
        if (bytes == 0)
        {
            size.Refuse("bytes", "a frame size");
        }
        sizes.emplace_back(bytes, size.Number("weight", {0, 1e9, true}));
    }
    return sizes;
}

/**
 * \param file with the scenario
 * \return what to measure
 */
RouterTestbed::Setup
ReadScenario(const std::string& file)
{
    const Json scenario = ParseJson(ReadFile(file), "a scenario");
    const JsonSection section(scenario,
                              "",
                              {"profile",
                               "cores",
                               "ports",
                               "link_gbps",
                               "directions",
                               "rate_gbps",
                               "sizes",
                               "flows",
                               "arrivals",
                               "seed",
                               "warm_up_s",
                               "duration_s"});
    RouterTestbed::Setup setup;
    std::string error;
    if (!SoftRouterProfile::Parse(section.Object("profile").dump(),
                                  "profile",
                                  setup.profile,
                                  error))
    {
        throw JsonMistake(error);
    }
    section.Whole("ports", 2, 64, setup.profile.ports);
    section.Number("link_gbps", {1e-6, 1e6}, setup.profile.linkGbps);
    section.Whole("cores", 1, 1024, setup.cores);
    section.Whole("directions", 1, 2, setup.directions);
    section.Whole("flows", 1, FrameSource::MAX_FLOWS, setup.flows);
    section.Whole("seed", 1, 4000000000U, setup.seed);
    setup.rateGbps = section.Number("rate_gbps", {0, 1e6, true});
    setup.warmUp = section.Number("warm_up_s", {0, 1000});
    setup.duration = section.Number("duration_s", {0, 1000, true});
    setup.poisson = section.Word("arrivals", {"poisson", "constant"}) == "poisson";
    setup.sizes = ReadSizes(scenario);
    if (setup.profile.ports % 2 != 0)
    {
        section.Refuse("ports", "an even number: pairs of ports");
    }
    if (setup.flows < setup.directions)
    {
        section.Refuse("flows", "at least one per direction");
    }
    return setup;
}

/**
 * \param result what was measured
 * \return the same for whoever asked
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
        // Whoever writes the scenario into a pipe waits for the answer: without them, nobody does.
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
#endif
    try
    {
        std::cout << Answer(RouterTestbed::Run(ReadScenario(file))).dump(2) << std::endl;
    }
    catch (const JsonMistake& mistake)
    {
        std::cerr << file << ": " << mistake.what() << std::endl;
        return 1;
    }
    return 0;
}
