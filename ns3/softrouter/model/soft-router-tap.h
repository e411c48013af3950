// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOFT_ROUTER_TAP_H
#define SOFTROUTER_SOFT_ROUTER_TAP_H

#include "ns3/net-device.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief The way back into a node: a device that sends nothing and hands packets to the node as if
 * they came from another one of its devices.
 *
 * A node gives each device that is added to it the private callback by which it receives. A router
 * with finite cores takes its ports' packets for itself, and when it has worked on them, gives
 * them to the node through this device, still under the port's name. So ns-3's own stack forwards
 * them, unchanged.
 */
class SoftRouterTap : public NetDevice
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    SoftRouterTap();
    ~SoftRouterTap() override;

    /**
     * \brief Hand a packet to the node.
     * \param port the device it came from
     * \param packet the packet, its link-layer header removed
     * \param protocol its Ethernet type
     * \param from its link-layer source
     * \return whether the node had a use for it
     */
    bool HandOver(Ptr<NetDevice> port,
                  Ptr<const Packet> packet,
                  uint16_t protocol,
                  const Address& from);

    // Inherited; it has an index and a node, and is otherwise a link that is down.
    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    Ptr<Channel> GetChannel() const override;
    void SetAddress(Address address) override;
    Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool IsBroadcast() const override;
    Address GetBroadcast() const override;
    bool IsMulticast() const override;
    Address GetMulticast(Ipv4Address multicastGroup) const override;
    Address GetMulticast(Ipv6Address addr) const override;
    bool IsBridge() const override;
    bool IsPointToPoint() const override;
    bool Send(Ptr<Packet> packet, const Address& dest, uint16_t protocolNumber) override;
    bool SendFrom(Ptr<Packet> packet,
                  const Address& source,
                  const Address& dest,
                  uint16_t protocolNumber) override;
    Ptr<Node> GetNode() const override;
    void SetNode(Ptr<Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(NetDevice::ReceiveCallback cb) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback cb) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    uint32_t m_index{0};                  //!< of the device, given by the node
    uint16_t m_mtu{1500};                 //!< as it was set
    Address m_address;                    //!< as it was set
    Ptr<Node> m_node;                     //!< where it is
    NetDevice::ReceiveCallback m_receive; //!< how the node receives
};

} // namespace ns3

#endif // SOFTROUTER_SOFT_ROUTER_TAP_H
