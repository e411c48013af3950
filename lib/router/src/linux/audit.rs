// SPDX-License-Identifier: MIT
//! The audit: Linux' table against the RIB, the RIB against what workers look up in, next hops against the neighbors.
//!
//! It runs in turns beside everything else, on tables that change meanwhile. So a difference to Linux counts only if two dumps
//! in a row show it, and each prefix is compared with the RIB as it is at that moment.

use crate::slow::SlowThread;
use perigee_api::answers::{AuditReport, Difference};
use perigee_api::{ApiError, Reply};
use perigee_fib::{NextHopInfo, NextHopKind, Via};
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteKey, RouteSource, RouteTarget};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Prefixes compared in one turn.
const TURN: usize = 1024;
/// Differences that are told; the others are counted.
const TOLD: usize = 1000;

/// What a dump says that the RIB does not, or the other way round: the two sides in words.
pub(crate) type Found = BTreeMap<(Prefix, RouteKey), (Option<String>, Option<String>)>;

/// An audit that runs.
pub(crate) struct Audit {
    replies: Vec<Reply>,
    repair: bool,
    began: u64,
    phase: Phase,
    report: AuditReport,
}

enum Phase {
    /// Waits for a dump to be compared; with what the one before it showed.
    Linux { before: Option<Found> },
    /// Compares the lookup structures, from behind this prefix on.
    Lookup { after: Option<Prefix> },
}

impl SlowThread {
    /// Begins an audit, or joins the one that runs; answered when it is over.
    pub(crate) fn audit(&mut self, repair: bool, reply: Option<Reply>) {
        let followed = self.linux.origins.iter().any(|origin| origin.routes);
        let audit = self.linux.audit.get_or_insert_with(|| Audit {
            replies: Vec::new(),
            repair: false,
            began: 0,
            phase: if followed { Phase::Linux { before: None } } else { Phase::Lookup { after: None } },
            report: AuditReport::default(),
        });
        if audit.began == 0 {
            audit.began = (self.parts.clock)().max(1);
        }
        audit.repair |= repair;
        audit.replies.extend(reply);
        self.linux.counters.audits += 1;
        if followed {
            self.linux.dump_for_audit();
        }
    }

    /// Begins one when it is due; to be called now and then.
    pub(crate) fn audit_when_due(&mut self, now: u64) {
        let Some(every) = self.linux.config.audit else { return };
        if self.linux.audit.is_none() && now >= self.linux.next_audit {
            if self.linux.next_audit > 0 {
                self.audit(true, None);
            }
            self.linux.next_audit = now + every.as_nanos() as u64;
        }
    }

    /// Whether the dump that begins is to be compared, and nothing more.
    pub(super) fn dump_is_for_audit(&self, at: usize) -> bool {
        let origin = &self.linux.origins[at];
        at == 0 && self.audit_waits() && origin.wanted == 0 && !origin.lost && origin.complete
    }

    /// Whether an audit waits for a dump.
    pub(super) fn audit_waits(&self) -> bool {
        self.linux.audit.as_ref().is_some_and(|audit| matches!(audit.phase, Phase::Linux { .. }))
    }

    /// The dump has been compared.
    pub(super) fn audit_dump(&mut self, found: Found, routes: u64, complete: bool) {
        let Some(audit) = &mut self.linux.audit else { return };
        let Phase::Linux { before } = &mut audit.phase else { return };
        if !complete {
            return self.linux.dump_for_audit();
        }
        audit.report.linux_routes = routes;
        match before.take() {
            None if !found.is_empty() => {
                *before = Some(found);
                return self.linux.dump_for_audit();
            }
            None => {}
            Some(earlier) => {
                let lasting = found.into_iter().filter(|(key, _)| earlier.contains_key(key));
                for ((prefix, key), (linux, rib)) in lasting {
                    let kind = match (&linux, &rib) {
                        (Some(_), None) => "not in the RIB",
                        (None, _) => "not in Linux",
                        _ => "another route",
                    };
                    let metric = Some(key.metric);
                    tell(
                        &mut audit.report,
                        Difference { prefix: Some(prefix), kind: kind.into(), metric, linux, rib, lookup: None },
                    );
                }
            }
        }
        let repair = audit.repair && audit.report.total > 0;
        audit.phase = Phase::Lookup { after: None };
        if repair {
            // The next dump is compared by nobody, and so it is done.
            self.linux.dump();
        }
    }

    /// Goes on with the audit; whether it did anything.
    pub(crate) fn go_on_with_audit(&mut self) -> bool {
        let Some(audit) = &self.linux.audit else { return false };
        let Phase::Lookup { after } = audit.phase else { return false };
        if self.parts.routing.uncommitted() {
            return false;
        }
        let prefixes = self.parts.routing.rib().after(after, TURN);
        for prefix in &prefixes {
            self.audit_prefix(*prefix);
        }
        let done = prefixes.len() < TURN;
        if let Some(audit) = &mut self.linux.audit {
            audit.report.prefixes += prefixes.len() as u64;
            audit.phase = Phase::Lookup { after: prefixes.last().copied() };
        }
        if done {
            self.audit_next_hops();
            self.end_audit();
        }
        true
    }

    /// The first and the last address of a prefix: what the RIB says, and what workers find.
    fn audit_prefix(&mut self, prefix: Prefix) {
        let routing = &mut self.parts.routing;
        let reader = routing.reader();
        for address in [prefix.addr(), prefix.last()] {
            let (expected, (found, _)) = (routing.rib_says(address), reader.lookup(address));
            if expected == found {
                continue;
            }
            let Some(audit) = &mut self.linux.audit else { return };
            let difference = Difference {
                prefix: Some(prefix),
                kind: "workers find another next hop".into(),
                metric: None,
                linux: None,
                rib: Some(format!("{address}: next hop {}", expected.0)),
                lookup: Some(format!("{address}: next hop {}", found.0)),
            };
            tell(&mut audit.report, difference);
            if audit.repair {
                match routing.repair(prefix) {
                    Ok(_) => audit.report.repaired += 1,
                    Err(error) => tracing::error!("{prefix} cannot be repaired: {error}"),
                }
            }
            return;
        }
    }

    /// The MAC address of each next hop against the neighbor's.
    fn audit_next_hops(&mut self) {
        let neighbors: BTreeMap<(InterfaceId, IpAddr), MacAddr> = self
            .machine
            .neighbors()
            .filter(|neighbor| self.parts.routing.interfaces().get(neighbor.interface).is_some_and(|i| i.up))
            .filter_map(|neighbor| Some(((neighbor.interface, neighbor.address), neighbor.mac?)))
            .collect();
        let next_hops: Vec<NextHopInfo> = self.parts.routing.next_hops().collect();
        let mut wrong = Vec::new();
        for hop in &next_hops {
            let NextHopKind::Direct { via: Via { interface, gateway: Some(gateway) }, mac } = hop.kind else {
                continue;
            };
            let known = neighbors.get(&(interface, gateway)).copied();
            // A link that is out takes its neighbors along.
            let link_up = self.interface_is_up(interface);
            if mac != known && link_up {
                wrong.push((interface, gateway, mac, known));
            }
        }
        let name = |mac: Option<MacAddr>| mac.map_or("no MAC".to_owned(), |mac| mac.to_string());
        for (interface, gateway, mac, known) in wrong {
            let dev = self.name_of(interface);
            let Some(audit) = &mut self.linux.audit else { return };
            let difference = Difference {
                prefix: None,
                kind: format!("the next hop {gateway} on {dev} has another MAC than the neighbor"),
                metric: None,
                linux: None,
                rib: Some(name(known)),
                lookup: Some(name(mac)),
            };
            tell(&mut audit.report, difference);
            if audit.repair {
                audit.report.repaired += 1;
                self.parts.routing.neighbor(interface, gateway, known);
            }
        }
        if let Some(audit) = &mut self.linux.audit {
            audit.report.next_hops = next_hops.len() as u64;
        }
    }

    fn end_audit(&mut self) {
        let Some(audit) = self.linux.audit.take() else { return };
        let Audit { replies, repair, began, mut report, .. } = audit;
        report.seconds = (self.parts.clock)().saturating_sub(began) as f64 / 1e9;
        let rib = self.parts.routing.rib();
        report.rib_routes = RouteSource::ALL.into_iter().map(|source| rib.count(source)).sum();
        self.linux.counters.audit_differences += report.total;
        if report.total > 0 {
            let what = if repair { "and mends what it can" } else { "`perigee audit --repair` mends them" };
            tracing::warn!("the audit has found {} differences, {what}", report.total);
        }
        for reply in replies {
            reply.send::<AuditReport>(Ok(report.clone()));
        }
    }

    /// Ends an audit that cannot go on: why.
    pub(super) fn give_up_audit(&mut self, why: &str) {
        if let Some(audit) = self.linux.audit.take_if(|audit| matches!(audit.phase, Phase::Linux { .. })) {
            for reply in audit.replies {
                reply.send::<AuditReport>(Err(ApiError::failed(why)));
            }
        }
    }

    /// A route of Linux in a few words.
    pub(super) fn in_words(&self, route: &Route) -> String {
        let dev = |interface: Option<perigee_net::InterfaceId>| {
            interface.map(|id| format!(" dev {}", self.name_of(id))).unwrap_or_default()
        };
        match &route.target {
            RouteTarget::Connected { interface } => dev(Some(*interface)).trim_start().to_owned(),
            RouteTarget::Gateway { address, interface } => format!("via {address}{}", dev(*interface)),
            RouteTarget::Multipath(multipath) => {
                let member = |m: &perigee_net::Member| {
                    let via = m.address.map(|address| format!(" via {address}")).unwrap_or_default();
                    format!("nexthop{via}{} weight {}", dev(m.interface), m.weight)
                };
                multipath.members().iter().map(member).collect::<Vec<_>>().join(" ")
            }
            RouteTarget::Local => "local".to_owned(),
            RouteTarget::Blackhole => "blackhole".to_owned(),
            RouteTarget::Unreachable => "unreachable".to_owned(),
            RouteTarget::Prohibit => "prohibit".to_owned(),
        }
    }
}

fn tell(report: &mut AuditReport, difference: Difference) {
    report.total += 1;
    if report.differences.len() < TOLD {
        report.differences.push(difference);
    }
}
