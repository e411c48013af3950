// SPDX-License-Identifier: MIT
//! How a batch holds its packets: structure of arrays against arrays of mbuf pointers, by the program in
//! `batch-layout`, which is built first.

use super::outcome::{Outcome, Picture, Table};
use super::stand::Stand;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/batch-layout");
/// What `--layout` names, by the first word of the program's rows.
const LAYOUTS: [(&str, &str); 2] = [("soa", "soa"), ("pointers", "mbuf")];

/// The names of `--layout`.
pub const NAMES: [&str; 2] = [LAYOUTS[0].0, LAYOUTS[1].0];

/// A row of the program.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    burst: u32,
    layout: String,
    ns: f64,
    /// Of `mbuf`'s time, the median of ratios within rounds.
    ratio: f64,
}

pub fn layout(stand: &mut Stand) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("perigee-evaluate-").tempdir()?;
    build(folder.path())?;
    let (turns, rounds, seconds) = if stand.quick { (2, "7", "0.02") } else { (5, "21", "0.05") };
    let mut outcome = Outcome {
        data: Table::new(&["layout", "burst", "ns", "of_pointers"]),
        raw: Table::new(&["turn", "layout", "burst", "ns", "of_pointers"]),
        ..Outcome::default()
    };
    let core = stand.cores[0].to_string();
    let mut all: Vec<Vec<Row>> = Vec::new();
    for turn in 0..turns {
        let mut command = Command::new(folder.path().join("layout"));
        command.args(["-r", rounds, "-t", seconds, "-l", &core]).current_dir(folder.path());
        let output = command.output().context("the program that was built cannot be run")?;
        let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the program that was built failed: {}", error.trim());
        let rows = rows(&text);
        ensure!(!rows.is_empty(), "the program that was built printed no rows: {text}");
        for row in &rows {
            outcome.raw.row(&[&turn, &row.layout, &row.burst, &row.ns, &row.ratio]);
        }
        all.push(rows);
    }
    let mut picture = Picture {
        title: "Layouts of a batch".into(),
        x: "burst".into(),
        y: "ns per packet".into(),
        log_x: true,
        ..Picture::default()
    };
    let mut names: Vec<String> = Vec::new();
    for row in &all[0] {
        if !names.contains(&row.layout) && wanted(&row.layout, &stand.layouts) {
            names.push(row.layout.clone());
        }
    }
    for name in &names {
        let mut points = Vec::new();
        for row in all[0].iter().filter(|row| row.layout == *name) {
            let same = || all.iter().flatten().filter(|other| other.layout == *name && other.burst == row.burst);
            let ns = median(same().map(|row| row.ns).collect());
            let ratio = median(same().map(|row| row.ratio).collect());
            points.push((f64::from(row.burst), ns));
            outcome.data.row(&[name, &row.burst, &format!("{ns:.2}"), &format!("{ratio:.3}")]);
            if name.starts_with("soa") {
                outcome.says.push(format!("{name}, bursts of {}: {ratio:.2} of the time with pointers.", row.burst));
            }
        }
        picture.lines.push((name.clone(), points));
    }
    outcome.pictures.push(picture);
    Ok(outcome)
}

/// Is a row of this layout to be shown? All are, if none is named.
fn wanted(row: &str, named: &[String]) -> bool {
    let of = |name: &String| LAYOUTS.iter().any(|(known, first)| known == name && row.starts_with(first));
    named.is_empty() || named.iter().any(of)
}

fn build(to: &Path) -> Result<()> {
    let there = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    ensure!(
        there.is_ok_and(|status| status.success()),
        "DPDK's headers are not found by pkg-config: sudo apt-get install pkg-config libdpdk-dev"
    );
    let makefile = Path::new(SOURCES).join("Makefile");
    ensure!(makefile.exists(), "{} is not there: run it in the tree that it was built in", makefile.display());
    let mut command = Command::new("make");
    command.arg("-C").arg(to).arg("-f").arg(&makefile).arg(format!("VPATH={SOURCES}")).arg("layout");
    let output = command.output().context("make cannot be run: sudo apt-get install make gcc")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "batch-layout is not built: {}", error.trim());
    Ok(())
}

/// Rows of the first table that the program prints.
fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, burst, layout, _, ns, _, ratio, _] = cells[..] else { return None };
        Some(Row {
            burst: burst.parse().ok()?,
            layout: layout.to_owned(),
            ns: ns.parse().ok()?,
            ratio: ratio.split_whitespace().next()?.parse().ok()?,
        })
    };
    text.lines().filter_map(row).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_layouts() {
        let text = "verified: 1 sent, 0 wrong, 0 dropped\n\n| burst | layout | Mpps | ns | above bare | ns over mbuf's [95 %] |\n\
                    | --- | --- | --- | --- | --- | --- |\n|  64 | soa            |  25.9 | 38.71 | 23.70 | 1.030 [0.960, 1.110] |\n\n\
                    | burst | pass | mbuf ns | soa ns |\n|  64 | classify   |  1.20 |  0.80 |\n";
        assert_eq!(rows(text), [Row { burst: 64, layout: "soa".to_owned(), ns: 38.71, ratio: 1.03 }]);
        let named = |name: &str| vec![name.to_owned()];
        assert!(wanted("mbuf, 4 passes", &named("pointers")) && !wanted("mbuf", &named("soa")));
        assert!(wanted("soa, 4 passes", &named("soa")) && wanted("meta arrays", &[]));
    }
}
