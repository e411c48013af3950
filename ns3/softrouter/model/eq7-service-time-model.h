// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_EQ7_SERVICE_TIME_MODEL_H
#define SOFTROUTER_EQ7_SERVICE_TIME_MODEL_H

#include "service-time-model.h"

#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief The published service time: a rate that is linear in cores and in frame size.
 *
 * Measured rates of a router with k cores and frames of S bytes follow (Eq. 5)
 *
 *     D(k, S) = (a k + a0) S + (b k + b0)   Gbit/s on the wire,
 *
 * D = (S + 20) 8 lambda (Eq. 8: preamble, start delimiter and gap are 20 bytes). Each of the k
 * cores forwards a k-th of the packets, so that a packet keeps its core busy for (Eq. 7)
 *
 *     x = k (S + 20) 8 / D(k, S)   ns.
 *
 * A burst costs nothing of its own, and the direction of the packets does not matter. Defaults are
 * the parameters of the published case study.
 */
class Eq7ServiceTimeModel : public ServiceTimeModel
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    Eq7ServiceTimeModel();
    ~Eq7ServiceTimeModel() override;

    double GetBurstNs(const ServiceContext& context) const override;
    double GetPacketNs(uint32_t frameSize, const ServiceContext& context) const override;

  private:
    double m_a;  //!< Gbit/s per byte of frame and core
    double m_a0; //!< Gbit/s per byte of frame
    double m_b;  //!< Gbit/s per core
    double m_b0; //!< Gbit/s
};

} // namespace ns3

#endif // SOFTROUTER_EQ7_SERVICE_TIME_MODEL_H
