// SPDX-License-Identifier: MIT
//! `perigee show`: tables for people, JSON for programs.
//!
//! Each thing that can be shown has a variant of [`What`], a query in [`show`], and a table below; those of ports are
//! in `show/ports.rs` and `show/rates.rs`.

mod ports;
mod rates;
mod time;

use crate::client::RouterArg;
use crate::client::connect;
use crate::output::print;
use crate::table::{Columns, or_dash, rows};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use comfy_table::Table;
use perigee_api::Query;
use perigee_api::answers::{
    DropKind, DropStatus, FibStatus, FilterStatus, GatewayEntry, LinuxStatus, ModuleStatus, MulticastEntry,
    NeighborEntry, NeighborUsage, NextHopEntry, NextHopMember, RouteEntry, RouteList, ScriptStatus, ScriptValue,
    SlowPathStatus, SourceFilter, VersionStatus, WorkerStatus,
};
use perigee_api::client::ApiClient;
use perigee_api::queries::{
    ShowConfig, ShowCounters, ShowDrops, ShowFib, ShowFilters, ShowLinux, ShowModules, ShowMulticast,
    ShowNeighborUsage, ShowNeighbors, ShowNextHops, ShowPorts, ShowRoutes, ShowScripts, ShowSlowPath, ShowVersion,
    ShowWorkers,
};
use perigee_net::Prefix;
use serde::Serialize;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `perigee show`.
#[derive(Args)]
pub struct ShowArgs {
    /// What to show
    what: What,
    /// `show routes`: only the routes that a packet to this address finds, those of the longest prefix
    address: Option<IpAddr>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// `show drops`, `modules`, `slowpath`: also reasons, modules and events without packets; `show linux`: up to a
    /// hundred routes that are left out or Linux's alone, instead of ten
    #[arg(long)]
    all: bool,
    /// `show routes`: only this prefix and those inside it
    #[arg(long, value_name = "PREFIX", value_parser = Prefix::around)]
    within: Option<Prefix>,
    /// `show routes`: only those of this source (linux, static, ...), or of this protocol in Linux, by name or number
    /// (bgp, bird, 186), or of both, as the table has it (linux/bgp)
    #[arg(long)]
    source: Option<SourceFilter>,
    /// `show routes`: at most this many
    #[arg(long, default_value_t = 1000)]
    limit: usize,
    /// `show modules`: what they take now, from the bursts that are timed in so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    time: Option<f64>,
    /// `show ports`: packets and bits per second, from what they count in so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    rate: Option<f64>,
    #[command(flatten)]
    router: RouterArg,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| format!("found {text:?}, expected 0.1 to 3600 seconds"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Ports: device, MAC address, link, queues, counters, losses, twin
    Ports,
    /// Workers: core, queues, packets
    Workers,
    /// Modules: packets in, dropped, given to the slow path
    Modules,
    /// Why packets were dropped or went to the slow path, and what ports have lost
    Drops,
    /// The slow path: what waits in it, how often it did what
    #[value(name = "slowpath")]
    SlowPath,
    /// Routes, and where they came from
    Routes,
    /// The lookup structures, and how much memory they take
    Fib,
    /// Neighbors: MAC address and state; how many each interface has, and its limits
    Neighbors,
    /// Next hops, and groups of them: what routes share, how many use it, the members' shares of the flows
    Nexthops,
    /// Multicast routes: group, source, where packets come in and leave, how many did
    Multicast,
    /// How Linux is followed: routes, changes, routes left out, notifications lost, tables read again
    Linux,
    /// Scripts: generation, errors, work of the JIT compiler
    Scripts,
    /// What the script counts and measures itself
    Counters,
    /// Filters and steers
    Filters,
    /// The configuration that would start this router as it is now
    Config,
    /// All counters, as OpenMetrics text
    Metrics,
    /// The running router: its versions, process, configuration, time since its start
    Version,
}

/// Asks, and prints the answer.
pub fn show(args: &ShowArgs) -> Result<ExitCode> {
    ensure!(args.time.is_none() || args.what == What::Modules, "--time: `perigee show modules` has it");
    ensure!(args.rate.is_none() || args.what == What::Ports, "--rate: `perigee show ports` has it");
    ensure!(args.source.is_none() || args.what == What::Routes, "--source: `perigee show routes` has it");
    ensure!(args.address.is_none() || args.what == What::Routes, "an address: `perigee show routes ADDRESS` has it");
    let asked = Asked { client: connect(&args.router)?, json: args.json };
    match args.what {
        What::Ports => match args.rate {
            Some(seconds) => {
                let (before, after, took) = asked.twice(&ShowPorts {}, seconds)?;
                asked.found(&rates::between(&before, &after, took), rates::table)
            }
            None => asked.table(&ShowPorts {}, |list| ports::table(list)),
        },
        What::Workers => asked.table(&ShowWorkers {}, |list| workers(list)),
        What::Modules if args.time.is_some() => asked.times(args.time.unwrap_or(1.0), args.all),
        What::Modules => asked.table(&ShowModules {}, |list| modules(list, args.all)),
        What::Drops => asked.drops(args.all),
        What::SlowPath => asked.table(&ShowSlowPath {}, |status| slow_path(status, args.all)),
        What::Routes => {
            let (within, to, source, limit) = (args.within, args.address, args.source, Some(args.limit));
            let query = ShowRoutes { within, to, source, limit };
            if let Some(address) = args.address {
                let found = asked.client.ask(&ShowRoutes { source: None, ..query.clone() })?.total;
                ensure!(found > 0, "no route leads to {address}: packets to it are dropped, and their senders told so");
            }
            asked.table(&query, routes)
        }
        What::Fib => asked.table(&ShowFib {}, |list| fib(list)),
        What::Neighbors => asked.neighbors(),
        What::Nexthops => asked.table(&ShowNextHops {}, |list| next_hops(list)),
        What::Multicast => asked.table(&ShowMulticast {}, |list| multicast(list)),
        What::Linux => asked.table(&ShowLinux {}, |status| linux(status, args.all)),
        What::Scripts => asked.table(&ShowScripts {}, |list| scripts(list)),
        What::Counters => asked.table(&ShowCounters {}, |list| counters(list)),
        What::Filters => asked.table(&ShowFilters {}, |list| filters(list)),
        What::Config => asked.text(&ShowConfig {}, |config| config.toml.clone()),
        What::Metrics => print(&asked.client.metrics()?),
        What::Version => asked.table(&ShowVersion {}, version),
    }
}

/// A router, and how its answers are to be printed.
struct Asked {
    client: ApiClient,
    json: bool,
}

impl Asked {
    fn table<Q: Query>(&self, query: &Q, table: impl FnOnce(&Q::Answer) -> Table) -> Result<ExitCode> {
        self.text(query, |answer| format!("{}\n", table(answer).trim_fmt()))
    }

    /// What modules take in so many seconds.
    fn times(&self, seconds: f64, all: bool) -> Result<ExitCode> {
        let (before, after, took) = self.twice(&ShowModules {}, seconds)?;
        self.found(&time::between(&before, &after, took), |found| time::table(found, all))
    }

    /// Two answers, and the seconds between them.
    fn twice<Q: Query>(&self, query: &Q, seconds: f64) -> Result<(Q::Answer, Q::Answer, f64)> {
        let (begun, before) = (Instant::now(), self.client.ask(query)?);
        std::thread::sleep(Duration::from_secs_f64(seconds));
        Ok((before, self.client.ask(query)?, begun.elapsed().as_secs_f64()))
    }

    /// What two answers have shown.
    fn found<T: Serialize>(&self, found: &[T], table: impl FnOnce(&[T]) -> Table) -> Result<ExitCode> {
        match self.json {
            true => print(&format!("{}\n", serde_json::to_string_pretty(found)?)),
            false => print(&format!("{}\n", table(found).trim_fmt())),
        }
    }

    /// The neighbors and, below them, how many there may be; as JSON the neighbors alone.
    fn neighbors(&self) -> Result<ExitCode> {
        let usage = if self.json { Vec::new() } else { self.client.ask(&ShowNeighborUsage {})? };
        self.text(&ShowNeighbors {}, |list| {
            let limits =
                if usage.is_empty() { String::new() } else { format!("\n{}\n", neighbor_usage(&usage).trim_fmt()) };
            format!("{}\n{limits}", neighbors(list).trim_fmt())
        })
    }

    /// Why packets left, and below what ports have lost; as JSON the former alone, as ports have the others.
    fn drops(&self, all: bool) -> Result<ExitCode> {
        let ports = if self.json { Vec::new() } else { self.client.ask(&ShowPorts {})? };
        self.text(&ShowDrops {}, |list| {
            let losses = ports::losses(&ports);
            let lost = if losses.is_empty() {
                String::new()
            } else {
                format!("\n{}\n", ports::losses_table(&losses).trim_fmt())
            };
            format!("{}\n{lost}", drops(list, all).trim_fmt())
        })
    }

    fn text<Q: Query>(&self, query: &Q, text: impl FnOnce(&Q::Answer) -> String) -> Result<ExitCode> {
        match self.json {
            true => print(&format!("{:#}\n", self.client.ask_json(query)?)),
            false => print(&text(&self.client.ask(query)?)),
        }
    }
}

/// Lines in a cell that lists things.
const MOST_LINES: usize = 10;

fn counters(list: &[ScriptValue]) -> Table {
    Columns::<ScriptValue>::new()
        .text("module", |value| value.module.clone())
        .text("name", |value| value.name.clone())
        .text("kind", |value| value.kind)
        .number("value", |value| value.value)
        .table(list)
}

fn version(status: &VersionStatus) -> Table {
    let lines = [
        ("name", status.name.clone()),
        ("perigee", status.perigee.clone()),
        ("DPDK", status.dpdk.clone()),
        ("process", status.pid.to_string()),
        ("configuration", status.config.clone()),
        ("runs for", format!("{:.0} s", status.uptime)),
    ];
    rows(&["Router", ""], &[], lines.into_iter().map(|(what, value)| vec![what.to_owned(), value]))
}

/// At most so many lines, and how many more there are than these.
fn lines(list: impl Iterator<Item = String>, most: usize, all: u64) -> String {
    let mut shown: Vec<String> = list.take(most).collect();
    match all.saturating_sub(shown.len() as u64) {
        0 if shown.is_empty() => shown.push("none".to_owned()),
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    shown.join("\n")
}

/// How Linux is followed; with `all`, up to a hundred routes of each list.
fn linux(status: &LinuxStatus, all: bool) -> Table {
    let left_out: Vec<String> =
        status.left_out.iter().map(|(why, n)| format!("{n} {}", why.replace('_', " "))).collect();
    let most = if all { usize::MAX } else { MOST_LINES };
    let of_linux = status.linux_only_routes.iter().map(|route| format!("{}: {}", route.prefix, route.why));
    let of_linux = lines(of_linux, most, status.linux_only);
    let named = status.left_out_routes.iter();
    let named =
        named.map(|route| format!("{} table {} by {}: {}", route.prefix, route.table, route.protocol, route.why));
    let named = lines(named, most, status.left_out_routes.len() as u64);
    let helper = match status.helper_deaths {
        0 => status.helper.to_string(),
        deaths => format!("{}; died {deaths} times", status.helper),
    };
    let lines = [
        ("feed", status.feed.to_string()),
        ("state", status.state.to_string()),
        ("helper process", helper),
        ("namespace", status.namespace.as_ref().map_or_else(|| "the router's own".to_owned(), ToString::to_string)),
        ("tables", status.tables.join(", ")),
        ("routes", status.routes.to_string()),
        ("links, addresses", format!("{}, {}", status.links, status.addresses)),
        ("next-hop objects", status.next_hops.to_string()),
        ("static neighbors", status.neighbors_by_hand.to_string()),
        ("neighbors of groups", status.group_neighbors.to_string()),
        ("answered for others (proxy)", status.proxied.to_string()),
        ("changes of routes", status.changes.to_string()),
        ("routes refused", status.refused.to_string()),
        ("routes left out", if left_out.is_empty() { "none".to_owned() } else { left_out.join(", ") }),
        ("such as", named),
        ("routes of Linux alone", of_linux),
        ("policy rules", if status.rules.is_empty() { "none".to_owned() } else { status.rules.join("\n") }),
        ("times notifications were lost", status.overruns.to_string()),
        ("times read again", format!("{}, the last one in {:.3} s", status.resyncs, status.resync_seconds)),
        ("differences found then", status.repaired.to_string()),
        ("messages malformed, skipped", format!("{}, {}", status.malformed, status.skipped)),
    ];
    let differences = status.differences.iter().map(|sentence| ("not as in Linux", sentence.clone()));
    rows(&["Linux", ""], &[], lines.into_iter().chain(differences).map(|(name, value)| vec![name.to_owned(), value]))
}

/// Some names of a list: with 256 ports a worker polls as many queues. `--json` has all.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", names[..SHOWN].join(" ")),
        _ => names.join(" "),
    }
}

fn workers(list: &[WorkerStatus]) -> Table {
    Columns::<WorkerStatus>::new()
        .number("worker", |w| w.worker)
        .number("core", |w| w.core)
        .text("state", |w| w.state)
        .text("queues", |w| few(&w.queues))
        .number("received", |w| w.received)
        .number("sent", |w| w.transmitted)
        .number("punted", |w| w.punted)
        .number("punt ring full", |w| w.punt_full)
        .number("unclaimed", |w| w.unclaimed)
        .number("packets/burst", |w| format!("{:.1}", w.received as f64 / w.batches.max(1) as f64))
        .number("longest gap", |w| format!("{:.0} us", w.longest_gap * 1e6))
        .table(list)
}

fn modules(list: &[ModuleStatus], all: bool) -> Table {
    let per_call =
        |m: &ModuleStatus| or_dash((m.calls > 0).then(|| format!("{:.1}", m.packets as f64 / m.calls as f64)));
    Columns::<ModuleStatus>::new()
        .text("module", |m| m.module.clone())
        .number("packets", |m| m.packets)
        .number("dropped", |m| m.dropped)
        .number("to slow path", |m| m.punted)
        .number("packets/call", per_call)
        .number("ns/packet", |m| or_dash(m.packet_ns.map(|ns| format!("{ns:.1}"))))
        .text("what it does", |m| m.about.clone())
        .table(list.iter().filter(|m| all || m.packets + m.dropped + m.punted > 0))
}

/// Reasons and their packets; with `all`, also reasons without packets.
pub fn drops(list: &[DropStatus], all: bool) -> Table {
    Columns::<DropStatus>::new()
        .text("module", |drop| drop.module.clone())
        .text("reason", |drop| drop.reason.clone())
        .text("what", |drop| if drop.kind == DropKind::Drop { "drop" } else { "to slow path" })
        .number("packets", |drop| drop.packets)
        .text("demanded by", |drop| or_dash(drop.rfc.as_ref()))
        .table(list.iter().filter(|drop| all || drop.packets > 0))
}

/// What the slow path holds and has done; with `all`, also what it has never done.
fn slow_path(status: &SlowPathStatus, all: bool) -> Table {
    let kilobytes = status.reassembling_bytes.div_ceil(1024);
    let held = [
        ("threads", status.threads.to_string()),
        ("packets waiting for a neighbor", status.waiting.to_string()),
        ("datagrams waiting for fragments", format!("{}, {kilobytes} KB", status.reassembling)),
    ];
    let done = status.events.iter().filter(|(_, count)| all || **count > 0);
    let done = done.map(|(event, count)| vec![event.replace('_', " "), count.to_string()]);
    let held = held.into_iter().map(|(what, value)| vec![what.to_owned(), value]);
    rows(&["slow path", ""], &[], held.chain(done))
}

fn routes(list: &RouteList) -> Table {
    let each = |route: &RouteEntry, show: fn(&GatewayEntry) -> String| {
        route.gateways.iter().map(show).collect::<Vec<_>>().join("\n")
    };
    let via = |route: &RouteEntry| match route.gateways.is_empty() {
        true => or_dash(route.via),
        false => each(route, |gateway| format!("{} weight {}", or_dash(gateway.via), gateway.weight)),
    };
    let dev = |route: &RouteEntry| match route.gateways.is_empty() {
        true => or_dash(route.dev.as_ref()),
        false => each(route, |gateway| {
            let dev = or_dash(gateway.dev.as_ref());
            if gateway.down { format!("{dev} (link down)") } else { dev }
        }),
    };
    let used = |route: &RouteEntry| match (route.best, route.down) {
        (true, _) => ">",
        (false, true) => "link down",
        (false, false) => "",
    };
    let mut table = Columns::<RouteEntry>::new()
        .text("", used)
        .text("prefix", |route| route.prefix)
        .text("action", |route| route.action)
        .text("via", via)
        .text("dev", dev)
        .text("source", RouteEntry::origin)
        .number("preference", |route| route.preference)
        .number("metric", |route| route.metric)
        .table(&list.routes);
    let hidden = list.total.saturating_sub(list.routes.len() as u64);
    if hidden > 0 {
        table.add_row(vec![String::new(), format!("... {hidden} more: --limit, --within, --source")]);
    }
    if list.refused > 0 {
        table.add_row(vec![String::new(), format!("{} were refused: no room (`max_routes`, memory)", list.refused)]);
    }
    table
}

fn fib(list: &[FibStatus]) -> Table {
    Columns::<FibStatus>::new()
        .text("family", |fib| fib.family)
        .text("structure", |fib| fib.structure.clone())
        .text("chosen by", |fib| format!("fib = {}", fib.chosen))
        .number("prefixes", |fib| fib.prefixes)
        .number("MB", |fib| format!("{:.1}", fib.bytes as f64 / 1048576.0))
        .text("why", |fib| or_dash(fib.why.as_ref()))
        .table(list)
}

fn neighbors(list: &[NeighborEntry]) -> Table {
    Columns::<NeighborEntry>::new()
        .text("address", |n| n.address)
        .text("mac", |n| or_dash(n.mac))
        .text("dev", |n| n.dev.clone())
        .text("state", |n| n.state)
        .table(list)
}

fn neighbor_usage(list: &[NeighborUsage]) -> Table {
    let limited = |n: u64, limit: u64| format!("{n} of {limit}");
    Columns::<NeighborUsage>::new()
        .text("dev", |u| u.dev.clone())
        .text("family", |u| u.family)
        .text("known", move |u| limited(u.known, u.known_limit))
        .number("unconfirmed", |u| u.unconfirmed)
        .text("unresolved", move |u| limited(u.unresolved, u.unresolved_limit))
        .table(list)
}

fn next_hops(list: &[NextHopEntry]) -> Table {
    let member = |m: &NextHopMember| format!("{} weight {}: {:.1} %", m.id, m.weight, m.share * 100.0);
    let leads_to = |hop: &NextHopEntry| match hop.members.is_empty() {
        true => or_dash(hop.target),
        false => hop.members.iter().map(member).collect::<Vec<_>>().join("\n"),
    };
    Columns::<NextHopEntry>::new()
        .number("id", |hop| hop.id)
        .text("kind", |hop| hop.kind)
        .text("via", |hop| or_dash(hop.via))
        .text("dev", |hop| or_dash(hop.dev.as_ref()))
        .text("mac", |hop| or_dash(hop.mac))
        .text("leads to", |hop| if hop.down { "link down".to_owned() } else { leads_to(hop) })
        .number("uses", |hop| hop.uses)
        .table(list)
}

fn multicast(list: &[MulticastEntry]) -> Table {
    let to = |entry: &MulticastEntry| {
        let ttl = |ttl: u8| if ttl > 1 { format!(" ttl {ttl}") } else { String::new() };
        let outputs = entry.to.iter().map(|output| format!("{}{}", output.dev, ttl(output.ttl)));
        let linux = entry.by_linux.then(|| "Linux's own".to_owned());
        outputs.chain(linux).collect::<Vec<_>>().join("\n")
    };
    Columns::<MulticastEntry>::new()
        .text("group", |entry| entry.group)
        .text("source", |entry| entry.source.map_or_else(|| "any".to_owned(), |source| source.to_string()))
        .text("origin", |entry| entry.origin)
        .text("from", |entry| entry.from.clone().unwrap_or_else(|| "unicast route".to_owned()))
        .text("to", to)
        .number("packets", |entry| entry.packets)
        .number("bytes", |entry| entry.bytes)
        .number("wrong interface", |entry| entry.wrong_interface)
        .number("last use", |entry| or_dash(entry.last_use.map(|seconds| format!("{seconds:.1} s ago"))))
        .table(list)
}

fn scripts(list: &[ScriptStatus]) -> Table {
    Columns::<ScriptStatus>::new()
        .number("worker", |s| s.worker)
        .text("script", |s| s.path.clone())
        .number("generation", |s| s.generation)
        .text("state", |s| s.state)
        .number("throws", |s| s.throws)
        .number("traces", |s| s.traces)
        .number("aborts", |s| s.trace_aborts)
        .number("blacklisted", |s| s.blacklisted)
        .number("heap KB", |s| format!("{:.0}", s.gc_kb))
        .number("longest GC", |s| format!("{:.0} us", s.longest_collection * 1e6))
        .number("stalls", |s| s.stalls)
        .number("over budget", |s| s.over_budget)
        .text("last error", |s| or_dash(s.error.as_ref()))
        .table(list)
}

fn filters(list: &[FilterStatus]) -> Table {
    Columns::<FilterStatus>::new()
        .text("kind", |f| f.kind)
        .number("number", |f| f.number)
        .text("rule", |f| f.rule.clone())
        .text("from", |f| f.from)
        .text("action", |f| f.action)
        .text("done in", |f| f.done_in)
        .number("hits", |f| or_dash(f.hits))
        .table(list)
}

#[cfg(test)]
mod tests {
    /// With 256 ports a line of `show workers` had 2,400 characters.
    #[test]
    fn a_worker_of_many_queues_has_a_line_that_can_be_read() {
        let names = |count: usize| (0..count).map(|n| format!("p{n}:0")).collect::<Vec<_>>();
        assert_eq!(super::few(&names(2)), "p0:0 p1:0");
        assert_eq!(super::few(&names(8)).matches(':').count(), 8);
        assert_eq!(super::few(&names(256)), "p0:0 p1:0 p2:0 p3:0 p4:0 p5:0 p6:0 p7:0 and 248 more");
    }
}
