// SPDX-License-Identifier: MIT
//! All programs alive on one core, and the rounds in which they take turns.

use super::{Course, ForwardArgs, LeftOut};
use crate::machine::{Interrupts, Priority};
use crate::peers::{Perigee, Program, Start, Testpmd};
use crate::worker::{Path as LoopPath, Request};
use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{HumanCount, ProgressBar};
use std::collections::BTreeMap;
use std::time::Duration;

/// Warm-up before each measurement, for all of them: caches, and the JIT compiler of a fresh VM.
const WARM: Duration = Duration::from_millis(30);
/// By how much the shares of packets that a peer sends by each port may differ from those that the routes ask for: it
/// counts from anywhere in the file of packets to anywhere.
const TOLERANCE: f64 = 0.01;
/// How long these shares are counted: packets by the thousand times the file's.
const SHARES: Duration = Duration::from_millis(500);
/// `--file-prefix` of peers, each of which has a folder of its own.
pub const PREFIX: &str = "peer";

/// Who takes a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runner {
    /// testpmd.
    Io,
    /// A loop of perigee's, with packets of a family.
    Loop(u8, LoopPath),
    /// Another program.
    Peer(String),
}

/// ns per packet in each round, by burst size.
pub type Rounds = BTreeMap<usize, BTreeMap<Runner, Vec<f64>>>;

/// A peer that is to be started.
pub struct Recruit {
    pub name: String,
    /// What it is called where its name is not enough.
    pub label: String,
    pub command: String,
    /// How long it may take until it receives.
    pub patience: Duration,
    /// How many routes it loads, of which it prints a line each.
    pub routes: u64,
    /// Which shares of its packets it must send by each port.
    pub shares: Option<Vec<f64>>,
}

/// The programs.
pub struct Contest {
    testpmd: Option<Testpmd>,
    perigees: Vec<(u8, Perigee)>,
    programs: Vec<Program>,
    core: usize,
    priority: Priority,
}

impl Contest {
    /// Starts those that are always there: testpmd and perigee with the packets of IPv4, and perigee with those of
    /// IPv6.
    pub fn start(four: Option<&Course>, six: Option<&Course>, priority: Priority) -> Result<Contest> {
        let courses: Vec<&Course> = [four, six].into_iter().flatten().collect();
        let core = courses.first().context("there is something to forward")?.bed.core;
        let testpmd = four.map(|four| Testpmd::start(&four.bed)).transpose()?;
        let perigee = |course: &&Course| Ok((course.family, Perigee::start(&course.bed, None)?));
        let perigees = courses.iter().map(perigee).collect::<Result<Vec<_>>>()?;
        for pid in testpmd.iter().map(Testpmd::id).chain(perigees.iter().map(|(_, perigee)| perigee.id())) {
            priority.give(pid)?;
        }
        Ok(Contest { testpmd, perigees, programs: Vec::new(), core, priority })
    }

    /// Starts the peers, runs all rounds, and ends everybody.
    pub fn run(
        mut self,
        args: &ForwardArgs,
        recruits: &[Recruit],
        bar: &ProgressBar,
        interrupts: &mut Interrupts,
        left_out: &mut LeftOut,
    ) -> Result<Rounds> {
        for recruit in recruits {
            let mut interrupted = None;
            let started =
                self.recruit(recruit, bar, &mut || interrupts.check().map_err(|error| interrupted = Some(error)));
            if let Some(error) = interrupted {
                return Err(error);
            }
            match started {
                Ok(program) => self.programs.push(program),
                Err(error) => left_out.add(&recruit.label, &format!("{error:#}")),
            }
        }
        let rounds = self.rounds(args, recruits, bar, interrupts, left_out)?;
        self.perigees.into_iter().try_for_each(|(_, perigee)| perigee.finish())?;
        Ok(rounds)
    }

    fn recruit(
        &self,
        recruit: &Recruit,
        bar: &ProgressBar,
        check: &mut dyn FnMut() -> Result<(), ()>,
    ) -> Result<Program> {
        let Recruit { name, label, command, patience, routes, shares } = recruit;
        let start =
            Start { name, command, prefix: PREFIX, core: self.core, priority: self.priority, patience: *patience };
        let mut program = Program::start(&start, &mut |lines| {
            let loaded = HumanCount(lines.min(*routes));
            bar.set_message(match routes {
                0 => format!("starting {label}"),
                _ => format!(
                    "{name} loads its table, which may take minutes: {loaded} of {} routes",
                    HumanCount(*routes)
                ),
            });
            bar.tick();
            check().or_else(|()| bail!("interrupted"))
        })?;
        if let Some(wanted) = shares {
            let found = program.shares(wanted.len() as u16, SHARES)?;
            let right = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < TOLERANCE);
            ensure!(
                right,
                "it sends {found:.3?} of its packets by each port, expected {wanted:.3?}: its routes are wrong"
            );
        }
        Ok(program)
    }

    fn runners(&self) -> Vec<Runner> {
        let loops =
            |(family, _): &(u8, Perigee)| [LoopPath::Lua, LoopPath::Native].map(|path| Runner::Loop(*family, path));
        let peers = self.programs.iter().map(|program| Runner::Peer(program.name.clone()));
        self.testpmd.iter().map(|_| Runner::Io).chain(self.perigees.iter().flat_map(loops)).chain(peers).collect()
    }

    fn rounds(
        &mut self,
        args: &ForwardArgs,
        recruits: &[Recruit],
        bar: &ProgressBar,
        interrupts: &mut Interrupts,
        left_out: &mut LeftOut,
    ) -> Result<Rounds> {
        let mut rounds = Rounds::new();
        for pair in 0..args.pairs {
            for &burst in &args.bursts {
                bar.set_message(format!("round {} of {}, burst {burst}", pair + 1, args.pairs));
                for runner in in_turn(self.runners(), pair) {
                    match (self.measure(&runner, burst, Duration::from_secs_f64(args.seconds)), &runner) {
                        (Ok(ns), _) => rounds.entry(burst).or_default().entry(runner).or_default().push(ns),
                        (Err(error), Runner::Peer(name)) => {
                            let label =
                                recruits.iter().find(|recruit| recruit.name == *name).map(|recruit| &recruit.label);
                            left_out.add(label.unwrap_or(name), &format!("{error:#}"));
                            self.programs.retain(|program| program.name != *name);
                            rounds.values_mut().for_each(|of_burst| drop(of_burst.remove(&runner)));
                        }
                        (Err(error), _) => return Err(error),
                    }
                }
                interrupts.check()?;
                bar.inc(1);
            }
        }
        Ok(rounds)
    }

    /// A turn; returns ns per packet. A peer has a burst size of its own.
    fn measure(&mut self, runner: &Runner, burst: usize, time: Duration) -> Result<f64> {
        let (packets, cpu_ns) = match runner {
            Runner::Io => self.testpmd.as_mut().context("testpmd is there")?.measure(burst, WARM, time)?,
            Runner::Peer(name) => {
                let program = self.programs.iter_mut().find(|program| program.name == *name);
                program.context("the peer is there")?.measure(WARM, time)?
            }
            Runner::Loop(family, path) => {
                let perigee = self.perigees.iter_mut().find(|(other, _)| other == family);
                let (_, perigee) = perigee.context("perigee is there")?;
                let (warm, time) = (WARM.as_nanos() as u64, time.as_nanos() as u64);
                let request =
                    Request { path: *path, burst, warm, time, packets: u64::MAX, step: 0, source: 0, table: 0 };
                let sample = perigee.measure(request).context("while it was measured")?;
                ensure!(sample.packets > 0, "perigee received nothing in {time} ns");
                (sample.packets, sample.cpu_ns)
            }
        };
        Ok(cpu_ns as f64 / packets as f64)
    }
}

/// The order of a round: each goes first in turn, and every other round goes backwards, as who comes next to whom may
/// matter.
fn in_turn(mut runners: Vec<Runner>, pair: usize) -> Vec<Runner> {
    let first = pair / 2 % runners.len().max(1);
    runners.rotate_left(first);
    if pair % 2 == 1 {
        runners.reverse();
    }
    runners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_first_and_each_pair_goes_both_ways() {
        let peers = |names: &[&str]| -> Vec<Runner> { names.iter().map(|name| Runner::Peer((*name).into())).collect() };
        let orders: Vec<Vec<Runner>> = (0..6).map(|pair| in_turn(peers(&["a", "b", "c"]), pair)).collect();
        let wanted =
            [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["a", "c", "b"], ["c", "a", "b"], ["b", "a", "c"]];
        assert_eq!(orders, wanted.map(|names| peers(&names)));
        assert_eq!(in_turn(Vec::new(), 3), []);
    }
}
