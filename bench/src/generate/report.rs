// SPDX-License-Identifier: MIT
//! What `./x bench gen` prints.

use super::limited::{One, Searched};
use super::{Rate, Results};
use crate::statistics::Median;
use comfy_table::{CellAlignment, Table, presets};

/// The tables and the facts to understand them.
pub fn text(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header([
        "64-byte frames on net_null, one core",
        "Mpps",
        "of testpmd txonly",
    ]);
    table.add_row(["testpmd txonly".to_owned(), format!("{:.1}", results.testpmd_txonly_mpps), "1".to_owned()]);
    let multi_flow = results.testpmd_multi_flow_mpps;
    let share = multi_flow / results.testpmd_txonly_mpps;
    table.add_row(["testpmd txonly, multi-flow".to_owned(), format!("{multi_flow:.1}"), format!("{share:.2}")]);
    for (name, rate) in [
        ("gen, one flow", &results.one),
        ("gen, 65,536 flows: random addresses and ports", &results.varying),
        ("gen, 16,777,216 flows", &results.many),
    ] {
        table.add_row(row(name, rate));
    }
    right(&mut table, &[1, 2]);
    let mut cbr = Table::new();
    cbr.load_style(presets::ASCII_MARKDOWN).set_header([
        "constant rate",
        "gaps within 1 us",
        "without frames",
        "99.9 % of gaps",
        "longest",
        "not sent",
    ]);
    for constant in &results.cbr {
        cbr.add_row([
            format!("{} kpps", constant.pps / 1e3),
            format!("{:.3} %", constant.within_1us * 100.0),
            format!("{:.3} %", constant.bare_within_1us * 100.0),
            format!("{:.1} us", constant.gap_p99_9_ns as f64 / 1e3),
            format!("{:.1} us", constant.gap_max_ns as f64 / 1e3),
            constant.unsent.to_string(),
        ]);
    }
    right(&mut cbr, &[0, 1, 2, 3, 4, 5]);
    let search = &results.search;
    let mut searches = Table::new();
    searches.load_style(presets::ASCII_MARKDOWN).set_header(["search", "off by", "trials", "seconds"]);
    for (name, of) in [("MLRsearch", &search.mlr), ("binary, with loss verification", &search.binary)] {
        let median = |what: fn(&One) -> f64| Median::of(&of.iter().map(what).collect::<Vec<_>>()).median;
        searches.add_row([
            name.to_owned(),
            format!("{:.3} %", Searched::error_percent_of(of)),
            format!("{:.0}", median(|one| f64::from(one.trials))),
            format!("{:.1}", median(|one| one.seconds)),
        ]);
    }
    right(&mut searches, &[1, 2, 3]);
    format!(
        "{table}\n\n{cbr}\n\n\
         A port that lets {:.0} frames a second through, looked for {} times by each search, in turn; medians:\n\n\
         {searches}\n\n\
         MLRsearch took {:.2} of the binary search's trials and {:.2} of its time (medians of the rounds' ratios).\n\
         Tasks: a value through a pipe {:.2} us, packets through a ring {:.1} Mpps (the best of nine rounds: {:.1}).\n\n\
         *Without frames*: the gaps of a loop that only reads the clock and notes when frames are due, in turn with the generator: what this\n\
         core allows. Frames have stamps and right checksums; testpmd's have no UDP checksum. Core {}; rates are per CPU time of the sending thread,\n\
         medians of {} rounds of {} s, with the interval that holds the true median with 95 %; testpmd has the better of bursts of 32 and\n\
         64. Memory: {}.\n",
        search.limit,
        search.mlr.len(),
        results.search_trials_of_binary,
        results.search_time_of_binary,
        results.tasks.pipe_us,
        results.tasks.ring_mpps,
        results.tasks.ring_best_mpps,
        results.core,
        results.pairs,
        results.seconds,
        if results.hugepages { "hugepages for all" } else { "no hugepages" },
    )
}

fn row(name: &str, rate: &Rate) -> [String; 3] {
    let of = rate.of_testpmd;
    let share = match of.low.is_finite() {
        true => format!("{:.2} [{:.2}, {:.2}]", of.median, of.low, of.high),
        false => format!("{:.2}", of.median),
    };
    [name.to_owned(), format!("{:.1}", rate.mpps), share]
}

fn right(table: &mut Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
