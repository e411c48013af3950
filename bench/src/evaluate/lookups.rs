// SPDX-License-Identifier: MIT
//! Lookups of several threads in one table, beside those of one: `./x bench scaling`.

use super::benches::{self, Interval, bench};
use super::outcome::{Outcome, Picture, Table};
use super::stand::Stand;
use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// What the machine allows, beside the structures.
const LIMITS: [&str; 2] = ["spin", "reads"];

/// A row of the bench.
#[derive(Deserialize)]
struct Row {
    subject: String,
    threads: usize,
    /// Millions per second of CPU time, of one thread and of all together.
    alone: f64,
    together: f64,
    ratio: Interval,
}

pub fn lookups(stand: &mut Stand) -> Result<Outcome> {
    if stand.cores.len() < 2 {
        return Ok(Outcome::left_out("several threads need two cores, and this process may use one"));
    }
    let own: Vec<&str> = perigee_fib::structures::IPV4.iter().map(|structure| structure.name).collect();
    let structures = stand.structures(&["auto", "dir24", "dxr20"], &own);
    let subjects = format!("{},{}", LIMITS.join(","), structures.join(","));
    let (rounds, seconds) = if stand.quick { (7, 0.1) } else { (21, 0.2) };
    let mut words = benches::words(&format!("scaling --subjects {subjects} --rounds {rounds} --seconds {seconds}"));
    words.extend(stand.routes_words());
    outcome(bench(&words, Duration::from_secs(1800))?)
}

fn outcome(said: Value) -> Result<Outcome> {
    let rows: Vec<Row> = benches::parsed(&said, "scaling")?;
    let mut outcome = Outcome {
        data: Table::new(&["subject", "threads", "one_m_per_s", "all_m_per_s", "ratio", "low", "high"]),
        said: [("scaling".to_owned(), said)].into(),
        ..Outcome::default()
    };
    let picture =
        |title: &str, y: &str| Picture { title: title.into(), x: "threads".into(), y: y.into(), ..Picture::default() };
    let mut ratios = picture("All threads over one", "times one thread");
    let mut rates = picture("Lookups in one table", "millions per second");
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        let end = |end: Option<f64>| end.map_or(String::new(), |end| format!("{end:.3}"));
        outcome.data.row(&[
            &row.subject,
            &row.threads,
            &format!("{:.2}", row.alone),
            &format!("{:.2}", row.together),
            &format!("{:.3}", row.ratio.median),
            &end(row.ratio.low),
            &end(row.ratio.high),
        ]);
        if !names.contains(&row.subject.as_str()) {
            names.push(&row.subject);
        }
    }
    for name in names {
        let of: Vec<&Row> = rows.iter().filter(|row| row.subject == name).collect();
        let Some(most) = of.last() else { continue };
        let points = |first: f64, value: fn(&Row) -> f64| {
            let more = of.iter().map(|row| (row.threads as f64, value(row)));
            std::iter::once((1.0, first)).chain(more).collect::<Vec<_>>()
        };
        ratios.lines.push((name.to_owned(), points(1.0, |row| row.ratio.median)));
        let ratio = format!("{} threads do {} times what one does", most.threads, most.ratio);
        if LIMITS.contains(&name) {
            outcome.says.push(format!("{name}, what this machine allows: {ratio}."));
        } else {
            rates.lines.push((name.to_owned(), points(most.alone, |row| row.together)));
            outcome.says.push(format!("{name}: {ratio}; one looks up {:.0} million a second.", most.alone));
        }
    }
    outcome.pictures.extend([ratios, rates]);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_and_rates_are_those_of_the_bench() {
        let row = |subject: &str, alone: f64, together: f64, ratio: f64| {
            json!({"subject": subject, "threads": 2, "alone": alone, "together": together,
                   "ratio": {"median": ratio, "low": ratio - 0.01, "high": null}})
        };
        let said = json!([row("spin", 1120.0, 2230.0, 1.99), row("auto", 95.0, 186.2, 1.96)]);
        let outcome = outcome(said.clone()).unwrap();
        assert_eq!(outcome.data.rows[1][..5], ["auto", "2", "95.00", "186.20", "1.960"]);
        assert_eq!(outcome.pictures[0].lines[1], ("auto".to_owned(), vec![(1.0, 1.0), (2.0, 1.96)]));
        assert_eq!(outcome.pictures[1].lines, [("auto".to_owned(), vec![(1.0, 95.0), (2.0, 186.2)])]);
        assert_eq!(outcome.says[0], "spin, what this machine allows: 2 threads do 1.99 times what one does.");
        assert_eq!(outcome.said["scaling"], said);
        assert!(super::outcome(json!({"rows": []})).is_err());
    }
}
