// SPDX-License-Identifier: MIT
//! MoonRoute's figures.

mod clock;
mod routes;
mod workers;

use super::outcome::{Base, Outcome, Picture, Table};
use super::published;
use super::stand::Stand;
use anyhow::{Context as _, Result};
pub use clock::clock;
use perigee_rig::{Load, Process, Request, Rounds};
pub use routes::routes;
use std::time::Duration;
pub use workers::workers;

/// Networks of most figures with a large table.
const MANY: u32 = 1 << 20;

/// What was measured, and the shape of it beside that of what was published.
fn with_published(measured: Picture, published: &Picture, base: Base) -> Vec<Picture> {
    let beside = measured.beside(published, base);
    vec![measured, beside]
}

/// A line of the raw data for each window.
pub fn raw(table: &mut Table, keys: &[&dyn std::fmt::Display], rounds: &Rounds) {
    for (round, sample) in rounds.samples.iter().enumerate() {
        for (number, mpps) in sample.windows.iter().enumerate() {
            let mut cells: Vec<&dyn std::fmt::Display> = keys.to_vec();
            let (mpps, pace) = (format!("{mpps:.4}"), format!("{:.3}", sample.pace));
            cells.extend([&round as &dyn std::fmt::Display, &number, &mpps, &pace]);
            table.row(&cells);
        }
    }
}

/// Columns of raw data behind these.
pub fn raw_table(keys: &[&str]) -> Table {
    Table::new(&[keys, &["round", "window", "mpps", "pace"]].concat())
}

pub fn sizes(stand: &mut Stand) -> Result<Outcome> {
    let sizes: Vec<u16> = (64..=544).step_by(if stand.quick { 96 } else { 32 }).collect();
    let requests: Vec<Request> = [1, MANY]
        .into_iter()
        .flat_map(|networks| sizes.iter().map(move |size| (networks, *size)))
        .map(|(networks, frame_size)| Request { networks, frame_size, ..stand.plain() })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["networks", "frame_size", "mpps", "noise_percent"]),
        raw: raw_table(&["networks", "frame_size"]),
        published: vec![published::sizes()],
        ..Outcome::default()
    };
    let mut picture =
        Picture { title: "Packet sizes".into(), x: "bytes".into(), y: "Mpps".into(), ..Picture::default() };
    for (networks, name) in [(1, "1 network"), (MANY, "2^20 networks")] {
        let mut points = Vec::new();
        for (request, rounds) in requests.iter().zip(&found).filter(|(request, _)| request.networks == networks) {
            points.push((f64::from(request.frame_size), rounds.mpps()));
            outcome.data.row(&[
                &networks,
                &request.frame_size,
                &format!("{:.3}", rounds.mpps()),
                &format!("{:.2}", rounds.noise_percent()),
            ]);
            raw(&mut outcome.raw, &[&networks, &request.frame_size], rounds);
        }
        let ratio = points.last().zip(points.first()).map_or(0.0, |(last, first)| last.1 / first.1);
        outcome.says.push(format!(
            "{name}: {:.2} Mpps at 64 bytes, {ratio:.3} of that at {}.",
            points[0].1,
            sizes[sizes.len() - 1]
        ));
        picture.lines.push((name.to_owned(), points));
    }
    outcome.pictures = with_published(picture, &outcome.published[0], Base::First);
    Ok(outcome)
}

/// Percent of the packets; a core that loses more at 90 % load was slow meanwhile.
pub const OVERLOADED: f64 = 2.0;

/// Bursts, the same for both directions.
fn bursts(stand: &Stand) -> (&'static [usize], &'static [usize]) {
    if stand.quick {
        (&[1, 8, 32, 128], &[1, 32, 1024])
    } else {
        (&[1, 2, 4, 8, 16, 32, 64, 128, 256], &[1, 8, 32, 128, 512, 1024])
    }
}

pub fn batches(stand: &mut Stand) -> Result<Outcome> {
    let (receive, transmit) = bursts(stand);
    let requests: Vec<Request> = transmit
        .iter()
        .flat_map(|transmit| receive.iter().map(move |receive| (*receive, *transmit)))
        .map(|(burst, transmit_burst)| Request { networks: MANY, burst, transmit_burst, ..stand.plain() })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["receive", "transmit", "mpps", "noise_percent"]),
        raw: raw_table(&["receive", "transmit"]),
        published: vec![published::batches()],
        ..Outcome::default()
    };
    let mut picture = Picture {
        title: "Bursts".into(),
        x: "receive burst".into(),
        y: "Mpps".into(),
        log_x: true,
        ..Picture::default()
    };
    let mut best = (0.0, 0, 0);
    for transmit in transmit {
        let mut points = Vec::new();
        for (request, rounds) in requests.iter().zip(&found).filter(|(request, _)| request.transmit_burst == *transmit)
        {
            let mpps = rounds.mpps();
            best = if mpps > best.0 { (mpps, request.burst, *transmit) } else { best };
            points.push((request.burst as f64, mpps));
            outcome.data.row(&[
                &request.burst,
                transmit,
                &format!("{mpps:.3}"),
                &format!("{:.2}", rounds.noise_percent()),
            ]);
            raw(&mut outcome.raw, &[&request.burst, transmit], rounds);
        }
        picture.lines.push((format!("transmit {transmit}"), points));
    }
    outcome.says.push(format!("Best: {:.1} Mpps with bursts of {} and {}.", best.0, best.1, best.2));
    for (name, points) in &picture.lines {
        let one = points[0].1 / best.0;
        outcome.says.push(format!("{name}: receive bursts of 1 reach {one:.2} of the best."));
    }
    outcome.pictures = with_published(picture, &outcome.published[0], Base::Highest);
    Ok(outcome)
}

pub fn latency(stand: &mut Stand) -> Result<Outcome> {
    let (receive, transmit) = bursts(stand);
    // Short, so that the core stays as fast as it was right before.
    let time = Duration::from_millis(200);
    let load = Load::Share { share: 0.9, process: Process::Poisson };
    let plain = Request { load, receive_ring: 1024, time, ..stand.plain() };
    let paced: Vec<Request> = transmit
        .iter()
        .flat_map(|transmit| receive.iter().map(move |receive| (*receive, *transmit)))
        .map(|(burst, transmit_burst)| Request { burst, transmit_burst, ..plain.clone() })
        .collect();
    let found = stand.rounds(&paced)?;
    let mut outcome = Outcome {
        data: Table::new(&["receive", "transmit", "offered_mpps", "p50_us", "p90_us", "p99_us", "lost_percent"]),
        raw: Table::new(&[
            "receive", "transmit", "round", "packets", "p50_ns", "p90_ns", "p99_ns", "max_ns", "lost", "gaps",
        ]),
        published: vec![published::latency()],
        ..Outcome::default()
    };
    let mut picture = Picture {
        title: "Median at 90 % load".into(),
        x: "receive burst".into(),
        y: "us".into(),
        log_x: true,
        // What waits in a full ring is a thousand times as late.
        log_y: true,
        ..Picture::default()
    };
    for transmit in transmit {
        let (mut points, mut overloaded) = (Vec::new(), Vec::new());
        for (request, rounds) in paced.iter().zip(&found).filter(|(request, _)| request.transmit_burst == *transmit) {
            let sojourn = rounds.sojourn().context("no packet came back")?;
            let offered = rounds.best().map_or(0.0, |sample| sample.offered as f64 / time.as_secs_f64());
            let us = |ns: f64| format!("{:.2}", ns / 1e3);
            let lost = 100.0 * rounds.loss();
            // These are times of a full ring.
            let of = if lost > OVERLOADED { &mut overloaded } else { &mut points };
            of.push((request.burst as f64, sojourn.p50 / 1e3));
            outcome.data.row(&[
                &request.burst,
                transmit,
                &format!("{:.3}", offered / 1e6),
                &us(sojourn.p50),
                &us(sojourn.p90),
                &us(sojourn.p99),
                &format!("{lost:.3}"),
            ]);
            for (round, sample) in rounds.samples.iter().enumerate() {
                let Some(s) = sample.sojourn else { continue };
                outcome.raw.row(&[
                    &request.burst,
                    transmit,
                    &round,
                    &s.packets,
                    &s.p50,
                    &s.p90,
                    &s.p99,
                    &s.max,
                    &sample.lost,
                    &sample.gaps,
                ]);
            }
        }
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            outcome.says.push(format!(
                "Transmit bursts of {transmit}: median {:.1} us with receive bursts of {}, {:.1} with {}.",
                first.1, first.0, last.1, last.0
            ));
        }
        if !overloaded.is_empty() {
            let bursts: Vec<String> = overloaded.iter().map(|(burst, _)| burst.to_string()).collect();
            outcome.says.push(format!(
                "Transmit bursts of {transmit}: with receive bursts of {} more than {OVERLOADED} % were lost, so their core was overloaded, and the \
                 median says nothing.",
                bursts.join(", ")
            ));
        }
        picture.lines.push((format!("transmit {transmit}"), points));
        let apart = overloaded.into_iter().map(|point| (format!("transmit {transmit}, overloaded"), vec![point]));
        picture.lines.extend(apart);
    }
    outcome.pictures = with_published(picture, &outcome.published[0], Base::Lowest);
    Ok(outcome)
}

pub fn modules(stand: &mut Stand) -> Result<Outcome> {
    let request = Request { networks: MANY, ..stand.plain() };
    let found = stand.rounds(&[request])?;
    let rounds = &found[0];
    let mut outcome = Outcome {
        data: Table::new(&["module", "ns", "percent"]),
        raw: Table::new(&["round", "module", "ns"]),
        published: vec![published::modules()],
        ..Outcome::default()
    };
    for (round, sample) in rounds.samples.iter().enumerate() {
        for (module, ns) in &sample.modules {
            outcome.raw.row(&[&round, module, &format!("{ns:.3}")]);
        }
    }
    let names: Vec<&String> =
        rounds.samples.first().map_or_else(Vec::new, |sample| sample.modules.iter().map(|(name, _)| name).collect());
    let median = |name: &String| {
        let mut all: Vec<f64> =
            rounds.samples.iter().filter_map(|s| Some(s.modules.iter().find(|(other, _)| other == name)?.1)).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let times: Vec<(&String, f64)> = names.into_iter().map(|name| (name, median(name))).collect();
    let all: f64 = times.iter().map(|(_, ns)| ns).sum();
    let whole = 1e3 / rounds.mpps();
    for (name, ns) in &times {
        outcome.data.row(&[name, &format!("{ns:.2}"), &format!("{:.1}", 100.0 * ns / all)]);
    }
    let mut largest = times.clone();
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> =
        largest.iter().take(4).map(|(name, ns)| format!("{name} {:.0} %", 100.0 * ns / all)).collect();
    outcome.says.push(format!("Largest: {}.", words.join(", ")));
    outcome.says.push(format!(
        "A timed burst takes {all:.1} ns per packet, others {whole:.1}: the clock is read around each module, and what runs once in 127 bursts is cold. Shares count, not sums."
    ));
    let lines = largest.iter().enumerate().map(|(at, (name, ns))| ((*name).clone(), vec![(at as f64, *ns)])).collect();
    let picture = Picture {
        title: "Time per module".into(),
        x: "module".into(),
        y: "ns per packet".into(),
        lines,
        ..Picture::default()
    };
    outcome.pictures.push(picture.by_line());
    Ok(outcome)
}
