// SPDX-License-Identifier: MIT
//! What the rounds of `./x bench forward` say.

use super::contest::{Rounds, Runner};
use super::{Course, ForwardArgs};
use crate::machine::{Machine, Priority};
use crate::peers::Lookup;
use crate::statistics::Median;
use crate::worker::Path as LoopPath;
use serde::Serialize;
use std::collections::BTreeMap;

/// One loop at one burst size.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Mpps, the median of all rounds.
    pub mpps: f64,
    /// ns per packet more than testpmd at the same burst size.
    pub ns_over_io: Median,
    /// Rate as a share of testpmd's at the same burst size.
    pub of_io: Median,
}

/// A rate as a share of another one.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub ratio: Median,
    /// Is the interval at most 3 points wide?
    pub resolved: bool,
}

/// By burst size; JSON wants texts as keys.
pub type ByBurst<T> = BTreeMap<String, T>;
/// By loop.
pub type ByLoop<T> = BTreeMap<LoopPath, T>;

/// The loops of perigee's that are measured.
const LOOPS: [LoopPath; 2] = [LoopPath::Lua, LoopPath::Native];

/// Another program's rate, and perigee's as a multiple of it.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// Mpps, the median of all rounds at all of perigee's burst sizes: it has one of its own.
    pub mpps: f64,
    /// Rate as a share of testpmd's in the same round; none where testpmd did not take part.
    pub of_io: Option<Median>,
    /// perigee's rate as a multiple of it, by loop and burst.
    pub perigee: ByLoop<ByBurst<Median>>,
}

/// Who could not take part, and why.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct LeftOut(pub BTreeMap<String, String>);

impl LeftOut {
    /// Says so at once, too.
    pub fn add(&mut self, name: &str, why: &str) {
        let why = why.replace('\n', " ");
        eprintln!("perigee-bench: {name} is left out: {why}");
        self.0.insert(name.to_owned(), why);
    }
}

/// All results; the first fields are the short form.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Mpps at a burst of 32, testpmd's default; without one, the best.
    pub testpmd_io: f64,
    pub lua: ByBurst<f64>,
    pub native: ByBurst<f64>,
    /// l3fwd's Mpps, by lookup, with packets of IPv4.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub l3fwd: BTreeMap<String, f64>,
    /// The same with packets of IPv6.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub l3fwd_ipv6: BTreeMap<String, f64>,
    /// perigee's Mpps with packets of IPv6.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ipv6: ByLoop<ByBurst<f64>>,
    /// That as a share of its rate with IPv4.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ipv6_of_ipv4: ByLoop<ByBurst<Compared>>,
    pub testpmd_io_by_burst: ByBurst<f64>,
    pub details: ByLoop<ByBurst<Measured>>,
    /// The same with packets of IPv6.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details_ipv6: ByLoop<ByBurst<Measured>>,
    pub lua_of_native: ByBurst<Compared>,
    /// Other programs with packets of IPv4: l3fwd by lookup, and those of --peer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, Beside>,
    /// l3fwd with packets of IPv6.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peers_ipv6: BTreeMap<String, Beside>,
    /// The faster of l3fwd's lookups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3fwd_best: Option<String>,
    /// The same with packets of IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3fwd_best_ipv6: Option<String>,
    /// Programs that did not take part, and why.
    #[serde(skip_serializing_if = "nobody")]
    pub left_out: LeftOut,
    /// Packets that were compared with the expected ones before anything was timed.
    pub verified: usize,
    pub pairs: usize,
    pub seconds: f64,
    pub core: usize,
    pub hugepages: bool,
    /// Did all have real-time priority?
    pub real_time: bool,
    /// The routes by which packets are forwarded.
    pub routes: String,
    /// Those of IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes_ipv6: Option<String>,
    pub machine: Machine,
}

fn nobody(left_out: &LeftOut) -> bool {
    left_out.0.is_empty()
}

impl Results {
    /// From the rounds with everybody, and those with l3fwd and packets of IPv6.
    pub fn new(
        args: &ForwardArgs,
        four: &Course,
        six: Option<&Course>,
        verified: usize,
        priority: Priority,
        [rounds, rounds6]: [&Rounds; 2],
        left_out: LeftOut,
    ) -> Results {
        let testpmd_io_by_burst = by_burst(rounds, |of| Some(mpps(of.get(&Runner::Io)?)));
        let best = testpmd_io_by_burst.values().copied().fold(0.0, f64::max);
        let rate = |family, path| by_burst(rounds, |of| Some(mpps(of.get(&Runner::Loop(family, path))?)));
        let (peers, peers_ipv6) = (beside(rounds, 4), beside(rounds6, 6));
        Results {
            testpmd_io: testpmd_io_by_burst.get("32").copied().unwrap_or(best),
            lua: rate(4, LoopPath::Lua),
            native: rate(4, LoopPath::Native),
            l3fwd: l3fwd(&peers),
            l3fwd_ipv6: l3fwd(&peers_ipv6),
            ipv6: by_loop(|path| rate(6, path)),
            ipv6_of_ipv4: by_loop(|path| {
                by_burst(rounds, |of| compared(of, &Runner::Loop(6, path), &Runner::Loop(4, path)))
            }),
            details: by_loop(|path| by_burst(rounds, |of| measured(of, 4, path))),
            details_ipv6: by_loop(|path| by_burst(rounds, |of| measured(of, 6, path))),
            lua_of_native: by_burst(rounds, |of| {
                compared(of, &Runner::Loop(4, LoopPath::Lua), &Runner::Loop(4, LoopPath::Native))
            }),
            testpmd_io_by_burst,
            l3fwd_best: fastest(&peers),
            l3fwd_best_ipv6: fastest(&peers_ipv6),
            peers,
            peers_ipv6,
            left_out,
            verified,
            pairs: args.pairs,
            seconds: args.seconds,
            core: four.bed.core,
            hugepages: four.bed.hugepages,
            real_time: priority == Priority::RealTime,
            routes: four.routes.clone(),
            routes_ipv6: six.map(|six| six.routes.clone()),
            machine: Machine::this(),
        }
    }
}

type OfBurst = BTreeMap<Runner, Vec<f64>>;

/// For each burst size at which there is one.
fn by_burst<T>(rounds: &Rounds, of: impl Fn(&OfBurst) -> Option<T>) -> ByBurst<T> {
    rounds.iter().filter_map(|(burst, of_burst)| Some((burst.to_string(), of(of_burst)?))).collect()
}

/// For each loop that has any.
fn by_loop<T>(of: impl Fn(LoopPath) -> ByBurst<T>) -> ByLoop<ByBurst<T>> {
    LOOPS.into_iter().map(|path| (path, of(path))).filter(|(_, by_burst)| !by_burst.is_empty()).collect()
}

fn mpps(ns: &[f64]) -> f64 {
    1000.0 / Median::of(ns).median
}

/// Combines two values of each round.
fn both(a: &[f64], b: &[f64], combine: fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| combine(*a, *b)).collect()
}

fn measured(of_burst: &OfBurst, family: u8, path: LoopPath) -> Option<Measured> {
    let (ns, io) = (of_burst.get(&Runner::Loop(family, path))?, of_burst.get(&Runner::Io)?);
    let ns_over_io = Median::of(&both(ns, io, |ns, io| ns - io));
    Some(Measured { mpps: mpps(ns), ns_over_io, of_io: Median::of(&both(ns, io, |ns, io| io / ns)) })
}

/// A rate as a share of another one, taken within each round.
fn compared(of_burst: &OfBurst, one: &Runner, other: &Runner) -> Option<Compared> {
    let ratio = Median::of(&both(of_burst.get(one)?, of_burst.get(other)?, |one, other| other / one));
    Some(Compared { ratio, resolved: ratio.width() <= 0.03 })
}

fn beside(rounds: &Rounds, family: u8) -> BTreeMap<String, Beside> {
    let names = rounds.values().flat_map(|of_burst| of_burst.keys()).filter_map(|runner| match runner {
        Runner::Peer(name) => Some(name.clone()),
        _ => None,
    });
    let of = |name: String| {
        let peer = Runner::Peer(name.clone());
        let all: Vec<f64> = rounds.values().filter_map(|of_burst| of_burst.get(&peer)).flatten().copied().collect();
        let io = rounds
            .values()
            .filter_map(|of_burst| Some(both(of_burst.get(&peer)?, of_burst.get(&Runner::Io)?, |ns, io| io / ns)));
        let io: Vec<f64> = io.flatten().collect();
        let perigee = by_loop(|path| {
            by_burst(rounds, |of_burst| Some(compared(of_burst, &Runner::Loop(family, path), &peer)?.ratio))
        });
        let of_io = (!io.is_empty()).then(|| Median::of(&io));
        (name, Beside { mpps: mpps(&all), of_io, perigee })
    };
    names.map(of).collect()
}

fn is_l3fwd(name: &str) -> bool {
    Lookup::ALL.iter().any(|lookup| lookup.name() == name)
}

fn l3fwd(peers: &BTreeMap<String, Beside>) -> BTreeMap<String, f64> {
    peers.iter().filter(|(name, _)| is_l3fwd(name)).map(|(name, peer)| (name.clone(), peer.mpps)).collect()
}

fn fastest(peers: &BTreeMap<String, Beside>) -> Option<String> {
    l3fwd(peers).into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut rounds = Rounds::new();
        for (burst, factor) in [(32, 1.0), (64, 2.0)] {
            let of_burst = rounds.entry(burst).or_default();
            // A machine that gets slower from round to round, ten of them.
            for round in (1..=10).map(f64::from) {
                for (runner, ns) in [
                    (Runner::Io, 10.0),
                    (Runner::Loop(4, LoopPath::Native), 20.0 * factor),
                    (Runner::Loop(6, LoopPath::Native), 25.0 * factor),
                    (Runner::Peer("lpm".into()), 50.0),
                    (Runner::Peer("fib".into()), 40.0),
                    (Runner::Peer("other".into()), 5.0),
                ] {
                    of_burst.entry(runner).or_default().push(ns * round);
                }
            }
        }
        let peers = beside(&rounds, 4);
        assert_eq!(fastest(&peers), Some("fib".into()), "`other` is not of l3fwd");
        assert_eq!(l3fwd(&peers).keys().collect::<Vec<_>>(), ["fib", "lpm"]);
        let near = |median: &Median, value: f64| {
            assert!((median.median - value).abs() < 1e-9 && median.width() < 1e-9, "{median:?}, {value}")
        };
        near(&peers["fib"].perigee[&LoopPath::Native]["32"], 2.0);
        near(&peers["fib"].perigee[&LoopPath::Native]["64"], 1.0);
        near(peers["lpm"].of_io.as_ref().unwrap(), 0.2);
        assert!(!peers["lpm"].perigee.contains_key(&LoopPath::Lua), "it did not run");
        near(
            &compared(&rounds[&64], &Runner::Loop(6, LoopPath::Native), &Runner::Loop(4, LoopPath::Native))
                .unwrap()
                .ratio,
            0.8,
        );
        near(&measured(&rounds[&32], 4, LoopPath::Native).unwrap().of_io, 0.5);
    }
}
