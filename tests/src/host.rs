// SPDX-License-Identifier: MIT
//! A machine next to the router, and what it must reach.

use crate::{Asserts, Good, patient, wait_seeing};
use perigee_lab::{Bird, Ended, Frr, LONGEST_WAIT, Process};
use std::ops::Deref;
use std::time::{Duration, Instant};

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
        // Where nothing comes back, the next attempt is more patient: soon over while packets are dropped, and long
        // enough for a busy machine. An error ends an attempt at once.
        let mut patience = 1;
        let attempt = || {
            let start = Instant::now();
            let ended = self.run(&format!("ping -n -c 1 -W {patience} {address}"));
            patience += u64::from(start.elapsed() >= Duration::from_secs(patience));
            ended
        };
        let what = format!("{address} to answer {}", self.name());
        wait_seeing(&what, attempt, |ended| ended.code == Some(0));
    }

    /// Pings an address once, and fails if there is a reply within two seconds. Returns ping's output.
    #[track_caller]
    pub fn ping_fails(&self, address: &str) -> String {
        self.without_reply(2, address)
    }

    /// Pings an address once, waits for an ICMP error about that, and returns ping's output. Fails if none comes, or a
    /// reply.
    #[track_caller]
    pub fn ping_refused(&self, address: &str) -> String {
        let text = self.without_reply(longest(), address);
        // An error ends the ping at once; it names who has sent it, who is this host itself where it knows.
        let errors =
            text.lines().any(|line| line.starts_with("From ") || line.contains("error") && line.contains("mtu"));
        assert!(errors, "no ICMP error came:\n{text}");
        text
    }

    #[track_caller]
    fn without_reply(&self, seconds: u64, words: &str) -> String {
        let ended = self.run(&format!("ping -n -c 1 -W {seconds} {words}"));
        assert_eq!(ended.code, Some(1), "a reply, or no ping at all:\n{}", ended.text);
        ended.text
    }

    /// Pings an address some times; fails if a reply is missing or comes twice. Of packets in fragments one is on its way at
    /// a time: what a router that loses its core for a while finds behind them has to fit into its ports' rings.
    #[track_caller]
    pub fn ping(&self, count: usize, words: &str) -> Ended {
        if size(words) <= LARGEST {
            return self.run(&ping_words(count, words)).every_reply(count);
        }
        let one = || self.run(&format!("ping -n -c 1 -W {} {words}", longest())).every_reply(1);
        (1..count).for_each(|_| drop(one()));
        one()
    }

    /// [`Self::ping`] in the background; ask its end for [`Asserts::every_reply`].
    #[track_caller]
    pub fn start_ping(&self, count: usize, words: &str) -> Process {
        self.start(&ping_words(count, words))
    }
}

/// Bytes of payload that fit into one packet of a usual link.
const LARGEST: usize = 1472;

fn size(words: &str) -> usize {
    words.split_once("-s ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or(56)
}

/// Seconds that a reply may take.
fn longest() -> u64 {
    patient(LONGEST_WAIT).as_secs() - 2
}

/// With a deadline, ping waits for `count` replies; without, for two round trips only, and a busy machine sometimes
/// takes longer. Of large packets fewer come per second, so that they are as many fragments.
fn ping_words(count: usize, words: &str) -> String {
    let interval = 0.005 * size(words).div_ceil(LARGEST) as f64;
    format!("ping -n -i {interval:.3} -c {count} -w {} {words}", longest())
}
