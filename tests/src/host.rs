// SPDX-License-Identifier: MIT
//! A machine beside the router: a namespace with an interface `eth0`.

use crate::place::Place;
use crate::process::{Ended, Process, run};
use crate::{Bird, Frr, LONGEST_WAIT, World, wait_until};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::process::Command;

/// A machine with a Linux of its own, as far as networks go.
pub struct Host {
    name: String,
}

impl Host {
    pub(crate) fn empty(world: &World, name: &str) -> Host {
        world.ip(&format!("netns add {name}"));
        world.ip(&format!("-n {name} link set lo up"));
        Host { name: name.to_owned() }
    }

    pub(crate) fn new(world: &World, name: &str, addresses: &[&str], gateways: &[&str]) -> Host {
        let host = Host::empty(world, name);
        // Linux answers traceroute's probes one a second; here it shall answer all.
        for family in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
            host.set(family, "0");
        }
        world.ip(&format!("link add r-{name} type veth peer name eth0 netns {name}"));
        // Checksums left for a device to fill would reach the router unfilled.
        host.run("ethtool -K eth0 tx off").good();
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            world.ip(&format!("-n {name} addr add {address} dev eth0{nodad}"));
        }
        world.ip(&format!("-n {name} link set eth0 up"));
        for gateway in gateways {
            let family = if gateway.contains(':') { "-6" } else { "-4" };
            world.ip(&format!("-n {name} {family} route add default via {gateway}"));
        }
        host
    }

    fn command(&self, words: &str) -> Command {
        self.place().command(words)
    }

    fn place(&self) -> Place {
        Place::host(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts BIRD on this host; one for each.
    pub fn bird(&self, configuration: &str) -> Bird {
        Bird::start(self.place(), &self.name, configuration)
    }

    /// Starts daemons of FRR on this host, such as `["zebra", "ospfd"]`, with options behind their names.
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Frr {
        Frr::start(self.place(), &self.name, daemons, configuration)
    }

    /// Runs a command on this host to its end.
    pub fn run(&self, words: &str) -> Ended {
        run(&mut self.command(words))
    }

    /// Sets `/proc/sys/net/NAME` on this host.
    pub fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        self.inside(|| std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}")));
    }

    /// Starts a command on this host.
    pub fn start(&self, words: &str) -> Process {
        let name = format!("{}-{}", self.name, words.replace([' ', '/'], "_"));
        Process::start(&name, &mut self.command(words))
    }

    /// Calls `f` on this host: sockets it makes are this host's.
    ///
    /// # Panics
    /// `f` does.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        // Namespaces belong to threads.
        std::thread::scope(|scope| {
            let body = || {
                let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace is there");
                setns(file, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
                f()
            };
            scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Waits until an address answers a ping: neighbors are found, duplicate address detection is over.
    pub fn reaches(&self, address: &str) {
        let ping = format!("ping -n -c 1 -W 1 {address}");
        wait_until(&format!("{address} to answer {}", self.name), || self.run(&ping).code == Some(0));
    }

    /// Pings an address once; fails if there is a reply. What ping said.
    #[track_caller]
    pub fn ping_fails(&self, address: &str) -> String {
        let ended = self.run(&format!("ping -n -c 1 -W 2 {address}"));
        assert_eq!(ended.code, Some(1), "a reply, or no ping at all:\n{}", ended.text);
        ended.text
    }

    /// Pings an address some times; fails if a reply is missing or comes twice.
    #[track_caller]
    pub fn ping(&self, count: usize, words: &str) -> Ended {
        self.run(&ping_words(count, words)).every_reply(count)
    }

    /// [`Self::ping`] in the background; ask its end for [`Ended::every_reply`].
    pub fn start_ping(&self, count: usize, words: &str) -> Process {
        self.start(&ping_words(count, words))
    }
}

/// With a deadline, ping waits for as many replies as it was told to get; without, for two round trips only, and a busy
/// machine takes longer at times.
fn ping_words(count: usize, words: &str) -> String {
    format!("ping -n -i 0.005 -c {count} -w {} {words}", LONGEST_WAIT.as_secs())
}
