// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_CONTENTION_DOMAIN_H
#define SOFTROUTER_CONTENTION_DOMAIN_H

#include "resource-pool.h"
#include "service-time-model.h"

#include "ns3/object.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief How task units on different cores slow each other down: how many they are, and whether
 * packets go both ways.
 */
class ContentionDomain : public Object
{
  public:
    /// How cores are counted.
    enum Count
    {
        ALLOTTED, //!< all that serve receive queues, as in measured points
        BUSY      //!< those that work when a burst begins
    };

    /// Whether packets cross the router in both directions.
    enum Direction
    {
        AUTO,    //!< yes from two cores on, as in the published measurements
        ONE_WAY, //!< no
        TWO_WAY  //!< yes
    };

    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    ContentionDomain();
    ~ContentionDomain() override;

    /**
     * \brief Set the cores that are counted.
     * \param pool the cores
     */
    void SetPool(Ptr<ResourcePool> pool);
    /**
     * \return what the service time of a burst that begins now depends on
     */
    ServiceContext GetContext() const;

  protected:
    void DoDispose() override;

  private:
    Ptr<ResourcePool> m_pool;    //!< the cores
    Count m_count{ALLOTTED};     //!< how they are counted
    Direction m_direction{AUTO}; //!< one way or two
    double m_workingSet{0};      //!< bytes of the routing table that are looked up
};

} // namespace ns3

#endif // SOFTROUTER_CONTENTION_DOMAIN_H
