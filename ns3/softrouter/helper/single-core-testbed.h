// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SINGLE_CORE_TESTBED_H
#define SOFTROUTER_SINGLE_CORE_TESTBED_H

#include "batch-server.h"
#include "router-testbed.h"

#include "ns3/soft-router-profile.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A router with one core, one flow one way and links so fast that they do not space packets
 * out: the simulator, compared with queueing theory.
 */
class SingleCoreTestbed
{
  public:
    static constexpr uint32_t FRAME = 64;                 //!< bytes
    static constexpr double WIRE_BITS = 8 * (FRAME + 20); //!< of a frame
    static constexpr double LINK_GBPS = 100;              //!< of both links

    /**
     * \param profile of the router, whose receive ring has at most BatchServer::MAX_RING places
     */
    explicit SingleCoreTestbed(const SoftRouterProfile& profile);

    /**
     * \return packets per ns that full bursts can do
     */
    double GetCapacity() const;
    /**
     * \param rate packets per ns
     * \return the mean sojourn time in theory, with Poisson arrivals: of M/D/1 where it takes one
     * packet at a time and can do them all, else of the batch server's Markov chain
     */
    double GetTheoryNs(double rate) const;
    /**
     * \brief Simulate.
     * \param rate packets per ns
     * \param packets that are measured
     * \param warmUp packets before
     * \param seed of random arrivals; 0: constant rate
     * \return what was measured
     */
    RouterTestbed::Result Run(double rate, double packets, double warmUp, uint32_t seed) const;

  private:
    SoftRouterProfile m_profile; //!< of the router
    BatchServer m_theory;        //!< the router in theory
};

} // namespace ns3

#endif // SOFTROUTER_SINGLE_CORE_TESTBED_H
