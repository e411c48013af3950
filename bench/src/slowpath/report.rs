// SPDX-License-Identifier: MIT
//! What `./x bench slowpath` prints.

use super::Results;
use super::traffic::{Kind, SMALL_MTU};
use crate::statistics::Median;
use comfy_table::{CellAlignment, Table, presets};

/// The tables and the facts to understand them.
pub fn text(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(["punted packets, one thread", "Mpps", "us each"]);
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Simple | Kind::Half)) {
        let Some(rate) = results.judged_mpps.get(kind.name()) else { continue };
        table.add_row([about(kind), interval(rate), format!("{:.2}", 1.0 / rate.median)]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let rate = |kind: Kind| results.judged_mpps.get(kind.name()).map_or(f64::NAN, |rate| rate.median);
    format!(
        "{table}\n\n\
         Errors sent: {} million per second of the slow path's CPU time.\n\
         Simple packets: {:.1} Mpps alone, {:.1} Mpps beside as many expired ones, which is {} of half.\n\
         Assistants: one alone {} million errors per second, two on a core each {} times that.\n\n\
         One worker on core {}, the slow path on the others; 64-byte frames (1,042 bytes for an MTU of {SMALL_MTU}) of {} flows, no limit\n\
         of errors. Rates are per CPU time of the threads concerned, medians of {} rounds of {} s with the interval that holds the true\n\
         median with 95 %; ratios are taken within a round. Assistants make the packets themselves, which is in their rate.\n",
        interval(&results.errors_mpps),
        rate(Kind::Simple),
        rate(Kind::Half),
        interval(&results.share_beside_punts),
        interval(&results.assistant_mpps),
        interval(&results.two_of_one),
        results.core,
        super::traffic::PACKETS,
        results.pairs,
        results.seconds,
    )
}

fn about(kind: Kind) -> String {
    let about = match kind {
        Kind::Simple | Kind::Half => "",
        Kind::Expired => "TTL 1: Time Exceeded",
        Kind::NoRoute => "no route: Destination Unreachable",
        Kind::TooBig => "too big and not to be cut: Fragmentation Needed",
        Kind::Cut => "too big: two fragments",
        Kind::Options => "option record route: forwarded",
        Kind::Echo => "echo request: reply",
    };
    about.to_owned()
}

fn interval(median: &Median) -> String {
    let Median { median, low, high } = median;
    if low.is_finite() { format!("{median:.2} [{low:.2}, {high:.2}]") } else { format!("{median:.2}") }
}
