// SPDX-License-Identifier: MIT
//! The router's namespace, and what is made in it.

use crate::place::Place;
use crate::process::{Ended, Process, run};
use crate::{Bird, Frr, Host, Router, Wire};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where configurations, scripts and the router's socket are: the whole of /run belongs to the scenario.
const FOLDER: &str = "/run";

/// The program under test: `$PERIGEE`, or the one that cargo built beside this test.
///
/// # Panics
/// There is none.
pub fn perigee() -> PathBuf {
    if let Some(path) = std::env::var_os("PERIGEE") {
        return path.into();
    }
    let me = std::env::current_exe().expect("the path of this test");
    let beside = me.ancestors().nth(2).unwrap_or(Path::new("/")).join("perigee");
    assert!(beside.exists(), "{} is not there; `./x test` builds it, or `cargo build -p perigee`", beside.display());
    beside
}

/// The inside of `unshare -Urnm`: the router's own network namespace, without forwarding by the kernel.
pub struct World {
    _private: (),
}

impl World {
    pub(crate) fn new() -> World {
        let none: Option<&str> = None;
        mount(Some("tmpfs"), FOLDER, Some("tmpfs"), MsFlags::empty(), none).expect("a private /run");
        fs::create_dir("/run/netns").expect("/run/netns");
        let world = World { _private: () };
        world.ip("link set lo up");
        for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let path = format!("/proc/sys/net/{family}");
            fs::write(&path, "0").expect("the kernel's own forwarding can be switched off");
        }
        world
    }

    /// `ip WORDS` in the router's namespace; what it printed.
    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        run(Command::new("ip").args(words.split(' '))).good().out
    }

    /// A host with `eth0`, whose other end is the interface `r-NAME` here. Of the addresses (with their prefix lengths)
    /// and gateways there may be any number of both families.
    pub fn host(&self, name: &str, addresses: &[&str], gateways: &[&str]) -> Host {
        Host::new(self, name, addresses, gateways)
    }

    /// A namespace without any interface.
    pub fn namespace(&self, name: &str) -> Host {
        Host::empty(self, name)
    }

    /// A cable with the test at its other end; `name` is the interface here.
    pub fn wire(&self, name: &str) -> Wire {
        Wire::new(name)
    }

    /// Starts BIRD beside the router, on its twins.
    pub fn bird(&self, configuration: &str) -> Bird {
        Bird::start(Place::router(), "router", configuration)
    }

    /// Starts daemons of FRR beside the router, such as `["zebra", "ospfd"]`, with options behind their names.
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Frr {
        Frr::start(Place::router(), "router", daemons, configuration)
    }

    /// Writes a file; its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = Path::new(FOLDER).join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Writes `router.toml`, whose `[router]` and `[eal]` suit a test; `router` is more lines for the one, `rest` all
    /// other sections.
    pub fn configuration(&self, router: &str, rest: &str) -> PathBuf {
        let text = format!(
            "[router]\nname = \"t\"\nidle = \"sleep\"\nsocket = \"{FOLDER}/t.sock\"\n{router}\n\
             [eal]\nhugepages = false\nmemory = 160\n\n{rest}\n"
        );
        self.file("router.toml", &text)
    }

    /// Starts a router and waits until it runs.
    ///
    /// # Panics
    /// It does not start.
    pub fn router(&self, router: &str, rest: &str) -> Router {
        Router::start(&self.configuration(router, rest))
    }

    /// `perigee WORDS`, run to its end.
    pub fn perigee(&self, words: &[&str]) -> Ended {
        run(Command::new(perigee()).args(words).env("XDG_RUNTIME_DIR", FOLDER).env("NO_COLOR", "1"))
    }

    /// Starts a router that shall not start; what it said.
    pub fn refused(&self, router: &str, rest: &str) -> Ended {
        let file = self.configuration(router, rest);
        self.perigee(&["run", &file.display().to_string()])
    }

    /// Starts any other command.
    pub fn start(&self, name: &str, command: &mut Command) -> Process {
        Process::start(name, command)
    }

    /// Processes of the program under test in this namespace.
    pub fn processes(&self) -> Vec<String> {
        let here = fs::read_link("/proc/self/ns/net").expect("a network namespace");
        let program = perigee();
        let folders = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        let ours = |folder: &PathBuf| {
            fs::read_link(folder.join("ns/net")).is_ok_and(|ns| ns == here)
                && fs::read_link(folder.join("exe")).is_ok_and(|exe| exe == program)
        };
        folders.filter(ours).map(|folder| folder.display().to_string()).collect()
    }

    /// Interfaces here, but for `lo`: one line each with name, flags that somebody sets, MTU and MAC address.
    pub fn interfaces(&self) -> Vec<String> {
        let all = self.ip("-o link show");
        let described = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1)).copied();
            let flags = words.get(2).copied().unwrap_or_default().trim_matches(['<', '>']);
            let set: Vec<&str> = flags.split(',').filter(|flag| ["UP", "PROMISC", "ALLMULTI"].contains(flag)).collect();
            let (name, mtu, mac) = (words.get(1).copied(), after("mtu"), after("link/ether"));
            format!("{} {set:?} mtu {} mac {}", name.unwrap_or("?"), mtu.unwrap_or("?"), mac.unwrap_or("-"))
        };
        let mut lines: Vec<String> = all.lines().map(described).filter(|line| !line.starts_with("lo:")).collect();
        lines.sort();
        lines
    }
}
