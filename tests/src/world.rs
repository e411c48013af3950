// SPDX-License-Identifier: MIT
//! The router's namespace, and what is made in it.

use crate::{Good, Host, Router, Wire, wait_until};
use perigee_lab::device::{Kind, Setup};
use perigee_lab::{Bird, Device, Ended, Frr, Process, budgets, run};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of configurations, scripts and the router's socket: all of /run belongs to the scenario.
const FOLDER: &str = "/run";

/// The program under test: `$PERIGEE`, or the one that cargo built beside this test.
///
/// # Panics
/// There is none.
#[track_caller]
pub fn perigee() -> PathBuf {
    perigee_lab::program().good()
}

/// The inside of `unshare -Urnm`: the router's own network namespace, without forwarding by the kernel.
pub struct World {
    lab: perigee_lab::World,
    /// Why the scenario cannot test anything here.
    pub(crate) unable: RefCell<Option<String>>,
}

impl World {
    pub(crate) fn new() -> World {
        World { lab: perigee_lab::World::enter(Path::new(FOLDER)).good(), unable: RefCell::default() }
    }

    /// Records why the kernel here does not let the scenario test anything; it should then return, and counts as
    /// ignored.
    pub fn unable(&self, reason: &str) {
        self.unable.replace(Some(reason.to_owned()));
    }

    /// `ip WORDS` in the router's namespace; what it printed.
    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        self.lab.ip(words).good()
    }

    /// A host with `eth0`, whose other end is the interface `r-NAME` here. There may be any number of addresses (with
    /// their prefix lengths) and gateways of both families.
    #[track_caller]
    pub fn host(&self, name: &str, addresses: &[&str], gateways: &[&str]) -> Host {
        Host(self.lab.host(name, &format!("r-{name}"), addresses, gateways).good())
    }

    /// A namespace without any interface.
    #[track_caller]
    pub fn namespace(&self, name: &str) -> Host {
        Host(self.lab.namespace(name).good())
    }

    /// A cable with the test at its other end; `name` is the interface here.
    #[track_caller]
    pub fn wire(&self, name: &str) -> Wire {
        Wire(self.lab.wire(name).good())
    }

    /// A device under test, running.
    #[track_caller]
    pub fn device(&self, setup: Setup, kind: Kind) -> Device {
        self.lab.device(setup, kind).good()
    }

    /// The laboratory's own world, whose errors are values.
    pub fn lab(&self) -> &perigee_lab::World {
        &self.lab
    }

    /// Starts BIRD next to the router, on its twins.
    #[track_caller]
    pub fn bird(&self, configuration: &str) -> Bird {
        self.lab.bird(configuration).good()
    }

    /// Starts daemons of FRR next to the router, such as `["zebra", "ospfd"]`, with options behind their names.
    #[track_caller]
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Frr {
        self.lab.frr(daemons, configuration).good()
    }

    /// Writes a file; its path.
    #[track_caller]
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        self.lab.file(name, text).good()
    }

    /// Writes `router.toml`, whose `[router]` and `[eal]` suit a test; `router` has more lines for `[router]`, `rest`
    /// all other sections. The router is as patient as we are.
    pub fn configuration(&self, router: &str, rest: &str) -> PathBuf {
        let budgets = budgets(router).good();
        let text = format!(
            "[router]\nname = \"t\"\nidle = \"adaptive\"\nsocket = \"{FOLDER}/t.sock\"\n{router}\n{budgets}\
             [eal]\nhugepages = false\nmemory = 160\n\n{rest}\n"
        );
        self.file("router.toml", &text)
    }

    /// Starts a router and waits until it runs.
    ///
    /// # Panics
    /// It does not start.
    #[track_caller]
    pub fn router(&self, router: &str, rest: &str) -> Router {
        Router::start(&self.configuration(router, rest))
    }

    /// `perigee WORDS`, run to its end.
    pub fn perigee(&self, words: &[&str]) -> Ended {
        run(Command::new(perigee()).args(words).env("XDG_RUNTIME_DIR", FOLDER).env("NO_COLOR", "1"))
    }

    /// Starts a router that must not start; returns its output.
    pub fn refused(&self, router: &str, rest: &str) -> Ended {
        let file = self.configuration(router, rest);
        self.perigee(&["run", &file.display().to_string()])
    }

    /// Starts any other command.
    #[track_caller]
    pub fn start(&self, command: &mut Command) -> Process {
        Process::start(command).good()
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

    /// Asserts that a router which has ended, or did not start, has left nothing behind; `interfaces`: those before it.
    ///
    /// # Panics
    /// It has.
    #[track_caller]
    pub fn nothing_left(&self, interfaces: &[String]) {
        wait_until("all processes to end", || self.processes().is_empty());
        assert_eq!(self.interfaces(), interfaces, "interfaces are not as they were");
        assert!(!Path::new(FOLDER).join("t.sock").exists(), "a socket is left");
        let left = fs::read_dir(Path::new(FOLDER).join("dpdk")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "a folder of the EAL's is left");
    }

    /// Interfaces here, but for `lo`: one line each with name, the flags that an administrator sets, MTU and MAC
    /// address.
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
