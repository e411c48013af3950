// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_BATCH_SERVER_H
#define SOFTROUTER_BATCH_SERVER_H

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A core with one receive ring in theory, to compare simulations with: Poisson arrivals, at
 * most B packets at once, T(n) = burst + n packet, all of them done at its end.
 *
 * What is in the ring whenever the core is done with a burst is a Markov chain ("embedded": Kendall
 * 1953; Bailey 1954 for bulk service). Its stationary distribution is computed by the elimination
 * of Grassmann, Taksar and Heyman (1985), which subtracts nothing; mean sojourn times follow by
 * Little's law. Packets that find the ring full are lost, so that loads of 1 and more have an
 * answer too.
 */
class BatchServer
{
  public:
    /// Largest ring that is calculated; the matrix has the square of it.
    static constexpr uint32_t MAX_RING = 2048;

    /// The server in its steady state.
    struct Steady
    {
        double sojournNs; //!< mean, of the packets that were not lost
        double loss;      //!< share of the packets, 0 to 1
        double batch;     //!< mean packets of a burst
    };

    /**
     * \param burstNs what a burst takes besides its packets
     * \param packetNs what each of its packets takes
     * \param burst packets at once, at most
     * \param ring packets that may wait, those that are being served not counted; at most MAX_RING
     */
    BatchServer(double burstNs, double packetNs, uint32_t burst, uint32_t ring);

    /**
     * \return packets per ns that full bursts can do
     */
    double GetCapacity() const;
    /**
     * \param rate of the arrivals, packets per ns, more than 0
     * \return the steady state, from the chain
     */
    Steady Solve(double rate) const;
    /**
     * \brief The mean sojourn time of M/D/1 (Pollaczek 1930, Khinchine 1932): one packet at a time
     * and a ring without end.
     * \param rate of the arrivals, packets per ns, below the capacity
     * \return x + rate x^2 / (2 (1 - rate x)) in ns
     */
    double GetMd1Ns(double rate) const;

  private:
    /**
     * \param queued packets in the ring
     * \return packets that the core takes; with none in the ring, it waits for one
     */
    uint32_t GetBatch(uint32_t queued) const;
    /**
     * \param packets of a burst
     * \return ns that it takes
     */
    double GetServiceNs(uint32_t packets) const;
    /**
     * \param rate of the arrivals
     * \return for each number in the ring, its share of the moments at which a burst is done
     */
    std::vector<double> GetStationary(double rate) const;
    /**
     * \brief Packets in the ring, integrated over a burst's service.
     * \param rate of the arrivals
     * \param rest packets left in the ring at its beginning
     * \param service ns that it takes
     * \return packets times ns
     */
    double GetRingArea(double rate, uint32_t rest, double service) const;

    double m_burstNs;  //!< of a burst
    double m_packetNs; //!< of a packet
    uint32_t m_burst;  //!< packets at once
    uint32_t m_ring;   //!< packets that may wait
};

} // namespace ns3

#endif // SOFTROUTER_BATCH_SERVER_H
