// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_TCP_CHAIN_H
#define SOFTROUTER_TCP_CHAIN_H

#include "ns3/address.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/packet-sink.h"
#include "ns3/packet.h"
#include "ns3/random-variable-stream.h"
#include "ns3/sequence-number.h"
#include "ns3/socket.h"
#include "ns3/soft-router-profile.h"
#include "ns3/soft-router.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-socket-base.h"

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Three routers in a row, and TCP flows through all of them, each with a sender and a
 * receiver of its own: built of ns-3's ordinary parts, run, and measured.
 *
 * One more sender has UDP datagrams for one more receiver, at random times. Where nothing is
 * random, who loses packets of a full ring is decided by the phase of round-trip times, for ever
 * (Floyd and Jacobson 1992).
 *
 * Links between routers have 100 Mbit/s, others 1 Gbit/s, with Ethernet's timing; all queues, those
 * of routers without cores too, are rings of 128 packets.
 */
class TcpChain
{
  public:
    static constexpr uint32_t ROUTERS = 3;   //!< first, middle, last
    static constexpr uint32_t FRAME = 1518;  //!< bytes, of full data frames
    static constexpr double LINK_GBPS = 0.1; //!< of the links between routers
    static constexpr double HOST_GBPS = 1;   //!< of the links to senders and receivers
    static constexpr uint32_t RING = 128;    //!< packets of each queue
    static constexpr double START = 2; //!< seconds: the first flow; IPv6 addresses are good by then
    static constexpr double SETTLED = 2;        //!< seconds after which flows are measured
    static constexpr uint32_t INTERVAL_MS = 10; //!< of the time series
    static constexpr double LEAST_RTT_MS = 1;   //!< that the links between routers take already
    static constexpr uint32_t ACK_FRAME = 70;   //!< bytes: Ethernet, IPv4, TCP with timestamps
    static constexpr uint32_t MAX_FLOWS = 200;  //!< that addresses are enough for
    static constexpr double FRAME_BITS = 8 * (FRAME + 20); //!< of full data frames on the wire

    /// What is simulated.
    struct Setup
    {
        uint32_t flows{10};   //!< with a sender and a receiver each
        double seconds{5};    //!< from the first flow's start
        double shortestMs{4}; //!< round-trip time of the first flow, without queues
        double longestMs{20}; //!< likewise of the last one, those of the others in between
        double cross{0.05};   //!< share of a link for datagrams of one more sender, at random times
        uint32_t seed{1};     //!< of these times
        bool ipv6{false};     //!< instead of IPv4
    };

    /// What the routers are.
    struct Variant
    {
        std::string name;                      //!< for people
        std::array<uint32_t, ROUTERS> cores{}; //!< of each router; 0: infinite capacity
    };

    /// What was found after SETTLED.
    struct Found
    {
        std::vector<double> mbps;                      //!< goodput of each flow
        double rttMs{0};                               //!< mean, as senders measure it
        uint64_t sent{0};                              //!< segments with data, from the start
        uint64_t again{0};                             //!< of these, retransmitted
        std::array<uint64_t, ROUTERS> receiveDrops{};  //!< in receive rings, from the start
        std::array<uint64_t, ROUTERS> transmitDrops{}; //!< in transmit rings, from the start
        uint64_t hostDrops{0};                         //!< in the end devices' queues
        std::array<double, ROUTERS> utilisation{};     //!< of cores, mean of each router's
        std::array<double, ROUTERS> sojournUs{};       //!< mean, until the stack has the packet
        std::array<double, ROUTERS> p99Us{};           //!< likewise, 99th percentile
        uint64_t forwarded{0};                         //!< packets by the three routers' cores
        uint64_t events{0};                            //!< of the simulation

        /**
         * \return goodput of all flows, Mbit/s
         */
        double GetGoodput() const;
        /**
         * \return Jain's index of fairness (1984): 1 if all flows have as much, 1/n if one has it
         * all
         */
        double GetFairness() const;
    };

    /// What one core needs when no other works and bursts are full, ns.
    struct Needs
    {
        double frame; //!< for a full data frame
        double ack;   //!< for an acknowledgment
    };

    /**
     * \param profile of a router
     * \return what its cores need
     */
    static Needs GetNeeds(const SoftRouterProfile& profile);
    /**
     * \brief Make a router so slow that one core can forward a share of a link between routers:
     * full frames, and an acknowledgment for every second of them. \param [in,out] profile of the
     * router \param share of a link \return how many times as long everything takes
     */
    static double SlowDown(SoftRouterProfile& profile, double share);
    /**
     * \param ipv6 whether headers are IPv6's
     * \return bytes of data in a full frame: 1500 less IP header, TCP header and timestamps
     */
    static uint32_t GetSegment(bool ipv6);
    /**
     * \param setup what is to be simulated
     * \return what is wrong with it; empty: nothing
     */
    static std::string Check(const Setup& setup);

    /**
     * \param setup what is simulated
     * \param variant what the routers are
     * \param profile of routers with cores
     * \param out gets a row of the time series each interval; null: nobody does
     */
    TcpChain(const Setup& setup,
             const Variant& variant,
             const SoftRouterProfile& profile,
             std::ostream* out);
    /**
     * \brief Run it, once. Destroys the simulator's state.
     * \return what was found
     */
    Found Run();
    /**
     * \param flow number of a flow
     * \return its round-trip time without queues, ms
     */
    static double GetBaseRttMs(const Setup& setup, uint32_t flow);
    /**
     * \return the time series' header
     */
    static const char* GetHeader();

  private:
    /// A TCP flow as its ends see it.
    struct Flow
    {
        Ptr<PacketSink> sink;   //!< where it ends
        uint64_t before{0};     //!< bytes that came before flows were measured
        SequenceNumber32 next;  //!< the first byte not sent yet
        SequenceNumber32 probe; //!< the acknowledgment that ends a measurement of the RTT
        double probed{-1};      //!< ms: when it began; negative: none is going on
    };

    /**
     * \brief Give IPv4 addresses to all devices, and routes to all nodes.
     */
    void AddressIpv4();
    /**
     * \brief Give IPv6 addresses to all devices, and routes to all nodes.
     */
    void AddressIpv6();
    /**
     * \brief Give routers their cores.
     * \param profile of them
     */
    void BuildRouters(const SoftRouterProfile& profile);
    /**
     * \brief Count what devices' queues have no room for.
     */
    void WatchQueues();
    /**
     * \return what a receiver listens to
     */
    Address GetAny() const;
    /**
     * \brief Make a flow's sender and receiver.
     * \param flow its number
     */
    void BuildFlow(uint32_t flow);
    /**
     * \brief Make the cross traffic's sender.
     */
    void BuildCross();
    /**
     * \brief Send the next datagram of the cross traffic.
     */
    void SendCross();
    /**
     * \brief Watch the socket of a sender that has begun.
     * \param flow its number
     */
    void WatchSocket(uint32_t flow);
    /**
     * \brief A sender sends a segment.
     * \param flow its number
     * \param packet segment without its header
     * \param header of it
     * \param socket which
     */
    void Sent(uint32_t flow,
              Ptr<const Packet> packet,
              const TcpHeader& header,
              Ptr<const TcpSocketBase> socket);
    /**
     * \brief A sender receives a segment.
     * \param flow its number
     * \param packet segment without its header
     * \param header of it
     * \param socket which
     */
    void Received(uint32_t flow,
                  Ptr<const Packet> packet,
                  const TcpHeader& header,
                  Ptr<const TcpSocketBase> socket);
    /**
     * \brief Flows have settled: measure from now on.
     */
    void Begin();
    /**
     * \brief Write a row of the time series.
     */
    void Sample();
    /**
     * \brief It is over: take the figures.
     */
    void End();
    /**
     * \param router number of a router with cores
     * \return seconds that its cores were busy so far
     */
    double GetBusy(uint32_t router) const;

    /// Round-trip times added up.
    struct Rtt
    {
        double sumMs{0};     //!< of them
        uint64_t samples{0}; //!< how many
    };

    Setup m_setup;                                //!< what is simulated
    Variant m_variant;                            //!< what the routers are
    std::ostream* m_out;                          //!< time series
    NodeContainer m_senders;                      //!< by flow
    NodeContainer m_receivers;                    //!< by flow
    NodeContainer m_routers;                      //!< first, middle, last
    std::vector<NetDeviceContainer> m_left;       //!< by flow: sender, first router
    std::vector<NetDeviceContainer> m_right;      //!< by flow: last router, receiver
    std::vector<NetDeviceContainer> m_middle;     //!< first to middle, middle to last
    std::vector<Address> m_destinations;          //!< by flow
    std::array<Ptr<SoftRouter>, ROUTERS> m_cores; //!< null: infinite capacity
    std::array<double, ROUTERS> m_busy{};         //!< seconds, before the measurement
    Ptr<Socket> m_cross;                          //!< sends datagrams
    Ptr<ExponentialRandomVariable> m_gap;         //!< seconds between them
    std::vector<Flow> m_flows;                    //!< all
    Rtt m_rtt;                                    //!< of the measurement
    Rtt m_recent;                                 //!< since the last row
    uint64_t m_bits{0};                           //!< on the wire to receivers
    uint64_t m_sampled{0};                        //!< of these, up to the last row
    Found m_found;                                //!< the result
};

} // namespace ns3

#endif // SOFTROUTER_TCP_CHAIN_H
