// SPDX-License-Identifier: MIT
//! When frames leave. Given the time, a [`Pacer`] says how many are due; given how many the device took, it keeps the
//! account.
//!
//! ```text
//!   due(now) ──► frames, due time of the first ──► the caller writes and sends them ──► sent(now, taken)
//! ```
//!
//! **Late frames.** A frame that is due is sent as soon as the device takes it, as long as it is not later than the
//! `allowance`: so short pauses of the tester are caught up, by frames closer together than asked for. A frame later
//! than that is given up and counted as unsent. Nothing is ever sent later than that, and nothing vanishes:
//!
//! ```text
//!   intended = sent + unsent + pending            at every moment, where the pattern and its limits fix what is intended
//! ```
//!
//! Unsent frames are the tester's shortcoming, not the device's: a trial with some of them did not offer the rate it
//! was to offer, and its verdict says so. A large allowance hides a slow tester behind bursts that the device may
//! have no room for; a small one gives up frames for every hiccup of the machine.
//!
//! **Achieved departures.** Gaps and lateness are measured where the device takes the frames: those that it takes in
//! one call have a gap of 0, even if the wire puts them one after the other.

pub mod rate;
mod schedule;

pub use rate::{Rate, RateError};

use crate::buckets::Buckets;
use schedule::{Schedule, Timed};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How late a frame may leave, in ns, if nothing else is asked for. At a million frames per second it stands for a
/// thousand of them, a device's ring.
pub const ALLOWANCE: u64 = 1_000_000;

/// Due frames whose times are kept; no more of them are handed out at once.
const AHEAD: usize = 256;

/// Departures as a user describes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub rate: Rate,
    #[serde(default)]
    pub departures: Departures,
}

/// How departures follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Departures {
    /// With equal gaps.
    #[default]
    Constant,
    /// With gaps of an exponential distribution, drawn from a seed.
    Poisson { seed: u64 },
    /// Groups of `frames` back to back. Without `gap_ns`, the rate is the mean; with it, it is that within a burst, and
    /// the gap is between the end of a burst and the start of the next.
    Bursts { frames: u32, gap_ns: Option<u64> },
}

/// Departures as they are computed; rates in frames per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// As fast as the port takes frames.
    Line,
    Constant {
        rate: f64,
    },
    Poisson {
        rate: f64,
        seed: u64,
    },
    Bursts {
        frames: u32,
        /// The rate within a burst; where it is not known, a burst's frames are all due at its start.
        within: Option<f64>,
        spacing: Bursting,
    },
}

/// How far apart bursts are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bursting {
    /// So that this is the mean rate.
    Mean(f64),
    /// ns between the end of a burst and the start of the next.
    Gap(u64),
}

impl Request {
    /// The pattern for frames of `size` bytes with FCS (the mean, where they are mixed) on a line of `line` bits per
    /// second, where it is known.
    pub fn pattern(&self, size: f64, line: Option<f64>) -> Result<Pattern, RateError> {
        let rate = self.rate.frames_per_second(size, line)?;
        let full = line.map(|line| line / rate::wire_bits(size));
        match self.departures {
            Departures::Constant => Ok(rate.map_or(Pattern::Line, |rate| Pattern::Constant { rate })),
            Departures::Poisson { seed } => Ok(Pattern::Poisson { rate: rate.ok_or(RateError::NoSchedule)?, seed }),
            Departures::Bursts { frames: 0, .. } => Err(RateError::EmptyBurst),
            Departures::Bursts { frames, gap_ns: Some(gap) } => {
                Ok(Pattern::Bursts { frames, within: rate.or(full), spacing: Bursting::Gap(gap.max(1)) })
            }
            Departures::Bursts { frames, gap_ns: None } => {
                // A line rate that is exceeded by rounding alone is not exceeded; more than that was refused.
                let rate = rate.ok_or(RateError::NoSchedule)?.min(full.unwrap_or(f64::INFINITY));
                Ok(Pattern::Bursts { frames, within: full, spacing: Bursting::Mean(rate) })
            }
        }
    }
}

impl Pattern {
    /// The mean rate, frames per second; `None` where the port decides.
    pub fn mean(&self) -> Option<f64> {
        match *self {
            Pattern::Line => None,
            Pattern::Constant { rate } | Pattern::Poisson { rate, .. } => Some(rate),
            Pattern::Bursts { spacing: Bursting::Mean(rate), .. } => Some(rate),
            Pattern::Bursts { frames, within, spacing: Bursting::Gap(gap) } => {
                let frames = f64::from(frames);
                Some(frames / (within.map_or(0.0, |rate| frames / rate) + gap as f64 / 1e9))
            }
        }
    }
}

/// Steps of a ramp, from the first to the full load.
const RAMP_STEPS: u32 = 8;

/// Departures that rise to a rate (frames per second) in equal steps with equal gaps, in `rise` ns from `start` (ns)
/// on: for [`Stream::after`](crate::station::Stream::after).
pub fn ramp(start: u64, rise: u64, rate: f64, allowance: u64) -> VecDeque<Pacer> {
    let step = rise / u64::from(RAMP_STEPS);
    let limit = Limit { frames: None, duration: Some(step) };
    let of_step = |number: u32| {
        let rate = rate * f64::from(number + 1) / f64::from(RAMP_STEPS);
        Pacer::new(Pattern::Constant { rate }, start.saturating_add(u64::from(number) * step), limit, allowance)
    };
    (0..RAMP_STEPS).map(of_step).collect()
}

/// When departures end: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After this many.
    pub frames: Option<u64>,
    /// This many ns after the start; a departure at that very moment is none any more.
    pub duration: Option<u64>,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// How many frames are to be sent now.
    pub frames: usize,
    /// Due time of the first of them, or, if nothing is to be sent now, of the next frame at all; `None` after the
    /// last.
    pub first: Option<u64>,
}

/// What became of the departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// All departures from start to end: sent + unsent + pending. `None` if nobody knows yet: without limit, and for
    /// random departures or line rate that are limited by time alone, until they are over.
    pub intended: Option<u64>,
    pub sent: u64,
    /// Given up as they were too late.
    pub unsent: u64,
    /// Not yet due, or due and still to be sent. `None` like `intended`.
    pub pending: Option<u64>,
}

/// The departures of one trial.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// `None` at line rate.
    schedule: Option<Schedule>,
    /// Gap of a constant rate, ns; `None` for other patterns.
    nominal: Option<f64>,
    start: u64,
    /// The first moment after the last departure.
    end: u64,
    allowance: u64,
    intended: Option<u64>,
    /// Departures that the schedule may still be asked for.
    left: u64,
    /// Drawn departures that are neither sent nor given up, in a ring; all but the last are due.
    ahead: Box<[u64; AHEAD]>,
    first: usize,
    drawn: usize,
    now: u64,
    sent: u64,
    unsent: u64,
    last_sent: Option<u64>,
    achieved: Achieved,
}

/// Departures as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Achieved {
    /// ns between one frame and the next, as the device took them.
    pub gaps: Buckets,
    /// How many gaps are within 1 us of the constant rate's.
    pub within_1us: u64,
    /// ns from due to taken; empty at line rate.
    pub lateness: Buckets,
}

/// [`Achieved`] in a line; ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AchievedSummary {
    pub gaps: u64,
    pub gap_mean_ns: f64,
    pub gap_min_ns: u64,
    pub gap_p50_ns: u64,
    pub gap_p99_ns: u64,
    pub gap_p99_9_ns: u64,
    pub gap_max_ns: u64,
    /// Frames that the device took together with the one before: gaps of 0.
    pub together: u64,
    /// The share of gaps within 1 us of the constant rate's, 0 to 1; 0 for other patterns.
    pub within_1us: f64,
    /// Of frames that were sent; `None` at line rate.
    pub late_p50_ns: Option<u64>,
    pub late_p99_ns: Option<u64>,
    pub late_max_ns: Option<u64>,
}

impl Achieved {
    /// What it comes to; `None` before the second frame.
    pub fn summary(&self) -> Option<AchievedSummary> {
        let gaps = &self.gaps;
        Some(AchievedSummary {
            gaps: gaps.count(),
            gap_mean_ns: gaps.mean()?,
            gap_min_ns: gaps.min()?,
            gap_p50_ns: gaps.quantile(0.5)?,
            gap_p99_ns: gaps.quantile(0.99)?,
            gap_p99_9_ns: gaps.quantile(0.999)?,
            gap_max_ns: gaps.max()?,
            together: gaps.iter().next().filter(|(first, ..)| *first == 0).map_or(0, |(_, _, count)| count),
            within_1us: self.share_within_1us()?,
            late_p50_ns: self.lateness.quantile(0.5),
            late_p99_ns: self.lateness.quantile(0.99),
            late_max_ns: self.lateness.max(),
        })
    }

    /// The share of gaps within 1 us of the constant rate's, 0 to 1; `None` before the second frame.
    pub fn share_within_1us(&self) -> Option<f64> {
        (self.gaps.count() > 0).then(|| self.within_1us as f64 / self.gaps.count() as f64)
    }
}

impl Pacer {
    /// Departures from `start` (ns) on, none of them later than `allowance` (ns).
    pub fn new(pattern: Pattern, start: u64, limit: Limit, allowance: u64) -> Pacer {
        let schedule = Schedule::new(&pattern, start);
        let end = limit.duration.map_or(u64::MAX, |duration| start.saturating_add(duration));
        let by_time = limit.duration.and_then(|_| schedule.as_ref()?.before(end));
        // Without a schedule that tells, the number of frames is not known if time may end it before.
        let by_frames = limit.frames.filter(|_| by_time.is_some() || limit.duration.is_none());
        let intended = [by_time, by_frames].into_iter().flatten().min();
        let left = intended.or(limit.frames).unwrap_or(u64::MAX);
        Pacer {
            schedule,
            nominal: if let Pattern::Constant { rate } = pattern { Some(1e9 / rate) } else { None },
            start,
            end,
            allowance,
            intended,
            left,
            ahead: Box::new([0; AHEAD]),
            first: 0,
            drawn: 0,
            now: 0,
            sent: 0,
            unsent: 0,
            last_sent: None,
            achieved: Achieved::default(),
        }
    }

    /// Departures at times that are [given](Pacer::give): those of a capture. None is given up, as each is a frame of
    /// its own: what is late is seen in [`Achieved::lateness`].
    pub fn timed(start: u64, limit: Limit) -> Pacer {
        let timed = Schedule::Timed(Timed::new(start));
        Pacer { schedule: Some(timed), intended: None, ..Pacer::new(Pattern::Line, start, limit, u64::MAX) }
    }

    /// The next times, in ns after the start and in their order, for a pacer that is [`timed`](Pacer::timed); none:
    /// there are no more.
    pub fn give(&mut self, times: &[u64]) {
        if let Some(Schedule::Timed(timed)) = &mut self.schedule {
            timed.give(times);
        }
    }

    /// What is due at `now` (ns), at most `most` frames; gives up what is too late. A clock that goes back stands
    /// still.
    pub fn due(&mut self, now: u64, most: usize) -> Due {
        self.now = self.now.max(now);
        if self.schedule.is_none() {
            return self.due_at_line_rate(most);
        }
        self.give_up_before(self.now.saturating_sub(self.allowance));
        self.draw();
        let frames = self.count_due().min(most);
        Due { frames, first: (self.drawn > 0).then(|| self.ahead[self.first]) }
    }

    /// How many of the drawn departures are due: all, but perhaps the last.
    #[inline]
    fn count_due(&self) -> usize {
        let newest_waits = self.drawn > 0 && self.ahead[(self.first + self.drawn - 1) % AHEAD] > self.now;
        self.drawn - usize::from(newest_waits)
    }

    /// Counts departures before `time` as unsent.
    #[inline]
    fn give_up_before(&mut self, time: u64) {
        let Some(schedule) = &mut self.schedule else { return };
        while self.drawn > 0 && self.ahead[self.first] < time {
            self.first = (self.first + 1) % AHEAD;
            self.drawn -= 1;
            self.unsent += 1;
        }
        // What is not drawn, and later than all that is, may be much after a pause: a constant rate skips it by one
        // division.
        if schedule.at() < time {
            let skipped = schedule.skip_before(time.min(self.end), self.left);
            self.left -= skipped;
            self.unsent += skipped;
        }
    }

    fn due_at_line_rate(&self, most: usize) -> Due {
        let over = self.now >= self.end || self.left == 0;
        let begun = self.now >= self.start;
        let frames = if begun && !over { self.left.min(most as u64) as usize } else { 0 };
        Due { frames, first: (!over).then_some(self.now.max(self.start)) }
    }

    /// Draws departures until one is not due, the ring is full or they end.
    #[inline]
    fn draw(&mut self) {
        let Some(schedule) = &mut self.schedule else { return };
        let mut newest = if self.drawn > 0 { self.ahead[(self.first + self.drawn - 1) % AHEAD] } else { 0 };
        while newest <= self.now && self.drawn < AHEAD && self.left > 0 && schedule.is_known() {
            newest = schedule.at();
            if newest >= self.end {
                // Only departures that nobody could count before are cut off here.
                self.left = 0;
                break;
            }
            schedule.step();
            self.ahead[(self.first + self.drawn) % AHEAD] = newest;
            self.drawn += 1;
            self.left -= 1;
        }
    }

    /// The device took the first `frames` of those that were due, at `now` (ns).
    ///
    /// # Panics
    /// If fewer were due.
    pub fn sent(&mut self, now: u64, frames: usize) {
        if frames == 0 {
            return;
        }
        self.now = self.now.max(now);
        if self.schedule.is_some() {
            assert!(frames <= self.count_due(), "{frames} frames were sent, and {} were due", self.count_due());
            for _ in 0..frames {
                self.achieved.lateness.record(self.now.saturating_sub(self.ahead[self.first]));
                self.first = (self.first + 1) % AHEAD;
            }
            self.drawn -= frames;
        } else {
            assert!(frames as u64 <= self.left, "{frames} frames were sent, and {} were due", self.left);
            self.left -= frames as u64;
        }
        self.sent += frames as u64;
        self.note_gaps(frames as u64);
    }

    /// One gap since the frame before, and none between those that were taken together.
    #[inline]
    fn note_gaps(&mut self, frames: u64) {
        let gap = self.last_sent.map(|last| self.now - last);
        self.last_sent = Some(self.now);
        if let Some(gap) = gap {
            self.achieved.gaps.record(gap);
        }
        self.achieved.gaps.record_n(0, frames - 1);
        if let Some(nominal) = self.nominal {
            // Gaps are far below 2^63, and signed numbers are converted by one instruction.
            let within = |gap: u64| (gap as i64 as f64 - nominal).abs() <= 1000.0;
            self.achieved.within_1us += u64::from(gap.is_some_and(within));
            self.achieved.within_1us += if within(0) { frames - 1 } else { 0 };
        }
    }

    /// There are no more frames: departures after the last one are none. `unsent`: what had been given up when that was
    /// sent.
    pub fn out_of_frames(&mut self, unsent: u64) {
        self.unsent = self.unsent.min(unsent);
        (self.drawn, self.left) = (0, 0);
    }

    /// Ends the trial at `now` (ns): what is due and not sent is unsent; what is not yet due stays pending.
    pub fn finish(&mut self, now: u64) -> Account {
        self.now = self.now.max(now);
        // Departures at this very moment are due.
        self.give_up_before(self.now.saturating_add(1));
        self.draw();
        self.account()
    }

    /// What became of the departures so far.
    pub fn account(&self) -> Account {
        // By the schedule's own count if there is one; else once they have ended.
        let over = self.left == 0 || self.now >= self.end && self.schedule.is_none();
        let pending = self.drawn as u64 + if over { 0 } else { self.left };
        let intended = if over { Some(self.sent + self.unsent + pending) } else { self.intended };
        Account { intended, sent: self.sent, unsent: self.unsent, pending: intended.map(|_| pending) }
    }

    /// Gaps and lateness so far.
    pub fn achieved(&self) -> &Achieved {
        &self.achieved
    }
}
