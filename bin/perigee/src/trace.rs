// SPDX-License-Identifier: MIT
//! `perigee trace`: the path of single packets through a running router.

use crate::capture::clock;
use crate::client::{RouterArg, stream};
use anyhow::Result;
use clap::Args;
use perigee_api::answers::{RouteAction, RouteEntry};
use perigee_api::queries::Trace;
use perigee_api::taps::{TraceEntry, TraceLine, TraceStep};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Arguments of `perigee trace`.
#[derive(Args)]
pub struct TraceArgs {
    /// Only packets that match, in tcpdump's syntax: `icmp and dst 10.0.2.2`, `tcp port 179`, `in wan`
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// End after this many packets, or earlier by Ctrl-C
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// As JSON: an object a line, one per packet
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    router: RouterArg,
}

/// The state of the trace.
struct Session<'a> {
    args: &'a TraceArgs,
    color: bool,
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
    packets: u64,
    lost: u64,
}

pub fn trace(args: &TraceArgs) -> Result<ExitCode> {
    let asked = Trace { filter: args.filter.clone(), count: Some(args.count) };
    let session = stream(&args.router, &asked, || Ok(Session::begin(args)), Session::piece)?;
    let (packets, lost) = session.map_or((0, 0), |session| (session.packets, session.lost));
    if lost > 0 {
        eprintln!("{lost} traces lost: the router had no room for them");
    }
    if packets == 0 {
        eprintln!("no packet was seen");
    }
    Ok(ExitCode::SUCCESS)
}

impl<'a> Session<'a> {
    fn begin(args: &'a TraceArgs) -> Self {
        eprintln!("tracing; Ctrl-C ends it");
        let color = !args.json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Session { args, color, rest: Vec::new(), packets: 0, lost: 0 }
    }

    /// Takes a piece of the stream.
    fn piece(&mut self, piece: &[u8]) -> Result<()> {
        self.rest.extend(piece);
        let mut text = String::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            match serde_json::from_slice(&line)? {
                TraceLine::Lost { lost } => self.lost = lost,
                TraceLine::Trace(entry) => {
                    self.packets += 1;
                    match self.args.json {
                        true => text.push_str(&String::from_utf8_lossy(&line)),
                        false => text.push_str(&shown(&entry, self.color)),
                    }
                }
            }
        }
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}

/// A packet's path, a line per step.
fn shown(entry: &TraceEntry, color: bool) -> String {
    let paint = |code: &str, text: &str| if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let mut text = format!("{} {} {}\n", clock(entry.time), entry.port, paint("1", &entry.packet));
    let width = entry.steps.iter().map(|step| step.module.len()).max().unwrap_or(0);
    for step in &entry.steps {
        let code = match step.decision.as_str() {
            "dropped" | "lost" => "31",
            "punted" | "waits" => "33",
            "transmitted" | "delivered" => "32",
            _ => "0",
        };
        let mut line = paint(code, &step.decision);
        if let Some(reason) = &step.reason {
            let _ = write!(line, " as {reason}"); // a String takes everything
        }
        for more in details(step) {
            let _ = write!(line, "; {more}");
        }
        let _ = writeln!(text, "  {:width$}  {line}", step.module);
    }
    text.push('\n');
    text
}

fn details(step: &TraceStep) -> Vec<String> {
    let number = step.next_hop.map(|id| format!("number {id}"));
    [number, step.detail.clone(), step.rfc.clone(), step.route.as_ref().map(route)].into_iter().flatten().collect()
}

/// `route 10.0.0.0/8 via 10.0.2.2 dev lan, static, metric 0`
fn route(route: &RouteEntry) -> String {
    let mut text = format!("route {}", route.prefix);
    if route.action != RouteAction::Forward {
        let _ = write!(text, " {}", route.action);
    }
    if let Some(via) = route.via {
        let _ = write!(text, " via {via}");
    }
    if let Some(dev) = &route.dev {
        let _ = write!(text, " dev {dev}");
    }
    for gateway in &route.gateways {
        let via = gateway.via.map(|via| via.to_string()).or_else(|| gateway.dev.clone());
        let _ = write!(text, " via {}", via.unwrap_or_default());
    }
    let _ = write!(text, ", {}, preference {}, metric {}", route.origin(), route.preference, route.metric);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_line_per_step() {
        let step = |module: &str, decision: &str| TraceStep {
            module: module.to_owned(),
            decision: decision.to_owned(),
            ..TraceStep::default()
        };
        let dropped = TraceStep {
            reason: Some("ipv4_valid.checksum".to_owned()),
            detail: Some("it is wrong".to_owned()),
            rfc: Some("RFC 1812 5.2.2".to_owned()),
            ..step("ipv4_valid", "dropped")
        };
        let entry = TraceEntry {
            time: 1_000_000_001,
            port: "wan".to_owned(),
            packet: "a packet".to_owned(),
            steps: vec![step("classify", "goes on"), dropped],
            ..TraceEntry::default()
        };
        let expected = "00:00:01.000000001 wan a packet\n  classify    goes on\n  \
                        ipv4_valid  dropped as ipv4_valid.checksum; it is wrong; RFC 1812 5.2.2\n\n";
        assert_eq!(shown(&entry, false), expected);
        assert!(shown(&entry, true).contains("\x1b[31mdropped\x1b[0m"));
    }
}
