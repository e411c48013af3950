// SPDX-License-Identifier: GPL-2.0-only
#include "json-section.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
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

constexpr std::size_t MAX_DEPTH = 64;

/// The byte, from 1 on, at which a text that is JSON so far gets deeper than it may.
std::size_t
FindTooDeep(const std::string& text)
{
    std::size_t depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); i++)
    {
        const char c = text[i];
        if (quoted && c == '\\')
        {
            i++;
        }
        else if (c == '"')
        {
            quoted = !quoted;
        }
        else if (!quoted && (c == '[' || c == '{') && ++depth > MAX_DEPTH)
        {
            return i + 1;
        }
        else if (!quoted && (c == ']' || c == '}'))
        {
            depth--;
        }
    }
    return text.size();
}

/**
 * \brief Refuses what is no JSON, with its place, and JSON that is too deep or has keys twice, of
 * which a parsed object would keep the last only.
 *
 * The functions are events of the parser; see nlohmann's json_sax.
 */
class Checker
{
  public:
    /**
     * \param text that is parsed, which must outlive this
     * \param expected what it should be
     */
    Checker(const std::string& text, const std::string& expected)
        : m_text(text),
          m_expected(expected)
    {
    }

    bool null()
    {
        return true;
    }

    bool boolean(bool /* value */)
    {
        return true;
    }

    bool number_integer(Json::number_integer_t /* value */)
    {
        return true;
    }

    bool number_unsigned(Json::number_unsigned_t /* value */)
    {
        return true;
    }

    bool number_float(Json::number_float_t /* value */, const Json::string_t& /* text */)
    {
        return true;
    }

    bool string(Json::string_t& /* value */)
    {
        return true;
    }

    bool binary(Json::binary_t& /* value */)
    {
        return true;
    }

    bool start_object(std::size_t /* elements */)
    {
        Deeper();
        m_free += !m_levels.empty() && m_levels.back().key == "fit" ? 1 : 0;
        m_levels.emplace_back();
        return true;
    }

    bool end_object()
    {
        m_depth--;
        m_levels.pop_back();
        m_free -= !m_levels.empty() && m_levels.back().key == "fit" ? 1 : 0;
        return true;
    }

    bool start_array(std::size_t /* elements */)
    {
        Deeper();
        return true;
    }

    bool end_array()
    {
        m_depth--;
        return true;
    }

    bool key(Json::string_t& name)
    {
        Level& level = m_levels.back();
        level.key = name;
        if (m_free > 0 || level.keys.insert(name).second)
        {
            return true;
        }
        std::string path;
        for (const Level& each : m_levels)
        {
            path += (path.empty() ? "" : ".") + ShownKey(each.key);
        }
        throw JsonMistake(path + ": found this key twice, expected it once: remove one");
    }

    bool parse_error(std::size_t position, const std::string& token, const Json::exception& error)
    {
        const std::string what = error.what();
        if (what.find("number overflow") != std::string::npos)
        {
            const std::size_t begin = position - std::min(position, token.size()) + 1;
            throw JsonMistake(PlaceOf(m_text, begin) + ": found " + ShownText(token) +
                              ", expected a number that fits a double");
        }
        // "[json.exception.parse_error.101] parse error at line 2, column 3: syntax error while
        // parsing value - invalid literal; last read: 'nul'"
        std::size_t begin = what.find(" - ");
        begin = begin == std::string::npos ? what.find("] ") + 2 : begin + 3;
        throw JsonMistake(PlaceOf(m_text, position) + ": found no valid JSON (" +
                          ShownText(what.substr(begin)) + "), expected " + m_expected);
    }

  private:
    /// An object that is being parsed.
    struct Level
    {
        std::string key;            // the last one
        std::set<std::string> keys; // all so far
    };

    /// Copying or printing what is nested deeper than the machine's stack would end the program.
    void Deeper()
    {
        if (++m_depth > MAX_DEPTH)
        {
            throw JsonMistake(PlaceOf(m_text, FindTooDeep(m_text)) + ": found more than " +
                              std::to_string(MAX_DEPTH) +
                              " levels of lists and objects, expected fewer");
        }
    }

    const std::string& m_text;
    const std::string& m_expected;
    std::vector<Level> m_levels;
    std::size_t m_depth{0}; // lists and objects
    std::size_t m_free{0};  // levels that are in a "fit"
};

} // namespace

std::string
ShownNumber(double number)
{
    // As few digits as tell it from others: "found 1e-06, expected at least 1e-06" helps nobody.
    constexpr int MOST = 17;
    char text[32];
    for (int digits = 6; digits <= MOST; digits++)
    {
        std::snprintf(text, sizeof(text), "%.*g", digits, number);
        if (std::strtod(text, nullptr) == number)
        {
            break;
        }
    }
    return text;
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
ShownKey(const std::string& key)
{
    return key.empty() ? "\"\"" : ShownText(key);
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
    if (text.compare(0, 3, "\xef\xbb\xbf") == 0)
    {
        throw JsonMistake("line 1, column 1: found a byte order mark, expected " + expected +
                          " without one");
    }
    // The parser would take it for the end.
    if (const std::size_t at = text.find('\0'); at != std::string::npos)
    {
        throw JsonMistake(PlaceOf(text, at + 1) + ": found a NUL byte, expected " + expected);
    }
    Checker checker(text, expected);
    Json::sax_parse(text, &checker);
    return Json::parse(text);
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
            throw JsonMistake(Path(ShownKey(entry.key())) +
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
