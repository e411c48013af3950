// SPDX-License-Identifier: MIT
//! The traffic: `perigee gen` on the tester's two interfaces, through the router.

use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Host, Process};
use serde_json::Value;
use std::time::Duration;

/// What came of a stream.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Frames sent and received.
    pub sent: u64,
    pub received: u64,
    /// What the tester itself could not send in time, and what its own queues lost.
    pub unsent: u64,
    pub missed: u64,
    pub duplicates: u64,
    pub reordered: u64,
    /// How long the tester itself stood still at most, in ns.
    pub pause: u64,
    /// The most that a frame was under way, and 99.9 %, in ns.
    pub latency: Option<(u64, u64)>,
}

impl Outcome {
    /// Frames that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// The tester's interfaces.
pub const SIDES: [&str; 2] = ["tester-wan", "tester-lan"];

/// Starts to send `rate` frames per second for so many seconds, on a core, to the router's MAC address.
pub fn start(tester: &Host, mac: &str, rate: u64, seconds: f64, core: usize) -> Result<Process> {
    let program = perigee_lab::program()?;
    let [from, to] = SIDES;
    let mut command = tester.place().program(&program);
    command.args(["gen", from, "--to", to, "--destination-mac", mac, "--json", "--quiet", "--hugepages", "no"]);
    command.args([
        "--source",
        "10.0.1.2",
        "--destination",
        "10.0.2.2",
        "--flows",
        "64",
        "--source-port",
        "1024-2047",
        "--sizes",
        "64",
    ]);
    command.args(["--rate", &format!("{rate}pps"), "--seconds", &seconds.to_string(), "--cores", &core.to_string()]);
    Process::start(&mut command)
}

/// Waits for its end.
pub fn finish(mut process: Process, longest: Duration) -> Result<Outcome> {
    // Doubts about the measurement are no failure.
    process.wait(longest)?;
    let text = process.stdout();
    let report: Value = serde_json::from_str(&text).with_context(|| format!("perigee gen says {}", process.said()))?;
    let number = |place: &str| report.pointer(place).and_then(Value::as_u64);
    let received = number("/received/counters/unique");
    ensure!(received.is_some(), "perigee gen reports no received frames: {text}");
    let doubt = |kind: &str| {
        let doubts = report.pointer("/verdict/doubts").and_then(Value::as_array);
        let of_kind = doubts.into_iter().flatten().filter(|doubt| doubt["kind"] == kind);
        of_kind.map(|doubt| doubt["frames"].as_u64().unwrap_or(0)).sum::<u64>()
    };
    Ok(Outcome {
        sent: number("/sent/sent").unwrap_or(0),
        received: received.unwrap_or(0),
        unsent: number("/sent/unsent").unwrap_or(0),
        missed: doubt("missed"),
        duplicates: number("/received/counters/duplicates").unwrap_or(0),
        reordered: number("/received/counters/reordered").unwrap_or(0),
        pause: number("/longest_pause_ns").unwrap_or(0),
        latency: number("/latency/max_ns").zip(number("/latency/p99_9_ns")),
    })
}

/// The highest rate, in frames per second, of which all arrive in three seconds: by bisection from 1 % on, to 5 %.
pub fn search(mut lossless: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let (mut good, mut bad) = (1_000, 4_000_000);
    while bad - good > good / 20 {
        // Between powers, not sums: the first guesses are far away.
        let middle = ((good as f64 * bad as f64).sqrt() as u64).clamp(good + 1, bad - 1);
        match lossless(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_near_the_limit() {
        for limit in [1_000, 1_234, 77_777, 400_000, 3_999_999] {
            let mut trials = 0;
            let found = search(|rate| {
                trials += 1;
                Ok(rate <= limit)
            });
            let found = found.unwrap();
            assert!(found <= limit && found * 21 / 20 + 1 >= limit.min(3_900_000) && trials < 16, "{limit}: {found}");
        }
    }
}
