// SPDX-License-Identifier: MIT
//! What `./x bench fib` prints.

use super::FibArgs;
use super::results::{Family, Results, Row};
use super::shapes::Shaped;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;

/// The tables and the facts to understand them.
pub fn text(args: &FibArgs, results: &Results) -> String {
    let mut text = String::new();
    for family in &results.families {
        text.push_str(&of_family(args, results, family));
        if !family.shapes.is_empty() {
            text.push_str(&of_shapes(args, family));
        }
    }
    if results.families.is_empty() {
        return "Nothing was measured: no route of the table belongs to one of these structures.\n".to_owned();
    }
    let limits: Vec<String> =
        results.limits.iter().map(|(bytes, rate)| format!("{} {rate:.0}", size(*bytes))).collect();
    text.push_str(&format!(
        "Limit, million independent random reads of 4 bytes per second, one at a time in code, by size of the table:\n\
         {}. SIMD gathers can do more in small tables.\n\n",
        limits.join(", ")
    ));
    text.push_str(&format!(
        "One process, core {} for all, batches of {} through the trait object. Structures take turns within a round; medians\n\
         of {} rounds of {} s each, CPU time. {} next hops, uniformly, seed {}. Changes: withdraw and announce random routes,\n\
         one at a time, each visible at once, both counted. Memory of DPDK's structures: {}.\n",
        results.core,
        args.batch,
        args.rounds,
        args.seconds,
        args.next_hops,
        args.seed,
        match results.dpdk_hugepages {
            Some(true) => "hugepages; of perigee's: transparent huge pages",
            Some(false) => "ordinary pages (as root: --hugepages 1100); of perigee's: transparent huge pages",
            None => "not needed",
        },
    ));
    text
}

fn of_family(args: &FibArgs, results: &Results, family: &Family) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let after = ["MB", "build s", "changes/s", "wrong"].map(str::to_owned);
    table.set_header(["structure".to_owned()].into_iter().chain(family.patterns.clone()).chain(after));
    for structure in &family.structures {
        let rows: Vec<Row> = (0..family.patterns.len()).map(|pattern| family.row(structure, pattern)).collect();
        let mut cells = vec![structure.name.to_owned()];
        cells.extend(rows.iter().map(rate));
        cells.push(of_reference(format!("{:.1}", structure.bytes as f64 / 1e6), rows[0].bytes_ratio));
        cells.push(format!("{:.3}", structure.build_s));
        let changes = structure.changes_per_s();
        let changes = if changes.is_nan() { "failed".to_owned() } else { count(changes) };
        cells.push(of_reference(changes, rows[0].changes_ratio));
        cells.push(rows.iter().map(|row| row.wrong).max().unwrap_or(0).to_string());
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let from = results.table.as_ref().map_or_else(|| format!("synthetic, seed {}", args.seed), Clone::clone);
    let against = match family.reference {
        Some(name) => format!(" [multiple of {name}'s]"),
        None => String::new(),
    };
    let drawn = family.patterns.iter().filter(|pattern| !pattern.contains('+')).count();
    let checked = family.addresses * drawn + family.edges;
    let mut text = format!(
        "IPv{}, {} prefixes ({from}): million lookups per second{against}\n{table}\n\
         {} answers of each structure compared with the oracle's, before and after the changes; {} addresses per pattern.\n",
        family.number,
        HumanCount(family.routes as u64),
        HumanCount(checked as u64),
        HumanCount(family.addresses as u64),
    );
    for (name, why) in &family.refused {
        text.push_str(&format!("Left out: {name}: {why}\n"));
    }
    text.push('\n');
    text
}

/// The table of shapes.
fn of_shapes(args: &FibArgs, family: &Family) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "structure",
        "shape",
        "inserted",
        "refused",
        "ns/insertion",
        "ns/flap",
        "us/network",
        "ns/removal",
        "MB before",
        "MB with",
        "MB after",
        "wrong",
    ]);
    for shaped in &family.shapes {
        table.add_row(shape_cells(shaped));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "IPv{}, other shapes, {} prefixes each: a link's network, and hosts of it in random order, hosts from both ends of it in\n\
         turn, prefixes of every length along random addresses, the longest first; then all of them flap, then the network\n\
         around them 16 times, then they go. A commit and a batch boundary after 32 changes; at most {} s for each step.\n\
         {table}\n\n",
        family.number,
        HumanCount(args.shapes.into()),
        args.shape_seconds,
    )
}

fn shape_cells(shaped: &Shaped) -> [String; 12] {
    let megabytes = |bytes: usize| format!("{:.2}", bytes as f64 / 1e6);
    let refused = match shaped.removals_refused {
        0 => shaped.refused.to_string(),
        removals => format!("{}, {removals} removals", shaped.refused),
    };
    [
        shaped.structure.to_owned(),
        shaped.shape.to_owned(),
        format!("{} of {}", shaped.tried - shaped.refused.min(shaped.tried), shaped.prefixes),
        refused,
        count(shaped.ns_per_insertion),
        count(shaped.ns_per_flap),
        format!("{:.1}", shaped.ns_per_change_of_the_network / 1e3),
        count(shaped.ns_per_removal),
        megabytes(shaped.bytes_before),
        megabytes(shaped.bytes),
        megabytes(shaped.bytes_after),
        shaped.wrong.to_string(),
    ]
}

fn rate(row: &Row) -> String {
    let digits = usize::from(row.mlookups_per_s < 100.0);
    of_reference(format!("{:.digits$}", row.mlookups_per_s), row.ratio.map(|ratio| ratio.median))
}

fn of_reference(value: String, ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio < 0.095 => format!("{value} [{ratio:.3}]"),
        Some(ratio) => format!("{value} [{ratio:.2}]"),
        None => value,
    }
}

/// As in "1.2 M".
pub fn count(value: f64) -> String {
    match value {
        v if v >= 99.5e6 => format!("{:.0} M", v / 1e6),
        v if v >= 999.5e3 => format!("{:.1} M", v / 1e6),
        v if v >= 9.95e3 => format!("{:.0} k", v / 1e3),
        v if v >= 999.5 => format!("{:.1} k", v / 1e3),
        v if v >= 9.95 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

/// As in "16 MB", of powers of two.
fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KB", bytes >> 10),
        mb => format!("{mb} MB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0.55, 12.0, 8900.0, 467e3, 3.94e6, 123e6].map(count),
            ["0.6", "12", "8.9 k", "467 k", "3.9 M", "123 M"]
        );
        assert_eq!([256 << 10, 64 << 20].map(size), ["256 KB", "64 MB"]);
        assert_eq!(of_reference("2".into(), Some(0.0063)), "2 [0.006]");
    }
}
