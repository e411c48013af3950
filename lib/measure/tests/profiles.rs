// SPDX-License-Identifier: MIT
//! Profiles: their contents, overrides, mistakes in them, and how long they take.

mod simulated;

use perigee_measure::search::back_to_back::BackToBack;
use perigee_measure::search::goal::Goal;
use perigee_measure::search::profile::{Mistake, Profile};
use perigee_measure::search::throughput::{Throughput, Verdict};
use perigee_measure::search::{Method, Search};
use serde_json::{Value, json};
use simulated::{Device, Simulated};

#[test]
fn all_are_good_and_come_back_from_json() {
    for name in Profile::NAMES {
        let profile = Profile::named(name).unwrap();
        assert_eq!(profile.name, name);
        profile.check().unwrap();
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        assert_eq!(profile.with(json!({})).unwrap(), profile);
    }
    let error = Profile::named("fast").unwrap_err();
    assert_eq!(error.to_string(), "found the profile fast, expected one of rfc2544, tst009, quick");
}

#[test]
fn what_the_rfcs_ask_for() {
    let profile = Profile::rfc2544();
    assert_eq!(profile.sizes, [64, 128, 256, 512, 1024, 1280, 1518]);
    assert_eq!((profile.settle.drain, profile.settle.pause, profile.around()), (2.0, 5.0, 9.0 + profile.settle.ramp));
    let goal = &profile.throughput.goals[0];
    assert_eq!((goal.final_duration, goal.duration_sum, goal.loss_ratio, goal.exceed_ratio), (60.0, 60.0, 0.0, 0.0));
    let latency = profile.latency(1e6).unwrap();
    assert!(latency.duration >= 120.0 && latency.tag_after >= 60.0 && latency.repeats >= 20 && latency.tagged >= 500);
    assert!(latency.shares.contains(&1.0));
    let bursts = profile.back_to_back(2e6, 1e6).unwrap();
    assert!(bursts.longest >= 2.0 && bursts.repeats >= 50 && bursts.idle >= 2.0);
    let recovery = profile.recovery(2e6, 1e6).unwrap();
    assert_eq!((recovery.overload, recovery.duration, recovery.fall), (1.1, 60.0, 0.5));
    let goal = &Profile::tst009().throughput.goals[0];
    assert_eq!((goal.final_duration, goal.duration_sum, goal.loss_ratio, goal.exceed_ratio), (60.0, 120.0, 0.0, 0.5));
}

#[test]
fn values_are_overridden_one_by_one() {
    let profile = Profile::quick()
        .with(json!({"sizes": [512], "latency": {"repeats": 9}, "loss_rate": null, "reset": {"duration": 9, "after": 1, "repeats": 1}}))
        .unwrap();
    let latency = profile.latency.clone().unwrap();
    assert_eq!((profile.sizes.as_slice(), latency.repeats, latency.duration), ([512].as_slice(), 9, 1.0));
    assert_eq!((profile.loss_rate(1e6), profile.reset(1e6).unwrap().duration), (None, 9.0));
}

#[test]
fn the_search_is_the_one_that_was_chosen() {
    let chosen =
        |overrides| Profile::rfc2544().with(json!({"throughput": overrides})).unwrap().throughput(1e6).unwrap();
    let Throughput::Mlr(mlr) = chosen(json!({})) else { panic!() };
    assert_eq!((mlr.goals, mlr.limits.minimum), (vec![Goal::rfc2544()], 1e3));
    let Throughput::Binary(plain) = chosen(json!({"search": "binary", "verify": {"trials": 2}})) else { panic!() };
    assert_eq!((plain.duration, plain.width, plain.verify), (60.0, 0.005, None));
    let Throughput::Binary(verified) = chosen(json!({"search": "verified", "verify": {"trials": 3, "at_once": 100}}))
    else {
        panic!()
    };
    let verify = verified.verify.unwrap();
    assert_eq!((verify.trials, verify.at_once), (3, Some(100)));
}

#[test]
fn mistakes_say_where_what_and_what_instead() {
    let goal = |changes: Value| {
        let mut goal = serde_json::to_value(Goal::rfc2544()).unwrap();
        goal.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"throughput": {"goals": [goal]}})
    };
    let cases = [
        (json!({"size": [64]}), "size: unknown field `size`, expected one of"),
        (
            json!({"settle": {"drains": 1}}),
            "settle.drains: unknown field `drains`, expected one of `learning`, `ramp`, `drain`, `pause`",
        ),
        (json!({"latency": {"repeats": "many"}}), "latency.repeats: invalid type: string \"many\", expected u32"),
        (json!({"latency": {"repeats": 0}}), "latency.repeats: found 0, expected 1 to 10000"),
        (json!({"sizes": [64, 63]}), "sizes[1]: found 63, expected a frame size with its FCS, 64 to 9216 bytes"),
        (json!({"sizes_ipv6": [64]}), "sizes_ipv6[0]: found 64, expected a frame size with its FCS, 84 to 9216 bytes"),
        (json!({"settle": {"pause": -1}}), "settle.pause: found -1, expected 0 s to a day"),
        (json!({"trust": {"attempts": 0}}), "trust.attempts: found 0, expected 1"),
        (json!({"trust": {"unsent": 1}}), "trust.unsent: found 1, expected a share"),
        (json!({"throughput": {"goals": []}}), "throughput.goals: found [], expected a goal"),
        (json!({"throughput": {"minimum": 0}}), "throughput.minimum: found 0, expected a share above 0 and below 1"),
        (json!({"throughput": {"search": "verified"}}), "throughput.verify: found None, expected `trials`, at least 2"),
        (json!({"throughput": {"search": "quick"}}), "throughput.search: unknown variant `quick`, expected one of"),
        (goal(json!({"width": 1})), "throughput.goals[0].width: found 1, expected a share above 0 and below 1"),
        (goal(json!({"loss_ratio": 1})), "throughput.goals[0].loss_ratio: found 1, expected a share from 0, below 1"),
        (goal(json!({"exceed_ratio": -0.1})), "throughput.goals[0].exceed_ratio: found -0.1"),
        (goal(json!({"final_duration": 0})), "throughput.goals[0].final_duration: found 0, expected more than 0 s"),
        (
            goal(json!({"duration_sum": 30})),
            "goals[0].duration_sum: found 30, expected at least the final duration, 60 s",
        ),
        (
            goal(json!({"initial_duration": 61})),
            "goals[0].initial_duration: found 61, expected more than 0 s, and at most",
        ),
        (json!({"latency": {"shares": []}}), "latency.shares: found none, expected loads"),
        (json!({"latency": {"shares": [1.1]}}), "latency.shares[0]: found 1.1, expected a share of the throughput"),
        (json!({"latency": {"tag_after": 120}}), "latency.tag_after: found 120, expected from 0 s, and less than"),
        (
            json!({"loss_rate": {"step": 0.2}}),
            "loss_rate.step: found 0.2, expected a share of the maximum from 0.001 to 0.1",
        ),
        (json!({"back_to_back": {"resolution": 0}}), "back_to_back.resolution: found 0, expected at least one frame"),
        (json!({"back_to_back": {"longest": 1e9}}), "back_to_back.longest: found 1000000000, expected more than 0 s"),
        (json!({"recovery": {"overload": 0.9}}), "recovery.overload: found 0.9, expected a multiple"),
        (json!({"recovery": {"fall": 1}}), "recovery.fall: found 1, expected a share"),
        (
            json!({"reset": {"duration": 1, "after": 1, "repeats": 1}}),
            "reset.after: found 1, expected from 0 s, and less",
        ),
    ];
    for (overrides, expected) in cases {
        let error = Profile::rfc2544().with(overrides).unwrap_err();
        assert!(error.to_string().contains(expected), "found {error}, expected {expected}");
    }
    let twice =
        Profile::rfc2544().with(json!({"throughput": {"goals": [Goal::rfc2544(), Goal::rfc2544()]}})).unwrap_err();
    assert!(matches!(&twice, Mistake::Value { expected, .. } if expected.contains("a name of its own")), "{twice}");
    let two = json!({"throughput": {"search": "binary", "goals": [Goal::rfc2544(), Goal::tst009()]}});
    assert!(Profile::rfc2544().with(two).unwrap_err().to_string().contains("one goal, as binary search has no more"));
}

#[test]
fn a_maximum_has_frames_in_the_shortest_trial() {
    let profile = Profile::quick();
    for maximum in [f64::NAN, f64::INFINITY, -1.0, 0.0, 7.9] {
        let error = profile.throughput(maximum).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("expected at least 8, two in the shortest trial; raise it, or `initial_duration`"),
            "{error}"
        );
    }
    // The minimum amounts to at least one frame.
    let Throughput::Mlr(search) = profile.throughput(100.0).unwrap() else { panic!() };
    assert_eq!((search.limits.minimum, search.limits.maximum), (4.0, 100.0));
}

/// Runs a search; returns its time including the time around each trial.
fn seconds<M: Method>(method: M, device: &mut Simulated, around: f64) -> (Search<M>, f64) {
    let mut search = Search::new(method);
    let mut seconds = 0.0;
    while let Some(trial) = search.next() {
        seconds += trial.seconds() + around;
        search.report(device.answer(&trial)).unwrap();
    }
    (search, seconds)
}

/// All tests of the quick profile together take less than a minute per frame size, in simulated time, for a device with
/// a buffer and for one with noise.
#[test]
fn quick_takes_a_minute_for_a_frame_size() {
    let maximum = 3e6;
    for device in [Device::Bucket { limit: 1e6, frames: 2000.0 }, Device::Noisy { limit: 1e6, noise: 0.02 }] {
        for (name, limit) in [("quick", 60.0), ("rfc2544", f64::INFINITY), ("tst009", f64::INFINITY)] {
            let profile = Profile::named(name).unwrap();
            let around = profile.around();
            let mut device = Simulated::new(device, 1);
            let (search, throughput) = seconds(profile.throughput(maximum).unwrap(), &mut device, around);
            let found = search.found();
            assert!(found.iter().all(|found| found.verdict == Verdict::Regular), "{found:?}");
            let rate = found[0].throughput.unwrap();
            let (_, loss) = seconds(profile.loss_rate(maximum).unwrap(), &mut device, around);
            let (_, bursts): (Search<BackToBack>, f64) =
                seconds(profile.back_to_back(maximum, rate).unwrap(), &mut device, around);
            let (_, latency) = seconds(profile.latency(rate).unwrap(), &mut device, around);
            let (_, recovery) = seconds(profile.recovery(maximum, rate).unwrap(), &mut device, around);
            let all = throughput + loss + bursts + latency + recovery;
            println!(
                "{name}: {all:.0} s: throughput {throughput:.0} ({} trials), loss rate {loss:.0}, bursts {bursts:.0}, \
                 latency {latency:.0}, recovery {recovery:.0}",
                search.outcomes().len()
            );
            assert!(all < limit, "{name}");
        }
    }
}
