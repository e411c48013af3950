// SPDX-License-Identifier: MIT
//! A trace in words: numbers become names, a next hop the route that led to it.

use crate::slow::SlowThread;
use crate::taps::word;
use perigee_api::taps::{TraceEntry, TraceStep};
use perigee_fib::NextHopId;
use perigee_modules::trace::{Decision, Step, Trace};
use perigee_modules::{Kind, MODULES, Reason};
use perigee_packet::{Ethernet, Summary};
use std::fmt::Write;
use std::net::IpAddr;

impl SlowThread {
    /// A trace, as the API shows it; `epoch` makes the clock's ns those since 1970.
    pub(crate) fn trace_entry(&mut self, trace: &Trace, epoch: u64) -> TraceEntry {
        let destination = trace.summary.addresses.map(|(_, destination)| destination);
        let mut bytes = String::new();
        for byte in &trace.frame {
            let _ = write!(bytes, "{byte:02x}"); // a String takes everything
        }
        TraceEntry {
            time: trace.time.wrapping_add(epoch),
            port: self.port_name(trace.port),
            packet: trace.summary.to_string(),
            length: trace.summary.length,
            bytes,
            steps: trace.steps.iter().map(|step| self.trace_step(step, destination)).collect(),
        }
    }

    fn port_name(&self, number: u16) -> String {
        let index = self.infos.iter().position(|info| info.port == number);
        index.map_or_else(|| number.to_string(), |index| self.parts.config.ports[index].name.clone())
    }

    fn trace_step(&mut self, step: &Step, destination: Option<IpAddr>) -> TraceStep {
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
                said("goes on", format!("interface {}, network header at byte {l3}", self.name_of(*interface)))
            }
            Decision::NextHop(id) => {
                let detail = self.next_hop_in_words(*id);
                TraceStep { next_hop: Some(*id), route: self.route_of(destination), ..said("next hop", detail) }
            }
            Decision::Hops(before, now) => said("goes on", format!("{before} hops left become {now}")),
            Decision::Applied { header, port } => said("goes on", self.header_in_words(header, *port)),
            Decision::Transmitted(port) => said("transmitted", format!("port {}", self.port_name(*port))),
            Decision::Dropped(reason) => self.left(*reason, Kind::Drop, destination),
            Decision::Punted(reason) => self.left(*reason, Kind::Punt, destination),
            Decision::Changed(bytes) => said("changed", format!("{bytes} bytes differ")),
            Decision::Moved => said("moved", "into another batch".to_owned()),
            Decision::Gathered => said("gathered", "it waits for others, and is not followed any further".to_owned()),
            Decision::Lost => said("lost", "it is out of sight, and nobody has said why".to_owned()),
            Decision::SlowPath { dropped, rule, section, times } => slow_rule(*dropped, rule, section, *times),
            Decision::Waits => slow("waits", "for the MAC address of its next hop".to_owned()),
            Decision::Sent { port, frame } => slow("transmitted", format!("port {}: {frame}", self.port_name(*port))),
            Decision::Delivered => slow("delivered", "to Linux, through the port's twin".to_owned()),
        }
    }

    /// A drop or a punt: the reason's own module is who did it.
    fn left(&mut self, reason: Reason, kind: Kind, destination: Option<IpAddr>) -> TraceStep {
        let (module, name, text, rfc) = match reason.describe() {
            Some((module, info)) => (module.to_owned(), info.name.to_owned(), info.text, info.rfc),
            None => {
                let named = self.parts.custom.all().into_iter().find(|(number, ..)| *number == reason);
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
            route: if looked_up { self.route_of(destination) } else { None },
            module,
            ..TraceStep::default()
        }
    }

    /// The route that is used for a destination now.
    fn route_of(&self, destination: Option<IpAddr>) -> Option<perigee_api::answers::RouteEntry> {
        let (prefix, route) = self.parts.routing.rib().lookup(destination?)?;
        Some(self.route_entry(prefix, route, true))
    }

    fn next_hop_in_words(&mut self, id: u32) -> String {
        match self.parts.routing.fib().via(NextHopId(id)) {
            Some(via) => {
                let dev = self.name_of(via.interface);
                via.gateway.map_or_else(|| format!("dev {dev}"), |gateway| format!("via {gateway} dev {dev}"))
            }
            None => String::new(),
        }
    }

    fn header_in_words(&self, header: &[u8], port: u16) -> String {
        let macs = Ethernet::new(header).map(|frame| format!("{} > {}, ", frame.source(), frame.destination()));
        let vlan = Summary::of(header).vlan.map(|vid| format!("VLAN {vid}, ")).unwrap_or_default();
        format!("{}{vlan}port {}", macs.unwrap_or_default(), self.port_name(port))
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
