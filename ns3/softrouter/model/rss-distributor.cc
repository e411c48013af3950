// SPDX-License-Identifier: GPL-2.0-only
#include "rss-distributor.h"

#include "ns3/abort.h"
#include "ns3/log.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("RssDistributor");

NS_OBJECT_ENSURE_REGISTERED(RssDistributor);

namespace
{

/// Microsoft's key, which drivers use unless another is set.
constexpr const char* MICROSOFT_KEY =
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";

constexpr uint16_t IPV4 = 0x0800;
constexpr uint16_t IPV6 = 0x86dd;

constexpr uint8_t HOP_BY_HOP = 0;
constexpr uint8_t TCP = 6;
constexpr uint8_t UDP = 17;
constexpr uint8_t ROUTING = 43;
constexpr uint8_t DESTINATION_OPTIONS = 60;

/// Bytes of a packet that are looked at: IPv6 header, and 216 bytes of extension headers and ports.
constexpr uint32_t LOOKED_AT = 256;

/**
 * \brief Finds the ports behind the extension headers of an IPv6 packet.
 * \param data the packet
 * \param size how many bytes of it are there, at least 40
 * \return where the ports begin; 0 if there are none, or not all of them
 */
uint32_t
FindIpv6Ports(const uint8_t* data, uint32_t size)
{
    uint8_t next = data[6];
    uint32_t at = 40;
    while (next == HOP_BY_HOP || next == ROUTING || next == DESTINATION_OPTIONS)
    {
        if (at + 8 > size)
        {
            return 0;
        }
        next = data[at];
        at += (data[at + 1] + 1U) * 8;
    }
    // Anything else has no ports here: a fragment header (44) means a fragment.
    return (next == TCP || next == UDP) && at + 4 <= size ? at : 0;
}

} // namespace

TypeId
RssDistributor::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::RssDistributor")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddConstructor<RssDistributor>()
            .AddAttribute("Key",
                          "Secret key of the hash: 40 bytes in hexadecimal",
                          StringValue(MICROSOFT_KEY),
                          MakeStringAccessor(&RssDistributor::SetKey, &RssDistributor::GetKey),
                          MakeStringChecker())
            .AddAttribute(
                "TableSize",
                "Entries of the indirection table, a power of two",
                UintegerValue(128),
                MakeUintegerAccessor(&RssDistributor::SetTableSize, &RssDistributor::GetTableSize),
                MakeUintegerChecker<uint32_t>(1, 65536));
    return tid;
}

RssDistributor::RssDistributor()
{
    NS_LOG_FUNCTION(this);
    m_table.assign(128, 0);
}

RssDistributor::~RssDistributor()
{
    NS_LOG_FUNCTION(this);
}

uint32_t
RssDistributor::Hash(Ptr<const Packet> packet, uint16_t protocol) const
{
    switch (protocol)
    {
    case IPV4:
        return HashIpv4(*packet);
    case IPV6:
        return HashIpv6(*packet);
    default:
        return 0;
    }
}

uint32_t
RssDistributor::HashBytes(const uint8_t* data, uint32_t size) const
{
    uint32_t hash = 0;
    size = std::min(size, INPUT_BYTES);
    for (uint32_t i = 0; i < size; i++)
    {
        hash ^= m_halves[2 * i][data[i] >> 4] ^ m_halves[2 * i + 1][data[i] & 15];
    }
    return hash;
}

uint32_t
RssDistributor::HashIpv4(const Packet& packet) const
{
    uint8_t data[64];
    // Nearly all headers have no options: 20 bytes, and 4 of ports.
    uint32_t size = packet.CopyData(data, 24);
    if (size < 20 || data[0] >> 4 != 4 || (data[0] & 15) < 5)
    {
        return 0;
    }
    const uint32_t headerSize = (data[0] & 15) * 4;
    const bool fragment = (data[6] & 0x3f) != 0 || data[7] != 0;
    const bool ports = (data[9] == TCP || data[9] == UDP) && !fragment;
    if (!ports)
    {
        return HashBytes(data + 12, 8);
    }
    if (headerSize > 20)
    {
        size = packet.CopyData(data, headerSize + 4);
        if (size >= headerSize + 4)
        {
            std::memcpy(data + 20, data + headerSize, 4);
        }
    }
    return HashBytes(data + 12, size >= headerSize + 4 ? 12 : 8);
}

uint32_t
RssDistributor::HashIpv6(const Packet& packet) const
{
    uint8_t data[LOOKED_AT];
    uint32_t size = packet.CopyData(data, 44);
    if (size < 40 || data[0] >> 4 != 6)
    {
        return 0;
    }
    if (data[6] != TCP && data[6] != UDP)
    {
        size = packet.CopyData(data, LOOKED_AT);
    }
    const uint32_t ports = FindIpv6Ports(data, size);
    if (ports == 0)
    {
        return HashBytes(data + 8, 32);
    }
    std::memmove(data + 40, data + ports, 4);
    return HashBytes(data + 8, 36);
}

void
RssDistributor::SetQueues(uint32_t queues)
{
    NS_LOG_FUNCTION(this << queues);
    NS_ABORT_MSG_IF(queues == 0 || queues > 65536,
                    "RssDistributor: found " << queues << " queues, expected 1 to 65536");
    m_queues = queues;
    for (uint32_t i = 0; i < m_table.size(); i++)
    {
        m_table[i] = static_cast<uint16_t>(i % queues);
    }
}

void
RssDistributor::SetIndirectionTable(std::vector<uint16_t> table)
{
    NS_LOG_FUNCTION(this << table.size());
    NS_ABORT_MSG_IF(table.empty() || table.size() > 65536 || (table.size() & (table.size() - 1)),
                    "RssDistributor: found an indirection table of "
                        << table.size() << " entries, expected a power of two up to 65536");
    m_table = std::move(table);
}

const std::vector<uint16_t>&
RssDistributor::GetIndirectionTable() const
{
    return m_table;
}

void
RssDistributor::SetTableSize(uint32_t size)
{
    SetIndirectionTable(std::vector<uint16_t>(size));
    SetQueues(m_queues);
}

uint32_t
RssDistributor::GetTableSize() const
{
    return static_cast<uint32_t>(m_table.size());
}

void
RssDistributor::SetKey(std::string key)
{
    NS_LOG_FUNCTION(this << key);
    std::string digits;
    for (const char c : key)
    {
        if (c != ':' && c != ' ')
        {
            digits.push_back(c);
        }
    }
    const bool good =
        digits.size() == 2 * KEY_BYTES && std::all_of(digits.begin(), digits.end(), [](char c) {
            return std::isxdigit(static_cast<unsigned char>(c));
        });
    NS_ABORT_MSG_IF(!good,
                    "RssDistributor: found the key \""
                        << key << "\", expected 40 bytes as 80 hexadecimal digits");
    for (uint32_t i = 0; i < KEY_BYTES; i++)
    {
        m_key[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
    }
    for (uint32_t half = 0; half < m_halves.size(); half++)
    {
        // The 4 bits of this half meet the key's 32 bits from their own place on.
        uint64_t window = 0;
        for (uint32_t i = 0; i < 5; i++)
        {
            window = window << 8 | m_key[half / 2 + i];
        }
        window >>= half % 2 == 0 ? 4 : 0; // now 36 bits, the first 4 of them for our 4 bits
        for (uint32_t value = 0; value < 16; value++)
        {
            uint32_t hash = 0;
            for (uint32_t bit = 0; bit < 4; bit++)
            {
                if (value & (8U >> bit))
                {
                    hash ^= static_cast<uint32_t>(window >> (4 - bit));
                }
            }
            m_halves[half][value] = hash;
        }
    }
}

std::string
RssDistributor::GetKey() const
{
    constexpr const char* DIGITS = "0123456789abcdef";
    std::string key;
    for (const uint8_t byte : m_key)
    {
        key.push_back(DIGITS[byte >> 4]);
        key.push_back(DIGITS[byte & 15]);
    }
    return key;
}

} // namespace ns3
