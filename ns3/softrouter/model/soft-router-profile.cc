// SPDX-License-Identifier: GPL-2.0-only
#include "soft-router-profile.h"

#include "batch-service-time-model.h"
#include "contention-domain.h"
#include "core-pauses.h"
#include "eq7-service-time-model.h"
#include "ethernet-port.h"
#include "linear-contention-service-time-model.h"
#include "soft-router.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/nstime.h"
#include "ns3/uinteger.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace ns3
{

namespace
{

using Json = nlohmann::json;

/**
 * \brief Refuses a profile.
 * \param path of the key
 * \param found what stands there
 * \param expected what may stand there
 */
[[noreturn]] void
Refuse(const std::string& path, const std::string& found, const std::string& expected)
{
    throw std::runtime_error(path + ": found " + found + ", expected " + expected);
}

/**
 * \param value of a key
 * \return what a message shows of it
 */
std::string
Shown(const Json& value)
{
    return value.is_structured() ? std::string("an ") + value.type_name() : value.dump();
}

/**
 * \brief Takes a value for an attribute, whose bounds it has.
 * \param path of the key
 * \param json the value; where the attribute is a time, ns if the key ends so, else us
 * \param type of the object
 * \param attribute of it
 * \return the same value
 */
Ptr<const AttributeValue>
ToAttribute(const std::string& path, const Json& json, TypeId type, const char* attribute)
{
    constexpr double MOST = 1e12; // what a Time cannot hold is not made one
    constexpr std::string_view NS = "_ns";
    TypeId::AttributeInformation info;
    type.LookupAttributeByName(attribute, &info);
    // By what the checker makes: its name for the same type differs between releases of ns-3.
    const Ptr<AttributeValue> kind = info.checker->Create();
    Ptr<const AttributeValue> value;
    if (DynamicCast<UintegerValue>(kind) && json.is_number_unsigned())
    {
        value = Create<UintegerValue>(json.get<uint64_t>());
    }
    else if (DynamicCast<DoubleValue>(kind) && json.is_number())
    {
        value = Create<DoubleValue>(json.get<double>());
    }
    else if (DynamicCast<BooleanValue>(kind) && json.is_boolean())
    {
        value = Create<BooleanValue>(json.get<bool>());
    }
    else if (DynamicCast<TimeValue>(kind) && json.is_number() && json >= 0 && json <= MOST)
    {
        const bool ns =
            path.size() > NS.size() && path.compare(path.size() - NS.size(), NS.size(), NS) == 0;
        value = Create<TimeValue>(Time::FromDouble(json.get<double>(), ns ? Time::NS : Time::US));
    }
    if (!value || !info.checker->Check(*value))
    {
        Refuse(path,
               Shown(json),
               "what the attribute " + type.GetName() + "::" + attribute +
                   " takes: " + info.checker->GetUnderlyingTypeInformation());
    }
    return value;
}

/**
 * \brief A JSON object whose keys are taken one by one; those that are left are unknown.
 */
class Section
{
  public:
    /**
     * \param json the object
     * \param path its place, such as "router"; empty for the outermost
     */
    Section(const Json& json, const std::string& path)
        : m_path(path.empty() ? path : path + ".")
    {
        if (!json.is_object())
        {
            Refuse(path.empty() ? "profile" : path, Shown(json), "an object");
        }
        for (const auto& entry : json.items())
        {
            m_left.emplace(entry.key(), &entry.value());
        }
    }

    /// Refuses keys that were not taken.
    void End() const
    {
        if (!m_left.empty())
        {
            Refuse(m_path + m_left.begin()->first, "an unknown key", "none of this name");
        }
    }

    /**
     * \param key to take
     * \return its value; null: there is none
     */
    const Json* Find(const char* key)
    {
        const auto node = m_left.extract(key);
        return node.empty() || node.mapped()->is_null() ? nullptr : node.mapped();
    }

    /**
     * \param key to take, which must be there
     * \return its value
     */
    const Json& Get(const char* key)
    {
        const Json* value = Find(key);
        if (!value)
        {
            Refuse(m_path + key, "nothing", "this key");
        }
        return *value;
    }

    /**
     * \param key of a text, which must be there
     * \return the text
     */
    std::string Text(const char* key)
    {
        const Json& value = Get(key);
        if (!value.is_string())
        {
            Refuse(m_path + key, Shown(value), "text");
        }
        return value.get<std::string>();
    }

    /**
     * \brief Takes a number that may be missing.
     * \param key of it
     * \param type which has an attribute for it
     * \param attribute the attribute
     * \param [in,out] field stays as it is if there is no number
     * \return whether there is one
     */
    template <typename T>
    bool Take(const char* key, TypeId type, const char* attribute, T& field)
    {
        const Json* value = Find(key);
        if (value)
        {
            ToAttribute(m_path + key, *value, type, attribute);
            field = value->get<T>();
        }
        return value;
    }

  private:
    std::string m_path;                        //!< before each key
    std::map<std::string, const Json*> m_left; //!< keys that were not taken
};

/// A model's keys in "parameters", and its attributes.
struct Keys
{
    TypeId type;                                               //!< of the model
    std::vector<std::pair<const char*, const char*>> numbers;  //!< key and attribute
    std::vector<std::pair<const char*, const char*>> optional; //!< these may be missing
};

/**
 * \param name of a model
 * \return its keys
 */
Keys
FindKeys(const std::string& name)
{
    if (name == "eq7")
    {
        return {Eq7ServiceTimeModel::GetTypeId(),
                {{"a", "A"}, {"a0", "A0"}, {"b", "B"}, {"b0", "B0"}},
                {}};
    }
    if (name == "contention")
    {
        return {LinearContentionServiceTimeModel::GetTypeId(),
                {{"c0_ns", "C0"}, {"c_byte_ns", "CByte"}, {"d_ns", "D"}, {"u_ns", "U"}},
                {}};
    }
    if (name == "batch")
    {
        return {BatchServiceTimeModel::GetTypeId(),
                {{"c_batch_ns", "BurstCost"},
                 {"c_packet_ns", "PacketCost"},
                 {"c_byte_ns", "ByteCost"},
                 {"miss_ns", "MissCost"},
                 {"cache_bytes", "CacheSize"},
                 {"d_ns", "D"},
                 {"u_ns", "U"}},
                {{"punt_ns", "PuntCost"}, {"punt_burst_ns", "PuntBurstCost"}}};
    }
    Refuse("model", "\"" + name + "\"", "eq7, contention or batch");
}

/**
 * \param name of a model
 * \param parameters of it
 * \return what makes it
 */
ObjectFactory
ReadModel(const std::string& name, const Json& parameters)
{
    const Keys keys = FindKeys(name);
    Section section(parameters, "parameters");
    ObjectFactory model;
    model.SetTypeId(keys.type);
    for (const auto& [key, attribute] : keys.numbers)
    {
        const std::string path = std::string("parameters.") + key;
        model.Set(attribute, *ToAttribute(path, section.Get(key), keys.type, attribute));
    }
    for (const auto& [key, attribute] : keys.optional)
    {
        if (const Json* value = section.Find(key))
        {
            const std::string path = std::string("parameters.") + key;
            model.Set(attribute, *ToAttribute(path, *value, keys.type, attribute));
        }
    }
    if (const Json* per = name == "batch" ? section.Find("contention_per") : nullptr)
    {
        if (*per != "burst" && *per != "packet")
        {
            Refuse("parameters.contention_per", Shown(*per), "burst or packet");
        }
        model.Set("ContentionPerPacket", BooleanValue(*per == "packet"));
    }
    section.End();
    return model;
}

/**
 * \param json the key "router.pauses"
 * \param [in,out] profile gets what it says
 */
void
ReadPauses(const Json& json, SoftRouterProfile& profile)
{
    constexpr std::size_t MOST_LENGTHS = 1000;
    constexpr double MOST_NS = 1e9;
    constexpr double MOST_SHARE = 0.5; // of a core's time
    Section section(json, "router.pauses");
    const Json& often = section.Get("per_second");
    ToAttribute("router.pauses.per_second", often, CorePauses::GetTypeId(), "PerSecond");
    profile.pausesPerSecond = often.get<double>();
    // A list is no attribute's.
    const std::string key = "router.pauses.lengths_ns";
    const Json& lengths = section.Get("lengths_ns");
    section.End();
    if (!lengths.is_array())
    {
        Refuse(key, Shown(lengths), "a list of numbers");
    }
    if (lengths.empty() || lengths.size() > MOST_LENGTHS)
    {
        Refuse(key, std::to_string(lengths.size()) + " lengths", "1 to 1000");
    }
    double sum = 0;
    profile.pausesNs.clear();
    for (const Json& length : lengths)
    {
        if (!length.is_number() || !(length >= 0 && length <= MOST_NS))
        {
            Refuse(key, Shown(length), "numbers from 0 to 1e9");
        }
        profile.pausesNs.push_back(length.get<double>());
        sum += profile.pausesNs.back();
    }
    const double share = profile.pausesPerSecond * sum / static_cast<double>(lengths.size()) / 1e9;
    if (share > MOST_SHARE)
    {
        Refuse("router.pauses", std::to_string(share) + " of a core's time", "at most 0.5");
    }
}

/**
 * \param json the key "router"
 * \param [in,out] profile gets what it says
 */
void
ReadRouter(const Json& json, SoftRouterProfile& profile)
{
    const TypeId router = SoftRouter::GetTypeId();
    const TypeId slow = LinearContentionServiceTimeModel::GetTypeId();
    const TypeId cores = ContentionDomain::GetTypeId();
    Section section(json, "router");
    section.Take("burst", router, "Burst", profile.burst);
    section.Take("receive_ring", router, "ReceiveRing", profile.receiveRing);
    section.Take("transmit_ring", EthernetPort::GetTypeId(), "QueueSize", profile.transmitRing);
    section.Take("transmit_buffer", router, "TransmitBuffer", profile.transmitBuffer);
    section.Take("transmit_timeout_us", router, "TransmitTimeout", profile.transmitTimeoutUs);
    section.Take("transmit_when_idle", router, "TransmitWhenIdle", profile.transmitWhenIdle);
    section.Take("poll_ns", router, "PollTime", profile.pollNs);
    if (const Json* pauses = section.Find("pauses"))
    {
        ReadPauses(*pauses, profile);
    }
    profile.sleeps = section.Take("sleep_after_us", router, "SleepAfter", profile.sleepAfterUs);
    section.Take("wake_up_us", router, "WakeUpTime", profile.wakeUpUs);
    section.Take("punt_ring", router, "PuntRing", profile.puntRing);
    section.Take("punt_share", router, "PuntShare", profile.puntShare);
    section.Take("slow_path_ns", slow, "C0", profile.slowPathNs);
    section.Take("working_set_bytes", cores, "WorkingSet", profile.workingSetBytes);
    // These two are no attribute's, but RouterTestbed's.
    if (const Json* ports = section.Find("ports"))
    {
        if (!ports->is_number_unsigned() || *ports < 2 || *ports > 64 ||
            ports->get<uint64_t>() % 2 != 0)
        {
            Refuse("router.ports", Shown(*ports), "an even number from 2 to 64");
        }
        profile.ports = ports->get<uint32_t>();
    }
    if (const Json* link = section.Find("link_gbps"))
    {
        if (!link->is_number() || !(*link > 0 && *link <= 1e6))
        {
            Refuse("router.link_gbps", Shown(*link), "more than 0, at most 1e6");
        }
        profile.linkGbps = link->get<double>();
    }
    section.End();
    if (profile.transmitBuffer > 1 && !(profile.transmitTimeoutUs > 0))
    {
        Refuse("router.transmit_timeout_us",
               std::to_string(profile.transmitTimeoutUs),
               "more than 0, as transmit_buffer is more than 1: packets must not wait for ever");
    }
    if (profile.transmitRing < profile.transmitBuffer)
    {
        Refuse("router.transmit_ring",
               std::to_string(profile.transmitRing),
               "at least the transmit_buffer of " + std::to_string(profile.transmitBuffer));
    }
}

/**
 * \param json a profile
 * \return the same
 */
SoftRouterProfile
ReadProfile(const Json& json)
{
    constexpr const char* FORMAT = "perigee-profile/1";
    Section root(json, "");
    // Format first: a file of another format has other keys, and that is not what is wrong.
    if (const std::string format = root.Text("format"); format != FORMAT)
    {
        Refuse("format", format, FORMAT);
    }
    SoftRouterProfile profile;
    profile.name = root.Text("name");
    if (const Json* text = root.Find("description"); text && text->is_string())
    {
        profile.description = text->get<std::string>();
    }
    const std::string model = root.Text("model");
    profile.model = ReadModel(model, root.Get("parameters"));
    if (const Json* router = root.Find("router"))
    {
        ReadRouter(*router, profile);
    }
    root.Find("fit");
    root.End();
    return profile;
}

} // namespace

bool
SoftRouterProfile::Read(const std::string& file, SoftRouterProfile& profile, std::string& error)
{
    const std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf())) // a folder can be opened, but not read
    {
        error = file + ": cannot be read, expected a profile as `perigee predict fit` writes it";
        return false;
    }
    return Parse(text.str(), file, profile, error);
}

SoftRouterProfile
SoftRouterProfile::Load(const std::string& file)
{
    SoftRouterProfile profile;
    std::string error;
    if (!Read(file, profile, error))
    {
        // A simulation that went on with other parameters would be worth nothing.
        std::cerr << error << std::endl;
        std::exit(1);
    }
    return profile;
}

bool
SoftRouterProfile::Parse(const std::string& text,
                         const std::string& name,
                         SoftRouterProfile& profile,
                         std::string& error)
{
    try
    {
        profile = ReadProfile(Json::parse(text));
        return true;
    }
    catch (const std::exception& mistake) // ours, and nlohmann's
    {
        error = name + ": " + mistake.what();
        return false;
    }
}

Ptr<ServiceTimeModel>
SoftRouterProfile::CreateServiceTimeModel() const
{
    return model.Create<ServiceTimeModel>();
}

} // namespace ns3
