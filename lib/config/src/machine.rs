// SPDX-License-Identifier: MIT
//! What a configuration is checked against, besides itself.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::fib::{FibChoice, FibNames};

/// The machine a configuration is checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The cores that a thread of this process can be bound to, ascending: those on line, less what a cpuset takes
    /// away.
    pub cores: Vec<u16>,
    /// Of these, the ones that the process runs on, ascending: what `taskset` or `isolcpus` has left it. If empty,
    /// all.
    pub affinity: Vec<u16>,
    /// The lookup structures that this program has.
    pub fib: FibNames,
    /// The ones to use regardless of the configuration.
    pub fib_override: Option<FibChoice>,
}

impl Machine {
    /// This machine, as the kernel shows it to this process.
    pub fn here() -> Self {
        let affinity = sched_getaffinity(None).map(|set| cores(&set)).unwrap_or_default();
        // More cores than the kernel's interface has here, or no such interface.
        let counted = || (0..std::thread::available_parallelism().map_or(1, usize::from) as u16).collect();
        Self { cores: bindable().unwrap_or_else(counted), affinity, ..Self::default() }
    }

    /// The cores for workers of which the configuration says the number and not the place.
    pub(crate) fn for_workers(&self) -> &[u16] {
        if self.affinity.is_empty() { &self.cores } else { &self.affinity }
    }
}

/// The cores that a thread can be bound to. A thread that asks for all cores gets those that its cpuset has: `/sys`
/// names the others, too. The affinity of this thread stays.
fn bindable() -> Option<Vec<u16>> {
    let ask = || {
        let mut all = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
        sched_setaffinity(None, &all).ok()?;
        Some(cores(&sched_getaffinity(None).ok()?))
    };
    std::thread::Builder::new().spawn(ask).ok()?.join().ok()?
}

fn cores(set: &CpuSet) -> Vec<u16> {
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).map(|core| core as u16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `taskset -c 1` was not heard: the worker went to the last core of the machine.
    #[test]
    fn the_affinity_of_the_process_is_seen_and_kept() {
        let first = Machine::here();
        assert!(!first.cores.is_empty() && first.affinity.iter().all(|core| first.cores.contains(core)), "{first:?}");
        let last = *first.affinity.last().unwrap();
        let bound = std::thread::spawn(move || {
            let mut one = CpuSet::new();
            one.set(last.into());
            sched_setaffinity(None, &one).unwrap();
            (Machine::here(), cores(&sched_getaffinity(None).unwrap()))
        });
        let (machine, after) = bound.join().unwrap();
        assert_eq!((&machine.cores, &machine.affinity[..], &after[..]), (&first.cores, &[last][..], &[last][..]));
    }
}
