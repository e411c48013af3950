// SPDX-License-Identifier: MIT
//! What a worker does when no packets come: [`Drowsiness`] decides, between two rounds, and knows no clock and no
//! queue.
//!
//! ```text
//!            packets                                     all queues can wake it
//!          ┌────────► Poll ──nothing──► Rest, 5 us ──┬──► Arm ──one look more───► Wait ──┐ 10 ms over: again
//!          │                                         │     ▲                      │  ▲   │
//!          │                                         │     └─ Rest ◄── Disarm ◄───┤  └───┘
//!          └─────────────────── Disarm ◄─────────────┼────── packets ─────────────┘ woken in vain
//!                                                    └──► Sleep 10, 20, 40, 50 us ..., 250 us ...
//!                                                    one cannot
//! ```
//!
//! A wake-up would be lost if a packet came between the last look at a queue and the moment from which packets wake the
//! worker. So queues are armed first and looked at once more, all of them, before the worker waits. A script may look
//! at some of its queues in one round and at others in the next: rounds count here once [all](Looks) have been looked
//! at, and one that leaves queues alone for long never waits, but sleeps by time.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Idle policy, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Poll on: lowest latency, a core at 100 %.
    #[default]
    Poll,
    /// Wait: the core is free for others. Queues that can wake the worker do; where there are others, it sleeps a
    /// little longer with every idle round, up to 250 µs.
    Sleep,
    /// Poll while packets come and for 5 µs more, then wait for queues that can wake the worker; where there are
    /// others, sleep for 50 µs at most, and for 250 µs once nothing has come for 10 ms.
    Adaptive,
}

/// Rounds after which a worker does not stay awake any longer for queues that its script has not looked at.
const NEGLECT: u32 = 64;
/// `Sleep`: rounds over all queues without a packet before a worker sleeps for the first time; bursts of a busy flow
/// come closer together.
const PATIENCE: u32 = 64;
/// `Adaptive`: how long it goes on polling without a packet, in ns: about what it costs to fall asleep and to be woken.
const SPIN: u64 = 5_000;
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// The longest sleep; what a packet may wait for an idle worker, beside the system's own time to wake it.
pub const LONGEST_SLEEP: Duration = Duration::from_micros(250);
/// `Adaptive`: the longest sleep within `SILENCE` of the last packets. Shortest frames at 10 Gbit/s need 68 us to fill
/// a receive ring of 1024 descriptors.
pub const LONGEST_NAP: Duration = Duration::from_micros(50);
/// `Adaptive`: after so long without packets, in ns, sleeps are the longest.
const SILENCE: u64 = 10_000_000;
/// `Sleep`: longest wait for queues that wake the worker.
pub(crate) const LONGEST_DOZE: Duration = Duration::from_millis(1);
/// `Adaptive`: the same. Only the request to stop waits for so long: who was asleep looks for new tables first.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// What a round of the loop has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Packets,
    /// Nothing, and since the last packets or the last look at all of them, each queue was looked at.
    Nothing,
    /// Nothing, but not all queues were looked at yet.
    NotAllSeen,
}

/// What a worker does between two rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next round, at once.
    Poll,
    /// Lets the processor rest for a moment, but keeps the core.
    Rest,
    /// Sleeps so long, or until one of those queues wakes it that always do.
    Sleep(Duration),
    /// Has all queues wake it from now on; first it looks at each of them once more.
    Arm,
    /// Waits until a queue wakes it.
    Wait,
    /// It is awake: queues need not wake it.
    Disarm,
}

/// Which queues a worker has looked at, and found nothing in.
#[derive(Debug)]
pub(crate) struct Looks {
    /// By queue, the number of the last pass in which it was looked at.
    passes: Box<[u64]>,
    /// The number of this pass.
    pass: u64,
    /// How many queues are still to be looked at in it.
    left: usize,
}

impl Looks {
    /// A first pass over so many queues begins.
    pub fn new(queues: usize) -> Looks {
        Looks { passes: vec![0; queues].into(), pass: 1, left: queues }
    }

    /// There was nothing in a queue.
    #[inline]
    pub fn nothing_in(&mut self, queue: usize) {
        if let Some(pass) = self.passes.get_mut(queue).filter(|pass| **pass != self.pass) {
            *pass = self.pass;
            self.left -= 1;
        }
    }

    /// After a round that brought packets or nothing: has this pass come to its end, without packets? If so, or with
    /// packets, the next one begins.
    #[inline]
    pub fn round(&mut self, packets: bool) -> bool {
        let all = self.left == 0 && !packets;
        if all || packets {
            (self.pass, self.left) = (self.pass + 1, self.passes.len());
        }
        all
    }
}

/// How long a worker has been idle, and how far it has fallen asleep.
#[derive(Debug, Default)]
pub(crate) struct Drowsiness {
    policy: Idle,
    /// Idle rounds in which all queues were looked at (`Sleep`), or sleeps (`Adaptive`), since the last packets.
    rounds: u32,
    /// When the first idle round since the last packets ended, in ns.
    since: Option<u64>,
    armed: bool,
    /// Idle rounds since all queues were looked at.
    incomplete: u32,
    /// Was the last wait ended by a queue?
    woken: bool,
    /// Did a queue refuse to be armed since the last packets?
    refused: bool,
}

impl Drowsiness {
    /// A worker that is awake.
    pub fn new(policy: Idle) -> Drowsiness {
        Drowsiness { policy, ..Drowsiness::default() }
    }

    /// Takes what the last round brought, the time in ns, and whether all queues can wake the worker; returns what to
    /// do now.
    #[inline]
    pub fn round(&mut self, found: Found, now: u64, wakeable: impl FnOnce() -> bool) -> Step {
        if self.policy == Idle::Poll {
            return Step::Poll;
        }
        if found == Found::Packets {
            if self.rounds == 0 && self.incomplete == 0 && self.since.is_none() {
                return Step::Poll;
            }
            let armed = self.armed;
            *self = Drowsiness::new(self.policy);
            return if armed { Step::Disarm } else { Step::Poll };
        }
        self.incomplete = if found == Found::Nothing { 0 } else { self.incomplete.saturating_add(1) };
        if (1..NEGLECT).contains(&self.incomplete) {
            return Step::Poll;
        }
        match self.policy {
            Idle::Poll => Step::Poll,
            Idle::Sleep => self.doze(),
            Idle::Adaptive => self.adapt(now, wakeable),
        }
    }

    fn doze(&mut self) -> Step {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds.checked_sub(PATIENCE) {
            None => Step::Poll,
            Some(beyond) => Step::Sleep(longer(beyond, LONGEST_SLEEP)),
        }
    }

    fn adapt(&mut self, now: u64, wakeable: impl FnOnce() -> bool) -> Step {
        let since = *self.since.get_or_insert(now);
        let neglects = self.incomplete > 0;
        if self.armed && std::mem::take(&mut self.woken) {
            // An interrupt without a packet: it is taken, and not waited for again at once.
            *self = Drowsiness { since: Some(now), incomplete: self.incomplete, ..Drowsiness::new(self.policy) };
            return Step::Disarm;
        }
        if self.armed && !neglects {
            return Step::Wait;
        }
        if now.saturating_sub(since) < SPIN {
            return Step::Rest;
        }
        if !neglects && !self.refused && wakeable() {
            self.armed = true;
            return Step::Arm;
        }
        let silent = now.saturating_sub(since) >= SILENCE;
        let nap = if silent { LONGEST_SLEEP } else { longer(self.rounds, LONGEST_NAP) };
        self.rounds = self.rounds.saturating_add(1);
        Step::Sleep(nap)
    }

    /// Whether packets end a sleep where all queues can wake the worker, so that it may be a longer one. An adaptive
    /// worker waits instead, unless its queues could not be armed or were not all looked at: then they may have
    /// packets that wake nobody.
    pub fn dozes(&self) -> bool {
        self.policy == Idle::Sleep
    }

    /// Queues could not be armed: it sleeps by time from now on.
    pub fn refused(&mut self) {
        (self.armed, self.refused) = (false, true);
    }

    /// A queue has ended the wait.
    pub fn woken(&mut self) {
        self.woken = true;
    }
}

/// The sleep after `sleeps` others.
fn longer(sleeps: u32, longest: Duration) -> Duration {
    (FIRST_SLEEP * 2u32.saturating_pow(sleeps.min(16))).min(longest)
}

/// Has the calling thread woken in time after short sleeps: the kernel would take 50 us more, so as to wake several
/// threads at once.
pub fn wake_in_time() {
    // Without it sleeps are longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until one of the queues has packets, or the time is over; returns whether packets have ended it.
pub(crate) fn wait<'a>(queues: impl Iterator<Item = BorrowedFd<'a>>, longest: Duration) -> bool {
    let mut descriptors: Vec<_> = queues.map(|queue| PollFd::from_borrowed_fd(queue, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: longest.as_nanos() as _ };
    // An interface that is down is reported at once, again and again, and so may be an error of poll itself.
    let over = poll(&mut descriptors, Some(&timeout)) == Ok(0);
    let packets = descriptors.iter().any(|queue| queue.revents().contains(PollFlags::IN));
    if !over && !packets {
        std::thread::sleep(longest.min(LONGEST_SLEEP));
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    fn found(packets: bool) -> Found {
        if packets { Found::Packets } else { Found::Nothing }
    }

    #[test]
    fn packets_end_a_wait_and_dead_queues_do_not() {
        let (reader, mut writer) = pipe().unwrap();
        let waits = |queues: &[BorrowedFd<'_>]| wait(queues.iter().copied(), LONGEST_SLEEP);
        assert!(!waits(&[reader.as_fd()]) && !waits(&[]));
        let (gone, other) = pipe().unwrap();
        drop(gone);
        assert!(!waits(&[other.as_fd()]), "an error is no packet");
        writer.write_all(b"x").unwrap();
        assert!(waits(&[reader.as_fd()]) && waits(&[other.as_fd(), reader.as_fd()]));
    }

    #[test]
    fn sleeps_longer_and_longer_and_wakes_at_once() {
        let mut drowsy = Drowsiness::new(Idle::Sleep);
        let mut round = |packets| drowsy.round(found(packets), 0, || true);
        let steps: Vec<_> = (0..200).map(|_| round(false)).collect();
        let (awake, asleep) = steps.split_at(PATIENCE as usize - 1);
        assert!(awake.iter().all(|step| *step == Step::Poll));
        let sleeps: Vec<_> =
            asleep.iter().map(|step| if let Step::Sleep(pause) = step { *pause } else { panic!("{step:?}") }).collect();
        assert!(sleeps.is_sorted() && sleeps[0] == FIRST_SLEEP && sleeps.last() == Some(&LONGEST_SLEEP));
        assert_eq!((round(true), round(false)), (Step::Poll, Step::Poll));
        let mut never = Drowsiness::new(Idle::Poll);
        assert!((0..200).all(|now| never.round(Found::Nothing, now << 20, || true) == Step::Poll));
    }

    /// Steps of an adaptive worker, by rounds of which each takes 1 us, beside what the step itself takes.
    fn steps(drowsy: &mut Drowsiness, now: &mut u64, rounds: usize, wakeable: bool) -> Vec<Step> {
        let round = |_| {
            let step = drowsy.round(Found::Nothing, *now, || wakeable);
            *now += 1000 + if let Step::Sleep(pause) = step { pause.as_nanos() as u64 } else { 0 };
            step
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn without_packets_an_adaptive_worker_rests_then_sleeps_for_a_bounded_time() {
        let (mut drowsy, mut now) = (Drowsiness::new(Idle::Adaptive), 7);
        let us = |us| Step::Sleep(Duration::from_micros(us));
        for _ in 0..3 {
            let found = steps(&mut drowsy, &mut now, 1000, false);
            assert!(found[..5].iter().all(|step| *step == Step::Rest), "{:?}", &found[..9]);
            assert_eq!(found[5..9], [us(10), us(20), us(40), us(50)]);
            // 51 us each, up to 10 ms.
            assert!(found[9..190].iter().all(|step| *step == us(50)));
            assert!(found[210..].iter().all(|step| *step == us(250)));
            assert_eq!(drowsy.round(Found::Packets, now, || false), Step::Poll);
        }
    }

    #[test]
    fn queues_that_can_wake_it_are_armed_before_a_round_and_only_then_waited_for() {
        let (mut drowsy, mut now) = (Drowsiness::new(Idle::Adaptive), 7);
        let found = steps(&mut drowsy, &mut now, 8, true);
        assert_eq!(found[4..], [Step::Rest, Step::Arm, Step::Wait, Step::Wait], "the time was over");
        drowsy.woken();
        assert_eq!(drowsy.round(Found::Packets, now, || true), Step::Disarm);
        assert_eq!(drowsy.round(Found::Packets, now, || true), Step::Poll);
        // Packets that come between the two are no reason to wait.
        steps(&mut drowsy, &mut now, 6, true);
        assert_eq!(drowsy.round(Found::Packets, now, || true), Step::Disarm);
        assert_eq!(drowsy.round(Found::Nothing, now, || true), Step::Rest);
    }

    /// It would have polled a descriptor that stays readable, without end.
    #[test]
    fn an_interrupt_without_a_packet_is_taken() {
        let (mut drowsy, mut now) = (Drowsiness::new(Idle::Adaptive), 7);
        assert_eq!(steps(&mut drowsy, &mut now, 7, true)[6], Step::Wait);
        drowsy.woken();
        let found = steps(&mut drowsy, &mut now, 7, true);
        assert_eq!(found, [Step::Disarm, Step::Rest, Step::Rest, Step::Rest, Step::Rest, Step::Arm, Step::Wait]);
    }

    #[test]
    fn queues_that_refuse_to_be_armed_are_looked_at_after_sleeps() {
        let (mut drowsy, mut now) = (Drowsiness::new(Idle::Adaptive), 7);
        assert_eq!(steps(&mut drowsy, &mut now, 6, true)[5], Step::Arm);
        drowsy.refused();
        assert!(steps(&mut drowsy, &mut now, 9, true).iter().all(|step| matches!(step, Step::Sleep(_))));
        assert_eq!(drowsy.round(Found::Packets, now, || true), Step::Poll);
        assert_eq!(steps(&mut drowsy, &mut now, 6, true)[5], Step::Arm, "tried again");
    }

    /// It waited for up to 10 ms beside a packet in a queue that it had looked at before it was armed, and not since.
    #[test]
    fn who_looks_at_queues_in_turn_waits_when_all_have_been_looked_at() {
        let (mut drowsy, mut now) = (Drowsiness::new(Idle::Adaptive), 7);
        let mut turn = |looks: &mut Looks, queue| {
            looks.nothing_in(queue);
            now += 1000;
            let found = if looks.round(false) { Found::Nothing } else { Found::NotAllSeen };
            drowsy.round(found, now, || true)
        };
        let mut looks = Looks::new(3);
        let steps: Vec<_> = (0..24).map(|round| turn(&mut looks, round % 3)).collect();
        let passes: Vec<_> = steps
            .as_chunks::<3>()
            .0
            .iter()
            .map(|[a, b, all]| {
                assert_eq!((a, b), (&Step::Poll, &Step::Poll));
                *all
            })
            .collect();
        assert_eq!(
            passes,
            [Step::Rest, Step::Rest, Step::Arm, Step::Wait, Step::Wait, Step::Wait, Step::Wait, Step::Wait]
        );
    }

    #[test]
    fn who_never_looks_at_a_queue_sleeps_for_a_bounded_time() {
        for policy in [Idle::Adaptive, Idle::Sleep] {
            let (mut drowsy, mut slept) = (Drowsiness::new(policy), 0);
            for round in 0..1000 {
                match drowsy.round(Found::NotAllSeen, round << 20, || true) {
                    Step::Sleep(pause) => {
                        assert!(pause <= LONGEST_SLEEP);
                        slept += 1;
                    }
                    step => assert!(slept == 0 && matches!(step, Step::Poll | Step::Rest), "{step:?}"),
                }
            }
            assert!(slept > 800, "{policy:?}: {slept}");
            // Having looked at all it arms them, and does not wait before it has done so again.
            if policy == Idle::Adaptive {
                assert_eq!(drowsy.round(Found::Nothing, 1 << 40, || true), Step::Arm);
                let steps: Vec<_> = (0..200).map(|_| drowsy.round(Found::NotAllSeen, 1 << 40, || true)).collect();
                assert!(steps.iter().all(|step| matches!(step, Step::Poll | Step::Sleep(_))), "{steps:?}");
                assert_eq!(drowsy.round(Found::Nothing, 1 << 40, || true), Step::Wait);
            }
        }
    }

    /// Against a set of the queues that were looked at, with packets in between.
    #[test]
    fn a_pass_ends_when_all_queues_have_been_looked_at() {
        let mut looks = Looks::new(4);
        let mut seen = std::collections::BTreeSet::new();
        let mut state = 1u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (queue, again, packets) = (state >> 28 & 7, state >> 25 & 1, state >> 20 & 15 == 0);
            for queue in [queue; 2].into_iter().take(again as usize + 1) {
                looks.nothing_in(queue as usize);
                seen.extend(Some(queue).filter(|queue| *queue < 4));
            }
            let all = seen.len() == 4 && !packets;
            assert_eq!(looks.round(packets), all);
            if all || packets {
                seen.clear();
            }
        }
        assert!(Looks::new(0).round(false), "who has no queue has looked at all of them");
    }
}
