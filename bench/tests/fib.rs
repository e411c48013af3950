// SPDX-License-Identifier: MIT
//! `./x bench fib` as a program: what it prints, and what its exit code says. Nothing here needs DPDK to start.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const ROUTES: &str =
    "# a table\n0.0.0.0/0\n10.0.0.0/8\n10.1.0.0/16\n10.1.2.3/32\n192.0.2.0/25\n::/0\n2001:db8::/32\n2001:db8:1::/48\n";

fn bench(routes: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee-bench"));
    command
        .args(["fib", "--structures=dir24,trie6", "--seconds=0.001", "--rounds=1", "--shapes=50", "--routes"])
        .arg(routes);
    command.args(more).output().expect("perigee-bench runs")
}

#[test]
fn json_is_an_array_of_objects_with_all_fields() {
    let folder = tempfile::tempdir().expect("folder");
    let (routes, svg) = (folder.path().join("routes"), folder.path().join("fib.svg"));
    std::fs::write(&routes, ROUTES).expect("routes");
    let output =
        bench(&routes, &["--json", "--with-packets", "--patterns=uniform,zipf", "--svg", svg.to_str().expect("path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a JSON array");
    let (shapes, rows): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|row| row["shape"].is_string());
    let name = |row: &Value| format!("{} {} {}", row["structure"], row["family"], row["pattern"]).replace('"', "");
    let mut names: Vec<String> = rows.iter().map(name).collect();
    names.sort();
    let expected = ["dir24 4", "trie6 6"]
        .map(|s| ["uniform", "uniform+packets", "zipf", "zipf+packets"].map(|p| format!("{s} {p}")));
    assert_eq!(names, expected.concat());
    for row in &rows {
        for field in ["mlookups_per_s", "bytes", "build_s", "changes_per_s"] {
            assert!(row[field].as_f64().is_some_and(|number| number > 0.0), "{field} of {row}");
        }
        assert_eq!(row["wrong"], 0, "{row}");
    }
    assert_eq!(shapes.len(), 6, "three shapes of two structures");
    for row in &shapes {
        assert_eq!((&row["tried"], &row["refused"], &row["wrong"]), (&row["prefixes"], &0.into(), &0.into()), "{row}");
        assert!(row["prefixes"].as_u64().is_some_and(|prefixes| prefixes >= 50), "{row}");
    }
    assert!(std::fs::read_to_string(&svg).expect("a drawing").starts_with("<svg"));
}

#[test]
fn a_table_for_people() {
    let folder = tempfile::tempdir().expect("folder");
    let routes = folder.path().join("routes");
    std::fs::write(&routes, ROUTES).expect("routes");
    let output = bench(&routes, &["--family=6", "--patterns=routed"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("| trie6") && text.contains("IPv6, 3 prefixes"), "{text}");
    assert!(!text.contains("dir24"), "one family only: {text}");
}

#[test]
fn mistakes_are_said_and_nothing_is_measured() {
    let folder = tempfile::tempdir().expect("folder");
    let routes = folder.path().join("routes");
    std::fs::write(&routes, "10.0.0.0/8\n10.0.0.1/8\n").expect("routes");
    let refused = |more: &[&str], said: &str| {
        let output = bench(&routes, more);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty() && error.contains(said), "{more:?}: {error}");
    };
    refused(&[], "routes:2: 10.0.0.1/8 has bits set behind its length; expected 10.0.0.0/8");
    std::fs::write(&routes, ROUTES).expect("routes");
    refused(&["--structures=dir25"], "found \"dir25\", expected some of these: dir24");
    refused(&["--family=5"], "expected 4 or 6");
    refused(&["--batch=0"], "expected 1 to 256");
    refused(&["--next-hops=0"], "--next-hops: found 0");
    refused(&["--patterns=random"], "possible values: uniform, routed, sequential, zipf");
}
