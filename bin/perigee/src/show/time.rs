// SPDX-License-Identifier: MIT
//! `perigee show modules --time`: what modules take now, as the difference of two answers.

use crate::table::{Columns, or_dash};
use comfy_table::Table;
use perigee_api::answers::ModuleStatus;
use serde::Serialize;

/// A module in between.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleTime {
    pub module: String,
    /// Packets that came into it, per second.
    pub packets_per_s: f64,
    /// Nanoseconds for a packet, of the bursts that were timed in between; none, if none was.
    pub packet_ns: Option<f64>,
    /// Seconds of workers' time per second, all workers together.
    pub seconds_per_s: f64,
    /// Of what all modules and the script take, percent.
    pub percent: f64,
}

/// Of two answers `seconds` apart, what lies between.
pub fn between(before: &[ModuleStatus], after: &[ModuleStatus], seconds: f64) -> Vec<ModuleTime> {
    let took = |module: &ModuleStatus| {
        let first = before.iter().find(|other| other.module == module.module);
        // A router that has started anew counts from 0 again.
        let since = |of: fn(&ModuleStatus) -> f64| (of(module) - first.map_or(0.0, of)).max(0.0);
        // Timed packets, in the unit that seconds are of times a nanosecond each.
        let timed =
            |module: &ModuleStatus| module.packet_ns.map_or(0.0, |ns| if ns > 0.0 { module.seconds / ns } else { 0.0 });
        let (time, packets) = (since(|module| module.seconds), since(|module| module.packets as f64));
        let timed = (timed(module) - first.map_or(0.0, timed)).max(0.0);
        ModuleTime {
            module: module.module.clone(),
            packets_per_s: packets / seconds,
            packet_ns: (timed > 0.0).then(|| time / timed),
            seconds_per_s: time / seconds,
            percent: 0.0,
        }
    };
    let mut all: Vec<ModuleTime> = after.iter().map(took).collect();
    let sum: f64 = all.iter().map(|module| module.seconds_per_s).sum();
    if sum > 0.0 {
        all.iter_mut().for_each(|module| module.percent = 100.0 * module.seconds_per_s / sum);
    }
    all
}

/// As a table, modules without packets left out.
pub fn table(modules: &[ModuleTime], all: bool) -> Table {
    Columns::<ModuleTime>::new()
        .text("module", |m| m.module.clone())
        .number("packets/s", |m| format!("{:.0}", m.packets_per_s))
        .number("ns/packet", |m| or_dash(m.packet_ns.map(|ns| format!("{ns:.1}"))))
        .number("CPU s/s", |m| format!("{:.3}", m.seconds_per_s))
        .number("%", |m| format!("{:.1}", m.percent))
        .table(modules.iter().filter(|m| all || m.packets_per_s > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_two_answers() {
        let module = |name: &str, packets, seconds, packet_ns| ModuleStatus {
            module: name.to_owned(),
            packets,
            seconds,
            packet_ns,
            ..ModuleStatus::default()
        };
        let before = [module("ttl", 1000, 1.0, Some(10.0)), module("apply", 0, 0.0, None)];
        // In between 0.5 s at 5 ns, and 1.5 s at 20.
        let after = [module("ttl", 3000, 1.5, Some(1.5 / (0.1 + 0.1))), module("apply", 400, 1.5, Some(20.0))];
        let found = between(&before, &after, 2.0);
        assert_eq!((found[0].packets_per_s, found[0].seconds_per_s, found[0].percent), (1000.0, 0.25, 25.0));
        assert!((found[0].packet_ns.unwrap() - 5.0).abs() < 1e-9);
        assert_eq!((found[1].packet_ns, found[1].percent), (Some(20.0), 75.0));
        let idle = between(&after, &after, 1.0);
        assert!(idle.iter().all(|module| module.packet_ns.is_none() && module.percent == 0.0));
    }
}
