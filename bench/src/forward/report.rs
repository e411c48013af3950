// SPDX-License-Identifier: MIT
//! What `./x bench forward` prints.

use super::{Compared, Measured, Results};
use crate::statistics::Median;
use comfy_table::{CellAlignment, Table, presets};

const HEADER: [&str; 6] = ["burst", "loop", "Mpps", "ns/packet", "ns over io", "of testpmd io"];

/// The table and the facts to understand it.
pub fn text(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    for (burst, io) in sorted(&results.testpmd_io_by_burst) {
        table.add_row([burst.clone(), "testpmd io".into(), format!("{io:.1}"), ns(*io), String::new(), "1".into()]);
        for (path, details) in &results.details {
            if let Some(measured) = details.get(burst) {
                table.add_row(row(burst, &format!("{path:?}").to_lowercase(), measured));
            }
        }
    }
    for index in [0, 2, 3] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{table}\n\nLua as a share of native:\n");
    for (burst, compared) in sorted(&results.lua_of_native) {
        text.push_str(&format!("  burst {burst:>3}: {}\n", sentence(compared)));
    }
    let memory = match results.hugepages {
        true => "hugepages for both.",
        false => {
            "no hugepages. DPDK's own pools then put each buffer on a page of its own, which costs testpmd speed; perigee \
             packs them. For a fair comparison: --hugepages 1024 (as root)."
        }
    };
    text.push_str(&format!(
        "\n{} packets that left were compared with what they must be, byte by byte, before anything was timed.\n\
         Source: net_pcap, {} packets of {} bytes, random destinations, {}.\n\
         Core {} for all; time is the forwarding thread's CPU time. Medians of {} rounds of {} s each, with the interval that\n\
         holds the true median with 95 %. Memory: {memory}\n",
        results.verified,
        super::traffic::PACKETS,
        super::traffic::LENGTH,
        results.routes,
        results.core,
        results.pairs,
        results.seconds,
    ));
    text
}

/// By number, not by text.
fn sorted<T>(map: &super::ByBurst<T>) -> Vec<(&String, &T)> {
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
