// SPDX-License-Identifier: MIT
//! A server that takes up to B packets at once from a ring with K places: M/G^\[1,B\]/1/K.
//!
//! The server looks into the ring whenever it is done: with q packets there it takes n = min(q, B) of them, works for
//! T(n) = burst + the sum of n service times, and hands all n over at the end. An empty ring makes it wait for one
//! packet; if it slept by then, it wakes first, and more packets come meanwhile. Packets that find K in the ring are
//! lost. With B = 1 and no overhead this is M/G/1/K; with constant times M/D/1/K.
//!
//! What is in the ring at the ends of services is a Markov chain ("embedded": Kendall 1953; for bulk service Bailey
//! 1954). Its stationary distribution comes from Grassmann, Taksar and Heyman's elimination (1985), which adds,
//! multiplies and divides positive numbers only; it keeps the band that the matrix has, as no step takes more than B
//! packets out.

use super::poisson::{convolve, poisson, tails};

/// Most matrix elements, and most steps of the elimination, that are worthwhile; beyond, simulate.
const MAX_ELEMENTS: usize = 40_000_000;
const MAX_STEPS: f64 = 4e9;
/// Most packets expected in a full burst's time or in the time to wake, and most probabilities of arrivals in bursts of
/// all sizes.
const MAX_ARRIVALS: f64 = 1e6;
const MAX_PROBABILITIES: f64 = 2e7;
/// What is less likely than this is taken as impossible. Its inverse, times itself, is still a number.
const MIN_PROBABILITY: f64 = 1e-100;
/// States beyond which almost nothing is are left out: e to this power.
const CUT_EXPONENT: f64 = 45.0;

/// The server.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchServer {
    /// B: packets that it takes at once, at most.
    pub burst: usize,
    /// K: places in the ring; those that it works on are not in it.
    pub ring: usize,
    /// Time of a burst besides its packets, in nanoseconds.
    pub burst_ns: f64,
    /// Probabilities and service times of packets, in nanoseconds.
    pub packets: Vec<(f64, f64)>,
    /// When it sleeps.
    pub sleep: Option<Sleep>,
}

/// Sleep of a server that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// Idle nanoseconds after which it sleeps.
    pub after_ns: f64,
    /// Nanoseconds from the packet that wakes it until it takes packets.
    pub wake_ns: f64,
}

/// A chain that is too large to be worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the queue of a burst of {burst} and a ring of {ring} is too large for a closed form here: simulate")]
pub struct TooLarge {
    pub(super) burst: usize,
    pub(super) ring: usize,
}

/// A server in its steady state.
#[derive(Clone, Debug)]
pub struct Steady {
    /// Offered packets per nanosecond.
    pub rate: f64,
    /// Share of the offered packets that find the ring full.
    pub loss: f64,
    /// Mean time from arrival to the end of service of those that do not, in nanoseconds.
    pub mean_sojourn_ns: f64,
    /// Mean packets taken at once.
    pub mean_batch: f64,
    /// Share of time in service, or waking up.
    pub utilisation: f64,
    /// By the number of packets in the ring, the probability that a service begins with them, its own included.
    pub(super) begin: Vec<f64>,
    /// Per service, the probability that it waited for a packet while awake.
    pub(super) idle: f64,
    /// Per service, the probability that it was woken.
    pub(super) woken: f64,
    /// Places of the ring that were looked at; less than the ring where almost no packet gets beyond.
    pub(super) places: usize,
    pub(super) server: BatchServer,
}

impl BatchServer {
    /// Mean time of a burst of n, in nanoseconds.
    pub fn burst_time(&self, n: usize) -> f64 {
        self.burst_ns + n as f64 * self.packet_time()
    }

    /// Mean time of a packet besides its part of the burst, in nanoseconds.
    pub fn packet_time(&self) -> f64 {
        self.packets.iter().map(|(probability, time)| probability * time).sum()
    }

    /// What it serves when the ring is never empty, in packets per nanosecond: the load is relative to this.
    pub fn capacity(&self) -> f64 {
        self.burst as f64 / self.burst_time(self.burst)
    }

    /// The steady state with `rate` Poisson arrivals per nanosecond.
    ///
    /// # Errors
    /// Rings and bursts of many thousand packets, whose chain would take minutes; millions of packets in a burst's
    /// time.
    pub fn solve(&self, rate: f64) -> Result<Steady, TooLarge> {
        let waking_ns = self.sleep.map_or(0.0, |sleep| sleep.wake_ns);
        let in_burst = rate * self.burst_time(self.burst);
        if in_burst.max(rate * waking_ns) > MAX_ARRIVALS || in_burst * self.burst as f64 > MAX_PROBABILITIES {
            return Err(self.too_large());
        }
        let places = self.places(rate);
        let arrivals = self.arrivals(rate);
        let waking = self.sleep.map_or_else(|| vec![1.0], |sleep| poisson(rate * sleep.wake_ns));
        let asleep = self.sleep.map_or(0.0, |sleep| (-rate * sleep.after_ns).exp());
        let after_idle = after_idle(asleep, &waking, places);
        let rows = self.rows(&arrivals, &after_idle, places)?;
        let ends = stationary(rows);
        let mut begin = ends.clone();
        begin[0] = 0.0;
        for (b, p) in begin.iter_mut().zip(&after_idle) {
            *b += ends[0] * p;
        }
        let mut steady = Steady {
            rate,
            loss: 0.0,
            mean_sojourn_ns: 0.0,
            mean_batch: 0.0,
            utilisation: 0.0,
            begin,
            idle: ends[0] * (1.0 - asleep),
            woken: ends[0] * asleep,
            places,
            server: self.clone(),
        };
        steady.count(&arrivals, &waking);
        Ok(steady)
    }

    pub(super) fn too_large(&self) -> TooLarge {
        TooLarge { burst: self.burst, ring: self.ring }
    }

    /// Probabilities of arrivals during a service of n, for n = 0..=B.
    fn arrivals(&self, rate: f64) -> Vec<Vec<f64>> {
        if let [(_, time)] = self.packets[..] {
            return (0..=self.burst).map(|n| poisson(rate * (self.burst_ns + n as f64 * time))).collect();
        }
        let of_packets: Vec<_> = self.packets.iter().map(|(p, time)| (p, poisson(rate * time))).collect();
        let longest = of_packets.iter().map(|(_, numbers)| numbers.len()).max().unwrap_or(1);
        let mut one = vec![0.0; longest];
        for (probability, numbers) in &of_packets {
            for (sum, p) in one.iter_mut().zip(numbers) {
                *sum += *probability * p;
            }
        }
        let mut all = vec![poisson(rate * self.burst_ns)];
        for n in 0..self.burst {
            all.push(convolve(&all[n], &one));
        }
        all
    }

    /// The ring's places, or fewer if the queue practically never gets there: below full load its tail falls like
    /// `z^-q`, z > 1 being the root of `E[z^arrivals in T(B)] = z^B`.
    fn places(&self, rate: f64) -> usize {
        if rate >= self.capacity() {
            return self.ring;
        }
        let b = self.burst as f64;
        // Falls short of 0 between 1 and the root.
        let excess = |log_z: f64| {
            let z = log_z.exp_m1();
            let one: f64 = self.packets.iter().map(|(p, time)| p * (rate * time * z).exp()).sum();
            rate * self.burst_ns * z + b * one.ln() - b * log_z
        };
        let mut high = 1e-6;
        while excess(high) < 0.0 {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if excess(middle) < 0.0 { low = middle } else { high = middle }
        }
        let waking = self.sleep.map_or(0.0, |sleep| rate * sleep.wake_ns);
        let far = 2.0 * b + CUT_EXPONENT / low.max(1e-12) + waking + 12.0 * waking.sqrt() + 40.0;
        if far < self.ring as f64 { far as usize } else { self.ring }
    }

    /// The chain's transitions: row q has what is in the ring after a service that began when q were there.
    fn rows(&self, arrivals: &[Vec<f64>], after_idle: &[f64], places: usize) -> Result<Vec<Row>, TooLarge> {
        let width = arrivals[self.burst].len().min(places + 1);
        let elements = (places + 1).saturating_mul(width + self.burst.min(places));
        if elements > MAX_ELEMENTS || elements as f64 * self.burst as f64 > MAX_STEPS {
            return Err(self.too_large());
        }
        let mut rows: Vec<Row> = Vec::with_capacity(places + 1);
        for q in 0..=places {
            let lowest = q.saturating_sub(self.burst);
            let mut row = Row { lowest, weights: Vec::new() };
            if q == 0 {
                for (c, &p) in after_idle.iter().enumerate().filter(|(_, p)| **p > 0.0) {
                    row.add(&arrivals[c.min(self.burst)], c.saturating_sub(self.burst), p, places);
                }
            } else {
                row.add(&arrivals[q.min(self.burst)], lowest, 1.0, places);
            }
            rows.push(row);
        }
        // Elimination fills the band up to its upper edge, which must never fall from row to row.
        let mut highest = 0;
        for (q, row) in rows.iter_mut().enumerate().skip(1) {
            highest = highest.max(row.lowest + row.weights.len() - 1).max(q);
            row.weights.resize(highest - row.lowest + 1, 0.0);
        }
        Ok(rows)
    }
}

/// Packets in the ring when a service begins that found it empty: one, or those of the time to wake.
fn after_idle(asleep: f64, waking: &[f64], places: usize) -> Vec<f64> {
    let mut packets = vec![0.0; (waking.len() + 1).min(places + 1)];
    packets[1] = 1.0 - asleep;
    for (more, p) in waking.iter().enumerate() {
        packets[(1 + more).min(places)] += asleep * p;
    }
    packets
}

/// A row of the chain, from its first state on.
struct Row {
    lowest: usize,
    weights: Vec<f64>,
}

impl Row {
    /// Adds a move to `rest` and as many more as arrive, `places` at most.
    fn add(&mut self, arrivals: &[f64], rest: usize, probability: f64, places: usize) {
        let first = rest - self.lowest;
        let needed = (first + arrivals.len()).min(places - self.lowest + 1);
        if self.weights.len() < needed {
            self.weights.resize(needed, 0.0);
        }
        for (number, p) in arrivals.iter().enumerate() {
            self.weights[(first + number).min(places - self.lowest)] += probability * p;
        }
    }

    fn highest(&self) -> usize {
        self.lowest + self.weights.len() - 1
    }
}

/// The stationary distribution: states are taken out from the last one down, then put in again from the first one up.
///
/// Far above full load a ring that has n packets never has fewer again: states below are as good as impossible.
fn stationary(mut rows: Vec<Row>) -> Vec<f64> {
    let last = rows.len() - 1;
    let mut first = 0;
    for n in (1..=last).rev() {
        let (above, from_n) = rows.split_at_mut(n);
        let row = &from_n[0];
        let lower = &row.weights[..n - row.lowest];
        let down: f64 = lower.iter().sum();
        if down < MIN_PROBABILITY {
            first = n;
            break;
        }
        let through = |other: &mut Row| {
            let Some(p) = other.weights.get_mut(n - other.lowest).filter(|p| **p > 0.0) else { return };
            *p /= down;
            let p = *p;
            let first = row.lowest - other.lowest;
            for (sum, q) in other.weights[first..].iter_mut().zip(lower) {
                *sum += p * q;
            }
        };
        let (zero, others) = above.split_at_mut(1);
        through(&mut zero[0]);
        others.iter_mut().rev().take_while(|other| other.highest() >= n).for_each(through);
    }
    let mut states = vec![0.0; last + 1];
    states[first] = 1.0;
    for i in first..last {
        // Above full load the first states are smaller than the last by more than a number can hold.
        if states[i] > 1.0 / MIN_PROBABILITY {
            states.iter_mut().for_each(|state| *state *= MIN_PROBABILITY);
        }
        let from = states[i];
        let row = &rows[i];
        for (state, p) in states[i + 1..].iter_mut().zip(&row.weights[i + 1 - row.lowest..]) {
            *state += from * p;
        }
    }
    let sum: f64 = states.iter().sum();
    states.iter_mut().for_each(|state| *state /= sum);
    states
}

impl Steady {
    /// Adds up one cycle, from the end of a service to the end of the next.
    fn count(&mut self, arrivals: &[Vec<f64>], waking: &[f64]) {
        let (server, places) = (&self.server, self.places);
        let above: Vec<_> = arrivals.iter().map(|numbers| tails(numbers)).collect();
        let (mut served, mut busy, mut in_service) = (0.0, 0.0, 0.0);
        let (mut lost, mut in_ring) = (0.0, 0.0);
        for (c, &p) in self.begin.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let n = c.min(server.burst);
            let time = server.burst_time(n);
            served += p * n as f64;
            busy += p * time;
            in_service += p * n as f64 * time;
            let (overflow, ring) = during(&above[n], c - n, places);
            lost += p * overflow;
            in_ring += p * ring;
        }
        let (overflow, ring) = during(&tails(waking), 1, places);
        lost += self.woken * overflow;
        in_ring += self.woken * ring;
        let wake_ns = server.sleep.map_or(0.0, |sleep| sleep.wake_ns);
        busy += self.woken * wake_ns;
        let cycle = busy + (self.idle + self.woken) / self.rate;
        self.mean_batch = served;
        // By Little's law: packets and time in the ring, per packet; and each packet of a burst stays for all of it.
        self.mean_sojourn_ns = (in_ring / self.rate + in_service) / served;
        self.utilisation = busy / cycle;
        // Where the ring is cut there is no loss; what the chain lost at the cut is below 1e-15.
        self.loss = if places < server.ring { 0.0 } else { lost / (lost + served) };
    }
}

/// Packets that are lost in an interval which begins with `rest` in the ring, and packets in the ring, as the mean
/// number that arrivals of the interval find there, per arrival expected in it.
///
/// The expected time with j arrivals so far is `P(more than j arrive) / rate`.
fn during(above: &[f64], rest: usize, places: usize) -> (f64, f64) {
    let (mut lost, mut ring) = (0.0, 0.0);
    for (j, p) in above.iter().enumerate() {
        if rest + j >= places {
            lost += p;
        }
        ring += p * (rest + j).min(places) as f64;
    }
    (lost, ring)
}

#[cfg(test)]
mod tests;
