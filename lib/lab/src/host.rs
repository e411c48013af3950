// SPDX-License-Identifier: MIT
//! A machine next to the router: a namespace with an interface `eth0`.

use crate::process::run;
use crate::{Bird, Ended, Frr, LONGEST_WAIT, Place, Process, World, wait_seeing};
use anyhow::{Context as _, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// A machine: a network namespace of its own.
pub struct Host {
    name: String,
    /// Of the world.
    folder: PathBuf,
}

impl Host {
    pub(crate) fn empty(world: &World, name: &str) -> Result<Host> {
        world.ip(&format!("netns add {name}"))?;
        let host = Host { name: name.to_owned(), folder: world.folder().to_owned() };
        host.ip("link set lo up")?;
        Ok(host)
    }

    pub(crate) fn new(
        world: &World,
        name: &str,
        interface: &str,
        addresses: &[&str],
        gateways: &[&str],
    ) -> Result<Host> {
        let host = Host::empty(world, name)?;
        // Linux answers one of traceroute's probes per second; here it should answer all.
        for family in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
            host.set(family, "0")?;
        }
        world
            .ip(&format!("link add {interface} type veth peer name eth0 netns {name}"))
            .context("two namespaces cannot be connected; `sudo modprobe veth` loads the driver")?;
        // Linux has no address on the router's end, so everything that arrives at the host comes from perigee.
        world.ip(&format!("link set {interface} addrgenmode none"))?;
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            host.ip(&format!("addr add {address} dev eth0{nodad}"))?;
        }
        host.ip("link set eth0 up")?;
        for gateway in gateways {
            let family = if gateway.contains(':') { "-6" } else { "-4" };
            host.ip(&format!("{family} route add default via {gateway}"))?;
        }
        Ok(host)
    }

    /// Runs `ip` here. Not `ip -n`, which mounts a `/sys` of the namespace: containers without root may not.
    fn ip(&self, words: &str) -> Result<()> {
        self.run(&format!("ip {words}")).output().map(drop)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its programs run.
    pub fn place(&self) -> Place {
        Place::Host(self.name.clone())
    }

    /// Runs a command on this host to its end.
    pub fn run(&self, words: &str) -> Ended {
        run(&mut self.place().command(words))
    }

    /// Starts a command on this host.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, words: &str) -> Result<Process> {
        Process::start(&mut self.place().command(words))
    }

    /// Starts BIRD on this host; at most one per host.
    ///
    /// # Errors
    /// It does not come up.
    pub fn bird(&self, configuration: &str) -> Result<Bird> {
        self.settle()?;
        Bird::start(self.place(), &self.folder, configuration)
    }

    /// Starts daemons of FRR on this host, such as `["zebra", "ospfd"]`, with options behind their names.
    ///
    /// # Errors
    /// One does not come up, or complains.
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Result<Frr> {
        self.settle()?;
        Frr::start(self.place(), &self.folder, daemons, configuration)
    }

    /// Waits for the end of duplicate address detection: until then Linux takes no route by a link-local gateway, and a
    /// daemon tries that again much later.
    fn settle(&self) -> Result<()> {
        let shown = || self.run("ip -6 addr show dev eth0 scope link -tentative").output();
        wait_seeing(LONGEST_WAIT, "the link-local address to be valid", shown, |shown| shown.contains("fe80")).map(drop)
    }

    /// Waits until Linux sends through `eth0`. From when the other end is up until a work queue of the kernel comes to
    /// it, which takes seconds on a busy machine, it drops what is sent, and counts nothing.
    ///
    /// # Errors
    /// It does not get there.
    pub fn has_link(&self) -> Result<()> {
        let shown = || self.run("ip -br link show dev eth0 up").output();
        let is_up = |shown: &String| shown.split_whitespace().nth(1) == Some("UP");
        wait_seeing(LONGEST_WAIT, "eth0 to have a link", shown, is_up).map(drop)
    }

    /// Sets `/proc/sys/net/NAME` on this host.
    ///
    /// # Errors
    /// The kernel does not know it, or takes no such value.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/net/{name}");
        self.inside(|| std::fs::write(&path, value).with_context(|| format!("{path} cannot be set to {value}")))?
    }

    /// Calls `f` on this host: sockets it makes are this host's.
    ///
    /// # Errors
    /// The host's namespace cannot be entered.
    ///
    /// # Panics
    /// `f` does.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        // Namespaces belong to threads.
        std::thread::scope(|scope| {
            let body = || {
                let path = format!("/run/netns/{}", self.name);
                let file = File::open(&path).with_context(|| format!("{path} cannot be opened"))?;
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("the namespace of {} cannot be entered", self.name))?;
                Ok(f())
            };
            scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
