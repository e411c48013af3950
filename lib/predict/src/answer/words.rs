// SPDX-License-Identifier: MIT
//! The description of an answer: the sentence, how figures are known, notes for the reader.

use super::{Asked, NEGLIGIBLE_LOSS, Needed, Question, Row, Simulate};
use crate::capacity::{Capacity, MERGED, SPACED};
use crate::figures::{Figures, Method};
use crate::number::{loss, prefixed, share, time};
use crate::objective::{Quantity, Verdict};
use crate::profile::{Profile, Punted};
use crate::reach::{FURTHER, Reach};
use crate::simulate::INSTALL;

/// Throughputs at the ends of the interval of what a further core costs that are further apart than this, as a ratio,
/// are worth a note.
const WIDE: f64 = 1.25;
/// Loss below this share of the capacity is worth a note.
const EARLY: f64 = 0.98;
/// Gbit/s; no Ethernet link is faster.
const FASTEST_LINK: f64 = 1600.0;
/// A core that is busier than its share of the capacity by this factor is worth a note.
const BUSIER: f64 = 1.25;

impl Asked<'_> {
    pub(super) fn sentence(&self, needed: &Needed, rows: &[Row], carried: f64, no_loss: Option<f64>) -> String {
        let Question { rate, traffic, cores, objective, .. } = self.question;
        let row =
            |cores: u32| rows.iter().find(|row| row.cores == cores).expect("a number of cores that was asked about");
        let offered = format!("{rate} of {}", traffic.sizes);
        let goal = objective.as_ref().map_or_else(|| "no loss".to_owned(), ToString::to_string);
        match needed {
            Needed::Cores { cores: 1 } => {
                format!("1 core forwards {offered} with {goal}: {}", figures_of(row(1), no_loss))
            }
            Needed::Cores { cores: least } => {
                let of = if let [1, ..] | [_] = cores.counts() { String::new() } else { format!(" (of {cores})") };
                format!("{least} cores{of} forward {offered} with {goal}: {}", figures_of(row(*least), no_loss))
            }
            Needed::Link => format!(
                "no number of cores reaches this, because the link is the limit: links carry {}pps of this traffic, {}pps are offered",
                prefixed(carried),
                prefixed(self.pps)
            ),
            Needed::None { best } => {
                let (of, best_is) = match cores.counts() {
                    [1] => ("1 core does not forward".to_owned(), String::new()),
                    [only] => (format!("{only} cores do not forward"), String::new()),
                    _ => (format!("none of {cores} cores forwards"), format!("the best is {} with ", number(*best))),
                };
                let why = match self.judge(row(*best)) {
                    // What rings lose below that, or limits of times, are said as they are.
                    Verdict::Missed { condition, value, .. }
                        if objective.is_some() || self.pps <= row(*best).capacity_pps =>
                    {
                        format!("{} {}", condition.quantity, condition.quantity.show(value))
                    }
                    _ => up_to(row(*best), no_loss),
                };
                format!("{of} {offered} with {goal}: {best_is}{why}")
            }
            Needed::Unknown { cores } => match self.judge(row(*cores)) {
                Verdict::Unknown { condition, why } => {
                    let forward = if *cores == 1 { "forwards" } else { "forward" };
                    let goal = if objective.is_some() { condition.to_string() } else { goal };
                    format!("whether {} {forward} {offered} with {goal} is not known: {why}", number(*cores))
                }
                _ => "it is not known".to_owned(),
            },
        }
    }

    pub(super) fn notes(
        &self,
        rows: &[Row],
        load: &[Figures],
        capacity: &Capacity,
        no_loss: Option<f64>,
    ) -> Vec<String> {
        let Question { profile, traffic, simulate, .. } = self.question;
        let mut notes: Vec<String> = self.reach(rows).into_iter().chain(self.unreal()).chain(self.busy(rows)).collect();
        let all = || rows.iter().map(|row| &row.figures).chain(load);
        let weak =
            |what: fn(&Method) -> bool| all().any(|figures| figures.methods.named().iter().any(|(_, m)| what(m)));
        if weak(|method| matches!(method, Method::Missing(_))) {
            notes.push(format!(
                "-: {}",
                if *simulate == Simulate::Never { "only a simulation could tell" } else { INSTALL }
            ));
        }
        let exact = match (simulate, self.simulator) {
            (Simulate::Never, _) => "only a simulation is exact".to_owned(),
            (_, None) => format!("for exact figures {INSTALL}"),
            _ => "near a load of 1 queues change so slowly that only a longer simulation would be better".to_owned(),
        };
        if weak(|method| *method == Method::Approximate(MERGED)) {
            notes.push(format!(
                "~: packets of several ports wait in a ring each, treated here as one: the mean was within 20 %, p50 and p99 within \
                 a third, p99.9 within a half up to a load of 0.9 if rings get equal shares; losses are then at most those given; {exact}"
            ));
        }
        let short = |figures: &Figures| matches!(figures.methods.percentiles, Method::Simulated { settled: false, .. });
        if rows.iter().any(|row| short(&row.figures)) {
            notes.push(
                "queues change so slowly near a load of 1, or cores wake up or pause so rarely, that the simulation was too short for loss and times: \
                 simulate more packets (--packets)"
                    .to_owned(),
            );
        } else if load.iter().any(short) {
            notes.push(
                "against load: near 1 queues change so slowly, or cores wake up or pause so rarely, that short simulations say little about loss and times"
                    .to_owned(),
            );
        }
        let early = |figures: &Figures| figures.loss.is_some_and(|loss| loss > NEGLIGIBLE_LOSS);
        let row = rows.iter().find(|row| row.figures.offered_pps <= row.capacity_pps * EARLY && early(&row.figures));
        if let Some(no_loss) = no_loss.filter(|no_loss| *no_loss < capacity.no_loss().0 * EARLY) {
            notes.push(format!(
                "capacity: what cores and links have time for; packets that arrive close together overflow rings from {}pps on",
                prefixed(no_loss)
            ));
        } else if row.is_some() {
            notes.push(
                "capacity: what cores and links have time for; here packets that arrive close together overflow rings earlier"
                    .to_owned(),
            );
        }
        if weak(|method| *method == Method::Approximate(SPACED)) {
            let wire_ns = traffic.sizes.mean_wire_bits() / profile.router.link_gbps;
            let (wire, core) = (time(wire_ns), time(capacity.packet_ns()));
            notes.push(format!(
                "~: a frame takes {wire} on the wire and {core} on a core, so links space packets, which makes queues shorter and is left out here; {exact}"
            ));
        }
        let none_lost = rows.iter().find_map(|row| match row.figures.methods.loss {
            Method::Simulated { counted, .. } if row.figures.loss == Some(0.0) => Some(counted.max(1)),
            _ => None,
        });
        if let Some(counted) = none_lost {
            let known = share(3.0 / counted as f64);
            notes.push(format!("none of {counted} simulated packets was lost, so loss<{known} (at 95 %)"));
        }
        notes
    }

    /// Where the profile is unlike any router with ports.
    fn unreal(&self) -> Vec<String> {
        let profile = &self.question.profile;
        let mut notes = Vec::new();
        if profile.router.link_gbps > FASTEST_LINK {
            notes.push(format!(
                "links of {} Gbit/s are faster than any, so that only cores limit here: name yours (--link 100G)",
                profile.router.link_gbps
            ));
        }
        let command = profile.fit.as_ref().and_then(|fit| fit.get("command")?.as_str());
        if command.is_some_and(|command| command.contains("predict calibrate")) {
            notes.push(
                "the profile's points are of workers between a source and a sink in memory: ports, their drivers and buses cost more"
                    .to_owned(),
            );
        }
        notes
    }

    /// Cores that are busy with bursts of few packets, where utilisation is limited: it says little of what is left.
    fn busy(&self, rows: &[Row]) -> Option<String> {
        let limited =
            self.question.objective.as_ref()?.conditions().iter().any(|c| c.quantity == Quantity::Utilisation);
        let burst = f64::from(self.question.profile.router.burst);
        let looks_busy = |row: &&Row| {
            let load = self.pps / row.capacity_pps;
            let busiest = row.figures.busiest().filter(|busiest| *busiest > BUSIER * load);
            busiest.zip(row.figures.batch).is_some_and(|(_, batch)| load < 1.0 && batch < 0.75 * burst)
        };
        let row = rows.iter().find(looks_busy).filter(|_| limited)?;
        Some(format!(
            "busiest: {} at {} of their capacity are {} busy, as bursts hold {:.1} packets of {burst} on the mean and each burst has a cost; \
             more packets make bursts longer, so utilisation is no measure of what is left (a limit of loss or p99 is)",
            number(row.cores),
            share(self.pps / row.capacity_pps),
            share(row.figures.busiest()?),
            row.figures.batch?
        ))
    }

    /// What is not known of many cores from points on few.
    fn reach(&self, rows: &[Row]) -> Option<String> {
        let Question { profile, traffic, .. } = self.question;
        let (reach, most) = (Reach::of(profile)?, rows.iter().map(|row| row.cores).max()?);
        let (beyond, measured) = (reach.is_beyond(most), format!("the profile's points are on {}", reach.words()));
        let left_out = reach.measured.len() < 3 && profile.model.parameters().contains(&(FURTHER, 0.0));
        let Some((ends, [low, high])) = reach.ends(profile).zip(reach.interval) else {
            let how = match reach.measured[..] {
                [_, _] if left_out => {
                    "as if cores were never in each other's way, which two numbers of cores do not tell"
                }
                [_] => "as if cores were never in each other's way",
                _ => "by what these tell",
            };
            return beyond.then(|| format!("{measured}: more are extrapolated, {how}"));
        };
        // The more time a packet takes, the fewer pass.
        let [at_most, at_least] = ends.map(|Profile { model, router, .. }| {
            let punted = Punted { share: router.punt_share, burst: router.burst };
            let service = model.service(most, traffic.ways() == 2, router.working_set_bytes, punted);
            Capacity::new(&router, service, traffic, most).no_loss().0
        });
        let further = format!("what a further core costs ({FURTHER}, {low:.0} to {high:.0} ns at 95 %)");
        let passes = format!("a capacity of {}pps to {}pps", prefixed(at_least), prefixed(at_most));
        let on = number(most);
        if left_out && beyond {
            return Some(format!(
                "{measured}, which do not tell {further}: it is left out, so figures for more cores are the best that may be; {passes} on {on}; \
                 points on a third number of cores would tell"
            ));
        }
        match (beyond, at_most > WIDE * at_least) {
            (true, wide) => {
                let remedy = if wide { "; points on more cores would tell" } else { "" };
                Some(format!(
                    "{measured}: {further} is extrapolated to {on} as if each cost as much, {passes} there{remedy}"
                ))
            }
            (false, true) => Some(format!("{measured}, which tell {further} so little that on {on} it is {passes}")),
            (false, false) => None,
        }
    }
}

/// "1 core", "4 cores".
fn number(cores: u32) -> String {
    if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }
}

/// Up to which rate nothing is lost, or what there is time for where that is not known.
fn up_to(row: &Row, no_loss: Option<f64>) -> String {
    match no_loss {
        Some(pps) => format!("no loss up to {}pps", prefixed(pps)),
        None => format!("a capacity of {}pps", prefixed(row.capacity_pps)),
    }
}

/// Describes the figures that are known.
fn figures_of(row: &Row, no_loss: Option<f64>) -> String {
    let figures = &row.figures;
    let mut words = Vec::new();
    words.extend(figures.loss.map(|lost| format!("loss {}", loss(lost))));
    words.extend(figures.mean_ns.map(|mean| format!("mean {}", time(mean))));
    words.extend(figures.sojourn_ns.map(|percentiles| format!("p99 {}", time(percentiles.p99))));
    words.extend(figures.busiest().map(|busy| format!("busiest core {}", share(busy))));
    words.push(up_to(row, no_loss));
    words.join(", ")
}

/// Each method with the figures that it gives, summed up over rows and loads.
pub(super) fn methods(rows: &[Row], load: &[Figures]) -> Vec<(String, String)> {
    let throughput = rows.iter().map(|row| ("throughput", &row.capacity_method));
    let figures = rows.iter().map(|row| &row.figures).chain(load).flat_map(|figures| figures.methods.named());
    let mut all: Vec<(&'static str, Method)> = Vec::new();
    for (what, method) in throughput.chain(figures) {
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
    let mut said: Vec<(String, String)> = Vec::new();
    for (what, method) in all {
        let method = method.to_string();
        match said.iter_mut().find(|(_, known)| *known == method) {
            Some((names, _)) => *names = format!("{names}, {what}"),
            None => said.push((what.to_owned(), method)),
        }
    }
    said
}

/// Whether two methods are the same; all simulations count as one.
fn same(one: &Method, other: &Method) -> bool {
    one == other || matches!((one, other), (Method::Simulated { .. }, Method::Simulated { .. }))
}
