// SPDX-License-Identifier: MIT
//! A report's charts.

use perigee_chart::{Axis, Chart, Line, Look, Mark};

use super::{Judged, Report};
use crate::run::TrialRecord;
use crate::search::latency::AtLoad;
use crate::search::{Purpose, Shape};

/// Loads that differ by more than this factor are shown on a logarithmic axis.
const WIDE: f64 = 8.0;

/// All of them that have something to show.
pub(super) fn charts(report: &Report) -> Vec<Chart> {
    let mut all = vec![by_size(report), forwarded(report), loss_rate(report)];
    for &size in &report.settings.sizes {
        all.push(latency(report, size));
        all.push(trials(report, size));
    }
    all.into_iter().filter(|chart| chart.lines.iter().any(|line| !line.points.is_empty())).collect()
}

/// An axis of rates; logarithmic if the values are far apart.
fn rates(label: &str, values: impl Iterator<Item = f64>) -> Axis {
    let positive = values.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > low * WIDE { Axis::log(label) } else { Axis::linear(label) }
}

/// RFC 2544 section 26.1: the rate by frame size, beside the highest there can be.
fn by_size(report: &Report) -> Chart {
    let rows = &report.throughput;
    if rows.len() < 2 {
        return Chart::default();
    }
    let maximum = rows.iter().map(|row| (f64::from(row.size), row.maximum_pps)).collect();
    let mut lines = vec![Line { dash: 1, look: Look::Plain, ..Line::nth(5, "highest possible", maximum) }];
    for at in 0..rows[0].goals.len() {
        let of = |row: &super::ThroughputRow| Some((f64::from(row.size), row.goals.get(at)?.pps?));
        lines.push(Line::nth(at, rows[0].goals[at].goal.name.clone(), rows.iter().filter_map(of).collect()));
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    Chart {
        title: "Throughput by frame size".to_owned(),
        x: Axis::linear("frame size, bytes"),
        y: rates("frames/s", values),
        lines,
        marks: vec![],
    }
}

/// Trials at a constant load.
fn steady(report: &Report, size: u32) -> impl Iterator<Item = (usize, &TrialRecord)> {
    let of_size = move |record: &TrialRecord| record.size == size && record.outcome.sent > 0;
    let numbered = report.trials.iter().enumerate().map(|(at, record)| (at + 1, record));
    numbered.filter(move |(_, record)| {
        of_size(record) && matches!(record.trial.shape, Shape::Steady | Shape::Tagged { .. })
    })
}

/// What was offered, and what came back.
fn forwarded(report: &Report) -> Chart {
    let sizes = report.settings.sizes.iter().enumerate();
    let of_size = |(at, &size): (usize, &u32)| {
        let point = |(_, record): (usize, &TrialRecord)| {
            let offered = record.outcome.offered();
            (offered, offered * (1.0 - record.outcome.loss_ratio()))
        };
        Line::cloud(at, format!("{size} bytes"), steady(report, size).map(point).collect())
    };
    let mut lines: Vec<_> = sizes.map(of_size).filter(|line| !line.points.is_empty()).collect();
    let offered: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    let (low, high) =
        offered.iter().fold((f64::INFINITY, 0.0f64), |(low, high), load| (low.min(*load), high.max(*load)));
    if high > 0.0 {
        let diagonal = Line::nth(5, "no loss", vec![(low, low), (high, high)]);
        lines.push(Line { dash: 2, look: Look::Plain, ..diagonal });
    }
    let forwarded = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    Chart {
        title: "Offered and forwarded, all trials".to_owned(),
        y: rates("forwarded, frames/s", forwarded),
        x: rates("offered, frames/s", offered.into_iter()),
        lines,
        marks: vec![],
    }
}

/// RFC 2544 section 26.3.
fn loss_rate(report: &Report) -> Chart {
    let line = |(at, row): (usize, &super::LossRateRow)| {
        let percent = |part: f64| part * 100.0;
        let points = row.curve.points.iter();
        let points = points.map(|point| (percent(point.load / row.maximum_pps), percent(point.loss_ratio)));
        Line::nth(at, format!("{} bytes", row.size), points.collect())
    };
    Chart {
        title: "Frame loss rate".to_owned(),
        x: Axis::linear("offered, % of the maximum"),
        y: Axis::linear("lost, %"),
        lines: report.loss_rate.iter().enumerate().map(line).collect(),
        marks: vec![],
    }
}

fn latency(report: &Report, size: u32) -> Chart {
    let Some(row) = report.latency.iter().find(|row| row.size == size && row.loads.len() > 1) else {
        return Chart::default();
    };
    let line = |at: usize, name: &str, of: fn(&AtLoad) -> f64| {
        let mut points: Vec<_> = row.loads.iter().map(|load| (load.share * 100.0, of(load) / 1000.0)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::nth(at, name, points)
    };
    let lines = vec![
        line(0, "median", |at| at.median.median),
        line(1, "p99", |at| at.p99.median),
        line(2, "p99.9", |at| at.p999.median),
        line(3, "maximum", |at| at.max),
        line(4, "minimum", |at| at.min),
    ];
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    Chart {
        title: format!("Latency at {size} bytes"),
        x: Axis::linear("load, % of the throughput"),
        y: rates("us", values),
        lines,
        marks: vec![],
    }
}

/// The search for the throughput, trial by trial.
fn trials(report: &Report, size: u32) -> Chart {
    let searched = |(_, record): &(usize, &TrialRecord)| matches!(record.trial.purpose, Purpose::Throughput { .. });
    let line = |(at, judged): (usize, Judged)| {
        let of = steady(report, size).filter(searched).filter(|(_, record)| report.judged(&record.outcome) == judged);
        // Green, orange and violet, in that order.
        let colour = [2, 1, 3][at];
        Line::cloud(colour, judged.name(), of.map(|(number, record)| (number as f64, record.trial.load)).collect())
    };
    let lines: Vec<_> = Judged::ALL.into_iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect();
    let found = report.throughput.iter().find(|row| row.size == size).and_then(|row| row.pps);
    let mark = |at: f64| Mark { horizontal: false, at, name: "throughput".to_owned() };
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    Chart {
        title: format!("Search for the throughput at {size} bytes"),
        x: Axis::linear("trial"),
        y: rates("load, frames/s", values),
        lines,
        marks: found.map(mark).into_iter().collect(),
    }
}
