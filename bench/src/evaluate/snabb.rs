// SPDX-License-Identifier: MIT
//! Chains of Snabb apps: `./x bench snabb`, in turn with Snabb itself where there is a built one.

use super::benches::{self, bench};
use super::outcome::{Outcome, Picture, Table};
use super::published;
use super::stand::Stand;
use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the bench says.
#[derive(Deserialize)]
struct Said {
    snabb: Vec<Row>,
    left_out: Vec<String>,
}

/// A graph of n apps; programs in turn with Snabb have the same rows.
#[derive(Deserialize)]
struct Row {
    graph: String,
    n: u16,
    /// Millions per second of CPU time.
    mpps_cpu: Option<f64>,
    snabb_mpps_cpu: Option<f64>,
    /// perigee's rate as a multiple of Snabb's, taken within pairs of turns.
    of_snabb: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    error: Option<String>,
    snabb_error: Option<String>,
}

const GRAPHS: [(&str, &str); 2] = [("chain", "source, apps, sink"), ("ports", "DPDK port, apps, DPDK port")];

pub fn chains(stand: &mut Stand) -> Result<Outcome> {
    let mut words = benches::words(if stand.quick {
        "snabb --graphs chain,ports --apps 1,5,20,100 --rounds 5 --seconds 0.1 --pairs 0"
    } else {
        "snabb --graphs chain,ports --apps 1,2,3,5,7,10,15,20,30,50,70,100 --rounds 11 --pairs 0"
    });
    let rows = match &stand.snabb {
        Some(path) => {
            words.extend(["--snabb".to_owned(), binary(path)?.display().to_string()]);
            let (turns, seconds) = if stand.quick { (6, 0.2) } else { (11, 0.5) };
            words.extend(benches::words(&format!("--turns {turns} --turn-seconds {seconds}")));
            "chains"
        }
        None => "none",
    };
    words.extend(["--rows".to_owned(), rows.to_owned()]);
    outcome(bench(&words, Duration::from_secs(2400))?)
}

/// A built Snabb: the binary itself, or where it is in its tree.
fn binary(path: &Path) -> Result<PathBuf> {
    let places = [path.to_owned(), path.join("src/snabb"), path.join("snabb")];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => bail!("--snabb: found {}, expected a built Snabb, or its tree with src/snabb", path.display()),
    }
}

fn outcome(value: Value) -> Result<Outcome> {
    let said: Said = benches::parsed(&value, "snabb")?;
    let mut outcome = Outcome {
        data: Table::new(&["graph", "apps", "mpps", "ns_per_packet", "snabb_mpps", "of_snabb", "low", "high"]),
        published: vec![published::snabb_thesis(), published::snabb_recorded()],
        said: [("snabb".to_owned(), value)].into(),
        ..Outcome::default()
    };
    let mut picture = Picture {
        title: "Chains of apps".into(),
        x: "apps".into(),
        y: "Mpps".into(),
        log_x: true,
        ..Picture::default()
    };
    for row in &said.snabb {
        let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        outcome.data.row(&[
            &row.graph,
            &row.n,
            &cell(row.mpps_cpu),
            &cell(row.mpps_cpu.map(|mpps| 1e3 / mpps)),
            &cell(row.snabb_mpps_cpu),
            &cell(row.of_snabb),
            &cell(row.low),
            &cell(row.high),
        ]);
        for (who, why) in [("perigee", &row.error), ("Snabb", &row.snabb_error)] {
            if let Some(why) = why {
                outcome.says.push(format!("{} of {}: {who} failed: {why}.", row.graph, row.n));
            }
        }
    }
    let line = |graph: &str, rate: fn(&Row) -> Option<f64>| {
        let of = said.snabb.iter().filter(|row| row.graph == graph);
        of.filter_map(|row| Some((f64::from(row.n), rate(row)?))).collect::<Vec<(f64, f64)>>()
    };
    for (graph, name) in GRAPHS {
        let points = line(graph, |row| row.mpps_cpu);
        outcome.says.extend(hops(&format!("perigee, {name}"), &points));
        picture.lines.push((format!("perigee: {name}"), points));
    }
    let snabb = line("chain", |row| row.snabb_mpps_cpu);
    if snabb.is_empty() {
        outcome.says.push(
            "No Snabb was measured here (--snabb TREE names a built one): it was on another machine, whose picture stands by itself; only \
             shapes compare."
                .into(),
        );
        outcome.says.extend(shape(&line("chain", |row| row.mpps_cpu)));
    } else {
        outcome.says.extend(hops("Snabb, source, apps, sink", &snabb));
        let ratios: Vec<String> =
            said.snabb.iter().filter_map(|row| Some(format!("{:.2} with {}", row.of_snabb?, row.n))).collect();
        outcome.says.push(format!(
            "perigee's rate as a multiple of Snabb's, in turn on one core, by apps: {}.",
            ratios.join(", ")
        ));
        picture.lines.push(("Snabb: source, apps, sink".into(), snabb));
    }
    outcome.says.extend(said.left_out.iter().map(|why| format!("Left out: {why}.")));
    outcome.pictures.push(picture);
    Ok(outcome)
}

/// What an app more costs a packet: the slope of the time over the number of apps, by least squares.
fn ns_per_hop(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), (apps, mpps)| (x + apps / n, y + 1e3 / mpps / n));
    let (mut above, mut below) = (0.0, 0.0);
    for (apps, mpps) in points {
        above += (apps - x) * (1e3 / mpps - y);
        below += (apps - x).powi(2);
    }
    (below > 0.0).then(|| above / below)
}

fn hops(who: &str, points: &[(f64, f64)]) -> Option<String> {
    let (first, last, ns) = (points.first()?, points.last()?, ns_per_hop(points)?);
    Some(format!(
        "{who}: {:.1} Mpps with {} app, {:.2} with {}; each further app costs a packet {ns:.2} ns.",
        first.1, first.0, last.1, last.0
    ))
}

/// How curves fall, here and where Snabb was recorded.
fn shape(here: &[(f64, f64)]) -> Option<String> {
    let fall = |points: &[(f64, f64)]| Some(points.last()?.1 / points.iter().find(|(apps, _)| *apps == 1.0)?.1);
    let recorded = published::snabb_recorded();
    let of = |name: &str| recorded.lines.iter().find(|(other, _)| other == name).map(|(_, points)| points.as_slice());
    Some(format!(
        "From 1 app to 100 the rate falls to {:.3} here; where they were recorded, perigee's to {:.3}, Snabb's to {:.3}.",
        here.last().filter(|(apps, _)| *apps == 100.0).and(fall(here))?,
        fall(of("perigee")?)?,
        fall(of("Snabb")?)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_slope_is_that_of_times() {
        // 10 ns, and 2 for each app.
        let points: Vec<(f64, f64)> = [1.0, 5.0, 20.0, 100.0].map(|n| (n, 1e3 / (10.0 + 2.0 * n))).to_vec();
        assert!((ns_per_hop(&points).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(ns_per_hop(&points[..1]), None);
    }

    /// Shortened from the bench's own output.
    #[test]
    fn without_snabb_shapes_compare() {
        let said = json!({"snabb": [
            {"graph": "chain", "n": 1, "workers": 1, "bytes": 60, "mpps": 101.9, "mpps_cpu": 120.0, "garbage": 3.6, "breaths": 2000.0},
            {"graph": "chain", "n": 100, "workers": 1, "bytes": 60, "mpps": 5.1, "mpps_cpu": 6.0, "garbage": 0.1, "breaths": 2000.0},
            {"graph": "ports", "n": 1, "workers": 1, "bytes": 60, "mpps": 55.0, "mpps_cpu": 60.0, "garbage": 11.2, "breaths": 2000.0}],
            "left_out": [], "machine": {}});
        let outcome = outcome(said).unwrap();
        assert_eq!(outcome.data.rows[0][..5], ["chain", "1", "120.000", "8.333", ""]);
        assert_eq!(outcome.pictures[0].lines.len(), 2, "no line of Snabb's");
        let says = outcome.says.join(" ");
        assert!(says.contains("No Snabb was measured here") && says.contains("falls to 0.050 here"), "{says}");
        assert!(says.contains("each further app costs a packet 1.60 ns"), "{says}");
    }

    #[test]
    fn beside_snabb_ratios_are_those_of_pairs() {
        let said = json!({"snabb": [
            {"graph": "chain", "n": 1, "mpps_cpu": 120.0, "turns": 6, "snabb_mpps_cpu": 80.0, "of_snabb": 1.55, "low": 1.5, "high": 1.6},
            {"graph": "chain", "n": 10, "mpps_cpu": 50.0, "turns": 6, "snabb_mpps_cpu": null, "snabb_error": "it ended"}],
            "left_out": ["lwaftr: no tree"], "machine": {}});
        let outcome = outcome(said).unwrap();
        assert_eq!(outcome.data.rows[0][4..], ["80.000", "1.550", "1.500", "1.600"]);
        let says = outcome.says.join(" ");
        assert!(says.contains("1.55 with 1") && says.contains("chain of 10: Snabb failed: it ended."), "{says}");
        assert!(!says.contains("No Snabb") && says.contains("Left out: lwaftr"), "{says}");
    }

    #[test]
    fn a_tree_or_its_binary_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("src/snabb");
        std::fs::create_dir(folder.path().join("src")).unwrap();
        let error = binary(folder.path()).unwrap_err().to_string();
        assert!(error.contains("expected a built Snabb"), "{error}");
        std::fs::write(&built, "").unwrap();
        for path in [folder.path(), &folder.path().join("src"), &built] {
            assert_eq!(binary(path).unwrap(), built);
        }
    }
}
