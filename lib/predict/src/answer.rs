// SPDX-License-Identifier: MIT
//! From a question to its answer: figures for each number of cores, how many are needed, figures against load.

mod words;

use crate::capacity::{Capacity, Limit, Relaxation, Traffic};
use crate::figures::{Figures, Method};
use crate::objective::{self, Objective, Quantity, Verdict};
use crate::profile::Profile;
use crate::simulate::{Scenario, SimulationError, Simulator};
use crate::traffic::{Cores, Rate};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Loads of the curves: offered rate over the throughput without loss.
const LOADS: [f64; 18] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5];

/// Packets of each simulation of a curve: there are many.
pub const LOAD_PACKETS: u64 = 200_000;

/// Loss that counts as none if nothing is said about it: less than a packet in a million.
const NEGLIGIBLE_LOSS: f64 = 1e-6;

/// How often the distance between a load with loss and one without is halved.
const STEPS: u32 = 5;

/// Shares of packets are sums of many: differences this small are not a loss.
const ROUNDING: f64 = 1e-9;

/// Where queues change slowly, simulations are at most this many times as long, and for that reason alone no longer
/// than `MAX_PACKETS`.
const MAX_LENGTHENING: u64 = 15;
const MAX_PACKETS: u64 = 5_000_000;

/// When to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulate {
    /// If no closed form is exact and there is a simulator.
    WhereNeeded,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A question.
#[derive(Clone, Debug)]
pub struct Question {
    /// The router, with its intended ports and links.
    pub profile: Profile,
    /// The offered rate.
    pub rate: Rate,
    /// The rest of the traffic.
    pub traffic: Traffic,
    /// Numbers of cores.
    pub cores: Cores,
    /// The objective; none: no loss.
    pub objective: Option<Objective>,
    /// When to simulate.
    pub simulate: Simulate,
    /// Seed of simulations.
    pub seed: u64,
    /// Packets of each simulation, of curves at most [`LOAD_PACKETS`]; more where queues change slowly.
    pub packets: u64,
}

/// A number of cores with its figures at the offered rate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of cores.
    pub cores: u32,
    /// Packets per second that cores and links have time for. Packets that arrive close together may overflow rings
    /// below that: [`Answer::no_loss_pps`].
    pub capacity_pps: f64,
    /// Gbit/s on the wire that cores and links have time for.
    pub capacity_gbps: f64,
    /// What limits it.
    pub limit: Limit,
    /// How it is known.
    pub capacity_method: Method,
    /// Each core's share of the packets.
    pub shares: Vec<f64>,
    /// The figures at the offered rate.
    #[serde(flatten)]
    pub figures: Figures,
}

/// How many cores are needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Needed {
    /// A number of cores.
    Cores {
        /// The smallest number in question that meets the objective.
        cores: u32,
    },
    /// Links carry less than is offered.
    Link,
    /// None of the numbers in question is enough.
    None {
        /// The one that comes closest.
        best: u32,
    },
    /// It is unknown without a simulation, or without a longer one.
    Unknown {
        /// The smallest number that may be enough.
        cores: u32,
    },
}

/// An answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Offered packets per second.
    pub offered_pps: f64,
    /// Offered Gbit/s on the wire.
    pub offered_gbps: f64,
    /// The most that links carry, summed over all directions that have packets, in Gbit/s on the wire.
    pub link_gbps: f64,
    /// For each number of cores.
    pub rows: Vec<Row>,
    /// How many are needed.
    pub needed: Needed,
    /// The answer in a sentence.
    pub sentence: String,
    /// Number of cores of the figures against load.
    pub load_cores: u32,
    /// Packets per second up to which that many cores lose none, by the same figures as those against load: less than
    /// a packet in a million. `None` where a loss is not known.
    pub no_loss_pps: Option<f64>,
    /// Figures against load, from low to high.
    pub load: Vec<Figures>,
    /// How figures are known: each method with its figures.
    pub methods: Vec<(String, String)>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Answers a question. `progress` is called with the number of finished simulations, and of all that are known to be
/// needed.
///
/// # Errors
/// A simulator that fails.
pub fn answer(
    question: &Question,
    simulator: Option<&Simulator>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Answer, SimulationError> {
    let asked = Asked::new(question, simulator, progress);
    let capacities: Vec<_> = question.cores.counts().iter().map(|&cores| (cores, asked.capacity(cores))).collect();
    let offered: Vec<_> = capacities.iter().map(|(cores, capacity)| (*cores, capacity, asked.pps)).collect();
    let figures = asked.figures(&offered, question.packets)?;
    let rows: Vec<_> = capacities
        .iter()
        .zip(figures)
        .map(|((cores, capacity), figures)| asked.row(*cores, capacity, figures))
        .collect();
    let link_pps = capacities[0].1.link_pps();
    let carried = capacities[0].1.carried(asked.pps);
    let needed = asked.needed(&rows, carried);
    let load_cores = match needed {
        Needed::Cores { cores } | Needed::None { best: cores } | Needed::Unknown { cores } => cores,
        Needed::Link => least_for_links(&rows),
    };
    let (_, capacity) = &capacities[rows.iter().position(|row| row.cores == load_cores).unwrap_or(0)];
    let full = capacity.no_loss().0;
    let loads = LOADS.iter().map(|load| load * full).filter(|pps| *pps <= link_pps * (1.0 + 1e-9));
    let loads: Vec<_> = loads.map(|pps| (load_cores, capacity, pps)).collect();
    let load = asked.figures(&loads, question.packets.min(LOAD_PACKETS))?;
    let asked_about = rows.iter().find(|row| row.cores == load_cores).map(|row| &row.figures);
    let no_loss_pps = no_loss(capacity, &load, asked_about);
    let per_pps = question.traffic.sizes.mean_wire_bits() / 1e9;
    Ok(Answer {
        offered_pps: asked.pps,
        offered_gbps: asked.pps * per_pps,
        link_gbps: capacity.most_carried() * per_pps,
        sentence: asked.sentence(&needed, &rows, carried, no_loss_pps),
        methods: words::methods(&rows, &load),
        notes: asked.notes(&rows, &load, capacity, no_loss_pps),
        rows,
        needed,
        load_cores,
        no_loss_pps,
        load,
    })
}

/// Up to which rate nothing is lost, by the figures against load, in packets per second; between two loads it is looked
/// for where closed forms know the loss.
fn no_loss(capacity: &Capacity, load: &[Figures], asked: Option<&Figures>) -> Option<f64> {
    let lost = |figures: &Figures| figures.loss.map(|lost| lost > NEGLIGIBLE_LOSS);
    let mut known: Vec<&Figures> = load.iter().chain(asked).collect();
    known.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
    let (mut low, mut high) = (0.0, None);
    for figures in known {
        if lost(figures)? {
            high = Some(figures);
            break;
        }
        low = figures.offered_pps;
    }
    // What cores and links have time for is more than nothing lost may prove.
    let most = capacity.no_loss().0;
    let Some(high) = high else { return Some(low.min(most)) };
    let mut high_pps = high.offered_pps;
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high_pps);
        let simulated = matches!(high.methods.loss, Method::Simulated { .. });
        match (!simulated).then(|| lost(&capacity.figures(middle))).flatten() {
            Some(true) => high_pps = middle,
            Some(false) => low = middle,
            None => break,
        }
    }
    Some(low.min(most))
}

/// The least number of cores that fills the links, or the largest number.
fn least_for_links(rows: &[Row]) -> u32 {
    let enough = rows.iter().find(|row| row.limit == Limit::Link);
    enough.or(rows.last()).map_or(1, |row| row.cores)
}

/// A question being answered.
struct Asked<'a> {
    question: &'a Question,
    simulator: Option<&'a Simulator>,
    progress: &'a (dyn Fn(usize, usize) + Sync),
    done: AtomicUsize,
    all: AtomicUsize,
    pps: f64,
}

impl<'a> Asked<'a> {
    fn new(
        question: &'a Question,
        simulator: Option<&'a Simulator>,
        progress: &'a (dyn Fn(usize, usize) + Sync),
    ) -> Self {
        let (done, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { question, simulator, progress, done, all, pps: question.rate.pps(&question.traffic.sizes) }
    }

    fn capacity(&self, cores: u32) -> Capacity {
        let Question { profile, traffic, .. } = self.question;
        let router = &profile.router;
        let service = profile.service(cores, traffic.ways() == 2, router.working_set_bytes, router.punt_share);
        Capacity::new(&profile.router, service, traffic, cores)
    }

    /// Figures of cores at rates: by closed forms, by simulation, or both.
    fn figures(&self, wanted: &[(u32, &Capacity, f64)], packets: u64) -> Result<Vec<Figures>, SimulationError> {
        let always = self.question.simulate == Simulate::Always;
        let closed = wanted.iter().map(|(_, capacity, pps)| (!always).then(|| capacity.figures(*pps)));
        let closed: Vec<Option<Figures>> = closed.collect();
        let Some(simulator) = self.simulator.filter(|_| self.question.simulate != Simulate::Never) else {
            let all = wanted.iter().zip(closed);
            return Ok(all
                .map(|((_, capacity, pps), figures)| figures.unwrap_or_else(|| capacity.figures(*pps)))
                .collect());
        };
        let sizes: Vec<_> = wanted.iter().map(|(_, capacity, pps)| Size::of(capacity, *pps, packets)).collect();
        // A simulation that is too short for its queues knows less than an approximation.
        let needs = |figures: &Figures, size: &Size| figures.missing() || figures.incomplete() && size.settled;
        let questions = wanted.iter().zip(&sizes).zip(&closed);
        let work: Vec<_> =
            questions.filter(|((_, size), closed)| closed.as_ref().is_none_or(|c| needs(c, size))).collect();
        let all = self.all.fetch_add(work.len(), Ordering::Relaxed) + work.len();
        if !work.is_empty() {
            (self.progress)(self.done.load(Ordering::Relaxed), all);
        }
        let simulated = work.par_iter().map(|(((cores, capacity, pps), size), _)| {
            // Above that, only more would be refused before the router.
            let arriving = pps.min(capacity.all_links_pps());
            let figures = simulator.run(&self.scenario(*cores, arriving, **size));
            (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, all);
            let overloaded = capacity.overload(*pps) > 0.0;
            figures.map(|figures| of_what_is_offered(figures, capacity.carried(*pps), *pps, overloaded))
        });
        let mut simulated = simulated.collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut take = || simulated.next().expect("as many as there is work");
        let merged = closed.into_iter().zip(&sizes).map(|(closed, size)| match closed {
            Some(figures) if needs(&figures, size) => figures.complete(take()),
            Some(figures) => figures,
            None => take(),
        });
        Ok(merged.collect())
    }

    fn scenario(&self, cores: u32, pps: f64, size: Size) -> Scenario {
        let Question { profile, traffic, seed, .. } = self.question;
        Scenario {
            profile: profile.clone(),
            cores,
            directions: traffic.ways(),
            rate_gbps: pps * traffic.sizes.mean_wire_bits() / 1e9,
            rate_pps: pps,
            sizes: traffic.sizes.entries().to_vec(),
            flows: traffic.flows,
            arrivals: traffic.arrivals,
            seed: *seed,
            warm_up: size.warm_up,
            packets: size.packets,
            settled: size.settled,
        }
    }

    fn row(&self, cores: u32, capacity: &Capacity, figures: Figures) -> Row {
        let (capacity_pps, limit, capacity_method) = capacity.no_loss();
        Row {
            cores,
            capacity_pps,
            capacity_gbps: capacity_pps * self.question.traffic.sizes.mean_wire_bits() / 1e9,
            limit,
            capacity_method,
            shares: capacity.shares(),
            figures,
        }
    }

    /// Is the objective met with this number of cores? Without one, the objective is that nothing is lost.
    fn judge(&self, row: &Row) -> Verdict {
        let Some(objective) = &self.question.objective else {
            let excess = self.pps / row.capacity_pps;
            let condition = objective::NO_LOSS;
            if excess > 1.0 + ROUNDING {
                return Verdict::Missed { condition, value: 1.0 - 1.0 / excess, excess };
            }
            // Random arrivals may overflow a small ring below what the cores can do.
            let figures = &row.figures;
            return match Quantity::Loss.known(figures) {
                Err(why) => Verdict::Unknown { condition, why },
                Ok(lost) if lost <= NEGLIGIBLE_LOSS => Verdict::Met,
                Ok(lost) if figures.loss_at_least.is_some_and(|least| least <= NEGLIGIBLE_LOSS) => {
                    Verdict::Unknown { condition, why: objective::between(figures.loss_at_least, lost) }
                }
                Ok(lost) => Verdict::Missed { condition, value: lost, excess: 1.0 + lost },
            };
        };
        objective.judge(&row.figures)
    }

    fn needed(&self, rows: &[Row], carried: f64) -> Needed {
        let lost_by_links = 1.0 - carried / self.pps;
        let allowed = self.question.objective.as_ref().map_or(Some(0.0), Objective::loss);
        if lost_by_links > ROUNDING && allowed.is_some_and(|allowed| allowed <= lost_by_links) {
            return Needed::Link;
        }
        let mut best = (f64::INFINITY, rows[0].cores);
        for row in rows {
            match self.judge(row) {
                Verdict::Met => return Needed::Cores { cores: row.cores },
                Verdict::Unknown { .. } => return Needed::Unknown { cores: row.cores },
                Verdict::Missed { excess, .. } if excess < best.0 => best = (excess, row.cores),
                Verdict::Missed { .. } => {}
            }
        }
        Needed::None { best: best.1 }
    }
}

/// The length of a simulation, in packets.
#[derive(Clone, Copy)]
struct Size {
    /// Packets before counting begins.
    warm_up: u64,
    packets: u64,
    /// Whether that is enough.
    settled: bool,
}

impl Size {
    /// `packets`, or more if queues change slowly, until they have forgotten their start; before that a fifth, and
    /// until rings are full.
    fn of(capacity: &Capacity, pps: f64, packets: u64) -> Self {
        let Relaxation { fill, count } = capacity.relaxation(pps);
        let most = MAX_LENGTHENING.saturating_mul(packets).min(packets.max(MAX_PACKETS));
        Self {
            warm_up: packets / 5 + (fill as u64).min(most),
            packets: packets.max((count as u64).min(most)),
            settled: fill.max(count) <= most as f64,
        }
    }
}

/// Converts a simulation's figures to the requested rate: links carry `carried` of `pps`. How many packets a simulation
/// really offers is random, too: if cores have no time for all of them, that changes what is lost, else what is
/// accepted.
fn of_what_is_offered(mut figures: Figures, carried: f64, pps: f64, overloaded: bool) -> Figures {
    if let Some((loss, accepted)) = figures.loss.zip(figures.accepted_pps) {
        let accepted = if overloaded { accepted.min(carried) } else { carried * (1.0 - loss) };
        figures.accepted_pps = Some(accepted);
        let all_arrive = carried >= pps * (1.0 - ROUNDING);
        figures.loss = Some(if all_arrive && !overloaded { loss } else { 1.0 - accepted / pps });
    }
    figures.offered_pps = pps;
    figures
}

#[cfg(test)]
mod tests;
