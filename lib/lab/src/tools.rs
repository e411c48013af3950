// SPDX-License-Identifier: MIT
//! Programs that a laboratory runs: are they there, and which packages do they come from?

use anyhow::{Result, anyhow, bail};
use std::path::Path;

/// A program, and the Debian package it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool(pub &'static str, pub &'static str);

/// Interfaces and namespaces.
pub const IP: Tool = Tool("ip", "iproute2");
/// Switches checksum offload off.
pub const ETHTOOL: Tool = Tool("ethtool", "ethtool");
/// New namespaces.
pub const UNSHARE: Tool = Tool("unshare", "util-linux");
/// Programs in namespaces.
pub const NSENTER: Tool = Tool("nsenter", "util-linux");
/// A private /run, tried before anything is built.
pub const MOUNT: Tool = Tool("mount", "mount");
/// Echo requests.
pub const PING: Tool = Tool("ping", "iputils-ping");
/// The path, hop by hop.
pub const TRACEROUTE: Tool = Tool("traceroute", "traceroute");
/// TCP.
pub const IPERF3: Tool = Tool("iperf3", "iperf3");
/// BIRD, version 2 or newer.
pub const BIRD: Tool = Tool("bird", "bird2");
/// BIRD's client.
pub const BIRDC: Tool = Tool("birdc", "bird2");
/// FRR, by its client.
pub const FRR: Tool = Tool("vtysh", "frr");
/// Static multicast routes for Linux.
pub const SMCROUTE: Tool = Tool("smcrouted", "smcroute");

/// DPDK's test program, to compare with.
pub const TESTPMD: Tool = Tool("dpdk-testpmd", "dpdk-dev");
/// Programs on cores of their own.
pub const TASKSET: Tool = Tool("taskset", "util-linux");
/// Programs whose output is read line by line.
pub const STDBUF: Tool = Tool("stdbuf", "coreutils");

/// PATH, with the folders that Debian leaves out of users' PATH although anyone may run the programs in them.
pub fn search_path() -> String {
    with_system_folders(&std::env::var("PATH").unwrap_or_default())
}

fn with_system_folders(path: &str) -> String {
    // An empty entry would be the working directory.
    let own = if path.is_empty() { String::new() } else { format!("{path}:") };
    own + "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
}

/// Whether a program is in one of the folders.
pub fn found(program: &str, search_path: &str) -> bool {
    std::env::split_paths(search_path).any(|folder| folder.join(program).is_file())
}

/// Asserts that programs are there; `who` runs them: "the demo".
///
/// # Errors
/// Some are missing; which, and how to get them.
pub fn require(needed: &[Tool], search_path: &str, who: &str) -> Result<()> {
    match missing(needed, who, |program| found(program, search_path)) {
        Some(sentence) => bail!(sentence),
        None => Ok(()),
    }
}

/// The missing programs, in a sentence that says how to get them.
fn missing(needed: &[Tool], who: &str, found: impl Fn(&str) -> bool) -> Option<String> {
    let missing: Vec<_> = needed.iter().filter(|Tool(program, _)| !found(program)).collect();
    let programs: Vec<_> = missing.iter().map(|Tool(program, _)| *program).collect();
    let mut packages: Vec<_> = missing.iter().map(|Tool(_, package)| *package).collect();
    packages.dedup();
    let (are, them) = if programs.len() == 1 { ("is", "it") } else { ("are", "them") };
    (!programs.is_empty()).then(|| {
        format!(
            "{} {are} not installed, and {who} runs {them}: `sudo apt install {}`",
            programs.join(", "),
            packages.join(" ")
        )
    })
}

/// Asserts that the TUN driver is there, for twins and wires; `sudo` is a command that may open it in any case.
///
/// # Errors
/// It is not, or may not be used.
pub fn require_tun(sudo: &str) -> Result<()> {
    let path = Path::new("/dev/net/tun");
    if !path.exists() {
        bail!("/dev/net/tun is missing: `sudo modprobe tun` makes it; a container is started with --privileged");
    }
    let opened = std::fs::File::options().read(true).write(true).open(path);
    opened.map_err(|error| {
        anyhow!("/dev/net/tun cannot be opened: {error}; `sudo chmod 666 /dev/net/tun` helps, or run `{sudo}`")
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_path_does_not_mean_the_working_directory() {
        assert!(with_system_folders("").starts_with("/usr/local/sbin:/usr/sbin:"));
        assert!(with_system_folders("/opt/bin").starts_with("/opt/bin:/usr/local/sbin:"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let all = [PING, UNSHARE, NSENTER, IPERF3, BIRD, BIRDC];
        let without = |gone: &[&str]| missing(&all, "the demo", |program| !gone.contains(&program));
        assert_eq!(without(&[]), None);
        let one = "ping is not installed, and the demo runs it: `sudo apt install iputils-ping`";
        assert_eq!(without(&["ping"]).as_deref(), Some(one));
        let bird = "bird, birdc are not installed, and the demo runs them: `sudo apt install bird2`";
        assert_eq!(without(&["bird", "birdc"]).as_deref(), Some(bird));
        let three =
            "unshare, nsenter, iperf3 are not installed, and the demo runs them: `sudo apt install util-linux iperf3`";
        assert_eq!(without(&["unshare", "nsenter", "iperf3"]).as_deref(), Some(three));
    }
}
