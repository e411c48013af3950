// SPDX-License-Identifier: MIT
//! The workers: `workers` or `cores` in `[router]`, or a `[[worker]]` for each.

use toml::de::DeValue;

use super::given::{At, unfit};
use super::kind::{Kind, at, integer, integer_of, list, optional, required, value};
use super::machine::Machine;
use super::reader::Section;
use super::section::{Context, section};

section! {
    /// How many workers there are, or on which cores.
    pub(crate) struct WorkerKeys(context) keys {
        /// Worker threads, from the last core down, so that the first is left to the slow path and Linux. Only one of
        /// `workers`, `cores` and `[[worker]]` is given.
        workers: Option<At<u16>>, optional(at(integer("workers", 1..=128))), default None => "1", restart;
        /// The cores to work on, one worker each.
        cores: Vec<At<u16>>, list(at(core_of(context.machine))).described("an array of the machine's cores"),
            default Vec::new() => "as `workers` says", restart;
    }
}

section! {
    /// One worker, as another way to write `cores`.
    pub(crate) struct CoreKeys(context) keys {
        /// The core that the worker is pinned to.
        core: Option<At<u16>>, required(at(core_of(context.machine))), default None => "required", restart;
    }
}

/// One worker thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The core it is pinned to.
    pub core: u16,
}

impl WorkerKeys {
    /// The keys that describe `workers`.
    pub fn of(workers: &[Worker]) -> Self {
        let cores = workers.iter().map(|Worker { core }| At::nowhere(*core)).collect();
        Self { workers: None, cores }
    }
}

fn core_of(machine: &Machine) -> Kind<'_, u16> {
    let parse = |value: &DeValue| {
        let core = integer_of(value).and_then(|n| u16::try_from(n).ok());
        core.filter(|core| machine.cores.contains(core)).map_or_else(unfit, Ok)
    };
    let expected = format!("a core of this machine, one of {}", listed(&machine.cores));
    value(expected, parse, |core| i64::from(*core).into()).described("a core of the machine")
}

fn listed(cores: &[u16]) -> String {
    match cores {
        [first, .., last] if usize::from(last - first) + 1 == cores.len() => format!("{first} to {last}"),
        _ => cores.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// `workers`, `cores` or `[[worker]]`: one of them, one worker if none.
pub(crate) fn read_workers(root: &mut Section, router: &mut Section, context: &Context) -> Vec<Worker> {
    let mistakes = root.mistakes();
    let sections = root.tables("worker");
    let (listed, headed) = (router.place("cores"), sections.first().map(|s| s.span.clone()));
    if let Some(second) = [&router.place("workers"), &listed, &headed].into_iter().flatten().nth(1) {
        mistakes.add(
            second,
            "found a second way of naming the workers, expected only one of workers, cores and [[worker]]",
        );
    }
    let before = mistakes.count();
    let WorkerKeys { workers, mut cores } = WorkerKeys::read(router, context);
    for mut section in sections {
        cores.extend(CoreKeys::read(&mut section, context).core);
        section.finish();
    }
    match listed {
        None if headed.is_none() => cores = spread(workers, context.machine),
        Some(place) if cores.is_empty() && mistakes.count() == before => {
            mistakes.add(&place, "found no core to work on, expected at least one");
        }
        _ => {}
    }
    warn_of_shared(&cores, root);
    cores.iter().map(|core| Worker { core: core.value }).collect()
}

fn warn_of_shared(cores: &[At<u16>], root: &Section) {
    for (i, core) in cores.iter().enumerate() {
        if cores[..i].iter().any(|other| other.value == core.value) {
            root.mistakes().warn(
                &core.span,
                format!("found a second worker on core {}, expected a core for each: they will take turns", core.value),
            );
        }
    }
}

/// `count` workers from the last core down, so that the first is left to the slow path and Linux.
fn spread(count: Option<At<u16>>, machine: &Machine) -> Vec<At<u16>> {
    let At { value: count, span } = count.unwrap_or(At::nowhere(1));
    let cores = machine.cores.iter().rev().cycle();
    cores.take(usize::from(count)).map(|core| At { value: *core, span: span.clone() }).collect()
}
