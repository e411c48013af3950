// SPDX-License-Identifier: MIT
//! The measurement: builds, checks, rounds, changes, and checks again.

use super::measure::{self, Packets, Reader, Stretch};
use super::results::{self, Measured};
use super::shapes::{self, Shaped};
use super::{FibArgs, wanted};
use crate::machine::{Interrupts, thread_time};
use crate::statistics::Median;
use crate::table;
use crate::table::Family;
use crate::table::Pattern;
use crate::table::{Entry, Ranges, edges};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_fib::synth::Random;
use perigee_fib::synth::shapes::{Family as Shapes, Shape};
use perigee_fib::{Lookup, LookupError, LookupWriter, PrefixList, RandomReads, Structure};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Warm-up as a share of a measurement's time, for caches and branch predictors.
const WARM: f64 = 0.1;
/// How often a structure is built at most, and the total time after which it is not built again.
const BUILDS: usize = 5;
const BUILDING: Duration = Duration::from_secs(2);
/// Routes that are withdrawn together, to check what is left.
const WITHDRAWN: usize = 1000;
/// Routes that are withdrawn and announced in turn.
const CHANGED: usize = 100_000;
/// Tables for the limit, in bytes.
const LIMITS: [usize; 4] = [256 << 10, 4 << 20, 16 << 20, 64 << 20];

/// The part that is the same for both families.
pub struct Run<'a> {
    args: &'a FibArgs,
    patterns: Vec<Pattern>,
    list: Option<PrefixList>,
    bar: ProgressBar,
    interrupts: Option<Interrupts>,
    limits: Limits,
}

/// Addresses and the right answer for each.
struct Addresses<A> {
    addresses: Vec<A>,
    right: Vec<u32>,
}

impl<A: Family> Addresses<A> {
    fn of(addresses: Vec<A>, ranges: &Ranges<A>) -> Addresses<A> {
        let right = ranges.ids(&addresses);
        Addresses { addresses, right }
    }

    fn wrong(&self, lookup: &dyn Lookup<A>, batch: usize) -> u64 {
        measure::wrong(lookup, &self.addresses, &self.right, batch)
    }
}

/// The inputs for all structures of a family.
struct Inputs<A> {
    table: Vec<Entry<A>>,
    patterns: Vec<Addresses<A>>,
    edges: Addresses<A>,
    /// Routes to withdraw, in random order.
    changed: Vec<Entry<A>>,
    /// Some of them, and the right answers around them and elsewhere while they are withdrawn.
    withdrawn: Vec<Entry<A>>,
    without: Addresses<A>,
}

impl<A: Family> Inputs<A> {
    fn new(table: Vec<Entry<A>>, patterns: &[Pattern], args: &FibArgs) -> Inputs<A> {
        let ranges = Ranges::of(&table);
        let draw = |pattern: &Pattern| Addresses::of(pattern.addresses(&table, A::ADDRESSES, args.seed), &ranges);
        let patterns = patterns.iter().map(draw).collect();
        let all_edges = Addresses::of(edges(table.iter().map(|(prefix, _)| *prefix)), &ranges);
        let mut changed = table.clone();
        let mut random = Random::new(args.seed);
        for last in (1..changed.len()).rev() {
            changed.swap(last, random.below(last as u32 + 1) as usize);
        }
        changed.truncate(CHANGED);
        let withdrawn = changed[..changed.len().min(WITHDRAWN)].to_vec();
        let away: HashSet<_> = withdrawn.iter().map(|(prefix, _)| *prefix).collect();
        let left: Vec<_> = table.iter().filter(|(prefix, _)| !away.contains(prefix)).copied().collect();
        let mut near = edges(withdrawn.iter().map(|(prefix, _)| *prefix));
        near.extend(Pattern::Routed.addresses(&table, A::ADDRESSES / 16, args.seed));
        let without = Addresses::of(near, &Ranges::of(&left));
        Inputs { patterns, edges: all_edges, changed, withdrawn, without, table }
    }
}

/// A structure that takes part.
struct Subject<A> {
    writer: Box<dyn LookupWriter<A>>,
    /// None while it changes.
    reader: Option<Arc<dyn Lookup<A>>>,
    /// Wrong answers at edges, with routes withdrawn, and by pattern.
    wrong: u64,
    wrong_by_pattern: Vec<u64>,
    /// By measured pattern, by round.
    rates: Vec<Vec<f64>>,
    changes: Vec<f64>,
    bytes: usize,
    build_s: f64,
    name: &'static str,
    /// A change was refused that should not have been: no more of them.
    failed: bool,
}

impl<A: Family> Subject<A> {
    fn build(structure: Structure<A>, table: &[Entry<A>], patterns: usize) -> Result<Subject<A>, LookupError> {
        let mut times = Vec::new();
        let mut spent = Duration::ZERO;
        let writer = loop {
            let start = thread_time();
            let mut writer = (structure.new)()?;
            writer.load(table)?;
            let time = thread_time() - start;
            times.push(time.as_secs_f64());
            spent += time;
            if times.len() == BUILDS || spent + time > BUILDING {
                break writer;
            }
        };
        Ok(Subject {
            reader: Some(writer.reader()),
            bytes: writer.memory(),
            writer,
            wrong: 0,
            wrong_by_pattern: vec![0; patterns],
            rates: Vec::new(),
            changes: Vec::new(),
            build_s: Median::of(&times).median,
            name: structure.name,
            failed: false,
        })
    }

    /// Compares all answers with the oracle's.
    fn check(&mut self, inputs: &Inputs<A>, batch: usize) {
        let reader = self.writer.reader();
        for (wrong, addresses) in self.wrong_by_pattern.iter_mut().zip(&inputs.patterns) {
            *wrong += addresses.wrong(&*reader, batch);
        }
        self.wrong += inputs.edges.wrong(&*reader, batch);
    }

    fn change(&mut self, inputs: &Inputs<A>, from: usize, time: Duration) -> Result<(), LookupError> {
        self.reader = None;
        let routes = &inputs.changed[from % inputs.changed.len()..];
        let mut reader = Reader::of(&mut *self.writer, routes[0])?;
        self.changes.push(measure::changes(&mut *self.writer, &mut reader, routes, time)?);
        Ok(())
    }

    /// Is it right with many routes withdrawn, and as before once they are back?
    fn withdraw(&mut self, inputs: &Inputs<A>, batch: usize) -> Result<(), LookupError> {
        let mut reader = Reader::of(&mut *self.writer, inputs.withdrawn[0])?;
        measure::change_all(&mut *self.writer, &mut reader, &inputs.withdrawn, false)?;
        self.wrong += inputs.without.wrong(&*self.writer.reader(), batch);
        measure::change_all(&mut *self.writer, &mut reader, &inputs.withdrawn, true)?;
        drop(reader);
        self.check(inputs, batch);
        Ok(())
    }

    /// A change was refused. What was measured before stays: the lookups.
    fn fail(&mut self, error: &LookupError, refused: &mut Vec<(&'static str, String)>) {
        refused.push((self.name, format!("only its changes, as one was refused: {error}")));
        (self.failed, self.changes) = (true, Vec::new());
    }

    fn results(self, packets: bool) -> Measured {
        let kinds = if packets { 2 } else { 1 };
        let wrong = self.wrong_by_pattern.iter().flat_map(|wrong| vec![self.wrong + wrong; kinds]).collect();
        let Subject { name, rates, bytes, build_s, changes, .. } = self;
        Measured { name, rates, bytes, build_s, changes, wrong }
    }
}

impl<'a> Run<'a> {
    /// Nothing measured yet. `list`: the routing table, if it is not to be synthetic.
    pub fn new(
        args: &'a FibArgs,
        patterns: Vec<Pattern>,
        list: Option<PrefixList>,
        interrupts: Option<Interrupts>,
    ) -> Run<'a> {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Run { args, patterns, list, bar, interrupts, limits: Limits::new(args.seed) }
    }

    /// The machine's limits.
    pub fn finish(self) -> Vec<(usize, f64)> {
        self.bar.finish_and_clear();
        self.limits.medians()
    }

    /// Measures one family; nothing if no structure or no route of it is there.
    pub fn family<A: Family + Shapes>(&mut self) -> Result<Option<results::Family>> {
        let structures = wanted::<A>(self.args);
        let table = table::entries::<A>(self.list.as_ref(), self.args.next_hops, self.args.seed);
        if structures.is_empty() || table.is_empty() {
            return Ok(None);
        }
        let shaped = if self.args.shapes > 0 { Shape::ALL.len() * structures.len() } else { 0 };
        let steps = 3 * structures.len() + 2 * self.args.rounds + shaped + 1;
        self.bar.set_length(self.bar.position() + steps as u64);
        self.step(0, "drawing addresses")?;
        let inputs = Inputs::new(table, &self.patterns, self.args);
        let mut refused = Vec::new();
        let mut subjects = self.build(structures.clone(), &inputs, &mut refused)?;
        for round in 0..self.args.rounds {
            self.step(1, &format!("IPv{}: lookups, round {} of {}", A::NUMBER, round + 1, self.args.rounds))?;
            self.lookups(&mut subjects, &inputs, round);
        }
        for round in 0..self.args.rounds {
            self.step(1, &format!("IPv{}: changes, round {} of {}", A::NUMBER, round + 1, self.args.rounds))?;
            let time = Duration::from_secs_f64(self.args.seconds);
            let from = round * CHANGED / self.args.rounds;
            self.each(&mut subjects, &mut refused, round, |subject| subject.change(&inputs, from, time));
        }
        for subject in subjects.iter_mut().filter(|subject| !subject.failed) {
            self.step(1, &format!("IPv{}: {}, checking after changes", A::NUMBER, subject.name))?;
            if let Err(error) = subject.withdraw(&inputs, self.args.batch) {
                subject.fail(&error, &mut refused);
            }
        }
        let mut family = self.results(subjects, &inputs, refused);
        family.shapes = self.shapes(&structures, &mut family.refused)?;
        Ok(Some(family))
    }

    /// Measures every structure with tables of other shapes.
    fn shapes<A: Family + Shapes>(
        &mut self,
        structures: &[Structure<A>],
        refused: &mut Vec<(&'static str, String)>,
    ) -> Result<Vec<Shaped>> {
        let (n, seed) = (self.args.shapes, self.args.seed);
        let limit = Duration::from_secs_f64(self.args.shape_seconds);
        let mut all = Vec::new();
        for (structure, shape) in structures.iter().flat_map(|structure| Shape::ALL.map(|shape| (structure, shape))) {
            if n == 0 {
                break;
            }
            self.step(1, &format!("IPv{}: {}, {}", A::NUMBER, structure.name, shape.name()))?;
            match shapes::measure(structure, shape, n, seed, limit) {
                Ok(shaped) => all.push(shaped),
                Err(error) => refused.push((structure.name, format!("{}: {error}", shape.name()))),
            }
        }
        Ok(all)
    }

    /// Advances the progress bar and shows the current step.
    fn step(&mut self, steps: u64, message: &str) -> Result<()> {
        self.bar.inc(steps);
        self.bar.set_message(message.to_owned());
        self.bar.tick();
        self.interrupts.as_mut().map_or(Ok(()), Interrupts::check)
    }

    fn build<A: Family>(
        &mut self,
        structures: Vec<Structure<A>>,
        inputs: &Inputs<A>,
        refused: &mut Vec<(&'static str, String)>,
    ) -> Result<Vec<Subject<A>>> {
        let mut subjects = Vec::new();
        for structure in structures {
            let slow = if structure.name == "rte_lpm" { " (about a minute with a full table)" } else { "" };
            self.step(1, &format!("IPv{}: {}, building{slow}", A::NUMBER, structure.name))?;
            match Subject::build(structure, &inputs.table, self.patterns.len()) {
                Ok(mut subject) => {
                    self.step(1, &format!("IPv{}: {}, checking", A::NUMBER, structure.name))?;
                    subject.check(inputs, self.args.batch);
                    subject.rates = vec![Vec::new(); self.patterns.len() * self.kinds()];
                    subjects.push(subject);
                }
                Err(error) => refused.push((structure.name, error.to_string())),
            }
        }
        Ok(subjects)
    }

    /// How many kinds of lookups are measured: with and without packets, or only without.
    fn kinds(&self) -> usize {
        if self.args.with_packets { 2 } else { 1 }
    }

    fn lookups<A: Family>(&mut self, subjects: &mut [Subject<A>], inputs: &Inputs<A>, round: usize) {
        let mut packets = Packets::new(self.args.seed);
        let (batch, count, kinds) = (self.args.batch, subjects.len(), self.kinds());
        let from = Random::new(self.args.seed ^ round as u64).below((A::ADDRESSES - batch) as u32) as usize;
        let stretch = Stretch {
            from,
            batch,
            warm: Duration::from_secs_f64(self.args.seconds * WARM),
            time: Duration::from_secs_f64(self.args.seconds),
        };
        for (number, Addresses { addresses, .. }) in inputs.patterns.iter().enumerate() {
            for turn in 0..count {
                // They take turns at going first.
                let subject = &mut subjects[(turn + round) % count];
                let Some(reader) = subject.reader.clone() else { continue };
                let rates = &mut subject.rates[number * kinds..(number + 1) * kinds];
                rates[0].push(measure::lookups(&*reader, addresses, stretch));
                if let Some(rates) = rates.get_mut(1) {
                    rates.push(measure::lookups_with_packets(&*reader, addresses, stretch, &mut packets));
                }
            }
        }
        if A::NUMBER == 4 || self.limits.rates[0].len() <= round {
            self.limits.measure(stretch);
        }
    }

    /// Changes every structure, each going first in turn; one that fails is left out from then on.
    fn each<A: Family>(
        &self,
        subjects: &mut [Subject<A>],
        refused: &mut Vec<(&'static str, String)>,
        round: usize,
        mut action: impl FnMut(&mut Subject<A>) -> Result<(), LookupError>,
    ) {
        let count = subjects.len();
        for turn in 0..count {
            let subject = &mut subjects[(turn + round) % count];
            if !subject.failed
                && let Err(error) = action(subject)
            {
                subject.fail(&error, refused);
            }
        }
    }

    fn results<A: Family>(
        &self,
        subjects: Vec<Subject<A>>,
        inputs: &Inputs<A>,
        refused: Vec<(&'static str, String)>,
    ) -> results::Family {
        let names = self.patterns.iter().flat_map(|pattern| {
            let packets = self.args.with_packets.then(|| format!("{}+packets", pattern.name()));
            [Some(pattern.name().to_owned()), packets].into_iter().flatten()
        });
        let reference = subjects.iter().any(|subject| subject.name == A::REFERENCE).then_some(A::REFERENCE);
        results::Family {
            number: A::NUMBER,
            routes: inputs.table.len(),
            addresses: A::ADDRESSES,
            edges: inputs.edges.addresses.len(),
            reference,
            patterns: names.collect(),
            shapes: Vec::new(),
            structures: subjects.into_iter().map(|subject| subject.results(self.args.with_packets)).collect(),
            refused,
        }
    }
}

/// Random reads, measured in the same rounds.
struct Limits {
    indices: Vec<u32>,
    tables: Vec<(usize, RandomReads)>,
    rates: Vec<Vec<f64>>,
}

impl Limits {
    fn new(seed: u64) -> Limits {
        let tables: Vec<_> = LIMITS.iter().filter_map(|bytes| Some((*bytes, RandomReads::new(*bytes)?))).collect();
        let mut random = Random::new(seed);
        let indices = (0..u32::ADDRESSES).map(|_| random.bits() as u32).collect();
        Limits { indices, rates: vec![Vec::new(); LIMITS.len()], tables }
    }

    fn measure(&mut self, stretch: Stretch) {
        for ((_, table), rates) in self.tables.iter().zip(&mut self.rates) {
            rates.push(measure::random_reads(table, &self.indices, stretch));
        }
    }

    fn medians(self) -> Vec<(usize, f64)> {
        let medians = self.rates.iter().map(|rates| Median::of(rates).median);
        self.tables.iter().map(|(bytes, _)| *bytes).zip(medians).filter(|(_, rate)| rate.is_finite()).collect()
    }
}
