// SPDX-License-Identifier: MIT
//! A router's cores and links by closed forms: throughput without loss, and figures at an offered rate.
//!
//! Flows are spread over the cores by RSS ([`rss`](crate::rss)); each core is a queue of its own ([`queueing`](crate::queueing))
//! with its share of the packets; links let through what they carry. Times of all cores together are mixed by the packets that
//! each serves.
//!
//! | question | closed form |
//! | --- | --- |
//! | throughput without loss | the core with the largest share is saturated, or a link full, whichever is first |
//! | accepted rate, loss | Poisson: what finds the ring full, by the Markov chain of each core; constant: what is above the core's rate |
//! | utilisation, batches | Poisson: the chain; constant: where bursts cost nothing besides their packets |
//! | mean, percentiles | Poisson: M/D/1, or the chain and the distribution on a grid |
//! | with a transmit buffer | all but times: those depend on when its timer runs |
//! | with a slow path | throughput and utilisation: what is punted is served in time that is left |

use crate::figures::{Figures, Method, Methods, Percentiles};
use crate::parallel;
use crate::profile::Router;
use crate::queueing::sojourn::quantile;
use crate::queueing::{BatchServer, Distribution, Md1, Sleep, Steady};
use crate::rss;
use crate::service::Service;
use crate::traffic::{Arrivals, Sizes};
use serde::Serialize;

const MD1: &str = "M/D/1 per core (Pollaczek and Khinchine; Franx 2001)";
const MG1: &str = "Markov chain of M/G/1/K per core";
const BATCH: &str = "Markov chain of the batch server per core";
const FLUID: &str = "rates of cores and links";
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
}

/// A router with a number of cores, and its traffic but for the rate.
#[derive(Clone, Debug)]
pub struct Capacity {
    router: Router,
    arrivals: Arrivals,
    server: BatchServer,
    shares: Vec<f64>,
    /// Packets per second that a core serves in full bursts, the slow path's time included.
    core_pps: f64,
    /// The same for all links together.
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
        self.directions.clamp(1, self.flows.max(1))
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
        let packet_ns = 1.0 / server.capacity() + router.punt_share * router.slow_path_ns;
        let link_pps = f64::from(traffic.ways()) * router.link_gbps * 1e9 / traffic.sizes.mean_wire_bits();
        Self {
            router: router.clone(),
            arrivals: traffic.arrivals,
            server,
            shares: rss::shares(traffic.flows, traffic.directions, cores),
            core_pps: 1e9 / packet_ns,
            link_pps,
        }
    }

    /// Each core's share of the packets.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// Packets per second that the links carry, all directions together.
    pub fn link_pps(&self) -> f64 {
        self.link_pps
    }

    /// Packets per second at which the first core is saturated or the links are full, and which it is.
    pub fn no_loss(&self) -> (f64, Limit) {
        let cores = self.core_pps / self.shares.iter().copied().fold(0.0, f64::max);
        if cores < self.link_pps { (cores, Limit::Core) } else { (self.link_pps, Limit::Link) }
    }

    /// The figures when `pps` packets per second are offered.
    pub fn figures(&self, pps: f64) -> Figures {
        let arriving = pps.min(self.link_pps);
        let mut figures = match self.arrivals {
            Arrivals::Constant => self.constant(arriving),
            Arrivals::Poisson => self.poisson(arriving),
        };
        figures.offered_pps = pps;
        figures.loss = figures.accepted_pps.map(|accepted| {
            // 1 - accepted / offered would lose the digits of a small loss.
            let of_links = (pps - arriving) / pps;
            if of_links > 0.0 { 1.0 - accepted / pps } else { figures.loss.unwrap_or(0.0) }
        });
        self.without_the_unknown(figures)
    }

    /// Takes out what the router's other parts change.
    fn without_the_unknown(&self, mut figures: Figures) -> Figures {
        if self.router.transmit_buffer > 1 {
            let why = || Method::Missing("how long packets wait in transmit buffers".to_owned());
            (figures.mean_ns, figures.sojourn_ns) = (None, None);
            (figures.methods.mean, figures.methods.percentiles) = (why(), why());
        }
        if self.router.punt_share > 0.0 {
            let why = || Method::Missing("what happens to packets on the slow path".to_owned());
            (figures.mean_ns, figures.sojourn_ns, figures.accepted_pps, figures.loss) = (None, None, None, None);
            (figures.methods.mean, figures.methods.percentiles, figures.methods.loss) = (why(), why(), why());
        }
        figures
    }

    /// Packets at equal distances: what each core and link has no time for is lost.
    fn constant(&self, pps: f64) -> Figures {
        let of_core = self.server.capacity() * 1e9;
        let accepted: f64 = self.shares.iter().map(|share| (share * pps).min(of_core)).sum();
        let simple = self.server.burst_ns == 0.0;
        let packet_ns = self.server.packet_time() + self.router.punt_share * self.router.slow_path_ns;
        let utilisation = || self.shares.iter().map(|share| (share * pps * packet_ns / 1e9).min(1.0)).collect();
        let why = |what: &str| Method::Missing(format!("{what} of packets at equal distances"));
        Figures {
            offered_pps: pps,
            accepted_pps: Some(accepted),
            loss: Some(1.0 - accepted / pps),
            mean_ns: None,
            sojourn_ns: None,
            utilisation: simple.then(utilisation),
            batch: None,
            methods: Methods {
                loss: Method::Closed(FLUID),
                utilisation: if simple { Method::Closed(FLUID) } else { why("batches") },
                mean: why("times"),
                percentiles: why("times"),
            },
        }
    }

    /// Poisson packets: each core's queue, mixed.
    fn poisson(&self, pps: f64) -> Figures {
        let queues = match self.queues(pps) {
            Ok(queues) => queues,
            Err(too_large) => return nothing(pps, &too_large.to_string()),
        };
        let lost: f64 = queues.iter().map(|queue| queue.share * queue.steady.loss).sum();
        let served = |queue: &Queue| queue.share * (1.0 - queue.steady.loss);
        let all: f64 = queues.iter().map(served).sum();
        let mean = queues.iter().map(|queue| served(queue) * queue.steady.mean_sojourn_ns).sum::<f64>() / all;
        let bursts: f64 = queues.iter().map(|queue| served(queue) / queue.steady.mean_batch).sum();
        let longest = queues.iter().map(|queue| queue.times.longest()).fold(0.0, f64::max);
        let at_most = |time| queues.iter().map(|queue| served(queue) * queue.times.at_most(time)).sum::<f64>() / all;
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| quantile(share, longest, at_most));
        let slow = self.router.punt_share * self.router.slow_path_ns;
        let mut utilisation = vec![0.0; self.shares.len()];
        for queue in &queues {
            for (core, _) in self.shares.iter().enumerate().filter(|(_, share)| **share == queue.of_core) {
                let punted = queue.steady.rate * (1.0 - queue.steady.loss) * slow;
                utilisation[core] = (queue.steady.utilisation + punted).min(1.0);
            }
        }
        let method = Method::Closed(match self.server.burst {
            1 if queues.iter().all(|queue| matches!(queue.times, Times::Md1(_))) => MD1,
            1 => MG1,
            _ => BATCH,
        });
        Figures {
            offered_pps: pps,
            accepted_pps: Some(pps * all),
            loss: Some(lost),
            mean_ns: Some(mean),
            sojourn_ns: Some(Percentiles { p50, p90, p99, p999 }),
            utilisation: Some(utilisation),
            batch: Some(all / bursts),
            methods: Methods::all(method),
        }
    }

    /// The queues of the cores that have packets; those with the same share are solved once.
    fn queues(&self, pps: f64) -> Result<Vec<Queue>, crate::queueing::TooLarge> {
        let mut shares: Vec<f64> = self.shares.iter().copied().filter(|share| *share > 0.0).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let all = shares.clone();
        shares.dedup();
        let solved = parallel::map(&shares, |share| {
            let steady = self.server.solve(share * pps / 1e9)?;
            let cores = all.iter().filter(|other| *other == share).count();
            let times = Times::of(&steady, &self.server);
            Ok(Queue { share: share * cores as f64, of_core: *share, steady, times })
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

/// Cores with the same share of the packets.
struct Queue {
    /// Of all of them together.
    share: f64,
    of_core: f64,
    steady: Steady,
    times: Times,
}

/// The distribution of a sojourn time.
enum Times {
    Md1(Md1),
    Grid(Distribution),
}

impl Times {
    fn of(steady: &Steady, server: &BatchServer) -> Self {
        let single = server.burst == 1 && server.packets.len() == 1 && server.sleep.is_none();
        let md1 = if single && steady.loss < NO_LOSS { Md1::new(steady.rate, server.burst_time(1)) } else { None };
        md1.map_or_else(|| Self::Grid(steady.sojourn()), Self::Md1)
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
