// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_SOFT_ROUTER_H
#define SOFTROUTER_SOFT_ROUTER_H

#include "contention-domain.h"
#include "local-resource-manager.h"
#include "nic-ring.h"
#include "punt-rule.h"
#include "resource-pool.h"
#include "rss-distributor.h"
#include "service-time-model.h"
#include "soft-router-tap.h"
#include "sojourn-meter.h"
#include "task-unit.h"
#include "transmit-buffer-queue-disc.h"
#include "transmit-buffer.h"

#include "ns3/callback.h"
#include "ns3/event-id.h"
#include "ns3/net-device.h"
#include "ns3/object.h"
#include "ns3/random-variable-stream.h"
#include "ns3/traced-callback.h"

#include <array>
#include <cstdint>
#include <vector>

namespace ns3
{

class Node;

/**
 * \ingroup softrouter
 * \brief Gives a node the hardware of a software router: cores, queues, batches.
 *
 * A packet's path: a port's receive callback, the RSS distributor, the receive ring of that port
 * and core, the core's task unit, and then the node's own stack (by way of SoftRouterTap) or, for
 * simulations without one, a forwarding function and the port's transmit buffer. What the fast path
 * cannot finish goes over the punt ring to the slow path, a task unit of lower priority.
 *
 * Usage: set attributes, AddPort() each device, Build(). SoftRouterHelper does all that.
 */
class SoftRouter : public Object
{
  public:
    /// Where a packet was lost.
    enum DropCause
    {
        RECEIVE_RING,  //!< no core took it in time
        PUNT_RING,     //!< the slow path was too slow
        TRANSMIT_RING, //!< the link was too slow
        NO_ROUTE,      //!< the forwarding function knew no port
        DROP_CAUSES    //!< how many there are
    };

    /// Which cores the slow path works on.
    enum SlowPathCore
    {
        SHARED, //!< those of the fast path, when these have nothing to do
        OWN     //!< one of its own
    };

    /// Which port a packet leaves by; negative: none, it is dropped.
    using Forward = Callback<int32_t, const RouterItem&>;
    /// Which core a packet goes to, below the number of cores.
    using Distribute = Callback<uint32_t, const RouterItem&>;

    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    SoftRouter();
    ~SoftRouter() override;

    /**
     * \brief Take over a device's received packets. Before Build().
     * \param device a device of the node
     * \return the port's number
     */
    uint32_t AddPort(Ptr<NetDevice> device);
    /**
     * \brief Forward without the node's stack. Before Build().
     * \param forward says where to
     */
    void SetForward(Forward forward);
    /**
     * \brief Choose cores otherwise than by receive side scaling.
     * \param distribute says which
     */
    void SetDistribute(Distribute distribute);
    /**
     * \brief Send other packets to the slow path than PuntRule and PuntShare do, besides those.
     * \param punt whether a packet goes there
     */
    void SetPunt(Callback<bool, const RouterItem&> punt);
    /**
     * \brief Have cores taken away now and then. Before Build().
     * \param perSecond how often on the mean, each core, up to 1e6
     * \param lengthsNs for how long, each of these as often as the others, in ns
     */
    void SetPauses(double perSecond, const std::vector<double>& lengthsNs);
    /**
     * \brief With the node's stack and TransmitWhenIdle: what gathers packets for a port.
     * \param disc the port's root queue disc
     */
    void AddTransmitBuffer(Ptr<TransmitBufferQueueDisc> disc);
    /**
     * \brief Make rings, cores and task units, and begin to receive.
     * \param node whose devices the ports are; its stack forwards if there is no other function
     */
    void Build(Ptr<Node> node);
    /**
     * \brief Put a packet into the router as if a port had received it.
     * \param item the packet; protocol and packet must be set
     * \param port the port's number
     */
    void Receive(RouterItem item, uint32_t port);

    /**
     * \brief A packet that had left for the node's stack found its transmit ring full.
     * \param packet the packet
     */
    void CountTransmitDrop(Ptr<const Packet> packet);

    /**
     * \return the cores
     */
    Ptr<ResourcePool> GetCores() const;
    /**
     * \return how packets find their core
     */
    Ptr<RssDistributor> GetDistributor() const;
    /**
     * \return who gives cores to task units; null while each has its own
     */
    Ptr<LocalResourceManager> GetManager() const;
    /**
     * \return the task units: one per core, then the slow path's, if there is one
     */
    const std::vector<Ptr<TaskUnit>>& GetUnits() const;
    /**
     * \return the receive rings: of port 0 for each core, of port 1 for each core, ...
     */
    const std::vector<Ptr<NicRing>>& GetRings() const;
    /**
     * \return sojourn times, from the receive ring to the transmit device or the node's stack
     */
    SojournMeter& GetMeter();
    /**
     * \return packets received by all ports, lost ones included
     */
    uint64_t GetReceived() const;
    /**
     * \param core a core's index
     * \return packets that were meant for it, lost ones included
     */
    uint64_t GetReceived(uint32_t core) const;
    /**
     * \return packets handed to a transmit device or the node's stack
     */
    uint64_t GetForwarded() const;
    /**
     * \param cause where
     * \return packets lost there
     */
    uint64_t GetDrops(DropCause cause) const;
    /**
     * \param cause of a drop
     * \return its name, such as "receive_ring"
     */
    static const char* GetName(DropCause cause);
    /**
     * \brief Fix the random numbers that PuntShare and pauses use.
     * \param stream first stream
     * \return streams used
     */
    int64_t AssignStreams(int64_t stream);

    /**
     * TracedCallback signature of Sojourn.
     *
     * \param [in] packet the packet
     * \param [in] sojourn how long it stayed
     */
    typedef void (*SojournTracedCallback)(Ptr<const Packet> packet, Time sojourn);
    /**
     * TracedCallback signature of Drop.
     *
     * \param [in] packet the packet
     * \param [in] cause where it was lost
     */
    typedef void (*DropTracedCallback)(Ptr<const Packet> packet, DropCause cause);
    /**
     * TracedCallback signature of Utilisation.
     *
     * \param [in] core index
     * \param [in] share of the time since the last report that it was busy, 0 to 1
     */
    typedef void (*UtilisationTracedCallback)(uint32_t core, double share);
    /**
     * TracedCallback signature of LittleSojourn.
     *
     * \param [in] sojourn mean since the last report, by Little's law
     */
    typedef void (*LittleTracedCallback)(Time sojourn);

  protected:
    void DoDispose() override;

  private:
    /// A device, and what waits at it.
    struct Port
    {
        Ptr<NetDevice> device; //!< the device
        /// To its transmit ring, without the node's stack: each task unit's own.
        std::vector<Ptr<TransmitBuffer>> buffers;
    };

    /**
     * \brief Make the cores.
     */
    void BuildCores();
    /**
     * \brief Make each core's rings and task unit.
     */
    void BuildFastPath();
    /**
     * \brief Make the punt ring and the slow path's task unit.
     */
    void BuildSlowPath();
    /**
     * \brief Make each task unit's transmit buffers.
     */
    void BuildTransmitBuffers();
    /**
     * \return a core
     */
    Ptr<Resource> MakeCore() const;
    /**
     * \brief Give a task unit its core, or somebody to ask for it.
     * \param unit the task unit
     * \param core index, or ResourceDemand::ANY
     */
    void Employ(Ptr<TaskUnit> unit, int32_t core);
    /**
     * \brief A port received a packet.
     * \param device the port
     * \param packet the packet
     * \param protocol its Ethernet type
     * \param from its link-layer source
     * \return true: it was for us
     */
    bool ReceiveFromDevice(Ptr<NetDevice> device,
                           Ptr<const Packet> packet,
                           uint16_t protocol,
                           const Address& from);
    /**
     * \brief The fast path is done with a packet.
     * \param unit number of the task unit
     * \param item the packet
     */
    void FastPathDone(uint32_t unit, RouterItem& item);
    /**
     * \brief Send a packet on its way.
     * \param unit number of the task unit that is done with it
     * \param item the packet
     */
    void Deliver(uint32_t unit, RouterItem& item);
    /**
     * \brief A task unit has handed on all packets of a burst.
     * \param unit its number
     */
    void EndBurst(uint32_t unit);
    /**
     * \brief A task unit has looked for packets and found none: what it has gathered goes.
     * \param unit its number
     */
    void FlushBuffers(uint32_t unit);
    /**
     * \brief Give a packet to its transmit device.
     * \param port where it leaves
     * \param item the packet
     * \return whether the device took it
     */
    bool Transmit(uint32_t port, const RouterItem& item);
    /**
     * \brief A packet has left.
     * \param item the packet
     */
    void Depart(const RouterItem& item);
    /**
     * \brief A packet is lost.
     * \param packet the packet
     * \param cause where
     */
    void Drop(Ptr<const Packet> packet, DropCause cause);
    /**
     * \brief A packet is lost that was in the router already.
     * \param packet the packet
     * \param cause where
     */
    void DropInside(Ptr<const Packet> packet, DropCause cause);
    /**
     * \param item a packet
     * \return whether it goes to the slow path
     */
    bool IsPunted(const RouterItem& item);
    /**
     * \brief Report utilisation and sojourn time since the last report.
     */
    void Sample();

    // Attributes
    uint32_t m_cores{1};                 //!< of the fast path
    uint32_t m_burst{32};                //!< packets of a burst
    uint32_t m_receiveRing{512};         //!< packets of a receive ring
    uint32_t m_puntRing{512};            //!< packets of the punt ring
    uint32_t m_transmitBuffer{1};        //!< packets gathered per port
    Time m_transmitTimeout;              //!< how long they are gathered
    bool m_transmitWhenIdle{false};      //!< idle cores send them
    Time m_pollTime;                     //!< of a look that finds nothing
    uint32_t m_overhead{18};             //!< bytes of a frame around what a device hands over
    Ptr<ServiceTimeModel> m_model;       //!< fast path
    Ptr<ServiceTimeModel> m_slowModel;   //!< slow path; null: there is none
    SlowPathCore m_slowPathCore{SHARED}; //!< where it works
    double m_puntShare{0};               //!< of packets, at random
    Ptr<PuntRule> m_puntRule;            //!< which packets; null: none
    Time m_sleepAfter;                   //!< of cores
    Time m_wakeUpTime;                   //!< of cores
    bool m_truncate{false};              //!< service times to whole ns
    Time m_sampleInterval;               //!< of reports; zero: none

    // Parts
    Ptr<ContentionDomain> m_contention;       //!< of the cores
    Ptr<RssDistributor> m_distributor;        //!< which core
    Ptr<ResourcePool> m_pool;                 //!< the cores
    Ptr<Resource> m_slowCore;                 //!< the slow path's own
    Ptr<LocalResourceManager> m_manager;      //!< if task units share cores
    Ptr<Node> m_node;                         //!< whose devices the ports are
    Ptr<SoftRouterTap> m_tap;                 //!< to the node's stack
    Ptr<NicRing> m_punted;                    //!< the punt ring
    std::vector<Port> m_ports;                //!< by number
    std::vector<int32_t> m_portOfDevice;      //!< by the device's index; -1: none
    std::vector<Ptr<NicRing>> m_rings;        //!< by port and core
    std::vector<Ptr<TaskUnit>> m_units;       //!< by core, then the slow path's
    Ptr<UniformRandomVariable> m_random;      //!< for PuntShare
    Ptr<UniformRandomVariable> m_pauseRandom; //!< for pauses, of all cores
    double m_pausesPerSecond{0};              //!< of each core
    std::vector<double> m_pausesNs;           //!< how long they take
    /// With the node's stack, of each port.
    std::vector<Ptr<TransmitBufferQueueDisc>> m_discs;
    Forward m_forward;                        //!< instead of the node's stack
    Distribute m_distribute;                  //!< instead of RSS
    Callback<bool, const RouterItem&> m_punt; //!< more packets for the slow path

    // Counters
    SojournMeter m_meter;                        //!< since the start, or a Reset()
    SojournMeter::Counters m_sampleCounters;     //!< at the last report
    std::vector<Time> m_sampleBusy;              //!< of each core at the last report
    std::vector<uint64_t> m_received;            //!< by core
    uint64_t m_forwarded{0};                     //!< sent on their way
    std::array<uint64_t, DROP_CAUSES> m_drops{}; //!< by cause
    EventId m_sample;                            //!< the next report

    TracedCallback<Ptr<const Packet>, Time> m_sojournTrace;   //!< a packet has left
    TracedCallback<Ptr<const Packet>, DropCause> m_dropTrace; //!< a packet is lost
    TracedCallback<uint32_t, double> m_utilisationTrace;      //!< of a core
    TracedCallback<Time> m_littleTrace;                       //!< mean sojourn
};

} // namespace ns3

#endif // SOFTROUTER_SOFT_ROUTER_H
