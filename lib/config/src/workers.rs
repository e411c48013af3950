// SPDX-License-Identifier: MIT
//! The workers: `workers` or `cores` in `[router]`, or a `[[worker]]` for each, which can name its ports.

use toml::de::DeValue;

use super::given::{At, unfit};
use super::kind::{Kind, at, integer_of, list, optional, required, text, value};
use super::machine::Machine;
use super::mistake::Span;
use super::ports::Port;
use super::reader::Section;
use super::section::{Context, section};

section! {
    /// How many workers there are, or on which cores.
    pub(crate) struct WorkerKeys(context) keys {
        /// Worker threads, from the last core down, so that the first is left to the slow path and Linux; `"auto"`: one
        /// on each core but the first, or on the only one. Cores are those that the process runs on, less what
        /// `taskset`, a cpuset or `isolcpus` takes away. Only one of `workers`, `cores` and `[[worker]]` is given.
        workers: Option<At<Count>>, optional(at(count())), default None => "1", restart;
        /// The cores to work on, one worker each: any that the process can be bound to, isolated ones as well.
        cores: Vec<At<u16>>, list(at(core_of(context.machine))).described("an array of cores"),
            default Vec::new() => "as `workers` says", restart;
    }
}

section! {
    /// One worker. Without `ports` anywhere it is another way to write `cores`.
    pub(crate) struct CoreKeys(context) keys {
        /// The core that the worker is pinned to.
        core: Option<At<u16>>, required(at(core_of(context.machine))), default None => "required", restart;
        /// The ports whose packets it receives; workers that name the same port have a receive queue of it each. As soon as one worker
        /// names ports, or a port has a `weight`, each port that no worker names is one worker's: the heaviest first, to the worker with
        /// the least weight so far, of those on the port's NUMA node if there are some. Else each port has a receive queue for each worker.
        /// Packets leave by any port.
        ports: Option<Vec<At<String>>>, optional(list(at(text("the name of a port", |name| Ok(name.to_owned())))
            .described("an array of ports"))), default None => "by weight", restart;
    }
}

/// How many workers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// As many as there are cores for them.
    Auto,
    /// This many.
    Of(u16),
}

/// Most workers: DPDK knows as many threads.
const MOST: i64 = 128;

fn count() -> Kind<'static, Count> {
    let parse = |value: &DeValue| match integer_of(value) {
        Some(number @ 1..=MOST) => Ok(Count::Of(number as u16)),
        None if value.as_str() == Some("auto") => Ok(Count::Auto),
        _ => unfit(),
    };
    value(format!("workers from 1 to {MOST}, or \"auto\""), parse, |count| match count {
        Count::Auto => "auto".into(),
        Count::Of(number) => i64::from(*number).into(),
    })
}

/// One worker thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The core it is pinned to.
    pub core: u16,
    /// The ports it names, as indices in [`Config::ports`](super::Config::ports), in rising order; empty if it names
    /// none.
    pub ports: Vec<u16>,
}

impl WorkerKeys {
    /// The keys that describe `workers`, if none names ports.
    pub fn of(workers: &[Worker]) -> Option<Self> {
        let cores = workers.iter().map(|worker| At::nowhere(worker.core)).collect();
        workers.iter().all(|worker| worker.ports.is_empty()).then_some(Self { workers: None, cores })
    }
}

impl CoreKeys {
    /// The keys that describe a worker.
    pub fn of(worker: &Worker, ports: &[Port]) -> Self {
        let name = |port: &u16| At::nowhere(ports[usize::from(*port)].name.clone());
        let named = (!worker.ports.is_empty()).then(|| worker.ports.iter().map(name).collect());
        Self { core: Some(At::nowhere(worker.core)), ports: named }
    }
}

/// A worker whose ports are names still.
pub(crate) struct NamedWorker {
    core: u16,
    ports: Vec<At<String>>,
    span: Span,
}

fn core_of(machine: &Machine) -> Kind<'_, u16> {
    let parse = |value: &DeValue| {
        let core = integer_of(value).and_then(|n| u16::try_from(n).ok());
        core.filter(|core| machine.cores.contains(core)).map_or_else(unfit, Ok)
    };
    let expected = format!("a core that this process can be bound to, one of {}", listed(&machine.cores));
    value(expected, parse, |core| i64::from(*core).into()).described("a core")
}

fn listed(cores: &[u16]) -> String {
    match cores {
        [first, .., last] if usize::from(last - first) + 1 == cores.len() => format!("{first} to {last}"),
        _ => cores.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// `workers`, `cores` or `[[worker]]`: one of them, one worker if none.
pub(crate) fn read_workers(root: &mut Section, router: &mut Section, context: &Context) -> Vec<NamedWorker> {
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
    let mut named = Vec::new();
    for mut section in sections {
        let before = mistakes.count();
        let CoreKeys { core, ports } = CoreKeys::read(&mut section, context);
        if let (Some([]), Some(place)) =
            (ports.as_deref(), section.place("ports").filter(|_| mistakes.count() == before))
        {
            mistakes.add(&place, "found no port, expected the name of at least one, or no key `ports`");
        }
        named.extend(core.as_ref().map(|_| ports.unwrap_or_default()));
        cores.extend(core);
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
    named.resize(cores.len(), Vec::new());
    let worker = |(core, ports): (At<u16>, _)| NamedWorker { core: core.value, ports, span: core.span };
    cores.into_iter().zip(named).map(worker).collect()
}

/// Finds the ports that workers name. `sure`: all ports were read, so that a name that none of them has is a mistake.
pub(crate) fn find_ports(workers: Vec<NamedWorker>, ports: &[Port], sure: bool, root: &Section) -> Vec<Worker> {
    let mistakes = root.mistakes();
    let names: Vec<_> = ports.iter().take(8).map(|port| port.name.as_str()).collect();
    let spans: Vec<Span> = workers.iter().map(|worker| worker.span.clone()).collect();
    let find = |NamedWorker { core, ports: named, .. }: NamedWorker| {
        let mut found: Vec<u16> = Vec::new();
        for At { value, span } in named {
            match ports.iter().position(|port| port.name == value) {
                Some(port) if found.contains(&(port as u16)) => {
                    mistakes.add(&span, format!("found the port `{value}` again, expected each port of a worker once"));
                }
                Some(port) => found.push(port as u16),
                None if sure => {
                    mistakes.add(&span, format!("found {value:?}, expected one of the ports {}", names.join(", ")));
                }
                None => {}
            }
        }
        found.sort_unstable();
        Worker { core, ports: found }
    };
    let workers: Vec<Worker> = workers.into_iter().map(find).collect();
    let is_named = |port: usize| workers.iter().any(|worker| worker.ports.contains(&(port as u16)));
    let by_worker = workers.iter().any(|worker| !worker.ports.is_empty()) || ports.iter().any(|p| p.weight.is_some());
    let free = (0..ports.len()).filter(|port| !is_named(*port)).count();
    let without = workers.iter().zip(&spans).filter(|(worker, _)| worker.ports.is_empty());
    for (worker, span) in without.skip(free).filter(|_| by_worker && sure) {
        mistakes.warn(
            span,
            format!(
                "found no port for the worker on core {}, expected one for each: it has nothing to receive",
                worker.core
            ),
        );
    }
    workers
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

/// Workers from the last core down, so that the first is left to the slow path and Linux.
fn spread(count: Option<At<Count>>, machine: &Machine) -> Vec<At<u16>> {
    let At { value: count, span } = count.unwrap_or(At::nowhere(Count::Of(1)));
    let cores = machine.for_workers();
    let count = match count {
        Count::Of(count) => count.into(),
        Count::Auto => (cores.len().saturating_sub(1)).clamp(1, MOST as usize),
    };
    cores.iter().rev().cycle().take(count).map(|core| At { value: *core, span: span.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cores of `count` workers on a machine whose process runs on these.
    fn placed(count: Count, affinity: impl IntoIterator<Item = u16>) -> Vec<u16> {
        let machine =
            Machine { cores: (0..256).collect(), affinity: affinity.into_iter().collect(), ..Machine::default() };
        spread(Some(At::nowhere(count)), &machine).into_iter().map(|core| core.value).collect()
    }

    #[test]
    fn auto_is_a_worker_on_each_core_but_the_first() {
        assert_eq!(placed(Count::Auto, [0]), [0], "the only core is shared");
        assert_eq!(placed(Count::Auto, [0, 1]), [1]);
        assert_eq!(placed(Count::Auto, 0..16), (1..16).rev().collect::<Vec<_>>());
        assert_eq!(placed(Count::Auto, 0..64), (1..64).rev().collect::<Vec<_>>());
        assert_eq!(placed(Count::Auto, 0..256), (128..256).rev().collect::<Vec<_>>(), "no more than can be configured");
    }

    #[test]
    fn workers_are_on_the_cores_that_the_process_runs_on() {
        assert_eq!(placed(Count::Auto, [1]), [1]);
        assert_eq!(placed(Count::Of(1), [0]), [0]);
        assert_eq!(placed(Count::Auto, [3, 5, 11]), [11, 5]);
        assert_eq!(placed(Count::Of(2), (1..64).step_by(2)), [63, 61]);
        assert_eq!(placed(Count::Of(3), [7, 200]), [200, 7, 200], "more workers than cores take turns");
    }

    #[test]
    fn a_machine_whose_affinity_is_not_known_has_all_its_cores() {
        let machine = Machine { cores: vec![0, 1, 2], ..Machine::default() };
        let cores: Vec<_> = spread(Some(At::nowhere(Count::Auto)), &machine).iter().map(|core| core.value).collect();
        assert_eq!(cores, [2, 1]);
    }
}
