// SPDX-License-Identifier: GPL-2.0-only
#include "sojourn-meter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ns3
{

namespace
{

constexpr uint32_t SUB = 128; //!< bins of each power of two
constexpr uint32_t SUB_BITS = 7;

/**
 * \param steps of time
 * \return the bin: exact below 256 steps, then 128 bins for each power of two
 */
uint32_t
BinOf(uint64_t steps)
{
    if (steps < 2 * SUB)
    {
        return steps;
    }
    const uint32_t shift = 63 - __builtin_clzll(steps) - SUB_BITS;
    return (shift << SUB_BITS) + static_cast<uint32_t>(steps >> shift);
}

/**
 * \return nanoseconds of a time step
 */
double
NsPerStep()
{
    return Time(1).ToDouble(Time::NS);
}

/**
 * \param bin number of a bin
 * \return the middle of its values, in time steps
 */
double
MiddleOf(uint32_t bin)
{
    if (bin < 2 * SUB)
    {
        return bin;
    }
    const uint32_t shift = (bin >> SUB_BITS) - 1;
    const double first = std::ldexp(static_cast<double>(bin - (shift << SUB_BITS)), shift);
    return first + (std::ldexp(1.0, shift) - 1) / 2;
}

} // namespace

void
SojournMeter::Reset(Time now)
{
    Integrate(now);
    m_base = m_total;
    m_sum = 0;
    m_max = 0;
    std::fill(m_bins.begin(), m_bins.end(), 0);
}

void
SojournMeter::Integrate(Time now)
{
    const int64_t steps = now.GetTimeStep();
    m_total.area += static_cast<double>(m_present) * static_cast<double>(steps - m_last);
    m_last = steps;
}

void
SojournMeter::Arrive(Time now)
{
    Integrate(now);
    m_present++;
}

void
SojournMeter::Depart(Time arrival, Time now)
{
    Integrate(now);
    m_present--;
    m_total.departures++;
    const int64_t steps = now.GetTimeStep() - arrival.GetTimeStep();
    m_sum += steps;
    m_max = std::max(m_max, steps);
    const uint32_t bin = BinOf(steps);
    if (bin >= m_bins.size())
    {
        m_bins.resize(bin + SUB);
    }
    m_bins[bin]++;
}

void
SojournMeter::Drop(Time now)
{
    Integrate(now);
    m_present--;
}

uint64_t
SojournMeter::GetDepartures() const
{
    return m_total.departures - m_base.departures;
}

uint64_t
SojournMeter::GetPresent() const
{
    return m_present;
}

double
SojournMeter::GetMeanNs() const
{
    const auto departures = static_cast<double>(GetDepartures());
    return departures == 0 ? std::numeric_limits<double>::quiet_NaN()
                           : m_sum * NsPerStep() / departures;
}

double
SojournMeter::GetMaxNs() const
{
    return GetDepartures() == 0 ? std::numeric_limits<double>::quiet_NaN() : m_max * NsPerStep();
}

double
SojournMeter::GetPercentileNs(double share) const
{
    const double wanted = std::ceil(share * static_cast<double>(GetDepartures()));
    uint64_t seen = 0;
    for (uint32_t bin = 0; bin < m_bins.size(); bin++)
    {
        seen += m_bins[bin];
        if (m_bins[bin] > 0 && static_cast<double>(seen) >= wanted)
        {
            return std::min(MiddleOf(bin), static_cast<double>(m_max)) * NsPerStep();
        }
    }
    return std::numeric_limits<double>::quiet_NaN();
}

double
SojournMeter::GetLittleNs(Time now) const
{
    const Counters counters = GetCounters(now);
    const auto departures = static_cast<double>(counters.departures - m_base.departures);
    return departures == 0 ? std::numeric_limits<double>::quiet_NaN()
                           : (counters.area - m_base.area) * NsPerStep() / departures;
}

SojournMeter::Counters
SojournMeter::GetCounters(Time now) const
{
    Counters counters = m_total;
    counters.area +=
        static_cast<double>(m_present) * static_cast<double>(now.GetTimeStep() - m_last);
    return counters;
}

} // namespace ns3
