// SPDX-License-Identifier: MIT
//! Routes of Linux that the router has no room for.
//!
//! Packets of such a route must not take the next shorter prefix, which would send them elsewhere than Linux does. So at the longest
//! prefix around it that is held a route *stands in* for all of Linux's that are not held inside it: packets for which no longer prefix is held are
//! Linux's, or refused, as `unknown_routes` says. There is room for [`FibWriter::RESERVED`](perigee_fib::FibWriter::RESERVED) of these
//! beyond the limit; beyond that, all packets of the family are Linux's.
//!
//! | around the refused route | then |
//! | --- | --- |
//! | no route | its packets are answered as without a route |
//! | a route that drops packets, is Linux's already, or leads to the link itself | it stays: its packets go nowhere else |
//! | any other | a route stands in for it, by its preference before all others |
//!
//! A dump that refuses nothing inside such a prefix takes the stand-in away, and one that is asked for when there is room again brings the
//! routes that were refused.
//!
//! Missing: a prefix that comes between a refused route and what stands in for it, or a route around it that leads elsewhere later, takes its
//! packets until the next dump.

use crate::follower::Follower;
use crate::{FeedId, Table};
use perigee_config::UnknownRoutes;
use perigee_net::{
    Exception, ExceptionCause, FiveTuple, LinuxOnly, Prefix, Prefix4, Prefix6, Route, RouteKey, RouteSource,
    RouteTarget,
};

/// How long to wait between two dumps that are asked for as there is room again, in ns.
const BETWEEN: u64 = 60_000_000_000;
/// Before all others of the prefix, but for the networks of interfaces.
const KEY: RouteKey = RouteKey { preference: 0, metric: u32::MAX, source: RouteSource::Linux };

/// What is not held.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// Whether routes were refused that may be Linux's still.
    pub short: bool,
    /// Whether one was since the last dump began.
    pub since_dump: bool,
    /// Families whose packets are all Linux's: IPv4, IPv6.
    pub whole: [bool; 2],
    next_try: u64,
}

impl Follower {
    /// Keeps the packets of a route that was refused from taking a shorter prefix.
    pub(crate) fn stand_in_for(&mut self, prefix: Prefix, key: RouteKey, table: &mut dyn Table) {
        self.feeds.iter_mut().filter_map(|feed| feed.dump.as_mut()).for_each(|seen| seen.forget(prefix, key));
        (self.limit.short, self.limit.since_dump) = (true, true);
        let Some((around, chosen)) = table.rib().around(prefix) else { return };
        if is_stand_in(chosen) {
            return self.still_stands_in(around);
        }
        // Of the routes to one prefix a better one is held: the packets are its.
        if around == prefix && chosen.key() < key {
            return;
        }
        let leaks = matches!(
            chosen.target,
            RouteTarget::Gateway { .. } | RouteTarget::Multipath(_) | RouteTarget::Selective(_)
        );
        if !leaks {
            return;
        }
        let target = match self.setup.linux.unknown_routes {
            UnknownRoutes::ToLinux => RouteTarget::ToLinux(LinuxOnly::Limit),
            UnknownRoutes::Unreachable => RouteTarget::Refused(LinuxOnly::Limit),
        };
        let RouteKey { preference, metric, source } = KEY;
        let route = Route { source, preference, metric, target, mtu: 0 };
        let stands = table.stand_in(around, route.clone()).is_ok();
        if stands {
            self.note((around, KEY), Some(&route));
            self.version += 1;
            self.still_stands_in(around);
        }
        if !stands || !table.rib().chosen(around).is_some_and(is_stand_in) {
            self.takes_whole(prefix);
        }
    }

    /// All packets of a family are Linux's.
    fn takes_whole(&mut self, prefix: Prefix) {
        let is_v6 = matches!(prefix, Prefix::V6(_));
        if !std::mem::replace(&mut self.limit.whole[usize::from(is_v6)], true) {
            self.exceptions_changed = true;
            let family = if is_v6 { "IPv6" } else { "IPv4" };
            tracing::error!(
                "there is room neither for Linux's routes nor for those that stand in for them: all packets of {family} are Linux's; raise \
                 `max_routes` of [router], or give the router more memory"
            );
        }
    }

    /// A dump that is under way has a route inside this prefix that is not held.
    fn still_stands_in(&mut self, around: Prefix) {
        for seen in self.feeds.iter_mut().filter_map(|feed| feed.dump.as_mut()) {
            seen.route(around, KEY);
        }
    }

    /// A complete dump of routes has ended.
    pub(crate) fn limit_after_dump(&mut self) {
        if !self.limit.since_dump {
            self.exceptions_changed |= self.limit.whole != [false; 2];
            (self.limit.short, self.limit.whole) = (false, [false; 2]);
        }
    }

    /// Asks for what was refused, if there is room again.
    pub(crate) fn refill(&mut self, now: u64, table: &dyn Table) {
        if self.limit.short && now >= self.limit.next_try && table.has_room() {
            self.limit.next_try = now + BETWEEN;
            let ids: Vec<FeedId> = self.feeds.iter().filter(|feed| feed.routes).map(|feed| feed.id).collect();
            ids.into_iter().for_each(|id| self.ask(id));
        }
    }

    /// The packets of families that are Linux's as a whole.
    pub(crate) fn whole_families(&self) -> impl Iterator<Item = Exception> {
        let all = [Prefix4::new(0, 0).map(Prefix::V4), Prefix6::new(0, 0).map(Prefix::V6)];
        let whole = all.into_iter().flatten().zip(self.limit.whole).filter(|(_, whole)| *whole);
        whole.map(|(all, _)| {
            let tuple = FiveTuple { dst: Some(all), ..FiveTuple::default() };
            Exception { tuple, tos: None, input: None, cause: ExceptionCause::Rule }
        })
    }
}

/// Whether a route stands in for others.
pub(crate) fn is_stand_in(route: &Route) -> bool {
    matches!(route.target, RouteTarget::ToLinux(LinuxOnly::Limit) | RouteTarget::Refused(LinuxOnly::Limit))
}
