// SPDX-License-Identifier: GPL-2.0-only
// A task unit with one queue, for tests that watch when packets are done.
#ifndef SOFTROUTER_TEST_STATION_H
#define SOFTROUTER_TEST_STATION_H

#include "ns3/batch-service-time-model.h"
#include "ns3/double.h"
#include "ns3/nic-ring.h"
#include "ns3/simulator.h"
#include "ns3/sojourn-meter.h"
#include "ns3/task-unit.h"
#include "ns3/uinteger.h"

#include <vector>

namespace ns3
{

/**
 * \param ns of each packet
 * \return a model in which each packet takes that, whatever else
 */
inline Ptr<ServiceTimeModel>
Fixed(double ns)
{
    auto model = CreateObject<BatchServiceTimeModel>();
    model->SetAttribute("BurstCost", DoubleValue(0));
    model->SetAttribute("PacketCost", DoubleValue(ns));
    model->SetAttribute("ByteCost", DoubleValue(0));
    return model;
}

/// A task unit with one queue, whose packets' number is their size.
class Station
{
  public:
    /**
     * \param model how long it takes
     * \param burst packets at once
     * \param priority of the task unit
     */
    Station(Ptr<ServiceTimeModel> model, uint32_t burst, uint32_t priority = 1)
        : ring(CreateObject<NicRing>()),
          unit(CreateObject<TaskUnit>())
    {
        ring->SetSize(65536);
        unit->SetAttribute("BurstSize", UintegerValue(burst));
        unit->SetAttribute("Priority", UintegerValue(priority));
        unit->SetServiceModel(model);
        unit->AddQueue(ring);
        unit->SetOutput(MakeCallback(&Station::Done, this));
    }

    /**
     * \brief A packet arrives.
     */
    void Arrive()
    {
        RouterItem item;
        item.arrival = Simulator::Now();
        item.frameSize = 64;
        if (ring->Push(item))
        {
            meter.Arrive(Simulator::Now());
            unit->Notify();
        }
    }

    /**
     * \param item a packet that is done
     */
    void Done(RouterItem& item)
    {
        meter.Depart(item.arrival, Simulator::Now());
        done.push_back(Simulator::Now());
    }

    Ptr<NicRing> ring;      //!< its queue
    Ptr<TaskUnit> unit;     //!< the task unit
    SojournMeter meter;     //!< its packets
    std::vector<Time> done; //!< when each was done
};

} // namespace ns3

#endif // SOFTROUTER_TEST_STATION_H
