// SPDX-License-Identifier: MIT
//! From a question to its answer: figures for each number of cores, how many are needed, figures against load.

use crate::capacity::{Capacity, Limit, MERGED, SPACED, Traffic};
use crate::figures::{Figures, Method};
use crate::objective::{Objective, Verdict, share, time};
use crate::parallel;
use crate::profile::Profile;
use crate::report;
use crate::simulate::{INSTALL, Scenario, SimulationError, Simulator};
use crate::traffic::{Cores, Rate, prefixed};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Loads of the curves: offered rate over the throughput without loss.
const LOADS: [f64; 18] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5];

/// Packets of each simulation of a curve, at most: there are many.
const LOAD_PACKETS: u64 = 200_000;

/// Loss that counts as none where nothing is said of it: less than a packet in a million.
const HARDLY: f64 = 1e-6;

/// When to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulate {
    /// Where no closed form is exact, if there is a simulator.
    WhereNeeded,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The router, with its ports and links as they shall be.
    pub profile: Profile,
    /// The offered rate.
    pub rate: Rate,
    /// The rest of the traffic.
    pub traffic: Traffic,
    /// Numbers of cores.
    pub cores: Cores,
    /// What shall be reached; none: no loss.
    pub objective: Option<Objective>,
    /// When to simulate.
    pub simulate: Simulate,
    /// Seed of simulations.
    pub seed: u64,
    /// Packets of each simulation.
    pub packets: u64,
}

/// A number of cores with its figures at the offered rate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How many.
    pub cores: u32,
    /// Packets per second up to which nothing is lost for want of time.
    pub no_loss_pps: f64,
    /// The same in Gbit/s on the wire.
    pub no_loss_gbps: f64,
    /// What it is limited by.
    pub limit: Limit,
    /// How it is known.
    pub no_loss_method: Method,
    /// Each core's share of the packets.
    pub shares: Vec<f64>,
    /// At the offered rate.
    #[serde(flatten)]
    pub figures: Figures,
}

/// How many cores are needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Needed {
    /// So many.
    Cores {
        /// The least number that was asked about and meets the objective.
        cores: u32,
    },
    /// Links carry less than is offered.
    Link,
    /// None of those asked about is enough.
    None {
        /// The one that comes nearest.
        best: u32,
    },
    /// It cannot be told without a simulation, or a longer one.
    Unknown {
        /// The least number that may be enough.
        cores: u32,
    },
}

/// What is answered.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Offered packets per second.
    pub offered_pps: f64,
    /// Offered Gbit/s on the wire.
    pub offered_gbps: f64,
    /// What links carry, all directions together, in Gbit/s on the wire.
    pub link_gbps: f64,
    /// For each number of cores.
    pub rows: Vec<Row>,
    /// How many are needed.
    pub needed: Needed,
    /// The answer in a sentence.
    pub sentence: String,
    /// Number of cores of the figures against load.
    pub load_cores: u32,
    /// Figures against load, from low to high.
    pub load: Vec<Figures>,
    /// How figures are known, each method with what it gives.
    pub methods: Vec<(String, String)>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Answers. `progress` hears of simulations that are done and of all that there are so far.
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
    let no_loss = capacity.no_loss().0;
    let loads = LOADS.iter().map(|load| load * no_loss).filter(|pps| *pps <= link_pps * (1.0 + 1e-9));
    let loads: Vec<_> = loads.map(|pps| (load_cores, capacity, pps)).collect();
    let load = asked.figures(&loads, question.packets.min(LOAD_PACKETS))?;
    let per_pps = question.traffic.sizes.mean_wire_bits() / 1e9;
    Ok(Answer {
        offered_pps: asked.pps,
        offered_gbps: asked.pps * per_pps,
        link_gbps: link_pps * per_pps,
        sentence: asked.sentence(&needed, &rows, carried),
        methods: methods(&rows),
        notes: asked.notes(&rows, capacity),
        rows,
        needed,
        load_cores,
        load,
    })
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
        let service = profile.service(cores, traffic.ways() == 2, profile.router.working_set_bytes);
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
        let work: Vec<_> =
            wanted.iter().zip(&closed).filter(|(_, c)| c.as_ref().is_none_or(Figures::incomplete)).collect();
        let all = self.all.fetch_add(work.len(), Ordering::Relaxed) + work.len();
        if !work.is_empty() {
            (self.progress)(self.done.load(Ordering::Relaxed), all);
        }
        let simulated = parallel::map(&work, |((cores, capacity, pps), _)| {
            // Above that, only more would be refused before the router.
            let arriving = pps.min(capacity.all_links_pps());
            let figures = simulator.run(&self.scenario(*cores, capacity, arriving, packets));
            (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, all);
            figures.map(|figures| of_what_is_offered(figures, capacity.carried(*pps), *pps))
        });
        let mut simulated = simulated.into_iter();
        let mut take = || simulated.next().expect("as many as there is work");
        let merged = closed.into_iter().map(|closed| match closed {
            Some(figures) if !figures.incomplete() => Ok(figures),
            Some(figures) => Ok(figures.complete(take()?)),
            None => take(),
        });
        merged.collect()
    }

    fn scenario(&self, cores: u32, capacity: &Capacity, pps: f64, packets: u64) -> Scenario {
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
            warm_up: warm_up(capacity, pps, packets),
            packets,
        }
    }

    fn row(&self, cores: u32, capacity: &Capacity, figures: Figures) -> Row {
        let (no_loss_pps, limit, no_loss_method) = capacity.no_loss();
        Row {
            cores,
            no_loss_pps,
            no_loss_gbps: no_loss_pps * self.question.traffic.sizes.mean_wire_bits() / 1e9,
            limit,
            no_loss_method,
            shares: capacity.shares(),
            figures,
        }
    }

    /// What becomes of the objective with this number of cores. Without one, nothing shall be lost.
    fn judge(&self, row: &Row) -> Verdict {
        let Some(objective) = &self.question.objective else {
            let excess = self.pps / row.no_loss_pps;
            let condition = crate::objective::NO_LOSS;
            // Random arrivals may overflow a small ring below what the cores can do.
            let lost = row.figures.loss.unwrap_or(0.0);
            return match (excess <= 1.0, lost <= HARDLY) {
                (true, true) => Verdict::Met,
                (true, false) => Verdict::Missed { condition, value: lost, excess: 1.0 + lost },
                (false, _) => Verdict::Missed { condition, value: 1.0 - 1.0 / excess, excess },
            };
        };
        objective.judge(&row.figures)
    }

    fn needed(&self, rows: &[Row], carried: f64) -> Needed {
        let lost_by_links = 1.0 - carried / self.pps;
        let allowed = self.question.objective.as_ref().map_or(Some(0.0), Objective::loss);
        if lost_by_links > 1e-9 && allowed.is_some_and(|allowed| allowed <= lost_by_links) {
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

    fn sentence(&self, needed: &Needed, rows: &[Row], carried: f64) -> String {
        let Question { rate, traffic, cores, objective, .. } = self.question;
        let row =
            |cores: u32| rows.iter().find(|row| row.cores == cores).expect("a number of cores that was asked about");
        let offered = format!("{rate} of {}", traffic.sizes);
        let goal = objective.as_ref().map_or_else(|| "no loss".to_owned(), ToString::to_string);
        match needed {
            Needed::Cores { cores: 1 } => format!("1 core forwards {offered} with {goal}: {}", figures_of(row(1))),
            Needed::Cores { cores: least } => {
                let of = if cores.counts()[0] == 1 { String::new() } else { format!(" (of {cores})") };
                format!("{least} cores{of} forward {offered} with {goal}: {}", figures_of(row(*least)))
            }
            Needed::Link => format!(
                "no number of cores reaches this: the link is the limit: links carry {}pps of this traffic, {}pps are offered",
                prefixed(carried),
                prefixed(self.pps)
            ),
            Needed::None { best } => {
                let of = match cores.counts() {
                    [1] => "1 core does not reach".to_owned(),
                    [only] => format!("{only} cores do not reach"),
                    _ => format!("none of {cores} cores reaches"),
                };
                let why = match self.judge(row(*best)) {
                    Verdict::Missed { condition, value, .. } if objective.is_some() => {
                        format!("{} {}", condition.quantity, condition.quantity.show(value))
                    }
                    _ => format!("no loss up to {}pps", prefixed(row(*best).no_loss_pps)),
                };
                format!("{of} {goal} at {offered}: the best is {} with {why}", number(*best))
            }
            Needed::Unknown { cores } => match self.judge(row(*cores)) {
                Verdict::Unknown { condition, why } => {
                    format!("whether {} reach {condition} is not known: {why}", number(*cores))
                }
                _ => "it is not known".to_owned(),
            },
        }
    }

    fn notes(&self, rows: &[Row], capacity: &Capacity) -> Vec<String> {
        let Question { profile, traffic, simulate, .. } = self.question;
        let mut notes = Vec::new();
        let weak =
            |what: fn(&Method) -> bool| rows.iter().any(|row| row.figures.methods.named().iter().any(|(_, m)| what(m)));
        if weak(|method| matches!(method, Method::Missing(_))) {
            notes.push(format!(
                "-: {}",
                if *simulate == Simulate::Never { "only a simulation could say" } else { INSTALL }
            ));
        }
        let exact = match simulate {
            Simulate::Never => "only a simulation is exact".to_owned(),
            _ => format!("for exact figures {INSTALL}"),
        };
        if weak(|method| *method == Method::Approximate(MERGED)) {
            notes.push(format!(
                "~: packets of several ports wait in a ring each, here taken as one: the mean was within 25 %, p99 within 30 % up to a \
                 load of 0.9; {exact}"
            ));
        }
        if weak(|method| *method == Method::Approximate(SPACED)) {
            let wire_ns = traffic.sizes.mean_wire_bits() / profile.router.link_gbps;
            let (wire, core) = (time(wire_ns), time(capacity.packet_ns()));
            notes.push(format!(
                "~: a frame takes {wire} on the wire and {core} on a core, so links space packets: loss and times are less than said; {exact}"
            ));
        }
        let none_lost = rows.iter().find_map(|row| match row.figures.methods.loss {
            Method::Simulated { counted, .. } if row.figures.loss == Some(0.0) => Some(counted.max(1)),
            _ => None,
        });
        if let Some(counted) = none_lost {
            let known = share(3.0 / counted as f64);
            notes.push(format!("no packet lost of {counted} simulated ones says, at 95 %, loss<{known}"));
        }
        notes
    }
}

/// Packets that pass before those are counted: a fifth of them; above full load, until rings are full, but no more than twice
/// as many.
fn warm_up(capacity: &Capacity, pps: f64, packets: u64) -> u64 {
    let overload = capacity.overload(pps);
    let fill = if overload > 0.0 { 1.5 * capacity.places() as f64 / overload } else { 0.0 };
    packets / 5 + (fill as u64).min(2 * packets)
}

/// "1 core", "4 cores".
fn number(cores: u32) -> String {
    if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }
}

/// What a simulation says of the rate that was asked for: links carry `carried` of `pps`. How many packets a simulation really
/// offers is random, too.
fn of_what_is_offered(mut figures: Figures, carried: f64, pps: f64) -> Figures {
    if let Some(loss) = figures.loss {
        let accepted = carried * (1.0 - loss);
        figures.accepted_pps = Some(accepted);
        figures.loss = Some(if carried < pps * (1.0 - 1e-9) { 1.0 - accepted / pps } else { loss });
    }
    figures.offered_pps = pps;
    figures
}

/// The figures that are known, in words.
fn figures_of(row: &Row) -> String {
    let figures = &row.figures;
    let mut words = Vec::new();
    words.extend(figures.loss.map(|loss| format!("loss {}", report::loss(loss))));
    words.extend(figures.mean_ns.map(|mean| format!("mean {}", time(mean))));
    words.extend(figures.sojourn_ns.map(|percentiles| format!("p99 {}", time(percentiles.p99))));
    words.extend(figures.busiest().map(|busy| format!("busiest core {}", share(busy))));
    words.push(format!("no loss up to {}pps", prefixed(row.no_loss_pps)));
    words.join(", ")
}

/// Each method with the figures that it gives, summed up over rows.
fn methods(rows: &[Row]) -> Vec<(String, String)> {
    let mut all: Vec<(&'static str, Method)> = Vec::new();
    for row in rows {
        let named = row.figures.methods.named();
        for (what, method) in [("throughput", &row.no_loss_method)].into_iter().chain(named) {
            let known = all.iter_mut().find(|(name, known)| *name == what && same(known, method));
            match (known, method) {
                (None, _) => all.push((what, method.clone())),
                (
                    Some((_, Method::Simulated { events, packets, .. })),
                    Method::Simulated { events: more, packets: further, .. },
                ) => {
                    *events += more;
                    *packets += further;
                }
                (Some(_), _) => {}
            }
        }
    }
    let mut told: Vec<(String, String)> = Vec::new();
    for (what, method) in all {
        let method = method.to_string();
        match told.iter_mut().find(|(_, known)| *known == method) {
            Some((names, _)) => *names = format!("{names}, {what}"),
            None => told.push((what.to_owned(), method)),
        }
    }
    told
}

/// The same way of knowing; simulations are all one.
fn same(one: &Method, other: &Method) -> bool {
    one == other || matches!((one, other), (Method::Simulated { .. }, Method::Simulated { .. }))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
