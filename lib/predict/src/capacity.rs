// SPDX-License-Identifier: MIT
//! A router's cores and links by closed forms: throughput without loss, and figures at an offered rate.
//!
//! Flows are spread over the cores by RSS ([`rss`]); each port has a receive ring per core, and a core takes its bursts from its
//! rings in turn. So a core whose packets all come from one port is one of the queues of [`queueing`](crate::queueing), and a
//! router's figures are those of its cores, mixed by their packets.
//!
//! | question | closed form |
//! | --- | --- |
//! | throughput without loss | the core whose fullest ring fills first, or a link, or the slow path |
//! | accepted rate, loss | Poisson: what finds a ring full, by the Markov chain; constant: what is above the core's rate |
//! | utilisation, batches | Poisson: the chain; constant: where bursts cost nothing besides their packets |
//! | mean, percentiles | Poisson: M/D/1, or the chain and the distribution on a grid |
//! | packets from two ports | approximately: as if both rings were one (single packets: mean and utilisation exactly) |
//! | with a transmit buffer | all but times: those depend on when its timer runs |
//! | with a slow path | throughput: the slow path has what the fast path leaves of any core, one packet at a time |

use crate::figures::{Figures, Method, Methods, Percentiles};
use crate::parallel;
use crate::profile::Router;
use crate::queueing::sojourn::quantile;
use crate::queueing::{BatchServer, Distribution, Md1, Sleep, Steady, TooLarge};
use crate::rss;
use crate::service::Service;
use crate::traffic::{Arrivals, Sizes};
use serde::Serialize;

const RATES: &str = "rates of cores (RSS shares) and links";
const SLOW: &str = "what the fast path (Markov chain per core) leaves to the slow path";
const MD1: &str = "M/D/1 per core (Pollaczek and Khinchine; Franx 2001)";
const MG1: &str = "Markov chain of M/G/1/K per core";
const BATCH: &str = "Markov chain of the batch server per core";
const MERGED: &str = "Markov chain per core, the rings of its two ports as one";
/// Loss below which a queue counts as endless.
const NO_LOSS: f64 = 1e-12;

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

/// A router with a number of cores, and its traffic but for the rate.
#[derive(Clone, Debug)]
pub struct Capacity {
    router: Router,
    arrivals: Arrivals,
    server: BatchServer,
    /// Of each core, by direction, which is by receiving port.
    shares: Vec<[f64; 2]>,
    /// Packets per second that all links together carry.
    link_pps: f64,
}

/// What comes: all but the rate.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Frame sizes.
    pub sizes: Sizes,
    /// Number of flows.
    pub flows: u32,
    /// 1: port 0 to 1; 2: flows in turn both ways.
    pub directions: u32,
    /// How packets come.
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
        Self {
            router: router.clone(),
            arrivals: traffic.arrivals,
            server,
            shares: rss::shares(traffic.flows, traffic.directions, cores),
            link_pps: f64::from(traffic.ways()) * router.link_gbps * 1e9 / traffic.sizes.mean_wire_bits(),
        }
    }

    /// Each core's share of the packets.
    pub fn shares(&self) -> Vec<f64> {
        self.shares.iter().map(|[one, other]| one + other).collect()
    }

    /// Packets per second that the links carry, all directions together.
    pub fn link_pps(&self) -> f64 {
        self.link_pps
    }

    /// A mean packet's time on a core in full bursts, in nanoseconds.
    pub fn packet_ns(&self) -> f64 {
        1.0 / self.server.capacity()
    }

    /// Packets per second up to which no ring fills for ever, what limits them, and how that is known.
    ///
    /// A core is at its limit when its fullest ring always has a burst; its other ring has as many packets then as came in the
    /// time of both bursts.
    pub fn no_loss(&self) -> (f64, Limit, Method) {
        let cores = self.shares.iter().map(|shares| self.core_pps(shares)).fold(f64::INFINITY, f64::min);
        let (pps, limit) = if cores < self.link_pps { (cores, Limit::Core) } else { (self.link_pps, Limit::Link) };
        if self.router.punt_share * self.router.slow_path_ns == 0.0 {
            return (pps, limit, Method::Closed(RATES));
        }
        match self.slow_pps(pps) {
            Ok(slow) if slow < pps => (slow, Limit::Slow, Method::Closed(SLOW)),
            Ok(_) => (pps, limit, Method::Closed(SLOW)),
            Err(_) => (pps, limit, Method::Approximate("rates of cores and links, without the slow path")),
        }
    }

    /// Packets per second of all cores at which this one, with its shares of two rings, is at its limit.
    fn core_pps(&self, shares: &[f64; 2]) -> f64 {
        let most = shares[0].max(shares[1]);
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

    /// Packets per second, `most` at most, up to which the slow path keeps up. It works on one packet at a time, on whichever core
    /// is free, and stops when the fast path wants it: in the share of time in which not all cores are busy.
    fn slow_pps(&self, most: f64) -> Result<f64, TooLarge> {
        let slow_ns = self.router.punt_share * self.router.slow_path_ns;
        let keeps_up = |pps: f64| {
            let busy = self
                .queues(pps)?
                .iter()
                .map(|queue| queue.steady.utilisation.powi(queue.cores as i32))
                .product::<f64>();
            let free = if self.shares.contains(&[0.0; 2]) { 1.0 } else { 1.0 - busy };
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
        let arriving = pps.min(self.link_pps);
        let mut figures = match self.arrivals {
            Arrivals::Constant => self.constant(arriving),
            Arrivals::Poisson => self.poisson(arriving),
        };
        figures.offered_pps = pps;
        if arriving < pps {
            figures.loss = figures.accepted_pps.map(|accepted| 1.0 - accepted / pps);
        }
        self.without_the_unknown(figures)
    }

    /// Takes out what the router's other parts change.
    fn without_the_unknown(&self, mut figures: Figures) -> Figures {
        let known = |method: &Method| !matches!(method, Method::Missing(_));
        let mut times = |why: &str| {
            (figures.mean_ns, figures.sojourn_ns) = (None, None);
            for method in [&mut figures.methods.mean, &mut figures.methods.percentiles].into_iter().filter(|m| known(m))
            {
                *method = Method::Missing(why.to_owned());
            }
        };
        if self.router.transmit_buffer > 1 {
            times("how long packets wait in transmit buffers");
        }
        if self.router.punt_share > 0.0 {
            let why = "what happens to packets on the slow path";
            times(why);
            (figures.accepted_pps, figures.loss) = (None, None);
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
        let lost: f64 = self.shares.iter().map(|shares| self.lost(shares, pps)).sum();
        let simple = self.server.burst_ns == 0.0;
        let packet_ns = self.server.packet_time();
        let utilisation = || self.shares().iter().map(|share| (share * pps * packet_ns / 1e9).min(1.0)).collect();
        let why = |what: &str| Method::Missing(format!("{what} of packets at equal distances"));
        Figures {
            offered_pps: pps,
            accepted_pps: Some(pps - lost),
            loss: Some(lost / pps),
            mean_ns: None,
            sojourn_ns: None,
            utilisation: simple.then(utilisation),
            batch: None,
            methods: Methods {
                loss: Method::Closed(RATES),
                utilisation: if simple { Method::Closed(RATES) } else { why("batches") },
                mean: why("times"),
                percentiles: why("times"),
            },
        }
    }

    /// Packets per second that a core's rings cannot take when it is above its limit. A round of two bursts takes as long as it
    /// takes for the next round's packets to come, or those of full bursts.
    fn lost(&self, shares: &[f64; 2], pps: f64) -> f64 {
        let burst = self.server.burst as f64;
        let rates = shares.map(|share| share * pps / 1e9);
        let mut round = rates.iter().filter(|rate| **rate > 0.0).count() as f64 * self.burst_time(burst);
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
            Err(too_large) => return nothing(pps, &too_large.to_string()),
        };
        let served = |queue: &Queue| queue.share * (1.0 - queue.loss);
        let lost: f64 = queues.iter().map(|queue| queue.share * queue.loss).sum();
        let all: f64 = queues.iter().map(served).sum();
        let mean = queues.iter().map(|queue| served(queue) * queue.steady.mean_sojourn_ns).sum::<f64>() / all;
        let bursts: f64 = queues.iter().map(|queue| served(queue) / queue.steady.mean_batch).sum();
        let times: Vec<_> = parallel::map(&queues, |queue| Times::of(queue, &self.server));
        let longest = times.iter().map(Times::longest).fold(0.0, f64::max);
        let weighted = || queues.iter().zip(&times);
        let at_most = |time| weighted().map(|(queue, times)| served(queue) * times.at_most(time)).sum::<f64>() / all;
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| quantile(share, longest, at_most));
        let utilisation = self.shares.iter().map(|shares| {
            let queue = queues.iter().find(|queue| queue.shares == *shares);
            queue.map_or(0.0, |queue| queue.steady.utilisation)
        });
        Figures {
            offered_pps: pps,
            accepted_pps: Some(pps * all),
            loss: Some(lost),
            mean_ns: Some(mean),
            sojourn_ns: Some(Percentiles { p50, p90, p99, p999 }),
            utilisation: Some(utilisation.collect()),
            batch: Some(all / bursts),
            methods: self.methods(&queues, &times),
        }
    }

    /// How the figures of Poisson packets are known.
    fn methods(&self, queues: &[Queue], times: &[Times]) -> Methods {
        let endless = queues.iter().all(|queue| queue.loss < NO_LOSS);
        let exact = Method::Closed(match self.server.burst {
            1 if times.iter().all(|times| matches!(times, Times::Md1(_))) => MD1,
            1 => MG1,
            _ => BATCH,
        });
        if !queues.iter().any(Queue::has_two_rings) {
            return Methods::all(exact);
        }
        let merged = Methods::all(Method::Approximate(MERGED));
        // Whose turn it is does not change how much there is to do, and packet by packet, not how many wait.
        if self.server.burst == 1 && endless {
            return Methods { loss: exact.clone(), utilisation: exact.clone(), mean: exact, ..merged };
        }
        merged
    }

    /// The queues of the cores that have packets; cores with the same shares are solved once.
    fn queues(&self, pps: f64) -> Result<Vec<Queue>, TooLarge> {
        let mut different: Vec<([f64; 2], usize)> = Vec::new();
        for shares in self.shares.iter().filter(|shares| **shares != [0.0; 2]) {
            match different.iter_mut().find(|(known, _)| known == shares) {
                Some((_, cores)) => *cores += 1,
                None => different.push((*shares, 1)),
            }
        }
        let solved = parallel::map(&different, |&(shares, cores)| {
            let share = shares[0] + shares[1];
            let rings = shares.iter().filter(|share| **share > 0.0).count();
            let server = BatchServer { ring: rings * self.server.ring, ..self.server.clone() };
            let steady = server.solve(share * pps / 1e9)?;
            // A ring with more than its half may be full while the other is not.
            let loss = if rings == 2 { steady.loss.max(self.lost(&shares, pps) / (share * pps)) } else { steady.loss };
            Ok(Queue { shares, cores, share: share * cores as f64, loss, steady })
        });
        solved.into_iter().collect()
    }
}

/// Service times with their probabilities; sizes that take the same time are one.
fn packet_times(sizes: &Sizes, service: Service) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = Vec::new();
    for &(size, share) in sizes.entries() {
        let time = service.packet_ns(size);
        match times.iter_mut().find(|(_, known)| *known == time) {
            Some((sum, _)) => *sum += share,
            None => times.push((share, time)),
        }
    }
    times
}

/// Figures that are not known.
fn nothing(pps: f64, why: &str) -> Figures {
    Figures {
        offered_pps: pps,
        accepted_pps: None,
        loss: None,
        mean_ns: None,
        sojourn_ns: None,
        utilisation: None,
        batch: None,
        methods: Methods::all(Method::Missing(why.to_owned())),
    }
}

/// Cores with the same shares of the packets.
struct Queue {
    /// Of one of them, by ring.
    shares: [f64; 2],
    cores: usize,
    /// Of all of them together.
    share: f64,
    loss: f64,
    steady: Steady,
}

impl Queue {
    fn has_two_rings(&self) -> bool {
        self.shares.iter().all(|share| *share > 0.0)
    }
}

/// The distribution of a sojourn time.
enum Times {
    Md1(Md1),
    Grid(Distribution),
}

impl Times {
    fn of(queue: &Queue, server: &BatchServer) -> Self {
        let single = server.burst == 1 && server.packets.len() == 1 && server.sleep.is_none();
        let endless = single && queue.loss < NO_LOSS;
        let md1 = if endless { Md1::new(queue.steady.rate, server.burst_time(1)) } else { None };
        md1.map_or_else(|| Self::Grid(queue.steady.sojourn()), Self::Md1)
    }

    fn at_most(&self, time: f64) -> f64 {
        match self {
            Self::Md1(queue) => queue.sojourn_at_most(time),
            Self::Grid(times) => times.at_most(time),
        }
    }

    fn longest(&self) -> f64 {
        match self {
            Self::Md1(queue) => queue.longest(),
            Self::Grid(times) => times.longest(),
        }
    }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
