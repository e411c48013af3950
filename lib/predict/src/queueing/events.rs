// SPDX-License-Identifier: MIT
//! A core with its rings and its transmit buffers, event by event: for what has no closed form here.
//!
//! The core goes round: it looks into each of its rings, takes up to B packets from it, works for T(n) = burst + the
//! sum of n service times, and puts what it has into the transmit buffer of the port that this ring's packets leave by.
//! A buffer is sent when it holds enough, when its first packet has waited for the timeout, and, if the router does so,
//! at the end of a round that brought nothing. Such a round takes some time itself, so a packet that comes to an idle
//! core waits for the next look.

use super::chain::Sleep;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::VecDeque;

/// Same numbers, same figures.
const SEED: u64 = 0x7065_7269_6765_6531;

/// A transmit buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Packets that are sent at once.
    pub size: usize,
    /// How long the first one waits for others at most, in nanoseconds.
    pub timeout_ns: f64,
    /// Whether it is sent at the end of a round without packets. Then packets of a burst join it together, and half as
    /// many as it holds are sent at once if they find it empty; else they join it one by one.
    pub idle: bool,
}

/// Something else has the core now and then: the system's timer, a hypervisor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pauses {
    /// Mean nanoseconds from one to the next; they come at random.
    pub every_ns: f64,
    /// How long they take, each of these as often as the others, in nanoseconds.
    pub lengths_ns: Vec<f64>,
}

/// A core.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Packets that it takes from a ring at once, at most.
    pub burst: usize,
    /// Places in each ring.
    pub ring: usize,
    /// Time of a burst besides its packets, in nanoseconds.
    pub burst_ns: f64,
    /// Probabilities and service times of packets, in nanoseconds.
    pub packets: Vec<(f64, f64)>,
    /// Time of a round that brings nothing; 0: the core sees a packet when it comes.
    pub poll_ns: f64,
    /// When it sleeps.
    pub sleep: Option<Sleep>,
    /// For each ring.
    pub buffer: Option<Buffer>,
    pub pauses: Option<Pauses>,
}

/// What was seen of the packets that were counted.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub offered: u64,
    pub lost: u64,
    /// From arrival to hand-over, in nanoseconds, in ascending order.
    pub sojourns: Vec<f64>,
    /// Mean packets taken at once.
    pub mean_batch: f64,
    /// Share of time in service, or waking up.
    pub utilisation: f64,
}

impl Seen {
    /// The time that a share of the packets does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.sojourns.len().saturating_sub(1);
        self.sojourns
            .get((share * self.sojourns.len() as f64).ceil() as usize - 1)
            .or(self.sojourns.get(last))
            .copied()
            .unwrap_or(0.0)
    }

    pub fn mean(&self) -> f64 {
        self.sojourns.iter().sum::<f64>() / self.sojourns.len().max(1) as f64
    }
}

/// A time of mean 1.
fn exponential(random: &mut StdRng) -> f64 {
    let share: f64 = random.random();
    -(1.0 - share).ln()
}

/// A ring and its next arrival, and where its packets leave.
struct Ring {
    gap: f64,
    next: f64,
    /// Arrival times, and whether they are counted.
    waiting: VecDeque<(f64, bool)>,
    /// Packets in the buffer, and when the first of them was put in.
    pending: Vec<(f64, bool)>,
    oldest: f64,
}

/// The state of a run.
struct Run<'a> {
    core: &'a Core,
    poisson: bool,
    random: StdRng,
    rings: Vec<Ring>,
    arrived: u64,
    warm_up: u64,
    until: u64,
    /// When the core is taken away next.
    pause: f64,
    seen: Seen,
}

impl Core {
    /// Offers packets at these rates per nanosecond to its rings, at random or at equal distances: `warm_up` that are
    /// not counted, then `count`.
    pub fn run(&self, rates: &[f64], poisson: bool, warm_up: u64, count: u64) -> Seen {
        let ring = |rate: &f64| Ring {
            gap: 1.0 / rate,
            next: 0.0,
            waiting: VecDeque::with_capacity(self.ring),
            pending: Vec::new(),
            oldest: 0.0,
        };
        let mut run = Run {
            core: self,
            poisson,
            random: StdRng::seed_from_u64(SEED),
            rings: rates.iter().filter(|rate| **rate > 0.0).map(ring).collect(),
            arrived: 0,
            warm_up,
            until: warm_up + count,
            pause: f64::INFINITY,
            seen: Seen { sojourns: Vec::with_capacity(count as usize), ..Seen::default() },
        };
        if run.rings.is_empty() {
            return run.seen;
        }
        for ring in 0..run.rings.len() {
            // Constant streams are not in step.
            run.rings[ring].next = run.rings[ring].gap * run.random.random::<f64>();
        }
        run.next_pause(0.0);
        run.rounds();
        let mut seen = run.seen;
        seen.sojourns.sort_unstable_by(f64::total_cmp);
        seen
    }
}

impl Run<'_> {
    fn rounds(&mut self) {
        let (mut now, mut begun, mut busy, mut batches, mut taken) = (0.0_f64, None, 0.0, 0u64, 0u64);
        // Since when nothing came.
        let mut idle_since = 0.0_f64;
        while self.arrived < self.until || self.rings.iter().any(|ring| !ring.waiting.is_empty()) {
            let counting = self.arrived >= self.warm_up;
            if counting && begun.is_none() {
                begun = Some(now);
            }
            let mut found = false;
            for ring in 0..self.rings.len() {
                self.arrive(now);
                let n = self.rings[ring].waiting.len().min(self.core.burst);
                if n == 0 {
                    continue;
                }
                found = true;
                let time = self.burst_time(n);
                now = self.work(now, time);
                if counting {
                    (busy, batches, taken) = (busy + time, batches + 1, taken + n as u64);
                }
                self.hand_over(ring, n, now);
            }
            if found {
                self.flush_if_late(now);
                idle_since = now;
                continue;
            }
            now = self.work(now, self.core.poll_ns);
            match self.core.buffer {
                Some(Buffer { idle: false, .. }) => self.flush_if_late(now),
                _ => self.flush(now),
            }
            // Nothing happens until the next arrival, or until the buffer's time is over.
            let next = self.rings.iter().map(|ring| ring.next).fold(f64::INFINITY, f64::min);
            let due = self.due().unwrap_or(f64::INFINITY);
            let event = next.min(due);
            if event > now {
                let poll = self.core.poll_ns;
                let polls = if poll > 0.0 { ((event - now) / poll).ceil() * poll } else { event - now };
                now = self.idle(now + polls);
                if let Some(Sleep { after_ns, wake_ns }) = self.core.sleep.filter(|_| next <= due)
                    && next - idle_since > after_ns
                {
                    now = now.max(next + wake_ns);
                    if counting {
                        busy += wake_ns;
                    }
                }
                self.flush_if_late(now);
            }
        }
        self.flush(now);
        self.seen.mean_batch = taken as f64 / batches.max(1) as f64;
        self.seen.utilisation = busy / (now - begun.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    }

    /// The end of work that takes so long, with the pauses in it.
    fn work(&mut self, begin: f64, time: f64) -> f64 {
        let mut end = begin + time;
        while self.pause < end {
            // One that passed while the core was idle has cost nothing.
            let length = self.length();
            end += if self.pause >= begin { length } else { 0.0 };
            self.next_pause(self.pause.max(begin));
        }
        end
    }

    /// When a core that had nothing to do until `until` goes on: later, if a pause lasts longer.
    fn idle(&mut self, until: f64) -> f64 {
        let mut end = until;
        while self.pause < until {
            end = end.max(self.pause + self.length());
            self.next_pause(self.pause);
        }
        end
    }

    fn length(&mut self) -> f64 {
        let lengths = self.core.pauses.as_ref().map_or(&[][..], |pauses| &pauses.lengths_ns);
        match lengths.len() {
            0 => 0.0,
            n => lengths[self.random.random_range(0..n)],
        }
    }

    fn next_pause(&mut self, after: f64) {
        let Some(Pauses { every_ns, .. }) = &self.core.pauses else { return };
        self.pause = after + exponential(&mut self.random) * every_ns;
    }

    /// Lets packets come until `now`.
    fn arrive(&mut self, now: f64) {
        for ring in &mut self.rings {
            while ring.next <= now && self.arrived < self.until {
                let counted = self.arrived >= self.warm_up;
                self.arrived += 1;
                self.seen.offered += u64::from(counted);
                if ring.waiting.len() < self.core.ring {
                    ring.waiting.push_back((ring.next, counted));
                } else {
                    self.seen.lost += u64::from(counted);
                }
                let share = if self.poisson { exponential(&mut self.random) } else { 1.0 };
                ring.next += share * ring.gap;
            }
        }
    }

    fn burst_time(&mut self, n: usize) -> f64 {
        if let [(_, time)] = self.core.packets[..] {
            return self.core.burst_ns + n as f64 * time;
        }
        let mut time = self.core.burst_ns;
        for _ in 0..n {
            let mut left = self.random.random::<f64>();
            let packet = self.core.packets.iter().find(|(probability, _)| {
                left -= probability;
                left < 0.0
            });
            time += packet.or(self.core.packets.last()).map_or(0.0, |(_, time)| *time);
        }
        time
    }

    /// A burst is done.
    fn hand_over(&mut self, ring: usize, n: usize, now: f64) {
        let taken: Vec<_> = self.rings[ring].waiting.drain(..n).collect();
        let Some(Buffer { size, idle, .. }) = self.core.buffer else { return self.leave(taken, now) };
        if idle && self.rings[ring].pending.is_empty() && 2 * n >= size {
            return self.leave(taken, now);
        }
        if idle {
            self.put(ring, &taken, size, now);
        } else {
            taken.chunks(1).for_each(|packet| self.put(ring, packet, size, now));
        }
    }

    /// Packets join a buffer together.
    fn put(&mut self, ring: usize, packets: &[(f64, bool)], size: usize, now: f64) {
        let Ring { pending, oldest, .. } = &mut self.rings[ring];
        if pending.is_empty() {
            *oldest = now;
        }
        pending.extend(packets);
        if pending.len() >= size {
            self.flush_one(ring, now);
        }
    }

    /// When a buffer's time is over, if something waits in it.
    fn due_of(&self, ring: &Ring) -> Option<f64> {
        let buffer = self.core.buffer.filter(|_| !ring.pending.is_empty())?;
        Some(ring.oldest + buffer.timeout_ns)
    }

    /// When the first buffer's time is over.
    fn due(&self) -> Option<f64> {
        self.rings.iter().filter_map(|ring| self.due_of(ring)).min_by(f64::total_cmp)
    }

    fn flush_if_late(&mut self, now: f64) {
        for ring in 0..self.rings.len() {
            if self.due_of(&self.rings[ring]).is_some_and(|due| due <= now) {
                self.flush_one(ring, now);
            }
        }
    }

    fn flush(&mut self, now: f64) {
        for ring in 0..self.rings.len() {
            self.flush_one(ring, now);
        }
    }

    fn flush_one(&mut self, ring: usize, now: f64) {
        let pending = std::mem::take(&mut self.rings[ring].pending);
        self.leave(pending, now);
    }

    fn leave(&mut self, packets: Vec<(f64, bool)>, now: f64) {
        self.seen.sojourns.extend(packets.into_iter().filter(|(_, counted)| *counted).map(|(came, _)| now - came));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::{BatchServer, Md1};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn core(burst: usize, burst_ns: f64, packet_ns: f64) -> Core {
        Core {
            burst,
            ring: 512,
            burst_ns,
            packets: vec![(1.0, packet_ns)],
            poll_ns: 0.0,
            sleep: None,
            buffer: None,
            pauses: None,
        }
    }

    #[test]
    fn single_packets_are_md1() {
        let seen = core(1, 0.0, 100.0).run(&[0.007], true, 50_000, 1_000_000);
        let exact = Md1::new(0.007, 100.0).expect("below 1");
        for share in [0.5, 0.9, 0.99] {
            let found = exact.sojourn_at_most(seen.quantile(share));
            assert!((found - share).abs() < 0.01, "{share}: {found}");
        }
        assert!(seen.lost == 0 && (seen.utilisation - 0.7).abs() < 0.01);
    }

    #[test]
    fn a_constant_rate_waits_for_nobody() {
        let seen = core(32, 100.0, 50.0).run(&[0.004], false, 100, 10_000);
        assert_eq!((seen.offered, seen.lost), (10_000, 0));
        assert!((seen.quantile(0.99) - 150.0).abs() < 1e-6 && seen.mean_batch == 1.0);
        // A look every 40 ns: none waits longer for one.
        let polled = Core { poll_ns: 40.0, ..core(32, 100.0, 50.0) }.run(&[0.0041], false, 100, 10_000);
        assert!(polled.sojourns[0] >= 150.0 && polled.quantile(1.0) <= 190.0 + 1e-6);
        assert!((polled.mean() - 170.0).abs() < 5.0, "{}", polled.mean());
    }

    #[test]
    fn a_buffer_is_sent_when_full_when_late_and_when_idle() {
        let with =
            |size, timeout_ns, idle| Core { buffer: Some(Buffer { size, timeout_ns, idle }), ..core(32, 100.0, 50.0) };
        // One packet in 1000 ns.
        let late = with(8, 2_500.0, false).run(&[0.001], false, 80, 8_000);
        assert!((late.quantile(1.0) - 2_650.0).abs() < 1.0, "{}", late.quantile(1.0));
        let full = with(4, 1e9, false).run(&[0.001], false, 80, 8_000);
        assert!((full.quantile(0.9) - 3_150.0).abs() < 1.0 && (full.sojourns[0] - 150.0).abs() < 1.0);
        // Each ring's packets leave by their own port, so the four that a buffer waits for come half as fast.
        let two = with(4, 1e9, false).run(&[0.0005, 0.0005], false, 80, 8_000);
        assert!((two.quantile(0.9) - 6_150.0).abs() < 1.0, "{}", two.quantile(0.9));
        let idle = with(8, 1e9, true).run(&[0.001], false, 80, 8_000);
        assert!((idle.quantile(0.99) - 150.0).abs() < 1.0, "{}", idle.quantile(0.99));
    }

    #[test]
    fn pauses_make_packets_late_and_the_core_slower() {
        let pauses = Pauses { every_ns: 1e6, lengths_ns: vec![10_000.0, 30_000.0] };
        let paused = |rate: f64| {
            Core { pauses: Some(pauses.clone()), ..core(32, 0.0, 50.0) }.run(&[rate], true, 10_000, 2_000_000)
        };
        let idle = paused(0.0001);
        // Who comes in a pause waits for its end: 2 % of the time, 12.5 us on the mean.
        assert!((idle.mean() - 50.0 - 250.0).abs() < 30.0, "{}", idle.mean());
        assert!(idle.quantile(0.97) < 200.0 && idle.quantile(0.995) > 5_000.0);
        let loss = |seen: &Seen| seen.lost as f64 / seen.offered as f64;
        assert!((loss(&paused(0.04)) - (1.0 - 0.02 / 0.04 / 1.02)).abs() < 0.02);
    }

    #[test]
    fn overload_loses_what_is_too_much() {
        let server = core(32, 320.0, 40.0);
        // 50 ns per packet.
        let seen = server.run(&[0.03], true, 100_000, 1_000_000);
        let loss = seen.lost as f64 / seen.offered as f64;
        assert!((loss - 1.0 / 3.0).abs() < 0.01 && (seen.mean_batch - 32.0).abs() < 0.1, "{loss}");
    }

    proptest! {
        // The same twelve each time: means of a simulation are a matter of chance.
        #![proptest_config(ProptestConfig {
            cases: 12,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// Means are those of the Markov chain.
        #[test]
        fn agrees_with_the_chain(burst in 1..40_usize, burst_ns in 0.0..500.0, packet_ns in 10.0..100.0, load in 0.1..0.85, wake in any::<bool>()) {
            let sleep = wake.then_some(Sleep { after_ns: 2_000.0, wake_ns: 5_000.0 });
            let packets = vec![(0.5, packet_ns), (0.5, 2.0 * packet_ns)];
            let server = BatchServer { burst, ring: 512, burst_ns, packets: packets.clone(), sleep };
            let rate = load * server.capacity();
            let exact = server.solve(rate).expect("small");
            let seen = Core { packets, sleep, ..core(burst, burst_ns, 0.0) }.run(&[rate], true, 100_000, 1_000_000);
            prop_assert!((seen.mean() / exact.mean_sojourn_ns - 1.0).abs() < 0.05, "{} {}", seen.mean(), exact.mean_sojourn_ns);
            prop_assert!((seen.mean_batch / exact.mean_batch - 1.0).abs() < 0.03);
            prop_assert!((seen.utilisation - exact.utilisation).abs() < 0.02);
        }
    }
}
