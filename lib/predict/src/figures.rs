// SPDX-License-Identifier: MIT
//! A router's figures at an offered rate: accepted rate, loss, sojourn times, batches, utilisation, and how each is
//! known.

use serde::{Serialize, Serializer};
use std::fmt;

/// How a figure is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// By a formula or a numerical solution of the model, named.
    Closed(&'static str),
    /// By a formula or a solution of a model that is a little simpler, named.
    Approximate(&'static str),
    /// By simulating packets in ns-3.
    Simulated {
        /// Version of ns-3.
        ns3: String,
        /// Events of the simulator.
        events: u64,
        /// Packets offered, those of the warm-up among them.
        packets: u64,
        /// Packets offered after the warm-up, on which the figures are based.
        counted: u64,
        /// They are enough for queues to be as they are in the long run.
        settled: bool,
    },
    /// By the model's queues event by event, as many packets of each different core.
    Events {
        /// Packets counted.
        packets: u64,
    },
    /// Unknown; the text says why.
    Missing(String),
}

impl Method {
    /// Is a simulation better than this?
    fn is_weak(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Approximate(_))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Closed(name) => write!(f, "closed form: {name}"),
            Self::Approximate(name) => write!(f, "approximation: {name}"),
            Self::Simulated { ns3, events, packets, .. } => {
                write!(f, "ns-3 {ns3} simulation: {} events, {} packets", grouped(*events), grouped(*packets))
            }
            Self::Events { packets } => write!(f, "event by event: {} packets of a core", grouped(*packets)),
            Self::Missing(why) => write!(f, "not known: {why}"),
        }
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A whole number with commas: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Sojourn times that a share of the packets does not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// 50 %: the median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    #[serde(rename = "p99.9")]
    pub p999: f64,
}

/// How the figures are known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Methods {
    /// Accepted rate and loss.
    pub loss: Method,
    /// Utilisation and batch sizes.
    pub utilisation: Method,
    /// Mean sojourn time.
    pub mean: Method,
    /// Percentiles of the sojourn time.
    pub percentiles: Method,
}

impl Methods {
    /// One method for all figures.
    pub fn all(method: Method) -> Self {
        Self { loss: method.clone(), utilisation: method.clone(), mean: method.clone(), percentiles: method }
    }

    /// Each with the names of its figures.
    pub fn named(&self) -> [(&'static str, &Method); 4] {
        [
            ("accepted rate, loss", &self.loss),
            ("utilisation, batches", &self.utilisation),
            ("mean", &self.mean),
            ("percentiles", &self.percentiles),
        ]
    }
}

/// A router's figures at an offered rate. None: see [`Methods`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Offered packets per second.
    pub offered_pps: f64,
    /// Forwarded packets per second.
    pub accepted_pps: Option<f64>,
    /// Share of the offered packets that is lost, 0 to 1; where [`Self::loss_at_least`] is known, at most.
    pub loss: Option<f64>,
    /// A lower bound of the loss, where only bounds are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_at_least: Option<f64>,
    /// Mean time from the receive ring to the hand-over to the transmit device, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Percentiles of the sojourn time.
    pub sojourn_ns: Option<Percentiles>,
    /// Share of time that each core works or wakes up, 0 to 1.
    pub utilisation: Option<Vec<f64>>,
    /// Mean packets that a core takes at once.
    pub batch: Option<f64>,
    /// How they are known.
    pub methods: Methods,
}

impl Figures {
    /// Nothing but the offered rate, and why.
    pub fn unknown(offered_pps: f64, method: Method) -> Self {
        Self {
            offered_pps,
            accepted_pps: None,
            loss: None,
            loss_at_least: None,
            mean_ns: None,
            sojourn_ns: None,
            utilisation: None,
            batch: None,
            methods: Methods::all(method),
        }
    }

    /// Utilisation of the busiest core.
    pub fn busiest(&self) -> Option<f64> {
        self.utilisation.as_ref().map(|cores| cores.iter().copied().fold(0.0, f64::max))
    }

    /// Whether a simulation could improve it: is anything missing or approximate?
    pub fn incomplete(&self) -> bool {
        self.methods.named().iter().any(|(_, method)| method.is_weak())
    }

    /// Is anything missing?
    pub fn missing(&self) -> bool {
        self.methods.named().iter().any(|(_, method)| matches!(method, Method::Missing(_)))
    }

    /// Takes what is missing here from a simulation of the same, and what is approximate if it was long enough to know
    /// better.
    pub fn complete(self, simulated: Self) -> Self {
        let short = matches!(simulated.methods.loss, Method::Simulated { settled: false, .. });
        let missing = |method: &Method| if short { matches!(method, Method::Missing(_)) } else { method.is_weak() };
        let (of, by) = (self.methods.clone(), simulated.methods.clone());
        let pick = |ours: Method, theirs: Method| if missing(&ours) { theirs } else { ours };
        let loss = match missing(&of.loss) {
            true => (simulated.accepted_pps, simulated.loss, simulated.loss_at_least),
            false => (self.accepted_pps, self.loss, self.loss_at_least),
        };
        let (utilisation, batch) = match missing(&of.utilisation) {
            true => (simulated.utilisation, simulated.batch),
            false => (self.utilisation, self.batch),
        };
        Self {
            offered_pps: self.offered_pps,
            accepted_pps: loss.0,
            loss: loss.1,
            loss_at_least: loss.2,
            mean_ns: if missing(&of.mean) { simulated.mean_ns } else { self.mean_ns },
            sojourn_ns: if missing(&of.percentiles) { simulated.sojourn_ns } else { self.sojourn_ns },
            utilisation,
            batch,
            methods: Methods {
                loss: pick(of.loss, by.loss),
                utilisation: pick(of.utilisation, by.utilisation),
                mean: pick(of.mean, by.mean),
                percentiles: pick(of.percentiles, by.percentiles),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_simulation_fills_gaps_only() {
        let closed = Figures {
            offered_pps: 1e6,
            accepted_pps: Some(1e6),
            loss: Some(0.0),
            loss_at_least: None,
            mean_ns: None,
            sojourn_ns: None,
            utilisation: Some(vec![0.5]),
            batch: Some(1.5),
            methods: Methods {
                mean: Method::Missing("timeouts".to_owned()),
                percentiles: Method::Approximate("a simpler formula"),
                ..Methods::all(Method::Closed("a formula"))
            },
        };
        let method = Method::Simulated { ns3: "3.37".to_owned(), events: 1, packets: 2, counted: 2, settled: true };
        let simulated = Figures {
            offered_pps: 1.01e6,
            accepted_pps: Some(0.9e6),
            loss: Some(0.1),
            loss_at_least: None,
            mean_ns: Some(700.0),
            sojourn_ns: Some(Percentiles { p50: 1.0, p90: 2.0, p99: 3.0, p999: 4.0 }),
            utilisation: Some(vec![0.6]),
            batch: Some(2.0),
            methods: Methods::all(method.clone()),
        };
        assert!(closed.incomplete() && !simulated.incomplete());
        let both = closed.complete(simulated);
        assert_eq!((both.loss, both.mean_ns, both.batch), (Some(0.0), Some(700.0), Some(1.5)));
        assert_eq!(both.sojourn_ns.unwrap().p50, 1.0);
        assert_eq!((&both.methods.loss, &both.methods.mean), (&Method::Closed("a formula"), &method));
        assert!(!both.incomplete());
    }

    /// Near full load, short simulations with nothing lost took the place of approximations that knew better.
    #[test]
    fn a_short_simulation_does_not_replace_an_approximation() {
        let of = |method: Method, time: f64| Figures {
            mean_ns: Some(time),
            methods: Methods { percentiles: Method::Missing("large".to_owned()), ..Methods::all(method.clone()) },
            ..Figures::unknown(1e6, method)
        };
        let simulated = |settled| {
            let method = Method::Simulated { ns3: "3.37".to_owned(), events: 1, packets: 2, counted: 2, settled };
            Figures { methods: Methods::all(method.clone()), ..of(method, 5.0) }
        };
        let closed = || of(Method::Approximate("a simpler formula"), 7.0);
        assert_eq!(closed().complete(simulated(true)).mean_ns, Some(5.0));
        assert_eq!(closed().complete(simulated(false)).mean_ns, Some(7.0));
    }
}
