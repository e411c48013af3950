// SPDX-License-Identifier: MIT
//! A core's share of a trial: the ends of cables, at which streams are sent and received in one loop that never waits.
//!
//! ```text
//!  End ─► Stream:   pacer: how many are due? ─► pool: buffers ─► frames: written ─► queue ─► pacer: so many were sent
//!      ◄─ Listener: queue ─► received: counted, put in order, timed     ─► Resident: answers ARP and neighbor discovery
//! ```
//!
//! The caller gives a clock, and threads: one station with both ends is a tester on one core, two with an end each are
//! one on two. What they must know of each other is in [`Course`].
//!
//! **A refused frame** keeps the time of its first attempt in its stamp, so that a latency counts from when the frame
//! was due to leave (else a device that stalls would look better than it is), and its place in the order. It is sent
//! with the next ones that are due; frames that are too late by then are counted as unsent ([`crate::pace`]).

use crate::pace::{Account, Achieved, Limit, Pacer};
use crate::received::{Counters, Latencies, Received, Settings, Snapshot};
use crate::resident::Resident;
use crate::traffic::Frames;
use crate::verdict::Turns;
use perigee_packet::{BATCH_SIZE, Batch, Mask, Memory, Pool, ReceiveQueue, TransmitQueue};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes of the FCS, which frames in memory do not have.
const FCS: u64 = 4;
/// Frames that are sent or received at once.
pub const BURST: usize = 64;
const SECOND: u64 = 1_000_000_000;

/// A clock that all stations share: ns.
pub type Clock<'a> = &'a dyn Fn() -> u64;

/// What all stations of a trial know: how far it is.
#[derive(Debug)]
pub struct Course {
    /// Streams that still send.
    sending: AtomicUsize,
    /// When the last of them ended, ns.
    ended: AtomicU64,
    /// ns after that in which listeners go on.
    drain: u64,
    /// When the seconds begin of which stations report, ns; 0: with the stations.
    reported: AtomicU64,
    stop: AtomicBool,
}

impl Course {
    /// A trial with so many streams, after whose end listeners go on for `drain` ns.
    pub fn new(streams: usize, drain: u64) -> Arc<Course> {
        Arc::new(Course {
            sending: AtomicUsize::new(streams),
            ended: AtomicU64::new(0),
            drain,
            reported: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// The seconds of which stations report begin at this time (ns), as a ramp's are none of the trial's. Before the
    /// stations run.
    pub fn report_from(&self, time: u64) {
        self.reported.store(time, Ordering::Relaxed);
    }

    /// When these seconds begin, of stations that run since `began`; ns.
    pub fn reports_begin(&self, began: u64) -> u64 {
        self.reported.load(Ordering::Relaxed).max(began)
    }

    /// Ends the trial where it stands: nothing more is sent, and listeners do not wait.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn stream_ended(&self, now: u64) {
        self.ended.fetch_max(now, Ordering::Relaxed);
        self.sending.fetch_sub(1, Ordering::Release);
    }

    /// When listening ends; `None` while some stream sends.
    fn over_at(&self) -> Option<u64> {
        let over = self.sending.load(Ordering::Acquire) == 0;
        over.then(|| self.ended.load(Ordering::Relaxed).saturating_add(self.drain))
    }
}

/// Frames that leave by one end.
pub struct Stream {
    frames: Box<dyn Frames + Send>,
    pacer: Pacer,
    batch: Box<Batch>,
    run: u16,
    bytes: u64,
    /// When its first and its last frame were sent, ns.
    first: Option<u64>,
    last: u64,
    /// Times that frames were due and the pool had no buffer for them.
    no_buffers: u64,
    /// Departures that had been given up when the last frame was sent.
    given_up: u64,
    /// The departures before the trial's own, and the mark of their stamps: these frames do not count.
    ramp: Option<(VecDeque<Pacer>, u16)>,
    /// Frames of the ramp that were sent.
    climbed: u64,
    /// Of the frames that are not written yet, how many departures the pacer knows already; `None` if it knows all by
    /// itself.
    ahead: Option<usize>,
    /// The departures to go on with, and what became of those before.
    then: Option<Pacer>,
    before: Option<(Account, Achieved)>,
    ended: bool,
}

/// A stream at its end.
pub struct Sent {
    pub frames: Box<dyn Frames + Send>,
    pub account: Account,
    /// Of its first departures, where it went on with others.
    pub achieved: Achieved,
    /// With FCS.
    pub bytes: u64,
    /// ns from the first frame to the last.
    pub lasted: u64,
    pub no_buffers: u64,
    /// Frames of the ramp, which are in none of the other figures.
    pub ramp: u64,
}

impl Stream {
    /// `memory` is that of the port's packets; `run` marks the trial in the stamps.
    pub fn new(frames: Box<dyn Frames + Send>, memory: &'static dyn Memory, pacer: Pacer, run: u16) -> Stream {
        let batch = Batch::new(memory);
        Stream {
            frames,
            pacer,
            batch,
            run,
            bytes: 0,
            first: None,
            last: 0,
            no_buffers: 0,
            given_up: 0,
            ramp: None,
            climbed: 0,
            ahead: None,
            then: None,
            before: None,
            ended: false,
        }
    }

    /// Frames that leave at times of their own, from `start` (ns) on.
    pub fn timed(
        frames: Box<dyn Frames + Send>,
        memory: &'static dyn Memory,
        start: u64,
        limit: Limit,
        run: u16,
    ) -> Stream {
        let mut stream = Stream::new(frames, memory, Pacer::timed(start, limit), run);
        stream.ahead = Some(0);
        stream
    }

    /// Sends frames by these departures first, one pacer after the other, with another mark in their stamps: a load
    /// that rises. They count nowhere else; a listener knows the mark ([`Settings::ramp`]).
    pub fn after(mut self, ramp: VecDeque<Pacer>, run: u16) -> Stream {
        self.ramp = (!ramp.is_empty()).then_some((ramp, run));
        self
    }

    /// Sends a frame of the ramp if one is due; false once it is over.
    fn climb(&mut self, queue: &mut dyn TransmitQueue, pool: &dyn Pool, now: u64) -> bool {
        let Some((pacers, run)) = &mut self.ramp else { return false };
        let run = *run;
        while let Some(pacer) = pacers.front_mut() {
            let due = pacer.due(now, BURST);
            if due.frames == 0 && due.first.is_none() {
                pacers.pop_front();
                continue;
            }
            if due.frames == 0 {
                queue.poll();
                return true;
            }
            if self.batch.live().is_empty() {
                self.batch.refill();
                if self.frames.lengths(due.frames).is_empty() {
                    // A capture has an end, and begins again.
                    self.frames.restart();
                }
                let lengths = self.frames.lengths(due.frames);
                if lengths.is_empty() {
                    break;
                }
                if pool.fill(&mut self.batch, lengths) == 0 {
                    return true;
                }
                self.frames.write(&mut self.batch, Mask::ALL, now, run);
            }
            let sent = queue.send(&mut self.batch, due.frames);
            if sent > 0 {
                pacer.sent(now, sent);
                self.climbed += sent as u64;
            }
            return true;
        }
        // What is written and not sent has the ramp's mark.
        self.batch.refill();
        self.frames.restart();
        self.ramp = None;
        false
    }

    /// Goes on with other departures when these are over: a fall of the load.
    pub fn then(mut self, pacer: Pacer) -> Stream {
        self.then = Some(pacer);
        self
    }

    /// Gives the pacer the times of frames that it does not know.
    fn look_ahead(&mut self) {
        let Some(known) = self.ahead.filter(|known| known + BURST <= BATCH_SIZE) else { return };
        let times = self.frames.departures(known + BURST);
        self.pacer.give(times.get(known..).unwrap_or_default());
        self.ahead = Some(times.len().max(known));
    }

    /// Sends what is due at `now` (ns) and the queue takes; false once nothing will ever be due again.
    #[inline]
    fn step(&mut self, queue: &mut dyn TransmitQueue, pool: &dyn Pool, now: u64) -> bool {
        if self.ramp.is_some() && self.climb(queue, pool, now) {
            return true;
        }
        self.look_ahead();
        let due = self.pacer.due(now, BURST);
        if due.frames == 0 {
            queue.poll();
            return due.first.is_some() || self.goes_on(now);
        }
        if self.batch.live().is_empty() {
            self.batch.refill();
            let lengths = self.frames.lengths(due.frames);
            // A capture has an end, and departures behind it are nobody's loss.
            if lengths.is_empty() {
                self.pacer.out_of_frames(self.given_up);
                return false;
            }
            if pool.fill(&mut self.batch, lengths) == 0 {
                self.no_buffers += 1;
                return true;
            }
            let written = self.frames.write(&mut self.batch, Mask::ALL, now, self.run);
            self.ahead = self.ahead.map(|known| known.saturating_sub(written));
        }
        let before = self.batch.live();
        let sent = queue.send(&mut self.batch, due.frames);
        if sent > 0 {
            self.pacer.sent(now, sent);
            self.given_up = self.pacer.account().unsent;
            let gone = before - self.batch.live();
            self.bytes += gone.iter().map(|slot| self.batch.length(slot) as u64 + FCS).sum::<u64>();
            self.first.get_or_insert(now);
            self.last = now;
        }
        true
    }

    /// Takes the next departures, if there are some.
    fn goes_on(&mut self, now: u64) -> bool {
        let Some(then) = self.then.take() else { return false };
        let mut before = std::mem::replace(&mut self.pacer, then);
        self.before = Some((before.finish(now), before.achieved().clone()));
        true
    }

    fn account(&self) -> Account {
        let now = self.pacer.account();
        self.before.as_ref().map_or(now, |(before, _)| both(before, &now))
    }

    fn finish(mut self, now: u64) -> Sent {
        self.pacer.finish(now);
        let account = self.account();
        self.frames.unsent(&self.batch, self.batch.live());
        Sent {
            frames: self.frames,
            account,
            achieved: self.before.map_or_else(|| self.pacer.achieved().clone(), |(_, achieved)| achieved),
            bytes: self.bytes,
            lasted: self.first.map_or(0, |first| self.last - first),
            no_buffers: self.no_buffers,
            ramp: self.climbed,
        }
    }
}

/// Two accounts together.
fn both(a: &Account, b: &Account) -> Account {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    Account {
        intended: sum(a.intended, b.intended),
        sent: a.sent + b.sent,
        unsent: a.unsent + b.unsent,
        pending: sum(a.pending, b.pending),
    }
}

/// What comes in at one end; its latencies go out with the reports.
pub struct Listener {
    received: Received,
    latency_every: u32,
    floor: Option<u64>,
    /// Latencies before this time do not count; `None`: from now on they do.
    tag_from: Option<u64>,
}

impl Listener {
    /// For the frames that the settings describe.
    pub fn new(settings: Settings) -> Listener {
        let Settings { latency_every, floor, .. } = settings;
        Listener { received: Received::new(settings), latency_every, floor, tag_from: None }
    }

    /// Lets latencies count from a time on, ns: those of tagged frames (RFC 2544 26.2).
    pub fn tag_from(mut self, time: u64) -> Listener {
        self.tag_from = Some(time);
        self
    }

    fn hear(&mut self, batch: &Batch, now: u64) {
        if self.tag_from.is_some_and(|time| now >= time) {
            self.tag_from = None;
            self.interval();
        }
        self.received.batch(batch, now);
    }

    fn none(&self) -> Latencies {
        Latencies::new(self.latency_every, self.floor)
    }

    /// Closes an interval: its latencies. Memory for the next one costs the loop less than emptying or copying that of
    /// the last.
    fn interval(&mut self) -> Latencies {
        let mut latencies = self.none();
        self.received.swap_latencies(&mut latencies);
        latencies
    }
}

/// A tester's end of a cable: a port with a queue each way, used by one thread.
pub struct End {
    queue: Box<dyn TransmitQueue>,
    receive: Box<dyn ReceiveQueue>,
    pool: Arc<dyn Pool>,
    batch: Box<Batch>,
    answers: Box<Batch>,
    /// Who answers for the addresses here.
    pub resident: Option<Resident>,
    pub stream: Option<Stream>,
    pub listener: Option<Listener>,
}

impl End {
    /// A port's queues, and the pool of the packets that are sent; all of one memory.
    pub fn new(
        queue: Box<dyn TransmitQueue>,
        receive: Box<dyn ReceiveQueue>,
        pool: Arc<dyn Pool>,
        memory: &'static dyn Memory,
    ) -> End {
        let (batch, answers) = (Batch::new(memory), Batch::new(memory));
        End { queue, receive, pool, batch, answers, resident: None, stream: None, listener: None }
    }

    /// Sends a frame at once; false if there is no buffer, or no room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        self.answers.refill();
        let Some(packet) = self.pool.packet(frame) else { return false };
        self.answers.push(packet, 0).is_ok() && self.queue.send(&mut self.answers, 1) == 1
    }

    /// Takes what has come; returns the number of frames.
    #[inline]
    pub fn receive(&mut self, clock: Clock<'_>) -> usize {
        self.batch.refill();
        let frames = self.receive.receive(&mut self.batch, BURST.min(BATCH_SIZE));
        if frames > 0 {
            let now = clock();
            let foreign = self.listener.as_mut().map(|listener| {
                let before = listener.received.counters().foreign;
                listener.hear(&self.batch, now);
                listener.received.counters().foreign > before
            });
            // Without a listener, nobody has looked yet.
            if foreign.unwrap_or(true) && self.resident.is_some() {
                self.answer();
            }
        }
        frames
    }

    #[cold]
    fn answer(&mut self) {
        let Some(resident) = &mut self.resident else { return };
        let frames = self.batch.live().iter().filter_map(|slot| self.batch.frame(slot));
        let answers: Vec<Vec<u8>> = frames.filter_map(|frame| resident.hear(frame)).collect();
        for answer in answers {
            self.send(&answer);
        }
    }
}

/// What a station reports once a second, and at its end: its counters, and the latencies since the last time, by
/// listener. All latencies of a trial are those of its reports together: they are summed up elsewhere, as that takes
/// longer than a loop may pause.
pub type Report<'a> = &'a mut dyn FnMut(Snapshot, Vec<Latencies>);

/// One core's ends of cables.
#[derive(Default)]
pub struct Station {
    pub ends: Vec<End>,
}

/// What came of a trial at one station.
pub struct Finished {
    /// The ends, for the next trial: without streams and listeners.
    pub ends: Vec<End>,
    /// By end.
    pub sent: Vec<Option<Sent>>,
    pub heard: Vec<Option<Received>>,
    /// The longest time between two rounds of its loop, ns.
    pub longest_pause: u64,
    pub began: u64,
    pub ended: u64,
}

impl Station {
    /// Runs the trial to its end. `report` is called once a second, and must not take long.
    pub fn run(mut self, clock: Clock<'_>, course: &Course, report: Report<'_>) -> Finished {
        let began = clock();
        let (mut turns, mut next_report) = (Turns::default(), course.reports_begin(began) + SECOND);
        loop {
            let now = clock();
            turns.turn(now);
            let stopped = course.is_stopped();
            let (mut sending, mut listens) = (false, false);
            for end in &mut self.ends {
                if let Some(stream) = end.stream.as_mut().filter(|stream| !stream.ended) {
                    if stopped || !stream.step(&mut *end.queue, &*end.pool, now) {
                        stream.ended = true;
                        course.stream_ended(now);
                    } else {
                        sending = true;
                    }
                }
                // Where nobody listens or answers, the port drops what comes.
                if end.listener.is_some() || end.resident.is_some() {
                    end.receive(clock);
                }
                listens |= end.listener.is_some();
            }
            if now >= next_report {
                next_report += SECOND;
                self.report(now, report);
            }
            let listening = listens && !stopped && course.over_at().is_none_or(|over| now < over);
            if !sending && !listening {
                break;
            }
        }
        let ended = clock();
        self.report(ended, report);
        let mut finished =
            Finished { ends: vec![], sent: vec![], heard: vec![], longest_pause: turns.longest_pause(), began, ended };
        for mut end in self.ends {
            finished.sent.push(end.stream.take().map(|stream| stream.finish(ended)));
            finished.heard.push(end.listener.take().map(|listener| listener.received));
            finished.ends.push(end);
        }
        finished
    }

    fn report(&mut self, now: u64, report: Report<'_>) {
        let mut snapshot = Snapshot { time: now, ..Snapshot::default() };
        for stream in self.ends.iter().filter_map(|end| end.stream.as_ref()) {
            let account = stream.account();
            snapshot.sent += account.sent;
            snapshot.sent_bytes += stream.bytes;
            snapshot.unsent += account.unsent;
        }
        let mut latencies = Vec::new();
        for listener in self.ends.iter_mut().filter_map(|end| end.listener.as_mut()) {
            add(&mut snapshot.received, &listener.received.counters());
            let of_interval = listener.interval();
            latencies.push(if listener.tag_from.is_some() { listener.none() } else { of_interval });
        }
        report(snapshot, latencies);
    }
}

/// Adds the counters of one listener to those of others.
pub fn add(to: &mut Counters, more: &Counters) {
    to.frames += more.frames;
    to.bytes += more.bytes;
    to.unique += more.unique;
    to.missing += more.missing;
    to.duplicates += more.duplicates;
    to.reordered += more.reordered;
    to.stale += more.stale;
    to.corrupted += more.corrupted;
    to.ramp += more.ramp;
    to.other_run += more.other_run;
    to.unknown_flow += more.unknown_flow;
    to.foreign += more.foreign;
}
