// SPDX-License-Identifier: GPL-2.0-only
// Profiles that are good and bad for this module and for perigee's own reader, whose tests have the
// same list (lib/predict/src/profile/cases.rs).
#ifndef SOFTROUTER_PROFILE_CASES_H
#define SOFTROUTER_PROFILE_CASES_H

#include <string>
#include <vector>

/// A profile with every key.
const std::string BATCH = R"({
  "format": "perigee-profile/1",
  "name": "lab router",
  "description": "for tests",
  "model": "batch",
  "parameters": {"c_batch_ns": 400, "c_packet_ns": 300.5, "c_byte_ns": 0.25, "miss_ns": 80,
                 "cache_bytes": 1000000, "d_ns": 7, "u_ns": 5, "contention_per": "packet"},
  "router": {"burst": 64, "receive_ring": 1024, "transmit_ring": 256, "transmit_buffer": 16,
             "transmit_timeout_us": 100, "ports": 4, "link_gbps": 25, "sleep_after_us": 50,
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

/// A change of a profile.
struct ProfileCase
{
    const std::string& text; //!< which is changed
    std::string old;         //!< what is replaced; "*begin", "*end": nothing, there; "*": all
    std::string now;         //!< by what
    bool good;               //!< whether that is a profile
};

// clang-format off
const std::vector<ProfileCase> PROFILE_CASES = {
    // As they are.
    {EQ7, "", "", true},
    {CONTENTION, "", "", true},
    {BATCH, "", "", true},
    // A list is no object.
    {CONTENTION, R"({"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1})", "[563.4, 0, 29.1, 11.1]", false},
    {CONTENTION, R"({"sleep_after_us": null})", "[]", false},
    {CONTENTION, R"({"sleep_after_us": null})", "[32]", false},
    {CONTENTION, R"({"sleep_after_us": null})", "null", false},
    {CONTENTION, R"({"sleep_after_us": null})", "{}", true},
    {CONTENTION, "*", R"(["perigee-profile/1", "contention"])", false},
    // An object is no word.
    {CONTENTION, R"("contention")", R"({"contention": null})", false},
    {BATCH, R"("packet")", R"({"packet": null})", false},
    {BATCH, R"("packet")", "null", false},
    {BATCH, R"("packet")", R"("burst")", true},
    // Bytes that some parsers take for the end, or skip.
    {BATCH, "*end", std::string("\0", 1), false},
    {BATCH, "*end", std::string("\0}", 2), false},
    {BATCH, "*begin", "\xef\xbb\xbf", false},
    {BATCH, "*end", "\n\t ", true},
    {BATCH, "for tests", R"(for \u0000 tests)", true},
    // Rates and times: a burst of one packet takes 1e-3 to 1e9 ns.
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0, "b": 1e-306, "b0": 0)", false},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0, "b": 7.3888e-05, "b0": 0)", true},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0, "b": 7.3887e-05, "b0": 0)", false},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0, "b": 672000, "b0": 0)", true},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0, "b": 672001, "b0": 0)", false},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0, "a0": 0.1, "b": 0.7, "b0": -7.1)", false},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0.01, "a0": -0.005, "b": 0.5, "b0": 0.1)", true},
    {EQ7, R"("a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321)", R"("a": 0.01, "a0": -0.02, "b": 0.5, "b0": 0.1)", false},
    {CONTENTION, "563.4", "1e-320", false},
    {CONTENTION, "563.4", "0.000999", false},
    {CONTENTION, "563.4", "0.001", true},
    {CONTENTION, R"("c_byte_ns": 0)", R"("c_byte_ns": 1e9)", false},
    {CONTENTION, R"("c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1)", R"("c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 0, "u_ns": 0)", true},
    {CONTENTION, R"("c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1)", R"("c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 0, "u_ns": 1)", false},
    {CONTENTION, R"("c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1)", R"("c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 1, "u_ns": 0)", false},
    {BATCH, R"("miss_ns": 80)", R"("miss_ns": 1e9)", false},
    {BATCH, R"("d_ns": 7)", R"("d_ns": 1e7)", true},
    {BATCH, R"("d_ns": 7)", R"("d_ns": 2e7)", false},
    // Ports, bursts, timeouts.
    {BATCH, R"("ports": 4)", R"("ports": 0)", false},
    {BATCH, R"("ports": 4)", R"("ports": 1)", false},
    {BATCH, R"("ports": 4)", R"("ports": 2)", true},
    {BATCH, R"("ports": 4)", R"("ports": 2.0)", false},
    {BATCH, R"("ports": 4)", R"("ports": 3)", false},
    {BATCH, R"("ports": 4)", R"("ports": 63)", false},
    {BATCH, R"("ports": 4)", R"("ports": 64)", true},
    {BATCH, R"("ports": 4)", R"("ports": 65)", false},
    {BATCH, R"("ports": 4)", R"("ports": 66)", false},
    {BATCH, R"("burst": 64)", R"("burst": 1)", true},
    {BATCH, R"("burst": 64)", R"("burst": 1025)", false},
    {BATCH, R"("burst": 64)", R"("burst": 4294967296)", false},
    {BATCH, R"("burst": 64)", R"("burst": -1)", false},
    {BATCH, R"("burst": 64)", R"("burst": 1.5)", false},
    {BATCH, R"("burst": 64)", R"("burst": 5.0)", false},
    {BATCH, R"("transmit_timeout_us": 100)", R"("transmit_timeout_us": 0.001)", true},
    {BATCH, R"("transmit_timeout_us": 100)", R"("transmit_timeout_us": 0.000999)", false},
    {BATCH, R"("transmit_timeout_us": 100)", R"("transmit_timeout_us": 4.9e-7)", false},
    {BATCH, R"("slow_path_ns": 20000)", R"("slow_path_ns": 0)", true},
    // Numbers that are none, keys that are there twice, or have no name.
    {BATCH, "300.5", "1e999", false},
    {BATCH, "-0.1", "-1e999", false},
    {BATCH, "-0.1", "1e308", true},
    {BATCH, R"("miss_ns": 80)", R"("miss_ns": 80, "miss_ns": 80)", false},
    {BATCH, R"("burst": 64)", R"("burst": 64, "": 1)", false},
    {BATCH, R"("fit")", R"("": 1, "fit")", false},
    // Names without control characters.
    {BATCH, "lab router", R"(lab \u0007 router)", false},
    {BATCH, "lab router", R"(lab \u001b[31m router)", false},
    {BATCH, "lab router", R"(lab \u007f router)", false},
    {BATCH, "lab router", R"(lab \u0085 router)", false},
    {BATCH, "lab router", "lab \xc2\x85 router", false},
    {BATCH, "lab router", "lab \x7f router", false},
    {BATCH, "lab router", R"(lab \u00a0 router)", true},
    {BATCH, "lab router", R"(lab \u00e9 router)", true},
};

// clang-format on

/**
 * \param change of a profile
 * \return the changed text; one that says so if the case is wrong
 */
inline std::string
Changed(const ProfileCase& change)
{
    if (change.old == "*")
    {
        return change.now;
    }
    if (change.old == "*begin")
    {
        return change.now + change.text;
    }
    if (change.old == "*end")
    {
        return change.text + change.now;
    }
    std::string text = change.text;
    const auto at = text.find(change.old);
    return at == std::string::npos ? "test is wrong: no " + change.old
                                   : text.replace(at, change.old.size(), change.now);
}

/**
 * \param open kinds of levels, '[' or '{', used in turn
 * \param levels how many
 * \return lists and objects in each other
 */
inline std::string
Nested(const std::string& open, std::size_t levels)
{
    std::string begin;
    std::string end;
    for (std::size_t level = 0; level < levels; level++)
    {
        const bool list = open[level % open.size()] == '[';
        begin += list ? "[" : "{\"k\": ";
        end += list ? ']' : '}';
    }
    return begin + "0" + std::string(end.rbegin(), end.rend());
}

#endif // SOFTROUTER_PROFILE_CASES_H
