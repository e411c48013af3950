// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_LINEAR_CONTENTION_SERVICE_TIME_MODEL_H
#define SOFTROUTER_LINEAR_CONTENTION_SERVICE_TIME_MODEL_H

#include "service-time-model.h"

#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A service time that grows linearly with the cores that share a memory.
 *
 *     x = c0 + c_byte S + d (k - 1) + u [two-way]   ns for a packet in a frame of S bytes,
 *
 * k cores, and u only where packets cross the router in both directions. A burst costs nothing of
 * its own. Defaults follow from the published measurements at 64 bytes and 1, 2 and 4 cores; the
 * form was chosen after these data had been seen.
 */
class LinearContentionServiceTimeModel : public ServiceTimeModel
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    LinearContentionServiceTimeModel();
    ~LinearContentionServiceTimeModel() override;

    double GetBurstNs(const ServiceContext& context) const override;
    double GetPacketNs(uint32_t frameSize, const ServiceContext& context) const override;

  private:
    double m_c0;    //!< ns per packet
    double m_cByte; //!< ns per byte of frame
    double m_d;     //!< ns per packet and further core
    double m_u;     //!< ns per packet where traffic is two-way
};

} // namespace ns3

#endif // SOFTROUTER_LINEAR_CONTENTION_SERVICE_TIME_MODEL_H
