// SPDX-License-Identifier: GPL-2.0-only
// Task units against queueing theory.
#include "station.h"

#include "ns3/random-variable-stream.h"
#include "ns3/test.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// Poisson arrivals at a station.
class Arrivals
{
  public:
    /**
     * \param station where packets arrive
     * \param meanNs between two
     * \param packets how many
     */
    Arrivals(Station& station, double meanNs, uint32_t packets)
        : m_station(station),
          m_left(packets),
          m_gap(CreateObject<ExponentialRandomVariable>())
    {
        m_gap->SetAttribute("Mean", DoubleValue(meanNs));
        m_gap->SetStream(7);
        Next();
    }

  private:
    void Next()
    {
        if (m_left-- > 0)
        {
            // Sums of rounded gaps drift: the rest is carried over.
            const double ns = m_gap->GetValue() + m_carry;
            m_carry = ns - std::floor(ns);
            Simulator::Schedule(NanoSeconds(static_cast<int64_t>(ns)), &Arrivals::Arrive, this);
        }
    }

    void Arrive()
    {
        m_station.Arrive();
        Next();
    }

    Station& m_station;                   //!< where packets arrive
    uint32_t m_left;                      //!< packets still to come
    double m_carry{0};                    //!< part of a nanosecond
    Ptr<ExponentialRandomVariable> m_gap; //!< between two
};

} // namespace

/**
 * \ingroup softrouter-test
 * \brief One packet at a time, always the same service time, Poisson arrivals: M/D/1.
 */
class QueueingMd1TestCase : public TestCase
{
  public:
    /**
     * \param load arrivals per service time
     */
    explicit QueueingMd1TestCase(double load)
        : TestCase("M-D-1, mean sojourn at load " + std::to_string(load)),
          m_load(load)
    {
    }

  private:
    void DoRun() override
    {
        constexpr double SERVICE = 500;
        Station station(Fixed(SERVICE), 1);
        Arrivals arrivals(station, SERVICE / m_load, 1000000);
        Simulator::Run();
        // Pollaczek and Khinchine: x + load x / (2 (1 - load)).
        const double expected = SERVICE * (1 + m_load / (2 * (1 - m_load)));
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetMeanNs(), expected, 0.03 * expected, "M/D/1");
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetLittleNs(Simulator::Now()),
                                  station.meter.GetMeanNs(),
                                  1e-6 * expected,
                                  "Little's law: the queue is empty in the end, so it is exact");
        Simulator::Destroy();
    }

    double m_load; //!< arrivals per service time
};

/**
 * \ingroup softrouter-test
 * \brief A server of batches, against its embedded Markov chain.
 */
class QueueingBatchTestCase : public TestCase
{
  public:
    /**
     * \param load arrivals per service time of a full batch
     * \param published mean sojourn time, ns
     */
    QueueingBatchTestCase(double load, double published)
        : TestCase("batch server: mean sojourn at load " + std::to_string(load)),
          m_load(load),
          m_published(published)
    {
    }

  private:
    static constexpr uint32_t BATCH = 32;
    static constexpr double BATCH_NS = 400;
    static constexpr double PACKET_NS = 300;

    /**
     * \param packets of a batch
     * \return how long it takes, ns
     */
    static double Service(uint32_t packets)
    {
        return BATCH_NS + packets * PACKET_NS;
    }

    /**
     * \param rate packets per ns
     * \return mean sojourn time, ns: from the chain of the packets that are left when a batch is
     * done, and Little's law over the cycles between these moments
     */
    static double Chain(double rate)
    {
        constexpr uint32_t STATES = 1200;
        std::vector<double> now(STATES, 0.0);
        now[0] = 1;
        std::map<uint32_t, std::vector<double>> arrivals; // by batch size: Poisson probabilities
        for (uint32_t batch = 1; batch <= BATCH; batch++)
        {
            const double mean = rate * Service(batch);
            auto& poisson = arrivals[batch];
            double p = std::exp(-mean);
            for (uint32_t n = 0; n < 200; n++)
            {
                poisson.push_back(p);
                p *= mean / (n + 1);
            }
        }
        double change = 1;
        for (uint32_t step = 0; step < 20000 && change > 1e-9; step++)
        {
            std::vector<double> next(STATES, 0.0);
            for (uint32_t q = 0; q < STATES; q++)
            {
                if (now[q] < 1e-15)
                {
                    continue;
                }
                const uint32_t batch = std::clamp(q, 1U, BATCH);
                const uint32_t rest = q > batch ? q - batch : 0;
                for (uint32_t n = 0; n < 200; n++)
                {
                    next[std::min(rest + n, STATES - 1)] += now[q] * arrivals[batch][n];
                }
            }
            change = 0;
            for (uint32_t q = 0; q < STATES; q++)
            {
                change += std::abs(next[q] - now[q]);
            }
            now = next;
        }
        double area = 0;
        double length = 0;
        for (uint32_t q = 0; q < STATES; q++)
        {
            const uint32_t batch = std::clamp(q, 1U, BATCH);
            const double service = Service(batch);
            // From an empty router the cycle begins with waiting for a packet, with nobody there.
            length += now[q] * (service + (q == 0 ? 1 / rate : 0));
            area += now[q] * (std::max(q, 1U) * service + rate * service * service / 2);
        }
        return area / length / rate;
    }

    void DoRun() override
    {
        const double rate = m_load * BATCH / Service(BATCH);
        const double expected = Chain(rate);
        NS_TEST_EXPECT_MSG_EQ_TOL(expected, m_published, 1, "the chain against published values");
        auto model = CreateObject<BatchServiceTimeModel>();
        model->SetAttribute("BurstCost", DoubleValue(BATCH_NS));
        model->SetAttribute("PacketCost", DoubleValue(PACKET_NS));
        Station station(model, BATCH);
        Arrivals arrivals(station, 1 / rate, m_load > 0.95 ? 3000000 : 1000000);
        Simulator::Run();
        NS_TEST_EXPECT_MSG_EQ_TOL(station.meter.GetMeanNs(),
                                  expected,
                                  0.03 * expected,
                                  "simulated");
        Simulator::Destroy();
    }

    double m_load;      //!< arrivals per service time
    double m_published; //!< mean sojourn time, ns
};

/**
 * \ingroup softrouter-test
 * \brief Queueing theory.
 */
class QueueingTheoryTestSuite : public TestSuite
{
  public:
    QueueingTheoryTestSuite()
        : TestSuite("softrouter-queueing-theory", Type::UNIT)
    {
        for (const double load : {0.3, 0.5, 0.8, 0.9})
        {
            AddTestCase(new QueueingMd1TestCase(load));
        }
        AddTestCase(new QueueingBatchTestCase(0.5, 1562));
        AddTestCase(new QueueingBatchTestCase(0.9, 6102));
        AddTestCase(new QueueingBatchTestCase(0.98, 15859));
    }
};

static QueueingTheoryTestSuite g_queueingTheoryTestSuite; //!< registers itself
