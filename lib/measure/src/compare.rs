// SPDX-License-Identifier: MIT
//! Several devices under the same traffic, in turn: their figures, and ratios to the first of them with intervals.
//!
//! In every round each device is measured once, in an order that changes from round to round, so that a drift of the
//! machine affects all of them alike. Ratios are taken within a round; the median over all rounds has an interval from
//! order statistics, so no distribution is assumed ([`Summary`]).

use crate::run::TrialRecord;
use crate::search::Spoils;
use crate::search::statistics::Summary;
use perigee_chart::significant;
use serde::{Deserialize, Serialize};

/// Rounds without which there is no interval.
pub const FEWEST: usize = 6;

/// What a trial says of a device. Rates are those of each direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Frames per second.
    pub sent_pps: f64,
    /// Frames per second that came back.
    pub forwarded_pps: f64,
    /// Share of the sent frames.
    pub loss: f64,
    /// ns; `None` where nothing came back.
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    /// Why it may not be trusted, a sentence each. What the tester could not send is no doubt here: how much it sent
    /// is shown.
    pub doubts: Vec<String>,
    /// Whether the doubts concern what it was run for: it is left out.
    pub spoiled: bool,
}

impl Sample {
    /// That of a trial in so many directions at once; its latencies are those of all of them. `latency` says that it
    /// was run for these, and not for the rate.
    pub fn of(record: &TrialRecord, ways: u32, latency: bool) -> Sample {
        let outcome = &record.outcome;
        let sent_pps = outcome.sent as f64 / outcome.duration / f64::from(ways.max(1));
        let loss = outcome.loss_ratio();
        let latencies = || outcome.doubts.iter().any(|doubt| matches!(doubt.spoils, Spoils::Latency | Spoils::All));
        Sample {
            sent_pps,
            forwarded_pps: sent_pps * (1.0 - loss),
            loss,
            p50_ns: outcome.latency.map(|latency| latency.median),
            p99_ns: outcome.latency.map(|latency| latency.p99),
            doubts: outcome.doubts.iter().map(|doubt| doubt.why.clone()).collect(),
            spoiled: if latency { latencies() } else { outcome.is_spoiled(outcome.lost() > 0) },
        }
    }
}

/// The order in which devices are measured in a round (from 0 on): each is first as often as any other, and the
/// direction alternates, so that every device follows every other.
pub fn order(devices: usize, round: usize) -> Vec<usize> {
    let turned = (0..devices).map(|at| (at + round / 2) % devices);
    if round.is_multiple_of(2) { turned.collect() } else { turned.rev().collect() }
}

/// A device's figures, over all rounds: `None` where no sample may be trusted, or nothing came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub target: String,
    pub sent_pps: Option<Summary>,
    pub forwarded_pps: Option<Summary>,
    pub loss: Option<Summary>,
    pub p50_ns: Option<Summary>,
    pub p99_ns: Option<Summary>,
    /// Ratios to the first device; `None` for that itself, and where either has no figure.
    pub forwarded_ratio: Option<Summary>,
    pub p50_ratio: Option<Summary>,
    pub p99_ratio: Option<Summary>,
    /// Rounds whose sample was left out, as it may not be trusted.
    pub left_out: u32,
    /// The first doubt of these.
    pub doubt: Option<String>,
}

impl Compared {
    /// Why it has no figures: the end of a sentence; `None` if it has.
    pub fn missing(&self) -> Option<String> {
        if self.sent_pps.is_some() {
            return None;
        }
        Some(match (self.left_out, &self.doubt) {
            (0, _) => "no round was run to its end".to_owned(),
            (left_out, doubt) => format!(
                "all {left_out} rounds were left out, as the tester or the host disturbed them: {}",
                doubt.as_deref().unwrap_or_default()
            ),
        })
    }

    /// Why it has no latency.
    pub fn missing_latency(&self) -> Option<String> {
        let silent = || self.p50_ns.is_none().then(|| "no frame came back at this load".to_owned());
        self.missing().or_else(silent)
    }
}

/// Figures of all devices; `rounds` has a sample for each device, in their order. Each device that is named has its
/// row.
pub fn compare(targets: &[String], rounds: &[Vec<Sample>]) -> Vec<Compared> {
    let whole: Vec<&Vec<Sample>> = rounds.iter().filter(|round| round.len() == targets.len()).collect();
    let one = |(at, target): (usize, &String)| {
        let good = || whole.iter().filter(|round| !round[at].spoiled);
        let of = |figure: &dyn Fn(&Sample) -> Option<f64>| Summary::of(good().filter_map(|round| figure(&round[at])));
        let ratio = |figure: &dyn Fn(&Sample) -> Option<f64>| {
            let both = good().filter(|round| !round[0].spoiled);
            let pairs = both.filter_map(|round| Some((figure(&round[at])?, figure(&round[0])?)));
            Summary::of(pairs.filter(|(_, first)| *first > 0.0).map(|(this, first)| this / first)).filter(|_| at > 0)
        };
        let spoiled = || whole.iter().filter(|round| round[at].spoiled);
        Compared {
            target: target.clone(),
            sent_pps: of(&|sample| Some(sample.sent_pps)),
            forwarded_pps: of(&|sample| Some(sample.forwarded_pps)),
            loss: of(&|sample| Some(sample.loss)),
            p50_ns: of(&|sample| sample.p50_ns),
            p99_ns: of(&|sample| sample.p99_ns),
            forwarded_ratio: ratio(&|sample| Some(sample.forwarded_pps)),
            p50_ratio: ratio(&|sample| sample.p50_ns),
            p99_ratio: ratio(&|sample| sample.p99_ns),
            left_out: spoiled().count() as u32,
            doubt: spoiled().find_map(|round| round[at].doubts.first().cloned()),
        }
    };
    targets.iter().enumerate().map(one).collect()
}

/// A ratio for people: "1.24x (1.21 to 1.27)", with the median and its interval.
pub fn ratio(summary: &Summary) -> String {
    // 0.00039 is not 0.000.
    let text = |ratio: f64| if ratio.abs() < 0.1 { significant(ratio, 3) } else { format!("{ratio:.3}") };
    match summary.median_interval {
        Some((low, high)) => format!("{}x ({} to {})", text(summary.median), text(low), text(high)),
        None => format!("{}x (too few rounds for an interval)", text(summary.median)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(forwarded_pps: f64, p50: Option<f64>) -> Sample {
        Sample {
            sent_pps: 100.0,
            forwarded_pps,
            loss: 1.0 - forwarded_pps / 100.0,
            p50_ns: p50,
            p99_ns: p50,
            doubts: vec![],
            spoiled: false,
        }
    }

    #[test]
    fn every_device_is_first_and_last_alike() {
        for devices in 1..6 {
            let rounds = 2 * devices;
            let orders: Vec<Vec<usize>> = (0..rounds).map(|round| order(devices, round)).collect();
            for place in [0, devices - 1] {
                for device in 0..devices {
                    assert_eq!(orders.iter().filter(|order| order[place] == device).count(), 2);
                }
            }
            for mut order in orders {
                order.sort_unstable();
                assert_eq!(order, (0..devices).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let targets = ["a".to_owned(), "b".to_owned()];
        // The machine slows down by half over the rounds; b is always twice as fast.
        let rounds: Vec<Vec<Sample>> = (0..8)
            .map(|round| {
                let speed = 40.0 - f64::from(round) * 2.5;
                vec![sample(speed, Some(1000.0)), sample(2.0 * speed, Some(1500.0))]
            })
            .collect();
        let [first, second] = compare(&targets, &rounds).try_into().unwrap();
        assert_eq!((first.forwarded_ratio, first.p50_ratio), (None, None));
        let ratio_of_b = second.forwarded_ratio.unwrap();
        assert_eq!((ratio_of_b.median, ratio_of_b.median_interval), (2.0, Some((2.0, 2.0))));
        assert_eq!(second.p50_ratio.unwrap().median, 1.5);
        assert_eq!(ratio(&ratio_of_b), "2.000x (2.000 to 2.000)");
    }

    /// The table had a header and no row, and the exit status was 0.
    #[test]
    fn each_device_that_is_named_has_its_row() {
        let targets = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let slept = Sample { spoiled: true, doubts: vec!["It slept.".to_owned()], ..sample(1.0, None) };
        let rounds = vec![vec![slept, sample(20.0, Some(1.0)), sample(20.0, None)]; 6];
        let [a, b, c] = compare(&targets, &rounds).try_into().unwrap();
        let why = a.missing().unwrap();
        assert!(why.contains("all 6 rounds were left out") && why.ends_with("It slept."), "{why}");
        assert_eq!((b.missing(), a.forwarded_pps, b.forwarded_ratio), (None, None, None));
        assert!(c.missing().is_none() && c.missing_latency().unwrap().contains("came back"));
        let [a, ..] = <[Compared; 3]>::try_from(compare(&targets, &[])).unwrap();
        assert_eq!(a.missing().as_deref(), Some("no round was run to its end"));
    }

    #[test]
    fn a_small_ratio_is_not_zero() {
        let small = Summary::of([0.00039; 6]).unwrap();
        assert_eq!(ratio(&small), "0.00039x (0.00039 to 0.00039)");
    }

    #[test]
    fn spoiled_samples_are_left_out() {
        let targets = ["a".to_owned(), "b".to_owned()];
        let mut rounds = vec![vec![sample(10.0, Some(1.0)), sample(20.0, Some(1.0))]; 9];
        rounds[3][1] =
            Sample { forwarded_pps: 1.0, spoiled: true, doubts: vec!["It slept.".to_owned()], ..sample(1.0, None) };
        rounds[5][0] = Sample { forwarded_pps: 90.0, spoiled: true, ..sample(90.0, None) };
        let [first, second] = compare(&targets, &rounds).try_into().unwrap();
        assert_eq!((first.left_out, second.left_out, second.doubt.as_deref()), (1, 1, Some("It slept.")));
        assert_eq!((first.forwarded_pps.unwrap().max, second.forwarded_pps.unwrap().min), (10.0, 20.0));
        let ratios = second.forwarded_ratio.unwrap();
        assert_eq!((ratios.count, ratios.min, ratios.max), (7, 2.0, 2.0));
    }

    #[test]
    fn a_device_without_a_figure_has_no_ratio() {
        let targets = ["a".to_owned(), "b".to_owned()];
        // A round that was interrupted is left out.
        let rounds = vec![vec![sample(0.0, None), sample(50.0, Some(1.0))], vec![sample(1.0, None)]];
        let compared = compare(&targets, &rounds);
        let forwarded = compared[1].forwarded_pps.as_ref().unwrap();
        assert_eq!(forwarded.count, 1);
        assert_eq!((&compared[1].forwarded_ratio, &compared[1].p50_ratio), (&None, &None));
        assert!(ratio(forwarded).contains("too few rounds"));
    }
}
