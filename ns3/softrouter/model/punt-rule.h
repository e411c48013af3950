// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_PUNT_RULE_H
#define SOFTROUTER_PUNT_RULE_H

#include "router-item.h"

#include "ns3/object.h"

#include <cstdint>
#include <vector>

namespace ns3
{

class Node;

/**
 * \ingroup softrouter
 * \brief Which packets a router's fast path cannot finish: the same as in a real one.
 *
 * Neither IPv4 nor IPv6 (ARP); IPv4 with options (RFC 1812, 5.2.4.1); IPv6 with hop-by-hop options
 * (RFC 8200, 4.3); a TTL or hop limit that ends here; multicast; the node's own addresses;
 * fragments are forwarded as they are.
 */
class PuntRule : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    PuntRule();
    ~PuntRule() override;

    /**
     * \param item a packet
     * \param node the router, whose addresses are local
     * \return whether it is one for the slow path
     */
    bool Matches(const RouterItem& item, const Node& node) const;

  private:
    /**
     * \param header first bytes of the packet
     * \param size how many there are
     * \param node the router
     * \return whether this IPv4 packet is one for the slow path
     */
    bool MatchesIpv4(const uint8_t* header, uint32_t size, const Node& node) const;
    /**
     * \param header first bytes of the packet
     * \param size how many there are
     * \param node the router
     * \return whether this IPv6 packet is one for the slow path
     */
    bool MatchesIpv6(const uint8_t* header, uint32_t size, const Node& node) const;
};

} // namespace ns3

#endif // SOFTROUTER_PUNT_RULE_H
