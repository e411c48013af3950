// SPDX-License-Identifier: MIT
//! Why a trial may not be trusted.
//!
//! A tester has shortcomings of its own: it sends too little, too late, or loses what came back. What it knows of them
//! is gathered in [`Observed`], and judged into [`Doubt`]s, each of which says what it spoils. A trial without doubts
//! is not thereby right, but nothing that is known speaks against it.

use crate::environment::Meanwhile;
use crate::pace::Account;
use crate::received::{LatencySummary, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A trial may take longer than planned by this share of its duration, and [`EXTRA`].
const LONGER: f64 = 0.01;
/// ns.
const EXTRA: u64 = 10_000_000;
/// More stolen time than this, as a share.
const STOLEN: f64 = 0.001;
/// More samples below the floor than this, as a share of all.
const BELOW_FLOOR: f64 = 0.001;

/// What the tester knows of itself after a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    pub account: Option<Account>,
    pub outcome: Option<&'a Outcome>,
    pub latency: Option<&'a LatencySummary>,
    /// Frames that the tester's ports had to drop on receive, by their own counters: no descriptor or no buffer was
    /// free.
    pub missed: u64,
    /// Frames that they found damaged.
    pub receive_errors: u64,
    /// The longest pause of any loop that sends or receives, in ns; see [`Turns`].
    pub longest_pause: u64,
    /// A pause that ring and allowance can stand, in ns.
    pub allowed_pause: u64,
    /// How long frames were to be sent, and how long they were, in ns.
    pub planned: u64,
    pub lasted: u64,
    /// How often a link went down, or was down at the start.
    pub links_down: u32,
    /// The tester's ports are the two ends of one cable.
    pub cable: bool,
    /// What disturbed the tester's processors.
    pub meanwhile: Option<Meanwhile>,
    /// Somebody stopped it.
    pub interrupted: bool,
}

/// The turns of a loop, and the longest pause between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    last: Option<u64>,
    longest: u64,
}

impl Turns {
    /// A turn begins at `now` (ns).
    #[inline]
    pub fn turn(&mut self, now: u64) {
        let pause = self.last.map_or(0, |last| now.saturating_sub(last));
        self.longest = self.longest.max(pause);
        self.last = Some(now);
    }

    /// The longest time from one turn to the next, ns.
    pub fn longest_pause(&self) -> u64 {
        self.longest
    }
}

/// What a doubt makes worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spoils {
    /// The device was offered less, or otherwise, than intended: having lost nothing proves nothing.
    Load,
    /// Frames that count as lost may not be lost by the device: having lost some proves nothing.
    Loss,
    /// Latencies contain what is not the device's.
    Latency,
    All,
}

/// One reason not to trust a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    Unsent { frames: u64, intended: Option<u64> },
    LostInTester { frames: u64 },
    LostOnCable { frames: u64 },
    ReceiveErrors { frames: u64 },
    Corrupted { frames: u64 },
    Stale { frames: u64 },
    NeverSent { flows: u32 },
    Pause { ns: u64, allowed_ns: u64 },
    DeadlineMissed { planned_ns: u64, lasted_ns: u64 },
    LinkDown { times: u32 },
    Stolen { share: f64 },
    FromFuture { frames: u64 },
    BelowFloor { frames: u64, of: u64 },
    Interrupted,
}

/// What speaks against a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub doubts: Vec<Doubt>,
}

impl Verdict {
    pub fn new(observed: &Observed) -> Verdict {
        let mut doubts = sent(observed);
        doubts.extend(received(observed));
        doubts.extend(timed(observed));
        Verdict { doubts }
    }

    /// Nothing that is known speaks against it.
    pub fn is_trusted(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Whether something makes this worthless.
    pub fn spoils(&self, what: Spoils) -> bool {
        self.doubts.iter().any(|doubt| matches!(doubt.spoils(), Spoils::All) || doubt.spoils() == what)
    }
}

fn some(holds: bool, doubt: Doubt) -> Option<Doubt> {
    holds.then_some(doubt)
}

fn sent(observed: &Observed) -> Vec<Doubt> {
    let unsent = observed.account.filter(|account| account.unsent > 0);
    let latest = observed.planned.saturating_add((observed.planned as f64 * LONGER) as u64).saturating_add(EXTRA);
    let (planned_ns, lasted_ns) = (observed.planned, observed.lasted);
    [
        some(observed.interrupted, Doubt::Interrupted),
        some(observed.links_down > 0, Doubt::LinkDown { times: observed.links_down }),
        unsent.map(|account| Doubt::Unsent { frames: account.unsent, intended: account.intended }),
        some(lasted_ns > latest, Doubt::DeadlineMissed { planned_ns, lasted_ns }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn received(observed: &Observed) -> Vec<Doubt> {
    let mut doubts = vec![
        some(observed.missed > 0, Doubt::LostInTester { frames: observed.missed }),
        some(observed.receive_errors > 0, Doubt::ReceiveErrors { frames: observed.receive_errors }),
    ];
    if let Some(outcome) = observed.outcome {
        doubts.push(some(observed.cable && outcome.lost > 0, Doubt::LostOnCable { frames: outcome.lost }));
        let (corrupted, stale) = (outcome.counters.corrupted, outcome.counters.stale);
        doubts.push(some(corrupted > 0, Doubt::Corrupted { frames: corrupted }));
        doubts.push(some(stale > 0, Doubt::Stale { frames: stale }));
        doubts.push(some(outcome.flows_never_sent > 0, Doubt::NeverSent { flows: outcome.flows_never_sent }));
    }
    doubts.into_iter().flatten().collect()
}

fn timed(observed: &Observed) -> Vec<Doubt> {
    let (ns, allowed_ns) = (observed.longest_pause, observed.allowed_pause);
    let stolen = observed.meanwhile.and_then(|meanwhile| meanwhile.stolen());
    let mut doubts = vec![
        some(ns > allowed_ns, Doubt::Pause { ns, allowed_ns }),
        stolen.filter(|share| *share > STOLEN).map(|share| Doubt::Stolen { share }),
    ];
    if let Some(latency) = observed.latency {
        let (future, below, of) = (latency.from_future, latency.below_floor, latency.count);
        doubts.push(some(future > 0, Doubt::FromFuture { frames: future }));
        doubts.push(some(below as f64 > of as f64 * BELOW_FLOOR, Doubt::BelowFloor { frames: below, of }));
    }
    doubts.into_iter().flatten().collect()
}

impl Doubt {
    /// What it makes worthless.
    pub fn spoils(&self) -> Spoils {
        match self {
            Doubt::Unsent { .. } | Doubt::DeadlineMissed { .. } => Spoils::Load,
            Doubt::LostInTester { .. } | Doubt::LostOnCable { .. } | Doubt::ReceiveErrors { .. } => Spoils::Loss,
            Doubt::Corrupted { .. } | Doubt::Stale { .. } | Doubt::NeverSent { .. } => Spoils::Loss,
            Doubt::Pause { .. } | Doubt::LinkDown { .. } | Doubt::Stolen { .. } | Doubt::Interrupted => Spoils::All,
            Doubt::FromFuture { .. } | Doubt::BelowFloor { .. } => Spoils::Latency,
        }
    }
}

/// A sentence, or two: what was found, and what it means.
impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match *self {
            Doubt::Unsent { frames, intended: Some(intended) } => write!(
                f,
                "The tester could not send {frames} of {intended} frames in time, so the device was offered less than intended; \
                 lower the rate, or give the tester more or quieter cores."
            ),
            Doubt::Unsent { frames, intended: None } => {
                write!(
                    f,
                    "The tester could not send {frames} frames in time, so the device was offered less than intended."
                )
            }
            Doubt::LostInTester { frames } => write!(
                f,
                "The tester's ports dropped {frames} received frames as it did not fetch them in time; this loss is not the device's."
            ),
            Doubt::LostOnCable { frames } => write!(
                f,
                "{frames} frames are missing on a cable between the tester's own ports, where no device is: the tester sends more \
                 than the kernel and itself can take; lower the rate, or give the tester more cores."
            ),
            Doubt::ReceiveErrors { frames } => write!(
                f,
                "The tester's ports refused {frames} frames as damaged; look at cables and at what the device sends."
            ),
            Doubt::Corrupted { frames } => write!(
                f,
                "{frames} frames came back with a damaged stamp; they count as lost, and whatever is on the path changes frames."
            ),
            Doubt::Stale { frames } => write!(
                f,
                "{frames} frames came so late that it is unknown whether they are duplicates; up to as many count as lost and are not."
            ),
            Doubt::NeverSent { flows } => write!(
                f,
                "In {flows} flows a sequence number came back that was not sent, so frames are changed on the path beyond recognition."
            ),
            Doubt::Pause { ns, allowed_ns } => write!(
                f,
                "The tester stood still for {:.3} ms, and queues hold for {:.3} ms; frames may have been lost meanwhile, and \
                 latencies contain it.",
                ms(ns),
                ms(allowed_ns)
            ),
            Doubt::DeadlineMissed { planned_ns, lasted_ns } => write!(
                f,
                "Sending took {:.3} ms instead of {:.3} ms, so the rate was lower than intended.",
                ms(lasted_ns),
                ms(planned_ns)
            ),
            Doubt::LinkDown { times: 1 } => f.write_str(
                "A link of the tester was down during the trial; what was lost then is not the device's loss.",
            ),
            Doubt::LinkDown { times } => {
                write!(
                    f,
                    "Links of the tester were down {times} times during the trial; what was lost then is not the device's loss."
                )
            }
            Doubt::Stolen { share } => write!(
                f,
                "The host took {:.2} % of the tester's time away, and so perhaps the device's; measure where processors are not shared.",
                share * 100.0
            ),
            Doubt::FromFuture { frames } => write!(
                f,
                "{frames} frames were received before they were sent, so sender and receiver have clocks that differ."
            ),
            Doubt::BelowFloor { frames, of } => write!(
                f,
                "{frames} of {of} latencies are below the tester's own, so that was measured too high; measure it again."
            ),
            Doubt::Interrupted => f.write_str("The trial was stopped before its end."),
        }
    }
}

/// A line per doubt.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.doubts.iter().try_for_each(|doubt| writeln!(f, "{doubt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::{Latencies, Received, Settings};

    #[test]
    fn a_trial_without_doubts() {
        let outcome = Received::new(Settings::new(1, 1)).close(|_| 10);
        let account = Account { intended: Some(10), sent: 10, unsent: 0, pending: Some(0) };
        let observed = Observed {
            account: Some(account),
            outcome: Some(&outcome),
            longest_pause: 1000,
            allowed_pause: 1000,
            planned: 1_000_000_000,
            lasted: 1_015_000_000,
            meanwhile: Some(Meanwhile { stolen_ticks: Some(0), all_ticks: Some(100), interrupts: Some(7) }),
            ..Observed::default()
        };
        let verdict = Verdict::new(&observed);
        assert!(
            verdict.is_trusted() && verdict.to_string().is_empty(),
            "the device may lose what it will: {verdict:?}"
        );
        assert!(!verdict.spoils(Spoils::Load) && !verdict.spoils(Spoils::All));
    }

    #[test]
    fn pauses() {
        let mut turns = Turns::default();
        [100, 150, 400, 500, 450].into_iter().for_each(|now| turns.turn(now));
        assert_eq!(turns.longest_pause(), 250);
    }

    /// Each shortcoming alone, and what it spoils.
    #[test]
    fn every_doubt() {
        let mut outcome = Received::new(Settings::new(1, 1)).close(|_| 10);
        let lossy = outcome.clone();
        outcome.counters.corrupted = 3;
        outcome.counters.stale = 4;
        outcome.flows_never_sent = 5;
        let mut latencies = Latencies::new(1, Some(100));
        latencies.record(None);
        latencies.record(Some(50));
        let latency = latencies.summary().unwrap();
        let account = Account { intended: Some(10), sent: 8, unsent: 2, pending: Some(0) };
        let with = |change: fn(&mut Observed)| {
            let mut observed = Observed::default();
            change(&mut observed);
            observed
        };
        use Spoils::{All, Latency, Load, Loss};
        for (observed, spoils, says) in [
            (Observed { account: Some(account), ..Observed::default() }, vec![Load], vec!["2 of 10 frames"]),
            (with(|observed| observed.missed = 6), vec![Loss], vec!["dropped 6 received"]),
            (with(|observed| observed.receive_errors = 7), vec![Loss], vec!["refused 7 frames"]),
            (
                Observed { outcome: Some(&lossy), cable: true, ..Observed::default() },
                vec![Loss],
                vec!["10 frames are missing on a cable"],
            ),
            (
                Observed { outcome: Some(&outcome), ..Observed::default() },
                vec![Loss; 3],
                vec!["3 frames came back with a damaged", "4 frames came so late", "In 5 flows"],
            ),
            (
                Observed { latency: Some(&latency), ..Observed::default() },
                vec![Latency; 2],
                vec!["1 frames were received before", "1 of 1 latencies are below"],
            ),
            (with(|observed| observed.longest_pause = 1_500_000), vec![All], vec!["still for 1.500 ms"]),
            (with(|observed| observed.lasted = 10_000_001), vec![Load], vec!["took 10.000 ms instead of 0.000 ms"]),
            (with(|observed| observed.links_down = 1), vec![All], vec!["A link of the tester was down"]),
            (with(|observed| observed.links_down = 2), vec![All], vec!["2 times"]),
            (with(|observed| observed.interrupted = true), vec![All], vec!["stopped before its end"]),
            (
                with(|observed| {
                    observed.meanwhile =
                        Some(Meanwhile { stolen_ticks: Some(1), all_ticks: Some(100), interrupts: None });
                }),
                vec![All],
                vec!["took 1.00 % of"],
            ),
        ] {
            let verdict = Verdict::new(&observed);
            assert_eq!(verdict.doubts.iter().map(Doubt::spoils).collect::<Vec<_>>(), spoils, "{verdict:?}");
            for (doubt, says) in verdict.doubts.iter().zip(says) {
                let text = doubt.to_string();
                assert!(text.contains(says) && text.ends_with('.'), "{text}");
            }
            assert!(verdict.spoils(spoils[0]) && !verdict.is_trusted());
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
    }
}
