// SPDX-License-Identifier: MIT
//! What a worker does when no packets come.

use std::time::Duration;

/// Idle policy, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Poll on: lowest latency, a core at 100 %.
    #[default]
    Poll,
    /// Sleep a little longer with every idle round, up to 250 µs: the core is free for others.
    Sleep,
}

/// Rounds without a packet before a worker sleeps for the first time: bursts of a busy flow come closer together.
const PATIENCE: u32 = 64;
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// Longest sleep; what a packet may wait for an idle worker, beside the system's timer slack.
pub const LONGEST_SLEEP: Duration = Duration::from_micros(250);

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
