// SPDX-License-Identifier: MIT
//! What `./x bench churn` prints.

use super::ChurnArgs;
use super::measure::Measured;
use crate::statistics::Median;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;
use serde_json::{Value, json};

/// A structure's turn, and its results or why there are none.
pub struct Row {
    /// Its name.
    pub structure: String,
    /// 4 or 6, also of the packets.
    pub family: u8,
    pub measured: Result<Measured, String>,
}

impl Row {
    /// Nothing lost, nothing different.
    pub fn is_good(&self) -> bool {
        self.measured.as_ref().is_ok_and(|measured| measured.lost == 0 && measured.differences == 0)
    }
}

/// Facts that apply to all rows.
pub struct Facts {
    /// The file of routes, or how they were made.
    pub table: String,
    /// Routes of each family.
    pub routes: (usize, usize),
    /// The worker's core, and that of everything else.
    pub cores: (usize, usize),
    /// Packet memory in hugepages?
    pub hugepages: bool,
    /// Megabytes of the source's packets, which the router's memory contains.
    pub source_mb: f64,
}

const HEADER: [&str; 14] = [
    "structure",
    "Mpps",
    "with changes",
    "lost",
    "changes/s",
    "Linux alone",
    "us CPU each",
    "load s",
    "from a dump",
    "resync s",
    "of a dump",
    "RSS MB",
    "gap us: quiet, resync, changes",
    "audit",
];

/// The table and the facts to understand it.
pub fn text(args: &ChurnArgs, facts: &Facts, spin: &Row, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    for row in rows {
        if let Ok(measured) = &row.measured {
            table.add_row(cells(row, measured));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    text.push_str(&spinning(spin));
    for row in rows {
        if let Err(why) = &row.measured {
            text.push_str(&format!("{} is left out: {why}\n", name(row)));
        }
    }
    text + &notes(args, facts)
}

/// What the machine alone does to a rate, and to gaps.
fn spinning(spin: &Row) -> String {
    match &spin.measured {
        Ok(measured) => format!(
            "A worker that only spins, under the same changes: {} of its quiet rate; gap us: {}. That is the machine's noise.\n",
            with_interval(&measured.ratio, 3),
            measured.gaps.map(us).join(", ")
        ),
        Err(why) => format!("A worker that only spins is left out: {why}\n"),
    }
}

fn notes(args: &ChurnArgs, facts: &Facts) -> String {
    let (v4, v6) = facts.routes;
    let memory = if facts.hugepages { "hugepages" } else { "no hugepages" };
    format!(
        "{} IPv4 and {} IPv6 routes ({}) over {} gateways of each family, by netlink into Linux's main table. {} routes of both\n\
         families are withdrawn and announced again as fast as Linux takes them; {} packets of the structure's family go round\n\
         and round, all to destinations whose route stays. Worker on core {}; pump, netlink and slow path share core {}: what\n\
         one of them takes is missing to the others. {memory}.\n\
         Mpps: per second of the worker's CPU time, quiet. With changes: as a share of it, median of {} alternating pairs of at\n\
         least {} s, with the interval that holds the true median with 95 %. Lost: received and not sent to the route's gateway,\n\
         of all packets. Changes/s: until the lookup structures have them; Linux alone: until its table has. Us CPU each: the\n\
         router's, workers not counted. Load: from the last route in Linux's table to the last one in the workers' (in brackets:\n\
         what Linux needed). From a dump: the full table as a dump brings it, as a multiple of a bare one. Resync: median of {}, and\n\
         as a multiple of a bare netlink dump beside each. RSS: router and helper\n\
         with the full table, of which {:.0} MB are the source's packets. Gap: the longest time between two rounds of the worker.\n\
         Audit: differences between Linux, RIB and lookup structure in the end.\n",
        HumanCount(v4 as u64),
        HumanCount(v6 as u64),
        facts.table,
        args.next_hops,
        HumanCount(args.changes as u64),
        HumanCount(args.destinations as u64),
        facts.cores.0,
        facts.cores.1,
        args.pairs,
        args.seconds,
        args.resyncs,
        facts.source_mb,
    )
}

fn name(row: &Row) -> String {
    format!("{} (IPv{})", row.structure, row.family)
}

/// Seconds in whole microseconds.
fn us(seconds: f64) -> String {
    format!("{:.0}", seconds * 1e6)
}

fn cells(row: &Row, measured: &Measured) -> Vec<String> {
    vec![
        name(row),
        format!("{:.1}", measured.mpps.median),
        with_interval(&measured.ratio, 3),
        measured.lost.to_string(),
        HumanCount(measured.changes_per_s.median as u64).to_string(),
        HumanCount(measured.linux_changes_per_s.median as u64).to_string(),
        format!("{:.2}", measured.cpu_us.median),
        format!("{:.2} ({:.1})", measured.load_s, measured.linux_s),
        with_interval(&measured.dump_load_ratio, 2),
        format!("{:.2}", measured.resync_s.median),
        with_interval(&measured.resync_ratio, 2),
        format!("{:.0}", mb(measured.memory.now)),
        measured.gaps.map(us).join(", "),
        measured.differences.to_string(),
    ]
}

/// Megabytes.
pub fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Too few samples have no interval.
fn with_interval(Median { median, low, high }: &Median, digits: usize) -> String {
    match low.is_finite() {
        true => format!("{median:.digits$} [{low:.digits$}, {high:.digits$}]"),
        false => format!("{median:.digits$}"),
    }
}

/// An object per structure, each with what the machine alone did to a worker that only spins.
pub fn json(spin: &Row, rows: &[Row]) -> Value {
    let beside = match &spin.measured {
        Ok(m) => json!({
            "rate_ratio": m.ratio.median,
            "rate_ratio_interval": [m.ratio.low, m.ratio.high],
            "wall_rate_ratio": m.wall_ratio,
            "longest_gaps_us": micros(m.gaps),
            "median_gaps_us": micros(m.usual_gaps),
        }),
        Err(why) => json!({"refused": why}),
    };
    let with_spin = |row: &Row| {
        let mut object = object(row);
        object["spin"] = beside.clone();
        object
    };
    rows.iter().map(with_spin).collect()
}

/// By kind of window, in whole microseconds.
fn micros(gaps: [f64; 3]) -> Value {
    let [quiet, resync, changes] = gaps.map(|gap| (gap * 1e6).round());
    json!({"quiet": quiet, "resync": resync, "changes": changes})
}

fn object(row: &Row) -> Value {
    let m = match &row.measured {
        Ok(measured) => measured,
        Err(why) => return json!({"structure": row.structure, "family": row.family, "refused": why}),
    };
    json!({
        "structure": row.structure,
        "family": row.family,
        "received": m.received,
        "lost": m.lost,
        "mpps": m.mpps,
        "rate_ratio": m.ratio.median,
        "rate_ratio_interval": [m.ratio.low, m.ratio.high],
        "wall_rate_ratio": m.wall_ratio,
        "changes_per_s": m.changes_per_s.median,
        "linux_changes_per_s": m.linux_changes_per_s.median,
        "cpu_us_per_change": m.cpu_us.median,
        "load_full_table_s": m.load_s,
        "linux_load_s": m.linux_s,
        "dump_load_s": m.dump_load_s.median,
        "dump_load_ratio": m.dump_load_ratio,
        "resync_s": m.resync_s.median,
        "dump_s": m.dump_s.median,
        "resync_ratio": m.resync_ratio,
        "rss_mb": mb(m.memory.now),
        "rss_peak_mb": mb(m.peak),
        "longest_gap_us": (m.gaps[2] * 1e6).round(),
        "longest_gaps_us": micros(m.gaps),
        "median_gaps_us": micros(m.usual_gaps),
        "overruns": m.overruns,
        "differences": m.differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads a structure's object finds the machine's noise in it, or why it is not known.
    #[test]
    fn every_structure_has_the_spinning_worker_beside_it() {
        let row =
            |structure: &str, why: &str| Row { structure: structure.to_owned(), family: 4, measured: Err(why.into()) };
        let spin = row("spin", "no script");
        let objects = json(&spin, &[row("auto", "too big"), row("bm19", "too slow")]);
        for (object, name) in objects.as_array().unwrap().iter().zip(["auto", "bm19"]) {
            assert_eq!((&object["structure"], &object["spin"]["refused"]), (&json!(name), &json!("no script")));
        }
        assert!(spinning(&spin).contains("no script"));
    }
}
