// SPDX-License-Identifier: GPL-2.0-only
#include "test-seed.h"

#include "ns3/ipv4-address.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv6-address.h"
#include "ns3/ipv6-header.h"
#include "ns3/packet.h"
#include "ns3/rss-distributor.h"
#include "ns3/string.h"
#include "ns3/test.h"
#include "ns3/udp-header.h"
#include "ns3/uinteger.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// A row of Microsoft's "Verifying the RSS Hash Calculation".
struct Vector
{
    const char* destination;
    uint16_t destinationPort;
    const char* source;
    uint16_t sourcePort;
    uint32_t addresses; // hash over the addresses
    uint32_t ports;     // hash over addresses and ports
};

const std::vector<Vector> g_vectors4 = {
    {"161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178},
    {"65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea},
    {"12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a},
    {"209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f},
    {"202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2},
};

const std::vector<Vector> g_vectors6 = {
    {"3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d},
    {"ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c, 0xdde51bbf},
    {"fe80::200:f8ff:fe21:67cf",
     38024,
     "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
     44251,
     0x4b61e985,
     0x02d1feef},
};

/// Bytes of a header, as ns-3 writes it.
template <class T>
std::vector<uint8_t>
BytesOf(const T& header)
{
    auto packet = Create<Packet>();
    packet->AddHeader(header);
    std::vector<uint8_t> bytes(packet->GetSize());
    packet->CopyData(bytes.data(), bytes.size());
    return bytes;
}

/// An IPv4 header with these addresses.
Ipv4Header
Header4(const Vector& row, uint8_t protocol)
{
    Ipv4Header header;
    header.SetSource(Ipv4Address(row.source));
    header.SetDestination(Ipv4Address(row.destination));
    header.SetProtocol(protocol);
    header.SetPayloadSize(8);
    header.SetTtl(64);
    return header;
}

/// An IPv6 header with these addresses.
Ipv6Header
Header6(const Vector& row, uint8_t next)
{
    Ipv6Header header;
    header.SetSource(Ipv6Address(row.source));
    header.SetDestination(Ipv6Address(row.destination));
    header.SetNextHeader(next);
    header.SetPayloadLength(8);
    header.SetHopLimit(64);
    return header;
}

/// A packet of these bytes.
Ptr<Packet>
PacketOf(const std::vector<uint8_t>& bytes)
{
    return Create<Packet>(bytes.data(), static_cast<uint32_t>(bytes.size()));
}

/// Both ports, in network order, and a little more.
std::vector<uint8_t>
PortBytes(const Vector& row)
{
    return {static_cast<uint8_t>(row.sourcePort >> 8),
            static_cast<uint8_t>(row.sourcePort),
            static_cast<uint8_t>(row.destinationPort >> 8),
            static_cast<uint8_t>(row.destinationPort),
            0,
            8,
            0,
            0};
}

/// One run of bytes after the other.
std::vector<uint8_t>
operator+(std::vector<uint8_t> left, const std::vector<uint8_t>& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

/// The first bytes of some.
std::vector<uint8_t>
First(const std::vector<uint8_t>& bytes, std::size_t count)
{
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

/**
 * \brief Microsoft's vectors over IPv4, and what is hashed without ports.
 */
class RssIpv4Test : public TestCase
{
  public:
    RssIpv4Test()
        : TestCase("Microsoft's vectors over IPv4")
    {
    }

  private:
    void DoRun() override
    {
        auto rss = CreateObject<RssDistributor>();
        for (const Vector& row : g_vectors4)
        {
            for (const uint8_t protocol : {6, 17})
            {
                const auto header = BytesOf(Header4(row, protocol));
                const auto whole = header + PortBytes(row);
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(whole), 0x0800), row.ports, row.source);
                for (std::size_t size = 0; size < 24; size++)
                {
                    NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(First(whole, size)), 0x0800),
                                          (size < 20 ? 0 : row.addresses),
                                          row.source << " cut to " << size << " bytes");
                }
                // 4 words of options: the ports are behind them.
                auto options = header;
                options[0] = 0x49;
                options.resize(36);
                const auto more = options + PortBytes(row);
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(more), 0x0800), row.ports, "options");
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(First(more, 39)), 0x0800),
                                      row.addresses,
                                      "options, half of the ports");
                // Fragments: the first one has ports, but the others must meet it.
                auto first = whole;
                first[6] = 0x20;
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(first), 0x0800), row.addresses, "first");
                auto second = whole;
                second[7] = 185;
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(second), 0x0800), row.addresses, "next");
                auto whollyWhole = whole;
                whollyWhole[6] = 0x40;
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(whollyWhole), 0x0800),
                                      row.ports,
                                      "do not fragment");
            }
            const auto icmp = BytesOf(Header4(row, 1)) + PortBytes(row);
            NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(icmp), 0x0800), row.addresses, "ICMP");
            NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(icmp), 0x86dd), 0, "this is no IPv6");
            NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(icmp), 0x0806), 0, "no IP");

            // As a source of traffic makes it: headers before a payload that has no bytes.
            auto packet = Create<Packet>(100);
            UdpHeader udp;
            udp.SetSourcePort(row.sourcePort);
            udp.SetDestinationPort(row.destinationPort);
            packet->AddHeader(udp);
            packet->AddHeader(Header4(row, 17));
            NS_TEST_EXPECT_MSG_EQ(rss->Hash(packet, 0x0800), row.ports, "a packet of ns-3");
        }
    }
};

/**
 * \brief Microsoft's vectors over IPv6, extension headers, and what is hashed without ports.
 */
class RssIpv6Test : public TestCase
{
  public:
    RssIpv6Test()
        : TestCase("Microsoft's vectors over IPv6")
    {
    }

  private:
    void DoRun() override
    {
        auto rss = CreateObject<RssDistributor>();
        for (const Vector& row : g_vectors6)
        {
            for (const uint8_t protocol : {6, 17})
            {
                const auto whole = BytesOf(Header6(row, protocol)) + PortBytes(row);
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(whole), 0x86dd), row.ports, row.source);
                for (std::size_t size = 0; size < 44; size++)
                {
                    NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(First(whole, size)), 0x86dd),
                                          (size < 40 ? 0 : row.addresses),
                                          row.source << " cut to " << size << " bytes");
                }
                // Hop-by-hop options of 8 bytes, destination options of 24, then the ports.
                std::vector<uint8_t> hops(8);
                hops[0] = 60;
                std::vector<uint8_t> options(24);
                options[0] = protocol;
                options[1] = 2;
                const auto extended = BytesOf(Header6(row, 0)) + hops + options + PortBytes(row);
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(extended), 0x86dd), row.ports, "options");
                for (std::size_t size = 40; size < 76; size++)
                {
                    NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(First(extended, size)), 0x86dd),
                                          row.addresses,
                                          "options, cut to " << size << " bytes");
                }
                std::vector<uint8_t> fragment(8);
                fragment[0] = protocol;
                const auto part = BytesOf(Header6(row, 44)) + fragment + PortBytes(row);
                NS_TEST_EXPECT_MSG_EQ(rss->Hash(PacketOf(part), 0x86dd), row.addresses, "part");
            }
        }
    }
};

/**
 * \brief The tables give what the definition gives, bit by bit, for random keys and inputs.
 */
class RssOracleTest : public TestCase
{
  public:
    RssOracleTest()
        : TestCase("Toeplitz by tables and by its definition, random keys and bytes")
    {
    }

  private:
    /// For each bit of the input that is set: exclusive or of the key's 32 bits from there on.
    static uint32_t Toeplitz(const std::vector<uint8_t>& key, const std::vector<uint8_t>& input)
    {
        uint32_t hash = 0;
        for (std::size_t bit = 0; bit < input.size() * 8; bit++)
        {
            if (!(input[bit / 8] & (128 >> bit % 8)))
            {
                continue;
            }
            uint32_t window = 0;
            for (std::size_t i = bit; i < bit + 32; i++)
            {
                window = window << 1 | (key[i / 8] >> (7 - i % 8) & 1);
            }
            hash ^= window;
        }
        return hash;
    }

    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-rss-distributor");
        std::mt19937 random(seed);
        auto rss = CreateObject<RssDistributor>();
        for (uint32_t round = 0; round < GetTestRounds(200); round++)
        {
            std::vector<uint8_t> key(40);
            std::string digits;
            for (uint8_t& byte : key)
            {
                byte = static_cast<uint8_t>(random());
                char text[4];
                std::snprintf(text, sizeof text, "%02X:", byte);
                digits += text;
            }
            rss->SetAttribute("Key", StringValue(digits));
            std::vector<uint8_t> input(random() % 37);
            for (uint8_t& byte : input)
            {
                byte = static_cast<uint8_t>(random());
            }
            NS_TEST_ASSERT_MSG_EQ(rss->HashBytes(input.data(), static_cast<uint32_t>(input.size())),
                                  Toeplitz(key, input),
                                  "seed " << seed << ", round " << round << ", key "
                                          << rss->GetKey());
            if (IsStatusFailure())
            {
                return; // an ASSERT alone goes on
            }
        }
    }
};

/**
 * \brief From hashes to queues.
 */
class RssTableTest : public TestCase
{
  public:
    RssTableTest()
        : TestCase("the indirection table")
    {
    }

  private:
    void DoRun() override
    {
        auto rss = CreateObject<RssDistributor>();
        NS_TEST_EXPECT_MSG_EQ(rss->GetTableSize(), 128, "entries");
        NS_TEST_EXPECT_MSG_EQ(rss->GetQueue(0xffffffff), 0, "one queue to begin with");
        rss->SetQueues(3);
        for (const uint32_t hash : {0U, 1U, 2U, 3U, 127U, 128U, 0xdeadbeefU})
        {
            NS_TEST_EXPECT_MSG_EQ(rss->GetQueue(hash), hash % 128 % 3, "hash " << hash);
        }
        rss->SetAttribute("TableSize", UintegerValue(16));
        NS_TEST_EXPECT_MSG_EQ(rss->GetQueue(0xdeadbeef), 15 % 3, "refilled, 3 queues");
        rss->SetIndirectionTable({7, 9});
        NS_TEST_EXPECT_MSG_EQ(rss->GetQueue(4), 7, "even hashes");
        NS_TEST_EXPECT_MSG_EQ(rss->GetQueue(5), 9, "odd hashes");
        NS_TEST_EXPECT_MSG_EQ(rss->GetTableSize(), 2, "entries");
        NS_TEST_EXPECT_MSG_EQ(rss->GetKey().substr(0, 8), "6d5a56da", "Microsoft's key");
    }
};

/**
 * \brief The suite of receive side scaling.
 */
class RssDistributorTestSuite : public TestSuite
{
  public:
    RssDistributorTestSuite()
        : TestSuite("softrouter-rss-distributor", Type::UNIT)
    {
        AddTestCase(new RssIpv4Test);
        AddTestCase(new RssIpv6Test);
        AddTestCase(new RssOracleTest);
        AddTestCase(new RssTableTest);
    }
};

RssDistributorTestSuite g_rssDistributorTestSuite; //!< registers the suite

} // namespace
