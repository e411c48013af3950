// SPDX-License-Identifier: MIT
//! Frame loss rate and back-to-back frames on simulated devices. These, latency, recovery and reset are resumed.

mod simulated;

use perigee_measure::search::back_to_back::{Applies, BackToBack};
use perigee_measure::search::evidence::Trust;
use perigee_measure::search::latency::Latency;
use perigee_measure::search::loss_rate::LossRate;
use perigee_measure::search::recovery::{Recovery, Reset};
use perigee_measure::search::{Method, Search, Shape};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use simulated::{AROUND, Device, Random, Simulated, run};

const MAXIMUM: f64 = 14_880_952.0;

fn loss_rate() -> LossRate {
    LossRate { maximum: MAXIMUM, step: 0.1, duration: 60.0, trust: Trust::default() }
}

fn back_to_back(throughput: f64) -> BackToBack {
    BackToBack {
        maximum: MAXIMUM,
        throughput,
        longest: 2.0,
        repeats: 50,
        resolution: 64,
        idle: 2.0,
        trust: Trust::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn loss_is_measured_down_to_two_loads_without(share in 0.001..0.999f64, seed: u64) {
        let limit = share * MAXIMUM;
        let (search, _) = run(loss_rate(), &mut Simulated::new(Device::Limit { limit }, seed));
        let curve = search.found();
        prop_assert!(curve.complete);
        for (step, point) in curve.points.iter().enumerate() {
            assert!((point.load / MAXIMUM - (1.0 - step as f64 / 10.0)).abs() < 1e-9, "{point:?}");
            assert!((point.loss_ratio - (1.0 - limit / point.load).max(0.0)).abs() < 1e-6, "{point:?}");
        }
        let clean = curve.points.iter().filter(|point| point.loss_ratio == 0.0).count();
        // There are no steps below the lowest one.
        assert_eq!(clean, 2.min(curve.points.iter().filter(|point| point.load <= limit).count()));
        assert!(clean == 2 || curve.points.len() == 10, "{curve:?}");
    }

    #[test]
    fn a_slow_testers_curve_starts_where_it_can(share in 0.15..0.9f64, tester in 0.15..0.9f64, seed: u64) {
        let (limit, tester) = (share * MAXIMUM, tester * MAXIMUM);
        let mut device = Simulated { tester, ..Simulated::new(Device::Limit { limit }, seed) };
        let curve = run(loss_rate(), &mut device).0.found();
        prop_assert!(curve.complete);
        for point in &curve.points {
            // A thousandth that is not sent is no shortfall (`Trust::unsent`).
            assert!(point.load * 0.999 <= tester + 1.0, "{point:?}");
            let offered = point.load.min(tester);
            assert!((point.loss_ratio - (1.0 - limit / offered).max(0.0)).abs() < 1e-6, "{point:?}");
        }
    }

    /// A device with a buffer, which forwards while the burst arrives.
    #[test]
    fn the_longest_burst_says_how_large_the_buffer_is(share in 0.01..0.95f64, room in 100.0..100_000.0f64, seed: u64) {
        let throughput = share * MAXIMUM;
        let method = back_to_back(throughput);
        let (search, cost) = run(method.clone(), &mut Simulated::new(Device::Bucket { limit: throughput, frames: room }, seed));
        let found = search.found();
        let longest = room / (1.0 - share);
        prop_assert_eq!(found.applies, Applies::Yes);
        prop_assert_eq!(found.longest.len(), 50);
        for frames in &found.longest {
            prop_assert!((*frames as f64 - longest).abs() <= 64.0 + 1.0, "{} {}", frames, longest);
        }
        let corrected = found.corrected_buffer.unwrap();
        prop_assert!((corrected - room / MAXIMUM).abs() <= 66.0 / MAXIMUM, "{} {}", corrected, room / MAXIMUM);
        prop_assert!((found.implied_buffer.unwrap() - longest / MAXIMUM).abs() <= 66.0 / MAXIMUM);
        // Halving alone would take 19 trials for each.
        prop_assert!(cost.trials <= 50 * 6, "{:?}", cost);
    }

    #[test]
    fn bursts_end_whatever_the_device_and_the_tester_do(
        loss in 0.0..=1.0, tester in 0.1..1.1f64, hiccups in 0.0..=1.0, doubts in 0.0..=1.0, seed: u64
    ) {
        for device in [Device::Lossy { loss }, Device::Limit { limit: MAXIMUM * 0.3 }, Device::Clean] {
            let mut device = Simulated { tester: tester * MAXIMUM, hiccups, doubts, ..Simulated::new(device, seed) };
            let found = run(back_to_back(MAXIMUM * 0.3), &mut device).0.found();
            prop_assert_eq!(found.longest.len(), 50);
            prop_assert_ne!(found.applies, Applies::Unfinished);
        }
    }
}

#[test]
fn curves_without_and_with_nothing_but_loss() {
    let points = |device| run(loss_rate(), &mut Simulated::new(device, 1)).0.found().points;
    assert_eq!(points(Device::Clean).len(), 2);
    let lossy = points(Device::Lossy { loss: 0.25 });
    assert_eq!(lossy.len(), 10, "down to a tenth");
    assert!(lossy.iter().all(|point| (point.loss_ratio - 0.25).abs() < 1e-6));
}

#[test]
fn bursts_that_say_nothing_about_buffers() {
    assert_eq!(Search::new(back_to_back(MAXIMUM)).next(), None);
    assert_eq!(Search::new(back_to_back(MAXIMUM)).found().applies, Applies::AtMaximum);
    // The buffer holds more than 2 s.
    let device = Device::Bucket { limit: MAXIMUM * 0.5, frames: 2e7 };
    assert_eq!(run(back_to_back(MAXIMUM * 0.5), &mut Simulated::new(device, 1)).0.found().applies, Applies::TooShort);
    let mut slow = Simulated { tester: MAXIMUM * 0.4, ..Simulated::new(Device::Limit { limit: MAXIMUM * 0.5 }, 1) };
    assert_eq!(run(back_to_back(MAXIMUM * 0.5), &mut slow).0.found().applies, Applies::TesterTooSlow);
}

/// A burst that was shorter than intended, but within the tolerance, used to count with the length that was sent. In
/// long bursts the difference exceeded the resolution, and the same burst was asked for forever.
#[test]
fn a_tester_that_is_hardly_too_slow_does_not_keep_a_burst_search_from_its_end() {
    let device = Device::Bucket { limit: MAXIMUM * 0.9, frames: 1e6 };
    let mut device = Simulated { tester: MAXIMUM * 0.9995, ..Simulated::new(device, 1) };
    let found = run(back_to_back(MAXIMUM * 0.9), &mut device).0.found();
    assert_eq!((found.applies, found.longest.len()), (Applies::Yes, 50));
    assert!((found.longest[0] as f64 / 1e7 - 1.0).abs() < 0.01, "{found:?}");
}

/// RFC 9004 section 6.2: until everything is forwarded, and then for 2 s.
#[test]
fn after_a_burst_the_tester_listens_until_the_device_is_done() {
    let trial = Search::new(back_to_back(MAXIMUM / 4.0)).next().unwrap();
    assert_eq!(trial.frames(), (2.0 * MAXIMUM) as u64);
    let Shape::Burst { listen, .. } = trial.shape else { panic!("{trial:?}") };
    assert!((listen - (8.0 - 2.0 + 2.0)).abs() < 1e-6, "{listen}");
    assert!((trial.seconds() - 10.0).abs() < 1e-6);
}

/// The search is stored as JSON after each trial, read, and continued; the time left reaches zero at its end.
fn resumes<M: Method + Clone + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned>(method: M) {
    let mut device = Simulated { hiccups: 0.1, ..Simulated::new(Device::Bucket { limit: 5e6, frames: 3000.0 }, 3) };
    let mut search = Search::new(method.clone());
    while let Some(trial) = search.next() {
        let left = search.left(AROUND);
        assert!(left.trials > 0 && left.seconds >= f64::from(left.trials) * AROUND, "{left:?}");
        search.report(device.answer(&trial)).unwrap();
        let read: Search<M> = serde_json::from_str(&serde_json::to_string(&search).unwrap()).unwrap();
        assert_eq!(read, search);
        assert_eq!(read.next(), search.next());
    }
    assert_eq!(search.left(AROUND).trials, 0);
    assert_eq!(Search::resume(method, search.outcomes().to_vec()).unwrap(), search);
    let mut more = search.outcomes().to_vec();
    more.push(more[0].clone());
    let error = Search::resume(search.method().clone(), more).unwrap_err().to_string();
    assert!(error.contains(&format!("the search ends after {}", search.outcomes().len())), "{error}");
}

#[test]
fn all_of_them_are_resumed() {
    resumes(loss_rate());
    resumes(BackToBack { repeats: 4, ..back_to_back(5e6) });
    let mut random = Random(5);
    let shares = vec![random.share(), random.share()];
    resumes(Latency { throughput: 1e6, shares, duration: 120.0, tag_after: 60.0, repeats: 4, tagged: 500 });
    let (overload, fall) = (1.1, 0.5);
    resumes(Recovery { throughput: 1e6, maximum: MAXIMUM, overload, duration: 60.0, fall, after: 10.0, repeats: 4 });
    resumes(Reset { throughput: 1e6, duration: 60.0, after: 10.0, repeats: 4 });
}
