// SPDX-License-Identifier: MIT
//! What a tester needs around it: threads on cores, a clock, DPDK ports.

use super::ports::TesterPort;
use super::threads;
use perigee_dpdk::{Clock, Eal};
use perigee_measure::environment::Meanwhile;
use perigee_measure::received::Interval;
use perigee_measure::station::{Course, End};
use perigee_measure::tester::{Counted, Ran, Surroundings};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Resets the device under test, or says why it cannot; called on a thread of its own.
pub type Reset = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Ports of DPDK, in the order of the tester's ends.
pub struct Ports {
    pub eal: Eal,
    pub clock: Clock,
    /// The tester's cores.
    pub cores: Vec<usize>,
    pub ports: Vec<TesterPort>,
    pub reset: Option<Reset>,
    /// Why the last reset failed.
    pub reset_error: Arc<Mutex<Option<String>>>,
}

impl Ports {
    fn core_numbers(&self) -> Vec<u32> {
        self.cores.iter().map(|core| *core as u32).collect()
    }
}

impl Surroundings for Ports {
    type Error = anyhow::Error;

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn date(&self) -> String {
        crate::date::date(std::time::SystemTime::now())
    }

    fn sleep(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }

    fn run(&mut self, ends: Vec<End>, course: &Arc<Course>, line: &mut dyn FnMut(&Interval)) -> anyhow::Result<Ran> {
        let stations = threads::divide(ends, self.cores.len());
        let done = threads::run(stations, &self.eal, self.clock, &self.cores, course, |interval| line(interval))?;
        let mut ran =
            Ran { ends: vec![], sent: vec![], heard: vec![], latencies: done.latencies, longest_pause: 0, ended: 0 };
        for station in done.finished {
            ran.longest_pause = ran.longest_pause.max(station.longest_pause);
            ran.ended = ran.ended.max(station.ended);
            ran.ends.extend(station.ends);
            ran.sent.extend(station.sent);
            ran.heard.extend(station.heard);
        }
        Ok(ran)
    }

    fn counted(&self, end: usize) -> Counted {
        let (stats, link) = (self.ports[end].stats(), self.ports[end].link());
        Counted {
            missed: stats.rx_missed + stats.rx_no_buffer,
            errors: stats.rx_errors,
            refused: stats.tx_errors,
            downs: self.ports[end].downs(),
            up: link.up,
        }
    }

    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::read(Path::new("/"), &self.core_numbers())
    }

    fn reset_device(&mut self, after: u64) {
        let Some(reset) = self.reset.clone() else { return };
        // Each reset has an answer of its own: an earlier one may still be under way.
        let answer = Arc::new(Mutex::new(None));
        self.reset_error = answer.clone();
        // It ends by itself, maybe after the trial; that nothing came back is seen then.
        drop(std::thread::spawn(move || {
            std::thread::sleep(Duration::from_nanos(after));
            if let Err(why) = reset() {
                *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        }));
    }

    fn reset_error(&mut self) -> Option<String> {
        self.reset_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
