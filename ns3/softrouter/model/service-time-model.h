// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SERVICE_TIME_MODEL_H
#define SOFTROUTER_SERVICE_TIME_MODEL_H

#include "ns3/object.h"
#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief What the cost of a burst depends on, besides its packets.
 */
struct ServiceContext
{
    uint32_t cores{1};    //!< cores that are allotted to forwarding (k)
    bool twoWay{false};   //!< whether packets cross the router in both directions
    double workingSet{0}; //!< bytes of the routing table that are looked up (W)
};

/**
 * \ingroup softrouter
 * \brief How long a core works on a burst of packets.
 *
 * A burst of packets with frame sizes S_1 ... S_n takes
 *
 *     T = GetBurstNs() + GetPacketNs(S_1) + ... + GetPacketNs(S_n)   nanoseconds,
 *
 * and, if q > 0 of them are for the slow path, GetPuntBurstNs() + q GetPuntNs() more.
 *
 * Times are double, not Time: a service time cut to whole nanoseconds explains most of the
 * difference between the published equation and the published simulation. A caller
 * that schedules an event from the sum rounds once, to the resolution of the simulation.
 */
class ServiceTimeModel : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    ~ServiceTimeModel() override;

    /**
     * \brief Gets what a burst costs, however many packets are in it.
     * \param context what the cost depends on
     * \return nanoseconds
     */
    virtual double GetBurstNs(const ServiceContext& context) const = 0;

    /**
     * \brief Gets what one packet of a burst costs. Called once per simulated packet.
     * \param frameSize bytes from the Ethernet header to the FCS (S)
     * \param context what the cost depends on
     * \return nanoseconds
     */
    virtual double GetPacketNs(uint32_t frameSize, const ServiceContext& context) const = 0;

    /**
     * \brief Gets what a packet for the slow path costs the core that gives it away, more than one
     * that it forwards.
     * \return nanoseconds; 0 unless a model says otherwise
     */
    virtual double GetPuntNs() const;

    /**
     * \brief Gets what a burst costs more if there are such packets in it, however many.
     * \return nanoseconds; 0 unless a model says otherwise
     */
    virtual double GetPuntBurstNs() const;
};

} // namespace ns3

#endif // SOFTROUTER_SERVICE_TIME_MODEL_H
