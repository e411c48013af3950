// SPDX-License-Identifier: MIT
//! What of Linux's routing the router cannot do by itself: routes that Linux alone can forward by, and packets that a route or a policy
//! rule treats otherwise than the plain route to their destination.

use crate::Table;
use crate::follower::{Follower, RouteId};
use crate::translate::Precedence;
use perigee_config::UnknownRoutes;
use perigee_net::{Exception, ExceptionCause, FiveTuple, LinuxOnly, Prefix, Route, RouteSource, RouteTarget};

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
        let had_none = self.linux_only.is_empty();
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
        let exception = route.and_then(|route| self.exception(id.0, route));
        let before = match exception.clone() {
            Some(exception) => self.exceptions.insert(id, exception),
            None => self.exceptions.remove(&id),
        };
        self.exceptions_changed |= before != exception;
        self.stale |= self.linux_only.is_empty() != had_none;
    }

    /// The packets that need a closer look because of a route.
    fn exception(&self, prefix: Prefix, route: &Route) -> Option<Exception> {
        let tuple = FiveTuple { dst: Some(prefix), ..FiveTuple::default() };
        let exception = |cause| Exception { tuple, tos: None, input: None, cause };
        match &route.target {
            RouteTarget::Selective(selector) => Some(Exception {
                tuple: FiveTuple { src: selector.source, ..tuple },
                tos: selector.tos(),
                ..exception(ExceptionCause::Route)
            }),
            _ if linux_only(route) == Some(LinuxOnly::Rule) => {
                let goes_before_all = self.policy.ruled.values().any(|precedence| *precedence == Precedence::Any);
                goes_before_all.then(|| exception(ExceptionCause::Rule))
            }
            _ => (route.mtu > 0).then(|| exception(ExceptionCause::Mtu)),
        }
    }

    /// Rules lead to other tables, or before routes of other lengths: so do the routes of these tables.
    pub(crate) fn rules_lead_elsewhere(&mut self) {
        let why = RouteTarget::ToLinux(LinuxOnly::Rule);
        let ruled: Vec<RouteId> =
            self.linux_only.iter().filter(|(_, why)| **why == LinuxOnly::Rule).map(|(id, _)| *id).collect();
        for id in ruled {
            match self.exception(id.0, &Route::new(RouteSource::Linux, why.clone())) {
                Some(exception) => drop(self.exceptions.insert(id, exception)),
                None => drop(self.exceptions.remove(&id)),
            }
        }
    }

    /// Says once for each reason that there is such a route.
    fn say_once(&mut self, prefix: Prefix, why: LinuxOnly) {
        if !self.said.insert(why) {
            return;
        }
        let what = why.explanation();
        let then = match self.setup.linux.unknown_routes {
            UnknownRoutes::ToLinux => "are given to Linux, which forwards them if its `forwarding` is on for the twin",
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
            let list = self.meaning.exceptions.iter().chain(of_routes).cloned().collect();
            table.set_exceptions(list, refused);
        }
    }
}
