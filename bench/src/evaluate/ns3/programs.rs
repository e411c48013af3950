// SPDX-License-Identifier: MIT
//! The ns-3 module's examples, and the CSV files that they write.

use super::{Predicted, Row};
use crate::ns3::beside_this_program;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// What the page says.
pub const BY: &str = "By packets in ns-3: each row is a simulation of the ns-3 module's.";

/// `softrouter-case-study`: the published table.
pub fn case_study() -> Result<Vec<Row>> {
    rows_of_table(&csv("softrouter-case-study")?)
}

/// `softrouter-eight-cores`: the router that was not measured.
pub fn eight_cores() -> Result<Vec<Predicted>> {
    rows_of_predictions(&csv("softrouter-eight-cores")?)
}

fn csv(name: &str) -> Result<String> {
    let program = beside_this_program()?.join(name);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rows.csv");
    let output = Command::new(&program)
        .arg(format!("--csv={}", file.display()))
        .output()
        .with_context(|| format!("{name} does not run; `./x ns3` builds it"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "));
    std::fs::read_to_string(&file).with_context(|| format!("{name} has written no CSV file"))
}

/// The values of these columns in each line.
fn columns<const N: usize>(text: &str, names: [&str; N]) -> Result<Vec<[f64; N]>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        *place = header.iter().position(|column| *column == name).with_context(|| format!("no column {name}"))?;
    }
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let mut values = [0.0; N];
        for (value, place) in values.iter_mut().zip(places) {
            let cell = cells.get(place).copied().unwrap_or_default();
            *value = cell.parse().with_context(|| format!("found {cell:?} in {line:?}, expected a number"))?;
        }
        Ok(values)
    };
    let rows: Vec<[f64; N]> = lines.map(row).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "no rows");
    Ok(rows)
}

fn rows_of_table(text: &str) -> Result<Vec<Row>> {
    let names = [
        "flows",
        "frame_size",
        "measured_gbps",
        "published_simulation_gbps",
        "published_eq5_gbps",
        "eq7_gbps",
        "contention_gbps",
    ];
    let rows = columns(text, names)?.into_iter();
    let row = |[flows, size, measured, simulated, eq5, eq7, contention]: [f64; 7]| Row {
        flows: flows as u32,
        size: size as u32,
        measured,
        simulated,
        eq5,
        eq7,
        contention,
    };
    Ok(rows.map(row).collect())
}

fn rows_of_predictions(text: &str) -> Result<Vec<Predicted>> {
    let rows = columns(text, ["cores", "frame_size", "eq7_gbps", "contention_gbps"])?.into_iter();
    let row = |[cores, size, eq7, contention]: [f64; 4]| Predicted {
        cores: cores as u32,
        size: size as u32,
        eq7,
        contention,
    };
    Ok(rows.map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened from the examples' own files.
    const TABLE: &str = "# {\"title\": \"Published case study\"}\n\
        flows,frame_size,measured_gbps,published_simulation_gbps,published_eq5_gbps,eq7_gbps,eq7_truncated_gbps,contention_gbps\n\
        1,64,1.1928,1.1943,1.1928,1.1928,1.1936,1.1928\n2,64,2.2265,2.1516,2.1489,2.1489,2.1514,2.2265\n";

    #[test]
    fn rows_are_read_by_the_names_of_columns() {
        let rows = rows_of_table(TABLE).unwrap();
        let second = Row {
            flows: 2,
            size: 64,
            measured: 2.2265,
            simulated: 2.1516,
            eq5: 2.1489,
            eq7: 2.1489,
            contention: 2.2265,
        };
        assert_eq!((rows.len(), &rows[1]), (2, &second));
        let text = "cores,frame_size,eq7_gbps,contention_gbps,eq7_mpps,contention_mpps\n8,64,7.882,6.91,11.73,10.28\n";
        assert_eq!(
            rows_of_predictions(text).unwrap(),
            [Predicted { cores: 8, size: 64, eq7: 7.882, contention: 6.91 }]
        );
    }

    #[test]
    fn what_is_not_a_table_is_refused() {
        let error = |text: &str| format!("{:#}", rows_of_predictions(text).unwrap_err());
        assert!(error("cores,frame_size\n").contains("no column eq7_gbps"));
        let header = "cores,frame_size,eq7_gbps,contention_gbps\n";
        assert!(error(header).contains("no rows"));
        assert!(error(&format!("{header}1,64,x,2\n")).contains("expected a number"));
    }
}
