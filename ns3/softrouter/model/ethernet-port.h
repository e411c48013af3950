// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ETHERNET_PORT_H
#define SOFTROUTER_ETHERNET_PORT_H

#include "ethernet-cable.h"

#include "ns3/address.h"
#include "ns3/callback.h"
#include "ns3/data-rate.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/ptr.h"
#include "ns3/traced-callback.h"
#include "ns3/type-id.h"

#include <cstdint>
#include <deque>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A full-duplex Ethernet port that costs the simulator little: one event per packet.
 *
 * A packet of n bytes becomes a frame of S = max(n + 18, 64) bytes, header and FCS included. It
 * takes S + 20 byte times on the wire: 8 of preamble and start delimiter before it, 12 of gap
 * behind it. It arrives with its last bit. What does not fit into the transmit ring (QueueSize
 * packets, besides the one on the wire) is refused.
 *
 * As a port sends in the order in which it is given packets, the time of each is known when it is
 * given: the port schedules the arrival, and nothing else. That is why there is no queue of ns-3 in
 * it, no flow control for queue discs, and no PPP or Ethernet header in the packet; the protocol
 * travels beside it. An IP stack can use it, but PointToPointNetDevice offers that more.
 */
class EthernetPort : public NetDevice
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    EthernetPort();
    ~EthernetPort() override;

    /**
     * \brief Takes an end of a cable. Called by EthernetCable::Connect().
     * \param cable between the ports
     * \param peer the port at its other end
     */
    void Plug(Ptr<EthernetCable> cable, Ptr<EthernetPort> peer);

    /**
     * \brief Gets how many packets wait in the transmit ring.
     * \return packets, without the one on the wire
     */
    uint32_t GetWaiting();

    // Inherited
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
    Address GetMulticast(Ipv4Address group) const override;
    Address GetMulticast(Ipv6Address address) const override;
    bool IsBridge() const override;
    bool IsPointToPoint() const override;
    bool Send(Ptr<Packet> packet, const Address& to, uint16_t protocol) override;
    bool SendFrom(Ptr<Packet> packet,
                  const Address& from,
                  const Address& to,
                  uint16_t protocol) override;
    Ptr<Node> GetNode() const override;
    void SetNode(Ptr<Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(ReceiveCallback callback) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback callback) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    /**
     * \brief Sets the rate.
     * \param rate more than 0
     */
    void SetRate(DataRate rate);

    /**
     * \brief Gets the rate.
     * \return bits per second
     */
    DataRate GetRate() const;

    /**
     * \brief Gets how long bytes take.
     * \param bytes on the wire
     * \return time steps of the simulation
     */
    double GetSteps(uint32_t bytes);

    /**
     * \brief Takes a packet whose last bit has come.
     * \param packet the packet
     * \param protocol its Ethernet type
     */
    void Receive(Ptr<Packet> packet, uint16_t protocol);

    DataRate m_rate;                  //!< of the link
    double m_stepsPerByte{0};         //!< time steps; 0 until the first packet
    uint32_t m_queueSize;             //!< packets
    uint16_t m_mtu;                   //!< bytes
    uint32_t m_index{0};              //!< in the node
    Ptr<Node> m_node;                 //!< whose port it is
    Mac48Address m_address;           //!< its own
    Address m_peerAddress;            //!< of the port at the other end
    Ptr<EthernetCable> m_cable;       //!< to the other end
    Ptr<EthernetPort> m_peer;         //!< at the other end
    int64_t m_delay{0};               //!< of the cable, time steps
    int64_t m_free{0};                //!< when the next packet can start, time steps
    double m_carry{0};                //!< part of a time step that m_free leaves out
    std::deque<int64_t> m_waiting;    //!< when each packet of the ring starts, time steps
    ReceiveCallback m_receive;        //!< takes packets
    PromiscReceiveCallback m_promisc; //!< sees packets
    TracedCallback<Ptr<const Packet>> m_txTrace;   //!< a packet is given to the port
    TracedCallback<Ptr<const Packet>> m_dropTrace; //!< a packet is refused
    TracedCallback<Ptr<const Packet>> m_rxTrace;   //!< a packet came
    TracedCallback<> m_linkTrace;                  //!< the link came up
};

} // namespace ns3

#endif // SOFTROUTER_ETHERNET_PORT_H
