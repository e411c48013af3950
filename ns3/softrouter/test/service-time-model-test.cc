// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/batch-service-time-model.h"
#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/eq7-service-time-model.h"
#include "ns3/linear-contention-service-time-model.h"
#include "ns3/object-factory.h"
#include "ns3/service-time-model.h"
#include "ns3/test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// Gbit/s on the wire that k cores forward when each packet takes these nanoseconds.
double
RateOf(uint32_t frameSize, uint32_t cores, double packetNs)
{
    return cores * (frameSize + 20) * 8 / packetNs;
}

/// One row of the published table, Gbit/s on the wire.
struct Row
{
    uint32_t flows;
    uint32_t size;
    double measured;
    double eq5; // published value of Eq. 5
};

/// The rows that the cores limit; 3 x 512 is none of them, as two of its flows fill a link.
const std::vector<Row> g_table = {
    {1, 64, 1.1928, 1.1928},
    {1, 128, 2.0936, 2.0952},
    {1, 256, 3.9097, 3.9000},
    {1, 512, 7.5099, 7.5096},
    {2, 64, 2.2265, 2.1489},
    {2, 128, 3.9251, 3.7804},
    {2, 256, 7.3182, 7.0433},
    {2, 512, 14.0514, 13.5693},
    {3, 64, 3.1858, 3.1050},
    {3, 128, 5.6076, 5.4656},
    {3, 256, 10.4578, 10.1867},
    {4, 64, 4.0612, 4.0611},
    {4, 128, 7.1429, 7.1508},
    {4, 256, 13.3304, 13.3301},
    {100, 64, 4.0191, 4.0611},
    {100, 128, 7.0684, 7.1508},
    {100, 256, 13.1533, 13.3301},
};

/**
 * \brief The default parameters give every published value of Eq. 5.
 */
class Eq7TableTest : public TestCase
{
  public:
    Eq7TableTest()
        : TestCase("Eq. 7 gives the published values of Eq. 5")
    {
    }

  private:
    void DoRun() override
    {
        auto model = CreateObject<Eq7ServiceTimeModel>();
        for (const Row& row : g_table)
        {
            ServiceContext context;
            context.cores = std::min(row.flows, 4U);
            const double rate =
                RateOf(row.size, context.cores, model->GetPacketNs(row.size, context));
            // The parameters are published with six digits after the point.
            NS_TEST_EXPECT_MSG_EQ_TOL(rate,
                                      row.eq5,
                                      row.eq5 * 5e-4,
                                      row.flows << " flows, " << row.size << " bytes");
            NS_TEST_EXPECT_MSG_EQ(model->GetBurstNs(context), 0, "Eq. 7 has no cost per burst");
        }
        // 8 cores at 64 bytes, as recomputed: 11.73 million packets per second.
        ServiceContext eight;
        eight.cores = 8;
        NS_TEST_EXPECT_MSG_EQ_TOL(8e3 / model->GetPacketNs(64, eight), 11.73, 0.005, "8 cores");
    }
};

/**
 * \brief The default parameters fit the measured rates as well as is claimed.
 */
class ContentionTableTest : public TestCase
{
  public:
    ContentionTableTest()
        : TestCase("linear contention is within 0.2 % of the measured rates on the mean")
    {
    }

  private:
    void DoRun() override
    {
        auto model = CreateObject<LinearContentionServiceTimeModel>();
        double sum = 0;
        uint32_t rows = 0;
        for (const Row& row : g_table)
        {
            if (row.flows > 4)
            {
                continue;
            }
            ServiceContext context;
            context.cores = row.flows;
            context.twoWay = row.flows > 1;
            const double rate =
                RateOf(row.size, context.cores, model->GetPacketNs(row.size, context));
            sum += std::abs(rate / row.measured - 1);
            rows++;
        }
        NS_TEST_ASSERT_MSG_EQ(rows, 14, "rows that the cores limit");
        NS_TEST_EXPECT_MSG_LT(sum / rows, 0.002, "mean absolute error");
        ServiceContext eight;
        eight.cores = 8;
        eight.twoWay = true;
        NS_TEST_EXPECT_MSG_EQ_TOL(8e3 / model->GetPacketNs(64, eight), 10.28, 0.005, "8 cores");
        NS_TEST_EXPECT_MSG_EQ(model->GetBurstNs(eight), 0, "no cost per burst");
        model->SetAttribute("CByte", DoubleValue(0.5));
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(200, ServiceContext()),
                                  663.4,
                                  1e-9,
                                  "half a nanosecond per byte");
    }
};

/**
 * \brief Each term of the batch model, alone and where it belongs.
 */
class BatchTermsTest : public TestCase
{
  public:
    BatchTermsTest()
        : TestCase("each term of the batch model")
    {
    }

  private:
    void DoRun() override
    {
        ObjectFactory factory("ns3::BatchServiceTimeModel");
        auto model = factory.Create<BatchServiceTimeModel>();
        ServiceContext one;
        NS_TEST_EXPECT_MSG_EQ(model->GetBurstNs(one) + 32 * model->GetPacketNs(64, one),
                              400 + 300 * 32,
                              "defaults: 400 + 300 n ns");

        model->SetAttribute("ByteCost", DoubleValue(0.25));
        model->SetAttribute("MissCost", DoubleValue(80));
        model->SetAttribute("CacheSize", DoubleValue(1e6));
        model->SetAttribute("D", DoubleValue(7));
        model->SetAttribute("U", DoubleValue(5));
        ServiceContext context;
        context.cores = 3;
        context.twoWay = true;
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetBurstNs(context), 419, 1e-9, "400 + 2 * 7 + 5");
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 325, 1e-9, "no working set");
        context.workingSet = 1e6;
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 325, 1e-9, "fits the cache");
        context.workingSet = 4e6;
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 385, 1e-9, "3 of 4 miss");
        model->SetAttribute("CacheSize", DoubleValue(0));
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 405, 1e-9, "no cache");

        model->SetAttribute("ContentionPerPacket", BooleanValue(true));
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetBurstNs(context), 400, 1e-9, "contention per packet");
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 424, 1e-9, "405 + 19");

        NS_TEST_EXPECT_MSG_EQ(model->GetPuntNs() + model->GetPuntBurstNs(),
                              0,
                              "punts cost nothing");
        model->SetAttribute("PuntCost", DoubleValue(18));
        model->SetAttribute("PuntBurstCost", DoubleValue(292));
        NS_TEST_EXPECT_MSG_EQ(model->GetPuntNs(), 18, "each");
        NS_TEST_EXPECT_MSG_EQ(model->GetPuntBurstNs(), 292, "a burst with any");
        NS_TEST_EXPECT_MSG_EQ_TOL(model->GetPacketNs(100, context), 424, 1e-9, "others as before");
        NS_TEST_EXPECT_MSG_EQ(CreateObject<Eq7ServiceTimeModel>()->GetPuntNs(), 0, "not in Eq. 7");
    }
};

/**
 * \brief The suite of service-time models.
 */
class ServiceTimeModelTestSuite : public TestSuite
{
  public:
    ServiceTimeModelTestSuite()
        : TestSuite("softrouter-service-time-model", Type::UNIT)
    {
        AddTestCase(new Eq7TableTest);
        AddTestCase(new ContentionTableTest);
        AddTestCase(new BatchTermsTest);
    }
};

ServiceTimeModelTestSuite g_serviceTimeModelTestSuite; //!< registers the suite

} // namespace
