// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOFT_ROUTER_PROFILE_H
#define SOFTROUTER_SOFT_ROUTER_PROFILE_H

#include "service-time-model.h"

#include "ns3/object-factory.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief What has been measured of a router: a file profile.json, format perigee-profile/1.
 *
 * `perigee predict fit` writes such files and checks them in full. Here, each value has the bounds
 * of the attribute that it is for. Keys that a file does not have keep the values below; unknown
 * keys are an error. "fit", the report of the fit, is not read.
 */
struct SoftRouterProfile
{
    std::string name;             //!< of the router
    std::string description;      //!< for people
    ObjectFactory model;          //!< a service-time model: its type and attributes
    uint32_t burst{32};           //!< packets a core takes at once, at most
    uint32_t receiveRing{512};    //!< packets in a receive ring
    uint32_t transmitRing{512};   //!< packets in a transmit ring (at least transmitBuffer)
    uint32_t transmitBuffer{1};   //!< packets per transmit burst; 1: no buffer
    double transmitTimeoutUs{0};  //!< microseconds a packet waits for that, at most
    bool transmitWhenIdle{false}; //!< whether idle cores send what waits for that
    double pollNs{0};             //!< ns of a look that finds no packet; 0: none is needed
    double pausesPerSecond{0};    //!< how often each core is taken away
    std::vector<double> pausesNs; //!< ns that this takes, each as often as the others
    uint32_t ports{2};            //!< of the router: an even number
    double linkGbps{10};          //!< Gbit/s of each port's link
    bool sleeps{false};           //!< whether idle cores sleep (sleep_after_us is not null)
    double sleepAfterUs{0};       //!< microseconds a core is idle before it sleeps, if it does
    double wakeUpUs{0};           //!< microseconds a sleeping core needs to wake up
    double puntShare{0};          //!< share of packets that the slow path handles
    double slowPathNs{0};         //!< ns that the slow path needs for a packet; 0: there is none
    uint32_t puntRing{512};       //!< packets that may wait for the slow path
    double workingSetBytes{0};    //!< bytes of the routing table that are looked up

    /**
     * \brief Reads a file.
     * \param file its path
     * \param [out] profile what was read; unchanged after an error
     * \param [out] error what is wrong: one line with file, key, what was found and expected
     * \return whether the file is good
     */
    static bool Read(const std::string& file, SoftRouterProfile& profile, std::string& error);

    /**
     * \brief Reads a file that a program cannot go on without: if it is not good, the reason is
     * printed on standard error, and the program ends with status 1.
     * \param file its path
     * \return what was read
     */
    static SoftRouterProfile Load(const std::string& file);

    /**
     * \brief Reads text.
     * \param text JSON
     * \param name what errors call the text
     * \param [out] profile what was read; unchanged after an error
     * \param [out] error what is wrong: one line with name, key, what was found and expected
     * \return whether the text is good
     */
    static bool Parse(const std::string& text,
                      const std::string& name,
                      SoftRouterProfile& profile,
                      std::string& error);

    /**
     * \brief Makes the service-time model with the profile's parameters.
     * \return the model
     */
    Ptr<ServiceTimeModel> CreateServiceTimeModel() const;
};

} // namespace ns3

#endif // SOFTROUTER_SOFT_ROUTER_PROFILE_H
