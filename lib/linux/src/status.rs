// SPDX-License-Identifier: MIT
//! Numbers to show.

use crate::{Follower, LeftOut, Skip};
use perigee_net::{LinuxOnly, Prefix};
use std::collections::BTreeMap;

/// What the follower counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub changes: u64,
    pub refused: u64,
    pub skips: BTreeMap<Skip, u64>,
    pub resyncs: u64,
    pub repaired: u64,
    pub audits: u64,
    pub audit_differences: u64,
    pub resync_seconds: f64,
}

/// Whether Linux is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is nothing to follow.
    Off,
    /// Notifications were lost, or the namespace is gone.
    Lost,
    /// Everything is being read.
    Reading,
    /// The router is in step with Linux.
    Following,
}

/// The follower's numbers at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Whether Linux is followed.
    pub state: State,
    /// Links in the namespace.
    pub links: u64,
    /// Addresses on them.
    pub addresses: u64,
    /// Neighbors that operators have set on the router's interfaces.
    pub permanent_neighbors: u64,
    /// Neighbors with the MAC address of a group, which are not followed.
    pub group_neighbors: u64,
    /// Addresses of other stations that interfaces answer for.
    pub proxied: u64,
    /// Next-hop objects.
    pub next_hops: u64,
    /// Routes taken over, replaced and withdrawn.
    pub changes: u64,
    /// Routes that the table refused.
    pub refused: u64,
    /// How often a route was left out, by reason.
    pub left_out: BTreeMap<Skip, u64>,
    /// How many routes Linux alone can forward by.
    pub linux_only: u64,
    /// A sentence about each policy rule that makes a difference.
    pub rules: Vec<String>,
    /// Dumps compared.
    pub resyncs: u64,
    /// Differences that dumps have shown, except the first.
    pub repaired: u64,
    /// Duration of the last dump in seconds.
    pub resync_seconds: f64,
    /// Audits begun.
    pub audits: u64,
    /// The differences that they have found.
    pub audit_differences: u64,
    /// Where the router does not do what Linux's interfaces say, a sentence each.
    pub differences: Vec<String>,
}

impl Follower {
    /// Numbers to show.
    pub fn status(&self) -> Status {
        let state = match &self.feeds[..] {
            [] => State::Off,
            feeds if self.namespace_gone || feeds.iter().any(|feed| feed.lost) => State::Lost,
            feeds if feeds.iter().any(|feed| feed.dump.is_some() || !feed.complete) => State::Reading,
            _ => State::Following,
        };
        let counters = self.counters.clone();
        Status {
            state,
            links: self.links.len() as u64,
            addresses: self.links.values().map(|known| known.addresses.len() as u64).sum(),
            permanent_neighbors: self.permanent.len() as u64,
            group_neighbors: self.group_neighbors.len() as u64,
            proxied: self.proxies.addresses() as u64,
            next_hops: self.feeds.iter().map(|feed| feed.next_hops.len() as u64).sum(),
            changes: counters.changes,
            refused: counters.refused,
            left_out: counters.skips,
            linux_only: self.linux_only.len() as u64,
            rules: self.meaning.said.clone(),
            resyncs: counters.resyncs,
            repaired: counters.repaired,
            resync_seconds: counters.resync_seconds,
            audits: counters.audits,
            audit_differences: counters.audit_differences,
            differences: self.differences.iter().map(|(_, sentence)| sentence.clone()).collect(),
        }
    }

    /// The routes that Linux alone can forward by: prefix, metric and reason.
    pub fn linux_only(&self) -> impl Iterator<Item = (Prefix, u32, LinuxOnly)> {
        self.linux_only.iter().map(|((prefix, key), why)| (*prefix, key.metric, *why))
    }

    /// Some of the routes that are left out, in the order of the reasons.
    pub fn left_out_routes(&self) -> impl Iterator<Item = (LeftOut, Skip)> {
        self.named_left_out.iter()
    }

    /// How many dumps have been compared; a resync is done when this reaches the number that [`Follower::resync`]
    /// returned.
    pub fn resyncs(&self) -> u64 {
        self.counters.resyncs
    }
}
