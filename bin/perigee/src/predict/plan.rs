// SPDX-License-Identifier: MIT
//! What `perigee predict calibrate` and `verify --measure` measure on given cores, and how long that takes: known
//! before anything runs.

use perigee_predict::campaign::{self, Setting, ladder};
use perigee_rig::{Estimate, Idle, Load, Manner, Process, Request, estimate};
use std::fmt::{Display, Formatter};
use std::time::Duration;

/// How long a setting is measured in each round, the warm-up before it, and the windows that it is divided into.
const TIME: Duration = Duration::from_millis(400);
const WARM: Duration = Duration::from_millis(250);
const WINDOWS: usize = 20;
/// Looks at the slow path, and how long each is; how long pauses are counted.
pub const SLOW_LOOKS: u32 = 10;
pub const SLOW_TIME: Duration = Duration::from_millis(50);
pub const PAUSES: Duration = Duration::from_secs(2);
/// A rate at which cores are idle, for plans: how long a measurement takes does not depend on it.
const ANY_PPS: f64 = 1e6;

/// The measurements, and their time.
pub struct Plan {
    /// Of how many cores, and on which numbers of them.
    cores: usize,
    numbers: Vec<u32>,
    measurements: usize,
    time: Estimate,
}

impl Plan {
    fn new(cores: &[usize], stages: &[Vec<Request>], manner: Manner, more: Duration) -> Plan {
        let numbers = ladder(cores.len() as u32).into_iter();
        let is_measured = |number: &u32| stages.iter().flatten().any(|request| request.cores.len() == *number as usize);
        Plan {
            cores: cores.len(),
            numbers: numbers.filter(is_measured).collect(),
            measurements: stages.iter().map(Vec::len).sum::<usize>() * manner.rounds as usize,
            time: estimate(stages, manner).and(more),
        }
    }

    /// Of a calibration.
    pub fn calibration(cores: &[usize], quick: bool, manner: Manner) -> Plan {
        let plain = |count: usize| vec![(Setting::plain(), ANY_PPS); count];
        let settings = campaign::identifying(cores.len() as u32, quick);
        let at = |count, idle| paced(cores, manner.seed, &plain(count), idle);
        let stages = [
            saturated(cores, manner.seed, &settings),
            vec![idle(cores, manner.seed)],
            at(1, Idle::Poll),
            at(1, Idle::Adaptive),
            at(campaign::loads().len(), Idle::Poll),
        ];
        Plan::new(cores, &stages, manner, PAUSES + SLOW_TIME * SLOW_LOOKS)
    }

    /// Of points, loads and overloads that are held out.
    pub fn held_out(cores: &[usize], [points, loads, overloads]: [usize; 3], manner: Manner) -> Plan {
        let seed = manner.seed;
        let stages = [
            saturated(cores, seed, &campaign::held_out(points, cores.len() as u32, seed)),
            saturated(cores, seed, &[Setting::plain()]),
            paced(cores, seed, &campaign::held_out_loads(loads, seed), Idle::Poll),
            paced(cores, seed, &campaign::held_out_overloads(overloads, seed), Idle::Poll),
        ];
        Plan::new(cores, &stages, manner, Duration::ZERO)
    }
}

/// `120 measurements on 1, 2, 4, 8, 12, 16 of 16 cores: about 90 s, up to 4 min where others disturb it`
impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        let cores = if self.cores == 1 { "core" } else { "cores" };
        let Plan { measurements, time, .. } = self;
        write!(f, "{measurements} measurements on {} of {} {cores}: {time}", numbers.join(", "), self.cores)
    }
}

fn request(cores: &[usize], seed: u64, setting: &Setting) -> Request {
    Request {
        flows: setting.flows,
        two_way: setting.two_way,
        frame_size: setting.frame_size as u16,
        networks: setting.networks,
        punted: setting.punted,
        burst: setting.burst as usize,
        warm: WARM,
        time: TIME,
        windows: WINDOWS,
        seed,
        ..Request::new(cores.iter().copied().take(setting.cores as usize).collect())
    }
}

/// Settings, saturated, on the first of these cores.
pub fn saturated(cores: &[usize], seed: u64, settings: &[Setting]) -> Vec<Request> {
    settings.iter().map(|setting| request(cores, seed, setting)).collect()
}

/// Settings at rates, in packets per second.
pub fn paced(cores: &[usize], seed: u64, points: &[(Setting, f64)], idle: Idle) -> Vec<Request> {
    let paced = |(setting, pps): &(Setting, f64)| {
        let load = Load::Paced { pps: *pps, process: Process::Poisson };
        Request { load, idle, ..request(cores, seed, setting) }
    };
    points.iter().map(paced).collect()
}

/// A core to which nothing comes.
pub fn idle(cores: &[usize], seed: u64) -> Request {
    let load = Load::Paced { pps: 1.0, process: Process::Constant };
    Request { load, ..request(cores, seed, &Setting::plain()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manner(rounds: u64, patience: u64) -> Manner {
        Manner { rounds, seed: 1, patience: Duration::from_secs(patience) }
    }

    fn cores(count: usize) -> Vec<usize> {
        (0..count).rev().collect()
    }

    /// On 16 cores a calibration had not ended after 190 s, with two rounds, --quick and 20 s of patience.
    #[test]
    fn a_calibration_takes_minutes_on_any_number_of_cores() {
        for count in 1..=64 {
            let quick = Plan::calibration(&cores(count), true, manner(2, 20)).time;
            assert!(
                quick.least < Duration::from_secs(150) && quick.most < Duration::from_secs(270),
                "{count}: {quick}"
            );
            let whole = Plan::calibration(&cores(count), false, manner(3, 120)).time;
            assert!(
                whole.least < Duration::from_secs(480) && whole.most < Duration::from_secs(1100),
                "{count}: {whole}"
            );
        }
        let of = |count| Plan::calibration(&cores(count), true, manner(2, 20));
        assert!(of(64).time.least < 3 * of(2).time.least, "{} and {}", of(64), of(2));
        let said = of(16).to_string();
        assert!(said.starts_with("64 measurements on 1, 2, 4, 8, 12, 16 of 16 cores: about "), "{said}");
    }

    #[test]
    fn held_out_points_take_minutes_on_any_number_of_cores() {
        for count in 1..=64 {
            let plan = Plan::held_out(&cores(count), [12, 6, 2], manner(5, 120));
            assert!(plan.time.least < Duration::from_secs(300), "{count}: {plan}");
        }
        let few = Plan::held_out(&cores(1), [1, 0, 0], manner(1, 0)).to_string();
        assert!(few.starts_with("2 measurements on 1 of 1 core: about "), "{few}");
    }

    #[test]
    fn each_worker_of_a_request_has_a_core() {
        let settings = campaign::identifying(16, true);
        for request in saturated(&cores(16), 1, &settings) {
            request.check().unwrap();
            assert_eq!(request.cores[0], 15, "the first core is always the same one");
        }
    }
}
