// SPDX-License-Identifier: MIT
//! The ns-3 paper's tables and predictions: by the ns-3 module where `./x ns3` has built it, else by
//! `perigee-predict`'s closed forms.

mod programs;

use super::outcome::{Outcome, Picture, Table};
use super::published;
use super::stand::Stand;
use anyhow::{Context as _, Result};
use perigee_predict::fit::{Kind, Options, fit};
use perigee_predict::saturation::saturated;
use perigee_predict::service::wire_bits;
use perigee_predict::{Point, Profile, Router, points, verify};

/// The published rows, and the points of them that each model takes its parameters from.
const TABLE: &str = include_str!("../../../examples/predict/published.csv");
const FOUR: &str = include_str!("../../../examples/predict/four-points.csv");
const THREE: &str = include_str!("../../../examples/predict/contention-points.csv");
/// The router that was predicted.
const CORES: u32 = 8;
pub const SIZES: [u32; 6] = [64, 128, 256, 512, 1024, 1518];
pub const LINK_GBPS: f64 = 50.0;

/// A row of the published table, with the rates of both models beside it, in Gbit/s on the wire.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    flows: u32,
    size: u32,
    measured: f64,
    simulated: f64,
    eq5: f64,
    eq7: f64,
    contention: f64,
}

/// A prediction: cores, frame size, Gbit/s by each model.
#[derive(Debug, Clone, PartialEq)]
struct Predicted {
    cores: u32,
    size: u32,
    eq7: f64,
    contention: f64,
}

/// The published table, predicted again, and by what.
fn table() -> Result<(Vec<Row>, String)> {
    match programs::case_study() {
        Ok(rows) => Ok((rows, programs::BY.to_owned())),
        Err(why) => Ok((closed_table()?, closed(&why))),
    }
}

fn predictions() -> Result<(Vec<Predicted>, String)> {
    match programs::eight_cores() {
        Ok(rows) => Ok((rows, programs::BY.to_owned())),
        Err(why) => Ok((closed_predictions()?, closed(&why))),
    }
}

fn closed(why: &anyhow::Error) -> String {
    format!("By the closed forms of perigee predict, fitted to the published points; not by packets in ns-3: {why:#}.")
}

fn profile(kind: Kind, text: &str) -> Result<Profile> {
    let name = "the published points";
    let router = Router { burst: 1, ..Router::default() };
    let options = Options { kind: Some(kind), router, ..Options::default() };
    Ok(fit(&points::parse(text.as_bytes(), name)?, name, &options)?.profile)
}

fn models() -> Result<[Profile; 2]> {
    Ok([profile(Kind::Eq7, FOUR)?, profile(Kind::Contention, THREE)?])
}

fn closed_table() -> Result<Vec<Row>> {
    let name = "the published table";
    let points = points::parse(TABLE.as_bytes(), name)?;
    let [eq7, contention] = models()?;
    let (eq7, contention) = (verify::verify(&eq7, &points, name)?, verify::verify(&contention, &points, name)?);
    let rows = points.iter().zip(eq7.points.iter().zip(&contention.points)).map(|(point, (eq7, contention))| {
        let published = |column: &str| point.note_number(column).with_context(|| format!("{name} has no {column}"));
        Ok(Row {
            flows: point.flows,
            size: point.frame_size,
            measured: point.gbps,
            simulated: published("published_simulated")?,
            eq5: published("published_eq5")?,
            eq7: eq7.point.predicted_gbps,
            contention: contention.point.predicted_gbps,
        })
    });
    rows.collect()
}

fn closed_predictions() -> Result<Vec<Predicted>> {
    let models = models()?;
    let mut all = Vec::new();
    for cores in 1..=CORES {
        for size in SIZES {
            let [eq7, contention] = models.each_ref().map(|profile| gbps(profile, cores, size));
            all.push(Predicted { cores, size, eq7: eq7?, contention: contention? });
        }
    }
    Ok(all)
}

/// A flow for each core, as fast as the links of 50 Gbit/s carry.
fn gbps(profile: &Profile, cores: u32, size: u32) -> Result<f64> {
    let text = format!("flows,cores,frame_size,gbps\n{cores},{cores},{size},1\n");
    let point: Point = points::parse(text.as_bytes(), "a prediction")?.remove(0);
    let core = profile.service(cores, point.two_way, 0.0, 0.0).saturated_gbps(size, profile.router.burst);
    Ok(saturated(&point, core, LINK_GBPS).gbps)
}

fn percent(value: f64, of: f64) -> f64 {
    100.0 * (value / of - 1.0)
}

/// Mean of the errors, mean of their sizes, and the worst, in percent of what was measured.
fn errors(rows: &[Row], value: fn(&Row) -> f64) -> [f64; 3] {
    let all: Vec<f64> = rows.iter().map(|row| percent(value(row), row.measured)).collect();
    let n = all.len().max(1) as f64;
    let worst =
        all.iter().copied().fold(0.0, |worst: f64, error| if error.abs() > worst.abs() { error } else { worst });
    [all.iter().sum::<f64>() / n, all.iter().map(|error| error.abs()).sum::<f64>() / n, worst]
}

fn in_words([mean, absolute, worst]: [f64; 3]) -> String {
    format!("mean {mean:+.2} %, mean of sizes {absolute:.2} %, worst {worst:+.2} %")
}

/// Lines by flows, of what `value` is of each row.
fn by_flows(title: &str, rows: &[Row], value: fn(&Row) -> f64) -> Picture {
    let mut picture = Picture {
        title: title.into(),
        x: "frame size, bytes".into(),
        y: "Gbit/s on the wire".into(),
        log_x: true,
        ..Picture::default()
    };
    for flows in [1, 2, 3, 4, 100] {
        let of = rows.iter().filter(|row| row.flows == flows);
        picture.lines.push((format!("{flows} flows"), of.map(|row| (f64::from(row.size), value(row))).collect()));
    }
    picture
}

/// Tables I and II: rates.
pub fn rates(_: &mut Stand) -> Result<Outcome> {
    let (rows, by) = table()?;
    Ok(rates_of(&rows, by))
}

fn rates_of(rows: &[Row], by: String) -> Outcome {
    let columns = ["flows", "frame_size", "measured_gbps", "simulated_gbps", "eq5_gbps", "eq7_gbps", "contention_gbps"];
    let mut outcome = Outcome { data: Table::new(&columns), ..Outcome::default() };
    for row in rows {
        let rates = [row.measured, row.simulated, row.eq5, row.eq7, row.contention].map(|gbps| format!("{gbps:.4}"));
        let [measured, simulated, eq5, eq7, contention] = &rates;
        outcome.data.row(&[&row.flows, &row.size, measured, simulated, eq5, eq7, contention]);
    }
    let differs = rows.iter().map(|row| percent(row.eq7, row.eq5).abs()).fold(0.0, f64::max);
    outcome.says.push(by);
    outcome.says.push(format!("Eq. 7 here is the published Eq. 5 within {differs:.3} %."));
    outcome.pictures = vec![
        by_flows("Eq. 7, here", rows, |row| row.eq7),
        by_flows("Linear contention, here", rows, |row| row.contention),
    ];
    outcome.published = vec![
        by_flows("Published: measured, Linux 3.7 on four cores", rows, |row| row.measured),
        by_flows("Published: simulated", rows, |row| row.simulated),
    ];
    outcome
}

/// Tables I and II: errors.
pub fn deviations(_: &mut Stand) -> Result<Outcome> {
    let (rows, by) = table()?;
    Ok(deviations_of(&rows, by))
}

fn deviations_of(rows: &[Row], by: String) -> Outcome {
    type Value = fn(&Row) -> f64;
    let kinds: [(&str, Value); 3] = [
        ("published simulation", |row| row.simulated),
        ("Eq. 7, here", |row| row.eq7),
        ("linear contention, here", |row| row.contention),
    ];
    let mut outcome = Outcome {
        data: Table::new(&["flows", "frame_size", "simulation_percent", "eq7_percent", "contention_percent"]),
        ..Outcome::default()
    };
    for row in rows {
        let cells = kinds.map(|(_, value)| format!("{:+.3}", percent(value(row), row.measured)));
        outcome.data.row(&[&row.flows, &row.size, &cells[0], &cells[1], &cells[2]]);
    }
    outcome.says.push(by);
    let picture = |title: &str, kinds: &[(&str, Value)]| Picture {
        title: title.into(),
        x: "row of the table".into(),
        y: "error, %".into(),
        lines: kinds
            .iter()
            .map(|(name, value)| {
                let errors = rows.iter().map(|row| percent(value(row), row.measured));
                ((*name).to_owned(), (1..).map(f64::from).zip(errors).collect())
            })
            .collect(),
        ..Picture::default()
    };
    for (name, value) in kinds {
        outcome.says.push(format!("{name}: {}.", in_words(errors(rows, value))));
    }
    outcome.pictures.push(picture("Errors of what is predicted here", &kinds[1..]));
    outcome.published.push(picture("Published: errors of the simulation", &kinds[..1]));
    outcome
}

/// Figs. 8 and 9: Gbit/s by frame size.
pub fn gbps_by_size(_: &mut Stand) -> Result<Outcome> {
    let (rows, by) = predictions()?;
    Ok(by_size(&rows, by))
}

fn by_size(rows: &[Predicted], by: String) -> Outcome {
    let mut outcome =
        Outcome { data: Table::new(&["cores", "frame_size", "eq7_gbps", "contention_gbps"]), ..Outcome::default() };
    for row in rows {
        let [eq7, contention] = [row.eq7, row.contention].map(|gbps| format!("{gbps:.3}"));
        outcome.data.row(&[&row.cores, &row.size, &eq7, &contention]);
    }
    let picture = |title: &str, value: fn(&Predicted) -> f64| Picture {
        title: title.into(),
        x: "frame size, bytes".into(),
        y: "Gbit/s on the wire".into(),
        lines: (1..=CORES)
            .map(|cores| {
                let of = rows.iter().filter(|row| row.cores == cores);
                (format!("{cores} cores"), of.map(|row| (f64::from(row.size), value(row))).collect())
            })
            .collect(),
        ..Picture::default()
    };
    // The simulation stops a little below what the links carry.
    let fills = |value: fn(&Predicted) -> f64| {
        rows.iter().filter(|row| value(row) > 2.0 * LINK_GBPS * 0.995).map(|row| row.cores).min()
    };
    outcome.says.push(by);
    for (name, value) in
        [("Eq. 7", (|row| row.eq7) as fn(&Predicted) -> f64), ("Linear contention", |row| row.contention)]
    {
        outcome.says.push(match fills(value) {
            Some(cores) => format!("{name}: {cores} cores and more fill both links, with the largest frames."),
            None => format!("{name}: no number of cores fills both links."),
        });
    }
    outcome.pictures =
        vec![picture("Eq. 7, here", |row| row.eq7), picture("Linear contention, here", |row| row.contention)];
    outcome.published.push(published::eight_cores(&SIZES.map(f64::from), LINK_GBPS));
    outcome
}

/// Figs. 8 and 9: packets by cores.
pub fn mpps_by_cores(_: &mut Stand) -> Result<Outcome> {
    let (rows, by) = predictions()?;
    Ok(by_cores(&rows, by))
}

fn by_cores(rows: &[Predicted], by: String) -> Outcome {
    let mpps = |size: u32, gbps: f64| gbps * 1e3 / wire_bits(size);
    let mut outcome =
        Outcome { data: Table::new(&["cores", "frame_size", "eq7_mpps", "contention_mpps"]), ..Outcome::default() };
    for row in rows {
        let [eq7, contention] = [row.eq7, row.contention].map(|gbps| format!("{:.3}", mpps(row.size, gbps)));
        outcome.data.row(&[&row.cores, &row.size, &eq7, &contention]);
    }
    let line = |size: u32, value: fn(&Predicted) -> f64| {
        let of = rows.iter().filter(move |row| row.size == size);
        of.map(|row| (f64::from(row.cores), mpps(size, value(row)))).collect::<Vec<_>>()
    };
    let picture = |title: &str, value: fn(&Predicted) -> f64| Picture {
        title: title.into(),
        x: "cores".into(),
        y: "Mpps".into(),
        lines: SIZES.iter().map(|size| (format!("{size} bytes"), line(*size, value))).collect(),
        ..Picture::default()
    };
    outcome.says.push(by);
    if let (Some((_, eq7)), Some((_, contention))) =
        (line(64, |row| row.eq7).last(), line(64, |row| row.contention).last())
    {
        outcome.says.push(format!(
            "{CORES} cores, 64 bytes: {eq7:.2} Mpps by Eq. 7, {contention:.2} by linear contention, which fits the published rows better."
        ));
    }
    outcome.pictures =
        vec![picture("Eq. 7, here", |row| row.eq7), picture("Linear contention, here", |row| row.contention)];
    outcome.published.push(published::by_cores(&SIZES, LINK_GBPS));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_are_the_published_equation() {
        let rows = closed_table().unwrap();
        assert_eq!(rows.len(), 20);
        for row in &rows {
            assert!(percent(row.eq7, row.eq5).abs() < 0.02, "{row:?}");
        }
        let [mean, absolute, worst] = errors(&rows, |row| row.simulated);
        assert!((mean + 0.947).abs() < 1e-3 && (absolute - 1.438).abs() < 1e-3 && (worst + 3.572).abs() < 1e-3);
        let outcome = rates_of(&rows, String::new());
        assert_eq!(outcome.data.rows[13][..5], ["3", "512", "16.7076", "16.4304", "16.5430"]);
        let says = deviations_of(&rows, String::new()).says.join(" ");
        assert!(says.contains("linear contention, here: mean +0.34 %, mean of sizes 0.35 %, worst +1.45 %"), "{says}");
    }

    #[test]
    fn eight_cores_are_predicted_as_published() {
        let rows = closed_predictions().unwrap();
        let says = by_cores(&rows, String::new()).says.join(" ");
        assert!(says.contains("11.73 Mpps by Eq. 7, 10.28 by linear contention"), "{says}");
        let says = by_size(&rows, String::new()).says.join(" ");
        assert!(says.contains("Eq. 7: 6 cores and more fill both links"), "{says}");
    }
}
