// SPDX-License-Identifier: MIT
//! `perigee predict run` and `plot` as programs: what they print and write, and their exit codes.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The published 64-byte rows, packet by packet: one way, closed forms are exact.
const PROFILE: &str = r#"{"format": "perigee-profile/1", "name": "published", "model": "contention",
    "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}, "router": {"burst": 1, "link_gbps": 50}}"#;

/// Runs it in a folder with the profile, without a simulator.
fn predict(folder: &Path, arguments: &[&str]) -> Output {
    fs::write(folder.join("profile.json"), PROFILE).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee"));
    command.current_dir(folder).arg("predict").args(arguments).env_remove("PERIGEE_NS3").output().expect("perigee runs")
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = predict(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Its error message, which must be one line.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = predict(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.starts_with("perigee: ") && error.lines().count() == 1, "{error}");
    error
}

const RUN: [&str; 7] =
    ["run", "profile.json", "--rate=3Mpps", "--cores=1..4", "--directions=1", "--closed", "--sizes=64"];

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    RUN.iter().chain(more).copied().collect()
}

#[test]
fn tables_json_and_a_page() {
    let folder = tempfile::tempdir().expect("folder");
    let text = good(folder.path(), &run(&["--objective=loss<0.001%,p99<100us", "--html=page.html"]));
    for part in [
        "published: 3 Mpps of 64 B offered",
        "against load, 2 cores:",
        "throughput: closed form: rates of cores (RSS shares) and links",
        "closed form: M/D/1 per core",
        "2 cores forward 3 Mpps of 64 B with loss<0.001%,p99<100us: loss 0%",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let page = fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("2 cores forward 3 Mpps")
            && page.matches("<svg").count() >= 3
    );
    let json: Value =
        serde_json::from_str(&good(folder.path(), &run(&["--objective=p99<100us", "--json"]))).expect("JSON");
    assert_eq!((json["needed"]["cores"].as_u64(), json["rows"].as_array().map(Vec::len)), (Some(2), Some(4)));
    assert_eq!(json["rows"][0]["capacity_pps"].as_f64().map(|pps| (pps * 563.4 / 1e9 * 1e6).round()), Some(1e6));
    assert!(json["load"].as_array().is_some_and(|load| load.len() > 10));
}

#[test]
fn objectives_out_of_reach_are_a_failure() {
    let folder = tempfile::tempdir().expect("folder");
    let link = refused(
        folder.path(),
        &["run", "profile.json", "--rate=200G", "--objective=loss<0.1%", "--closed", "--cores=1..2"],
    );
    assert!(link.contains("no number of cores reaches this, because the link is the limit"), "{link}");
    let none = refused(folder.path(), &run(&["--objective=p99<1ns"]));
    assert!(none.contains("none of 1..4 cores forwards 3 Mpps of 64 B with p99<1ns"), "{none}");
    let output = predict(folder.path(), &run(&["--objective=p99<1ns", "--json"]));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["needed"]["verdict"], "none");
    // Without an objective, the answer is printed and nothing has failed.
    assert!(
        good(folder.path(), &["run", "profile.json", "--rate=200G", "--closed", "--cores=1..2"])
            .contains("the link is the limit")
    );
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().expect("folder");
    for (arguments, expected) in [
        (&["--rate=10"][..], "--rate: found 10, expected a rate > 0 with its unit"),
        (&["--rate=1G", "--sizes=9"], "--sizes: found 9, expected"),
        (&["--rate=1G", "--cores=4..1"], "--cores: found 4..1, expected the smaller number first: 1..4"),
        (&["--rate=1G", "--flows=0"], "--flows: found 0, expected 1 to"),
        (&["--rate=1G", "--directions=3"], "--directions: found 3, expected 1 or 2"),
        (&["--rate=1G", "--ports=3"], "3 ports, expected 2 to 64 of them, in pairs"),
        (&["--rate=1G", "--link=5Mpps"], "--link: found 5Mpps, expected bits per second"),
        (&["--rate=1G", "--arrivals=often"], "--arrivals: found often, expected poisson or constant"),
        (&["--rate=1G", "--objective=p99<5"], "--objective: found p99<5, expected a limit"),
        (&["--rate=1G", "--packets=1"], "--packets: found 1, expected 1000"),
        (&["--rate=1G", "--seed=0"], "--seed: found 0, expected 1 to"),
        (&["--rate=0.01pps"], "--rate: found 0.01pps, expected at least a packet per second"),
        (&["--rate=1G", "--timeout=18446744073709551615"], "--timeout: found 18446744073709551615, expected seconds"),
        (&["--rate=1G", "--simulate", "--simulator=/nonexistent/simulator"], "libns3-dev"),
        (
            &["--rate=1G", "--cores=1", "--html=/nonexistent/page.html", "--closed"],
            "expected a file that can be written",
        ),
    ] {
        let error = refused(folder.path(), &[&["run", "profile.json"], arguments].concat());
        assert!(error.contains(expected), "{expected}: {error}");
    }
    assert!(refused(folder.path(), &["run", "absent.json", "--rate=1G"]).contains("absent.json"));
}

#[test]
fn tables_are_drawn() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("t.csv"), "# plot: {\"title\": \"A <title>\"}\nload,mean,p99\n0.1,1,2\n0.9,3,40\n")
        .expect("written");
    let svg = good(folder.path(), &["plot", "t.csv", "--log-y"]);
    assert!(svg.starts_with("<svg") && svg.contains("A &lt;title&gt;") && svg.contains(">mean<"));
    assert_eq!(good(folder.path(), &["plot", "t.csv", "--y=p99", "--title=Mine", "-o", "t.svg"]), "");
    let svg = fs::read_to_string(folder.path().join("t.svg")).expect("written");
    assert!(svg.contains("Mine") && !svg.contains("mean"));
    assert!(
        refused(folder.path(), &["plot", "t.csv", "--x=size"])
            .contains("t.csv:2: found no column \"size\", expected one of load, mean, p99")
    );
    fs::write(folder.path().join("t.csv"), "a,b\n1,2\n2,many\n").expect("written");
    assert!(
        refused(folder.path(), &["plot", "t.csv"]).contains("t.csv:3: column b: found \"many\", expected a number")
    );
}
