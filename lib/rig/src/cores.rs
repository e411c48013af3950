// SPDX-License-Identifier: MIT
//! The cores that workers run on, in the order in which they are taken: of each physical core one thread first, as two
//! threads of one core slow each other down, and the last ones first, as the system's own work is mostly on the first.

use anyhow::{Context as _, Result, ensure};
use perigee_dpdk::{pin_current_thread, usable_cores};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The number of cores to pretend. They share the real ones. It shows on a small machine what the plan of a large one
/// does; the figures mean nothing.
/// No figure counts.
pub const PRETEND: &str = "PERIGEE_PRETEND_CORES";
/// Most cores that can be pretended.
const MOST_PRETENDED: usize = 64;
/// A worker that does less than this share of what the others do is slowed down by something else than these.
const SLOW: f64 = 0.85;

/// The cores of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// For workers, the first to be taken first.
    list: Vec<usize>,
    /// All that this process may use.
    usable: Vec<usize>,
    /// The physical core of each, as far as the system says, by the number of its first thread.
    physical: BTreeMap<usize, usize>,
    /// Those that there are, if `usable` is pretended.
    real: Option<Vec<usize>>,
}

impl Cores {
    /// Those that this process may use, or as many as [`PRETEND`] says.
    ///
    /// # Errors
    /// It may use none, or the variable is no number of cores.
    pub fn usable() -> Result<Cores> {
        let there = usable_cores();
        ensure!(!there.is_empty(), "this process may use no core");
        match std::env::var(PRETEND) {
            Err(_) => Ok(Cores::of(there, siblings)),
            Ok(text) => {
                let count = text.parse().ok().filter(|count| (1..=MOST_PRETENDED).contains(count));
                let count = count
                    .with_context(|| format!("{PRETEND}: found {text:?}, expected 1 to {MOST_PRETENDED} cores"))?;
                Ok(Cores::pretended(count, there))
            }
        }
    }

    /// This number of pretended cores, which share the real ones.
    pub fn pretended(count: usize, real: Vec<usize>) -> Cores {
        Cores { real: Some(real), ..Cores::of((0..count).collect(), |_| None) }
    }

    /// These cores, of which each has these threads on its physical core.
    fn of(usable: Vec<usize>, siblings: impl Fn(usize) -> Option<BTreeSet<usize>>) -> Cores {
        let first_thread = |core: usize| siblings(core).and_then(|threads| threads.first().copied()).unwrap_or(core);
        let physical: BTreeMap<usize, usize> = usable.iter().map(|core| (*core, first_thread(*core))).collect();
        let mut taken = BTreeSet::new();
        let last_first = usable.iter().rev().copied();
        let (mut list, further): (Vec<usize>, Vec<usize>) = last_first.partition(|core| taken.insert(physical[core]));
        list.extend(further);
        Cores { list, usable, physical, real: None }
    }

    /// Only the first `most` of these for workers.
    pub fn take(&mut self, most: usize) {
        self.list.truncate(most);
    }

    /// For workers, the first to be taken first; one at least.
    pub fn list(&self) -> &[usize] {
        &self.list
    }

    /// All that this process may use.
    pub(crate) fn all(&self) -> &[usize] {
        &self.usable
    }

    /// The number of physical cores, if workers have to share them; `None`: each has one.
    pub fn physical(&self) -> Option<usize> {
        let physical: BTreeSet<usize> = self.list.iter().map(|core| self.physical[core]).collect();
        (physical.len() < self.list.len()).then_some(physical.len())
    }

    /// Of workers that do the same on these cores, at these rates: the core that is slower than those that share their
    /// physical cores with as many workers, and what share of their rate it has. Something else slows it down.
    pub fn slow(&self, cores: &[usize], rates: &[f64]) -> Option<(usize, f64)> {
        let physical = |core: &usize| self.physical.get(core).copied().unwrap_or(*core);
        let beside = |core: &usize| cores.iter().filter(|other| physical(other) == physical(core)).count();
        let share = |(core, rate): (&usize, &f64)| {
            let mut alike: Vec<f64> = cores
                .iter()
                .zip(rates)
                .filter(|(other, _)| beside(other) == beside(core))
                .map(|(_, rate)| *rate)
                .collect();
            alike.sort_by(f64::total_cmp);
            // Others only slow a core down: of two the faster one is right.
            (*core, rate / alike[alike.len() / 2])
        };
        let slowest = cores.iter().zip(rates).map(share).min_by(|a, b| a.1.total_cmp(&b.1));
        slowest.filter(|(_, share)| *share < SLOW)
    }

    /// Are they only pretended?
    pub fn is_pretended(&self) -> bool {
        self.real.is_some()
    }

    /// Binds the calling thread to one of them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn pin(&self, core: usize) -> perigee_dpdk::Result<()> {
        pin_current_thread(self.real.as_ref().map_or(core, |real| real[core % real.len()]))
    }
}

/// The threads of a core's physical core, itself among them, where the system says.
fn siblings(core: usize) -> Option<BTreeSet<usize>> {
    let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    parse(fs::read_to_string(file).ok()?.trim())
}

/// A list such as `0,4-6`.
fn parse(text: &str) -> Option<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these cores, of which `siblings` names those on the same physical core.
    fn machine(usable: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Cores {
        Cores::of(usable.to_vec(), |core| Some(siblings(core).into_iter().collect()))
    }

    #[test]
    fn each_physical_core_is_taken_once_before_any_is_taken_again() {
        let none = Cores::of((0..4).collect(), |_| None);
        assert_eq!((none.list(), none.physical()), (&[3, 2, 1, 0][..], None), "the system does not say");
        let next_to = machine(&[0, 1, 2, 3, 4, 5], |core| vec![core & !1, core | 1]);
        assert_eq!((next_to.list(), next_to.physical()), (&[5, 3, 1, 4, 2, 0][..], Some(3)));
        let in_turns = machine(&[0, 1, 2, 3], |core| vec![core % 2, core % 2 + 2]);
        assert_eq!((in_turns.list(), in_turns.physical()), (&[3, 2, 1, 0][..], Some(2)));
        // By taskset: a sibling that may not be used shares nothing.
        let some = machine(&[1, 3, 130], |core| vec![core & !1, core | 1]);
        assert_eq!((some.list(), some.physical()), (&[130, 3, 1][..], None));
        let mut few = next_to;
        few.take(2);
        assert_eq!((few.list(), few.all().len(), few.physical()), (&[5, 3][..], 6, None));
    }

    /// One core of two did 0.6 of what the other one did, and a profile had it that two cores are in each other's way.
    #[test]
    fn a_core_that_something_else_slows_down_is_found() {
        let alone = machine(&[0, 1, 2, 3], |core| vec![core]);
        assert_eq!(alone.slow(&[1, 0], &[30.0, 18.0]), Some((0, 0.6)));
        assert_eq!(alone.slow(&[1, 0], &[20.0, 20.5]), None, "in each other's way, both");
        assert_eq!(alone.slow(&[3, 2, 1, 0], &[20.0, 21.0, 12.0, 20.0]), Some((1, 0.6)));
        assert_eq!((alone.slow(&[1], &[5.0]), alone.slow(&[], &[])), (None, None));
        // The two threads of one physical core are slower than two that have one each, and alike.
        let threads = machine(&[0, 1, 2, 3], |core| vec![core & !1, core | 1]);
        assert_eq!(threads.slow(&[3, 1, 2], &[18.0, 30.0, 18.5]), None);
        assert_eq!(threads.slow(&[3, 1, 2], &[9.0, 30.0, 18.0]), Some((3, 0.5)));
    }

    #[test]
    fn pretended_cores_share_those_that_there_are() {
        let there = usable_cores();
        let cores = Cores::pretended(16, there.clone());
        assert!(
            cores.is_pretended() && cores.list() == (0..16).rev().collect::<Vec<_>>() && cores.physical().is_none()
        );
        let used = std::thread::spawn(move || {
            cores.pin(13).unwrap();
            usable_cores()
        });
        assert_eq!(used.join().unwrap(), [there[13 % there.len()]]);
    }

    #[test]
    fn lists_are_those_of_the_kernel() {
        assert_eq!(parse("0,4-6"), Some([0, 4, 5, 6].into()));
        assert_eq!((parse("3"), parse(""), parse("a-b")), (Some([3].into()), None, None));
        assert!(!Cores::usable().unwrap().list().is_empty());
    }
}
