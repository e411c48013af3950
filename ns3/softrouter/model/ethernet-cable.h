// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ETHERNET_CABLE_H
#define SOFTROUTER_ETHERNET_CABLE_H

#include "ns3/channel.h"
#include "ns3/net-device.h"
#include "ns3/nstime.h"
#include "ns3/ptr.h"
#include "ns3/type-id.h"

#include <array>
#include <cstddef>

namespace ns3
{

class EthernetPort;

/**
 * \ingroup softrouter
 * \brief What two EthernetPorts are connected by.
 */
class EthernetCable : public Channel
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    EthernetCable();
    ~EthernetCable() override;

    /**
     * \brief Connects two ports.
     * \param first a port
     * \param second another one, of the same rate
     */
    void Connect(Ptr<EthernetPort> first, Ptr<EthernetPort> second);

    /**
     * \brief Gets the propagation delay.
     * \return time from one end to the other
     */
    Time GetDelay() const;

    std::size_t GetNDevices() const override;
    Ptr<NetDevice> GetDevice(std::size_t i) const override;

  protected:
    void DoDispose() override;

  private:
    std::array<Ptr<EthernetPort>, 2> m_ends; //!< the ports
    Time m_delay;                            //!< from one to the other
};

} // namespace ns3

#endif // SOFTROUTER_ETHERNET_CABLE_H
