// SPDX-License-Identifier: MIT
//! Graphs of apps on perigee alone, as `perigee snabb bench` measures them: on one thread, and two chains on one and on
//! two.

use super::SnabbBenchArgs;
use crate::statistics::Median;
use anyhow::{Context as _, Result, bail, ensure};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// A line of `perigee snabb bench`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    pub graph: String,
    pub n: u16,
    pub workers: u16,
    pub bytes: u16,
    pub mpps: f64,
    pub mpps_cpu: f64,
    pub garbage: f64,
    pub breaths: f64,
}

/// Measures graphs of these numbers of apps.
pub fn measure(args: &SnabbBenchArgs, graph: &str, apps: &[u16], workers: u16, rounds: u16) -> Result<Vec<Line>> {
    let program = perigee_lab::program()?;
    let list = apps.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let output = Command::new(program)
        .args(["snabb", "--workers", &workers.to_string(), "bench", "--graph", graph, "--apps", &list])
        .args(["--seconds", &args.seconds.to_string(), "--rounds", &rounds.to_string()])
        .args(["--bytes", &args.bytes.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("perigee snabb bench did not start")?;
    ensure!(output.status.success(), "perigee snabb bench failed; its message is above");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Line> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("perigee snabb bench's output")?;
    if lines.len() != apps.len() {
        bail!("perigee snabb bench measured {} of {} graphs", lines.len(), apps.len());
    }
    Ok(lines)
}

/// Two chains on one thread and on two, in turn: how much the second thread helps.
#[derive(Debug, Clone, Serialize)]
pub struct Chains {
    pub n: u16,
    pub one: f64,
    pub two: f64,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// Measures them in turn.
pub fn two_threads(args: &SnabbBenchArgs, bar: &ProgressBar) -> Result<Vec<Chains>> {
    let apps: Vec<u16> = args.apps.iter().copied().filter(|n| [5, 10, 20].contains(n)).collect();
    if args.pairs == 0 || apps.is_empty() {
        return Ok(Vec::new());
    }
    let mut samples = vec![(Vec::new(), Vec::new()); apps.len()];
    for pair in 0..args.pairs {
        // They take turns at going first, as the machine changes meanwhile.
        for turn in 0..2 {
            let workers = 1 + (pair + turn) % 2;
            for (sample, line) in samples.iter_mut().zip(measure(args, "chains", &apps, workers, 3)?) {
                if workers == 1 { sample.0.push(line.mpps) } else { sample.1.push(line.mpps) }
            }
            bar.inc(1);
        }
    }
    let chains = apps.iter().zip(&samples).map(|(&n, (one, two))| {
        let ratios: Vec<f64> = one.iter().zip(two).map(|(one, two)| two / one).collect();
        let ratio = Median::of(&ratios);
        Chains {
            n,
            one: Median::of(one).median,
            two: Median::of(two).median,
            ratio: ratio.median,
            low: ratio.low,
            high: ratio.high,
        }
    });
    Ok(chains.collect())
}
