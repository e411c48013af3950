// SPDX-License-Identifier: MIT
//! What a worker does when no packets come.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Idle policy, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Poll on: lowest latency, a core at 100 %.
    #[default]
    Poll,
    /// Wait: the core is free for others. Queues that can wake the worker do; where there are others, it sleeps a little longer with every
    /// idle round, up to 250 µs.
    Sleep,
}

/// Rounds without a packet before a worker sleeps for the first time: bursts of a busy flow come closer together.
const PATIENCE: u32 = 64;
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// Longest sleep; what a packet may wait for an idle worker, beside the system's timer slack.
pub const LONGEST_SLEEP: Duration = Duration::from_micros(250);

/// Longest wait for queues that wake the worker: new tables and the request to stop do not.
const LONGEST_WAIT: Duration = Duration::from_millis(1);

/// Waits until packets are there, or `pause` is over. Queues without a descriptor (`None`) have to be looked at again after the pause;
/// without such queues the wait may be longer. Returns whether packets have ended it.
pub(crate) fn wait<'a>(queues: impl Iterator<Item = Option<BorrowedFd<'a>>>, pause: Duration) -> bool {
    let (mut all, mut descriptors) = (true, Vec::new());
    for queue in queues {
        all &= queue.is_some();
        descriptors.extend(queue.map(|queue| PollFd::from_borrowed_fd(queue, PollFlags::IN)));
    }
    let longest = if all && !descriptors.is_empty() { LONGEST_WAIT } else { pause };
    let timeout = Timespec { tv_sec: 0, tv_nsec: longest.as_nanos() as _ };
    // An interface that is down is reported at once, again and again, and so may be an error of poll itself.
    let over = poll(&mut descriptors, Some(&timeout)) == Ok(0);
    let packets = descriptors.iter().any(|queue| queue.revents().contains(PollFlags::IN));
    if !over && !packets {
        std::thread::sleep(pause);
    }
    packets
}

/// Counts idle rounds.
#[derive(Debug, Default)]
pub(crate) struct Drowsiness {
    rounds: u32,
}

impl Drowsiness {
    /// Takes whether the last round brought packets; returns how long to sleep now, if at all.
    pub fn round(&mut self, policy: Idle, packets: bool) -> Option<Duration> {
        if packets || policy == Idle::Poll {
            self.rounds = 0;
            return None;
        }
        self.rounds = self.rounds.saturating_add(1);
        let beyond = self.rounds.checked_sub(PATIENCE)?;
        Some((FIRST_SLEEP * 2u32.saturating_pow(beyond.min(16))).min(LONGEST_SLEEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn packets_end_a_wait_and_dead_queues_do_not() {
        let (reader, mut writer) = pipe().unwrap();
        let waits = |queues: &[Option<BorrowedFd<'_>>]| wait(queues.iter().copied(), LONGEST_SLEEP);
        assert!(!waits(&[Some(reader.as_fd())]) && !waits(&[None, None]) && !waits(&[]));
        let (gone, other) = pipe().unwrap();
        drop(gone);
        assert!(!waits(&[Some(other.as_fd())]), "an error is no packet");
        writer.write_all(b"x").unwrap();
        assert!(waits(&[Some(reader.as_fd())]) && waits(&[None, Some(other.as_fd()), Some(reader.as_fd())]));
    }

    #[test]
    fn sleeps_longer_and_longer_and_wakes_at_once() {
        let mut drowsy = Drowsiness::default();
        let sleeps: Vec<_> = (0..200).filter_map(|_| drowsy.round(Idle::Sleep, false)).collect();
        assert_eq!(sleeps.len(), 200 - PATIENCE as usize + 1);
        assert!(sleeps.is_sorted() && sleeps[0] == FIRST_SLEEP && sleeps.last() == Some(&LONGEST_SLEEP));
        assert_eq!(drowsy.round(Idle::Sleep, true), None);
        assert_eq!(drowsy.round(Idle::Sleep, false), None);
        assert!((0..200).all(|_| drowsy.round(Idle::Poll, false).is_none()));
    }
}
