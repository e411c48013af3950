// SPDX-License-Identifier: MIT
//! Forwarding while the table changes: `./x bench churn`.

use super::benches::{self, bench};
use super::outcome::{Outcome, Picture, Table};
use super::stand::Stand;
use anyhow::{Context as _, Result};
use perigee_fib::synth;
use serde::Deserialize;
use serde_json::Value;
use std::io::Write as _;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The longest time between two rounds of a worker's loop, in us, by kind of window.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Gaps {
    quiet: f64,
    resync: f64,
    changes: f64,
}

/// A worker that only computes, under the same changes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Spin {
    Measured { rate_ratio: f64, longest_gaps_us: Gaps },
    Refused { refused: String },
}

/// A structure's turn.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Measured(Box<Measured>),
    Refused { structure: String, family: u8, refused: String },
}

/// A structure of one name may be there for both families.
fn name(structure: &str, family: u8) -> String {
    if family == 6 { format!("{structure} for IPv6") } else { structure.to_owned() }
}

#[derive(Deserialize)]
struct Measured {
    structure: String,
    family: u8,
    lost: u64,
    received: u64,
    mpps: Mpps,
    rate_ratio: f64,
    /// Null without enough pairs.
    rate_ratio_interval: [Option<f64>; 2],
    changes_per_s: f64,
    linux_changes_per_s: f64,
    cpu_us_per_change: f64,
    load_full_table_s: f64,
    resync_s: f64,
    longest_gaps_us: Gaps,
    differences: u64,
    spin: Spin,
}

#[derive(Deserialize)]
struct Mpps {
    median: f64,
}

pub fn changes(stand: &mut Stand) -> Result<Outcome> {
    if stand.cores.len() < 2 {
        return Ok(Outcome::left_out(
            "a worker needs a core of its own beside Linux's changes, and this process may use one core",
        ));
    }
    let mut words = benches::words(if stand.quick {
        "churn --pairs 2 --resyncs 1 --seconds 0.5 --changes 20000"
    } else {
        "churn --pairs 9 --resyncs 3"
    });
    let structures = stand.structures(&["auto", "dir24"], &["auto", "dir24", "dxr20", "poptrie"]);
    words.extend(["--structures".to_owned(), structures.join(",")]);
    // Linux takes longer for a full table than everything else here.
    let small = if stand.quick && stand.routes.is_none() { Some(small_table()?) } else { None };
    match &small {
        Some(file) => words.extend(["--routes".to_owned(), file.path().display().to_string()]),
        None => words.extend(stand.routes_words()),
    }
    let mut outcome = outcome(bench(&words, Duration::from_secs(2400))?)?;
    if small.is_some() {
        outcome.says.push(format!("A table of {} IPv4 and {} IPv6 prefixes only (--quick).", SMALL.0, SMALL.1));
    }
    Ok(outcome)
}

/// Prefixes of the small table.
const SMALL: (usize, usize) = (100_000, 20_000);

/// A file with routes of the Internet's shape.
fn small_table() -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    let v4 = synth::ipv4(SMALL.0, 1).into_iter().map(|(prefix, _)| prefix.to_string());
    let v6 = synth::ipv6(SMALL.1, 1).into_iter().map(|(prefix, _)| prefix.to_string());
    let text: String = v4.chain(v6).map(|prefix| prefix + "\n").collect();
    file.write_all(text.as_bytes()).context("the table cannot be written")?;
    Ok(file)
}

/// What the bench's answer comes to.
///
/// # Errors
/// It is none.
pub fn outcome(said: Value) -> Result<Outcome> {
    let rows: Vec<Row> = benches::parsed(&said, "churn")?;
    let columns = [
        "structure",
        "family",
        "quiet_mpps",
        "rate_ratio",
        "low",
        "high",
        "received",
        "lost",
        "changes_per_s",
        "linux_changes_per_s",
        "cpu_us_per_change",
        "load_s",
        "resync_s",
        "gap_quiet_us",
        "gap_resync_us",
        "gap_changes_us",
        "differences",
    ];
    let mut outcome =
        Outcome { data: Table::new(&columns), said: [("churn".to_owned(), said)].into(), ..Outcome::default() };
    let mut ratios = Picture {
        title: "Rate while routes change".into(),
        x: "structure".into(),
        y: "of the quiet rate".into(),
        ..Picture::default()
    };
    let mut gaps = Picture {
        title: "Longest gap of the worker's loop".into(),
        x: "while".into(),
        y: "us".into(),
        log_y: true,
        categories: ["nothing changes", "a resync", "changes"].map(String::from).to_vec(),
        ..Picture::default()
    };
    let mut spin = None;
    for (at, row) in rows.into_iter().enumerate() {
        let measured = match row {
            Row::Measured(measured) => measured,
            Row::Refused { structure, family, refused } => {
                outcome.says.push(format!("{} is left out: {refused}.", name(&structure, family)));
                continue;
            }
        };
        let named = name(&measured.structure, measured.family);
        ratios.lines.push((named.clone(), vec![(at as f64, measured.rate_ratio)]));
        gaps.lines.push((named, line(measured.longest_gaps_us)));
        outcome.says.push(sentence(&measured));
        add(&mut outcome.data, &measured);
        spin = Some(measured.spin);
    }
    match spin {
        Some(Spin::Measured { rate_ratio, longest_gaps_us }) => {
            ratios.lines.push(("a worker that only computes".into(), vec![(ratios.lines.len() as f64, rate_ratio)]));
            gaps.lines.push(("a worker that only computes".into(), line(longest_gaps_us)));
            outcome.says.push(format!(
                "The machine's part: a worker that only computes keeps {rate_ratio:.3} of its rate under the same changes, and its \
                 longest gap is {:.0} us.",
                longest_gaps_us.changes
            ));
        }
        Some(Spin::Refused { refused }) => {
            outcome.says.push(format!("The machine's own part is not known: {refused}."));
        }
        None => {}
    }
    outcome.pictures.extend([ratios.by_line(), gaps]);
    Ok(outcome)
}

fn line(gaps: Gaps) -> Vec<(f64, f64)> {
    vec![(0.0, gaps.quiet), (1.0, gaps.resync), (2.0, gaps.changes)]
}

fn sentence(row: &Measured) -> String {
    let audit = match row.differences {
        0 => String::new(),
        differences => format!(" The audit in the end finds {differences} differences."),
    };
    format!(
        "{}: {:.0} changes a second, {:.3} of the quiet rate ({:.1} Mpps), {} of {} packets lost, longest gap {:.0} us.{audit}",
        name(&row.structure, row.family),
        row.changes_per_s,
        row.rate_ratio,
        row.mpps.median,
        row.lost,
        row.received,
        row.longest_gaps_us.changes
    )
}

fn add(data: &mut Table, row: &Measured) {
    let [low, high] = row.rate_ratio_interval.map(|end| end.map_or(String::new(), |end| format!("{end:.3}")));
    data.row(&[
        &row.structure,
        &row.family,
        &format!("{:.2}", row.mpps.median),
        &format!("{:.3}", row.rate_ratio),
        &low,
        &high,
        &row.received,
        &row.lost,
        &format!("{:.0}", row.changes_per_s),
        &format!("{:.0}", row.linux_changes_per_s),
        &format!("{:.2}", row.cpu_us_per_change),
        &format!("{:.2}", row.load_full_table_s),
        &format!("{:.2}", row.resync_s),
        &row.longest_gaps_us.quiet,
        &row.longest_gaps_us.resync,
        &row.longest_gaps_us.changes,
        &row.differences,
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use serde_json::json;

    /// Shortened from the bench's own output.
    fn said() -> Value {
        let gaps = |changes: f64| json!({"quiet": 32057.0, "resync": 92086.0, "changes": changes});
        let no = json!({"high": null, "low": null, "median": 19.0});
        json!([{"structure": "auto", "family": 4, "received": 176836768, "lost": 3, "mpps": no, "rate_ratio": 0.9286,
                "rate_ratio_interval": [null, null], "wall_rate_ratio": no, "changes_per_s": 147288.7, "linux_changes_per_s": 271895.1,
                "cpu_us_per_change": 2.61, "load_full_table_s": 0.13, "linux_load_s": 16.7, "resync_s": 2.86, "dump_s": 1.88,
                "longest_gap_us": 68090.0, "longest_gaps_us": gaps(68090.0), "median_gaps_us": gaps(62089.0), "overruns": 0,
                "differences": 0, "spin": {"rate_ratio": 1.0006, "rate_ratio_interval": [null, null], "wall_rate_ratio": no,
                "longest_gaps_us": gaps(100412.0), "median_gaps_us": gaps(80302.0)}},
               {"structure": "dir24", "family": 4, "refused": "it took too long", "spin": {"refused": "no script"}},
               {"structure": "poptrie", "family": 6, "refused": "no memory", "spin": {"refused": "no script"}}])
    }

    #[test]
    fn a_structure_is_a_row_and_one_that_was_refused_a_sentence() {
        let outcome = outcome(said()).unwrap();
        assert_eq!(outcome.data.rows.len(), 1);
        assert_eq!(outcome.data.rows[0][..9], ["auto", "4", "19.00", "0.929", "", "", "176836768", "3", "147289"]);
        let says = outcome.says.join(" ");
        assert!(says.contains("3 of 176836768 packets lost, longest gap 68090 us"), "{says}");
        assert!(says.contains("dir24 is left out: it took too long."), "{says}");
        assert!(says.contains("poptrie for IPv6 is left out: no memory."), "{says}");
        assert!(says.contains("keeps 1.001 of its rate") && !says.contains("audit"), "{says}");
        assert_eq!(outcome.pictures[1].lines[0].1[2], (2.0, 68090.0));
        assert!(super::outcome(json!([{"structure": "auto"}])).is_err());
    }

    #[test]
    fn the_small_table_is_one() {
        let list = table::read(small_table().unwrap().path()).unwrap();
        assert_eq!((<u32 as table::Family>::of(&list).len(), <u128 as table::Family>::of(&list).len()), SMALL);
    }
}
