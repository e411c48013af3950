// SPDX-License-Identifier: MIT
//! `./x bench forward` as a program: mistakes are said before anything is started. Nothing here needs DPDK to start.

use std::process::Command;

fn refused(arguments: &[&str], said: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_perigee-bench")).arg("forward").args(arguments).output();
    let output = output.expect("perigee-bench runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty() && error.contains(said), "{arguments:?}: {error}");
}

#[test]
fn mistakes_are_said_and_nothing_is_measured() {
    refused(&["--peer", "nameless"], "found \"nameless\", expected NAME=COMMAND");
    refused(
        &["--peer", "x=run -l {cores}"],
        "found {cores} in \"run -l {cores}\", expected some of {source}, {device}",
    );
    refused(&["--peer", "x=run {core"], "found a { without a }");
    refused(&["--peer", "x=a", "--peer", "x=b"], "found the name x again");
    refused(&["--peer", "lpm=a"], "or one of l3fwd's lookups");
    refused(&["--peers", "vpp"], "possible values: l3fwd");
    refused(&["--bursts", "0"], "a burst has 1 to 256 packets");
    refused(&["--pairs", "0"], "--pairs: at least 1");
    let folder = tempfile::tempdir().expect("folder");
    let routes = folder.path().join("routes");
    std::fs::write(&routes, "2001:db8::/32\n").expect("routes");
    refused(&["--routes", routes.to_str().expect("path")], "the file has no IPv4 prefix; expected one");
    if perigee_dpdk::usable_cores().len() < 2 {
        refused(&[], "needs a second one");
    }
}
