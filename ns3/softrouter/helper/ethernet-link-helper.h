// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ETHERNET_LINK_HELPER_H
#define SOFTROUTER_ETHERNET_LINK_HELPER_H

#include "ns3/data-rate.h"
#include "ns3/net-device-container.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/ptr.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Links nodes by point-to-point devices whose timing is Ethernet's.
 *
 * On Ethernet a frame of S bytes (header to FCS) takes S + 20 byte times: preamble, start delimiter
 * and gap are 20 bytes. It carries a packet of S - 18 bytes. The point-to-point device sends that
 * packet and 2 bytes of PPP; an interframe gap of 36 byte times makes S - 18 + 2 + 36 = S + 20. A
 * packet arrives when its last byte does, 36 byte times before the next one may start. What is
 * shorter than 46 bytes is not padded to Ethernet's 64.
 *
 * Byte times of fast links are no whole nanoseconds (67.2 ns for 64 bytes at 10 Gbit/s): call
 * `Time::SetResolution(Time::PS)` before anything else.
 *
 * Nodes of different system ids are linked by ns-3's remote channel, as PointToPointHelper does.
 */
class EthernetLinkHelper
{
  public:
    EthernetLinkHelper();

    /**
     * \brief Sets the links' rate. 10 Gbit/s unless set.
     * \param rate more than 0
     */
    void SetRate(DataRate rate);

    /**
     * \brief Sets the links' propagation delay. None unless set.
     * \param delay which must be more than 0 where a distributed simulation is cut
     */
    void SetDelay(Time delay);

    /**
     * \brief Sets the devices' transmit queue, a NIC's transmit ring. 512 packets unless set.
     * \param packets at least 1
     */
    void SetQueueSize(uint32_t packets);

    /**
     * \brief Sets how much a packet may have for an IP node to send it. 1500 bytes unless set.
     * \param mtu bytes
     */
    void SetMtu(uint16_t mtu);

    /**
     * \brief Lets full devices hold up the queue discs of IP nodes. Off unless set.
     *
     * Without it, ns-3 gives the devices no queue disc by itself, the default FqCoDel neither, and
     * what the transmit ring has no room for is lost, as with a NIC.
     *
     * \param on whether they do
     */
    void SetFlowControl(bool on);

    /**
     * \brief Makes links of EthernetPorts instead of point-to-point devices. Off unless set.
     *
     * These take a fraction of the time to simulate, pad short frames, and have a packet arrive
     * with its last bit. They know no flow control, and cannot be cut in a distributed simulation.
     *
     * \param on whether they do
     */
    void SetRaw(bool on);

    /**
     * \brief Links two nodes.
     * \param first a node
     * \param second another one
     * \return a device of each
     */
    NetDeviceContainer Install(Ptr<Node> first, Ptr<Node> second) const;

  private:
    /**
     * \brief Links two nodes by EthernetPorts.
     * \param first a node
     * \param second another one
     * \return a device of each
     */
    NetDeviceContainer InstallRaw(Ptr<Node> first, Ptr<Node> second) const;

    DataRate m_rate;      //!< of links
    Time m_delay;         //!< of links
    uint32_t m_queueSize; //!< packets
    uint16_t m_mtu;       //!< bytes
    bool m_flowControl;   //!< whether queue discs are held up
    bool m_raw;           //!< whether devices are EthernetPorts
};

} // namespace ns3

#endif // SOFTROUTER_ETHERNET_LINK_HELPER_H
