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
 * \param ps picoseconds
 * \return the bin: exact below 256 ps, then 128 bins for each power of two
 */
uint32_t
BinOf(uint64_t ps)
{
    if (ps < 2 * SUB)
    {
        return ps;
    }
    const uint32_t shift = 63 - __builtin_clzll(ps) - SUB_BITS;
    return (shift << SUB_BITS) + static_cast<uint32_t>(ps >> shift);
}

/**
 * \param bin number of a bin
 * \return the middle of its values, in picoseconds
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
    m_total.area += static_cast<double>(m_present) * (now - m_last).ToDouble(Time::NS);
    m_last = now;
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
    const int64_t ps = (now - arrival).GetPicoSeconds();
    m_sum += static_cast<double>(ps) / 1000;
    m_max = std::max(m_max, ps);
    const uint32_t bin = BinOf(ps);
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
    return departures == 0 ? std::numeric_limits<double>::quiet_NaN() : m_sum / departures;
}

double
SojournMeter::GetMaxNs() const
{
    return GetDepartures() == 0 ? std::numeric_limits<double>::quiet_NaN()
                                : static_cast<double>(m_max) / 1000;
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
            return std::min(MiddleOf(bin), static_cast<double>(m_max)) / 1000;
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
                           : (counters.area - m_base.area) / departures;
}

SojournMeter::Counters
SojournMeter::GetCounters(Time now) const
{
    Counters counters = m_total;
    counters.area += static_cast<double>(m_present) * (now - m_last).ToDouble(Time::NS);
    return counters;
}

} // namespace ns3
