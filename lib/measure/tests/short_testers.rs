// SPDX-License-Identifier: MIT
//! Testers that send less than they are asked for, at random and by up to 90 %: the lower bound is never below what a
//! trial of the same run forwarded, nothing that falls short lowers what is asked for, and a machine that cannot answer
//! says so after a few trials.

mod simulated;

use perigee_measure::search::binary::{Binary, Verify};
use perigee_measure::search::goal::Goal;
use perigee_measure::search::loss_rate::LossRate;
use perigee_measure::search::mlr::Mlr;
use perigee_measure::search::throughput::{Found, Limits, Throughput, Verdict};
use perigee_measure::search::{Outcome, Search};
use proptest::prelude::*;
use simulated::{Device, Simulated, run};

const MAXIMUM: f64 = 14_880_952.0;
const LIMITS: Limits = Limits { minimum: 1000.0, maximum: MAXIMUM };

/// As the profile `quick` has them.
fn quick() -> Vec<Goal> {
    let goal = Goal {
        name: "no_loss".into(),
        exceed_ratio: 0.5,
        final_duration: 1.0,
        duration_sum: 2.0,
        initial_duration: Some(0.25),
        width: 0.01,
        ..Goal::rfc2544()
    };
    vec![goal.clone(), Goal { name: "some_loss".into(), loss_ratio: 0.005, ..goal }]
}

fn searches() -> Vec<Throughput> {
    let binary = |verify| Throughput::Binary(Binary::new("binary", LIMITS, 60.0, 0.005, verify));
    vec![
        Throughput::Mlr(Mlr::new(quick(), LIMITS)),
        Throughput::Mlr(Mlr::new(vec![Goal::rfc2544(), Goal::tst009()], LIMITS)),
        Throughput::Mlr(Mlr::new(vec![Goal { final_duration: 1.0, duration_sum: 21.0, ..Goal::tst009() }], LIMITS)),
        binary(None),
        binary(Some(Verify { trials: 2, at_once: None })),
    ]
}

/// The most that a trial forwarded as the goal demands, whatever it was asked for.
fn proven(goal: &Goal, outcomes: &[Outcome]) -> f64 {
    let proves = |o: &&Outcome| o.sent > 0 && o.duration >= goal.final_duration && o.loss_ratio() <= goal.loss_ratio;
    outcomes.iter().filter(proves).map(Outcome::offered).fold(0.0, f64::max)
}

fn limit() -> impl Strategy<Value = f64> {
    (0.0..1.0f64).prop_map(|share| 4000.0 * (MAXIMUM / 4000.0 * 1.5).powf(share))
}

fn assert_kept(search: &Search<Throughput>, found: &Found) {
    let proven = proven(&found.goal, search.outcomes());
    let reported = found.at_least().unwrap_or(0.0);
    assert!(reported >= 0.95 * proven, "{reported} of {proven}: {found:?}");
    if found.verdict == Verdict::Unanswered {
        assert_eq!((found.throughput, proven), (None, 0.0), "{found:?}");
    } else if found.verdict == Verdict::AtLeast {
        let forwarded = found.throughput.unwrap_or(0.0);
        assert!(forwarded >= 0.95 * proven * (1.0 - found.goal.loss_ratio), "{proven}: {found:?}");
        assert!(
            found.lower >= found.throughput && found.upper.is_none_or(|upper| found.lower < Some(upper)),
            "{found:?}"
        );
    } else if search.outcomes().iter().all(|outcome| outcome.doubts.is_empty()) {
        // Where the tester has lost frames, trials contradict each other; the report names both figures.
        assert!(
            found.throughput.unwrap_or(0.0) >= 0.95 * proven * (1.0 - found.goal.loss_ratio),
            "{proven}: {found:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// 54,212 frames per second were forwarded without loss, and 75.95 were reported.
    #[test]
    fn no_lower_bound_is_below_what_a_trial_of_the_run_forwarded(
        limit in limit(), often in 0.0..=1.0, by in 0.0..=0.9, doubts in 0.0..=1.0, seed: u64
    ) {
        for device in [Device::Limit { limit }, Device::Livelock { limit }, Device::Bucket { limit, frames: limit / 50.0 }] {
            for search in searches() {
                let mut device = Simulated { stumbles: (often, by), doubts, ..Simulated::new(device, seed) };
                let (search, _) = run(search, &mut device);
                for found in search.found() {
                    assert_kept(&search, &found);
                    if let (Some(at_least), 0.0) = (found.at_least(), found.goal.loss_ratio) {
                        let limit = device.limit(&found.goal);
                        prop_assert!(at_least <= limit * 1.01 + 1.0, "{} {:?}", limit, found);
                    }
                    prop_assert_ne!(found.verdict, Verdict::Unfinished, "{:?}", found);
                }
            }
        }
    }

    /// What is asked for next is never less because the tester fell short: 17,920, 7,286, 2,724 frames per second were asked for.
    #[test]
    fn a_tester_that_falls_short_of_a_device_without_limits_is_asked_for_no_less(often in 0.0..=1.0, by in 0.0..=0.9, seed: u64) {
        for search in searches() {
            let mut device = Simulated { stumbles: (often, by), ..Simulated::new(Device::Clean, seed) };
            let (search, _) = run(search, &mut device);
            let mut forwarded: f64 = 0.0;
            for outcome in search.outcomes() {
                prop_assert!(outcome.load >= forwarded * 0.94, "{} after {}", outcome.load, forwarded);
                forwarded = forwarded.max(outcome.offered());
            }
        }
    }

    #[test]
    fn a_curve_of_loss_ends_whatever_the_tester_sends(limit in limit(), often in 0.0..=1.0, by in 0.0..=0.9, seed: u64) {
        let method = LossRate { maximum: MAXIMUM, step: 0.1, duration: 1.0, trust: Default::default() };
        let mut device = Simulated { stumbles: (often, by), ..Simulated::new(Device::Limit { limit }, seed) };
        let (search, _) = run(method, &mut device);
        for point in search.found().points {
            prop_assert!(point.loss_ratio == 0.0 || point.load > limit * 0.99, "{:?}", point);
        }
    }
}

/// Each run beside ten busy loops ended with "this machine cannot answer", though trials were forwarded without loss:
/// it gave up at a load of which every trial lost some frames, and asked for this load twice more.
#[test]
fn a_run_under_load_gives_a_lower_bound() {
    for seed in 0..100 {
        for search in searches() {
            // It sends 20 to 50 % of what it is asked for; a pause costs frames beyond some 20,000 per second.
            let device = Device::Noisy { limit: 20_000.0, noise: 0.9 };
            let mut device =
                Simulated { tester_share: 0.5, stumbles: (1.0, 0.6), pauses: true, ..Simulated::new(device, seed) };
            let (search, cost) = run(search, &mut device);
            let found = search.found();
            found.iter().for_each(|found| assert_kept(&search, found));
            assert!(found[0].throughput > Some(0.0), "{seed}: {found:?}");
            assert!(cost.trials < 60, "{cost:?}");
        }
    }
}

/// It took 42 trials to arrive at "44 pps".
#[test]
fn a_machine_that_cannot_answer_says_so_after_a_few_trials() {
    for search in searches() {
        let mut device = Simulated { tester_share: 0.4, ..Simulated::new(Device::Limit { limit: 1e9 }, 1) };
        let (search, cost) = run(search, &mut device);
        for found in search.found() {
            let short = matches!(found.verdict, Verdict::AtLeast | Verdict::TesterTooSlow);
            assert!(short && found.at_least().is_some_and(|least| least >= MAXIMUM * 0.15), "{found:?}");
        }
        assert!(cost.trials <= 18, "{cost:?}");
    }
}
