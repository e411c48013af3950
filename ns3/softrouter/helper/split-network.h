// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SPLIT_NETWORK_H
#define SOFTROUTER_SPLIT_NETWORK_H

#include "ns3/frame-sink.h"
#include "ns3/frame-source.h"
#include "ns3/ipv4-address.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/node.h"
#include "ns3/packet-sink.h"
#include "ns3/soft-router-profile.h"
#include "ns3/soft-router.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Two routers with senders on the one side and receivers on the other, in one process, or
 * cut between the routers and simulated by two.
 *
 * Of the pairs of end devices, one has small frames at random times, which take most of the link
 * between the routers; the others share with it what is left by TCP. So packets are lost, and what
 * one half does depends on the other.
 */
class SplitNetwork
{
  public:
    /// What is counted in each half of the network.
    enum Counter
    {
        RECEIVED,       //!< packets, by the router
        FORWARDED,      //!< of these
        RECEIVE_RING,   //!< packets lost there
        TRANSMIT_RING,  //!< packets lost there
        BURSTS,         //!< of the router's cores
        SOJOURN,        //!< ps, all packets' added up
        FRAMES_SENT,    //!< by the end device
        FRAMES_ARRIVED, //!< at the end device
        TCP_BYTES,      //!< to the end devices
        COUNTERS        //!< how many there are
    };

    /// What was counted in a half.
    using Counts = std::array<uint64_t, COUNTERS>;

    /// What is simulated.
    struct Setup
    {
        SoftRouterProfile profile; //!< of both routers
        double seconds{0.05};      //!< simulated
        uint32_t seed{1};          //!< of the frames' times
        uint32_t ranks{1};         //!< processes: 1 or 2
        uint32_t rank{0};          //!< this one
    };

    /**
     * \param counter of which
     * \return its name in tables
     */
    static const char* GetName(uint32_t counter);
    /**
     * \brief Describe what one process has seen.
     * \param setup what was simulated
     * \param counts of both halves; those of other ranks are empty
     * \return two lines for each half that this rank has
     */
    static std::string Describe(const Setup& setup, const std::array<Counts, 2>& counts);
    /**
     * \param setup what is simulated
     */
    explicit SplitNetwork(const Setup& setup);
    /**
     * \brief Run it, once. Destroys the simulator's state.
     * \return what was counted in each half; a half that another rank has is empty
     */
    std::array<Counts, 2> Run();

  private:
    /**
     * \param half of the network
     * \return the rank that has it
     */
    uint32_t GetRank(uint32_t half) const;
    /**
     * \param half of the network
     * \return whether this rank has it
     */
    bool IsHere(uint32_t half) const;
    /**
     * \brief Make nodes, links, addresses and routes: all of them on all ranks.
     */
    void BuildNetwork();
    /**
     * \brief Make the routers.
     */
    void BuildRouters();
    /**
     * \brief Make senders and receivers.
     */
    void BuildTraffic();
    /**
     * \brief Frames go through a router to the next node.
     * \param device the router's towards that
     * \param next address of the next node
     */
    static void RouteFrames(Ptr<NetDevice> device, Ipv4Address next);

    Setup m_setup;                                          //!< what is simulated
    std::array<NodeContainer, 2> m_hosts;                   //!< of each half
    std::array<Ptr<Node>, 2> m_nodes;                       //!< each half's router
    std::array<std::vector<NetDeviceContainer>, 2> m_links; //!< each half's router and hosts
    NetDeviceContainer m_cut;                               //!< the link between the halves
    std::vector<Ipv4Address> m_receivers;                   //!< addresses of the right hosts
    std::array<Ptr<SoftRouter>, 2> m_routers;               //!< null: another rank's
    Ptr<FrameSource> m_source;                              //!< null: another rank's
    Ptr<FrameSink> m_sink;                                  //!< null: another rank's
    std::vector<Ptr<PacketSink>> m_tcp;                     //!< those of this rank
    std::array<uint64_t, 2> m_sojourn{};                    //!< ps, of each half's router
};

} // namespace ns3

#endif // SOFTROUTER_SPLIT_NETWORK_H
