// SPDX-License-Identifier: MIT
//! A machine next to the router, and what it must reach.

use crate::{Asserts, Good, wait_until};
use perigee_lab::{Bird, Ended, Frr, LONGEST_WAIT, Process};
use std::ops::Deref;

/// A machine: a network namespace of its own.
pub struct Host(pub(crate) perigee_lab::Host);

impl Deref for Host {
    type Target = perigee_lab::Host;

    fn deref(&self) -> &perigee_lab::Host {
        &self.0
    }
}

impl Host {
    /// Starts BIRD on this host; at most one per host.
    #[track_caller]
    pub fn bird(&self, configuration: &str) -> Bird {
        self.0.bird(configuration).good()
    }

    /// Starts daemons of FRR on this host, such as `["zebra", "ospfd"]`, with options behind their names.
    #[track_caller]
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Frr {
        self.0.frr(daemons, configuration).good()
    }

    /// Sets `/proc/sys/net/NAME` on this host.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        self.0.set(name, value).good();
    }

    /// Starts a command on this host.
    #[track_caller]
    pub fn start(&self, words: &str) -> Process {
        self.0.start(words).good()
    }

    /// Calls `f` on this host: sockets it makes are this host's.
    ///
    /// # Panics
    /// `f` does.
    #[track_caller]
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.0.inside(f).good()
    }

    /// Waits until an address answers a ping: neighbors are found, duplicate address detection is over.
    #[track_caller]
    pub fn reaches(&self, address: &str) {
        let ping = format!("ping -n -c 1 -W 1 {address}");
        wait_until(&format!("{address} to answer {}", self.name()), || self.run(&ping).code == Some(0));
    }

    /// Pings an address once; fails if there is a reply. Returns ping's output.
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

    /// [`Self::ping`] in the background; ask its end for [`Asserts::every_reply`].
    #[track_caller]
    pub fn start_ping(&self, count: usize, words: &str) -> Process {
        self.start(&ping_words(count, words))
    }
}

/// With a deadline, ping waits for `count` replies; without, for two round trips only, and a busy machine sometimes takes
/// longer.
fn ping_words(count: usize, words: &str) -> String {
    format!("ping -n -i 0.005 -c {count} -w {} {words}", LONGEST_WAIT.as_secs() - 2)
}
