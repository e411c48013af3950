// SPDX-License-Identifier: GPL-2.0-only
#include "profile-cases.h"
#include "test-seed.h"

#include "ns3/batch-service-time-model.h"
#include "ns3/eq7-service-time-model.h"
#include "ns3/linear-contention-service-time-model.h"
#include "ns3/service-time-model.h"
#include "ns3/soft-router-profile.h"
#include "ns3/test.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

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

        NS_TEST_ASSERT_MSG_EQ(SoftRouterProfile::Parse(EQ7, "eq7", profile, error), true, error);
        NS_TEST_EXPECT_MSG_EQ(profile.burst, 32, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.receiveRing, 512, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.transmitBuffer, 1, "default");
        NS_TEST_EXPECT_MSG_EQ(profile.sleeps, false, "default");
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
};

/**
 * \brief Profiles that are not good, and what is said about them.
 */
class BadProfileTest : public TestCase
{
  public:
    BadProfileTest()
        : TestCase("bad profiles are refused with place, what was found and what was expected")
    {
    }

  private:
    /// Checks the message about a text.
    void Refused(const std::string& text, const std::string& message)
    {
        SoftRouterProfile profile;
        profile.name = "before";
        std::string error;
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Parse(text, "p.json", profile, error),
                              false,
                              "accepted, instead of: " << message);
        NS_TEST_EXPECT_MSG_EQ(error.substr(0, message.size()), message, "the whole is: " << error);
        NS_TEST_EXPECT_MSG_EQ(profile.name, "before", "a profile is unchanged after an error");
    }

    void Syntax()
    {
        Refused("", "p.json: line 1, column 1: found no valid JSON (unexpected end of input; ");
        Refused("{\n  \"a\": tru }",
                "p.json: line 2, column 11: found no valid JSON (invalid literal; last read: "
                "'\"a\": tru '), expected a profile");
        Refused("{\"a\": \"\x01\"}", "p.json: line 1, column 8: found no valid JSON (invalid s");
        Refused("{\"a\": NaN}", "p.json: line 1, column 7: found no valid JSON");
        Refused("[1, 2]", "p.json: found an array, expected an object");
        Refused(std::string(60, '['), "p.json: line 1, column 61: found no valid JSON");
        Refused(std::string(60, '[') + std::string(60, ']'), "p.json: found an array");
        // Copying or printing what is nested so deeply ends a program.
        Refused(std::string(1000000, '['),
                "p.json: line 1, column 65: found more than 64 levels of lists and objects");
        Refused(With(EQ7, "\"eq7\"", std::string("\"\xff\"")), "p.json: line 1, column ");
        Refused(With(EQ7, "0.011392", "1e999"),
                "p.json: line 2, column 29: found 1e999, expected a number that fits a double");
        Refused(With(BATCH, "null", "-1e999]"),
                "p.json: line 12, column 36: found -1e999, expected a number");
        Refused(BATCH + std::string("\0}", 2), "p.json: line 13, column 2: found a NUL byte");
        Refused("\xef\xbb\xbf" + BATCH, "p.json: line 1, column 1: found a byte order mark");
        Refused(With(EQ7, "\"b\":", "\"a\": 1, \"b\":"),
                "p.json: parameters.a: found this key twice, expected it once");
        Refused(With(EQ7, "{", "{\"name\": \"a\", "), "p.json: name: found this key twice");
    }

    void Keys()
    {
        Refused("{}", "p.json: format: found nothing, expected \"perigee-profile/1\"");
        Refused(With(EQ7, "profile/1", "profile/2"),
                "p.json: format: found \"perigee-profile/2\", expected \"perigee-profile/1\"");
        Refused(With(EQ7, "\"name\"", "\"nom\""),
                "p.json: nom: found an unknown key, expected none but format, name, ");
        Refused(With(EQ7, "\"published\"", "\"\""), "p.json: name: found \"\", expected a name");
        Refused(With(EQ7, "\"published\"", "7"), "p.json: name: found 7, expected text");
        Refused(With(EQ7, "\"eq7\"", "\"eq8\""),
                "p.json: model: found \"eq8\", expected one of eq7, contention, batch");
        Refused(With(EQ7, "\"eq7\"", "\"batch\""),
                "p.json: parameters.a: found an unknown key, expected none but c_batch_ns, ");
        Refused(With(EQ7, "\"parameters\"", "\"fit\""),
                "p.json: parameters: found nothing, expected an object");
        Refused(With(BATCH, "\"ports\"", "\"port\\u0007s\""),
                "p.json: router.port?s: found an unknown key, expected none but burst, ");
        Refused(With(BATCH, "\"ports\"", "\"\""), "p.json: router.\"\": found an unknown key");
        Refused(With(CONTENTION, "\"router\"", "\"\""), "p.json: \"\": found an unknown key");
        Refused(With(EQ7, "{", "{\"\": 1, \"\": 1, "), "p.json: \"\": found this key twice");
        Refused(With(BATCH, "lab router", "\\u001b[31m"),
                "p.json: name: found \"?[31m\", expected a name without control characters");
    }

    void Numbers()
    {
        Refused(With(CONTENTION, "563.4", "-3"),
                "p.json: parameters.c0_ns: found -3, expected a number >= 0");
        Refused(With(CONTENTION, "563.4", "\"563\""),
                "p.json: parameters.c0_ns: found \"563\", expected a number >= 0");
        Refused(With(CONTENTION, "563.4", "[[563]]"),
                "p.json: parameters.c0_ns: found an array, expected a number >= 0");
        Refused(With(CONTENTION, "563.4", "1e10"),
                "p.json: parameters.c0_ns: found 10000000000.0, expected a number >= 0");
        Refused(With(CONTENTION, "563.4", "0"),
                "p.json: parameters: found 0 ns for a burst of one packet of 64 bytes, k = 1, "
                "one-way, without misses, expected 0.001 to 1e+09 ns, for 1 to 64 cores and 64 to");
        Refused(With(CONTENTION, "\"u_ns\": 11.1", "\"u_ns\": 999999436.700"),
                "p.json: parameters: found 1000000000.1 ns for a burst of one packet of 64 bytes"
                ", k = 1, two-way, with nothing but misses, expected 0.001 to 1e+09 ns");
        Refused(With(CONTENTION, ", \"d_ns\": 29.1", ""),
                "p.json: parameters.d_ns: found nothing, expected a number >= 0");
        Refused(With(EQ7, "0.002709", "-1"),
                "p.json: parameters: found D(1, 64) = -62.9806 Gbit/s, expected 6.72e-07 to 672000 "
                "there: a packet takes 0.001 to 1e+09 ns of a core, for 1 to 64 cores and 64 to");
        Refused(With(EQ7, "0.011392", "-1"), "p.json: parameters.a: found -1, expected");
        Refused(With(BATCH, "\"packet\"", "\"byte\""),
                "p.json: parameters.contention_per: found \"byte\", expected one of burst, packet");
    }

    void Router()
    {
        Refused(With(BATCH, "64", "0"),
                "p.json: router.burst: found 0, expected a whole number from 1 to 1024");
        Refused(With(BATCH, "64", "32.5"), "p.json: router.burst: found 32.5, expected a whole");
        Refused(With(BATCH, "64", "18446744073709551616"), "p.json: router.burst: found 1.8446");
        Refused(With(BATCH, "1024", "63"),
                "p.json: router.receive_ring: found 63, expected at least the burst of 64");
        Refused(With(BATCH, "\"ports\": 4", "\"ports\": 65"), "p.json: router.ports: found 65");
        Refused(With(BATCH, "\"ports\": 4", "\"ports\": 3"),
                "p.json: router.ports: found 3, expected an even whole number from 2 to 64");
        Refused(With(BATCH, "\"link_gbps\": 25", "\"link_gbps\": 0"),
                "p.json: router.link_gbps: found 0, expected a number >= 1e-06");
        Refused(With(BATCH, "\"transmit_timeout_us\": 100", "\"transmit_timeout_us\": 0"),
                "p.json: router.transmit_timeout_us: found 0, expected a number >= 0.001, as "
                "transmit_buffer is 16");
        Refused(With(BATCH, "\"transmit_timeout_us\": 100,", ""),
                "p.json: router.transmit_timeout_us: found nothing, expected a number >= 0.001");
        Refused(
            With(BATCH, "\"transmit_ring\": 256", "\"transmit_ring\": 15"),
            "p.json: router.transmit_ring: found 15, expected at least the transmit_buffer of 16");
        Refused(
            With(BATCH, "\"transmit_buffer\": 16", "\"transmit_buffer\": 1025"),
            "p.json: router.transmit_buffer: found 1025, expected a whole number from 1 to 1024");
        Refused(With(BATCH, "0.01", "1.01"),
                "p.json: router.punt_share: found 1.01, expected a number from 0 to 1");
        Refused(With(BATCH, "\"sleep_after_us\": 50", "\"sleep_after_us\": false"),
                "p.json: router.sleep_after_us: found false, expected a number");
    }

    void DoRun() override
    {
        Syntax();
        Keys();
        Numbers();
        Router();
    }
};

/**
 * \brief Profiles that both readers take, and those that both refuse.
 */
class SameProfilesTest : public TestCase
{
  public:
    SameProfilesTest()
        : TestCase("profiles are good or bad as they are for perigee itself")
    {
    }

  private:
    void DoRun() override
    {
        SoftRouterProfile profile;
        std::string error;
        for (const ProfileCase& change : PROFILE_CASES)
        {
            const bool good = SoftRouterProfile::Parse(Changed(change), "p.json", profile, error);
            NS_TEST_EXPECT_MSG_EQ(good, change.good, change.old << " -> " << change.now << error);
            NS_TEST_EXPECT_MSG_EQ(Changed(change).find("test is wrong"),
                                  std::string::npos,
                                  change.old);
            NS_TEST_EXPECT_MSG_EQ(error.find('\n'), std::string::npos, error);
        }
        // The profile's own braces are the first level, and brackets in texts none.
        for (const std::string open : {"[", "{", "[{", "{[", "[[{"})
        {
            for (const std::size_t levels : {1, 62, 63, 64, 65, 1000, 100000})
            {
                const std::string fit =
                    "{\"fit\": " + Nested(open, levels) + R"(, "description": "[[\"{", )";
                const bool good =
                    SoftRouterProfile::Parse(With(EQ7, "{", fit), "p.json", profile, error);
                NS_TEST_EXPECT_MSG_EQ(good, (levels <= 63), levels << " of " << open << error);
                NS_TEST_EXPECT_MSG_EQ(
                    (good || error.find("found more than 64 levels") != std::string::npos),
                    true,
                    error);
                // Each level of lists is a byte.
                NS_TEST_EXPECT_MSG_EQ(
                    (good || open != "[" || error.find("p.json: line 1, column 72: ") == 0),
                    true,
                    error);
            }
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
        : TestCase("files: read, missing, a folder, too long")
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
        NS_TEST_EXPECT_MSG_EQ(error.find(missing + ": cannot be read (No such file"), 0, error);
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Read("/", profile, error), false, "a folder");
        NS_TEST_EXPECT_MSG_EQ(error.find("/: cannot be read ("), 0, error);
        const std::string longest = CreateTempDirFilename("long.json");
        std::ofstream(longest) << std::string((4 << 20) + 1, ' ');
        NS_TEST_EXPECT_MSG_EQ(SoftRouterProfile::Read(longest, profile, error), false, "long");
        NS_TEST_EXPECT_MSG_EQ(error.find(longest + ": found more than "), 0, error);
    }
};

/**
 * \brief Random changes of good profiles: each is accepted or explained.
 */
class MutatedProfileTest : public TestCase
{
  public:
    MutatedProfileTest()
        : TestCase("random changes of good profiles are accepted or explained")
    {
    }

  private:
    /// Changes a text at a random place.
    std::string Mutate(std::string text)
    {
        static const std::vector<std::string> pieces = {"{",       "}",     "[",
                                                        "]",       ",",     ":",
                                                        "\"",      "null",  "true",
                                                        "-1",      "0",     "1e308",
                                                        "-1e-308", "1e999", "\\u0000",
                                                        "0.5",     "\xff",  "/*",
                                                        "  ",      "NaN",   "a",
                                                        "fit",     "name",  "65536",
                                                        "{\"a\":", "[[[[",  "18446744073709551615"};
        const std::size_t at = m_random() % (text.size() + 1);
        const std::size_t length = std::min<std::size_t>(m_random() % 12, text.size() - at);
        switch (m_random() % 5)
        {
        case 0:
            return text.erase(at, length);
        case 1:
            return text.insert(at, pieces[m_random() % pieces.size()]);
        case 2:
            return text.replace(at, length, pieces[m_random() % pieces.size()]);
        case 3:
            return text.insert(at, text.substr(m_random() % text.size(), 40));
        default:
            if (at < text.size())
            {
                text[at] = static_cast<char>(m_random());
            }
            return text;
        }
    }

    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-profile");
        m_random.seed(seed);
        const std::vector<std::string> good = {BATCH, EQ7, CONTENTION};
        uint32_t accepted = 0;
        const uint32_t rounds = GetTestRounds(20000);
        for (uint32_t round = 0; round < rounds; round++)
        {
            std::string text = good[m_random() % good.size()];
            for (uint32_t changes = 1 + m_random() % 3; changes > 0; changes--)
            {
                text = Mutate(text);
            }
            SoftRouterProfile profile;
            std::string error;
            if (!SoftRouterProfile::Parse(text, "mutated", profile, error))
            {
                NS_TEST_ASSERT_MSG_EQ((error.find("mutated: ") == 0 && error.size() > 20 &&
                                       error.find("expected") != std::string::npos &&
                                       error.find('\n') == std::string::npos),
                                      true,
                                      "seed " << seed << ", round " << round << ": " << error);
                if (IsStatusFailure())
                {
                    return; // an ASSERT alone goes on
                }
                continue;
            }
            accepted++;
            // What is accepted must work: a model whose times are neither nothing nor for ever.
            auto model = profile.CreateServiceTimeModel();
            ServiceContext context;
            context.cores = 64;
            context.workingSet = profile.workingSetBytes;
            const double ns = model->GetBurstNs(context) + model->GetPacketNs(9216, context);
            NS_TEST_ASSERT_MSG_EQ((ns >= 1e-3 && ns <= 1e9),
                                  true,
                                  "seed " << seed << ", round " << round << ": " << ns << " ns");
            if (IsStatusFailure())
            {
                return; // an ASSERT alone goes on
            }
        }
        // Changes of the name or of white space do no harm: some must be accepted, most not.
        NS_TEST_EXPECT_MSG_GT(accepted, rounds / 100, "seed " << seed);
        NS_TEST_EXPECT_MSG_LT(accepted, rounds / 2, "seed " << seed);
    }

    std::mt19937 m_random;
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
        AddTestCase(new SameProfilesTest);
        AddTestCase(new ProfileFileTest);
        AddTestCase(new MutatedProfileTest);
    }
};

SoftRouterProfileTestSuite g_softRouterProfileTestSuite; //!< registers the suite

} // namespace
