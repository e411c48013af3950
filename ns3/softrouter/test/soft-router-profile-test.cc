// SPDX-License-Identifier: GPL-2.0-only
// Profiles: what comes out of good ones, and that wrong ones end in a message, not in a crash. What
// is a profile in all detail is checked, and tested, where profiles are written: in
// lib/predict/src/profile.
#include "ns3/eq7-service-time-model.h"
#include "ns3/linear-contention-service-time-model.h"
#include "ns3/service-time-model.h"
#include "ns3/soft-router-profile.h"
#include "ns3/test.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace ns3;

namespace
{

/// A profile with every key.
const std::string BATCH = R"({
  "format": "perigee-profile/1",
  "name": "lab router",
  "description": "for tests",
  "model": "batch",
  "parameters": {"c_batch_ns": 400, "c_packet_ns": 300.5, "c_byte_ns": 0.25, "miss_ns": 80,
                 "cache_bytes": 1000000, "d_ns": 7, "u_ns": 5, "punt_ns": 18, "punt_burst_ns": 292.5,
                 "contention_per": "packet"},
  "router": {"burst": 64, "receive_ring": 1024, "transmit_ring": 256, "transmit_buffer": 16,
             "transmit_timeout_us": 100, "transmit_when_idle": true, "poll_ns": 75.5,
             "pauses": {"per_second": 1300, "lengths_ns": [9000, 16000.5]}, "ports": 4, "link_gbps": 25, "sleep_after_us": 50,
             "wake_up_us": 12.5, "punt_share": 0.01, "slow_path_ns": 20000, "punt_ring": 128,
             "working_set_bytes": 4000000},
  "fit": {"residuals": [0.1, -0.1, null], "a": {"a": 1, "a": 2}}
})";

/// The published profiles, as short as they can be.
const std::string EQ7 =
    R"({"format": "perigee-profile/1", "name": "published", "model": "eq7",
        "parameters": {"a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321}})";
const std::string CONTENTION =
    R"({"format": "perigee-profile/1", "name": "published", "model": "contention",
        "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1},
        "router": {"sleep_after_us": null}})";

/// A text with a part of it replaced.
std::string
With(std::string text, const std::string& old, const std::string& now)
{
    const std::size_t at = text.find(old);
    return at == std::string::npos ? "test is wrong: no " + old : text.replace(at, old.size(), now);
}

/**
 * \brief Profiles that are good, and what comes out.
 */
class GoodProfileTest : public TestCase
{
  public:
    GoodProfileTest()
        : TestCase("good profiles: every key, defaults, and the models they make")
    {
    }

  private:
    void DoRun() override
    {
        SoftRouterProfile profile;
        std::string error;
        NS_TEST_ASSERT_MSG_EQ(SoftRouterProfile::Parse(BATCH, "batch", profile, error),
                              true,
                              error);
        if (IsStatusFailure())
        {
            return; // an ASSERT alone goes on
        }
        NS_TEST_EXPECT_MSG_EQ(profile.name, "lab router", "name");
        NS_TEST_EXPECT_MSG_EQ(profile.description, "for tests", "description");
        NS_TEST_EXPECT_MSG_EQ(profile.burst, 64, "burst");
        NS_TEST_EXPECT_MSG_EQ(profile.receiveRing, 1024, "receive_ring");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitRing, 256, "transmit_ring");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitBuffer, 16, "transmit_buffer");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitTimeoutUs, 100, "transmit_timeout_us");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitWhenIdle, true, "transmit_when_idle");
        NS_TEST_EXPECT_MSG_EQ(profile.pollNs, 75.5, "poll_ns");
        NS_TEST_EXPECT_MSG_EQ(profile.pausesPerSecond, 1300, "pauses.per_second");
        NS_TEST_EXPECT_MSG_EQ((profile.pausesNs == std::vector<double>{9000, 16000.5}),
                              true,
                              "pauses.lengths_ns");
        NS_TEST_EXPECT_MSG_EQ(profile.ports, 4, "ports");
        NS_TEST_EXPECT_MSG_EQ(profile.linkGbps, 25, "link_gbps");
        NS_TEST_EXPECT_MSG_EQ(profile.sleeps, true, "sleep_after_us");
        NS_TEST_EXPECT_MSG_EQ(profile.sleepAfterUs, 50, "sleep_after_us");
        NS_TEST_EXPECT_MSG_EQ(profile.wakeUpUs, 12.5, "wake_up_us");
        NS_TEST_EXPECT_MSG_EQ(profile.puntShare, 0.01, "punt_share");
        NS_TEST_EXPECT_MSG_EQ(profile.slowPathNs, 20000, "slow_path_ns");
        NS_TEST_EXPECT_MSG_EQ(profile.puntRing, 128, "punt_ring");
        NS_TEST_EXPECT_MSG_EQ(profile.workingSetBytes, 4e6, "working_set_bytes");
        ServiceContext context;
        context.cores = 3;
        context.twoWay = true;
        context.workingSet = 4e6;
        auto batch = profile.CreateServiceTimeModel();
        NS_TEST_EXPECT_MSG_EQ(batch->GetInstanceTypeId().GetName(),
                              "ns3::BatchServiceTimeModel",
                              "model");
        NS_TEST_EXPECT_MSG_EQ_TOL(batch->GetBurstNs(context), 400, 1e-9, "per burst");
        NS_TEST_EXPECT_MSG_EQ_TOL(batch->GetPacketNs(100, context),
                                  300.5 + 25 + 60 + 14 + 5,
                                  1e-9,
                                  "per packet");
        NS_TEST_EXPECT_MSG_EQ(batch->GetPuntNs(), 18, "punt_ns");
        NS_TEST_EXPECT_MSG_EQ(batch->GetPuntBurstNs(), 292.5, "punt_burst_ns");
        ReadBounds(profile);

        NS_TEST_ASSERT_MSG_EQ(SoftRouterProfile::Parse(EQ7, "eq7", profile, error), true, error);
        NS_TEST_EXPECT_MSG_EQ(profile.burst, 32, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.receiveRing, 512, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitBuffer, 1, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.sleeps, false, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitWhenIdle, false, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.pollNs, 0, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.pausesPerSecond, 0, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.CreateServiceTimeModel()->GetPacketNs(64, context),
                              CreateObject<Eq7ServiceTimeModel>()->GetPacketNs(64, context),
                              "the model's defaults are the published parameters");

        NS_TEST_ASSERT_MSG_EQ(SoftRouterProfile::Parse(CONTENTION, "c", profile, error),
                              true,
                              error);
        NS_TEST_EXPECT_MSG_EQ(profile.sleeps, false, "null");
        NS_TEST_EXPECT_MSG_EQ(
            profile.CreateServiceTimeModel()->GetPacketNs(64, context),
            CreateObject<LinearContentionServiceTimeModel>()->GetPacketNs(64, context),
            "the model's defaults are the published parameters");
    }

    /**
     * \brief The largest values that perigee takes are taken here as well.
     * \param profile to read into
     */
    void ReadBounds(SoftRouterProfile& profile)
    {
        const std::string list = "[9000, 16000.5]";
        const std::string pauses = "{\"per_second\": 1300, \"lengths_ns\": " + list + "}";
        std::string thousand = "[0";
        for (uint32_t i = 1; i < 1000; i++)
        {
            thousand += ", 0";
        }
        for (const std::string& text :
             {With(BATCH, "18", "1e9"),
              With(BATCH, "292.5", "1e9"),
              With(With(BATCH, "\"punt_ns\": 18, ", ""), "\"punt_burst_ns\": 292.5,", ""),
              With(BATCH, "75.5", "1e9"),
              With(BATCH, "75.5", "0"),
              With(BATCH, "\"transmit_when_idle\": true", "\"transmit_when_idle\": false"),
              With(BATCH, pauses, "null"),
              With(BATCH, "1300", "0"),
              With(With(BATCH, "1300", "1e6"), list, "[500]"),
              With(With(BATCH, "1300", "0.5"), list, "[1e9]"),
              With(BATCH, list, thousand + "]")})
        {
            std::string error;
            NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Parse(text, "bounds", profile, error),
                                  true,
                                  error);
        }
        NS_TEST_EXPECT_MSG_EQ(profile.pausesNs.size(), 1000, "lengths");
    }
};

/**
 * \brief Profiles that are not good, and what is said about them.
 */
class BadProfileTest : public TestCase
{
  public:
    BadProfileTest()
        : TestCase("bad profiles are refused: file, key, what was found and what was expected")
    {
    }

  private:
    void DoRun() override
    {
        const std::pair<std::string, std::string> bad[] = {
            {"", "p.json: [json.exception.parse_error.101] parse error at line 1, column 1"},
            {"[1, 2]", "p.json: profile: found an array, expected an object"},
            {std::string(1000000, '['), "p.json: [json.exception.parse_error.101]"},
            {With(EQ7, "0.011392", "1e999"), "p.json: [json.exception.out_of_range.406]"},
            {With(EQ7, "\"eq7\"", std::string("\"\xff\"")), "p.json: [json.exception.parse_error"},
            {"{}", "p.json: format: found nothing, expected this key"},
            {With(EQ7, "profile/1", "profile/2"),
             "p.json: format: found perigee-profile/2, expect"},
            {With(EQ7, "\"name\"", "\"nom\""), "p.json: name: found nothing, expected this key"},
            {With(EQ7, "\"published\"", "7"), "p.json: name: found 7, expected text"},
            {With(EQ7, "{", "{\"nom\": 1, "), "p.json: nom: found an unknown key"},
            {With(EQ7, "\"eq7\"", "\"eq8\""), "p.json: model: found \"eq8\", expected eq7, conten"},
            {With(EQ7, "\"eq7\"", "\"batch\""), "p.json: parameters.c_batch_ns: found nothing"},
            {With(EQ7, "\"parameters\"", "\"fit\""), "p.json: parameters: found nothing"},
            {With(EQ7, "0.002709", "1e7"),
             "p.json: parameters.a0: found 10000000.0, expected what the attribute "
             "ns3::Eq7ServiceTimeModel::A0 takes: double -"},
            {With(CONTENTION, "563.4", "-3"), "p.json: parameters.c0_ns: found -3, expected what"},
            {With(CONTENTION, "563.4", "\"563\""), "p.json: parameters.c0_ns: found \"563\""},
            {With(CONTENTION, "563.4", "[[563]]"), "p.json: parameters.c0_ns: found an array"},
            {With(CONTENTION, "{\"sleep_after_us\": null}", "[]"),
             "p.json: router: found an array, expected an object"},
            {With(BATCH, "\"packet\"", "\"byte\""),
             "p.json: parameters.contention_per: found \"byte\", expected burst or packet"},
            {With(BATCH, "\"ports\"", "\"port\""), "p.json: router.port: found an unknown key"},
            {With(BATCH, "\"ports\": 4", "\"ports\": 3"),
             "p.json: router.ports: found 3, expected"},
            {With(BATCH, "\"ports\": 4", "\"ports\": \"4\""), "p.json: router.ports: found \"4\""},
            {With(BATCH, "\"link_gbps\": 25", "\"link_gbps\": 0"), "p.json: router.link_gbps: fou"},
            {With(BATCH, "64", "0"),
             "p.json: router.burst: found 0, expected what the attribute ns3::SoftRouter::Burst "
             "takes: uint32_t 1:1024"},
            {With(BATCH, "64", "32.5"), "p.json: router.burst: found 32.5, expected what"},
            {With(BATCH, "64", "-1"), "p.json: router.burst: found -1, expected what"},
            {With(BATCH, "64", "4294967297"), "p.json: router.burst: found 4294967297, expected"},
            {With(BATCH, "0.01", "1.01"), "p.json: router.punt_share: found 1.01, expected what"},
            {With(BATCH, "\"sleep_after_us\": 50", "\"sleep_after_us\": false"),
             "p.json: router.sleep_after_us: found false"},
            {With(BATCH, "12.5", "1e300"), "p.json: router.wake_up_us: found 1e+300, expected"},
            {With(BATCH, "\"transmit_timeout_us\": 100,", ""),
             "p.json: router.transmit_timeout_us: found 0"},
            {With(BATCH, "18", "-1"),
             "p.json: parameters.punt_ns: found -1, expected what the attribute "
             "ns3::BatchServiceTimeModel::PuntCost takes: double 0:1e+09"},
            {With(BATCH, "292.5", "1.1e9"), "p.json: parameters.punt_burst_ns: found 1100000000.0"},
            {With(BATCH, "292.5", "\"292\""), "p.json: parameters.punt_burst_ns: found \"292\""},
            {With(CONTENTION, "563.4", "563.4, \"punt_ns\": 1"),
             "p.json: parameters.punt_ns: found an unknown key"},
            {With(BATCH, "75.5", "-1"), "p.json: router.poll_ns: found -1, expected what"},
            {With(BATCH, "75.5", "1.1e9"), "p.json: router.poll_ns: found 1100000000.0, expected"},
            {With(BATCH, "\"transmit_when_idle\": true", "\"transmit_when_idle\": 1"),
             "p.json: router.transmit_when_idle: found 1, expected what"},
            {With(BATCH, "\"per_second\": 1300, ", ""),
             "p.json: router.pauses.per_second: found nothing, expected this key"},
            {With(BATCH, ", \"lengths_ns\": [9000, 16000.5]", ""),
             "p.json: router.pauses.lengths_ns: found nothing, expected this key"},
            {With(BATCH, "\"per_second\"", "\"often\": 1, \"per_second\""),
             "p.json: router.pauses.often: found an unknown key"},
            {With(BATCH, "1300", "-1"),
             "p.json: router.pauses.per_second: found -1, expected what"},
            {With(BATCH, "1300", "1.1e6"), "p.json: router.pauses.per_second: found 1100000.0"},
            {With(BATCH, "[9000, 16000.5]", "9000"),
             "p.json: router.pauses.lengths_ns: found 9000, expected a list of numbers"},
            {With(BATCH, "[9000, 16000.5]", "[]"),
             "p.json: router.pauses.lengths_ns: found 0 lengths, expected 1 to 1000"},
            {With(BATCH, "16000.5", "-16000.5"),
             "p.json: router.pauses.lengths_ns: found -16000.5, expected numbers from 0 to 1e9"},
            {With(BATCH, "16000.5", "1.1e9"),
             "p.json: router.pauses.lengths_ns: found 1100000000.0"},
            {With(BATCH, "16000.5", "true"), "p.json: router.pauses.lengths_ns: found true"},
            {With(BATCH, "1300", "1e5"),
             "p.json: router.pauses: found 1.250025 of a core's time, expected at most 0.5"},
            {With(BATCH, "\"transmit_ring\": 256", "\"transmit_ring\": 15"),
             "p.json: router.transmit_ring: found 15, expected at least the transmit_buffer of 16"},
        };
        for (const auto& [text, message] : bad)
        {
            SoftRouterProfile profile;
            profile.name = "before";
            std::string error;
            NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Parse(text, "p.json", profile, error),
                                  false,
                                  "accepted, instead of: " << message);
            NS_TEST_EXPECT_MSG_EQ(error.substr(0, message.size()), message, "whole: " << error);
            NS_TEST_EXPECT_MSG_EQ(profile.name, "before", "a profile is unchanged after an error");
        }
    }
};

/**
 * \brief From files.
 */
class ProfileFileTest : public TestCase
{
  public:
    ProfileFileTest()
        : TestCase("files: read, missing, a folder")
    {
    }

  private:
    void DoRun() override
    {
        const std::string file = CreateTempDirFilename("profile.json");
        std::ofstream(file) << EQ7;
        SoftRouterProfile profile;
        std::string error;
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Read(file, profile, error), true, error);
        NS_TEST_EXPECT_MSG_EQ(profile.name, "published", "name");
        const std::string missing = CreateTempDirFilename("missing.json");
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Read(missing, profile, error), false, "missing");
        NS_TEST_EXPECT_MSG_EQ(error.find(missing + ": cannot be read"), 0, error);
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Read("/", profile, error), false, "a folder");
        NS_TEST_EXPECT_MSG_EQ(error.find("/: cannot be read"), 0, error);
    }
};

/**
 * \brief The suite of profiles.
 */
class SoftRouterProfileTestSuite : public TestSuite
{
  public:
    SoftRouterProfileTestSuite()
        : TestSuite("softrouter-profile", Type::UNIT)
    {
        AddTestCase(new GoodProfileTest);
        AddTestCase(new BadProfileTest);
        AddTestCase(new ProfileFileTest);
    }
};

SoftRouterProfileTestSuite g_softRouterProfileTestSuite; //!< registers the suite

} // namespace
