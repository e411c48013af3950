// SPDX-License-Identifier: MIT
//! What a rig is asked for, and what it answers.

use crate::arrivals::Load;
use crate::tables::{MOST_NETWORKS, MOST_PORTS};
use crate::vantage::Vantage;
use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Packets that may wait in transmit buffers: most of a rig's buffers.
const MOST_WAITING: usize = 12_000;

/// The loop that a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// `lua/fastpath.lua`.
    Lua,
    /// The same in Rust.
    Native,
    /// The same up to a point, in Rust.
    Until(Vantage),
}

/// What a worker does when nothing comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// It polls on.
    Poll,
    /// It waits a few microseconds, then sleeps until packets wake it.
    Adaptive,
}

/// The routes that packets are forwarded by, and where packets are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routes {
    /// A /24 network each; packets are for all of them.
    #[default]
    Networks,
    /// A synthetic table of the Internet's size and shape; packets are for so many of its prefixes.
    Internet,
    /// The prefixes that the rig was given ([`crate::Rig::give`]); packets are for so many of them.
    Given,
}

/// How a burst's destinations are looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lookups {
    /// Together, so that their cache misses overlap.
    #[default]
    Burst,
    /// One after the other.
    Single,
}

/// Where packets come from and go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Sources and sinks in memory.
    #[default]
    Memory,
    /// The rig's devices ([`crate::Rig::open`]).
    Devices,
}

fn two_ports() -> u16 {
    2
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The loop.
    pub path: Loop,
    /// A worker on each of these cores.
    pub cores: Vec<usize>,
    /// Flows: flow i is on worker i mod workers.
    pub flows: u32,
    /// Do flows go both ways, by turns? Else all come in by the first port.
    pub two_way: bool,
    /// Ports, 2 to 64. Packets come in by the first one (two ways: by the first two) and leave by the others at
    /// random.
    #[serde(default = "two_ports")]
    pub ports: u16,
    /// Bytes of a frame, check sequence included.
    pub frame_size: u16,
    /// Networks, or prefixes, that packets are for.
    pub networks: u32,
    #[serde(default)]
    pub routes: Routes,
    /// The lookup structure.
    pub structure: String,
    #[serde(default)]
    pub lookups: Lookups,
    #[serde(default)]
    pub io: Io,
    /// Share of the packets that go to the slow path.
    pub punted: f64,
    /// Packets that a worker takes at once, at most.
    pub burst: usize,
    /// Packets that a transmit buffer sends at once, and how long they wait for others at most.
    pub transmit_burst: usize,
    pub transmit_timeout: Duration,
    /// Places in a receive ring.
    pub receive_ring: usize,
    pub idle: Idle,
    /// What is offered, by all flows together.
    pub load: Load,
    /// Before it is measured, for caches and the JIT compiler; and how long it is measured.
    pub warm: Duration,
    pub time: Duration,
    /// So many windows that time is divided into.
    pub windows: usize,
    /// Of networks, destinations and arrivals.
    pub seed: u64,
}

impl Request {
    /// As `perigee run` is by default, saturated, on these cores.
    pub fn new(cores: Vec<usize>) -> Request {
        Request {
            path: Loop::Lua,
            flows: cores.len() as u32,
            cores,
            two_way: false,
            ports: 2,
            frame_size: 64,
            networks: 256,
            routes: Routes::Networks,
            structure: "auto".to_owned(),
            lookups: Lookups::Burst,
            io: Io::Memory,
            punted: 0.0,
            burst: 32,
            transmit_burst: 32,
            transmit_timeout: Duration::from_micros(100),
            receive_ring: 512,
            idle: Idle::Poll,
            load: Load::Saturated,
            warm: Duration::from_millis(300),
            time: Duration::from_millis(500),
            windows: 25,
            seed: 1,
        }
    }

    /// Whether it can be measured at all.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn check(&self) -> Result<()> {
        let mut cores = self.cores.clone();
        cores.sort_unstable();
        cores.dedup();
        ensure!(
            !cores.is_empty() && cores.len() == self.cores.len(),
            "each worker needs a core of its own; found {:?}",
            self.cores
        );
        let workers = self.cores.len() as u32;
        ensure!(
            (workers..=1_000_000).contains(&self.flows),
            "flows: found {}, expected {workers} to 1000000: one for each worker at least",
            self.flows
        );
        let least = if self.two_way { 2 } else { 1 };
        ensure!(!self.two_way || self.flows >= 2, "two ways: found one flow, expected at least two");
        ensure!(
            (least..=MOST_NETWORKS).contains(&self.networks),
            "networks: found {}, expected {least} to {MOST_NETWORKS}",
            self.networks
        );
        ensure!((1..=256).contains(&self.burst), "burst: found {}, expected 1 to 256", self.burst);
        ensure!(
            (1..=1024).contains(&self.transmit_burst),
            "transmit burst: found {}, expected 1 to 1024",
            self.transmit_burst
        );
        self.check_ports()?;
        ensure!(
            (1..=65_536).contains(&self.receive_ring),
            "receive ring: found {}, expected 1 to 65536",
            self.receive_ring
        );
        if let Load::Paced { pps, .. } = self.load {
            ensure!((1.0..=1e9).contains(&pps), "rate: found {pps} packets per second, expected 1 to 1e9");
        }
        if let Load::Share { share, .. } = self.load {
            ensure!(share > 0.0 && share <= 1.0, "load: found a share of {share}, expected more than 0 and at most 1");
        }
        ensure!((1..=100_000).contains(&self.windows), "windows: found {}, expected 1 to 100000", self.windows);
        ensure!(self.time.as_nanos() > self.windows as u128, "time: found {:?}, expected more", self.time);
        Ok(())
    }

    fn check_ports(&self) -> Result<()> {
        ensure!((2..=MOST_PORTS).contains(&self.ports), "ports: found {}, expected 2 to {MOST_PORTS}", self.ports);
        // Two ways, packets leave by all of them.
        let outputs = usize::from(self.ports) - usize::from(!self.two_way);
        let waiting = outputs * self.transmit_burst * self.cores.len();
        ensure!(
            waiting <= MOST_WAITING,
            "ports, transmit burst and cores: found {}, {} and {}, so that {waiting} packets may wait; expected at most {MOST_WAITING}",
            self.ports,
            self.transmit_burst,
            self.cores.len()
        );
        ensure!(!self.two_way || self.routes == Routes::Networks, "two ways: expected routes = \"networks\"");
        let one = self.cores.len() == 1 && !self.two_way && self.load == Load::Saturated;
        ensure!(self.io == Io::Memory || one, "devices: expected one core, one way, saturated");
        Ok(())
    }

    /// Of a worker, the flows that come in by each port.
    pub fn flows_of(&self, worker: usize) -> [u32; 2] {
        let mut flows = [0, 0];
        for flow in (worker as u32..self.flows).step_by(self.cores.len()) {
            flows[if self.two_way { flow as usize % 2 } else { 0 }] += 1;
        }
        flows
    }
}

/// Times of packets, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sojourn {
    /// How many were looked at.
    pub packets: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Sojourn {
    /// Of several, the median of each time, and all packets.
    pub fn median(all: &[Sojourn]) -> Option<Sojourn> {
        let of = |value: fn(&Sojourn) -> f64| crate::rounds::median(all.iter().map(value).collect());
        (!all.is_empty()).then(|| Sojourn {
            packets: all.iter().map(|sojourn| sojourn.packets).sum(),
            mean: of(|sojourn| sojourn.mean),
            p50: of(|sojourn| sojourn.p50),
            p90: of(|sojourn| sojourn.p90),
            p99: of(|sojourn| sojourn.p99),
            p999: of(|sojourn| sojourn.p999),
            max: of(|sojourn| sojourn.max),
        })
    }

    /// All times multiplied.
    pub fn times(self, factor: f64) -> Sojourn {
        let Sojourn { packets, mean, p50, p90, p99, p999, max } = self;
        let times = |ns: f64| ns * factor;
        Sojourn {
            packets,
            mean: times(mean),
            p50: times(p50),
            p90: times(p90),
            p99: times(p99),
            p999: times(p999),
            max: times(max),
        }
    }

    /// Of a histogram; `None` if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Sojourn> {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64;
        (!histogram.is_empty()).then(|| Sojourn {
            packets: histogram.len(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64,
        })
    }
}

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Million packets per second of workers' CPU time, all together.
    pub mpps: f64,
    /// The same in each window.
    pub windows: Vec<f64>,
    /// The same of each worker alone.
    #[serde(default)]
    pub workers: Vec<Vec<f64>>,
    /// How fast the machine was meanwhile, of how fast it ever was: see `rounds.rs`. 0: nobody has looked.
    pub pace: f64,
    /// The same per second of time.
    pub wall_mpps: f64,
    /// Share of the time that workers had their cores.
    pub cpu: f64,
    /// Packets that came, and those that found their ring full.
    pub offered: u64,
    pub lost: u64,
    /// Share of the packets that found their ring full, of each window.
    pub lost_of_windows: Vec<f64>,
    /// More came than the workers could do, though it was to be a share of that: they have become slower meanwhile.
    #[serde(default)]
    pub overloaded: bool,
    /// Packets that workers received, from start to end: warm-up and what followed the last window included.
    #[serde(default)]
    pub total: u64,
    /// Packets taken at once, mean.
    pub batch: f64,
    /// Packets sent at once, mean, from start to end. 0: by devices.
    #[serde(default)]
    pub sent_batch: f64,
    /// Nanoseconds of a round, mean: with nothing to do, of an idle poll.
    pub round_ns: f64,
    /// Times that workers slept.
    pub sleeps: u64,
    /// Rounds that took longer than 10 us, and the time in them as a share.
    pub gaps: u64,
    pub in_gaps: f64,
    /// Pauses of the core before and behind it, in ns each: see `rounds.rs`.
    pub pauses_ns: Vec<u64>,
    /// Bytes of the lookup structure.
    pub table_bytes: usize,
    /// From arrival to transmission; not where it is saturated.
    pub sojourn: Option<Sojourn>,
    /// The same of each window, and of each worker.
    pub sojourns_of_windows: Vec<Sojourn>,
    /// What modules took of timed bursts (one in 127), in ns per packet that came into them, and `script`: what was
    /// between them, per packet.
    pub modules: Vec<(String, f64)>,
    /// Packets that left for another reason than their route, those for the slow path among them, by reason.
    pub reasons: Vec<(String, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_dealt_out_as_points_say() {
        let of = |cores: usize, flows, two_way| {
            let request = Request { flows, two_way, ..Request::new((0..cores).collect()) };
            (0..cores).map(|worker| request.flows_of(worker)).collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1, false), [[1, 0]]);
        assert_eq!(of(1, 2, true), [[1, 1]]);
        assert_eq!(of(2, 2, true), [[1, 0], [0, 1]]);
        assert_eq!(of(2, 5, false), [[3, 0], [2, 0]]);
        assert_eq!(of(3, 100, true), [[17, 17], [16, 17], [17, 16]]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let good = Request::new(vec![0, 1]);
        good.check().unwrap();
        for (bad, says) in [
            (Request { cores: vec![1, 1], ..good.clone() }, "[1, 1]"),
            (Request { flows: 1, ..good.clone() }, "one for each worker"),
            (Request { networks: 0, ..good.clone() }, "networks: found 0"),
            (Request { burst: 257, ..good.clone() }, "burst: found 257"),
            (Request { load: Load::Paced { pps: f64::NAN, process: crate::Process::Poisson }, ..good.clone() }, "NaN"),
            (Request { load: Load::Share { share: 1.5, process: crate::Process::Poisson }, ..good.clone() }, "1.5"),
            (
                Request { load: Load::Share { share: f64::NAN, process: crate::Process::Poisson }, ..good.clone() },
                "NaN",
            ),
            (Request { two_way: true, networks: 1, ..good.clone() }, "expected 2 to"),
            (Request { ports: 1, ..good.clone() }, "ports: found 1, expected 2 to 64"),
            (Request { ports: 65, ..good.clone() }, "ports: found 65"),
            (Request { ports: 64, transmit_burst: 1024, ..good.clone() }, "expected at most 12000"),
            (Request { two_way: true, routes: Routes::Internet, ..good.clone() }, "expected routes"),
            (Request { io: Io::Devices, ..good.clone() }, "expected one core"),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
    #[test]
    fn a_request_without_what_came_later_is_as_it_was() {
        let mut json = serde_json::to_value(Request::new(vec![3])).unwrap();
        for name in ["ports", "routes", "lookups", "io"] {
            assert!(json.as_object_mut().unwrap().remove(name).is_some());
        }
        assert_eq!(serde_json::from_value::<Request>(json).unwrap(), Request::new(vec![3]));
    }
}
