// SPDX-License-Identifier: MIT
//! Routes of Linux that the router has no room for.
//!
//! Packets of such a route must not take the next shorter prefix, which would send them elsewhere than Linux does. So
//! at the longest prefix around it that is held a route *stands in* for all of Linux's that are not held inside it:
//! packets for which no longer prefix is held are Linux's, or refused, as `unknown_routes` says. There is room for
//! [`FibWriter::RESERVED`](perigee_fib::FibWriter::RESERVED) of these beyond the limit; beyond that, all packets of the
//! family are Linux's.
//!
//! | around the refused route | then |
//! | --- | --- |
//! | no route | its packets are answered as without a route |
//! | a route that drops packets, is Linux's already, or leads to the link itself | it stays: its packets go nowhere else |
//! | any other | a route stands in for it, by its preference before all others |
//!
//! The table changes while routes are refused, and packets of these must not leak then, either. Which they are is not
//! held; a filter (`refused.rs`) says of a prefix whether a refused one may be inside. Where one may be, a route stands
//! in:
//!
//! | change | where |
//! | --- | --- |
//! | a prefix that a route stands in for, that leads nowhere else, or that has no route gets one that leads elsewhere | there |
//! | a prefix loses its route | at the longest prefix around it, if that leads elsewhere |
//!
//! A dump that refuses nothing inside such a prefix takes the stand-in away. It is asked for when routes have changed,
//! and when there is room again: then it brings the routes that were refused. It also covers what changes without a
//! route of Linux: routes of operators, and gateways that become reachable.

use crate::follower::Follower;
use crate::refused::Refused;
use crate::{FeedId, Table};
use perigee_config::UnknownRoutes;
use perigee_net::{
    Exception, ExceptionCause, FiveTuple, LinuxOnly, Prefix, Prefix4, Prefix6, Route, RouteKey, RouteSource,
    RouteTarget,
};

/// How long to wait between two dumps that are asked for as there is room again, or as routes have changed, in ns.
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
    /// Where refused routes may be.
    pub refused: Refused,
    /// Whether the route that is being looked at is named by a dump.
    pub dumped: bool,
    next_try: u64,
    /// The follower's version, and the routes of all sources, when a dump was asked for last.
    asked_at: (u64, usize),
}

impl Follower {
    /// Keeps the packets of a route that was refused from taking a shorter prefix.
    pub(crate) fn stand_in_for(&mut self, prefix: Prefix, key: RouteKey, table: &mut dyn Table) {
        self.feeds.iter_mut().filter_map(|feed| feed.dump.as_mut()).for_each(|seen| seen.forget(prefix, key));
        (self.limit.short, self.limit.since_dump) = (true, true);
        self.limit.refused.mark(prefix);
        let Some((around, chosen)) = table.rib().around(prefix) else { return };
        if is_stand_in(chosen) {
            return self.still_stands_in(around);
        }
        // Of the routes to one prefix a better one is held: the packets are its.
        if around == prefix && chosen.key() < key {
            return;
        }
        if leads_elsewhere(chosen) {
            self.stand_in_at(around, prefix, table);
        }
    }

    /// The packets of a prefix are Linux's, for the sake of refused routes inside this other one.
    fn stand_in_at(&mut self, prefix: Prefix, inside: Prefix, table: &mut dyn Table) {
        let target = match self.setup.linux.unknown_routes {
            UnknownRoutes::ToLinux => RouteTarget::ToLinux(LinuxOnly::Limit),
            UnknownRoutes::Unreachable => RouteTarget::Refused(LinuxOnly::Limit),
        };
        let RouteKey { preference, metric, source } = KEY;
        let route = Route { source, preference, metric, target, mtu: 0, protocol: None };
        let stands = table.stand_in(prefix, route.clone()).is_ok();
        if stands {
            self.note((prefix, KEY), Some(&route));
            self.version += 1;
            // A dump under way that brings them all takes it away at its end.
            if self.limit.refused.may_be_in_this_dump(inside) {
                self.still_stands_in(prefix);
            }
        }
        if !stands || !table.rib().chosen(prefix).is_some_and(is_stand_in) {
            self.takes_whole(prefix);
        }
    }

    /// Whether packets for a prefix leave by a route that no route stands in for: by what was said of it when the table
    /// changed last, no refused route is inside.
    pub(crate) fn is_open(&self, prefix: Prefix, table: &dyn Table) -> bool {
        let chosen = if self.limit.short { table.rib().around(prefix) } else { None };
        chosen.is_some_and(|(_, route)| leads_elsewhere(route))
    }

    /// A prefix has got a route, and a better one to it may be refused. `was_open`: [`Self::is_open`] before.
    pub(crate) fn stand_in_behind_insert(&mut self, prefix: Prefix, was_open: bool, table: &mut dyn Table) {
        let refused = &self.limit.refused;
        let may_be = || refused.may_be_inside(prefix) || refused.may_be_at(prefix, self.limit.dumped);
        if self.limit.short && !was_open && may_be() {
            self.stand_in_around(prefix, table);
        }
    }

    /// A prefix has lost a route, which may have been before a refused one to the same prefix. A stand-in goes once a
    /// dump has refused nothing that it is around.
    pub(crate) fn stand_in_behind_withdrawal(&mut self, prefix: Prefix, key: RouteKey, table: &mut dyn Table) {
        let refused = &self.limit.refused;
        if self.limit.short && key != KEY && (refused.may_be_inside(prefix) || refused.may_be_at(prefix, false)) {
            self.stand_in_around(prefix, table);
        }
    }

    /// Interfaces have lost addresses, and with them the routes to these networks.
    pub(crate) fn stand_in_behind_networks(&mut self, before: Vec<Prefix>, table: &mut dyn Table) {
        if self.limit.short {
            let needed = before.into_iter().filter(|network| self.limit.refused.may_be_inside(*network));
            needed.collect::<Vec<_>>().into_iter().for_each(|network| self.stand_in_around(network, table));
        }
    }

    fn stand_in_around(&mut self, prefix: Prefix, table: &mut dyn Table) {
        if let Some((around, _)) = table.rib().around(prefix).filter(|(_, route)| leads_elsewhere(route)) {
            self.stand_in_at(around, prefix, table);
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
            seen.aside(around, KEY);
        }
    }

    /// A complete dump of routes has ended.
    pub(crate) fn limit_after_dump(&mut self) {
        if self.limit.since_dump {
            self.limit.refused.dump_ends();
            return;
        }
        self.exceptions_changed |= self.limit.whole != [false; 2];
        (self.limit.short, self.limit.whole, self.limit.refused) = (false, [false; 2], Refused::default());
    }

    /// Asks for what was refused, if there is room again, or if routes have changed: a stand-in may be needed no more,
    /// or elsewhere.
    pub(crate) fn refill(&mut self, now: u64, table: &dyn Table) {
        if !self.limit.short || now < self.limit.next_try {
            return;
        }
        let at = (self.version, table.rib().prefixes());
        if self.limit.asked_at != at || table.has_room() {
            self.limit.next_try = now + BETWEEN;
            self.limit.asked_at = at;
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

/// Whether a route leads elsewhere than Linux would, for packets of a longer prefix: it drops none, is not Linux's, and
/// leads to no link itself.
fn leads_elsewhere(route: &Route) -> bool {
    matches!(route.target, RouteTarget::Gateway { .. } | RouteTarget::Multipath(_) | RouteTarget::Selective(_))
}
