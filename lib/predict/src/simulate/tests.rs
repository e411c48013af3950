// SPDX-License-Identifier: MIT
//! The protocol, with programs that follow it and programs that do not: shell scripts in a folder of the test.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const ANSWER: &str = r#"{"ns3": "3.37", "events": 123456, "packets": 7000, "measured_s": 0.01, "offered_pps": 1e6, "offered_gbps": 0.672,
    "accepted_pps": 9.9e5, "accepted_gbps": 0.66528, "loss": 0.01, "drops": {"receive_ring": 70, "transmit_ring": 20, "punt_ring": 10},
    "sojourn_ns": {"mean": 700, "p50": 600, "p90": 900, "p99": 1500, "p99.9": 2500, "max": 9000}, "sojourn_little_ns": 701,
    "batch_mean": 1.5, "utilisation": [0.5, 0.625], "shares": [0.4, 0.6]}"#;

fn scenario() -> Scenario {
    let profile = r#"{"format": "perigee-profile/1", "name": "n", "model": "eq7", "fit": {"points": [1, 2]},
        "parameters": {"a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321}}"#;
    Scenario {
        profile: Profile::parse(profile, "test").unwrap(),
        cores: 2,
        directions: 2,
        rate_gbps: 0.672,
        rate_pps: 1e6,
        sizes: vec![(64, 0.75), (1518, 0.25)],
        flows: 100,
        arrivals: Arrivals::Poisson,
        seed: 7,
        warm_up: 1000,
        packets: 5000,
        settled: true,
    }
}

/// Runs a script instead of the simulator. It is called with `--scenario=-`, and has the scenario on its standard
/// input.
fn run(script: &str, timeout: Duration) -> Result<Figures, SimulationError> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(PROGRAM);
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let simulator = Simulator::find(Some(&program), None, timeout).unwrap().unwrap();
    loop {
        match simulator.run(&scenario()) {
            // Another test's child has the script open from before its exec: soon it has not.
            Err(SimulationError::Absent { source, .. }) if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
            result => return result,
        }
    }
}

const LONG: Duration = Duration::from_secs(180);

fn error(script: &str) -> String {
    run(script, LONG).unwrap_err().to_string()
}

#[test]
fn an_answer_becomes_figures() {
    let figures = run(&format!("cat <<'END'\n{ANSWER}\nEND"), LONG).unwrap();
    assert_eq!((figures.offered_pps, figures.accepted_pps, figures.loss), (1e6, Some(9.9e5), Some(0.01)));
    assert_eq!(figures.sojourn_ns, Some(Percentiles { p50: 600.0, p90: 900.0, p99: 1500.0, p999: 2500.0 }));
    assert_eq!((figures.mean_ns, figures.batch, figures.busiest()), (Some(700.0), Some(1.5), Some(0.625)));
    assert_eq!(figures.methods.mean.to_string(), "ns-3 3.37 simulation: 123,456 events, 7,000 packets");
}

/// The program is given all that the contract names; the fit's report stays at home.
#[test]
fn a_scenario_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen.json");
    run(&format!("test \"$1\" = --scenario=- && cat > {}\ncat <<'END'\n{ANSWER}\nEND", seen.display()), LONG).unwrap();
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(seen).unwrap()).unwrap();
    let expected = serde_json::json!({
        "cores": 2, "ports": 2, "link_gbps": 10.0, "directions": 2, "rate_gbps": 0.672, "flows": 100, "arrivals": "poisson",
        "sizes": [{"bytes": 64, "weight": 0.75}, {"bytes": 1518, "weight": 0.25}], "seed": 7,
        "warm_up_s": 0.001, "duration_s": 0.005,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&json[key], value, "{key}");
    }
    assert_eq!(json.as_object().unwrap().len(), expected.as_object().unwrap().len() + 1);
    assert!(json["profile"]["fit"].is_null());
    assert_eq!(Profile::parse(&json["profile"].to_string(), "scenario").unwrap().model, scenario().profile.model);
}

#[test]
fn what_is_no_answer_is_told() {
    assert!(error("echo hello").contains("found \"hello\""));
    assert!(error("exit 0").contains("found \"\""));
    assert!(error("printf '\\377\\376'").contains("no text"));
    assert!(
        error("echo 'link_gbps: found 0, expected > 0' >&2; exit 1")
            .ends_with("exit status: 1: link_gbps: found 0, expected > 0")
    );
    assert!(error("kill -SEGV $$").contains("signal: 11"));
    assert!(error("head -c 3000000 /dev/zero").contains("more than 1024 KiB"));
    for (from, to, expected) in [
        ("\"loss\": 0.01", "\"loss\": 2.003", "loss 2.003"),
        ("\"loss\": 0.01", "\"loss\": -0.01", "loss -0.01"),
        ("\"mean\": 700", "\"mean\": -700", "sojourn_ns.mean -700"),
        ("[0.5, 0.625]", "[0.5]", "utilisation of 1 cores instead of 2"),
        ("[0.5, 0.625]", "[0.5, 7]", "utilisation 7"),
        ("\"packets\": 7000", "\"packets\": 0", "without packets"),
        ("\"events\": 123456,", "", "missing field `events`"),
        ("\"measured_s\": 0.01", "\"measured_s\": \"long\"", "invalid type"),
        ("\"measured_s\": 0.01", "\"measured_s\": 0", "a simulation without packets"),
    ] {
        let changed = ANSWER.replace(from, to);
        assert_ne!(changed, ANSWER);
        let said = Answer::parse(&changed, 2).unwrap_err();
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let nobody = ANSWER.replace("\"mean\": 700, \"p50\": 600", "\"mean\": null, \"p50\": null");
    let figures = Answer::parse(&nobody, 2).unwrap().figures(true);
    assert_eq!((figures.mean_ns, figures.sojourn_ns), (None, None));
}

/// A program that never ends is ended, and one that leaves its pipes to another does not hold us up.
#[test]
fn a_program_that_takes_too_long_is_stopped() {
    let short = Duration::from_millis(300);
    for script in ["exec sleep 60", "sleep 5 & exit 0", "while true; do echo x; done >&2"] {
        let late = run(script, short).unwrap_err();
        assert!(matches!(late, SimulationError::Late { .. }), "{script}: {late}");
    }
}

#[test]
fn programs_are_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("nothing");
    let expected = Simulator::find(Some(&absent), None, LONG).unwrap_err().to_string();
    assert!(expected.contains("libns3-dev") && expected.contains("./x ns3"), "{expected}");
    // Beside the executable's folder: target/release/perigee, target/ns3/softrouter-predict.
    let perigee = folder.path().join("release").join("perigee");
    let program = folder.path().join("ns3").join(PROGRAM);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, "").unwrap();
    let found = Simulator::find(None, Some(&perigee), LONG).unwrap();
    // A PERIGEE_NS3 in the environment comes first.
    if env::var_os(VARIABLE).is_none() {
        assert_eq!(found.unwrap().program(), program);
    }
    let no_program = Simulator { program: folder.path().to_owned(), timeout: LONG };
    assert!(matches!(no_program.run(&scenario()), Err(SimulationError::Absent { .. })), "a folder cannot be started");
}

proptest! {
    #[test]
    fn any_answer_is_taken_or_refused(text in "\\PC{0,60}") {
        let _ = Answer::parse(&text, 2);
    }

    /// Mutations of an answer, byte by byte.
    #[test]
    fn answers_that_are_nearly_right(changes in prop::collection::vec((0..ANSWER.len(), any::<u8>()), 1..6)) {
        let mut bytes = ANSWER.as_bytes().to_vec();
        for (place, byte) in changes {
            bytes[place] = byte;
        }
        if let Ok(answer) = Answer::parse(&String::from_utf8_lossy(&bytes), 2) {
            let figures = answer.figures(true);
            prop_assert!((0.0..=1.0).contains(&figures.loss.unwrap()) && figures.busiest().unwrap() <= 1.0);
        }
    }
}
