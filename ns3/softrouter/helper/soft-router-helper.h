// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOFT_ROUTER_HELPER_H
#define SOFTROUTER_SOFT_ROUTER_HELPER_H

#include "ns3/attribute.h"
#include "ns3/node-container.h"
#include "ns3/node.h"
#include "ns3/ptr.h"
#include "ns3/soft-router-profile.h"
#include "ns3/soft-router.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Turns an ordinary ns-3 node into a router with finite hardware.
 *
 * \code
 *     SoftRouterHelper helper;
 *     helper.Set("Cores", UintegerValue(4));
 *     Ptr<SoftRouter> router = helper.Install(node, "profile.json");
 * \endcode
 *
 * The node has its devices already. It forwards with its own stack as before, only later, and not
 * more than its cores can. The default queue disc of its ports gives way to a transmit ring. A node
 * of another rank of a distributed simulation is left alone.
 */
class SoftRouterHelper
{
  public:
    /**
     * \brief Set an attribute of the SoftRouter; it goes before what the profile says.
     * \param name of the attribute
     * \param value of the attribute
     */
    void Set(std::string name, const AttributeValue& value);
    /**
     * \brief Set an attribute of the cores' ContentionDomain.
     * \param name of the attribute
     * \param value of the attribute
     */
    void SetContention(std::string name, const AttributeValue& value);
    /**
     * \brief Forward without the nodes' stacks.
     * \param forward says which port a packet leaves by
     */
    void SetForward(SoftRouter::Forward forward);
    /**
     * \brief Install on a node. A profile that cannot be used ends the program: its reason is on
     * standard error, the status is 1.
     * \param node the router
     * \param file its profile
     * \return what was installed, aggregated to the node; null on another rank's node
     */
    Ptr<SoftRouter> Install(Ptr<Node> node, const std::string& file) const;
    /**
     * \brief Install on a node.
     * \param node the router
     * \param profile its profile
     * \return what was installed, aggregated to the node; null on another rank's node
     */
    Ptr<SoftRouter> Install(Ptr<Node> node, const SoftRouterProfile& profile) const;
    /**
     * \brief Install on several nodes.
     * \param nodes the routers
     * \param file the profile of each
     * \return what was installed, in the order of this rank's nodes
     */
    std::vector<Ptr<SoftRouter>> Install(NodeContainer nodes, const std::string& file) const;

    /**
     * \brief A forwarding function: what comes in by port 0 leaves by port 1 and the other way
     * round, and so for each further pair of ports.
     * \param item the packet
     * \return the port
     */
    static int32_t CrossConnect(const RouterItem& item);

  private:
    /**
     * \param profile of the router
     * \return the object, with all attributes set
     */
    Ptr<SoftRouter> Create(const SoftRouterProfile& profile) const;
    /**
     * \brief Put a transmit ring, and the buffer before it, in place of a port's queue disc.
     * \param router whose port it is
     * \param device the port
     * \param profile of the router
     */
    void InstallTransmitRing(Ptr<SoftRouter> router,
                             Ptr<NetDevice> device,
                             const SoftRouterProfile& profile) const;

    /// Name and value of an attribute.
    using Attribute = std::pair<std::string, Ptr<AttributeValue>>;

    std::vector<Attribute> m_attributes; //!< of the router
    std::vector<Attribute> m_contention; //!< of its contention domain
    SoftRouter::Forward m_forward;       //!< instead of the nodes' stacks
};

} // namespace ns3

#endif // SOFTROUTER_SOFT_ROUTER_HELPER_H
