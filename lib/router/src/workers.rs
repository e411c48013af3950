// SPDX-License-Identifier: MIT
//! The workers as the slow path's thread sees them: their punt rings, their counters, and whether they are alive.

use crate::plane::{KernelPlane, PlaneShare};
use perigee_modules::{Counters, CustomReasons, Punted, Tables};
use perigee_worker::PuntReader;
use std::sync::Arc;

/// A worker that passes no batch boundary for this long, in ns, is silent.
const SILENT: u64 = 1_000_000_000;

/// The slow path's end of one worker.
pub struct WorkerEnd {
    /// Names of the queues that the worker polls: `wan:0`, `hand-over`.
    pub polled: Vec<String>,
    /// Its punt ring.
    pub punts: PuntReader,
    pub counters: Arc<Counters>,
}

/// All workers, in order.
pub struct Workers {
    ends: Vec<WorkerEnd>,
    heartbeats: Vec<Heartbeat>,
    custom: Arc<CustomReasons>,
    plane: Option<Arc<dyn KernelPlane>>,
}

impl Workers {
    /// The workers' ends, with the names of reasons that scripts make.
    pub fn new(ends: Vec<WorkerEnd>, custom: Arc<CustomReasons>) -> Workers {
        let heartbeats = ends.iter().map(|_| Heartbeat::default()).collect();
        Workers { ends, heartbeats, custom, plane: None }
    }

    /// With the in-kernel plane, which does some of the workers' work.
    #[must_use]
    pub fn and_plane(self, plane: Option<Arc<dyn KernelPlane>>) -> Workers {
        Workers { plane, ..self }
    }

    /// The in-kernel plane, if there is one.
    pub(crate) fn plane(&self) -> Option<&dyn KernelPlane> {
        self.plane.as_deref()
    }

    /// How many packets the in-kernel plane has decided about by a filter, by its place in the configuration.
    pub(crate) fn kernel_hits(&self, index: usize) -> u64 {
        self.plane.as_ref().map_or(0, |plane| plane.hits(index))
    }

    /// What the in-kernel plane reads otherwise than the workers' tables say, if there is such a plane.
    pub(crate) fn kernel_differences(&self, tables: &Tables, repair: bool) -> Option<Vec<String>> {
        self.plane.as_ref().map(|plane| plane.differences(tables, repair))
    }

    /// What the in-kernel plane has done with a port's packets, if it is one of its ports.
    pub(crate) fn kernel_share(&self, port: u16) -> Option<PlaneShare> {
        self.plane.as_ref().and_then(|plane| plane.share(port))
    }

    /// What the in-kernel plane has counted so far, if there is one.
    pub(crate) fn kernel(&self) -> Option<Arc<Counters>> {
        self.plane.as_ref().map(|plane| plane.counters())
    }

    /// The number of workers.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Takes up to `most` packets from a worker's punt ring.
    pub(crate) fn take_punted(&mut self, worker: usize, most: usize, into: &mut Vec<Punted>) {
        take(&mut self.ends[worker].punts, most, into);
    }

    /// Whether a packet waits in any punt ring.
    pub(crate) fn are_punting(&self) -> bool {
        self.ends.iter().any(|end| !end.punts.is_empty())
    }

    /// All counters, by worker.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.ends.iter().map(|end| &*end.counters)
    }

    /// Names of the queues that a worker polls.
    pub(crate) fn polled(&self, worker: usize) -> &[String] {
        &self.ends[worker].polled
    }

    /// Names of the reasons that scripts make.
    pub(crate) fn custom(&self) -> &Arc<CustomReasons> {
        &self.custom
    }

    /// Checks every worker's polls, and logs a warning for each that has fallen silent.
    pub(crate) fn listen(&mut self, now: u64) {
        for (worker, (end, heartbeat)) in self.ends.iter().zip(&mut self.heartbeats).enumerate() {
            if heartbeat.listen(end.counters.polls.get(), now) {
                tracing::warn!("worker {worker} has passed no batch boundary for a second");
            }
        }
    }

    /// Whether a worker is silent now.
    pub(crate) fn is_silent(&self, worker: usize, now: u64) -> bool {
        self.heartbeats[worker].is_silent(self.ends[worker].counters.polls.get(), now)
    }

    /// Frees the packets that are still in the rings, once the workers have ended; returns how many they were.
    pub(crate) fn drain(&mut self) -> usize {
        self.ends.iter_mut().map(|end| std::iter::from_fn(|| end.punts.pop().ok()).count()).sum()
    }
}

/// Takes up to `most` packets from a punt ring. Another core has written all of them, so their bytes are asked for
/// early.
pub(crate) fn take(ring: &mut PuntReader, most: usize, into: &mut Vec<Punted>) {
    let Ok(chunk) = ring.read_chunk(ring.slots().min(most)) else { return };
    let from = into.len();
    into.extend(chunk);
    into[from..].iter().for_each(|punted| punted.packet.prefetch());
}

/// The last known count of a worker's polls, and when it was last seen to change.
#[derive(Default)]
struct Heartbeat {
    polls: u64,
    changed: Option<u64>,
    reported: bool,
}

impl Heartbeat {
    /// Notes the count of polls; returns whether the worker has just been found silent.
    fn listen(&mut self, polls: u64, now: u64) -> bool {
        if self.changed.is_none() || polls != self.polls {
            *self = Heartbeat { polls, changed: Some(now), reported: false };
            return false;
        }
        self.is_silent(polls, now) && !std::mem::replace(&mut self.reported, true)
    }

    fn is_silent(&self, polls: u64, now: u64) -> bool {
        polls == self.polls && self.changed.is_some_and(|changed| now.saturating_sub(changed) >= SILENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_reported_once_when_it_falls_silent_and_again_after_it_woke() {
        let mut heart = Heartbeat::default();
        assert!(!heart.listen(0, 5), "a worker that has not begun is not silent at once");
        assert!(!heart.listen(0, 5 + SILENT - 1) && !heart.is_silent(0, 5 + SILENT - 1));
        assert!(heart.listen(0, 5 + SILENT) && heart.is_silent(0, 5 + SILENT));
        assert!(!heart.listen(0, 5 + 2 * SILENT), "said once");
        assert!(!heart.is_silent(1, 5 + 2 * SILENT), "it has polled since the last look");
        assert!(!heart.listen(1, 5 + 2 * SILENT));
        assert!(!heart.listen(1, 5 + 3 * SILENT - 1) && heart.listen(1, 5 + 3 * SILENT));
    }
}
