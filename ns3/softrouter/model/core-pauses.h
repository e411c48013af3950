// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_CORE_PAUSES_H
#define SOFTROUTER_CORE_PAUSES_H

#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/random-variable-stream.h"

#include <vector>

namespace ns3
{

/**
 * \ingroup softrouter
 * \brief Something else has a core now and then: the system's timer, a hypervisor.
 *
 * Pauses begin at random (a Poisson process); each takes one of some lengths, one as often as the
 * other. Work is prolonged by those that begin before it ends. A core that has nothing to do goes
 * on when they are over. They are drawn when they are asked for, without events of their own.
 */
class CorePauses : public Object
{
  public:
    /**
     * \brief Get the type ID.
     * \return the type ID
     */
    static TypeId GetTypeId();

    CorePauses();
    ~CorePauses() override;

    /**
     * \brief Set how long they take.
     * \param lengthsNs in ns, at least one, each as often as the others
     */
    void SetLengths(const std::vector<double>& lengthsNs);
    /**
     * \brief Set where random numbers come from; cores may share them. Its own until then.
     * \param random uniform
     */
    void SetRandom(Ptr<UniformRandomVariable> random);

    /**
     * \brief Work begins now.
     * \param work how long it takes without pauses
     * \return when it ends
     */
    Time Work(Time work);
    /**
     * \brief The work that has begun last ends now, done or not; it may go on later.
     * \return what has been done of it
     */
    Time Interrupt();
    /**
     * \brief The core has nothing to do.
     * \param until some moment, not in the past
     * \return when it can work again: then, or later, at the end of a pause
     */
    Time Idle(Time until);
    /**
     * \return the time that pauses have taken from work so far
     */
    Time GetPaused() const;

  private:
    /// A pause of the core that works.
    struct Pause
    {
        Time from; //!< when it begins
        Time to;   //!< when it ends
    };

    /**
     * \brief Draw when the next pause begins.
     * \param after not before that
     */
    void Next(Time after);
    /**
     * \brief Draw the length of a pause.
     * \return the length
     */
    Time GetLength();
    /**
     * \brief Gets what pauses take from the present work.
     * \param until up to when
     * \return the time
     */
    Time GetPausedInWork(Time until) const;

    double m_perSecond{0};               //!< pauses that begin in a second
    std::vector<Time> m_lengths;         //!< how long they take
    Time m_longest;                      //!< the longest of these
    Ptr<UniformRandomVariable> m_random; //!< when and how long
    bool m_drawn{false};                 //!< m_next is valid
    Time m_next;                         //!< when the next one begins
    Time m_begun;                        //!< when the present work began
    std::vector<Pause> m_pauses;         //!< in the present work
    Time m_until;                        //!< when one ends that began earlier
    Time m_paused;                       //!< what they took from earlier work
};

} // namespace ns3

#endif // SOFTROUTER_CORE_PAUSES_H
