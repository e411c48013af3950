// SPDX-License-Identifier: MIT
//! mSwitch+DXR's figures.

mod io_lookup;
mod ports;

use super::moonroute::{raw, raw_table};
use super::outcome::{Outcome, Picture, Table};
use super::published;
use super::stand::Stand;
use anyhow::{Context as _, Result};
pub use io_lookup::io_lookup;
use perigee_fib::structures;
use perigee_rig::{Idle, Load, Loop, Process, Request, Vantage};
pub use ports::ports;

/// Ports of the breakdown: packets leave by three of them at random, so that choosing one is work.
const PORTS: u16 = 4;

pub fn breakdown(stand: &mut Stand) -> Result<Outcome> {
    let all: Vec<&str> = structures::IPV4.iter().map(|structure| structure.name).collect();
    let structures = stand.structures(&["auto", "dir24", "dxr20"], &all);
    let (routes, table) = stand.full_table();
    let requests: Vec<Request> = structures
        .iter()
        .flat_map(|structure| Vantage::ALL.iter().map(move |vantage| (structure, *vantage)))
        .map(|(structure, vantage)| Request {
            path: Loop::Until(vantage),
            structure: structure.clone(),
            routes,
            networks: 1 << 20,
            ports: PORTS,
            ..stand.plain()
        })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["structure", "until", "mpps", "ns", "step", "step_ns", "noise_percent"]),
        raw: raw_table(&["structure", "until"]),
        published: vec![published::breakdown()],
        ..Outcome::default()
    };
    let mut picture = Picture {
        title: "Time per packet up to each point".into(),
        x: "up to".into(),
        y: "ns".into(),
        categories: Vantage::ALL.iter().map(|vantage| vantage.name().to_owned()).collect(),
        ..Picture::default()
    };
    for structure in &structures {
        let (mut points, mut before) = (Vec::new(), 0.0);
        for (at, (request, rounds)) in
            requests.iter().zip(&found).filter(|(r, _)| r.structure == *structure).enumerate()
        {
            let Loop::Until(vantage) = request.path else { continue };
            let ns = 1e3 / rounds.mpps();
            points.push((at as f64, ns));
            outcome.data.row(&[
                structure,
                &vantage.name(),
                &format!("{:.2}", rounds.mpps()),
                &format!("{ns:.2}"),
                &vantage.step(),
                &format!("{:.2}", ns - before),
                &format!("{:.2}", rounds.noise_percent()),
            ]);
            raw(&mut outcome.raw, &[structure, &vantage.name()], rounds);
            if vantage == Vantage::Lookup {
                outcome.says.push(format!(
                    "{structure}: the lookup takes {:.1} ns, receive {:.1}, send {:.1}.",
                    ns - before,
                    points[0].1,
                    points[1].1 - points[0].1
                ));
            }
            before = ns;
        }
        picture.lines.push((structure.clone(), points));
    }
    outcome.says.push(format!("Destinations are drawn from the prefixes of {table}."));
    outcome.pictures.push(picture);
    Ok(outcome)
}

pub fn idle(stand: &mut Stand) -> Result<Outcome> {
    let full = stand.rounds(&[stand.plain()])?[0].mpps() * 1e6;
    let loads: &[f64] = stand.choose(&[0.001, 0.01, 0.1, 0.5], &[0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 0.8]);
    let policies = [("poll", Idle::Poll), ("adaptive", Idle::Adaptive)];
    let requests: Vec<Request> = policies
        .iter()
        .flat_map(|(_, idle)| loads.iter().map(move |load| (*idle, *load)))
        .map(|(idle, load)| Request {
            idle,
            load: Load::Paced { pps: (load * full).max(1.0), process: Process::Poisson },
            ..stand.plain()
        })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["idle", "load", "pps", "cpu", "p50_us", "p99_us", "sleeps_per_s"]),
        raw: Table::new(&["idle", "load", "round", "cpu", "packets", "p50_ns", "p99_ns", "max_ns", "lost", "sleeps"]),
        ..Outcome::default()
    };
    let mut cpu = Picture {
        title: "CPU seconds per second".into(),
        x: "load".into(),
        y: "s".into(),
        log_x: true,
        ..Picture::default()
    };
    let mut late = Picture {
        title: "Median from arrival to hand-over".into(),
        x: "load".into(),
        y: "us".into(),
        log_x: true,
        ..Picture::default()
    };
    for (name, idle) in policies {
        let (mut busy, mut times) = (Vec::new(), Vec::new());
        for ((request, rounds), load) in
            requests.iter().zip(&found).filter(|(request, _)| request.idle == idle).zip(loads)
        {
            let sample = rounds.best().context("no packet came back")?;
            let Load::Paced { pps, .. } = request.load else { continue };
            let Some(sojourn) = rounds.sojourn() else { continue };
            busy.push((*load, sample.cpu));
            times.push((*load, sojourn.p50 / 1e3));
            let per_second = sample.sleeps as f64 / request.time.as_secs_f64();
            outcome.data.row(&[
                &name,
                load,
                &format!("{pps:.0}"),
                &format!("{:.3}", sample.cpu),
                &format!("{:.2}", sojourn.p50 / 1e3),
                &format!("{:.2}", sojourn.p99 / 1e3),
                &format!("{per_second:.0}"),
            ]);
            for (round, sample) in rounds.samples.iter().enumerate() {
                let Some(s) = sample.sojourn else { continue };
                outcome.raw.row(&[
                    &name,
                    load,
                    &round,
                    &sample.cpu,
                    &s.packets,
                    &s.p50,
                    &s.p99,
                    &s.max,
                    &sample.lost,
                    &sample.sleeps,
                ]);
            }
        }
        if let (Some((load, busy)), Some((_, p50))) = (busy.first(), times.first()) {
            outcome.says.push(format!(
                "{name}: at {:.2} % load {busy:.3} s of CPU time per second, median {p50:.1} us.",
                load * 100.0
            ));
        }
        cpu.lines.push((name.to_owned(), busy));
        late.lines.push((name.to_owned(), times));
    }
    outcome.pictures.extend([cpu, late]);
    Ok(outcome)
}
