// SPDX-License-Identifier: GPL-2.0-only
#include "json-section.h"

#include <set>
#include <sstream>
#include <utility>
#include <vector>

namespace ns3
{

using Json = nlohmann::json;

namespace
{

/// Names in a row, for a message.
std::string
Joined(std::initializer_list<const char*> names)
{
    std::string joined;
    for (const char* name : names)
    {
        joined += (joined.empty() ? "" : ", ") + std::string(name);
    }
    return joined;
}

constexpr int MAX_DEPTH = 64;

/// Finds keys that an object has twice, of which a parsed object keeps the last only.
class TwiceFinder
{
  public:
    /// Takes an event of the parser; see nlohmann's parser_callback_t.
    bool operator()(int depth, Json::parse_event_t event, Json& parsed)
    {
        // What is nested deeper than the machine's stack would end the program.
        if (depth > MAX_DEPTH)
        {
            throw JsonMistake("found more than " + std::to_string(MAX_DEPTH) +
                              " levels of lists and objects, expected fewer");
        }
        switch (event)
        {
        case Json::parse_event_t::object_start:
            m_free += !m_levels.empty() && m_levels.back().key == "fit" ? 1 : 0;
            m_levels.emplace_back();
            break;
        case Json::parse_event_t::object_end:
            m_levels.pop_back();
            m_free -= !m_levels.empty() && m_levels.back().key == "fit" ? 1 : 0;
            break;
        case Json::parse_event_t::key:
            TakeKey(parsed.get_ref<const std::string&>());
            break;
        default:
            break;
        }
        return true;
    }

  private:
    /// An object that is being parsed.
    struct Level
    {
        std::string key;            // the last one
        std::set<std::string> keys; // all so far
    };

    void TakeKey(const std::string& key)
    {
        Level& level = m_levels.back();
        level.key = key;
        if (m_free > 0 || level.keys.insert(key).second)
        {
            return;
        }
        std::string path;
        for (const Level& each : m_levels)
        {
            path += (path.empty() ? "" : ".") + ShownText(each.key);
        }
        throw JsonMistake(path + ": found this key twice, expected it once: remove one");
    }

    std::vector<Level> m_levels;
    std::size_t m_free{0}; // levels that are in a "fit"
};

/// Where a byte of a text is: "line 2, column 7".
std::string
PlaceOf(const std::string& text, std::size_t byte)
{
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i + 1 < byte && i < text.size(); i++)
    {
        column++;
        if (text[i] == '\n')
        {
            line++;
            column = 1;
        }
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

} // namespace

std::string
ShownNumber(double number)
{
    std::ostringstream text;
    text << number;
    return text.str();
}

std::string
ShownText(const std::string& text)
{
    constexpr std::size_t MOST = 60;
    std::string shown = text.substr(0, MOST);
    for (char& c : shown)
    {
        c = c >= ' ' && c <= '~' ? c : '?';
    }
    return text.size() > MOST ? shown + "..." : shown;
}

std::string
ShownValue(const Json& value)
{
    // Not by dump(), which calls itself for each level.
    switch (value.type())
    {
    case Json::value_t::object:
        return "an object";
    case Json::value_t::array:
        return "an array";
    case Json::value_t::string:
        return "\"" + ShownText(value.get_ref<const std::string&>()) + "\"";
    default:
        return ShownText(value.dump());
    }
}

Json
ParseJson(const std::string& text, const std::string& expected)
{
    try
    {
        return Json::parse(text, TwiceFinder());
    }
    catch (const Json::parse_error& error)
    {
        throw JsonMistake(PlaceOf(text, error.byte) + ": found no valid JSON, expected " +
                          expected);
    }
    catch (const Json::exception& error)
    {
        // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
        const std::string what = error.what();
        const std::size_t start = what.find("] ");
        throw JsonMistake(ShownText(start == std::string::npos ? what : what.substr(start + 2)) +
                          ": expected numbers that fit a double");
    }
}

bool
JsonRange::Has(double number) const
{
    return (above ? number > least : number >= least) && number <= most;
}

std::string
JsonRange::Expected(const std::string& kind) const
{
    if (least == -INFINITE)
    {
        return "a " + kind;
    }
    if (most < 1e5)
    {
        return "a " + kind + (above ? " above " : " from ") + ShownNumber(least) + " to " +
               ShownNumber(most);
    }
    return "a " + kind + (above ? " > " : " >= ") + ShownNumber(least) + " (and at most " +
           ShownNumber(most) + ")";
}

JsonSection::JsonSection(const Json& object,
                         std::string path,
                         std::initializer_list<const char*> keys)
    : m_object(object),
      m_path(std::move(path))
{
    for (const auto& entry : object.items())
    {
        bool known = false;
        for (const char* key : keys)
        {
            known = known || entry.key() == key;
        }
        if (!known)
        {
            throw JsonMistake(Path(ShownText(entry.key())) +
                              ": found an unknown key, expected none but " + Joined(keys));
        }
    }
}

std::string
JsonSection::Path(const std::string& key) const
{
    return m_path.empty() ? key : m_path + "." + key;
}

const Json*
JsonSection::Find(const char* key) const
{
    const auto found = m_object.find(key);
    return found == m_object.end() ? nullptr : &*found;
}

void
JsonSection::Refuse(const char* key, const std::string& expected) const
{
    const Json* value = Find(key);
    throw JsonMistake(Path(key) + ": found " + (value ? ShownValue(*value) : "nothing") +
                      ", expected " + expected);
}

double
JsonSection::Number(const char* key, const JsonRange& range) const
{
    const Json* value = Find(key);
    if (!value || !value->is_number() || !range.Has(value->get<double>()))
    {
        Refuse(key, range.Expected("number"));
    }
    return value->get<double>();
}

void
JsonSection::Number(const char* key, const JsonRange& range, double& number) const
{
    if (Find(key))
    {
        number = Number(key, range);
    }
}

void
JsonSection::Whole(const char* key, uint32_t least, uint32_t most, uint32_t& number) const
{
    const Json* value = Find(key);
    if (!value)
    {
        return;
    }
    const JsonRange range{static_cast<double>(least), static_cast<double>(most)};
    if (!value->is_number_integer() || !range.Has(value->get<double>()))
    {
        Refuse(key, range.Expected("whole number"));
    }
    number = value->get<uint32_t>();
}

std::string
JsonSection::Word(const char* key, std::initializer_list<const char*> words) const
{
    const Json* value = Find(key);
    if (value && value->is_string())
    {
        for (const char* word : words)
        {
            if (value->get_ref<const std::string&>() == word)
            {
                return word;
            }
        }
    }
    Refuse(key, (words.size() > 1 ? "one of " : "") + Joined(words));
}

void
JsonSection::Text(const char* key, std::size_t most, std::string& text) const
{
    if (const Json* value = Find(key))
    {
        if (!value->is_string() || value->get_ref<const std::string&>().size() > most)
        {
            Refuse(key, "text of at most " + std::to_string(most) + " bytes");
        }
        text = value->get<std::string>();
    }
}

const Json&
JsonSection::Object(const char* key) const
{
    const Json* object = Find(key);
    if (!object || !object->is_object())
    {
        Refuse(key, "an object");
    }
    return *object;
}

} // namespace ns3
