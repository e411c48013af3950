// SPDX-License-Identifier: MIT
//! Whole runs on simulated devices: all tests in their order, resuming anywhere, the file of a run, and bad settings.

mod simulated;
mod whole;

use perigee_measure::run::store::{self, Header};
use perigee_measure::run::{Family, Maximum, Run, Settings, Test, Ways, outcome};
use perigee_measure::search::profile::Profile;
use perigee_measure::search::{Outcome, Purpose};
use proptest::prelude::*;
use serde_json::json;
use simulated::{Device, Simulated};
use whole::{environment, finish, quick, record};

/// A device that forwards 600,000 frames/s: less than the line at 64 bytes, more at 1518.
fn device() -> Simulated {
    Simulated::new(Device::Bucket { limit: 6e5, frames: 500.0 }, 1)
}

fn finished(settings: Settings, mut device: Simulated) -> Run {
    let mut run = Run::new(settings).unwrap();
    finish(&mut run, &mut device, |_| ());
    run
}

fn tests(run: &Run) -> Vec<(u32, Test)> {
    run.stages().iter().map(|stage| (stage.size, stage.test())).collect()
}

#[test]
fn all_tests_at_each_size_in_their_order() {
    let run = finished(quick(), device());
    use Test::{BackToBack, Latency, LossRate, Recovery, Throughput};
    let small = [Throughput, Latency, LossRate, BackToBack, Recovery].map(|test| (64, test));
    // At 1518 bytes the device is as fast as the line, so nothing can overload it.
    let large = [Throughput, Latency, LossRate].map(|test| (1518, test));
    assert_eq!(tests(&run), [small.as_slice(), &large].concat());
    let skipped: Vec<_> = run.skipped().iter().map(|skipped| (skipped.size, skipped.test)).collect();
    assert_eq!(skipped, [(1518, BackToBack), (1518, Recovery)]);
    let found = run.stages()[0].throughput().unwrap();
    assert!((found[0].throughput.unwrap() / 6e5 - 1.0).abs() < 0.011, "{found:?}");
    let trials: usize = run.stages().iter().map(|stage| stage.outcomes().len()).sum();
    assert_eq!(run.records().len(), trials);
}

#[test]
fn throughput_comes_along_where_it_is_needed_and_reset_is_run_at_the_smallest_size() {
    let with = |tests: &[Test]| {
        let profile = Profile::quick().with(json!({"reset": {"duration": 2.0, "after": 0.5, "repeats": 1}})).unwrap();
        let settings = Settings { tests: tests.to_vec(), ..Settings { profile, ..quick() } };
        tests_of(settings)
    };
    fn tests_of(settings: Settings) -> Vec<(u32, Test)> {
        tests(&finished(settings, device()))
    }
    assert_eq!(with(&[Test::LossRate]), [(64, Test::LossRate), (1518, Test::LossRate)]);
    assert_eq!(with(&[Test::Reset]), [(64, Test::Throughput), (64, Test::Reset)]);
    let latency = [Test::Throughput, Test::Latency];
    assert_eq!(with(&[Test::Latency]), [64, 1518].map(|size| latency.map(|test| (size, test))).concat());
}

#[test]
fn a_device_that_drops_everything_has_a_loss_rate_and_no_more() {
    let run = finished(quick(), Simulated::new(Device::Lossy { loss: 1.0 }, 1));
    assert_eq!(tests(&run), [64, 1518].map(|size| [(size, Test::Throughput), (size, Test::LossRate)]).concat());
    assert_eq!(run.skipped().len(), 6);
    assert!(run.skipped().iter().all(|skipped| skipped.why == "no throughput was found"), "{:?}", run.skipped());
}

/// A run that is stored after each trial, read and continued is the run that was not interrupted.
#[test]
fn a_run_is_resumed_at_every_point() {
    let device = Simulated { hiccups: 0.1, doubts: 0.1, ..device() };
    let (mut run, mut at) = (Run::new(quick()).unwrap(), 0);
    finish(&mut run, &mut device.clone(), |run| {
        let resumed = Run::resume(run.settings().clone(), run.records().to_vec()).unwrap();
        assert_eq!(&resumed, run);
        at += 1;
    });
    assert!(run.is_over() && run.records().len() == at);
    let mut text = store::line(&Header::new("a device", run.settings(), &environment()));
    run.records().iter().for_each(|record| text += &store::line(record));
    let stored = store::read(text.as_bytes(), "run.jsonl").unwrap();
    assert_eq!((stored.note, stored.whole, &stored.header.target[..]), (None, text.len() as u64, "a device"));
    assert_eq!(stored.header.environment, environment());
    assert_eq!(Run::resume(stored.header.settings, stored.records).unwrap(), run);
}

#[test]
fn time_left_and_the_line_for_people() {
    let mut run = Run::new(quick()).unwrap();
    let first = run.progress();
    assert_eq!((first.done, first.now.as_ref().map(|(size, _)| *size)), (0, Some(64)));
    let mut lines = vec![];
    let mut lefts = vec![];
    finish(&mut run, &mut device(), |run| {
        let progress = run.progress();
        assert!(progress.left.trials > 0 && progress.left.seconds > 0.0);
        lines.push(progress.to_string());
        lefts.push(progress.left);
    });
    assert!(lines[0].starts_with("64 bytes: throughput (no_loss): maximum load, 1st trial; about "), "{}", lines[0]);
    assert!(lines.iter().any(|line| line.starts_with("64 bytes: latency at 50 % of the throughput, 2 of 3; about")));
    assert!(lines.last().unwrap().starts_with("1518 bytes: frame loss rate, 2nd trial; about "), "{lines:?}");
    // The last trial is the last that was expected, and by the middle the estimate is within a third.
    assert_eq!(lefts.last().unwrap().trials, 1);
    let (middle, truth) = (lefts[lefts.len() / 2].trials as f64, (lefts.len() - lefts.len() / 2) as f64);
    assert!((middle / truth - 1.0).abs() < 0.34, "{middle} {truth}");
    let last = run.progress();
    assert_eq!((last.left.trials, last.to_string()), (0, format!("all {} trials are done", run.records().len())));
}

#[test]
fn other_records_are_refused() {
    let run = finished(quick(), device());
    let records = run.records().to_vec();
    let error = |settings: Settings, records: &[_]| {
        let error = Run::resume(settings, records.to_vec()).unwrap_err().to_string();
        assert!(error.contains("start a new"), "{error}");
        error
    };
    let sizes = Settings { sizes: vec![128], ..quick() };
    assert!(error(sizes, &records).starts_with("record 1 is a trial with frames of 64 bytes, but with these settings"));
    let slower = Settings { maximum: Maximum::Line(1e8), ..quick() };
    let told = error(slower, &records);
    assert!(told.starts_with("record 1, 64 bytes, throughput (no_loss): maximum load: trial 1 was 14880"), "{told}");
    let fewer = Settings { tests: vec![Test::LossRate], ..quick() };
    let told = error(fewer, &records);
    let says = "record 1 is a trial for throughput (no_loss): maximum load, but with these settings it would be one for frame loss";
    assert!(told.starts_with(says), "{told}");
    let mut more = records.clone();
    more.push(records[0].clone());
    assert!(error(quick(), &more).starts_with(&format!("found record {}, but with", records.len() + 1)));
    // And as a whole, by the settings themselves.
    assert_eq!(quick().difference(&quick()), None);
    let profile = Profile::quick().with(json!({"settle": {"pause": 5.0}})).unwrap();
    let told = quick().difference(&Settings { profile, ..quick() }).unwrap();
    assert_eq!(
        told,
        "the stored run has 0.2 for profile.settle.pause, and now it is 5.0; repeat the settings of the stored run, or start a \
         new one"
    );
}

#[test]
fn impossible_settings_are_refused() {
    let rates = |rates: &[(u32, f64)]| Maximum::Frames(rates.iter().copied().collect());
    for (settings, says) in [
        (Settings { sizes: vec![], ..quick() }, "found no frame sizes"),
        (Settings { sizes: vec![64, 64], ..quick() }, "found the frame size 64 twice"),
        (Settings { sizes: vec![63], ..quick() }, "found a frame size of 63 bytes, expected 64 to 9216"),
        (Settings { family: Family::Ipv6, ..quick() }, "found a frame size of 64 bytes, expected 84 to 9216"),
        (Settings { tests: vec![], ..quick() }, "found no tests"),
        (Settings { tests: vec![Test::Reset], ..quick() }, "found the test reset, which the profile quick does not"),
        (Settings { maximum: rates(&[(64, 1e6)]), ..quick() }, "found no maximum rate for frames of 1518 bytes"),
        (Settings { maximum: rates(&[(64, 1.0)]), ..quick() }, "at 64 bytes: found a maximum load of 1 frames/s"),
        (Settings { maximum: Maximum::Line(f64::NAN), ..quick() }, "at 64 bytes: found a maximum load of NaN"),
    ] {
        let error = Run::new(settings).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
    let mut broken = quick();
    broken.profile.loss_rate.as_mut().unwrap().step = 0.5;
    assert!(Run::new(broken).unwrap_err().to_string().starts_with("profile: loss_rate.step: found 0.5"));
}

#[test]
fn a_file_that_is_cut_off_or_broken() {
    let run = finished(Settings { tests: vec![Test::LossRate], ..quick() }, device());
    let header = store::line(&Header::new("t", run.settings(), &environment()));
    let lines: Vec<String> = run.records().iter().map(store::line).collect();
    let text = header.clone() + &lines.concat();
    for cut in [1, 2, lines.last().unwrap().len() - 1] {
        let stored = store::read(&text.as_bytes()[..text.len() - cut], "run.jsonl").unwrap();
        assert_eq!(stored.records, run.records()[..lines.len() - 1]);
        assert_eq!(stored.whole as usize, text.len() - lines.last().unwrap().len());
        let note = stored.note.unwrap();
        assert!(note.starts_with(&format!("run.jsonl, line {}: it is cut off", lines.len() + 1)), "{note}");
    }
    let error = |text: &str| store::read(text.as_bytes(), "run.jsonl").unwrap_err().to_string();
    assert!(error("").starts_with("run.jsonl: found no whole line"));
    assert!(error(&header[..40]).starts_with("run.jsonl: found no whole line"));
    assert!(error("[]\n").starts_with("run.jsonl, line 1: found "), "{}", error("[]\n"));
    let other = header.replace("perigee-rfc2544/1", "perigee-rfc2544/2");
    assert!(error(&other).starts_with("run.jsonl: found the format \"perigee-rfc2544/2\", expected"));
    let unknown = header.replace("\"family\":", "\"familly\":");
    assert!(
        error(&unknown).starts_with("run.jsonl, line 1: found settings.familly: unknown field"),
        "{}",
        error(&unknown)
    );
    let broken = text.replacen("\"sent\":", "\"sent\":-", 1);
    let told = error(&broken);
    assert!(
        told.starts_with("run.jsonl, line 2: found outcome.sent: invalid value") && told.contains("a trial"),
        "{told}"
    );
    let told = error(&(header.clone() + &lines[0].replace('\n', " {}\n")));
    assert!(told.starts_with("run.jsonl, line 2: found trailing characters at column "), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever device and tester are like, both ways or one: a run ends, and is the same from its stored records.
    #[test]
    fn every_run_ends(
        limit in 1e3..2e6f64, room in 0.0..1e5f64, tester in 1e3..2e6f64, hiccups in 0.0..0.5f64, doubts in 0.0..0.5f64,
        both: bool, seed: u64,
    ) {
        let ways = if both { Ways::Both } else { Ways::One };
        let device = Device::Bucket { limit, frames: room };
        let mut device = Simulated { tester, hiccups, doubts, ..Simulated::new(device, seed) };
        let mut run = Run::new(Settings { ways, ..quick() }).unwrap();
        finish(&mut run, &mut device, |_| ());
        prop_assert_eq!(run.left().trials, 0);
        let mut text = store::line(&Header::new("t", run.settings(), &environment()));
        run.records().iter().for_each(|record| text += &store::line(record));
        let stored = store::read(text.as_bytes(), "t").unwrap();
        prop_assert_eq!(&stored.records, run.records());
        prop_assert_eq!(Run::resume(stored.header.settings, stored.records).unwrap(), run);
    }
}

/// Both directions count. Doubts of both are said once, those of one with its name.
#[test]
fn an_outcome_is_that_of_both_directions() {
    let (size, trial) = Run::new(Settings { ways: Ways::Both, ..quick() }).unwrap().next().unwrap();
    let mut simulated = Simulated { doubts: 1.0, ..device() };
    let answer = simulated.answer(&trial);
    let record = record(size, trial.clone(), &answer, 0, Ways::Both);
    assert_eq!(
        (record.outcome.intended, record.outcome.sent, record.outcome.received),
        (2 * answer.intended, 2 * answer.sent, 2 * answer.received)
    );
    let why = |outcome: &Outcome| outcome.doubts.iter().map(|doubt| doubt.why[..10].to_owned()).collect::<Vec<_>>();
    assert_eq!(why(&record.outcome), ["The tester"]);
    let mut directions = record.directions.clone();
    directions[0].verdict.doubts.clear();
    assert_eq!(why(&outcome(&trial, &directions)), ["p1 to p0: "]);
    assert!(matches!(record.trial.purpose, Purpose::Throughput { .. }));
}
