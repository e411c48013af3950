// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_JSON_SECTION_H
#define SOFTROUTER_JSON_SECTION_H

// Private to the module: the only header that needs nlohmann_json.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief What is wrong with JSON, in words: place, what was found, what was expected.
 */
struct JsonMistake : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/**
 * \brief Shows a number in a message, with as few digits as are exact, but six at least.
 * \param number the number
 * \return text
 */
std::string ShownNumber(double number);

/**
 * \brief Shows text from a file in a message: not too long, and with nothing strange in it.
 * \param text the text
 * \return printable ASCII
 */
std::string ShownText(const std::string& text);

/**
 * \brief Shows a key of a file in a message: as text, or so that an empty one is seen.
 * \param key the key
 * \return printable ASCII
 */
std::string ShownKey(const std::string& key);

/**
 * \brief Shows a value in a message.
 * \param value the value
 * \return text
 */
std::string ShownValue(const nlohmann::json& value);

/**
 * \brief Parses JSON, and refuses objects that have a key twice (but below a key "fit"), more than
 * 64 levels of lists and objects, a byte order mark and NUL bytes.
 * \param text the text
 * \param expected what the text should be, for the message
 * \return the value
 * \throw JsonMistake if the text is not good
 */
nlohmann::json ParseJson(const std::string& text, const std::string& expected);

/**
 * \ingroup softrouter
 * \brief Which numbers are good.
 */
struct JsonRange
{
    static constexpr double INFINITE = std::numeric_limits<double>::infinity(); //!< no limit

    double least;      //!< the smallest
    double most;       //!< the largest
    bool above{false}; //!< whether numbers must be more than the smallest

    /**
     * \brief Checks a number.
     * \param number the number
     * \return whether it is good
     */
    bool Has(double number) const;

    /**
     * \brief Says what is good.
     * \param kind "number", "whole number"
     * \return what a message says was expected
     */
    std::string Expected(const std::string& kind) const;
};

/**
 * \ingroup softrouter
 * \brief A JSON object, with its place for messages. Everything throws JsonMistake.
 */
class JsonSection
{
  public:
    /**
     * \brief Takes an object, and refuses keys that it must not have.
     * \param object the object, which must outlive this
     * \param path its place: "router"; empty for the outermost
     * \param keys that it may have
     */
    JsonSection(const nlohmann::json& object,
                std::string path,
                std::initializer_list<const char*> keys);

    /**
     * \brief Gets the place of a key.
     * \param key the key
     * \return "router.burst"
     */
    std::string Path(const std::string& key) const;

    /**
     * \brief Gets a value.
     * \param key the key
     * \return the value, null if there is none
     */
    const nlohmann::json* Find(const char* key) const;

    /**
     * \brief Refuses a value.
     * \param key the key
     * \param expected what was expected
     */
    [[noreturn]] void Refuse(const char* key, const std::string& expected) const;

    /**
     * \brief Gets a number that must be there.
     * \param key the key
     * \param range which numbers are good
     * \return the number
     */
    double Number(const char* key, const JsonRange& range) const;

    /**
     * \brief Gets a number that may be missing.
     * \param key the key
     * \param range which numbers are good
     * \param [in,out] number stays as it is if there is none
     */
    void Number(const char* key, const JsonRange& range, double& number) const;

    /**
     * \brief Gets a whole number that may be missing.
     * \param key the key
     * \param least the smallest that is good
     * \param most the largest that is good
     * \param [in,out] number stays as it is if there is none
     */
    void Whole(const char* key, uint32_t least, uint32_t most, uint32_t& number) const;

    /**
     * \brief Gets one of several words; it must be there.
     * \param key the key
     * \param words that are good
     * \return the word
     */
    std::string Word(const char* key, std::initializer_list<const char*> words) const;

    /**
     * \brief Gets text that may be missing.
     * \param key the key
     * \param most bytes
     * \param [in,out] text stays as it is if there is none
     */
    void Text(const char* key, std::size_t most, std::string& text) const;

    /**
     * \brief Gets an object that must be there.
     * \param key the key
     * \return the object
     */
    const nlohmann::json& Object(const char* key) const;

  private:
    const nlohmann::json& m_object; //!< the object
    std::string m_path;             //!< its place
};

} // namespace ns3

#endif // SOFTROUTER_JSON_SECTION_H
