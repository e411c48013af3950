// SPDX-License-Identifier: MIT
//! A test that runs itself again where it may make namespaces and interfaces.

use crate::process;
use crate::world::{World, perigee};
use std::any::type_name;
use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

/// Says to a test's process that it is inside its namespaces already.
const INSIDE: &str = "PERIGEE_SCENARIO";
/// What scenarios run, and the Debian packages it comes from.
const TOOLS: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("ping", "iputils-ping"),
    ("traceroute", "traceroute"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
];

/// Begins the lines of [`not_run`].
const NOT_RUN: &str = "NOT RUN: ";

/// Says on standard output what a scenario cannot try here; it passes with what it has tried.
pub fn not_run(reason: &str) {
    println!("{NOT_RUN}{reason}");
}

/// A package that not every scenario needs, and a program that comes with it.
#[derive(Clone, Copy)]
pub struct Needs {
    program: &'static str,
    package: &'static str,
}

impl Needs {
    /// BIRD, version 2 or newer.
    pub const BIRD: Needs = Needs { program: "birdc", package: "bird2" };
    /// FRR.
    pub const FRR: Needs = Needs { program: "vtysh", package: "frr" };
}

/// [`scenario`], for what needs more packages.
///
/// # Panics
/// As there.
pub fn scenario_with<F: FnOnce(&mut World)>(needs: &[Needs], body: F) {
    let missing = needs.iter().find(|needs| which(needs.program).is_none());
    let missing = missing.map(|Needs { program, package }| format!("`{program}` is missing; `apt install {package}`"));
    run_or_skip(missing, body);
}

/// Runs `body` in a world of its own. Called by a test function directly: that one is run again, by its name, in a child
/// process inside new user, network and mount namespaces. Where those are refused, the test says so on a line that begins
/// with SKIPPED, and passes; with `CI=true` in the environment it fails.
///
/// # Panics
/// `body` does, or it is skipped under CI.
pub fn scenario<F: FnOnce(&mut World)>(body: F) {
    run_or_skip(None, body);
}

fn run_or_skip<F: FnOnce(&mut World)>(missing: Option<String>, body: F) {
    // "scenarios::forwarding::ping_crosses::{{closure}}", as the closure was written in that function.
    let name = type_name::<F>().trim_end_matches("::{{closure}}");
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    if std::env::var_os(INSIDE).is_some() {
        process::watch_the_time();
        body(&mut World::new());
    } else if let Some(reason) = missing.as_deref().or_else(|| refused()) {
        // Past the test harness, which would show it only for failed tests.
        let _ = std::io::stderr().write_all(format!("\nSKIPPED {name}: {reason}\n").as_bytes());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped under CI: {reason}");
    } else {
        run_inside(name);
    }
}

fn run_inside(name: &str) {
    perigee(); // fails here with a clear message if there is none
    let me = std::env::current_exe().expect("the path of this test");
    let mut command = Command::new("unshare");
    command.arg("-Urnm").arg(me).args([name, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    command.env("PATH", search_path());
    let done = command.output().expect("unshare runs");
    // Indented, so that nobody takes its results for this process's own.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', "\n  | ");
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    let ran = out.contains("1 passed");
    for line in String::from_utf8_lossy(&done.stdout).lines().filter_map(|line| line.split_once(NOT_RUN)) {
        // Past the test harness, as above.
        let _ = std::io::stdout().write_all(format!("\n{NOT_RUN}{} ({name})\n", line.1).as_bytes());
    }
    assert!(done.status.success() && ran, "{name}, inside its namespaces ({}):\n{out}{err}", done.status);
}

/// Why scenarios cannot run here, found out once.
fn refused() -> Option<&'static str> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let find_out = || {
        let missing = TOOLS.iter().find(|(tool, _)| which(tool).is_none());
        if let Some((tool, package)) = missing {
            return Some(format!("`{tool}` is missing; `apt install {package}`"));
        }
        let possible = Command::new("unshare").args(["-Urnm", "test", "-w", "/dev/net/tun"]).output();
        match possible {
            Ok(done) if done.status.success() => None,
            Ok(done) => {
                let why = String::from_utf8_lossy(&done.stderr);
                Some(format!("`unshare -Urnm` with /dev/net/tun is refused here: {} {}", done.status, why.trim()))
            }
            Err(error) => Some(format!("unshare: {error}")),
        }
    };
    REFUSED.get_or_init(find_out).as_deref()
}

fn which(tool: &str) -> Option<std::path::PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(tool)).find(|file| file.exists())
}

/// PATH, with the folders that Debian keeps from users' PATH although anyone may run what is in them.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin")
}
