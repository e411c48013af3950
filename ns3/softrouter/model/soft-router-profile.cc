// SPDX-License-Identifier: GPL-2.0-only
#include "soft-router-profile.h"

#include "batch-service-time-model.h"
#include "eq7-service-time-model.h"
#include "json-section.h"
#include "linear-contention-service-time-model.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/object-factory.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace ns3
{

namespace
{

using Json = nlohmann::json;

constexpr std::size_t MAX_FILE_BYTES = 4 << 20; // a fit's report may be long, but not longer
constexpr double MIN_NS = 1e-3;                 // a picosecond, the simulator's step
constexpr double MAX_NS = 1e9;                  // a second
constexpr double MIN_TIMEOUT_US = 1e-3;         // less may be no time at all in the simulator
constexpr double MAX_US = 1e9;                  // a thousand seconds
constexpr double MAX_BYTES = 1e15;
constexpr double MIN_GBPS = 1e-6; // a kilobit per second
constexpr double MAX_RATE = 1e6;
constexpr const char* EXPECTED = "a profile as `perigee predict fit` writes it";

const JsonRange COST{0, MAX_NS};

constexpr const char* WHERE = ", for 1 to 64 cores and 64 to 9216 bytes";

/// A number of cores and a frame size for which a model is checked.
struct Corner
{
    double cores;
    double size;

    /// Says which one it is: "D(1, 64)".
    std::string Name() const
    {
        return "D(" + ShownNumber(cores) + ", " + ShownNumber(size) + ")";
    }
};

/// Linear in both, or a quotient of such, so the corners are the extremes.
const std::vector<Corner> CORNERS = {{1, 64}, {1, 9216}, {64, 64}, {64, 9216}};

/// A number that is out of bounds, rounded if it is out of them then, too.
std::string
ShownOutside(double number, double least, double most)
{
    char text[32];
    std::snprintf(text, sizeof(text), "%.6g", number);
    const double rounded = std::strtod(text, nullptr);
    return ShownNumber(rounded >= least && rounded <= most ? number : rounded);
}

/// What a packet costs; see SoftRouterProfile::Batch.
struct Costs
{
    double batch;
    double packet;
    double byte;
    double d;
    double u;
    double miss;
};

/**
 * \brief A burst of one packet must take 1e-3 to 1e9 ns: one-way and without misses not less,
 * two-way and with nothing but misses not more. `perigee` calculates the same in the same order.
 */
void
CheckTimes(const Costs& costs)
{
    for (const Corner& corner : CORNERS)
    {
        const double least =
            costs.batch + costs.packet + costs.byte * corner.size + costs.d * (corner.cores - 1);
        const double most = least + costs.u + costs.miss;
        if (least >= MIN_NS && most <= MAX_NS)
        {
            continue;
        }
        const bool isShort = !(least >= MIN_NS);
        throw JsonMistake(
            "parameters: found " + ShownOutside(isShort ? least : most, MIN_NS, MAX_NS) +
            " ns for a burst of one packet of " + ShownNumber(corner.size) +
            " bytes, k = " + ShownNumber(corner.cores) + ", " +
            (isShort ? "one-way, without misses" : "two-way, with nothing but misses") +
            ", expected " + ShownNumber(MIN_NS) + " to " + ShownNumber(MAX_NS) + " ns" + WHERE);
    }
}

/// The same for Eq. 7, where it is a matter of the rate.
void
CheckRates(const SoftRouterProfile::Eq7& eq7)
{
    for (const Corner& corner : CORNERS)
    {
        const double k = corner.cores;
        const double rate = (eq7.a * k + eq7.a0) * corner.size + (eq7.b * k + eq7.b0);
        const double bits = k * ((corner.size + 20) * 8);
        const double least = bits / MAX_NS;
        const double most = bits / MIN_NS;
        if (rate >= least && rate <= most)
        {
            continue;
        }
        throw JsonMistake("parameters: found " + corner.Name() + " = " +
                          ShownOutside(rate, least, most) + " Gbit/s, expected " +
                          ShownNumber(least) + " to " + ShownNumber(most) +
                          " there: a packet takes " + ShownNumber(MIN_NS) + " to " +
                          ShownNumber(MAX_NS) + " ns of a core" + WHERE);
    }
}

SoftRouterProfile::Eq7
ReadEq7(const JsonSection& section)
{
    const JsonRange any{-MAX_RATE, MAX_RATE};
    const JsonRange positive{0, MAX_RATE};
    SoftRouterProfile::Eq7 eq7;
    eq7.a = section.Number("a", positive);
    eq7.a0 = section.Number("a0", any);
    eq7.b = section.Number("b", positive);
    eq7.b0 = section.Number("b0", any);
    CheckRates(eq7);
    return eq7;
}

SoftRouterProfile::Contention
ReadContention(const JsonSection& section)
{
    SoftRouterProfile::Contention contention;
    contention.c0Ns = section.Number("c0_ns", COST);
    contention.cByteNs = section.Number("c_byte_ns", COST);
    contention.dNs = section.Number("d_ns", COST);
    contention.uNs = section.Number("u_ns", COST);
    CheckTimes({0, contention.c0Ns, contention.cByteNs, contention.dNs, contention.uNs, 0});
    return contention;
}

SoftRouterProfile::Batch
ReadBatch(const JsonSection& section)
{
    SoftRouterProfile::Batch batch;
    batch.cBatchNs = section.Number("c_batch_ns", COST);
    batch.cPacketNs = section.Number("c_packet_ns", COST);
    batch.cByteNs = section.Number("c_byte_ns", COST);
    batch.missNs = section.Number("miss_ns", COST);
    batch.cacheBytes = section.Number("cache_bytes", {0, MAX_BYTES});
    batch.dNs = section.Number("d_ns", COST);
    batch.uNs = section.Number("u_ns", COST);
    if (section.Find("contention_per"))
    {
        batch.contentionPerPacket = section.Word("contention_per", {"burst", "packet"}) == "packet";
    }
    CheckTimes(
        {batch.cBatchNs, batch.cPacketNs, batch.cByteNs, batch.dNs, batch.uNs, batch.missNs});
    return batch;
}

void
ReadRouter(const JsonSection& section, SoftRouterProfile& profile)
{
    section.Whole("burst", 1, 1024, profile.burst);
    section.Whole("receive_ring", 1, 65536, profile.receiveRing);
    section.Whole("transmit_ring", 1, 65536, profile.transmitRing);
    section.Whole("transmit_buffer", 1, 1024, profile.transmitBuffer);
    section.Whole("punt_ring", 1, 65536, profile.puntRing);
    section.Whole("ports", 2, 64, profile.ports);
    if (profile.ports % 2 != 0)
    {
        section.Refuse("ports", "an even whole number from 2 to 64");
    }
    section.Number("transmit_timeout_us", {0, MAX_US}, profile.transmitTimeoutUs);
    section.Number("link_gbps", {MIN_GBPS, MAX_RATE}, profile.linkGbps);
    section.Number("wake_up_us", {0, MAX_US}, profile.wakeUpUs);
    section.Number("punt_share", {0, 1}, profile.puntShare);
    section.Number("slow_path_ns", COST, profile.slowPathNs);
    section.Number("working_set_bytes", {0, MAX_BYTES}, profile.workingSetBytes);
    const Json* sleep = section.Find("sleep_after_us");
    if (sleep && !sleep->is_null())
    {
        profile.sleeps = true;
        section.Number("sleep_after_us", {0, MAX_US}, profile.sleepAfterUs);
    }
    if (profile.receiveRing < profile.burst)
    {
        throw JsonMistake(section.Path("receive_ring") + ": found " +
                          std::to_string(profile.receiveRing) +
                          ", expected at least the burst of " + std::to_string(profile.burst));
    }
    if (profile.transmitRing < profile.transmitBuffer)
    {
        throw JsonMistake(
            section.Path("transmit_ring") + ": found " + std::to_string(profile.transmitRing) +
            ", expected at least the transmit_buffer of " + std::to_string(profile.transmitBuffer));
    }
    if (profile.transmitBuffer > 1 && !(profile.transmitTimeoutUs >= MIN_TIMEOUT_US))
    {
        section.Refuse("transmit_timeout_us",
                       "a number >= " + ShownNumber(MIN_TIMEOUT_US) + ", as transmit_buffer is " +
                           std::to_string(profile.transmitBuffer) +
                           ": packets must not wait for ever");
    }
}

/// Whether text has characters that a terminal would obey: C0, DEL, and C1 in UTF-8.
bool
HasControl(const std::string& text)
{
    for (std::size_t i = 0; i < text.size(); i++)
    {
        const auto c = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next <= 0x9f))
        {
            return true;
        }
    }
    return false;
}

SoftRouterProfile
ReadProfile(const Json& json)
{
    if (!json.is_object())
    {
        throw JsonMistake("found " + ShownValue(json) +
                          ", expected an object with \"format\": " + "\"perigee-profile/1\"");
    }
    // Format first: a file of another format has other keys, and that is not what is wrong.
    const auto format = json.find("format");
    if (format == json.end() || *format != "perigee-profile/1")
    {
        throw JsonMistake("format: found " +
                          (format == json.end() ? "nothing" : ShownValue(*format)) +
                          ", expected \"perigee-profile/1\"");
    }
    const JsonSection root(
        json,
        "",
        {"format", "name", "description", "model", "parameters", "router", "fit"});
    SoftRouterProfile profile;
    root.Text("name", 200, profile.name);
    if (profile.name.empty())
    {
        root.Refuse("name", "a name for the router");
    }
    if (HasControl(profile.name))
    {
        root.Refuse("name", "a name without control characters"); // it is printed on terminals
    }
    if (const Json* text = root.Find("description"); text && !text->is_null())
    {
        root.Text("description", 10000, profile.description);
    }
    const std::string model = root.Word("model", {"eq7", "contention", "batch"});
    const Json& parameters = root.Object("parameters");
    if (model == "eq7")
    {
        profile.model = SoftRouterProfile::Model::EQ7;
        profile.eq7 = ReadEq7(JsonSection(parameters, "parameters", {"a", "a0", "b", "b0"}));
    }
    else if (model == "contention")
    {
        profile.model = SoftRouterProfile::Model::CONTENTION;
        profile.contention = ReadContention(
            JsonSection(parameters, "parameters", {"c0_ns", "c_byte_ns", "d_ns", "u_ns"}));
    }
    else
    {
        profile.model = SoftRouterProfile::Model::BATCH;
        profile.batch = ReadBatch(JsonSection(parameters,
                                              "parameters",
                                              {"c_batch_ns",
                                               "c_packet_ns",
                                               "c_byte_ns",
                                               "miss_ns",
                                               "cache_bytes",
                                               "d_ns",
                                               "u_ns",
                                               "contention_per"}));
    }
    if (root.Find("router"))
    {
        ReadRouter(JsonSection(root.Object("router"),
                               "router",
                               {"burst",
                                "receive_ring",
                                "transmit_ring",
                                "transmit_buffer",
                                "transmit_timeout_us",
                                "ports",
                                "link_gbps",
                                "sleep_after_us",
                                "wake_up_us",
                                "punt_share",
                                "slow_path_ns",
                                "punt_ring",
                                "working_set_bytes"}),
                   profile);
    }
    return profile;
}

} // namespace

bool
SoftRouterProfile::Read(const std::string& file, SoftRouterProfile& profile, std::string& error)
{
    std::ifstream stream(file, std::ios::binary);
    std::string text;
    if (stream)
    {
        // One byte more than allowed, to know a file that is too long.
        text.resize(MAX_FILE_BYTES + 1);
        stream.read(text.data(), static_cast<std::streamsize>(text.size()));
        text.resize(static_cast<std::size_t>(stream.gcount()));
    }
    if (!stream && !stream.eof())
    {
        error = file + ": cannot be read (" + std::strerror(errno) + "), expected " + EXPECTED;
        return false;
    }
    if (text.size() > MAX_FILE_BYTES)
    {
        error = file + ": found more than " + std::to_string(MAX_FILE_BYTES) + " bytes, expected " +
                EXPECTED;
        return false;
    }
    return Parse(text, file, profile, error);
}

bool
SoftRouterProfile::Parse(const std::string& text,
                         const std::string& name,
                         SoftRouterProfile& profile,
                         std::string& error)
{
    try
    {
        profile = ReadProfile(ParseJson(text, EXPECTED));
        return true;
    }
    catch (const JsonMistake& mistake)
    {
        error = name + ": " + mistake.what();
        return false;
    }
}

Ptr<ServiceTimeModel>
SoftRouterProfile::CreateServiceTimeModel() const
{
    switch (model)
    {
    case Model::EQ7:
        return CreateObjectWithAttributes<Eq7ServiceTimeModel>("A",
                                                               DoubleValue(eq7.a),
                                                               "A0",
                                                               DoubleValue(eq7.a0),
                                                               "B",
                                                               DoubleValue(eq7.b),
                                                               "B0",
                                                               DoubleValue(eq7.b0));
    case Model::CONTENTION:
        return CreateObjectWithAttributes<LinearContentionServiceTimeModel>(
            "C0",
            DoubleValue(contention.c0Ns),
            "CByte",
            DoubleValue(contention.cByteNs),
            "D",
            DoubleValue(contention.dNs),
            "U",
            DoubleValue(contention.uNs));
    case Model::BATCH:
        break;
    }
    return CreateObjectWithAttributes<BatchServiceTimeModel>(
        "BurstCost",
        DoubleValue(batch.cBatchNs),
        "PacketCost",
        DoubleValue(batch.cPacketNs),
        "ByteCost",
        DoubleValue(batch.cByteNs),
        "MissCost",
        DoubleValue(batch.missNs),
        "CacheSize",
        DoubleValue(batch.cacheBytes),
        "D",
        DoubleValue(batch.dNs),
        "U",
        DoubleValue(batch.uNs),
        "ContentionPerPacket",
        BooleanValue(batch.contentionPerPacket));
}

} // namespace ns3
