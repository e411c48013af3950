// SPDX-License-Identifier: MIT
//! The programs that the demo runs: found, run with a time limit, and their failures told.

use anyhow::{Context, Result, anyhow, bail};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Programs, and the Debian packages they come from.
const NEEDED: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("traceroute", "traceroute"),
    ("iperf3", "iperf3"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("timeout", "coreutils"),
];

/// What `--bgp` needs besides.
const NEEDED_FOR_BGP: [(&str, &str); 2] = [("bird", "bird2"), ("birdc", "bird2")];

/// Seconds after which a program that does not end is ended.
const LIMIT: &str = "30";

/// PATH, with the folders that Debian keeps from users' PATH although anyone may run what is in them.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}

/// Whether a program is in one of the folders.
pub fn found(program: &str, search_path: &str) -> bool {
    std::env::split_paths(search_path).any(|folder| folder.join(program).is_file())
}

/// Are all programs there?
pub fn require(search_path: &str, bgp: bool) -> Result<()> {
    match missing(bgp, |program| found(program, search_path)) {
        Some(sentence) => bail!(sentence),
        None => Ok(()),
    }
}

/// What is missing, in a sentence that says how to get it.
fn missing(bgp: bool, found: impl Fn(&str) -> bool) -> Option<String> {
    let needed = NEEDED.into_iter().chain(NEEDED_FOR_BGP.into_iter().filter(|_| bgp));
    let missing: Vec<_> = needed.filter(|(program, _)| !found(program)).collect();
    let programs: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let are = if programs.len() == 1 { "is" } else { "are" };
    (!programs.is_empty()).then(|| {
        format!(
            "{} {are} not installed, and the demo runs {}: `sudo apt install {}`",
            programs.join(", "),
            if programs.len() == 1 { "it" } else { "them" },
            packages.join(" ")
        )
    })
}

/// A program with its arguments, in words separated by spaces. It has no standard input.
pub fn command(words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null());
    command
}

/// A program in the network namespace of a host.
pub fn on(host: &str, words: &str) -> String {
    format!("nsenter --net=/run/netns/{host} {words}")
}

/// Runs a program to its end, whatever that is.
pub fn output(words: &str) -> Result<Output> {
    let output = command(&format!("timeout {LIMIT} {words}")).output();
    let output = output.with_context(|| format!("`{words}` cannot be run"))?;
    if output.status.code() == Some(124) {
        bail!("`{words}` did not end within {LIMIT} seconds");
    }
    Ok(output)
}

/// Runs a program that must succeed; what it printed.
pub fn run(words: &str) -> Result<String> {
    let output = output(words)?;
    if !output.status.success() {
        bail!("`{words}` failed: {}", said(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program's own words about its failure, in one line.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join("; ") }
}

/// Twins need the TUN driver.
pub fn require_tun() -> Result<()> {
    let path = Path::new("/dev/net/tun");
    if !path.exists() {
        bail!(
            "/dev/net/tun is missing: `sudo modprobe tun` makes it; a container is started with --device /dev/net/tun"
        );
    }
    let opened = std::fs::File::options().read(true).write(true).open(path);
    opened.map_err(|error| {
        anyhow!(
            "/dev/net/tun cannot be opened: {error}; `sudo chmod 666 /dev/net/tun` helps, or run `sudo perigee demo`"
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert_eq!(missing(true, |_| true), None);
        let one = missing(true, |program| program != "ping").unwrap();
        assert_eq!(one, "ping is not installed, and the demo runs it: `sudo apt install iputils-ping`");
        let bird = |bgp| missing(bgp, |program| !program.starts_with("bird"));
        assert_eq!(bird(false), None);
        let wanted = "bird, birdc are not installed, and the demo runs them: `sudo apt install bird2`";
        assert_eq!(bird(true).as_deref(), Some(wanted));
        let three = missing(false, |program| !["unshare", "nsenter", "iperf3"].contains(&program)).unwrap();
        assert_eq!(
            three,
            "iperf3, unshare, nsenter are not installed, and the demo runs them: `sudo apt install iperf3 util-linux`"
        );
    }

    #[test]
    fn failures_are_told_in_the_programs_words() {
        let failure = format!("{:#}", run("ls /does-not-exist").unwrap_err());
        assert!(failure.starts_with("`ls /does-not-exist` failed: ls: "), "{failure}");
        let failure = format!("{:#}", run("false").unwrap_err());
        assert_eq!(failure, "`false` failed: exit status: 1");
    }
}
