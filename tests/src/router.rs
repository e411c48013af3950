// SPDX-License-Identifier: MIT
//! A running `perigee run`, and what can be asked of it.

use crate::world::perigee;
use crate::{Good, wait_seeing, wait_seeing_for, wait_until};
use perigee_lab::{LONG_WAIT, LONGEST_WAIT, Launch, Place, Signal};
use perigee_net::MacAddr;
use serde_json::Value;
use std::fs;
use std::ops::Deref;
use std::path::Path;

/// The socket of every scenario's router.
const SOCKET: &str = "/run/t.sock";

/// The log of a router that has ended.
pub struct Log(pub String);

impl Log {
    /// Fails if the text is not in it.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Log {
        assert!(self.0.contains(text), "the log does not say {text:?}:\n{}", self.0);
        self
    }
}

/// A running router. Dropped while it runs, it is killed.
pub struct Router {
    /// Until it is stopped.
    lab: Option<perigee_lab::Router>,
}

impl Deref for Router {
    type Target = perigee_lab::Router;

    fn deref(&self) -> &perigee_lab::Router {
        self.lab.as_ref().expect("what stops it takes it")
    }
}

impl Router {
    /// Starts the router of a configuration file and waits until it runs.
    ///
    /// # Panics
    /// It does not.
    #[track_caller]
    pub fn start(file: &Path) -> Router {
        Self::start_with(file, &[])
    }

    /// [`Self::start`] with more arguments.
    #[track_caller]
    pub fn start_with(file: &Path, arguments: &[&str]) -> Router {
        let launch = Launch {
            program: perigee(),
            place: Place::Router,
            configuration: file.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            socket: SOCKET.into(),
            log: None,
            patience: LONGEST_WAIT,
        };
        Router { lab: Some(perigee_lab::Router::start(launch).good()) }
    }

    fn take(&mut self) -> perigee_lab::Router {
        self.lab.take().expect("what stops it takes it")
    }

    /// Waits for a text in its log.
    #[track_caller]
    pub fn says(&self, text: &str) {
        wait_until(&format!("the log to say {text:?}"), || self.log().contains(text));
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.deref().signal(signal).good();
    }

    /// Lets something happen while none of its threads runs.
    #[track_caller]
    pub fn while_stopped(&self, happens: impl FnOnce()) {
        /// It runs again, whatever panics.
        struct Continued<'a>(&'a Router);
        impl Drop for Continued<'_> {
            fn drop(&mut self) {
                // Where it has ended, whoever waits for it next says so.
                let _ended = self.0.deref().signal(Signal::CONT);
            }
        }
        self.signal(Signal::STOP);
        let _continued = Continued(self);
        let state = |task: &Path| fs::read_to_string(task.join("stat")).unwrap_or_default();
        // The state follows the name in brackets.
        let stopped =
            |task: &Path| state(task).rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
        wait_until("all threads to stand still", || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads").flatten();
            tasks.map(|task| task.path()).all(|task| stopped(&task))
        });
        happens();
    }

    /// Ends it by SIGTERM. It must exit cleanly, with every packet buffer returned, and leave no socket behind.
    #[track_caller]
    pub fn stop(self) -> Log {
        self.stop_by(Signal::TERM)
    }

    /// [`Self::stop`] by another signal.
    #[track_caller]
    pub fn stop_by(mut self, signal: Signal) -> Log {
        Log(self.take().stop_by(signal).good())
    }

    /// Waits for its end, by itself and in order: it says that it failed.
    #[track_caller]
    pub fn fails(mut self) -> Log {
        Log(self.take().fails().good())
    }

    /// Kills it by SIGKILL.
    #[track_caller]
    pub fn kill(mut self) {
        self.take().kill().good();
    }

    /// `perigee show WHAT --json`.
    #[track_caller]
    pub fn show(&self, what: &str) -> Value {
        let text = self.ask(&format!("show {what} --json")).good().out;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("show {what} --json: {error}:\n{text}"))
    }

    /// A counter of all workers: `received`, `transmitted`, `punted`, ...
    pub fn workers(&self, counter: &str) -> u64 {
        self.per_worker(counter).iter().sum()
    }

    /// A counter of each worker.
    pub fn per_worker(&self, counter: &str) -> Vec<u64> {
        let list = self.show("workers");
        let count = |worker: &Value| worker[counter].as_u64().unwrap_or_else(|| panic!("{counter} in {worker}"));
        list.as_array().expect("a list of workers").iter().map(count).collect()
    }

    /// Waits until workers have transmitted this many packets. They count them behind the call that sends them, so that
    /// a packet may have arrived before it is counted.
    #[track_caller]
    pub fn transmits(&self, packets: u64) {
        wait_seeing(
            &format!("{packets} packets transmitted by workers"),
            || self.workers("transmitted"),
            |sent| *sent >= packets,
        );
    }

    /// Packets that left the fast path, or ended in the slow path, under a reason: `ipv4_valid.checksum`.
    pub fn dropped(&self, reason: &str) -> u64 {
        let list = self.show("drops --all");
        let named = |entry: &&Value| format!("{}.{}", text(entry, "module"), text(entry, "reason")) == reason;
        let entry = list.as_array().expect("a list of reasons").iter().find(named);
        entry.unwrap_or_else(|| panic!("there is no reason {reason}"))["packets"].as_u64().expect("a number")
    }

    /// Waits until this number of packets was counted under a reason.
    ///
    /// # Panics
    /// There are fewer, or more.
    #[track_caller]
    pub fn counts(&self, reason: &str, packets: u64) {
        let counted = self.counts_at_least(reason, packets);
        assert_eq!(counted, packets, "{reason}");
    }

    /// Waits until at least this number of packets was counted under a reason; returns the number.
    ///
    /// # Panics
    /// There are fewer.
    #[track_caller]
    pub fn counts_at_least(&self, reason: &str, packets: u64) -> u64 {
        let what = format!("{packets} packets under {reason}");
        wait_seeing(&what, || self.dropped(reason), |counted| *counted >= packets)
    }

    /// Packets that ended in the fast path or the slow path, for any reason.
    pub fn all_drops(&self) -> u64 {
        let list = self.show("drops --all");
        let drops = list.as_array().expect("a list of reasons").iter().filter(|entry| text(entry, "kind") == "drop");
        drops.map(|entry| entry["packets"].as_u64().unwrap_or(0)).sum()
    }

    /// `perigee show ports` for one port.
    pub fn port(&self, name: &str) -> Value {
        let list = self.show("ports");
        let port = list.as_array().expect("a list of ports").iter().find(|port| port["name"] == name);
        port.unwrap_or_else(|| panic!("no port {name} in {list}")).clone()
    }

    /// Frames that its ports have sent; of a super-frame each segment counts.
    pub fn sent(&self) -> u64 {
        let list = self.show("ports");
        let sent = |port: &Value| port["counters"]["transmit_packets"].as_u64().expect("a number of packets");
        list.as_array().expect("a list of ports").iter().map(sent).sum()
    }

    /// The MAC address of a port.
    pub fn mac(&self, name: &str) -> MacAddr {
        text(&self.port(name), "mac").parse().expect("a MAC address")
    }

    /// The state and MAC address of a neighbor, if it is known.
    pub fn neighbor(&self, address: &str) -> Option<(String, Value)> {
        let list = self.show("neighbors");
        let entry = list.as_array()?.iter().find(|entry| entry["address"] == address)?.clone();
        Some((text(&entry, "state").to_owned(), entry["mac"].clone()))
    }

    /// The routes of a prefix, the one in use or others.
    pub fn routes(&self, prefix: &str) -> Vec<Value> {
        let list = self.show(&format!("routes --within {prefix}"));
        let all = list["routes"].as_array().expect("a list of routes").iter();
        all.filter(|route| text(route, "prefix") == prefix).cloned().collect()
    }

    /// The route of a prefix that is in use.
    pub fn route(&self, prefix: &str) -> Option<Value> {
        self.routes(prefix).into_iter().find(|route| route["best"] == true)
    }

    /// Waits until the route of a prefix leads out of an interface.
    #[track_caller]
    pub fn leads(&self, prefix: &str, interface: &str) {
        self.becomes(prefix, |route| route.is_some_and(|route| route["dev"] == interface));
    }

    /// Waits until a prefix has no route in use.
    #[track_caller]
    pub fn loses(&self, prefix: &str) {
        self.becomes(prefix, |route| route.is_none());
    }

    /// Waits until the route in use for a prefix is as wanted; prints it if that does not happen.
    #[track_caller]
    pub fn becomes(&self, prefix: &str, wanted: impl Fn(Option<&Value>) -> bool) {
        wait_seeing_for(
            LONG_WAIT,
            &format!("the route of {prefix} to be as it is wanted"),
            || self.routes(prefix),
            |routes| wanted(routes.iter().find(|route| route["best"] == true)),
        );
    }

    /// Asserts that Linux's table, the router's, and what its workers look up in are the same, prefix by prefix.
    #[track_caller]
    pub fn audited(&self) {
        let ended = self.ask("audit");
        assert_eq!(ended.code, Some(0), "differences:\n{}", ended.text);
    }

    /// Fails if the kernel forwards in the router's namespace: then the scenario would prove nothing.
    #[track_caller]
    pub fn alone(&self) {
        // This process and the router share a namespace.
        for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let value = fs::read_to_string(format!("/proc/sys/net/{family}")).unwrap_or_default();
            assert_eq!(value.trim(), "0", "the kernel forwards: {family}");
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(router) = self.lab.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("--- the router's log\n{}---", router.log());
            for what in ["ports", "neighbors", "nexthops", "routes --limit 12", "linux", "drops"] {
                eprintln!("--- show {what}\n{}---", router.ask(&format!("show {what}")).out);
            }
        }
    }
}

/// A text of a JSON object.
fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_else(|| panic!("no {key} in {object}"))
}
