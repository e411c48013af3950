// SPDX-License-Identifier: MIT
//! What of Linux's routing the router cannot do by itself: routes that Linux alone can forward by, and packets that a
//! route or a policy rule treats otherwise than the plain route to their destination.

use crate::Table;
use crate::follower::{Follower, RouteId};
use crate::translate::BEFORE_ALL;
use perigee_config::UnknownRoutes;
use perigee_net::{Exception, ExceptionCause, FiveTuple, LinuxOnly, Prefix, Route, RouteTarget};

/// Why a route is Linux's alone, if it is.
pub(crate) fn linux_only(route: &Route) -> Option<LinuxOnly> {
    match route.target {
        RouteTarget::ToLinux(why) | RouteTarget::Refused(why) => Some(why),
        _ => None,
    }
}

impl Follower {
    /// Notes that a route is in the table, or (`None`) is there no more.
    pub(crate) fn note(&mut self, id: RouteId, route: Option<&Route>) {
        let before = self.has_linux_only();
        let why = route.and_then(|route| match route.target {
            RouteTarget::Selective(_) => Some(LinuxOnly::Selective),
            _ => linux_only(route),
        });
        match why {
            Some(why) => {
                self.linux_only.insert(id, why);
                self.say_once(id.0, why);
            }
            None => drop(self.linux_only.remove(&id).is_some()),
        }
        self.stale |= self.has_linux_only() != before;
        let exception = route.and_then(|route| Self::exception(id.0, route));
        let before = match exception.clone() {
            Some(exception) => self.exceptions.insert(id, exception),
            None => self.exceptions.remove(&id),
        };
        self.exceptions_changed |= before != exception;
    }

    /// Whether there are routes that Linux alone can forward by: of IPv4, of IPv6.
    pub(crate) fn has_linux_only(&self) -> [bool; 2] {
        // IPv4 comes first.
        let is_v6 = |(prefix, _): &RouteId| matches!(prefix, Prefix::V6(_));
        let (first, last) = (self.linux_only.keys().next(), self.linux_only.keys().next_back());
        [first.is_some_and(|id| !is_v6(id)), last.is_some_and(is_v6)]
    }

    /// The packets that need a closer look because of a route.
    fn exception(prefix: Prefix, route: &Route) -> Option<Exception> {
        let tuple = FiveTuple { dst: Some(prefix), ..FiveTuple::default() };
        let exception = |cause| Exception { tuple, tos: None, input: None, cause };
        match &route.target {
            RouteTarget::Selective(selector) => Some(Exception {
                tuple: FiveTuple { src: selector.source, ..tuple },
                tos: selector.tos(),
                ..exception(ExceptionCause::Route)
            }),
            _ if linux_only(route) == Some(LinuxOnly::Rule) => {
                (route.preference == BEFORE_ALL).then(|| exception(ExceptionCause::Rule))
            }
            _ => (route.mtu > 0).then(|| exception(ExceptionCause::Mtu)),
        }
    }

    /// Says once for each reason that there is such a route.
    fn say_once(&mut self, prefix: Prefix, why: LinuxOnly) {
        if !self.said.insert(why) {
            return;
        }
        let what = why.explanation();
        let then = match self.setup.linux.unknown_routes {
            UnknownRoutes::ToLinux => "are given to Linux, which forwards them if its `forwarding` is on",
            UnknownRoutes::Unreachable => "are answered with \"host unreachable\"",
        };
        tracing::warn!(
            "the router cannot forward by Linux's route to {prefix}: {what}; its packets {then} (`perigee show linux` lists \
             such routes)"
        );
    }

    /// Passes on the packets that need a closer look.
    pub(crate) fn refresh_exceptions(&mut self, table: &mut dyn Table) {
        if std::mem::take(&mut self.exceptions_changed) {
            let refused = self.setup.linux.unknown_routes == UnknownRoutes::Unreachable;
            let of_routes = self.exceptions.values();
            let list = self.whole_families().chain(self.meaning.exceptions.iter().chain(of_routes).cloned()).collect();
            table.set_exceptions(list, refused);
        }
    }
}
