// SPDX-License-Identifier: MIT
//! Trials as RFC 2544 section 23 has them: a pause, learning frames, the trial, and a wait for frames that are still
//! under way.
//!
//! ```text
//!  Trial ─► Tester: streams and listeners at the ends of the cables ─► Surroundings: threads, a clock, ports' counters
//!                      └── accounts, losses, latencies, what speaks against them ─► TrialRecord
//! ```
//!
//! The tester knows neither ports nor threads: [`Surroundings`] has them.

use crate::environment::Meanwhile;
use crate::pace::{self, Limit, Pacer, Pattern};
use crate::received::{Interval, Latencies, Received, Settings};
use crate::run::{Direction, TrialRecord, delays, outcome};
use crate::search::profile::Settle;
use crate::search::{Doubt, Shape, Spoils, Trial};
use crate::station::{Course, End, Listener, Sent, Stream};
use crate::traffic::Frames;
use crate::verdict::{Observed, Verdict};
use perigee_packet::Memory;
use std::collections::VecDeque;
use std::sync::Arc;

const SECOND: f64 = 1e9;
/// From the call to the first frame, ns: threads are on their cores by then.
const HEAD_START: u64 = 10_000_000;
/// Learning frames, each way, and their rate.
pub const LEARNING: u64 = 16;
const LEARNING_RATE: f64 = 1000.0;

/// What stations did, by end.
pub struct Ran {
    pub ends: Vec<End>,
    pub sent: Vec<Option<Sent>>,
    pub heard: Vec<Option<Received>>,
    /// All latencies that were recorded.
    pub latencies: Vec<Option<Latencies>>,
    pub longest_pause: u64,
    pub ended: u64,
}

/// A port's own counters, and its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames that it had to drop on receive.
    pub missed: u64,
    /// Frames that it found damaged.
    pub errors: u64,
    /// Frames that it took to send, and that the kernel or the device refused.
    pub refused: u64,
    /// How often its link went down.
    pub downs: u64,
    pub up: bool,
}

impl Counted {
    /// How often the link was down from one count to the other.
    fn downs(before: &Counted, after: &Counted) -> u32 {
        let downs = u32::try_from(after.downs.saturating_sub(before.downs)).unwrap_or(u32::MAX);
        downs.max(u32::from(!before.up || !after.up))
    }
}

/// Threads, clocks and ports for a tester.
pub trait Surroundings {
    type Error;

    /// ns of a clock that all ends share.
    fn now(&self) -> u64;

    /// The date and time, as RFC 3339 writes it.
    fn date(&self) -> String;

    fn sleep(&mut self, ns: u64);

    /// Runs a trial at all ends, to its end; `line` is called once a second.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn run(
        &mut self,
        ends: Vec<End>,
        course: &Arc<Course>,
        line: &mut dyn FnMut(&Interval),
    ) -> Result<Ran, Self::Error>;

    /// What the port at an end has counted, since it was opened.
    fn counted(&self, end: usize) -> Counted;

    /// What has disturbed the tester's processors, since the machine was started.
    fn meanwhile(&self) -> Meanwhile;

    /// Resets the device `after` ns from now, while a trial runs.
    fn reset_device(&mut self, after: u64);

    /// Why the last reset could not be done, if it could not.
    fn reset_error(&mut self) -> Option<String> {
        None
    }
}

/// Frames that go from one end to another.
pub struct Way {
    /// Such as "left to right".
    pub name: String,
    pub from: usize,
    pub to: usize,
    /// `None` while they are being sent.
    frames: Option<Box<dyn Frames + Send>>,
    flows: u32,
}

impl Way {
    /// `flows` are as many as the frames have.
    pub fn new(name: String, from: usize, to: usize, frames: Box<dyn Frames + Send>, flows: u32) -> Way {
        Way { name, from, to, frames: Some(frames), flows }
    }
}

/// How a tester runs its trials.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub settle: Settle,
    /// How late a frame may leave, ns.
    pub allowance: u64,
    /// Frames that the tester's receive queues hold, so how long it may pause.
    pub room: u64,
    /// One of so many latencies is recorded.
    pub latency_every: u32,
    /// The tester's own latency, ns.
    pub floor: Option<u64>,
}

/// A tester with its ends of the cables.
pub struct Tester {
    pub ends: Vec<End>,
    ways: Vec<Way>,
    memory: &'static dyn Memory,
    manner: Manner,
    run: u16,
}

/// Frames that came through, by way.
pub type Learned = Vec<(String, u64)>;

impl Tester {
    /// `run` marks its trials' stamps, counting up; it starts anywhere.
    pub fn new(ends: Vec<End>, ways: Vec<Way>, memory: &'static dyn Memory, manner: Manner, run: u16) -> Tester {
        Tester { ends, ways, memory, manner, run }
    }

    /// The tester's ends, for one with other frames.
    pub fn into_ends(self) -> Vec<End> {
        self.ends
    }

    /// A mark for the next trial: neither of its bytes is 0.
    fn next_run(&mut self) -> u16 {
        loop {
            self.run = self.run.wrapping_add(1);
            if self.run.to_be_bytes().iter().all(|byte| *byte != 0) {
                return self.run;
            }
        }
    }

    /// Learning frames (RFC 2544 23, phase b): a few each way, and how many of them came through. Then the time to
    /// settle.
    ///
    /// # Errors
    /// As [`Surroundings::run`].
    pub fn learn<S: Surroundings>(&mut self, around: &mut S) -> Result<Learned, S::Error> {
        let run = self.next_run();
        let start = around.now() + HEAD_START;
        let limit = Limit { frames: Some(LEARNING), duration: None };
        let pattern = Pattern::Constant { rate: LEARNING_RATE };
        self.attach(run, |_| Pacer::new(pattern, start, limit, u64::MAX), None, None, |listener| listener);
        let settle = (self.manner.settle.learning * SECOND) as u64;
        let course = Course::new(self.ways.len(), settle.max(HEAD_START));
        let ran = around.run(std::mem::take(&mut self.ends), &course, &mut |_| {})?;
        let mut learned = Vec::new();
        let mut sent = ran.sent;
        for way in &mut self.ways {
            let received = ran.heard[way.to].as_ref().map_or(0, |heard| heard.counters().unique);
            learned.push((way.name.clone(), received));
            way.frames = sent[way.from].take().map(|sent| sent.frames);
        }
        self.ends = ran.ends;
        Ok(learned)
    }

    /// The rate that the tester reaches, in frames per second each way: as many as the ports take, for `seconds`. The
    /// slowest way counts.
    ///
    /// # Errors
    /// As [`Surroundings::run`].
    pub fn reach<S: Surroundings>(&mut self, around: &mut S, seconds: f64) -> Result<f64, S::Error> {
        let run = self.next_run();
        let start = around.now() + HEAD_START;
        let limit = Limit { frames: None, duration: Some((seconds * SECOND) as u64) };
        self.attach(run, |_| Pacer::new(Pattern::Line, start, limit, u64::MAX), None, None, |listener| listener);
        let course = Course::new(self.ways.len(), (self.manner.settle.drain * SECOND) as u64);
        let mut ran = around.run(std::mem::take(&mut self.ends), &course, &mut |_| {})?;
        let mut slowest = f64::INFINITY;
        for way in &mut self.ways {
            let Some(sent) = ran.sent[way.from].take() else { continue };
            slowest = slowest.min(sent.account.sent.saturating_sub(1) as f64 * SECOND / sent.lasted.max(1) as f64);
            way.frames = Some(sent.frames);
        }
        self.ends = ran.ends;
        Ok(slowest)
    }

    /// Runs a trial, its pause and its learning frames before it.
    ///
    /// # Errors
    /// As [`Surroundings::run`].
    pub fn trial<S: Surroundings>(
        &mut self,
        around: &mut S,
        size: u32,
        trial: &Trial,
        course_of: impl FnOnce(&Arc<Course>),
        line: &mut dyn FnMut(&Interval),
    ) -> Result<TrialRecord, S::Error> {
        around.sleep((self.manner.settle.pause * SECOND) as u64);
        self.learn(around)?;
        let began = around.date();
        let before: Vec<Counted> = (0..self.ends.len()).map(|end| around.counted(end)).collect();
        let meanwhile = around.meanwhile();
        let (ramp_run, run) = (self.next_run(), self.next_run());
        let climbs = around.now() + HEAD_START;
        let rise = (self.manner.settle.ramp * SECOND) as u64;
        let start = climbs + rise;
        let plan = Plan::new(trial, start, &self.manner);
        let allowance = self.manner.allowance;
        let pacer = |limit, at, rate| Pacer::new(Pattern::Constant { rate }, at, limit, allowance);
        let then = plan.then.map(|(at, load, limit)| pacer(limit, at, load));
        let tag = |listener: Listener| match plan.tag_from {
            Some(time) => listener.tag_from(time),
            None => listener,
        };
        let ramp = (rise > 0).then(|| (pace::ramp(climbs, rise, trial.load, allowance), ramp_run));
        self.attach(run, |_| pacer(plan.limit, start, trial.load), ramp, then, tag);
        if let Some(after) = plan.reset_after {
            around.reset_device(after + rise);
        }
        let course = Course::new(self.ways.len(), plan.drain);
        if rise > 0 {
            course.report_from(start);
        }
        course_of(&course);
        let mut intervals = Vec::new();
        let mut keep = |interval: &Interval| {
            intervals.push(*interval);
            line(interval);
        };
        let mut ran = around.run(std::mem::take(&mut self.ends), &course, &mut keep)?;
        let meanwhile = around.meanwhile().since(&meanwhile);
        self.ends = std::mem::take(&mut ran.ends);
        let after: Vec<Counted> = (0..self.ends.len()).map(|end| around.counted(end)).collect();
        let reset_error = plan.reset_after.and_then(|_| around.reset_error());
        let stopped = course.is_stopped();
        let context = Context { trial, plan: &plan, before, after, meanwhile, intervals, stopped, reset_error };
        Ok(self.record(size, began, ran, context))
    }

    /// Puts streams and listeners at the ends.
    fn attach(
        &mut self,
        run: u16,
        pacer: impl Fn(usize) -> Pacer,
        ramp: Option<(VecDeque<Pacer>, u16)>,
        then: Option<Pacer>,
        listener: impl Fn(Listener) -> Listener,
    ) {
        let Manner { latency_every, floor, .. } = self.manner;
        for (number, way) in self.ways.iter_mut().enumerate() {
            let mut frames = way.frames.take().expect("a way's frames come back after each trial");
            frames.restart();
            let stream = Stream::new(frames, self.memory, pacer(number), run);
            let stream = match &ramp {
                Some((ramp, run)) => stream.after(ramp.clone(), *run),
                None => stream,
            };
            self.ends[way.from].stream = Some(match &then {
                Some(then) => stream.then(then.clone()),
                None => stream,
            });
            let ramp = ramp.as_ref().map(|(_, run)| *run);
            let settings = Settings { latency_every, floor, ramp, ..Settings::new(run, way.flows) };
            self.ends[way.to].listener = Some(listener(Listener::new(settings)));
        }
    }

    fn record(&mut self, size: u32, began: String, ran: Ran, context: Context<'_>) -> TrialRecord {
        let Ran { mut sent, mut heard, latencies, longest_pause, ended, .. } = ran;
        let Context { trial, plan, before, after, meanwhile, intervals, stopped, reset_error } = context;
        let mut directions = Vec::new();
        let mut all: Option<Latencies> = None;
        let mut times = Times::default();
        let mut intervals = Some(intervals);
        for way in &mut self.ways {
            let (Some(mut sent), Some(mut heard)) = (sent[way.from].take(), heard[way.to].take()) else { continue };
            let mut received = heard.close(|flow| sent.frames.written(flow));
            let refused = after[way.from].refused.saturating_sub(before[way.from].refused);
            received.take_off(&mut sent.account, refused);
            let latencies = latencies[way.to].as_ref();
            let latency = latencies.and_then(Latencies::summary);
            if let Some(latencies) = latencies {
                match &mut all {
                    Some(all) => all.add(latencies),
                    None => all = Some(latencies.clone()),
                }
            }
            times.take(plan, &heard, ended);
            let (from, to) = (way.from, way.to);
            let verdict = Verdict::new(&Observed {
                account: Some(sent.account),
                outcome: Some(&received),
                latency: latency.as_ref(),
                missed: after[to].missed.saturating_sub(before[to].missed),
                receive_errors: after[to].errors.saturating_sub(before[to].errors),
                longest_pause,
                allowed_pause: plan.allowed_pause,
                planned: plan.planned,
                lasted: sent.lasted,
                links_down: [from, to].iter().map(|end| Counted::downs(&before[*end], &after[*end])).sum(),
                cable: false,
                meanwhile: Some(meanwhile),
                interrupted: stopped,
            });
            directions.push(Direction {
                name: way.name.clone(),
                sent: sent.account,
                achieved: sent.achieved.summary(),
                received,
                latency,
                variation: latencies.map(|latencies| heard.variation(latencies)),
                verdict,
                longest_pause_ns: longest_pause,
                // They are of all directions together: once is enough.
                intervals: intervals.take().unwrap_or_default(),
            });
            way.frames = Some(sent.frames);
        }
        let mut outcome = outcome(trial, &directions);
        outcome.latency = all.as_ref().and_then(Latencies::summary).as_ref().and_then(delays);
        outcome.last_lost = times.last_lost;
        outcome.outage = times.outage.filter(|_| !times.is_gone);
        outcome.doubts.extend(reset_error.map(|why| Doubt { spoils: Spoils::All, why }));
        TrialRecord { size, trial: trial.clone(), outcome, began, directions }
    }
}

/// Times that some trials are run for, in seconds: the worst of all directions.
#[derive(Default)]
struct Times {
    /// From the fall of the load to the last frame that was lost.
    last_lost: Option<f64>,
    outage: Option<f64>,
    /// Some direction is silent to the end, so its outage has none.
    is_gone: bool,
}

impl Times {
    fn take(&mut self, plan: &Plan, heard: &Received, ended: u64) {
        if let Some((fall, ..)) = plan.then
            && let Some(ago) = heard.last_missing(ended)
        {
            let when = (ended - ago) as f64 - fall as f64;
            self.last_lost = Some(self.last_lost.unwrap_or(f64::NEG_INFINITY).max(when / SECOND));
        }
        if plan.reset_after.is_some() {
            let silence = heard.longest_silence().map_or(0, |silence| silence.to - silence.from);
            self.outage = Some(self.outage.unwrap_or(0.0).max(silence as f64 / SECOND));
            let unheard = plan.sent_by.saturating_sub(heard.last_heard().unwrap_or(0));
            self.is_gone |= unheard > silence;
        }
    }
}

/// What a record is made of, beyond what the stations did.
struct Context<'a> {
    trial: &'a Trial,
    plan: &'a Plan,
    before: Vec<Counted>,
    after: Vec<Counted>,
    meanwhile: Meanwhile,
    intervals: Vec<Interval>,
    stopped: bool,
    reset_error: Option<String>,
}

/// A trial's times, ns.
struct Plan {
    limit: Limit,
    /// How long frames are to be sent, and then listened for.
    planned: u64,
    drain: u64,
    /// When the load falls, to which load, and for how long.
    then: Option<(u64, f64, Limit)>,
    tag_from: Option<u64>,
    reset_after: Option<u64>,
    /// When the last frame was to be sent.
    sent_by: u64,
    allowed_pause: u64,
}

impl Plan {
    fn new(trial: &Trial, start: u64, manner: &Manner) -> Plan {
        let ns = |seconds: f64| (seconds * SECOND) as u64;
        let for_time = |seconds: f64| Limit { frames: None, duration: Some(ns(seconds)) };
        let mut plan = Plan {
            limit: for_time(trial.duration),
            planned: ns(trial.duration),
            drain: ns(manner.settle.drain),
            then: None,
            tag_from: None,
            reset_after: None,
            sent_by: start + ns(trial.duration),
            allowed_pause: (manner.room as f64 / trial.load * SECOND) as u64,
        };
        match trial.shape {
            Shape::Steady => {}
            Shape::Burst { frames, listen } => {
                plan.limit = Limit { frames: Some(frames), duration: None };
                plan.planned = ns(frames as f64 / trial.load);
                plan.drain += ns(listen);
            }
            Shape::Fall { load, duration } => {
                plan.planned += ns(duration);
                plan.then = Some((start + ns(trial.duration), load, for_time(duration)));
            }
            Shape::Tagged { after } => plan.tag_from = Some(start + ns(after)),
            Shape::Reset { after } => plan.reset_after = Some(HEAD_START + ns(after)),
        }
        plan
    }
}
