// SPDX-License-Identifier: MIT
//! The audit: Linux's table against the RIB, the RIB against the workers' lookup structures, next hops and the workers'
//! table of neighbors against the slow path's.
//!
//! ```text
//!              a dump to compare            no difference, or two dumps shown          all prefixes
//!  start ───► Linux ──────────────► Linux ───────────────────────────────────► Lookup ─────────────► next hops ─► end
//!                     differences: another dump                                (in turns)
//! ```
//!
//! It runs alongside everything else, on tables that change meanwhile. So a difference to Linux counts only if two
//! dumps in a row show it, and each prefix is compared with the RIB as it is at that moment.

use crate::follower::{Follower, RouteId};
use crate::{Audited, Effect, FeedId, HelperRequest, KnownNeighbor};
use perigee_fib::{Interfaces, NextHopId, NextHopInfo, NextHopKind, Via};
use perigee_helper::LinkChange;
use perigee_net::{
    InterfaceAddress, InterfaceId, MacAddr, Member, Prefix, Route, RouteSource, RouteTarget, is_link_local,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Prefixes compared in one turn.
const TURN: usize = 1024;
/// Differences that are listed; any others are only counted.
const LISTED: usize = 1000;

/// The MAC addresses that the slow path knows.
type Known = HashMap<(InterfaceId, IpAddr), MacAddr>;

/// Differences between a dump and the RIB: descriptions of both routes.
pub(crate) type Found = BTreeMap<RouteId, (Option<String>, Option<String>)>;

/// A running audit.
pub(crate) struct Audit {
    repair: bool,
    /// Somebody has asked for the repair: what an operator has changed in Linux is not taken back otherwise.
    asked: bool,
    began: u64,
    phase: Phase,
    report: AuditReport,
}

enum Phase {
    /// Waits for a dump to compare; `before`: what the previous one showed.
    Linux { before: Option<Found> },
    /// Compares the lookup structures, starting after this prefix.
    Lookup { after: Option<Prefix> },
}

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditReport {
    /// Routes in Linux that are followed.
    pub linux_routes: u64,
    /// Routes in the RIB, of every source.
    pub rib_routes: u64,
    /// Prefixes whose first and last address were looked up as workers look them up.
    pub prefixes: u64,
    /// Next hops compared with the neighbors.
    pub next_hops: u64,
    /// Neighbors on connected networks that were looked up as workers look them up.
    pub neighbors: u64,
    /// The first thousand differences.
    pub differences: Vec<Difference>,
    /// The number of differences.
    pub total: u64,
    /// Repaired differences in lookup structures and next hops; differences to Linux are repaired by another dump.
    pub repaired: u64,
    /// A sentence about each policy rule of Linux that makes a difference.
    pub rules: Vec<String>,
    /// How long it took, in ns.
    pub duration: u64,
}

/// A difference between two tables that should agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The prefix that it is about; `None` for a next hop.
    pub prefix: Option<Prefix>,
    /// What differs.
    pub kind: DifferenceKind,
    /// The route's metric, if it is about a route.
    pub metric: Option<u32>,
    /// What Linux says.
    pub linux: Option<String>,
    /// What the RIB says, or the neighbor table.
    pub rib: Option<String>,
    /// What workers find.
    pub lookup: Option<String>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Linux has a route that the RIB lacks.
    NotInRib,
    /// The RIB has a route that Linux lacks.
    NotInLinux,
    /// Linux and the RIB have different routes.
    AnotherRoute,
    /// A lookup structure has another next hop than the RIB.
    AnotherNextHop,
    /// A next hop has another MAC address than the neighbor table.
    AnotherMac {
        /// The neighbor.
        gateway: IpAddr,
        /// The name of its interface.
        dev: String,
    },
    /// An interface lacks an address of the configuration in Linux.
    NoAddress {
        /// The address.
        address: InterfaceAddress,
        /// The name of the interface.
        dev: String,
    },
    /// Workers find a neighbor that the neighbor table does not have, or another MAC address, or none.
    AnotherNeighbor {
        /// The neighbor.
        address: IpAddr,
        /// The name of its interface.
        dev: String,
    },
}

impl std::fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DifferenceKind::NotInRib => f.write_str("not in the RIB"),
            DifferenceKind::NotInLinux => f.write_str("not in Linux"),
            DifferenceKind::AnotherRoute => f.write_str("another route"),
            DifferenceKind::AnotherNextHop => f.write_str("workers find another next hop"),
            DifferenceKind::AnotherMac { gateway, dev } => {
                write!(f, "the next hop {gateway} on {dev} has another MAC than the neighbor")
            }
            DifferenceKind::NoAddress { address, dev } => {
                write!(f, "{dev} lacks the address {address} of the configuration in Linux")
            }
            DifferenceKind::AnotherNeighbor { address, dev } => {
                write!(f, "workers do not find the neighbor {address} on {dev} as it is")
            }
        }
    }
}

impl AuditReport {
    fn add(&mut self, difference: Difference) {
        self.total += 1;
        if self.differences.len() < LISTED {
            self.differences.push(difference);
        }
    }
}

impl Follower {
    /// Begins an audit, or joins the running one: [`Effect::AuditEnded`] ends both.
    pub fn begin_audit(&mut self, now: u64, repair: bool) {
        self.begin(now, repair, repair);
    }

    fn begin(&mut self, now: u64, repair: bool, asked: bool) {
        let followed = self.feeds.iter().any(|feed| feed.routes);
        let phase = if followed { Phase::Linux { before: None } } else { Phase::Lookup { after: None } };
        let audit = self.audit.get_or_insert_with(|| Audit {
            repair,
            asked,
            began: now,
            phase,
            report: AuditReport::default(),
        });
        audit.repair |= repair;
        audit.asked |= asked;
        self.counters.audits += 1;
        if followed {
            self.dump_for_audit();
        }
    }

    /// Begins one if the configuration's interval is over.
    pub(crate) fn audit_when_due(&mut self, now: u64) {
        let Some(every) = self.setup.linux.audit else { return };
        if self.audit.is_none() && self.next_audit.is_none_or(|due| now >= due) {
            if self.next_audit.is_some() {
                self.begin(now, true, false);
            }
            self.next_audit = Some(now + every.as_nanos() as u64);
        }
    }

    /// Whether the dump that begins should only be compared.
    pub(crate) fn dump_is_for_audit(&self, id: FeedId) -> bool {
        let kernel = self.feeds.iter().find(|feed| feed.id == id && id == FeedId::Kernel);
        self.audit_waits() && kernel.is_some_and(|feed| feed.wanted == 0 && !feed.lost && feed.complete)
    }

    /// Whether an audit waits for a dump.
    pub(crate) fn audit_waits(&self) -> bool {
        self.audit.as_ref().is_some_and(|audit| matches!(audit.phase, Phase::Linux { .. }))
    }

    /// The dump has been compared.
    pub(crate) fn audit_dump(&mut self, found: Found, routes: u64, complete: bool) {
        let Some(audit) = &mut self.audit else { return };
        let Phase::Linux { before } = &mut audit.phase else { return };
        if !complete {
            return self.dump_for_audit();
        }
        audit.report.linux_routes = routes;
        match before.take() {
            None if !found.is_empty() => {
                *before = Some(found);
                return self.dump_for_audit();
            }
            None => {}
            Some(earlier) => {
                let lasting = found.into_iter().filter(|(key, _)| earlier.contains_key(key));
                lasting.for_each(|(key, sides)| audit.report.add(difference(key, sides)));
            }
        }
        let repair = audit.repair && audit.report.total > 0;
        audit.phase = Phase::Lookup { after: None };
        if repair {
            // No audit compares the next dump, so it will be applied.
            self.request_dump();
        }
    }

    /// Continues the audit; returns whether it did anything. `neighbors` are those whose MAC address the slow path
    /// knows.
    pub fn go_on_with_audit(
        &mut self,
        now: u64,
        table: &mut dyn Audited,
        neighbors: &dyn Fn() -> Vec<KnownNeighbor>,
    ) -> bool {
        let Some(audit) = &mut self.audit else { return false };
        let Phase::Lookup { after } = audit.phase else { return false };
        if table.uncommitted() {
            return false;
        }
        let prefixes = table.rib().prefixes_after(after, TURN);
        for prefix in &prefixes {
            audit.prefix(*prefix, table);
        }
        audit.report.prefixes += prefixes.len() as u64;
        audit.phase = Phase::Lookup { after: prefixes.last().copied() };
        if prefixes.len() < TURN {
            let is_up = |interface: InterfaceId, interfaces: &Interfaces| {
                let port = interfaces.get(interface).filter(|interface| interface.up).map(|interface| interface.port);
                port.is_some_and(|number| self.setup.ports.iter().any(|port| port.number == number && port.up))
            };
            let known = neighbors().into_iter().map(|n| ((n.interface, n.address), n.mac)).collect();
            let found = audit.next_hops(table, &known, is_up);
            audit.neighbors(table, &known, &found, is_up);
            self.end_audit(now, table);
        }
        true
    }

    fn end_audit(&mut self, now: u64, table: &dyn Audited) {
        let Some(Audit { repair, asked, began, mut report, .. }) = self.audit.take() else { return };
        let addresses = self.audit_addresses(asked, &mut report, table.interfaces());
        report.rules.clone_from(&self.meaning.said);
        report.duration = now.saturating_sub(began);
        report.rib_routes = RouteSource::ALL.into_iter().map(|source| table.rib().count(source)).sum();
        self.counters.audit_differences += report.total;
        if report.total > 0 {
            let left = if asked { 0 } else { addresses };
            tracing::warn!("the audit has found {} differences, {}", report.total, follows(repair, report.total, left));
        }
        self.effect(Effect::AuditEnded(Some(report)));
    }

    /// Compares the configuration's addresses with those in Linux, and puts them back if that was asked for. Returns
    /// how many Linux lacks.
    fn audit_addresses(&mut self, repair: bool, report: &mut AuditReport, interfaces: &Interfaces) -> u64 {
        let mut lacks = 0;
        for (link, id, missing) in self.missing_addresses() {
            let dev = name_of(interfaces, id);
            for address in &missing {
                let kind = DifferenceKind::NoAddress { address: *address, dev: dev.clone() };
                let (linux, rib) = (Some("no such address".to_owned()), Some("configured".to_owned()));
                report.add(Difference { prefix: None, kind, metric: None, linux, rib, lookup: None });
            }
            lacks += missing.len() as u64;
            if repair && self.setup.helper {
                report.repaired += missing.len() as u64;
                let change = LinkChange { add: missing, ..self.change_of(link) };
                self.ask_helper(HelperRequest::Link(change));
            }
        }
        lacks
    }

    /// Ends an audit that waits for Linux, which is not followed any more.
    pub(crate) fn give_up_audit(&mut self) {
        if self.audit_waits() {
            self.audit = None;
            self.effect(Effect::AuditEnded(None));
        }
    }
}

/// What an audit does with the differences that it has found. `left`: addresses that somebody has removed, which are
/// put back only when somebody asks for it.
fn follows(repair: bool, total: u64, left: u64) -> &'static str {
    match repair {
        false => "`perigee audit --repair` repairs them",
        true if left == 0 => "and repairs what it can",
        true if left < total => {
            "and repairs what it can; `perigee audit --repair` also puts addresses back that somebody has removed"
        }
        true => "all of them addresses that somebody has removed; `perigee audit --repair` puts them back",
    }
}

impl Audit {
    /// Compares, for the first and the last address of a prefix, what the RIB says with what workers find.
    fn prefix(&mut self, prefix: Prefix, table: &mut dyn Audited) {
        let differs = |address: &IpAddr| table.expected(*address) != table.found(*address);
        let Some(address) = [prefix.addr(), prefix.last()].into_iter().find(differs) else { return };
        let text = |id: NextHopId| Some(format!("{address}: next hop {}", id.0));
        self.report.add(Difference {
            prefix: Some(prefix),
            kind: DifferenceKind::AnotherNextHop,
            metric: None,
            linux: None,
            rib: text(table.expected(address)),
            lookup: text(table.found(address)),
        });
        if self.repair {
            match table.repair(prefix) {
                Ok(_) => self.report.repaired += 1,
                Err(error) => tracing::error!("{prefix} cannot be repaired: {error}"),
            }
        }
    }

    /// Compares the MAC address of each next hop with the neighbor's. A link that is down has no neighbors. Returns the
    /// neighbors that differ.
    fn next_hops(
        &mut self,
        table: &mut dyn Audited,
        known: &Known,
        is_up: impl Fn(InterfaceId, &Interfaces) -> bool,
    ) -> BTreeSet<(InterfaceId, IpAddr)> {
        let mut different = BTreeSet::new();
        let next_hops = table.next_hops();
        self.report.next_hops = next_hops.len() as u64;
        for NextHopInfo { kind, .. } in next_hops {
            let NextHopKind::Direct { via: Via { interface, gateway: Some(gateway) }, mac, .. } = kind else {
                continue;
            };
            let known = known.get(&(interface, gateway)).copied();
            if mac == known || !is_up(interface, table.interfaces()) {
                continue;
            }
            let dev = name_of(table.interfaces(), interface);
            let kind = DifferenceKind::AnotherMac { gateway, dev };
            self.another_mac(table, kind, (interface, gateway), known, mac);
            different.insert((interface, gateway));
        }
        different
    }

    /// Compares what packets on connected networks find with the neighbors, both ways, but for those that differ as
    /// next hops already. Link-local ones are not looked up.
    fn neighbors(
        &mut self,
        table: &mut dyn Audited,
        known: &Known,
        different: &BTreeSet<(InterfaceId, IpAddr)>,
        is_up: impl Fn(InterfaceId, &Interfaces) -> bool,
    ) {
        let mut places: BTreeSet<_> = table.on_link().into_iter().map(|n| (n.interface, n.address)).collect();
        places.extend(known.keys().filter(|(_, address)| !is_link_local(*address)));
        self.report.neighbors = places.len() as u64;
        for (interface, address) in &places - different {
            let (known, found) = (known.get(&(interface, address)).copied(), table.found_on_link(interface, address));
            if known != found && is_up(interface, table.interfaces()) {
                let dev = name_of(table.interfaces(), interface);
                let kind = DifferenceKind::AnotherNeighbor { address, dev };
                self.another_mac(table, kind, (interface, address), known, found);
            }
        }
    }

    fn another_mac(
        &mut self,
        table: &mut dyn Audited,
        kind: DifferenceKind,
        (interface, address): (InterfaceId, IpAddr),
        known: Option<MacAddr>,
        found: Option<MacAddr>,
    ) {
        let text = |mac: Option<MacAddr>| Some(mac.map_or_else(|| "no MAC".to_owned(), |mac| mac.to_string()));
        let (rib, lookup) = (text(known), text(found));
        self.report.add(Difference { prefix: None, kind, metric: None, linux: None, rib, lookup });
        if self.repair {
            table.set_neighbor(interface, address, known);
            self.report.repaired += 1;
        }
    }
}

fn difference((prefix, key): RouteId, (linux, rib): (Option<String>, Option<String>)) -> Difference {
    let kind = match (&linux, &rib) {
        (Some(_), None) => DifferenceKind::NotInRib,
        (None, _) => DifferenceKind::NotInLinux,
        _ => DifferenceKind::AnotherRoute,
    };
    Difference { prefix: Some(prefix), kind, metric: Some(key.metric), linux, rib, lookup: None }
}

fn name_of(interfaces: &Interfaces, id: InterfaceId) -> String {
    interfaces.get(id).map_or_else(|| "?".to_owned(), |interface| interface.name.clone())
}

/// A readable description of a route of Linux.
pub(crate) fn describe(interfaces: &Interfaces, route: &Route) -> String {
    let target = describe_target(interfaces, route);
    if route.mtu == 0 { target } else { format!("{target} mtu {}", route.mtu) }
}

/// Describes two routes that differ, by their protocols as well if they differ in nothing else.
pub(crate) fn describe_both(interfaces: &Interfaces, linux: &Route, rib: &Route) -> (String, String) {
    let texts = (describe(interfaces, linux), describe(interfaces, rib));
    let with = |text: &str, route: &Route| match route.protocol {
        Some(protocol) => format!("{text} proto {protocol}"),
        None => text.to_owned(),
    };
    if texts.0 == texts.1 { (with(&texts.0, linux), with(&texts.1, rib)) } else { texts }
}

fn describe_target(interfaces: &Interfaces, route: &Route) -> String {
    let dev = |id: Option<InterfaceId>| id.map(|id| format!(" dev {}", name_of(interfaces, id))).unwrap_or_default();
    match &route.target {
        RouteTarget::Connected { interface } => dev(Some(*interface)).trim_start().to_owned(),
        RouteTarget::Gateway { address, interface } => format!("via {address}{}", dev(*interface)),
        RouteTarget::Multipath(multipath) => {
            let member = |m: &Member| {
                let via = m.address.map(|address| format!(" via {address}")).unwrap_or_default();
                format!("nexthop{via}{} weight {}", dev(m.interface), m.weight)
            };
            multipath.members().iter().map(member).collect::<Vec<_>>().join(" ")
        }
        RouteTarget::Local => "local".to_owned(),
        RouteTarget::Blackhole => "blackhole".to_owned(),
        RouteTarget::Unreachable => "unreachable".to_owned(),
        RouteTarget::Prohibit => "prohibit".to_owned(),
        RouteTarget::Selective(selector) => format!("{selector}"),
        RouteTarget::ToLinux(why) => format!("to Linux ({})", why.name()),
        RouteTarget::Refused(why) => format!("refused ({})", why.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An audit by the configuration puts no address back, and said that it repairs what it can.
    #[test]
    fn an_audit_that_repairs_nothing_does_not_say_that_it_does() {
        assert!(!follows(true, 2, 2).contains("repairs what it can"));
        assert!(follows(true, 3, 2).contains("repairs what it can; `perigee audit --repair` also"));
        assert_eq!(follows(true, 3, 0), "and repairs what it can");
        assert_eq!(follows(false, 3, 3), "`perigee audit --repair` repairs them");
    }
}
