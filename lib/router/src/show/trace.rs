// SPDX-License-Identifier: MIT
//! A trace for readers: numbers become names, a next hop the route that led to it.

use super::View;
use super::routes::route_entry;
use perigee_api::taps::{TraceEntry, TraceStep};
use perigee_fib::NextHopId;
use perigee_modules::trace::{Decision, Step, Trace};
use perigee_modules::{Kind, MODULES, Reason};
use perigee_net::InterfaceId;
use perigee_packet::{Ethernet, Summary};
use std::fmt::Write;
use std::net::IpAddr;

/// A trace, as the API shows it; `epoch` turns the clock's ns into ns since 1970.
pub(crate) fn trace_entry(view: &View<'_>, trace: &Trace, epoch: u64) -> TraceEntry {
    let destination = trace.summary.addresses.map(|(_, destination)| destination);
    let mut bytes = String::new();
    for byte in &trace.frame {
        let _ = write!(bytes, "{byte:02x}"); // a String takes everything
    }
    TraceEntry {
        time: trace.time.wrapping_add(epoch),
        port: view.ports.name_of(trace.port),
        packet: trace.summary.to_string(),
        length: trace.summary.length,
        bytes,
        steps: trace.steps.iter().map(|step| trace_step(view, step, destination)).collect(),
    }
}

fn trace_step(view: &View<'_>, step: &Step, destination: Option<IpAddr>) -> TraceStep {
    let module = step.module.map_or("script", |module| MODULES[module as usize].name).to_owned();
    let said = |decision: &str, detail: String| TraceStep {
        module: module.clone(),
        decision: decision.to_owned(),
        detail: (!detail.is_empty()).then_some(detail),
        ..TraceStep::default()
    };
    match &step.decision {
        Decision::GoesOn => said("goes on", String::new()),
        Decision::Classified { interface, l3 } => {
            said("goes on", format!("interface {}, network header at byte {l3}", name_of(view, *interface)))
        }
        Decision::NextHop(id) => {
            let detail = describe_next_hop(view, *id);
            TraceStep { next_hop: Some(*id), route: route_of(view, destination), ..said("next hop", detail) }
        }
        Decision::Hops(before, now) => said("goes on", format!("{before} hops left become {now}")),
        Decision::Applied { header, port } => said("goes on", describe_header(view, header, *port)),
        Decision::Transmitted(port) => said("transmitted", format!("port {}", view.ports.name_of(*port))),
        Decision::Dropped(reason) => left(view, *reason, Kind::Drop, destination),
        Decision::Punted(reason) => left(view, *reason, Kind::Punt, destination),
        Decision::Changed(bytes) => said("changed", format!("{bytes} bytes differ")),
        Decision::Moved => said("moved", "into another batch".to_owned()),
        Decision::Gathered => said("gathered", "it waits for others, and is not followed any further".to_owned()),
        Decision::Lost => said("lost", "it is out of sight, and nobody has said why".to_owned()),
        Decision::SlowPath { dropped, rule, section, times } => slow_rule(*dropped, rule, section, *times),
        Decision::Waits => slow("waits", "for the MAC address of its next hop".to_owned()),
        Decision::Sent { port, frame } => slow("transmitted", format!("port {}: {frame}", view.ports.name_of(*port))),
        Decision::Delivered => slow("delivered", "to Linux, through the port's twin".to_owned()),
    }
}

/// A drop or a punt, which the reason's own module did.
fn left(view: &View<'_>, reason: Reason, kind: Kind, destination: Option<IpAddr>) -> TraceStep {
    let (module, name, text, rfc) = match reason.describe() {
        Some((module, info)) => (module.to_owned(), info.name.to_owned(), info.text, info.rfc),
        None => {
            let named = view.workers.custom().all().into_iter().find(|(number, ..)| *number == reason);
            let named = named.map(|(_, module, name, _)| (module, name));
            let (module, name) = named.unwrap_or_else(|| ("script".to_owned(), format!("reason {}", reason.0)));
            (module, name, "", "")
        }
    };
    let looked_up = ["ipv4_lookup", "ipv6_lookup"].contains(&module.as_str());
    TraceStep {
        decision: word(kind).to_owned(),
        detail: (!text.is_empty()).then(|| text.to_owned()),
        reason: Some(format!("{module}.{name}")),
        rfc: (!rfc.is_empty()).then(|| rfc.to_owned()),
        route: if looked_up { route_of(view, destination) } else { None },
        module,
        ..TraceStep::default()
    }
}

/// The route that is used for a destination now.
fn route_of(view: &View<'_>, destination: Option<IpAddr>) -> Option<perigee_api::answers::RouteEntry> {
    let (prefix, route) = view.forwarding.rib().lookup(destination?)?;
    Some(route_entry(view.forwarding.routing(), prefix, route, true))
}

fn describe_next_hop(view: &View<'_>, id: u32) -> String {
    match view.forwarding.routing().fib().via(NextHopId(id)) {
        Some(via) => {
            let dev = name_of(view, via.interface);
            via.gateway.map_or_else(|| format!("dev {dev}"), |gateway| format!("via {gateway} dev {dev}"))
        }
        None => String::new(),
    }
}

fn describe_header(view: &View<'_>, header: &[u8], port: u16) -> String {
    let macs = Ethernet::new(header).map(|frame| format!("{} > {}, ", frame.source(), frame.destination()));
    let vlan = Summary::of(header).vlan.map(|vid| format!("VLAN {vid}, ")).unwrap_or_default();
    format!("{}{vlan}port {}", macs.unwrap_or_default(), view.ports.name_of(port))
}

fn name_of(view: &View<'_>, interface: InterfaceId) -> String {
    view.forwarding.routing().name_of(interface)
}

/// What happens to a packet under a reason.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Drop => "dropped",
        Kind::Punt => "punted",
    }
}

fn slow(decision: &str, detail: String) -> TraceStep {
    let module = "slowpath".to_owned();
    TraceStep { module, decision: decision.to_owned(), detail: Some(detail), ..TraceStep::default() }
}

fn slow_rule(dropped: bool, rule: &str, section: &str, times: u64) -> TraceStep {
    let decision = if dropped { "dropped".to_owned() } else { rule.replace('_', " ") };
    TraceStep {
        module: "slowpath".to_owned(),
        decision,
        detail: (times > 1).then(|| format!("{times} times")),
        reason: dropped.then(|| format!("slowpath.{rule}")),
        rfc: section.starts_with("RFC").then(|| section.to_owned()),
        ..TraceStep::default()
    }
}
