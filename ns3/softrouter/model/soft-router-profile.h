// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOFT_ROUTER_PROFILE_H
#define SOFTROUTER_SOFT_ROUTER_PROFILE_H

#include "service-time-model.h"

#include "ns3/ptr.h"

#include <cstdint>
#include <string>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief What has been measured of a router: a file profile.json, format perigee-profile/1.
 *
 * `perigee predict fit` writes such files. Keys that a file does not have keep the values below;
 * unknown keys are an error, but in "fit", which is the report of the fit and is not read.
 */
struct SoftRouterProfile
{
    /// Which service-time model the parameters are for.
    enum class Model
    {
        EQ7,        //!< Eq7ServiceTimeModel
        CONTENTION, //!< LinearContentionServiceTimeModel
        BATCH,      //!< BatchServiceTimeModel
    };

    /// Parameters of Eq. 5 and 7: D = (a k + a0) S + (b k + b0) Gbit/s.
    struct Eq7
    {
        double a{0};  //!< Gbit/s per byte of frame and core
        double a0{0}; //!< Gbit/s per byte of frame
        double b{0};  //!< Gbit/s per core
        double b0{0}; //!< Gbit/s
    };

    /// Parameters of linear contention.
    struct Contention
    {
        double c0Ns{0};    //!< ns per packet
        double cByteNs{0}; //!< ns per byte of frame
        double dNs{0};     //!< ns per further core
        double uNs{0};     //!< ns where traffic is two-way
    };

    /// Parameters of bursts with cache terms.
    struct Batch
    {
        double cBatchNs{0};              //!< ns per burst
        double cPacketNs{0};             //!< ns per packet
        double cByteNs{0};               //!< ns per byte of frame
        double missNs{0};                //!< ns per lookup that misses the cache
        double cacheBytes{0};            //!< bytes of cache
        double dNs{0};                   //!< ns per further core
        double uNs{0};                   //!< ns where traffic is two-way
        bool contentionPerPacket{false}; //!< whether the last two count per packet, not per burst
    };

    std::string name;            //!< of the router
    std::string description;     //!< for people
    Model model{Model::EQ7};     //!< which of the following three counts
    Eq7 eq7;                     //!< if model is EQ7
    Contention contention;       //!< if model is CONTENTION
    Batch batch;                 //!< if model is BATCH
    uint32_t burst{32};          //!< packets a core takes at once, at most (1 to 1024)
    uint32_t receiveRing{512};   //!< packets in a receive ring (at least burst)
    uint32_t transmitRing{512};  //!< packets in a transmit ring (at least transmitBuffer)
    uint32_t transmitBuffer{1};  //!< packets per transmit burst; 1: no buffer
    double transmitTimeoutUs{0}; //!< microseconds a packet waits for that, at most (1e-3 on)
    uint32_t ports{2};           //!< of the router: an even number (2 to 64)
    double linkGbps{10};         //!< Gbit/s of each port's link
    bool sleeps{false};          //!< whether idle cores sleep (sleep_after_us is not null)
    double sleepAfterUs{0};      //!< microseconds a core is idle before it sleeps, if it does
    double wakeUpUs{0};          //!< microseconds a sleeping core needs to wake up
    double puntShare{0};         //!< share of packets that the slow path handles (0 to 1)
    double slowPathNs{0};        //!< ns that the slow path needs for a packet; 0: there is none
    uint32_t puntRing{512};      //!< packets that may wait for the slow path
    double workingSetBytes{0};   //!< bytes of the routing table that are looked up

    /**
     * \brief Reads a file.
     * \param file its path
     * \param [out] profile what was read; unchanged after an error
     * \param [out] error what is wrong: one line with file, key, what was found and expected
     * \return whether the file is good
     */
    static bool Read(const std::string& file, SoftRouterProfile& profile, std::string& error);

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
