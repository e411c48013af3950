// SPDX-License-Identifier: MIT
//! What `./x bench forward` prints.

use super::results::{Beside, ByBurst, ByLoop, Compared, Measured, Results};
use super::traffic;
use crate::statistics::Median;
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;

const HEADER: [&str; 6] = ["burst", "loop", "Mpps", "ns/packet", "ns over io", "of testpmd io"];

/// The table and the facts to understand it.
pub fn text(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    for (burst, io) in sorted(&results.testpmd_io_by_burst) {
        table.add_row([burst.clone(), "testpmd io".into(), format!("{io:.1}"), ns(*io), String::new(), "1".into()]);
        for (details, family) in [(&results.details, ""), (&results.details_ipv6, " IPv6")] {
            for (path, details) in details {
                if let Some(measured) = details.get(burst) {
                    table.add_row(row(burst, &format!("{}{family}", path.name()), measured));
                }
            }
        }
    }
    align(&mut table, &[0, 2, 3]);
    let mut text = format!("{table}\n\nLua as a share of native:\n");
    for (burst, compared) in sorted(&results.lua_of_native) {
        text.push_str(&format!("  burst {burst:>3}: {}\n", sentence(compared)));
    }
    if !results.ipv6_of_ipv4.is_empty() {
        text.push_str("\nIPv6 as a share of IPv4:\n");
        for (path, compared) in &results.ipv6_of_ipv4 {
            for (burst, compared) in sorted(compared) {
                text.push_str(&format!("  {:<6} burst {burst:>3}: {}\n", path.name(), sentence(compared)));
            }
        }
    }
    text.push_str(&peers("IPv4", &results.peers, results.l3fwd_best.as_ref()));
    text.push_str(&peers("IPv6", &results.peers_ipv6, results.l3fwd_best_ipv6.as_ref()));
    text.push_str(&conditions(results));
    text
}

fn conditions(results: &Results) -> String {
    let memory = match results.hugepages {
        true => "hugepages for all.",
        false => {
            "no hugepages. testpmd has its packets in external buffers (--mp-alloc=xbuf), as DPDK's own pools put each buffer \
             on a page\nof its own; other peers have such pools, which halves their rates. For a fair comparison: --hugepages N \
             (as root)."
        }
    };
    let priority = match results.real_time {
        true => "real-time for all",
        false => "normal, so that other programs disturb the figures; as root it is real-time",
    };
    let routes6 = results
        .routes_ipv6
        .as_ref()
        .map_or_else(String::new, |routes| format!("; IPv6: {} bytes, {routes}", traffic::LENGTH6));
    let mut text = format!(
        "\n{} packets that left were compared with what they must be, byte by byte, before anything was timed.\n\
         Source: net_pcap, {} packets of {} bytes, random destinations, {}{routes6}.\n\
         Core {} for all; priority: {priority}; time is the forwarding thread's CPU time. Medians of {} rounds of {} s each, with the\n\
         interval that holds the true median with 95 %. Memory: {memory}\n",
        results.verified,
        traffic::PACKETS,
        traffic::LENGTH,
        results.routes,
        results.core,
        results.pairs,
        results.seconds,
    );
    for (name, why) in &results.left_out.0 {
        text.push_str(&format!("Left out: {name}: {why}\n"));
    }
    text
}

/// Rates of others, and perigee's as multiples of them; nothing if there are none.
fn peers(family: &str, peers: &BTreeMap<String, Beside>, best: Option<&String>) -> String {
    if peers.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let columns = columns(peers);
    let header = ["peer", "Mpps", "ns/packet", "of testpmd io"].map(str::to_owned);
    table.set_header(header.into_iter().chain(columns.iter().map(|(path, burst)| format!("{path} {burst}"))));
    for (name, Beside { mpps, of_io, perigee }) in peers {
        let of_io = of_io.as_ref().map_or_else(String::new, |of_io| with_interval(of_io, 2));
        let cell = |(path, burst): &(&str, String)| {
            let of_loop = perigee.iter().find(|(other, _)| other.name() == *path);
            let ratio = of_loop.and_then(|(_, of_loop)| of_loop.get(burst));
            ratio.map_or_else(String::new, |ratio| with_interval(ratio, 2))
        };
        let name = if best == Some(name) { format!("{name} (l3fwd's best)") } else { name.clone() };
        table.add_row([name, format!("{mpps:.1}"), ns(*mpps), of_io].into_iter().chain(columns.iter().map(cell)));
    }
    align(&mut table, &[1, 2]);
    format!("\nOthers with {family}; then perigee's rate as a multiple of theirs, by loop and its burst:\n{table}\n")
}

/// Loops and burst sizes of all peers, in their order.
fn columns(peers: &BTreeMap<String, Beside>) -> Vec<(&'static str, String)> {
    let empty = ByLoop::new();
    let loops: &ByLoop<ByBurst<Median>> = peers.values().next().map_or(&empty, |peer| &peer.perigee);
    let mut columns = Vec::new();
    for (path, by_burst) in loops {
        columns.extend(sorted(by_burst).into_iter().map(|(burst, _)| (path.name(), burst.clone())));
    }
    columns
}

fn align(table: &mut Table, columns: &[usize]) {
    for index in columns {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// By number, not by text.
fn sorted<T>(map: &ByBurst<T>) -> Vec<(&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(burst, _)| burst.parse::<usize>().unwrap_or(0));
    entries
}

fn ns(mpps: f64) -> String {
    format!("{:.1}", 1000.0 / mpps)
}

fn row(burst: &str, name: &str, measured: &Measured) -> [String; 6] {
    let (over, of) = (&measured.ns_over_io, &measured.of_io);
    [
        burst.to_owned(),
        name.to_owned(),
        format!("{:.1}", measured.mpps),
        ns(measured.mpps),
        with_interval(over, 1),
        with_interval(of, 2),
    ]
}

/// Too few rounds have no interval.
fn with_interval(Median { median, low, high }: &Median, digits: usize) -> String {
    match low.is_finite() {
        true => format!("{median:.digits$} [{low:.digits$}, {high:.digits$}]"),
        false => format!("{median:.digits$}"),
    }
}

fn sentence(Compared { ratio, resolved }: &Compared) -> String {
    let interval = with_interval(ratio, 3);
    if *resolved { interval } else { format!("{interval} not resolved: its interval is wider than 3 points") }
}
