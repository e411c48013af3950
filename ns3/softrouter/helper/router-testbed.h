// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ROUTER_TESTBED_H
#define SOFTROUTER_ROUTER_TESTBED_H

#include "ns3/frame-sink.h"
#include "ns3/frame-source.h"
#include "ns3/node-container.h"
#include "ns3/soft-router-profile.h"
#include "ns3/soft-router.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief A router under test between two end devices, as in a throughput measurement: frames in, by
 * the flows' addresses to a core, and out by the opposite port. No IP stack takes part.
 *
 * Both end devices have a link for each pair of ports of the router. Flow f goes from the first to
 * the second end device if f modulo the number of directions is 0, else back, over the pair
 * (f / directions) modulo the number of pairs. Each direction is offered its share of the rate,
 * evenly from its flows.
 */
class RouterTestbed
{
  public:
    /// What to measure.
    struct Setup
    {
        SoftRouterProfile profile; //!< the router, with its ports and links
        uint32_t cores{1};         //!< of the router
        uint32_t directions{2};    //!< 1 or 2
        uint32_t flows{1};         //!< at least one per direction
        double rateGbps{10};       //!< offered in all, on the wire
        std::vector<std::pair<uint32_t, double>> sizes{{64, 1.0}}; //!< frame bytes and weight
        bool poisson{false};   //!< arrivals; otherwise at a constant rate
        uint32_t seed{1};      //!< of the random numbers
        double warmUp{0.002};  //!< seconds before the measurement
        double duration{0.02}; //!< seconds of the measurement
        bool pinned{false};    //!< flow f goes to core f modulo cores; otherwise RSS
        bool truncate{false};  //!< service times to whole nanoseconds

        /**
         * \brief As the published case study measured: flows at a constant rate that fill the
         * links, in both directions by turns if there are several, and a core for each.
         * \param profile of the router
         * \param flows how many
         * \param maxCores with more flows than that, RSS distributes them
         * \param size of the frames, bytes
         * \return what to measure
         */
        static Setup Saturated(const SoftRouterProfile& profile,
                               uint32_t flows,
                               uint32_t maxCores,
                               uint32_t size);
    };

    /// What was measured, while it was.
    struct Result
    {
        uint64_t events{0};     //!< of the whole simulation
        uint64_t packets{0};    //!< offered in the whole simulation
        double seconds{0};      //!< of the measurement
        uint64_t offered{0};    //!< packets
        uint64_t received{0};   //!< packets that reached the router
        uint64_t accepted{0};   //!< packets that reached the other end device
        double offeredGbps{0};  //!< on the wire
        double acceptedGbps{0}; //!< on the wire, from the first to the last of these packets
        double acceptedPps{0};  //!< packets per second, the same
        std::array<uint64_t, SoftRouter::DROP_CAUSES> drops{}; //!< by cause
        uint64_t refused{0};             //!< packets that did not fit on an end device's link
        double meanNs{0};                //!< sojourn time
        double p50Ns{0};                 //!< sojourn time
        double p90Ns{0};                 //!< sojourn time
        double p99Ns{0};                 //!< sojourn time
        double p999Ns{0};                //!< sojourn time
        double maxNs{0};                 //!< sojourn time
        double littleNs{0};              //!< mean sojourn time by Little's law
        double batchMean{0};             //!< packets of a burst
        std::vector<double> utilisation; //!< by core
        std::vector<double> shares;      //!< of the received packets, by core

        /**
         * \return share of the received packets that the router dropped, 0 to 1
         */
        double GetLoss() const;
    };

    /**
     * \brief Build, run and measure. Destroys the simulator's state afterwards, so that one can
     * follow another. Needs Time::SetResolution(Time::PS) before anything else.
     * \param setup what to measure
     * \return what was measured
     */
    static Result Run(const Setup& setup);

  private:
    explicit RouterTestbed(const Setup& setup);

    /**
     * \brief Make the end devices, the router, the links between them, sources and sinks.
     */
    void Build();
    /**
     * \brief Make the source and the sink of one direction over one pair of ports.
     * \param pair number of the pair
     * \param direction 0 or 1
     * \param from where frames start
     * \param to where they end
     */
    void AddTraffic(uint32_t pair, uint32_t direction, Ptr<NetDevice> from, Ptr<NetDevice> to);
    /**
     * \brief The warm-up is over.
     */
    void Begin();
    /**
     * \brief The measurement is over.
     */
    void End();

    Setup m_setup;                           //!< what to measure
    Result m_result;                         //!< what was measured
    Ptr<SoftRouter> m_router;                //!< the router
    std::vector<Ptr<FrameSource>> m_sources; //!< by pair and direction, where there are flows
    std::vector<Ptr<FrameSink>> m_sinks;     //!< likewise
    std::vector<Time> m_busy;                //!< of each core, at the beginning
    std::vector<uint64_t> m_received;        //!< of each core, at the beginning
    uint64_t m_units{0};                     //!< packets that task units did, at the beginning
    uint64_t m_bursts{0};                    //!< their bursts, at the beginning
    uint64_t m_before{0};                    //!< packets offered before
    std::array<uint64_t, SoftRouter::DROP_CAUSES> m_drops{}; //!< at the beginning
};

} // namespace ns3

#endif // SOFTROUTER_ROUTER_TESTBED_H
