// SPDX-License-Identifier: MIT
//! `perigee show`: tables for people, JSON for programs.

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use perigee_api::answers::{
    ConfigText, DropKind, DropStatus, FibStatus, FilterStatus, GatewayEntry, LinuxStatus, ModuleStatus, NeighborEntry,
    NextHopEntry, NextHopMember, PortStatus, RouteList, ScriptStatus, WorkerStatus,
};
use perigee_api::client::ApiClient;
use perigee_net::Prefix;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `perigee show`.
#[derive(Args)]
pub struct ShowArgs {
    /// What to show
    what: What,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// `show drops`: also reasons that nothing left by; `show modules`: also those nothing came to
    #[arg(long)]
    all: bool,
    /// `show routes`: only this prefix and those inside it
    #[arg(long, value_name = "PREFIX", value_parser = Prefix::around)]
    within: Option<Prefix>,
    /// `show routes`: at most so many
    #[arg(long, default_value_t = 1000)]
    limit: usize,
    #[command(flatten)]
    router: RouterArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Ports: device, MAC address, link, queues, counters, twin
    Ports,
    /// Workers: core, queues, packets
    Workers,
    /// Modules: packets in, dropped, given to the slow path
    Modules,
    /// Why packets were dropped or went to the slow path
    Drops,
    /// Routes, and where they came from
    Routes,
    /// What routes are looked up in, and how much memory it takes
    Fib,
    /// Neighbors: MAC address and state
    Neighbors,
    /// Next hops, and groups of them: what routes share, who uses it, the members' parts of the flows
    Nexthops,
    /// How Linux is followed: routes, changes, what was left out, what was lost and read again
    Linux,
    /// Scripts: generation, errors, what the JIT compiler did
    Scripts,
    /// Filters and steers
    Filters,
    /// The configuration that would start this router as it is now
    Config,
    /// Everything that counts, in OpenMetrics text
    Metrics,
}

pub fn show(args: &ShowArgs) -> Result<ExitCode> {
    let client = connect(&args.router)?;
    let path = path(args);
    match args.what {
        What::Metrics => print(&client.text(&path)?),
        _ if args.json => print(&format!("{:#}\n", client.get::<serde_json::Value>(&path)?)),
        What::Config => print(&client.get::<ConfigText>(&path)?.toml),
        _ => print(&format!("{}\n", table(args, &client, &path)?.trim_fmt())),
    }
}

/// Prints to standard output; a reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> Result<ExitCode> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn path(args: &ShowArgs) -> String {
    let name = match args.what {
        What::Metrics => return "/metrics".to_owned(),
        What::Routes => {
            let within = args.within.map(|net| format!("within={net}&")).unwrap_or_default();
            return format!("/v1/routes?{within}limit={}", args.limit);
        }
        what => what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
    };
    format!("/v1/{name}")
}

/// A table with a header; columns named in `numbers` are aligned right.
pub fn rows(header: &[&str], numbers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (index, name) in header.iter().enumerate() {
        if let Some(column) = table.column_mut(index).filter(|_| numbers.contains(name)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

fn table(args: &ShowArgs, client: &ApiClient, path: &str) -> Result<Table> {
    Ok(match args.what {
        What::Ports => ports(&client.get::<Vec<PortStatus>>(path)?),
        What::Workers => workers(&client.get::<Vec<WorkerStatus>>(path)?),
        What::Modules => modules(&client.get::<Vec<ModuleStatus>>(path)?, args.all),
        What::Drops => drops(&client.get::<Vec<DropStatus>>(path)?, args.all),
        What::Routes => routes(&client.get::<RouteList>(path)?),
        What::Fib => fib(&client.get::<Vec<FibStatus>>(path)?),
        What::Neighbors => neighbors(&client.get::<Vec<NeighborEntry>>(path)?),
        What::Nexthops => next_hops(&client.get::<Vec<NextHopEntry>>(path)?),
        What::Linux => linux(&client.get::<LinuxStatus>(path)?),
        What::Scripts => scripts(&client.get::<Vec<ScriptStatus>>(path)?),
        What::Filters => filters(&client.get::<Vec<FilterStatus>>(path)?),
        What::Config | What::Metrics => Table::new(),
    })
}

fn linux(status: &LinuxStatus) -> Table {
    let left_out: Vec<String> =
        status.left_out.iter().map(|(why, n)| format!("{n} {}", why.replace('_', " "))).collect();
    let lines = [
        ("feed", status.feed.clone()),
        ("state", status.state.clone()),
        ("namespace", status.namespace.as_ref().map_or_else(|| "the router's own".to_owned(), ToString::to_string)),
        ("tables", status.tables.join(", ")),
        ("routes", status.routes.to_string()),
        ("links, addresses", format!("{}, {}", status.links, status.addresses)),
        ("next-hop objects", status.next_hops.to_string()),
        ("neighbors by hand", status.neighbors_by_hand.to_string()),
        ("changes of routes", status.changes.to_string()),
        ("routes refused", status.refused.to_string()),
        ("routes left out", if left_out.is_empty() { "none".to_owned() } else { left_out.join(", ") }),
        ("times news were lost", status.overruns.to_string()),
        ("times read again", format!("{}, the last one in {:.3} s", status.resyncs, status.resync_seconds)),
        ("differences found then", status.repaired.to_string()),
        ("messages malformed, skipped", format!("{}, {}", status.malformed, status.skipped)),
    ];
    rows(&["Linux", ""], &[], lines.into_iter().map(|(name, value)| vec![name.to_owned(), value]))
}

fn ports(list: &[PortStatus]) -> Table {
    let header =
        ["port", "driver", "mac", "link", "mtu", "rx queues", "tx queues", "received", "sent", "addresses", "twin"];
    rows(
        &header,
        &["mtu", "rx queues", "tx queues", "received", "sent"],
        list.iter().map(|port| {
            let addresses = port.interfaces.iter().flat_map(|i| {
                let name = if i.name == port.name { String::new() } else { format!("{}: ", i.name) };
                i.addresses.iter().map(move |address| format!("{name}{address}"))
            });
            vec![
                port.name.clone(),
                port.driver.clone(),
                port.mac.to_string(),
                if port.link_up { "up" } else { "down" }.to_owned(),
                port.interfaces.first().map_or(port.mtu, |interface| interface.mtu).to_string(),
                port.receive_queues.to_string(),
                port.transmit_queues.to_string(),
                port.counters.receive_packets.to_string(),
                port.counters.transmit_packets.to_string(),
                addresses.collect::<Vec<_>>().join("\n"),
                port.twin
                    .as_ref()
                    .map_or("-".to_owned(), |twin| format!("{} to Linux, {} back", twin.to_linux, twin.from_linux)),
            ]
        }),
    )
}

fn workers(list: &[WorkerStatus]) -> Table {
    let header = [
        "worker",
        "core",
        "state",
        "queues",
        "received",
        "sent",
        "punted",
        "punt ring full",
        "unclaimed",
        "packets/burst",
        "longest gap",
    ];
    rows(
        &header,
        &[
            "worker",
            "core",
            "received",
            "sent",
            "punted",
            "punt ring full",
            "unclaimed",
            "packets/burst",
            "longest gap",
        ],
        list.iter().map(|w| {
            vec![
                w.worker.to_string(),
                w.core.to_string(),
                w.state.clone(),
                w.queues.join(" "),
                w.received.to_string(),
                w.transmitted.to_string(),
                w.punted.to_string(),
                w.punt_full.to_string(),
                w.unclaimed.to_string(),
                format!("{:.1}", w.received as f64 / w.batches.max(1) as f64),
                format!("{:.0} us", w.longest_gap * 1e6),
            ]
        }),
    )
}

fn modules(list: &[ModuleStatus], all: bool) -> Table {
    let used = list.iter().filter(|m| all || m.packets + m.dropped + m.punted > 0);
    rows(
        &["module", "packets", "dropped", "to slow path", "packets/call", "what it does"],
        &["packets", "dropped", "to slow path", "packets/call"],
        used.map(|m| {
            let per_call = (m.calls > 0).then(|| format!("{:.1}", m.packets as f64 / m.calls as f64));
            vec![
                m.module.clone(),
                m.packets.to_string(),
                m.dropped.to_string(),
                m.punted.to_string(),
                or_dash(per_call),
                m.about.clone(),
            ]
        }),
    )
}

/// Reasons and their packets; with `all`, also those that nothing left by.
pub fn drops(list: &[DropStatus], all: bool) -> Table {
    let used = list.iter().filter(|drop| all || drop.packets > 0);
    rows(
        &["module", "reason", "what", "packets", "demanded by"],
        &["packets"],
        used.map(|drop| {
            let what = if drop.kind == DropKind::Drop { "drop" } else { "to slow path" };
            vec![
                drop.module.clone(),
                drop.reason.clone(),
                what.to_owned(),
                drop.packets.to_string(),
                or_dash(drop.rfc.as_ref()),
            ]
        }),
    )
}

fn routes(list: &RouteList) -> Table {
    let mut table = rows(
        &["", "prefix", "action", "via", "dev", "source", "preference", "metric"],
        &["preference", "metric"],
        list.routes.iter().map(|route| {
            let each =
                |show: fn(&GatewayEntry) -> String| route.gateways.iter().map(show).collect::<Vec<_>>().join("\n");
            let (via, dev) = match route.gateways.is_empty() {
                true => (or_dash(route.via), or_dash(route.dev.as_ref())),
                false => {
                    let via = each(|gateway| format!("{} weight {}", or_dash(gateway.via), gateway.weight));
                    (via, each(|gateway| or_dash(gateway.dev.as_ref())))
                }
            };
            vec![
                if route.best { ">" } else { "" }.to_owned(),
                route.prefix.to_string(),
                route.action.clone(),
                via,
                dev,
                route.source.clone(),
                route.preference.to_string(),
                route.metric.to_string(),
            ]
        }),
    );
    let hidden = list.total.saturating_sub(list.routes.len() as u64);
    if hidden > 0 {
        table.add_row(vec![String::new(), format!("... {hidden} more: --limit, --within")]);
    }
    table
}

fn fib(list: &[FibStatus]) -> Table {
    rows(
        &["family", "structure", "chosen by", "prefixes", "MB", "why"],
        &["prefixes", "MB"],
        list.iter().map(|fib| {
            vec![
                fib.family.clone(),
                fib.structure.clone(),
                format!("fib = {}", fib.chosen),
                fib.prefixes.to_string(),
                format!("{:.1}", fib.bytes as f64 / 1048576.0),
                or_dash(fib.why.as_ref()),
            ]
        }),
    )
}

fn neighbors(list: &[NeighborEntry]) -> Table {
    rows(
        &["address", "mac", "dev", "state"],
        &[],
        list.iter().map(|n| vec![n.address.to_string(), or_dash(n.mac), n.dev.clone(), n.state.clone()]),
    )
}

fn next_hops(list: &[NextHopEntry]) -> Table {
    rows(
        &["id", "kind", "via", "dev", "mac", "leads to", "uses"],
        &["id", "uses"],
        list.iter().map(|hop| {
            let member = |m: &NextHopMember| format!("{} weight {}: {:.1} %", m.id, m.weight, m.share * 100.0);
            let members = hop.members.iter().map(member).collect::<Vec<_>>().join("\n");
            vec![
                hop.id.to_string(),
                hop.kind.clone(),
                or_dash(hop.via),
                or_dash(hop.dev.as_ref()),
                or_dash(hop.mac),
                if members.is_empty() { or_dash(hop.target) } else { members },
                hop.uses.to_string(),
            ]
        }),
    )
}

fn scripts(list: &[ScriptStatus]) -> Table {
    let header = [
        "worker",
        "script",
        "generation",
        "state",
        "throws",
        "traces",
        "aborts",
        "blacklisted",
        "heap KB",
        "last error",
    ];
    rows(
        &header,
        &["worker", "generation", "throws", "traces", "aborts", "blacklisted", "heap KB"],
        list.iter().map(|s| {
            vec![
                s.worker.to_string(),
                s.path.clone(),
                s.generation.to_string(),
                s.state.clone(),
                s.throws.to_string(),
                s.traces.to_string(),
                s.trace_aborts.to_string(),
                s.blacklisted.to_string(),
                format!("{:.0}", s.gc_kb),
                or_dash(s.error.as_ref()),
            ]
        }),
    )
}

fn filters(list: &[FilterStatus]) -> Table {
    rows(
        &["kind", "number", "rule", "action", "done in"],
        &["number"],
        list.iter()
            .map(|f| vec![f.kind.clone(), f.number.to_string(), f.rule.clone(), f.action.clone(), f.done_in.clone()]),
    )
}
