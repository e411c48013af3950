// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_RESOURCE_H
#define SOFTROUTER_RESOURCE_H

#include "core-pauses.h"

#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/ptr.h"
#include "ns3/traced-callback.h"

#include <cstdint>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Something that one task unit at a time can hold: a core, a DMA engine, a bus.
 *
 * A resource that nobody has held for SleepAfter sleeps, as a core in an idle state does; the user
 * that gets it then waits for WakeUpTime. By default it never sleeps: a core that polls.
 */
class Resource : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    Resource();
    ~Resource() override;

    /**
     * \brief Take the resource, which must be free.
     * \return how long it takes until it can be used: zero unless it slept
     */
    Time Acquire();
    /**
     * \brief Give the resource back.
     */
    void Release();
    /**
     * \return whether nobody holds it
     */
    bool IsFree() const;
    /**
     * \brief Set what takes it away from its users now and then.
     * \param pauses its own; none: nothing does
     */
    void SetPauses(Ptr<CorePauses> pauses);
    /**
     * \brief Whoever holds it begins to work, or goes on.
     * \param work how long that takes if nothing takes the resource away
     * \return how long it takes
     */
    Time Work(Time work);
    /**
     * \brief Whoever held it, and lost it now, has not finished.
     * \param begun when it began to work, or went on
     * \return what it has done since
     */
    Time Interrupt(Time begun);
    /**
     * \brief Nobody needs it until some moment.
     * \param until that moment, not in the past
     * \return when it can be used: then, or later, if something has taken it away
     */
    Time Idle(Time until);
    /**
     * \brief It was awake when the packet came that is about to be seen, and has not fallen asleep.
     */
    void KeepAwake();
    /**
     * \return whether its next user has to wait until it wakes up
     */
    bool IsAsleep() const;
    /**
     * \return time it was held so far, wake-up included, pauses in work not
     */
    Time GetBusyTime() const;
    /**
     * \return time it slept so far
     */
    Time GetSleepTime() const;
    /**
     * \return how often it was woken
     */
    uint64_t GetWakeUps() const;

    /**
     * TracedCallback signature of Sleep.
     *
     * \param [in] since when it fell asleep
     * \param [in] duration how long it slept
     */
    typedef void (*SleepTracedCallback)(Time since, Time duration);
    /**
     * TracedCallback signature of Busy.
     *
     * \param [in] resource which one
     * \param [in] busy taken, not given back
     */
    typedef void (*BusyTracedCallback)(Ptr<Resource> resource, bool busy);

  private:
    /**
     * \param now the present
     * \return whether it sleeps
     */
    bool IsAsleep(Time now) const;
    /**
     * \return how long the one who holds it has held it, pauses in work not counted
     */
    Time GetHeldTime() const;

    Ptr<CorePauses> m_pauses;                        //!< what takes it away; null: nothing
    Time m_pausedBefore;                             //!< what pauses took before it was acquired
    Time m_sleepAfter;                               //!< idle time until it sleeps; negative: never
    Time m_wakeUpTime;                               //!< time to get ready again
    Time m_since;                                    //!< when it was acquired or released last
    Time m_ready;                                    //!< when it has woken up
    Time m_busyTime;                                 //!< time held, up to the last release
    Time m_sleepTime;                                //!< time slept, up to the last wake-up
    uint64_t m_wakeUps{0};                           //!< times woken
    bool m_free{true};                               //!< nobody holds it
    TracedCallback<Time, Time> m_sleepTrace;         //!< it slept, fired when woken
    TracedCallback<Ptr<Resource>, bool> m_busyTrace; //!< it was taken or given back
};

} // namespace ns3

#endif // SOFTROUTER_RESOURCE_H
