// SPDX-License-Identifier: MIT
//! Searches for throughput on simulated devices: the bounds enclose the limit, whatever the device and the tester are
//! like.

mod judge;
mod simulated;

use judge::judge;
use perigee_measure::search::binary::{Binary, Verify};
use perigee_measure::search::goal::Goal;
use perigee_measure::search::mlr::Mlr;
use perigee_measure::search::throughput::{Found, Limits, Verdict};
use perigee_measure::search::{Mismatch, Outcome, Search};
use proptest::prelude::*;
use simulated::{AROUND, Device, Random, Simulated, run};

const MAXIMUM: f64 = 14_880_952.0;
const MINIMUM: f64 = 1000.0;

fn limits() -> Limits {
    Limits { minimum: MINIMUM, maximum: MAXIMUM }
}

fn verify() -> Option<Verify> {
    Some(Verify { trials: 2, at_once: None })
}

/// Both goals of RFC 9971 section 4.10, one that allows some loss, and one with many short trials.
fn goals() -> Vec<Goal> {
    let partial = Goal { name: "partial".into(), loss_ratio: 0.005, ..Goal::tst009() };
    let short = Goal {
        name: "short".into(),
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        final_duration: 1.0,
        duration_sum: 21.0,
        initial_duration: Some(1.0),
        width: 0.01,
    };
    vec![Goal::rfc2544(), Goal::tst009(), partial, short]
}

/// The results of all kinds of searches. Goals that are searched for together have the same final duration here:
/// otherwise longer trials count for goals with shorter ones, and their limit is no longer defined.
fn all(device: &Simulated) -> Vec<Found> {
    let together = goals().into_iter().filter(|goal| goal.final_duration == 60.0).collect();
    let mut found = run(Mlr::new(together, limits()), &mut device.clone()).0.found();
    for goal in goals() {
        found.extend(run(Mlr::new(vec![goal], limits()), &mut device.clone()).0.found());
    }
    for verify in [None, verify()] {
        found.push(run(Binary::new("binary", limits(), 60.0, 0.005, verify), &mut device.clone()).0.found());
    }
    found
}

/// With a tolerance of the noise, and of one frame per second for rounding.
fn assert_encloses(found: &Found, limit: f64, noise: f64) {
    assert_eq!(found.verdict, Verdict::Regular, "{found:?}");
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    let slack = limit * noise + 1.0;
    assert!(lower <= limit + slack && upper >= limit - slack, "{limit} is not in {found:?}");
    assert!(upper - lower <= found.goal.width * upper * (1.0 + 1e-6), "{found:?}");
    let throughput = found.throughput.unwrap();
    assert!(throughput <= lower && throughput >= lower * (1.0 - found.goal.loss_ratio), "{found:?}");
    assert!(found.trusted && found.tester.is_none(), "{found:?}");
}

fn limit() -> impl Strategy<Value = f64> {
    // Log-uniform; low enough that noise does not reach the maximum.
    (0.0..1.0f64).prop_map(|share| 2.0 * MINIMUM * (MAXIMUM / MINIMUM / 2.0 * 0.9).powf(share))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_limit_is_enclosed(limit in limit(), seed: u64) {
        for device in [Device::Limit { limit }, Device::Livelock { limit }] {
            let device = Simulated::new(device, seed);
            for found in all(&device) {
                assert_encloses(&found, device.limit(&found.goal), 0.0);
            }
        }
    }

    #[test]
    fn a_limit_with_noise_is_enclosed_within_the_noise(limit in limit(), noise in 0.0..0.02, seed: u64) {
        let device = Simulated::new(Device::Noisy { limit, noise }, seed);
        for found in all(&device) {
            assert_encloses(&found, device.limit(&found.goal), noise);
        }
    }

    #[test]
    fn a_buffer_and_a_limit_that_changes_with_the_duration_do_not_mislead(
        limit in limit(), frames in 0.0..1e6, tiring in 1.0..2.0, seed: u64
    ) {
        for device in [Device::Bucket { limit, frames }, Device::Tiring { short: limit * tiring, long: limit }] {
            let device = Simulated::new(device, seed);
            for found in all(&device) {
                let limit = device.limit(&found.goal);
                // The maximum passes if the buffer is large enough.
                if limit < MAXIMUM * 0.99 {
                    assert_encloses(&found, limit, 0.0);
                }
            }
        }
    }

    /// With sporadic loss the bounds cannot be predicted, but every result follows from the trials according to the RFC, and every
    /// search ends.
    #[test]
    fn results_are_what_rfc_9971_makes_of_the_trials(
        limit in limit(), often in 0.0..0.1, loss in 0.0..0.1, seed: u64
    ) {
        let mut device = Simulated::new(Device::Spikes { limit, often, loss }, seed);
        let (search, _) = run(Mlr::new(goals(), limits()), &mut device);
        let trials: Vec<_> = search.outcomes().iter().map(|o| (o.load, o.duration, o.loss_ratio())).collect();
        for found in search.found() {
            let judged = judge(&found.goal, &trials);
            assert_eq!((found.lower, found.upper), (judged.lower, judged.upper), "{found:?}");
            assert_eq!(found.throughput, judged.throughput, "{found:?}");
            prop_assert_ne!(found.verdict, Verdict::Unfinished);
        }
    }

    #[test]
    fn whatever_the_tester_does_the_search_ends(
        limit in limit(), tester in limit(), hiccups in 0.0..=1.0, doubts in 0.0..=1.0, seed: u64
    ) {
        let device = Simulated { tester, hiccups, doubts, ..Simulated::new(Device::Limit { limit }, seed) };
        for found in all(&device) {
            let trusted = found.trusted;
            // A load above the device's limit never passes.
            if let (Some(lower), true) = (found.lower, found.goal.loss_ratio == 0.0) {
                assert!(lower <= limit * 1.01 + 1.0, "{found:?}");
            }
            assert!(trusted || doubts > 0.0);
        }
    }

    #[test]
    fn a_slow_tester_is_told_from_a_slow_device(limit in limit(), tester in limit(), seed: u64) {
        let device = Simulated { tester, ..Simulated::new(Device::Limit { limit }, seed) };
        for found in all(&device) {
            if limit * 1.02 < tester {
                assert_encloses(&found, device.limit(&found.goal), 0.0);
            } else if tester * 1.02 < limit {
                assert_eq!(found.verdict, Verdict::TesterTooSlow, "{found:?}");
                assert_eq!(found.upper, None, "nothing failed: {found:?}");
                let reached = found.tester.unwrap();
                assert!((reached - tester).abs() <= tester * 0.002 + 1.0, "{found:?}");
                assert_eq!(found.lower, Some(reached));
            }
        }
    }

    /// The search is interrupted after any trial, stored, read, and continued.
    #[test]
    fn a_search_that_is_resumed_goes_the_same_way(limit in limit(), noise in 0.0..0.02, cut: prop::sample::Index, seed: u64) {
        let fresh = || Simulated { hiccups: 0.1, doubts: 0.1, ..Simulated::new(Device::Noisy { limit, noise }, seed) };
        let method = Mlr::new(goals(), limits());
        let mut device = fresh();
        let mut whole = Search::new(method.clone());
        let mut states = vec![(whole.clone(), device.clone())];
        while let Some(trial) = whole.next() {
            whole.report(device.answer(&trial)).unwrap();
            states.push((whole.clone(), device.clone()));
        }
        let (at, mut device) = states.swap_remove(cut.index(states.len()));
        let stored = serde_json::to_string(&at).unwrap();
        let read: Search<Mlr> = serde_json::from_str(&stored).unwrap();
        let mut resumed = Search::resume(method, read.outcomes().to_vec()).unwrap();
        prop_assert_eq!(&read, &resumed);
        while let Some(trial) = resumed.next() {
            resumed.report(device.answer(&trial)).unwrap();
        }
        prop_assert_eq!(resumed, whole);
    }
}

#[test]
fn a_device_that_loses_nothing_forwards_the_maximum() {
    for found in all(&Simulated::new(Device::Clean, 1)) {
        assert_eq!(
            (found.verdict, found.lower, found.upper),
            (Verdict::MaximumPasses, Some(MAXIMUM), None),
            "{found:?}"
        );
        assert_eq!(found.throughput, Some(MAXIMUM));
    }
}

#[test]
fn a_device_that_always_loses_has_no_throughput_without_loss() {
    for found in all(&Simulated::new(Device::Lossy { loss: 0.002 }, 1)) {
        if found.goal.loss_ratio == 0.0 {
            assert_eq!(
                (found.verdict, found.lower, found.upper),
                (Verdict::MinimumFails, None, Some(MINIMUM)),
                "{found:?}"
            );
            assert_eq!(found.throughput, None);
        } else {
            assert_eq!(found.verdict, Verdict::MaximumPasses, "{found:?}");
            assert!((found.throughput.unwrap() / MAXIMUM - 0.998).abs() < 1e-6, "{found:?}");
        }
    }
    for found in all(&Simulated::new(Device::Lossy { loss: 1.0 }, 1)) {
        assert_eq!(found.verdict, Verdict::MinimumFails, "{found:?}");
    }
}

#[test]
fn a_tester_that_sends_nothing_is_no_device_that_loses() {
    let device = Simulated { tester: 0.0, ..Simulated::new(Device::Clean, 1) };
    for found in all(&device) {
        assert_eq!((found.verdict, found.tester), (Verdict::TesterTooSlow, Some(0.0)), "{found:?}");
    }
}

#[test]
fn verification_repeats_what_was_lossy_and_only_that() {
    let limit = 1e6;
    let loads = |verify| {
        let (search, _) =
            run(Binary::new("b", limits(), 60.0, 0.005, verify), &mut Simulated::new(Device::Limit { limit }, 1));
        search.outcomes().iter().map(|outcome| outcome.load).collect::<Vec<_>>()
    };
    let mut verified = loads(verify());
    let failed = verified.iter().filter(|load| **load > limit).count();
    let passed = verified.len() - failed;
    verified.dedup();
    assert_eq!(verified, loads(None), "the same loads");
    assert_eq!(failed / 2 + passed, verified.len());
    // If any loss counts at once, nothing is repeated.
    assert_eq!(loads(Some(Verify { trials: 2, at_once: Some(0) })), loads(None));
}

#[test]
fn one_loss_that_does_not_come_again_does_not_count_when_verified() {
    let mut search = Search::new(Binary::new("b", limits(), 60.0, 0.005, verify()));
    let mut first = true;
    while let Some(trial) = search.next() {
        let frames = trial.frames();
        search.report(Outcome::new(&trial, frames, frames, frames - u64::from(first))).unwrap();
        first = false;
    }
    assert_eq!(search.outcomes().len(), 2);
    assert_eq!(search.found().verdict, Verdict::MaximumPasses);
}

#[test]
fn trials_of_other_settings_are_not_gone_on_with() {
    let mut device = Simulated::new(Device::Limit { limit: 1e6 }, 1);
    let (search, _) = run(Mlr::new(goals(), limits()), &mut device);
    let outcomes = search.outcomes().to_vec();
    let narrower = Limits { maximum: 1e7, ..limits() };
    let error = Search::resume(Mlr::new(goals(), narrower), outcomes.clone()).unwrap_err();
    assert!(matches!(error, Mismatch::Other { number: 1, .. }), "{error}");
    assert!(error.to_string().contains("trial 1 was 14880952 frames/s for 1 s, but"), "{error}");
    let error = Search::resume(Mlr::new(vec![Goal::rfc2544()], limits()), outcomes).unwrap_err();
    assert!(matches!(error, Mismatch::TooMany { .. } | Mismatch::Other { .. }), "{error}");
}

#[test]
fn the_time_left_is_estimated_and_reaches_zero() {
    let mut random = Random(7);
    for _ in 0..20 {
        let limit = MAXIMUM * 0.9 * 0.01f64.powf(random.share());
        let mut device = Simulated::new(Device::Limit { limit }, 1);
        let mut search = Search::new(Mlr::new(goals(), limits()));
        let (_, cost) = run(search.method().clone(), &mut device.clone());
        let first = search.left(AROUND);
        assert!(first.seconds > cost.seconds / 2.0 && first.seconds < cost.seconds * 2.0, "{first:?} {cost:?}");
        while let Some(trial) = search.next() {
            assert!(search.left(AROUND).trials > 0);
            search.report(device.answer(&trial)).unwrap();
        }
        let last = search.left(AROUND);
        assert_eq!((last.trials, last.seconds), (0, 0.0));
    }
}

/// A tester that sends only half of the frames in every fifth trial does not lead to wrong results. The seeds are
/// fixed.
#[test]
fn a_tester_that_stumbles_finds_the_limit_all_the_same() {
    let limit = 2e6;
    let right = (0..200).filter(|seed| {
        let mut device = Simulated { hiccups: 0.2, ..Simulated::new(Device::Limit { limit }, *seed) };
        let found = run(Mlr::new(vec![Goal::rfc2544(), Goal::tst009()], limits()), &mut device).0.found();
        let encloses =
            |found: &Found| found.lower.is_some_and(|l| l <= limit) && found.upper.is_some_and(|u| u > limit);
        found.iter().all(|found| found.verdict == Verdict::Regular && encloses(found))
    });
    assert_eq!(right.count(), 200);
}

/// Trials for a hard limit. RFC 2544's goal: the maximum; the upper bound, which fails at once; the lower bound at
/// three targets. TST009's goal: the upper bound at the other two targets as well. Two goals whose loss ratios differ
/// by the width share a load, so that three loads are tried 11 times each instead of four.
#[test]
fn a_hard_limit_takes_few_trials() {
    let mut random = Random(3);
    let short = Goal { name: "ndr".into(), final_duration: 1.0, duration_sum: 21.0, ..Goal::tst009() };
    let short_partial = Goal { name: "pdr".into(), loss_ratio: 0.005, ..short.clone() };
    for (goals, most) in [
        (vec![Goal::rfc2544()], 5),
        (vec![Goal::tst009()], 7),
        (vec![Goal::rfc2544(), Goal::tst009()], 7),
        (vec![short, short_partial], 36),
    ] {
        for _ in 0..50 {
            let limit = MAXIMUM * 0.95 * 0.02f64.powf(random.share());
            let (_, cost) = run(Mlr::new(goals.clone(), limits()), &mut Simulated::new(Device::Limit { limit }, 1));
            assert!(cost.trials <= most, "{limit}: {cost:?} {goals:?}");
        }
    }
}

/// A device with a known limit is found within 0.5 % in at most half of the time that binary search with verification
/// takes. In simulated time: the trials' durations plus 7 s for each. `--nocapture` shows the figures.
#[test]
fn mlrsearch_takes_less_than_half_of_the_time_of_a_verified_binary_search() {
    type Kind = (&'static str, fn(f64) -> Device);
    let kinds: [Kind; 6] = [
        ("limit", |limit| Device::Limit { limit }),
        ("noise 1 %", |limit| Device::Noisy { limit, noise: 0.01 }),
        ("spikes", |limit| Device::Spikes { limit, often: 0.005, loss: 0.001 }),
        ("buffer", |limit| Device::Bucket { limit, frames: 4096.0 }),
        ("tiring 3 %", |limit| Device::Tiring { short: limit * 1.03, long: limit }),
        ("livelock", |limit| Device::Livelock { limit }),
    ];
    println!("mean of 100 devices: trials, seconds, share of verified binary search's seconds");
    println!(
        "device      plain binary         verified binary      mlr: rfc2544         mlr: tst009          mlr: both"
    );
    for (name, device) in kinds {
        let mut random = Random(1);
        let mut sums = [(0usize, 0.0); 5];
        for seed in 0..100 {
            let limit = MAXIMUM * 0.95 * 0.02f64.powf(random.share());
            let device = Simulated::new(device(limit), seed);
            let binary = |verify| run(Binary::new("b", limits(), 60.0, 0.005, verify), &mut device.clone()).1;
            let mlr = |goals| run(Mlr::new(goals, limits()), &mut device.clone()).1;
            let costs = [
                binary(None),
                binary(verify()),
                mlr(vec![Goal::rfc2544()]),
                mlr(vec![Goal::tst009()]),
                mlr(vec![Goal::rfc2544(), Goal::tst009()]),
            ];
            for (sum, cost) in sums.iter_mut().zip(costs) {
                *sum = (sum.0 + cost.trials, sum.1 + cost.seconds);
            }
        }
        print!("{name:10}");
        for (trials, seconds) in sums {
            print!("  {:4.1} {:6.0} s ({:.2})", trials as f64 / 100.0, seconds / 100.0, seconds / sums[1].1);
        }
        println!();
        for (_, seconds) in &sums[2..] {
            assert!(seconds / sums[1].1 <= 0.5, "{name}");
        }
    }
}
