// SPDX-License-Identifier: MIT
//! A router's cores and links by closed forms: throughput without loss, and figures at an offered rate.
//!
//! Flows are spread over the cores by RSS ([`rss`]); each port has a receive ring per core, and a core takes its bursts
//! from its rings in turn. So a core whose packets all come from one port is one of the queues of
//! [`queueing`](crate::queueing), and a router's figures are those of its cores, mixed by their packets.
//!
//! | question | closed form |
//! | --- | --- |
//! | throughput without loss | the core whose fullest ring fills first, or a link, or the slow path |
//! | accepted rate, loss | Poisson: what finds a ring full, by the Markov chain; constant: what is above the core's rate |
//! | utilisation, batches | Poisson: the chain; constant: where bursts cost nothing besides their packets |
//! | mean, percentiles | Poisson: M/D/1, or the chain and the distribution on a grid |
//! | packets from several ports | approximately: as if the rings were one (single packets: mean and utilisation exactly); loss between bounds |
//! | links of no more than a few times a core's rate | approximately: frames come no closer than they take on the wire |
//! | with polls, pauses, or a transmit buffer that idle cores send | event by event ([`events`](crate::queueing::events)) |
//! | with another transmit buffer | all but times: those depend on when its timer runs |
//! | with a slow path | throughput: the slow path has what the fast path leaves of any core, one packet at a time |

mod events;
mod queues;

use self::queues::{Queue, Times, packet_times};
use crate::figures::{Figures, Method, Methods, Percentiles};
use crate::profile::{Pauses, Router};
use crate::queueing::sojourn::quantile;
use crate::queueing::{BatchServer, Sleep, TooLarge};
use crate::rss;
use crate::service::Service;
use crate::traffic::{Arrivals, Sizes};
use rayon::prelude::*;
use serde::Serialize;
use std::f64::consts::PI;

const RATES: &str = "rates of cores (RSS shares) and links";
const SLOW: &str = "what the fast path (Markov chain per core) leaves to the slow path";
const MD1: &str = "M/D/1 per core (Pollaczek and Khinchine; Franx 2001)";
const MG1: &str = "Markov chain of M/G/1/K per core";
const BATCH: &str = "Markov chain of the batch server per core";
pub(crate) const MERGED: &str = "Markov chain per core, the rings of its ports as one";
pub(crate) const SPACED: &str = "Markov chain per core, as if links did not space packets";
const SMALL_RING: &str = "what receive rings lose, but not what a small transmit ring does";
const WAKING: &str = "rates of cores and links, but not what a ring loses while its core wakes up";
const UNEVEN: &str = "rates of cores and links, but not what a ring loses while packets come close together";
/// Links space packets if a frame takes more than this part of a core's time for it. What comes closer than a frame is
/// only moved apart, so the wait that is overestimated is this squared: some percent.
const SPACED_FROM: f64 = 0.3;
/// For how many relaxation times a simulation should count packets: the mean over 30 of them is mostly within a
/// quarter.
const MIN_RELAXATIONS: f64 = 30.0;
/// For how many wake-ups of a core, or pauses of all, it should count packets.
const MIN_WAKE_UPS: f64 = 300.0;
const MIN_PAUSES: f64 = 300.0;
/// Loss below which a queue counts as endless.
const NEGLIGIBLE_LOSS: f64 = 1e-12;

/// What limits the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// A core: the one with the largest share of the packets.
    Core,
    /// The links.
    Link,
    /// The slow path.
    Slow,
}

/// A router with a number of cores, and its traffic except for the rate.
#[derive(Clone, Debug)]
pub struct Capacity {
    router: Router,
    arrivals: Arrivals,
    server: BatchServer,
    /// Each core's shares, by receiving port.
    shares: Vec<Vec<f64>>,
    /// Share of each receiving port, all cores together.
    of_ports: Vec<f64>,
    /// Packets per second that a link carries.
    link_pps: f64,
    /// Frames differ in size.
    mixed: bool,
    flows: u32,
}

/// How long queues take to reach their steady state, in packets of the whole router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relaxation {
    /// From empty rings.
    pub fill: f64,
    /// Packets to count for meaningful means.
    pub count: f64,
}

/// The traffic, except for its rate.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Frame sizes.
    pub sizes: Sizes,
    /// Number of flows.
    pub flows: u32,
    /// 1: from one port of each pair to the other; 2: flows in turn both ways.
    pub directions: u32,
    /// The arrival process.
    pub arrivals: Arrivals,
}

impl Traffic {
    /// Directions that have a flow.
    pub fn ways(&self) -> u32 {
        self.directions.clamp(1, self.flows.clamp(1, 2))
    }
}

impl Capacity {
    /// The router with `cores` cores, whose packets take `service`.
    pub fn new(router: &Router, service: Service, traffic: &Traffic, cores: u32) -> Self {
        let server = BatchServer {
            burst: router.burst as usize,
            ring: router.receive_ring as usize,
            burst_ns: service.burst_ns(),
            packets: packet_times(&traffic.sizes, service),
            sleep: router.sleep_after_us.map(|after| Sleep { after_ns: after * 1e3, wake_ns: router.wake_up_us * 1e3 }),
        };
        let ports = rss::Ports { directions: traffic.directions, pairs: router.ports / 2 };
        let shares = rss::shares(traffic.flows, ports, cores);
        let of_ports = (0..shares[0].len()).map(|port| shares.iter().map(|shares| shares[port]).sum()).collect();
        Self {
            router: router.clone(),
            arrivals: traffic.arrivals,
            server,
            shares,
            of_ports,
            link_pps: router.link_gbps * 1e9 / traffic.sizes.mean_wire_bits(),
            mixed: traffic.sizes.entries().len() > 1,
            flows: traffic.flows,
        }
    }

    /// Each core's share of the packets.
    pub fn shares(&self) -> Vec<f64> {
        self.shares.iter().map(|shares| shares.iter().sum()).collect()
    }

    /// Packets per second of all ports together at which the first link is full.
    pub fn link_pps(&self) -> f64 {
        self.link_pps / self.of_ports.iter().copied().fold(0.0, f64::max)
    }

    /// Packets per second that links bring to the router when `pps` are offered to all ports together.
    pub fn carried(&self, pps: f64) -> f64 {
        self.of_ports.iter().filter(|share| **share > 0.0).map(|share| (share * pps).min(self.link_pps)).sum()
    }

    /// Packets per second of all ports together at which the last link is full.
    pub fn all_links_pps(&self) -> f64 {
        let least = self.of_ports.iter().copied().filter(|share| *share > 0.0).fold(f64::INFINITY, f64::min);
        self.link_pps / least
    }

    /// Long-run share of the packets that cores have no time for.
    pub fn overload(&self, pps: f64) -> f64 {
        self.rates(pps).iter().map(|rates| self.lost(rates)).sum::<f64>() / pps
    }

    /// Packets per second that links carry at most, all ports with packets together.
    pub fn most_carried(&self) -> f64 {
        self.carried(f64::INFINITY)
    }

    /// Packets of all the router that must pass until every core's queue is as it is in the long run, about, and then
    /// be counted: a queue that is neither short nor full wanders, the longer the nearer the core is to its limit.
    ///
    /// As Brownian motion between two walls K apart, with a drift of `d = 1 - load` and a variance of 1 for each
    /// packet: it forgets like `exp(-t (d^2 + (pi / K)^2) / 2)`. Above the limit, the excess fills the rings first.
    pub fn relaxation(&self, pps: f64) -> Relaxation {
        let mut found = Relaxation { fill: 0.0, count: 0.0 };
        for rates in self.rates(pps) {
            let rate: f64 = rates.iter().sum();
            if rate == 0.0 {
                continue;
            }
            let places = rates.len() as f64 * f64::from(self.router.receive_ring);
            let load = self.load(&rates);
            let forget = match self.arrivals {
                Arrivals::Poisson => 2.0 / ((1.0 - load).powi(2) + (PI / places).powi(2)),
                Arrivals::Constant => 0.0,
            };
            let (excess, stay) = match load > 1.0 {
                // Those that come now leave when all that are there have left.
                true => ((1.5 * places * load / (load - 1.0)).min(places * places), 2.0 * places * load),
                false => (0.0, 0.0),
            };
            let fill = excess.max(3.0 * forget);
            let count = stay.max(MIN_RELAXATIONS * forget).max(self.for_wake_ups(rate, load));
            // Of this core's packets; the others have theirs meanwhile.
            let of_all = self.carried(pps) / rate;
            found = Relaxation { fill: found.fill.max(fill * of_all), count: found.count.max(count * of_all) };
        }
        // Packets at equal distances repeat themselves when each flow has had its turn.
        let period = if self.arrivals == Arrivals::Constant { f64::from(self.flows) } else { 0.0 };
        Relaxation { fill: found.fill.max(period), count: found.count.max(period).max(self.for_pauses(pps)) }
    }

    /// Packets of the router in whose time a few hundred pauses begin on cores that have packets; 0 if those hardly add
    /// to the mean.
    fn for_pauses(&self, pps: f64) -> f64 {
        let Some(Pauses { per_second, lengths_ns }) = &self.router.pauses else { return 0.0 };
        let squares = lengths_ns.iter().map(|length| length * length).sum::<f64>() / lengths_ns.len() as f64;
        // Those that come in a pause wait for half of it, on the mean.
        let added_ns = per_second / 1e9 * 0.5 * squares;
        let cores = self.shares.iter().filter(|shares| shares.iter().any(|share| *share > 0.0)).count();
        if added_ns > 0.01 * self.packet_ns() {
            self.carried(pps) * MIN_PAUSES / (per_second * cores as f64)
        } else {
            0.0
        }
    }

    /// Packets of a core, with `rate` of them per second, of which a few hundred wake it up; 0 if that hardly adds to
    /// the mean.
    ///
    /// The core is idle for `1 / rate` at a time, in the time that work and waking up leave.
    fn for_wake_ups(&self, rate: f64, load: f64) -> f64 {
        let (Some(after_us), true) = (self.router.sleep_after_us, load < 1.0) else { return 0.0 };
        let wake_s = self.router.wake_up_us / 1e6;
        let asleep = (-rate * after_us / 1e6).exp();
        let per_packet = (1.0 - load) * asleep / (1.0 + rate * asleep * wake_s);
        // Those that come while the core wakes up wait for half of that, on the mean.
        let added_ns = per_packet * (1.0 + rate * wake_s) * wake_s * 0.5e9;
        if added_ns > 0.01 * self.packet_ns() { MIN_WAKE_UPS / per_packet } else { 0.0 }
    }

    /// Is there a slow path that packets go to?
    fn has_slow_path(&self) -> bool {
        self.router.punt_share * self.router.slow_path_ns > 0.0
    }

    /// Packets per second that each core gets from each port, when `pps` are offered and links carry what they can.
    fn rates(&self, pps: f64) -> Vec<Vec<f64>> {
        let carried = |port: usize| pps * (self.link_pps / (pps * self.of_ports[port])).min(1.0);
        let of_core = |shares: &Vec<f64>| {
            let ports = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
            ports.map(|(port, share)| share * carried(port)).collect()
        };
        self.shares.iter().map(of_core).collect()
    }

    /// A mean packet's time on a core in full bursts, in nanoseconds.
    pub fn packet_ns(&self) -> f64 {
        1.0 / self.server.capacity()
    }

    /// Packets per second up to which no ring fills for ever, what limits them, and how that is known.
    ///
    /// A core is at its limit when its fullest ring always has a burst; its other rings have as many packets then as
    /// came in the time of all bursts.
    pub fn no_loss(&self) -> (f64, Limit, Method) {
        let cores = self.shares.iter().map(|shares| self.core_pps(shares)).fold(f64::INFINITY, f64::min);
        let links = self.link_pps();
        let (pps, limit) = if cores < links { (cores, Limit::Core) } else { (links, Limit::Link) };
        if !self.has_slow_path() {
            return (pps, limit, Method::Closed(RATES));
        }
        match self.slow_pps(pps) {
            Ok(slow) if slow < pps => (slow, Limit::Slow, Method::Closed(SLOW)),
            Ok(_) => (pps, limit, Method::Closed(SLOW)),
            Err(_) => (pps, limit, Method::Approximate("rates of cores and links, without the slow path")),
        }
    }

    /// Packets per second of all cores at which this one, with its shares of its rings, is at its limit. Of rates,
    /// their multiple there.
    fn core_pps(&self, shares: &[f64]) -> f64 {
        let most = shares.iter().copied().fold(0.0, f64::max);
        if most == 0.0 {
            return f64::INFINITY;
        }
        let burst = self.server.burst as f64;
        let round: f64 = shares.iter().map(|share| self.burst_time(burst * share / most)).sum();
        burst / round / most * 1e9
    }

    /// Mean time of bursts of n on the mean; fewer than one: as many bursts as packets.
    fn burst_time(&self, n: f64) -> f64 {
        self.server.burst_ns * n.min(1.0) + n * self.server.packet_time()
    }

    /// Packets per second, up to `most`, that the slow path can keep up with. It works on one packet at a time, on
    /// whichever core is free, and stops when the fast path wants it: in the share of time in which not all cores
    /// are busy.
    fn slow_pps(&self, most: f64) -> Result<f64, TooLarge> {
        let slow_ns = self.router.punt_share * self.router.slow_path_ns;
        let keeps_up = |pps: f64| {
            let busy = self
                .queues(pps)?
                .iter()
                .map(|queue| queue.steady.utilisation.powi(queue.cores as i32))
                .product::<f64>();
            let idle = self.shares.iter().any(|shares| shares.iter().all(|share| *share == 0.0));
            let free = if idle { 1.0 } else { 1.0 - busy };
            Ok(pps * slow_ns / 1e9 < free)
        };
        let (mut low, mut high) = (0.0, most);
        if keeps_up(0.999_999 * most)? {
            return Ok(most);
        }
        while high - low > 1e-5 * high {
            let middle = 0.5 * (low + high);
            if keeps_up(middle)? { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// The figures when `pps` packets per second are offered.
    pub fn figures(&self, pps: f64) -> Figures {
        if self.is_for_events() {
            return self.by_events(pps);
        }
        let figures = match self.arrivals {
            Arrivals::Constant => self.constant(pps),
            Arrivals::Poisson => self.poisson(pps),
        };
        self.without_the_unknown(figures)
    }

    /// Removes the figures that other parts of the router change.
    fn without_the_unknown(&self, mut figures: Figures) -> Figures {
        let known = |method: &Method| !matches!(method, Method::Missing(_));
        let mut times = |why: &str| {
            (figures.mean_ns, figures.sojourn_ns) = (None, None);
            for method in [&mut figures.methods.mean, &mut figures.methods.percentiles].into_iter().filter(|m| known(m))
            {
                *method = Method::Missing(why.to_owned());
            }
        };
        // All cores may hand over a burst at once, and again before a busy link has taken the first.
        let at_once = self.server.burst as u64 * self.shares.len() as u64;
        let busy = self.links_busy(figures.offered_pps) > 0.5;
        if at_once * if busy { 2 } else { 1 } > u64::from(self.router.transmit_ring) && known(&figures.methods.loss) {
            figures.methods.loss = Method::Approximate(SMALL_RING);
        }
        if self.router.transmit_buffer > 1 {
            times("how long packets wait in transmit buffers");
        }
        if self.has_slow_path() {
            let why = "what happens to packets on the slow path";
            times(why);
            (figures.accepted_pps, figures.loss, figures.loss_at_least) = (None, None, None);
            (figures.utilisation, figures.batch) = (None, None);
            for method in [&mut figures.methods.loss, &mut figures.methods.utilisation].into_iter().filter(|m| known(m))
            {
                *method = Method::Missing(why.to_owned());
            }
        }
        figures
    }

    /// Packets at equal distances: what each ring and link has no time for is lost.
    fn constant(&self, pps: f64) -> Figures {
        let asleep = self.router.sleep_after_us.map_or(0.0, |_| self.router.wake_up_us / 1e6);
        let ring = f64::from(self.router.receive_ring);
        // RSS gives a core its flows' packets now closer together, now further apart; a burst's come while it works on
        // another.
        let close =
            2.0 * f64::from(self.router.burst) + (6.0 * f64::from(self.flows).sqrt()).min(f64::from(self.flows));
        let rates = self.rates(pps);
        let arriving: f64 = rates.iter().flatten().sum();
        let lost = (pps - arriving).max(0.0) + rates.iter().map(|rates| self.lost(rates)).sum::<f64>();
        let simple = self.server.burst_ns == 0.0 && asleep == 0.0;
        let busy = |rates: &Vec<f64>| (rates.iter().sum::<f64>() * self.server.packet_time() / 1e9).min(1.0);
        let utilisation = || rates.iter().map(busy).collect();
        let why = |what: &str| Method::Missing(format!("{what} of packets at equal distances"));
        Figures {
            offered_pps: pps,
            accepted_pps: Some(pps - lost),
            loss: Some(lost / pps),
            loss_at_least: None,
            mean_ns: None,
            sojourn_ns: None,
            utilisation: simple.then(utilisation),
            batch: None,
            methods: Methods {
                loss: if rates.iter().flatten().any(|rate| rate * asleep > ring) {
                    Method::Approximate(WAKING)
                } else if self.mixed || close > ring {
                    Method::Approximate(UNEVEN)
                } else {
                    Method::Closed(RATES)
                },
                utilisation: if simple { Method::Closed(RATES) } else { why("batches") },
                mean: why("times"),
                percentiles: why("times"),
            },
        }
    }

    /// Packets per second that a core's rings cannot take when it is above its limit. A round of bursts takes as long
    /// as it takes for the next round's packets to come, or those of full bursts.
    fn lost(&self, rates: &[f64]) -> f64 {
        let burst = self.server.burst as f64;
        let rates: Vec<_> = rates.iter().map(|pps| pps / 1e9).collect();
        let mut round = rates.len() as f64 * self.burst_time(burst);
        for _ in 0..10_000 {
            let next: f64 = rates.iter().map(|rate| self.burst_time((rate * round).min(burst))).sum();
            if (round - next).abs() <= 1e-12 * round {
                break;
            }
            round = next;
        }
        rates.iter().map(|rate| (rate - burst / round).max(0.0) * 1e9).sum()
    }

    /// Poisson packets: each core's queue, mixed.
    fn poisson(&self, pps: f64) -> Figures {
        let queues = match self.queues(pps) {
            Ok(queues) => queues,
            Err(too_large) => return Figures::unknown(pps, Method::Missing(too_large.to_string())),
        };
        let served = |queue: &Queue| queue.pps() * (1.0 - queue.loss);
        let arriving: f64 = queues.iter().map(Queue::pps).sum();
        let in_rings: f64 = queues.iter().map(|queue| queue.pps() * queue.loss).sum();
        // Packets that links space come more evenly than those of the queues here.
        let even = || self.rates(pps).iter().map(|rates| self.lost(rates)).sum();
        let random = || queues.iter().map(|queue| queue.pps() * queue.loss_at_least).sum();
        let at_least: f64 = if self.is_spaced(pps) { even() } else { random() };
        // Rounding is no loss.
        let on_links = if arriving < pps * (1.0 - 1e-12) { pps - arriving } else { 0.0 };
        let all: f64 = queues.iter().map(served).sum();
        let mean = queues.iter().map(|queue| served(queue) * queue.steady.mean_sojourn_ns).sum::<f64>() / all;
        let bursts: f64 = queues.iter().map(|queue| served(queue) / queue.steady.mean_batch).sum();
        let times = queues.par_iter().map(|queue| Times::of(queue, &self.server)).collect::<Result<Vec<_>, _>>();
        let percentiles = times.as_ref().ok().map(|times| {
            let longest = times.iter().map(Times::longest).fold(0.0, f64::max);
            let weighted = || queues.iter().zip(times);
            let at_most =
                |time| weighted().map(|(queue, times)| served(queue) * times.at_most(time)).sum::<f64>() / all;
            let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| quantile(share, longest, at_most));
            Percentiles { p50, p90, p99, p999 }
        });
        let rates = self.rates(pps);
        let utilisation = rates.iter().map(|rates| {
            let queue = queues.iter().find(|queue| queue.rates == *rates);
            queue.map_or(0.0, |queue| queue.steady.utilisation)
        });
        Figures {
            offered_pps: pps,
            accepted_pps: Some(all),
            loss: Some((in_rings + on_links) / pps),
            loss_at_least: (at_least < 0.99 * in_rings).then_some((at_least + on_links) / pps),
            mean_ns: Some(mean),
            sojourn_ns: percentiles,
            utilisation: Some(utilisation.collect()),
            batch: Some(all / bursts),
            methods: self.methods(&queues, &times, pps),
        }
    }

    /// Share of time in which the busiest port's link is busy.
    fn links_busy(&self, pps: f64) -> f64 {
        (self.of_ports.iter().copied().fold(0.0, f64::max) * pps / self.link_pps).min(1.0)
    }

    /// Whether links change how packets arrive. On the wire they are a queue of their own, which spaces them for as
    /// long as it is busy.
    fn is_spaced(&self, pps: f64) -> bool {
        1e9 / self.link_pps > SPACED_FROM * self.packet_ns() * (1.0 - self.links_busy(pps))
    }

    /// How the figures of Poisson packets are known.
    fn methods(&self, queues: &[Queue], times: &Result<Vec<Times>, TooLarge>, pps: f64) -> Methods {
        let by_franx = times.as_ref().is_ok_and(|times| times.iter().all(|times| matches!(times, Times::Md1(_))));
        let methods = self.methods_of_queues(queues, by_franx, pps);
        match times {
            Ok(_) => methods,
            Err(too_large) => Methods { percentiles: Method::Missing(too_large.to_string()), ..methods },
        }
    }

    fn methods_of_queues(&self, queues: &[Queue], by_franx: bool, pps: f64) -> Methods {
        if self.is_spaced(pps) {
            return Methods::all(Method::Approximate(SPACED));
        }
        let endless = queues.iter().all(|queue| queue.loss < NEGLIGIBLE_LOSS);
        let exact = Method::Closed(match self.server.burst {
            1 if by_franx => MD1,
            1 => MG1,
            _ => BATCH,
        });
        if !queues.iter().any(|queue| queue.rates.len() > 1) {
            return Methods::all(exact);
        }
        let merged = Methods::all(Method::Approximate(MERGED));
        // Whose turn it is does not change how much there is to do, and packet by packet, not how many wait.
        if self.server.burst == 1 && endless {
            return Methods { loss: exact.clone(), utilisation: exact.clone(), mean: exact, ..merged };
        }
        merged
    }
}

#[cfg(test)]
mod tests;
