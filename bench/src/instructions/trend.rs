// SPDX-License-Identifier: MIT
//! `./x bench instructions --trend`: a count of under a minute beside the recorded ones. `./x check` prints it; nothing
//! is asserted.

use super::{InstructionsArgs, LoopPath, counted};
use anyhow::{Context as _, Result};
use comfy_table::{Table, presets};
use std::path::Path;
use std::process::ExitCode;

/// The burst size, for which every record has a column.
const BURST: usize = 64;
/// Packets by which the long run is longer: enough for a tenth of an instruction, as runs differ by some thousand.
const PACKETS: u64 = 100_000;
/// How many of the last records are shown.
const RECORDS: usize = 3;
const LOOPS: [LoopPath; 3] = [LoopPath::Io, LoopPath::Native, LoopPath::Lua];

/// A record of the file: its title, and for each of [`LOOPS`] its count.
#[derive(Debug, PartialEq)]
struct Record {
    title: String,
    counts: [Option<f64>; 3],
}

/// Runs it.
pub fn trend(file: &Path) -> Result<ExitCode> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read, and it has the counts to compare with", file.display()))?;
    let mut records = records(&text);
    records.drain(..records.len().saturating_sub(RECORDS));
    let args = InstructionsArgs {
        bursts: vec![BURST],
        packets: PACKETS,
        paths: LOOPS.to_vec(),
        family: 4,
        trend: None,
        filters: 0,
        keep: None,
        json: false,
        record: None,
    };
    let counts = counted(&args)?;
    let now = |path: LoopPath| counts.iter().find(|(other, _)| *other == path).map(|(_, of_loop)| of_loop[0].1);
    records.push(Record { title: "now".to_owned(), counts: LOOPS.map(now) });
    println!(
        "{}\n\nInstructions per packet at a burst of {BURST}; recorded ones: {}.",
        table(&records),
        file.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn table(records: &[Record]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["", "io", "native", "lua", "native over io", "lua over io"]);
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    for Record { title, counts: [io, native, lua] } in records {
        let over = |of: &Option<f64>| cell(of.zip(*io).map(|(of, io)| of - io));
        table.add_row([title.clone(), cell(*io), cell(*native), cell(*lua), over(native), over(lua)]);
    }
    table
}

/// The sections `bench instructions` of a file of results that have a column for [`BURST`], in their order.
fn records(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let (mut inside, mut column) = (false, None);
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            inside = title.starts_with("bench instructions");
            column = None;
            if inside {
                let title = title.trim_start_matches("bench instructions").trim_start_matches(',').trim().to_owned();
                records.push(Record { title, counts: [None; 3] });
            }
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (true, Some(record), [_, name, ..]) = (inside, records.last_mut(), &cells[..]) else { continue };
        if *name == "loop" {
            column = cells.iter().position(|cell| *cell == format!("burst {BURST}"));
        } else if let (Some(number), Some(column)) = (LOOPS.iter().position(|path| path.name() == *name), column) {
            // The first table of a section: a second one may show what was before.
            let value = cells.get(column).and_then(|cell| cell.parse().ok());
            record.counts[number] = record.counts[number].or(value);
        }
    }
    records.retain(|record| record.counts.iter().any(Option::is_some));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_a_file_of_results() {
        let text = "# Results\n\n## bench forward, 2026-01-01\n\n| burst | loop | Mpps |\n| 64 | lua | 22.0 |\n\
                    ## bench instructions, 2026-01-02\n\n| loop   | burst 32 | burst 64 |\n|---|---|---|\n\
                    | io     | 271.9    | 262.1    |\n| lua | 530.8 | 495.7 |\n| lua over io | 258.9 | 233.6 |\n\
                    ## bench instructions, 2026-01-03\n\n| loop | burst 32 |\n| io | 270.0 |\n\
                    ## bench instructions before and after a change, 2026-01-04\n\n| loop | burst 64 |\n| native | 480.1 |\n";
        let record = |title: &str, counts| Record { title: title.to_owned(), counts };
        assert_eq!(
            records(text),
            [
                record("2026-01-02", [Some(262.1), None, Some(495.7)]),
                record("before and after a change, 2026-01-04", [None, Some(480.1), None])
            ]
        );
        assert_eq!(records("## bench instructions, 2026-01-02\n\nnothing\n"), []);
    }

    #[test]
    fn the_projects_own_records_are_found() {
        let records = records(include_str!("../../RESULTS.md"));
        assert!(records.len() >= 2, "{records:?}");
        assert_eq!(records[0].counts, [Some(262.1), Some(488.6), Some(495.7)]);
    }
}
