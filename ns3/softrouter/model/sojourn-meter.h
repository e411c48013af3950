// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOJOURN_METER_H
#define SOFTROUTER_SOJOURN_METER_H

#include "ns3/nstime.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Measures how long packets stay in a router, in two ways.
 *
 * Packet by packet: mean, largest, and percentiles from a histogram whose bins are at most 1/128
 * of their value wide (or a time step of the simulation, where that is more). And from counters
 * alone, as one does with a real router in overload (Eq. 4): the mean number of packets in the
 * router, received less departed, over the rate of departures is their mean sojourn time (Little's
 * law).
 */
class SojournMeter
{
  public:
    /**
     * \brief Forget what was measured; packets that are in the router stay counted.
     * \param now the present, from which on it measures
     */
    void Reset(Time now);
    /**
     * \brief A packet was received.
     * \param now the present
     */
    void Arrive(Time now);
    /**
     * \brief A packet has left for its destination.
     * \param arrival when it was received
     * \param now the present
     */
    void Depart(Time arrival, Time now);
    /**
     * \brief A packet that was received was dropped later on.
     * \param now the present
     */
    void Drop(Time now);

    /**
     * \return packets that departed
     */
    uint64_t GetDepartures() const;
    /**
     * \return packets in the router
     */
    uint64_t GetPresent() const;
    /**
     * \return mean sojourn time of the packets that departed, in ns; NaN if none did
     */
    double GetMeanNs() const;
    /**
     * \return longest sojourn time, in ns; NaN if no packet departed
     */
    double GetMaxNs() const;
    /**
     * \param share 0 to 1: 0.99 for the 99th percentile
     * \return sojourn time that this share of the packets did not exceed, in ns; NaN if none
     * departed
     */
    double GetPercentileNs(double share) const;
    /**
     * \param now the present
     * \return mean sojourn time by Little's law from the counters, in ns; NaN if none departed
     */
    double GetLittleNs(Time now) const;

    /// What Little's law needs of a stretch of time.
    struct Counters
    {
        double area{0};         //!< packets in the router, times time steps
        uint64_t departures{0}; //!< packets that departed
    };

    /**
     * \param now the present
     * \return counters since the very beginning, whatever was reset; the difference of two gives
     * the mean sojourn time in between as area over departures, in time steps
     */
    Counters GetCounters(Time now) const;

  private:
    /**
     * \brief Add up the packets in the router over the time since the last change.
     * \param now the present
     */
    void Integrate(Time now);

    uint64_t m_present{0};        //!< packets in the router
    Counters m_total;             //!< since the beginning, up to m_last
    Counters m_base;              //!< those at the last Reset()
    int64_t m_sum{0};             //!< of sojourn times, in time steps
    int64_t m_last{0};            //!< when m_present changed last, in time steps
    int64_t m_max{0};             //!< longest sojourn time, in time steps
    std::vector<uint64_t> m_bins; //!< packets by sojourn time
};

} // namespace ns3

#endif // SOFTROUTER_SOJOURN_METER_H
