// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_TASK_UNIT_H
#define SOFTROUTER_TASK_UNIT_H

#include "contention-domain.h"
#include "nic-ring.h"
#include "resource-manager.h"
#include "service-time-model.h"

#include "ns3/callback.h"
#include "ns3/event-id.h"
#include "ns3/object.h"
#include "ns3/traced-callback.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief The processing plane: takes bursts from its incoming queues, works on each for the time
 * that its service-time model says, and hands the packets on.
 *
 * Before each burst it asks its manager for what it needs and afterwards gives that back; without
 * a manager it has a core of its own. It polls its queues in turn, one burst from each. If its
 * resources are revoked in the middle of a burst, the rest of the service time is kept and spent
 * when it has them again.
 *
 * With a PollTime, looks at its queues that find nothing take that long, one after the other: what
 * comes meanwhile is seen at the end of a look.
 */
class TaskUnit : public Object, private ResourceUser
{
  public:
    /// Gets a packet that has been worked on.
    using Output = Callback<void, RouterItem&>;
    /// Says whether a packet is one for the slow path.
    using Punt = Callback<bool, const RouterItem&>;
    /// Hears of something.
    using Hook = Callback<void>;

    /// What a task unit is about.
    enum State
    {
        IDLE,    //!< there is no packet
        LOOKING, //!< at its queues; what comes meanwhile is seen when that ends
        WAITING, //!< for its resources
        WAKING,  //!< has its resources, one of which gets up
        WORKING  //!< on a burst
    };

    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    TaskUnit();
    ~TaskUnit() override;

    /**
     * \brief Add an incoming queue. The one that puts a packet there calls Notify().
     * \param queue the queue
     */
    void AddQueue(Ptr<NicRing> queue);
    /**
     * \brief Set where packets go.
     * \param output gets each packet at the end of its burst
     */
    void SetOutput(Output output);
    /**
     * \brief Set which packets are for the slow path. They cost more, and are marked.
     * \param punt asked for each packet as it is taken
     */
    void SetPunt(Punt punt);
    /**
     * \brief Set what happens between bursts.
     * \param burstEnd called when the packets of a burst have been handed on
     * \param nothing called at the end of the look that finds nothing after a burst
     */
    void SetHooks(Hook burstEnd, Hook nothing);
    /**
     * \brief Set how long a burst takes.
     * \param model the service-time model
     */
    void SetServiceModel(Ptr<ServiceTimeModel> model);
    /**
     * \brief Set what the service time depends on besides the packets.
     * \param contention the domain; without one it works as if alone
     */
    void SetContention(Ptr<ContentionDomain> contention);
    /**
     * \brief Give it a core of its own, instead of a manager.
     * \param core the core
     */
    void SetCore(Ptr<Resource> core);
    /**
     * \brief Have it ask a manager for what it needs. Its priority is that of its attribute now.
     * \param manager the manager
     * \param demands what it needs for each burst
     */
    void SetManager(Ptr<ResourceManager> manager, const std::vector<ResourceDemand>& demands);
    /**
     * \brief Tell it that there is a packet in one of its queues.
     */
    void Notify();
    /**
     * \return what it is about
     */
    State GetState() const;
    /**
     * \return packets it has handed on
     */
    uint64_t GetPackets() const;
    /**
     * \return bursts it has begun
     */
    uint64_t GetBursts() const;

    /**
     * TracedCallback signature of Burst.
     *
     * \param [in] packets in the burst
     * \param [in] service how long it takes, undisturbed
     */
    typedef void (*BurstTracedCallback)(uint32_t packets, Time service);

  protected:
    void DoDispose() override;

  private:
    void Reply(Time delay) override;
    void Revoke() override;
    bool IsRevocable() const override;
    /**
     * \brief Ask for what the next burst needs.
     */
    void Ask();
    /**
     * \brief A look has ended that finds a packet.
     */
    void See();
    /**
     * \brief Look at the queues, in which there was nothing.
     */
    void Look();
    /**
     * \brief A look has ended that found nothing.
     */
    void EndLook();
    /**
     * \brief Go on with the burst that was interrupted, or take one.
     */
    void Begin();
    /**
     * \brief Take a burst from the queue whose turn it is.
     * \return how long it takes
     */
    Time TakeBurst();
    /**
     * \param queue where the packets are
     * \param packets how many
     * \return how long they take
     */
    double TakePackets(NicRing& queue, uint32_t packets);
    /**
     * \brief A burst is done.
     */
    void Finish();
    /**
     * \return whether a packet is in one of its queues
     */
    bool HasPackets() const;

    uint32_t m_burstSize{32};                    //!< packets of a burst, at most
    uint32_t m_priority{1};                      //!< higher goes first
    bool m_truncate{false};                      //!< cut service times to whole nanoseconds
    std::vector<Ptr<NicRing>> m_queues;          //!< incoming
    uint32_t m_turn{0};                          //!< which of them is next
    Output m_output;                             //!< outgoing
    Punt m_punt;                                 //!< which are for the slow path
    Hook m_burstEnd;                             //!< told of the ends of bursts
    Hook m_nothing;                              //!< told of looks that found nothing
    Time m_pollTime;                             //!< of such a look
    Ptr<ServiceTimeModel> m_model;               //!< how long a burst takes
    Ptr<ContentionDomain> m_contention;          //!< what that depends on
    Ptr<Resource> m_core;                        //!< its own, or
    Ptr<ResourceManager> m_manager;              //!< whom it asks
    uint32_t m_user{0};                          //!< its number there
    Ptr<Resource> m_home;                        //!< the core that it looks on; null: whichever
    Ptr<Resource> m_working;                     //!< the core that works; null: none is known
    State m_state{IDLE};                         //!< what it is about
    std::vector<RouterItem> m_burst;             //!< what it works on
    std::vector<RouterItem> m_done;              //!< what it hands on; kept for its memory
    Time m_remaining;                            //!< of the service time, when m_begun
    Time m_begun;                                //!< when work began or went on
    Time m_end;                                  //!< when it is done
    Time m_looked;                               //!< when the last look ended
    Time m_seen;                                 //!< when it sees what woke it
    double m_carry{0};                           //!< part of a time step that was not spent yet
    double m_stepsPerNs{0};                      //!< time steps of the simulation in a nanosecond
    EventId m_event;                             //!< end of waking up or of a burst
    uint64_t m_packets{0};                       //!< handed on
    uint64_t m_bursts{0};                        //!< begun
    TracedCallback<uint32_t, Time> m_burstTrace; //!< a burst begins
};

} // namespace ns3

#endif // SOFTROUTER_TASK_UNIT_H
