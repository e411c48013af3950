// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RSS_DISTRIBUTOR_H
#define SOFTROUTER_RSS_DISTRIBUTOR_H

#include "ns3/object.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"
#include "ns3/type-id.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Receive side scaling: which receive queue a packet goes to.
 *
 * A packet's flow is hashed by Toeplitz' function (Microsoft, "RSS hashing functions" and
 * "Verifying the RSS hash calculation"): over source and destination address, and over both ports
 * where the packet is TCP or UDP and not a fragment. The low bits of the hash choose an entry of
 * the indirection table, and that holds the queue.
 */
class RssDistributor : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    RssDistributor();
    ~RssDistributor() override;

    /**
     * \brief Hashes the flow of a packet.
     *
     * A packet that ends in the middle of its ports is hashed over the addresses alone.
     *
     * \param packet a packet that begins with its IP header
     * \param protocol the Ethernet type: 0x0800 IPv4, 0x86dd IPv6
     * \return the hash; 0 if it is another protocol, or no whole IP header
     */
    uint32_t Hash(Ptr<const Packet> packet, uint16_t protocol) const;

    /**
     * \brief Hashes bytes by Toeplitz' function.
     * \param data the bytes
     * \param size how many; only the first 36 count (IPv6 addresses and ports)
     * \return the hash
     */
    uint32_t HashBytes(const uint8_t* data, uint32_t size) const;

    /**
     * \brief Gets the queue for a hash.
     * \param hash the hash
     * \return the queue, from 0
     */
    uint32_t GetQueue(uint32_t hash) const
    {
        return m_table[hash & (m_table.size() - 1)];
    }

    /**
     * \brief Fills the indirection table: entry i leads to queue i % queues.
     * \param queues how many queues there are, 1 to 65536
     */
    void SetQueues(uint32_t queues);

    /**
     * \brief Replaces the indirection table.
     * \param table a queue for each value of the hash's low bits; its size is a power of two
     */
    void SetIndirectionTable(std::vector<uint16_t> table);

    /**
     * \brief Gets the indirection table.
     * \return a queue for each value of the hash's low bits
     */
    const std::vector<uint16_t>& GetIndirectionTable() const;

    /**
     * \brief Sets the size of the indirection table, and refills it.
     * \param size entries, a power of two from 1 to 65536
     */
    void SetTableSize(uint32_t size);

    /**
     * \brief Gets the size of the indirection table.
     * \return entries
     */
    uint32_t GetTableSize() const;

    /**
     * \brief Sets the secret key.
     * \param key 40 bytes in hexadecimal; colons and spaces between them do not count
     */
    void SetKey(std::string key);

    /**
     * \brief Gets the secret key.
     * \return 80 hexadecimal digits
     */
    std::string GetKey() const;

  private:
    static constexpr uint32_t KEY_BYTES = 40;   //!< as network cards have it
    static constexpr uint32_t INPUT_BYTES = 36; //!< the key is long enough for these

    /**
     * \brief Hashes the flow of an IPv4 packet.
     * \param packet a packet that begins with its IPv4 header
     * \return the hash; 0 if there is no whole header
     */
    uint32_t HashIpv4(const Packet& packet) const;

    /**
     * \brief Hashes the flow of an IPv6 packet.
     * \param packet a packet that begins with its IPv6 header
     * \return the hash; 0 if there is no whole header
     */
    uint32_t HashIpv6(const Packet& packet) const;

    std::array<uint8_t, KEY_BYTES> m_key; //!< the secret key
    /// What each half of each byte of input adds (by exclusive or) to the hash, by its 16 values.
    std::array<std::array<uint32_t, 16>, 2 * INPUT_BYTES> m_halves;
    std::vector<uint16_t> m_table; //!< the indirection table
    uint32_t m_queues{1};          //!< what the table was filled for
};

} // namespace ns3

#endif // SOFTROUTER_RSS_DISTRIBUTOR_H
