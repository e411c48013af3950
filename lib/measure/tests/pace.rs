// SPDX-License-Identifier: MIT
//! Pacing with testers that are fast, slow, pause, or meet a device that takes less than it is given.

use perigee_measure::pace::{ALLOWANCE, Account, Bursting, Departures, Due, Limit, Pacer, Pattern, Rate, Request};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn limit(frames: impl Into<Option<u64>>, duration: impl Into<Option<u64>>) -> Limit {
    Limit { frames: frames.into(), duration: duration.into() }
}

fn patterns() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Line),
        (1e3..1e8).prop_map(|rate| Pattern::Constant { rate }),
        (1e3..1e8, any::<u64>()).prop_map(|(rate, seed)| Pattern::Poisson { rate, seed }),
        (1e4..1e8, 1u32..600, 1u64..100_000).prop_map(|(within, frames, gap)| Pattern::Bursts {
            frames,
            within: Some(within),
            spacing: Bursting::Gap(gap)
        }),
    ]
}

/// Departures by a schedule that is never late: a pacer whose allowance is endless and whose device takes all.
fn all_departures(pattern: Pattern, start: u64, limit: Limit, until: u64) -> Vec<u64> {
    let mut pacer = Pacer::new(pattern, start, limit, u64::MAX);
    let mut times = vec![];
    loop {
        let due = pacer.due(until, 1);
        if due.frames == 0 {
            return times;
        }
        times.push(due.first.unwrap());
        pacer.sent(until, 1);
    }
}

proptest! {
    /// Whatever the tester and the device do: each departure is sent in time, or given up, or still ahead.
    #[test]
    fn nothing_vanishes(
        pattern in patterns(), start in 0u64..1 << 40, frames in prop::option::of(0u64..3000), duration in prop::option::of(1u64..2_000_000),
        allowance in prop_oneof![Just(0), 0u64..50_000, Just(u64::MAX)],
        turns in prop::collection::vec((prop_oneof![9 => 0u64..3000, 1 => 0u64..300_000], 0usize..300, 0usize..300), 1..80),
    ) {
        let limit = limit(frames, duration);
        let mut pacer = Pacer::new(pattern, start, limit, allowance);
        let mut now = start;
        let mut sent = 0;
        for (pause, most, takes) in turns {
            now += pause;
            let due = pacer.due(now, most);
            prop_assert!(due.frames <= most);
            if let Some(first) = due.first && pattern != Pattern::Line && due.frames > 0 {
                prop_assert!(first <= now && now - first <= allowance, "due {} at {}", first, now);
            }
            if due.frames == 0 && most > 0 {
                prop_assert!(due.first.is_none_or(|first| first > now), "{:?} at {}", due, now);
            }
            let taken = due.frames.min(takes);
            pacer.sent(now, taken);
            sent += taken as u64;
            let account = pacer.account();
            prop_assert_eq!(account.sent, sent);
            if let Account { intended: Some(intended), pending: Some(pending), unsent, .. } = account {
                prop_assert_eq!(intended, sent + unsent + pending);
            }
        }
        let account = pacer.finish(now);
        if pattern == Pattern::Line {
            prop_assert!(account.unsent == 0 && sent <= frames.unwrap_or(u64::MAX));
        } else {
            // The same departures, counted one by one.
            let departures = all_departures(pattern, start, limit, now);
            prop_assert_eq!(account.sent + account.unsent, departures.len() as u64);
            if let Some(intended) = account.intended {
                let all = all_departures(pattern, start, limit, start + 400 * SECOND);
                prop_assert_eq!(all.len() as u64, intended);
            }
        }
        prop_assert_eq!(pacer.achieved().gaps.count(), sent.saturating_sub(1));
        prop_assert!(pacer.achieved().lateness.max().is_none_or(|late| late <= allowance));
    }
}

/// A tester that comes often and a device that takes everything: every departure leaves at its moment.
#[test]
fn a_constant_rate_over_a_day_does_not_drift() {
    let rate = 1e10 / 672.0;
    let mut pacer = Pacer::new(Pattern::Constant { rate }, 5, limit(None, 24 * 3600 * SECOND), u64::MAX);
    let intended = pacer.account().intended.unwrap();
    // 86,400 s of 10 Gbit/s / 672 bit are 1,285,714,285,714.28 frames, the last of them just before the end.
    assert_eq!(intended, 1_285_714_285_715);
    // Skip a day, all but the last frames, by a tester that slept.
    let end = 5 + 24 * 3600 * SECOND;
    let mut awake = Pacer::new(Pattern::Constant { rate }, 5, limit(None, 24 * 3600 * SECOND), 1000);
    let due = awake.due(end - 1, 256);
    assert_eq!(due.frames as u64 + awake.account().unsent, intended);
    // Within a us are 14 or 15 departures.
    assert!((14..=16).contains(&due.frames), "{due:?}");
    let due = pacer.due(end, 256);
    pacer.sent(end, due.frames);
    assert_eq!(pacer.account().sent, 256);
}

#[test]
fn a_slow_device_is_not_waited_for() {
    // 1 Mpps for 1 ms, a device that takes every second frame, an allowance of 10 us.
    let mut pacer = Pacer::new(Pattern::Constant { rate: 1e6 }, 0, limit(None, SECOND / 1000), 10_000);
    for now in 0..1_100_000 {
        let due = pacer.due(now, 32);
        if now % 2000 == 0 {
            pacer.sent(now, due.frames.min(1));
        }
    }
    let account = pacer.finish(1_100_000);
    assert_eq!((account.intended, account.pending), (Some(1000), Some(0)));
    // At its end, it has sent one per 2 us, and those that were due within the allowance of the end.
    assert!((500..=506).contains(&account.sent), "{account:?}");
    assert_eq!(account.sent + account.unsent, 1000);
    assert!(pacer.achieved().lateness.max().unwrap() <= 10_000);
}

#[test]
fn gaps_are_measured() {
    let mut pacer = Pacer::new(Pattern::Constant { rate: 1e5 }, 1000, limit(5, None), ALLOWANCE);
    assert_eq!(pacer.due(0, 32), Due { frames: 0, first: Some(1000) });
    assert_eq!(pacer.achieved().summary(), None);
    for now in [1000, 11_999, 23_000] {
        assert_eq!(pacer.due(now, 32).frames, 1);
        pacer.sent(now, 1);
    }
    // A pause, and two are caught up.
    assert_eq!(pacer.due(41_500, 32), Due { frames: 2, first: Some(31_000) });
    pacer.sent(41_500, 2);
    assert_eq!(pacer.due(50_000, 32), Due { frames: 0, first: None });
    let achieved = pacer.achieved();
    // 10,999 and 11,001 ns; 18,500; 0. Nominal is 10,000.
    assert_eq!((achieved.gaps.count(), achieved.within_1us), (4, 1));
    assert_eq!(achieved.share_within_1us(), Some(0.25));
    assert_eq!((achieved.gaps.min(), achieved.gaps.max()), (Some(0), Some(18_500)));
    assert_eq!((achieved.lateness.min(), achieved.lateness.max()), (Some(0), Some(10_500)));
    let summary = achieved.summary().unwrap();
    assert_eq!((summary.gaps, summary.together, summary.within_1us, summary.gap_mean_ns), (4, 1, 0.25, 10_125.0));
    assert_eq!((summary.gap_min_ns, summary.gap_max_ns, summary.late_max_ns), (0, 18_500, Some(10_500)));
    // Of 0, 10,999, 11,001 and 18,500.
    assert!((10_999..11_400).contains(&summary.gap_p50_ns) && summary.gap_p99_9_ns == 18_500, "{summary:?}");
    let expected = Account { intended: Some(5), sent: 5, unsent: 0, pending: Some(0) };
    assert_eq!(pacer.account(), expected);
}

#[test]
fn line_rate_takes_what_there_is() {
    let mut pacer = Pacer::new(Pattern::Line, 100, limit(100, None), 0);
    assert_eq!(pacer.due(99, 64), Due { frames: 0, first: Some(100) });
    assert_eq!(pacer.due(100, 64).frames, 64);
    pacer.sent(100, 64);
    assert_eq!(pacer.account(), Account { intended: Some(100), sent: 64, unsent: 0, pending: Some(36) });
    assert_eq!(pacer.due(200, 64).frames, 36);
    pacer.sent(200, 36);
    assert_eq!(pacer.due(300, 64), Due { frames: 0, first: None });
    let mut timed = Pacer::new(Pattern::Line, 100, limit(None, 50), 0);
    assert_eq!((timed.due(149, 64).frames, timed.account().intended), (64, None));
    timed.sent(149, 10);
    assert_eq!(timed.due(150, 64), Due { frames: 0, first: None });
    assert_eq!(timed.account(), Account { intended: Some(10), sent: 10, unsent: 0, pending: Some(0) });
}

#[test]
fn an_interrupted_trial_says_what_was_not_due() {
    let mut pacer = Pacer::new(Pattern::Constant { rate: 1000.0 }, 0, limit(None, SECOND), ALLOWANCE);
    let due = pacer.due(10, 32).frames;
    pacer.sent(10, due);
    let account = pacer.finish(100_000_000);
    // Departures at 0, 1 ms, ..., 100 ms: one sent, 100 given up, 899 were not due.
    assert_eq!(account, Account { intended: Some(1000), sent: 1, unsent: 100, pending: Some(899) });
}

#[test]
#[should_panic(expected = "2 frames were sent, and 1 were due")]
fn more_than_was_due_is_a_mistake() {
    let mut pacer = Pacer::new(Pattern::Constant { rate: 1e6 }, 0, limit(None, None), ALLOWANCE);
    pacer.due(0, 32);
    pacer.sent(0, 2);
}

#[test]
fn requests() {
    let request = |text: &str| serde_json::from_str::<Request>(text).unwrap();
    let (ten, size) = (Some(1e10), 64.0);
    let full = 1e10 / 672.0;
    let pattern = |text: &str, line| request(text).pattern(size, line).map_err(|error| error.to_string());
    assert_eq!(pattern(r#"{"rate": "1Mpps"}"#, None), Ok(Pattern::Constant { rate: 1e6 }));
    assert_eq!(pattern(r#"{"rate": "line"}"#, ten), Ok(Pattern::Line));
    assert_eq!(
        pattern(r#"{"rate": "50%", "departures": {"poisson": {"seed": 7}}}"#, ten),
        Ok(Pattern::Poisson { rate: full / 2.0, seed: 7 })
    );
    assert_eq!(
        pattern(r#"{"rate": "1Mpps", "departures": {"bursts": {"frames": 32}}}"#, ten),
        Ok(Pattern::Bursts { frames: 32, within: Some(full), spacing: Bursting::Mean(1e6) })
    );
    assert_eq!(
        pattern(r#"{"rate": "line", "departures": {"bursts": {"frames": 32, "gap_ns": 1000}}}"#, ten),
        Ok(Pattern::Bursts { frames: 32, within: Some(full), spacing: Bursting::Gap(1000) })
    );
    let says = |text: &str, part: &str| {
        let error = pattern(text, ten).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    };
    says(r#"{"rate": "15Mpps"}"#, "ask for at most 14880952pps");
    says(r#"{"rate": "line", "departures": {"poisson": {"seed": 7}}}"#, "the departures need a rate");
    says(r#"{"rate": "1Mpps", "departures": {"bursts": {"frames": 0}}}"#, "1 frame or more");
    assert!(serde_json::from_str::<Request>(r#"{"rate": "1Mpps", "departure": "constant"}"#).is_err());
    assert_eq!(Request { rate: Rate::Line, departures: Departures::default() }.pattern(size, None), Ok(Pattern::Line));
}
