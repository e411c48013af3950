// SPDX-License-Identifier: MIT
//! Simulated devices with known limits, to test searches on.
#![allow(dead_code)] // not every test uses all of it

use perigee_measure::search::goal::Goal;
use perigee_measure::search::{Doubt, Method, Outcome, Search, Shape, Spoils, Trial};

/// A device and the tester in front of it.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub device: Device,
    /// What the tester can send at most, in frames per second.
    pub tester: f64,
    /// Share of trials in which the tester sends only half.
    pub hiccups: f64,
    /// Share of trials in which the tester sends less, and the largest share of what it is asked for that it does not
    /// send.
    pub stumbles: (f64, f64),
    /// The share of what it is asked for that it sends in every trial.
    pub tester_share: f64,
    /// Share of trials in which the tester itself loses a frame, and says so.
    pub doubts: f64,
    /// The tester stands still in every trial, and says so.
    pub pauses: bool,
    pub random: Random,
}

/// Loads are frames per second.
#[derive(Debug, Clone, Copy)]
pub enum Device {
    /// Forwards `limit` and no more.
    Limit { limit: f64 },
    /// The limit of each trial is off by up to `noise`, as a share of it.
    Noisy { limit: f64, noise: f64 },
    /// Has a hard limit, and also, at any load, loses a share `loss` of its frames in a share `often` of all seconds.
    Spikes { limit: f64, often: f64, loss: f64 },
    /// Has a hard limit and a buffer of `frames`.
    Bucket { limit: f64, frames: f64 },
    /// Loses this share of everything.
    Lossy { loss: f64 },
    /// Loses nothing.
    Clean,
    /// Forwards `short` in very short trials, and less in longer ones, down to `long` in those of 60 s.
    Tiring { short: f64, long: f64 },
    /// Forwards loads up to `limit`; above it, the less the higher the load is.
    Livelock { limit: f64 },
}

/// Splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Simulated {
    pub fn new(device: Device, seed: u64) -> Self {
        Self {
            device,
            tester: f64::INFINITY,
            hiccups: 0.0,
            stumbles: (0.0, 0.0),
            tester_share: 1.0,
            doubts: 0.0,
            pauses: false,
            random: Random(seed),
        }
    }

    /// Runs a trial.
    pub fn answer(&mut self, trial: &Trial) -> Outcome {
        let intended = trial.frames();
        let load = match self.random.share() < self.hiccups {
            true => trial.load.min(self.tester) / 2.0,
            false => trial.load.min(self.tester),
        };
        let load = match self.stumbles {
            (often, by) if often > 0.0 && self.random.share() < often => load * (1.0 - by * self.random.share()),
            _ => load,
        } * self.tester_share;
        let sent = ((load / trial.load) * intended as f64).round() as u64;
        let received = match trial.shape {
            Shape::Burst { .. } => self.burst(sent, load),
            _ => {
                let share = self.forwarded(load, trial.duration) / (load * trial.duration);
                if share < 1.0 { (share * sent as f64).round() as u64 } else { sent }
            }
        };
        let mut outcome = Outcome::new(trial, intended, sent, received);
        if self.random.share() < self.doubts {
            outcome.received = received.saturating_sub(1);
            outcome.doubts.push(Doubt { spoils: Spoils::Loss, why: "the tester itself dropped a frame".into() });
        }
        if self.pauses {
            outcome.doubts.push(Doubt { spoils: Spoils::All, why: "the tester stood still".into() });
        }
        outcome
    }

    /// Frames forwarded in a trial of this load and duration.
    fn forwarded(&mut self, load: f64, duration: f64) -> f64 {
        let offered = load * duration;
        let carried = match self.device {
            Device::Limit { limit } => limit * duration,
            Device::Noisy { limit, noise } => limit * (1.0 + noise * (2.0 * self.random.share() - 1.0)) * duration,
            Device::Spikes { limit, often, loss } => {
                let spikes = (0..duration.ceil() as u32).filter(|_| self.random.share() < often).count();
                (limit * duration).min(offered) - loss * load * spikes as f64
            }
            Device::Bucket { limit, frames } => limit * duration + frames,
            Device::Lossy { loss } => offered * (1.0 - loss),
            Device::Clean => offered,
            Device::Tiring { short, long } => {
                let tired = (duration / 60.0).min(1.0).sqrt();
                (short + (long - short) * tired) * duration
            }
            Device::Livelock { limit } => {
                (if load <= limit { load } else { (limit - (load - limit) / 2.0).max(0.0) }) * duration
            }
        };
        carried.min(offered)
    }

    /// Frames forwarded of a burst.
    fn burst(&mut self, frames: u64, rate: f64) -> u64 {
        let Device::Bucket { limit, frames: room } = self.device else {
            return self.forwarded(rate, frames as f64 / rate) as u64;
        };
        frames.min((frames as f64 / rate * limit + room) as u64)
    }

    /// The true limit: the highest load that passes a trial of this goal's final duration, without noise.
    pub fn limit(&self, goal: &Goal) -> f64 {
        let zero_loss = match self.device {
            Device::Limit { limit }
            | Device::Noisy { limit, .. }
            | Device::Spikes { limit, .. }
            | Device::Livelock { limit } => limit,
            Device::Bucket { limit, frames } => limit + frames / goal.final_duration,
            Device::Lossy { .. } => 0.0,
            Device::Clean => f64::INFINITY,
            Device::Tiring { short, long } => short + (long - short) * (goal.final_duration / 60.0).min(1.0).sqrt(),
        };
        match self.device {
            // Half as many frames again are lost as the load is above the limit.
            Device::Livelock { .. } => zero_loss * 1.5 / (1.5 - goal.loss_ratio),
            _ => zero_loss / (1.0 - goal.loss_ratio),
        }
    }
}

/// The cost of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub trials: usize,
    /// Durations of the trials plus the time around each.
    pub seconds: f64,
}

/// Time around each trial in seconds (RFC 2544 section 23): 2 after the last frame and 5 before the next trial.
pub const AROUND: f64 = 7.0;

/// Runs a search to its end; panics if it does not end.
pub fn run<M: Method>(method: M, device: &mut Simulated) -> (Search<M>, Cost) {
    let mut search = Search::new(method);
    let mut seconds = 0.0;
    while let Some(trial) = search.next() {
        assert!(trial.load > 0.0 && trial.duration > 0.0, "{trial:?}");
        seconds += trial.seconds() + AROUND;
        let outcome = device.answer(&trial);
        search.report(outcome).expect("an answer to the trial");
        assert!(search.outcomes().len() < 5000, "the search does not end");
    }
    let trials = search.outcomes().len();
    (search, Cost { trials, seconds })
}
