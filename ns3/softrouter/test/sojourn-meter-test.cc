// SPDX-License-Identifier: GPL-2.0-only
// The sojourn meter against sorted values.
#include "test-seed.h"

#include "ns3/sojourn-meter.h"
#include "ns3/test.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

using namespace ns3;

/**
 * \ingroup softrouter-test
 * \brief Percentiles of the histogram against sorted values.
 */
class SojournMeterTestCase : public TestCase
{
  public:
    SojournMeterTestCase()
        : TestCase("percentiles, against sorted values")
    {
    }

  private:
    void DoRun() override
    {
        const uint32_t seed = GetTestSeed("softrouter-sojourn-meter");
        std::mt19937_64 random(seed);
        SojournMeter meter;
        NS_TEST_EXPECT_MSG_EQ(std::isnan(meter.GetPercentileNs(0.5)), true, "nothing measured");
        std::vector<double> all;
        for (uint32_t i = 0; i < 20000; i++)
        {
            // From 1 ns to a second, evenly over the orders of magnitude.
            const int64_t ns = std::pow(10, std::uniform_real_distribution<double>(0, 9)(random));
            all.push_back(static_cast<double>(ns));
            meter.Arrive(Seconds(0));
            meter.Depart(Seconds(0), NanoSeconds(ns));
        }
        std::sort(all.begin(), all.end());
        for (const double share : {0.0001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0})
        {
            const double exact = all[static_cast<std::size_t>(std::ceil(share * all.size())) - 1];
            NS_TEST_EXPECT_MSG_EQ_TOL(meter.GetPercentileNs(share),
                                      exact,
                                      exact / 128,
                                      "percentile " << share << ", seed " << seed);
        }
        NS_TEST_EXPECT_MSG_EQ(meter.GetMaxNs(), all.back(), "largest");
        const double mean = std::accumulate(all.begin(), all.end(), 0.0) / all.size();
        NS_TEST_EXPECT_MSG_EQ_TOL(meter.GetMeanNs(), mean, 1e-9 * mean, "mean");
    }
};

/**
 * \ingroup softrouter-test
 * \brief The sojourn meter.
 */
class SojournMeterTestSuite : public TestSuite
{
  public:
    SojournMeterTestSuite()
        : TestSuite("softrouter-sojourn-meter", Type::UNIT)
    {
        AddTestCase(new SojournMeterTestCase);
    }
};

static SojournMeterTestSuite g_sojournMeterTestSuite; //!< registers itself
