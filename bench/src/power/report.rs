// SPDX-License-Identifier: MIT
//! Medians over turns, as a table and as JSON.

use super::{POLICIES, Sample};
use crate::statistics::Median;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;

/// One policy under one load on one kind of port: medians over its turns.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    port: String,
    idle: String,
    load_percent: f64,
    rate_pps: u64,
    /// CPU seconds of the worker per second of wall time.
    cpu: Median,
    /// Seconds per second that it was ready to run, and others had its core.
    waited: f64,
    received_pps: f64,
    lost_percent: f64,
    /// Delays of frames in us: median, 99 %, longest of all turns.
    delay_p50_us: Option<f64>,
    delay_p99_us: Option<f64>,
    delay_max_us: Option<f64>,
    /// What that is more than with `poll`, in us.
    added_p50_us: Option<f64>,
    added_p99_us: Option<f64>,
    turns: usize,
}

/// The rows, in the order of the samples.
pub fn rows(samples: &[Sample]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut seen: Vec<(&str, f64)> = Vec::new();
    for sample in samples {
        if seen.contains(&(&sample.port, sample.load)) {
            continue;
        }
        seen.push((&sample.port, sample.load));
        let of = |idle: &str| {
            let is = |s: &&Sample| s.port == sample.port && s.load == sample.load && s.idle == idle;
            samples.iter().filter(is).collect::<Vec<_>>()
        };
        let poll = delays(&of("poll"));
        rows.extend(POLICIES.iter().map(|idle| of(idle)).filter(|of| !of.is_empty()).map(|of| row(&of, poll)));
    }
    rows
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Median::of(&values.collect::<Vec<_>>()).median
}

/// Median and 99 % in us, as medians over turns; the longest of all.
fn delays(samples: &[&Sample]) -> Option<[f64; 3]> {
    let known: Vec<[f64; 3]> = samples.iter().filter_map(|sample| sample.delays).collect();
    if known.is_empty() {
        return None;
    }
    let longest = known.iter().map(|delays| delays[2]).fold(0.0, f64::max);
    Some([median(known.iter().map(|d| d[0])), median(known.iter().map(|d| d[1])), longest].map(|ns| ns / 1000.0))
}

fn row(samples: &[&Sample], poll: Option<[f64; 3]>) -> Row {
    let (first, own) = (samples[0], delays(samples));
    let added = |i: usize| own.zip(poll).map(|(own, poll)| own[i] - poll[i]);
    let (sent, lost) = samples.iter().fold((0, 0), |(sent, lost), s| (sent + s.sent, lost + s.lost));
    Row {
        port: first.port.clone(),
        idle: first.idle.clone(),
        load_percent: first.load,
        rate_pps: first.rate,
        cpu: Median::of(&samples.iter().map(|s| s.cpu).collect::<Vec<_>>()),
        waited: median(samples.iter().map(|s| s.waited)),
        received_pps: median(samples.iter().map(|s| s.received)),
        lost_percent: if sent > 0 { lost as f64 * 100.0 / sent as f64 } else { 0.0 },
        delay_p50_us: own.map(|delays| delays[0]),
        delay_p99_us: own.map(|delays| delays[1]),
        delay_max_us: own.map(|delays| delays[2]),
        added_p50_us: added(0),
        added_p99_us: added(1),
        turns: samples.len(),
    }
}

/// An array of objects.
pub fn json(rows: &[Row]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "CPU s per s: of the worker's thread, median of the turns; waited: it was ready to run, and others had its core.\n\
         Delays in us: from the generator's sending to its receiving, medians of the turns; added: more than with poll.\n\n\
         port        load    frames/s  idle      CPU s/s  waited  lost %      p50      p99      max  added p50  added p99\n",
    );
    for row in rows {
        let us = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        // A String takes everything.
        let _ = writeln!(
            text,
            "{:<10} {:>4} % {:>10}  {:<8} {:>8.3} {:>7.3} {:>7.2} {:>8} {:>8} {:>8} {:>10} {:>10}",
            row.port,
            row.load_percent,
            row.rate_pps,
            row.idle,
            row.cpu.median,
            row.waited,
            row.lost_percent,
            us(row.delay_p50_us),
            us(row.delay_p99_us),
            us(row.delay_max_us),
            us(row.added_p50_us),
            us(row.added_p99_us),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(idle: &str, cpu: f64, delays: Option<[f64; 3]>) -> Sample {
        let (port, idle) = ("socket".to_owned(), idle.to_owned());
        Sample { port, idle, load: 1.0, rate: 100, cpu, waited: 0.0, received: 99.0, sent: 200, lost: 1, delays }
    }

    #[test]
    fn rows_are_medians_beside_polling() {
        let samples = [
            sample("adaptive", 0.3, Some([30_000.0, 60_000.0, 90_000.0])),
            sample("poll", 1.0, Some([10_000.0, 20_000.0, 30_000.0])),
            sample("adaptive", 0.1, Some([10_000.0, 40_000.0, 70_000.0])),
            sample("adaptive", 0.2, Some([20_000.0, 50_000.0, 80_000.0])),
        ];
        let rows = rows(&samples);
        assert_eq!(rows.iter().map(|row| row.idle.as_str()).collect::<Vec<_>>(), ["poll", "adaptive"]);
        let row = &rows[1];
        assert_eq!((row.cpu.median, row.turns, row.lost_percent), (0.2, 3, 0.5));
        assert_eq!((row.delay_p50_us, row.delay_p99_us, row.delay_max_us), (Some(20.0), Some(50.0), Some(90.0)));
        assert_eq!((row.added_p50_us, row.added_p99_us), (Some(10.0), Some(30.0)));
        assert!(table(&rows).contains("adaptive"), "{}", table(&rows));
    }
}
