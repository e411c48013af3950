// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_BATCH_SERVICE_TIME_MODEL_H
#define SOFTROUTER_BATCH_SERVICE_TIME_MODEL_H

#include "service-time-model.h"

#include "ns3/type-id.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A service time of bursts, with what misses the cache.
 *
 *     T(n) = c_b + sum over the packets of (c_p + c_B S_i + m(W) L_miss + q_i c_q)
 *            + [any q_i] c_qb + d (k - 1) + u [two-way]
 *
 * in ns, n packets in frames of S_i bytes, k cores. q_i is 1 for a packet that is punted, else 0:
 * a simulation knows which of a burst's packets are, while closed forms have to take the share p of
 * packets for q_i, and 1 - (1 - p)^n, the share of bursts of n with at least one of them, for [any
 * q_i]. m(W) = max(0, 1 - cache / W) is the share of
 * lookups that miss a cache of that size when W bytes of the routing table are in use. With
 * ContentionPerPacket the last two terms count for each packet instead of each burst.
 *
 * Defaults are those of the oracle in the module's tests (400 + 300 n ns), not of a real router.
 */
class BatchServiceTimeModel : public ServiceTimeModel
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    BatchServiceTimeModel();
    ~BatchServiceTimeModel() override;

    double GetBurstNs(const ServiceContext& context) const override;
    double GetPacketNs(uint32_t frameSize, const ServiceContext& context) const override;
    double GetPuntNs() const override;
    double GetPuntBurstNs() const override;

    /**
     * \brief Gets the share of lookups that miss the cache, m(W).
     * \param workingSet bytes in use (W)
     * \return 0 to 1
     */
    double GetMissShare(double workingSet) const;

  private:
    /**
     * \brief Gets the cost of sharing the machine, d (k - 1) + u [two-way].
     * \param context what the cost depends on
     * \return nanoseconds
     */
    double GetContentionNs(const ServiceContext& context) const;

    double m_burst;             //!< ns per burst (c_b)
    double m_packet;            //!< ns per packet (c_p)
    double m_byte;              //!< ns per byte of frame (c_B)
    double m_miss;              //!< ns per lookup that misses the cache (L_miss)
    double m_cache;             //!< bytes of cache
    double m_d;                 //!< ns per further core
    double m_u;                 //!< ns where traffic is two-way
    double m_punt;              //!< ns per packet for the slow path (c_q)
    double m_puntBurst;         //!< ns per burst with such packets (c_qb)
    bool m_contentionPerPacket; //!< whether m_d and m_u count per packet
};

} // namespace ns3

#endif // SOFTROUTER_BATCH_SERVICE_TIME_MODEL_H
