// SPDX-License-Identifier: GPL-2.0-only
#include "batch-server.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

namespace
{

/**
 * \param mean of a Poisson distribution, more than 0
 * \return probabilities of 0, 1, 2, ... up to where almost nothing is left
 */
std::vector<double>
Poisson(double mean)
{
    // In logarithms: e^-mean alone would be 0 for large means.
    std::vector<double> probabilities;
    const double most = mean + 12 * std::sqrt(mean) + 30;
    for (double n = 0; n <= most; n++)
    {
        probabilities.push_back(std::exp(n * std::log(mean) - mean - std::lgamma(n + 1)));
    }
    return probabilities;
}

} // namespace

BatchServer::BatchServer(double burstNs, double packetNs, uint32_t burst, uint32_t ring)
    : m_burstNs(burstNs),
      m_packetNs(packetNs),
      m_burst(burst),
      m_ring(ring)
{
}

double
BatchServer::GetCapacity() const
{
    return m_burst / GetServiceNs(m_burst);
}

BatchServer::Steady
BatchServer::Solve(double rate) const
{
    const std::vector<double> stationary = GetStationary(rate);
    double packets = 0; // done in a cycle, from one end of a burst to the next
    double length = 0;  // of a cycle, ns
    double area = 0;    // packets in ring and service, times ns
    for (uint32_t queued = 0; queued <= m_ring; queued++)
    {
        const uint32_t batch = GetBatch(queued);
        const double service = GetServiceNs(batch);
        const uint32_t rest = queued > batch ? queued - batch : 0;
        packets += stationary[queued] * batch;
        length += stationary[queued] * (service + (queued == 0 ? 1 / rate : 0));
        area += stationary[queued] * (batch * service + GetRingArea(rate, rest, service));
    }
    // A cycle has one burst, and what it does not do of the arrivals is lost.
    return {area / packets, std::max(0.0, 1 - packets / (rate * length)), packets};
}

double
BatchServer::GetMd1Ns(double rate) const
{
    const double service = GetServiceNs(1);
    return service + rate * service * service / (2 * (1 - rate * service));
}

uint32_t
BatchServer::GetBatch(uint32_t queued) const
{
    return std::clamp(queued, 1U, m_burst);
}

double
BatchServer::GetServiceNs(uint32_t packets) const
{
    return m_burstNs + packets * m_packetNs;
}

std::vector<double>
BatchServer::GetStationary(double rate) const
{
    const uint32_t states = m_ring + 1;
    std::vector<std::vector<double>> next(states, std::vector<double>(states, 0.0));
    std::vector<std::vector<double>> arrivals(m_burst + 1); // by the batch's size
    std::vector<uint32_t> lowest(states, 0);                // where a state leads to at least
    for (uint32_t queued = 0; queued < states; queued++)
    {
        const uint32_t batch = GetBatch(queued);
        if (arrivals[batch].empty())
        {
            arrivals[batch] = Poisson(rate * GetServiceNs(batch));
        }
        lowest[queued] = queued > batch ? queued - batch : 0;
        for (std::size_t n = 0; n < arrivals[batch].size(); n++)
        {
            const uint32_t to = std::min<std::size_t>(lowest[queued] + n, m_ring);
            next[queued][to] += arrivals[batch][n];
        }
    }
    // Take out the states from the last to the first; what led there leads on to where that led.
    for (uint32_t last = m_ring; last > 0; last--)
    {
        double below = 0;
        for (uint32_t to = lowest[last]; to < last; to++)
        {
            below += next[last][to];
        }
        for (uint32_t from = 0; from < last; from++)
        {
            next[from][last] /= below;
            for (uint32_t to = lowest[last]; to < last && next[from][last] > 0; to++)
            {
                next[from][to] += next[from][last] * next[last][to];
            }
            if (next[from][last] > 0)
            {
                lowest[from] = std::min(lowest[from], lowest[last]);
            }
        }
    }
    std::vector<double> stationary(states, 0.0);
    stationary[0] = 1;
    double sum = 1;
    for (uint32_t state = 1; state < states; state++)
    {
        for (uint32_t from = 0; from < state; from++)
        {
            stationary[state] += stationary[from] * next[from][state];
        }
        sum += stationary[state];
    }
    for (double& share : stationary)
    {
        share /= sum;
    }
    return stationary;
}

double
BatchServer::GetRingArea(double rate, uint32_t rest, double service) const
{
    // The integral over time of P(N(t) > m) is service - (sum of P(N(service) > i), i <= m) / rate.
    double above = 1;    // P(N(service) > i)
    double integral = 0; // of P(N(t) <= m)
    double area = rest * service;
    const std::vector<double> arrivals = Poisson(rate * service);
    for (std::size_t m = 0; m < arrivals.size() && rest + m < m_ring; m++)
    {
        above = std::max(0.0, above - arrivals[m]);
        integral += above / rate;
        area += std::max(0.0, service - integral);
    }
    return area;
}

} // namespace ns3
