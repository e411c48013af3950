// SPDX-License-Identifier: MIT
//! The distribution of the sojourn time at a [`BatchServer`](super::BatchServer), on a grid.
//!
//! A packet that arrives with j others in the ring waits for the rest R of the service (or of the time to wake), then
//! for m = j / B full bursts, then for its own: that has the packets between the burst's first and itself, itself, and
//! as many of those behind it as have come by then and fit. So
//!
//! ```text
//! sojourn = R + T(B) + ... + T(B) + T(n),   n = min(B, j % B + 1 + Poisson(rate (R + m T(B))))
//! ```
//!
//! The chain gives how services begin; R and j follow from the time since (both grow and shrink with it, so they are
//! kept together); T(n) are convolutions of service times. Time has cells of the same width, as many as make the result
//! exact to about a thousandth. Everything is added up, nothing is drawn at random.
//!
//! One thing is left out: in a ring that is full behind the packet, some of those who would share its burst are lost.
//! That matters only where the ring is smaller than two bursts and full; the mean, which the chain knows exactly,
//! tells.

use super::chain::{Steady, TooLarge};
use super::poisson::{convolve, cut, poisson};

/// Cells of the longest sojourn.
const CELLS: f64 = 2000.0;
/// Sums over positions and batches of all cells, at most; fewer cells for large bursts.
const TARGET_SUMS: f64 = 4e7;
/// Most sums, and most numbers in the table of arrivals, that are worth it; beyond, simulate.
const MAX_SUMS: f64 = 1e9;
const MAX_ELEMENTS: usize = 40_000_000;
/// The distribution's mean may differ from the chain's by this share.
const MEAN_TOLERANCE: f64 = 0.02;
/// Loss below which it does not matter to times.
const NEGLIGIBLE_LOSS: f64 = 1e-9;
/// What is less likely is left out.
const NEGLIGIBLE: f64 = 1e-10;

/// Times with their probabilities: spread evenly over cells, and some exactly.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    step: f64,
    /// Probability of less than `i` steps, from cells alone.
    below: Vec<f64>,
    exact: Vec<(f64, f64)>,
}

impl Distribution {
    fn new(step: f64, cells: &[f64], exact: Vec<(f64, f64)>) -> Self {
        let all = cells.iter().sum::<f64>() + exact.iter().map(|(_, p)| p).sum::<f64>();
        let mut sum = 0.0;
        let mut below = vec![0.0];
        below.extend(cells.iter().map(|cell| {
            sum += cell / all;
            sum
        }));
        Self { step, below, exact: exact.into_iter().map(|(time, p)| (time, p / all)).collect() }
    }

    /// Probability of at most `time` nanoseconds.
    pub fn at_most(&self, time: f64) -> f64 {
        let exact: f64 = self.exact.iter().filter(|(at, _)| *at <= time).map(|(_, p)| p).sum();
        let place = (time / self.step).max(0.0);
        let cell = place as usize;
        let last = self.below.len() - 1;
        if cell >= last {
            return exact + self.below[last];
        }
        exact + self.below[cell] + (self.below[cell + 1] - self.below[cell]) * place.fract()
    }

    /// Mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        let cells =
            self.below.windows(2).enumerate().map(|(i, pair)| (pair[1] - pair[0]) * (i as f64 + 0.5) * self.step);
        cells.sum::<f64>() + self.exact.iter().map(|(time, p)| time * p).sum::<f64>()
    }

    /// A time in nanoseconds that none exceeds.
    pub fn longest(&self) -> f64 {
        self.exact.iter().map(|(time, _)| *time).fold(self.step * (self.below.len() - 1) as f64, f64::max)
    }
}

/// The time that a share of all does not exceed: the least t with `at_most(t) >= share`, found between 0 and `longest`.
pub fn quantile(share: f64, longest: f64, at_most: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, longest);
    while high - low > 1e-7 * high {
        let middle = 0.5 * (low + high);
        if at_most(middle) < share { low = middle } else { high = middle }
    }
    high
}

impl Steady {
    /// The distribution of the sojourn time of packets that are not lost.
    ///
    /// # Errors
    /// Full rings of many thousand packets, and those that the grid is not exact for: its mean is not the chain's.
    pub fn sojourn(&self) -> Result<Distribution, TooLarge> {
        let grid = Grid::new(self)?;
        let arrivals = grid.arrivals()?;
        let waits = grid.waits(&arrivals);
        let mut cells = grid.services(&waits);
        cut(&mut cells, 1e-12);
        let exact = self.server.packets.iter().map(|(p, time)| (self.server.burst_ns + time, p * self.idle));
        let found = Distribution::new(grid.step, &cells, exact.collect());
        let close = (found.mean() / self.mean_sojourn_ns - 1.0).abs() <= MEAN_TOLERANCE;
        if close { Ok(found) } else { Err(self.server.too_large()) }
    }
}

/// Time in cells, and services in them.
struct Grid<'a> {
    steady: &'a Steady,
    step: f64,
    /// Cells of the longest sojourn.
    cells: usize,
    /// Most packets of a burst that need be looked at: B, or fewer at low load.
    most: usize,
    /// Highest number of packets found in the ring.
    found: usize,
    /// Time of a burst of n = 0..=most, in steps.
    times: Vec<Steps>,
}

/// A number of steps at random: probabilities from `first` on.
#[derive(Clone)]
struct Steps {
    first: usize,
    probabilities: Vec<f64>,
}

impl Steps {
    /// A time, split between the neighbouring grid points so that its mean stays.
    fn of(time: f64, step: f64) -> Self {
        let place = time / step;
        let rest = place.fract();
        // A tiny distance from a grid point is rounding.
        if !(1e-9..=1.0 - 1e-9).contains(&rest) {
            return Self { first: place.round() as usize, probabilities: vec![1.0] };
        }
        Self { first: place as usize, probabilities: vec![1.0 - rest, rest] }
    }

    /// One of several times.
    fn mixed(times: &[(f64, f64)], step: f64) -> Self {
        let parts: Vec<_> = times.iter().map(|(p, time)| (*p, Self::of(*time, step))).collect();
        let first = parts.iter().map(|(_, part)| part.first).min().unwrap_or(0);
        let end = parts.iter().map(|(_, part)| part.first + part.probabilities.len()).max().unwrap_or(1);
        let mut probabilities = vec![0.0; end - first];
        for (p, part) in &parts {
            for (sum, q) in probabilities[part.first - first..].iter_mut().zip(&part.probabilities) {
                *sum += p * q;
            }
        }
        Self { first, probabilities }
    }

    fn plus(&self, other: &Self) -> Self {
        let mut sum = Self {
            first: self.first + other.first,
            probabilities: convolve(&self.probabilities, &other.probabilities),
        };
        cut(&mut sum.probabilities, NEGLIGIBLE * 1e-3);
        let low = sum.probabilities.iter().position(|p| *p > NEGLIGIBLE * 1e-5).unwrap_or(0);
        sum.first += low;
        sum.probabilities.drain(..low);
        sum
    }

    fn end(&self) -> usize {
        self.first + self.probabilities.len()
    }

    /// Adds these steps to each cell of `from`, into `to`.
    fn shift(&self, from: &[f64], to: &mut [f64]) {
        let Some(begin) = from.iter().position(|cell| *cell > 0.0) else { return };
        let end = from.iter().rposition(|cell| *cell > 0.0).map_or(0, |last| last + 1);
        for (steps, p) in (self.first..).zip(&self.probabilities) {
            if begin + steps >= to.len() {
                break;
            }
            for (sum, cell) in to[begin + steps..].iter_mut().zip(&from[begin..end]) {
                *sum += p * cell;
            }
        }
    }
}

/// Expected arrivals of a service, by what is left of it and what they find in the ring.
struct Arrivals {
    /// Lowest number found; the highest is the grid's.
    lowest: usize,
    /// A row per cell of time left, a column per number found.
    rows: Vec<Vec<f64>>,
}

impl<'a> Grid<'a> {
    fn new(steady: &'a Steady) -> Result<Self, TooLarge> {
        let server = &steady.server;
        let mut left = 0.0;
        let mut begun = steady.begin.len() - 1;
        while begun > 1 && left + steady.begin[begun] < NEGLIGIBLE {
            left += steady.begin[begun];
            begun -= 1;
        }
        let wake_ns = if steady.woken > NEGLIGIBLE { server.sleep.map_or(0.0, |sleep| sleep.wake_ns) } else { 0.0 };
        // Arrivals that almost no interval exceeds.
        let arrive = |time: f64| {
            let mean = steady.rate * time;
            (mean + 7.0 * mean.sqrt() + 8.0) as usize
        };
        let found = begun.saturating_sub(server.burst) + arrive(longest(steady, begun.min(server.burst)));
        let found = found.max(if wake_ns > 0.0 { 1 + arrive(wake_ns) } else { 0 }).min(steady.places - 1);
        let most = if found >= server.burst { server.burst } else { begun.max(found + 1).min(server.burst) };
        let service = longest(steady, most);
        let bursts = found / server.burst;
        let full = bursts.saturating_sub(1) as f64 * server.burst_ns + longest(steady, bursts * server.burst);
        let all = service.max(wake_ns) + full + service;
        let mut cells = CELLS.min(TARGET_SUMS / (most * most) as f64).max(400.0);
        // Where packets are lost, it matters which of those arriving within a cell was first, so there should rarely be
        // two.
        if steady.loss > NEGLIGIBLE_LOSS {
            cells = cells.max(4.0 * all * steady.rate);
        }
        if cells * (found + most * most) as f64 > MAX_SUMS {
            return Err(server.too_large());
        }
        let mut step = all / cells;
        // A single packet's time on the grid, if it is more than a few steps, is exact.
        let one = server.burst_time(1);
        if one > 4.0 * step {
            step = one / (one / step).ceil();
        }
        let packet = Steps::mixed(&server.packets, step);
        let mut times = vec![Steps::of(server.burst_ns, step)];
        for n in 1..=most {
            times.push(match server.packets[..] {
                [(_, time)] => Steps::of(server.burst_ns + n as f64 * time, step),
                _ => times[n - 1].plus(&packet),
            });
        }
        let cells = (all / step) as usize + 4;
        Ok(Self { steady, step, cells, most, found, times })
    }

    /// Arrivals while the server works or wakes.
    fn arrivals(&self) -> Result<Arrivals, TooLarge> {
        let steady = self.steady;
        let burst = steady.server.burst;
        let lowest = steady.begin.iter().position(|p| *p > NEGLIGIBLE * 1e-3).unwrap_or(0).saturating_sub(burst);
        let longest = self.times.iter().map(Steps::end).max().unwrap_or(1);
        let waking =
            steady.server.sleep.filter(|_| steady.woken > 0.0).map(|sleep| Steps::of(sleep.wake_ns, self.step));
        let rows = longest.max(waking.as_ref().map_or(0, Steps::end));
        let columns = self.found + 1 - lowest.min(self.found);
        if rows.saturating_mul(columns) > MAX_ELEMENTS {
            return Err(steady.server.too_large());
        }
        let mut arrivals = Arrivals { lowest, rows: vec![vec![0.0; columns]; rows] };
        // Services that leave nothing in the ring at first, all n together.
        let mut ends = vec![0.0; longest];
        for (p, time) in steady.begin.iter().zip(&self.times).take(burst) {
            for (end, q) in ends[time.first..].iter_mut().zip(&time.probabilities) {
                *end += p * q;
            }
        }
        self.during(&mut arrivals, vec![1.0], &Steps { first: 0, probabilities: ends });
        // Full ones, with what they leave.
        if self.most == burst {
            let rest: Vec<_> = steady.begin.iter().skip(burst).copied().collect();
            self.during(&mut arrivals, rest, &self.times[burst]);
        }
        if let Some(waking) = waking {
            self.during(&mut arrivals, vec![0.0, steady.woken], &waking);
            // The packet that woke the server found nobody, and has all of the time before it.
            if arrivals.lowest == 0 {
                for (end, p) in (waking.first..).zip(&waking.probabilities) {
                    arrivals.rows[end.saturating_sub(1)][0] += steady.woken * p;
                }
            }
        }
        Ok(arrivals)
    }

    /// Adds the arrivals of an interval that begins with `ring` (weights by number) and takes `steps`.
    fn during(&self, arrivals: &mut Arrivals, mut ring: Vec<f64>, steps: &Steps) {
        let rate = self.steady.rate * self.step;
        ring.truncate(self.steady.places);
        let (mut half, mut whole) = (poisson(0.5 * rate), poisson(rate));
        cut(&mut half, NEGLIGIBLE * 1e-6);
        cut(&mut whole, NEGLIGIBLE * 1e-6);
        for cell in 0..steps.end().saturating_sub(1) {
            ring = convolve(&ring, if cell == 0 { &half } else { &whole });
            // Who finds the ring full is lost; the others find `found` at most.
            ring.truncate(self.found + 1);
            let Some(numbers) = ring.get(arrivals.lowest..) else { continue };
            let begin = steps.first.max(cell + 1);
            let Some(ends) = steps.probabilities.get(begin - steps.first..) else { break };
            for (end, p) in (begin..).zip(ends).filter(|(_, p)| **p > 0.0) {
                let row = &mut arrivals.rows[end - 1 - cell];
                for (sum, number) in row.iter_mut().zip(numbers) {
                    *sum += rate * p * number;
                }
            }
        }
    }

    /// Times until a packet's own burst begins, by that burst's number of packets.
    fn waits(&self, arrivals: &Arrivals) -> Vec<Vec<f64>> {
        let burst = self.steady.server.burst;
        let behind: Vec<_> = (0..self.cells).map(|cell| self.behind(cell)).collect();
        let mut waits = vec![vec![0.0; self.cells]; self.most + 1];
        let (mut wait, mut before) = (vec![0.0; self.cells], vec![0.0; self.cells]);
        for place in 1..=self.most.min(self.found + 1) {
            wait.fill(0.0);
            for bursts in (0..=(self.found + 1 - place) / burst).rev() {
                std::mem::swap(&mut wait, &mut before);
                wait.fill(0.0);
                if let Some(time) = self.times.get(burst) {
                    time.shift(&before, &mut wait);
                }
                if let Some(column) = (bursts * burst + place - 1).checked_sub(arrivals.lowest) {
                    for (sum, row) in wait.iter_mut().zip(&arrivals.rows) {
                        *sum += row.get(column).copied().unwrap_or(0.0);
                    }
                }
            }
            for (cell, p) in wait.iter().enumerate().filter(|(_, p)| **p > 0.0) {
                let mut rest = 1.0;
                let fit = self.most - place;
                for (more, q) in behind[cell].iter().take(fit).enumerate() {
                    waits[place + more][cell] += p * q;
                    rest -= q;
                }
                waits[self.most][cell] += p * rest.max(0.0);
            }
        }
        waits
    }

    /// Probabilities of 0, 1, ... packets behind one that waits until the middle of a cell; as many as matter.
    fn behind(&self, cell: usize) -> Vec<f64> {
        let mean = self.steady.rate * self.step * (cell as f64 + 0.5);
        // Far more than a burst: it will be full.
        if mean > self.most as f64 + 9.0 * mean.sqrt() {
            return Vec::new();
        }
        let mut numbers = poisson(mean);
        numbers.truncate(self.most);
        numbers
    }

    /// Waits and the bursts after them.
    fn services(&self, waits: &[Vec<f64>]) -> Vec<f64> {
        let mut cells = vec![0.0; self.cells];
        for (time, wait) in self.times.iter().zip(waits).skip(1) {
            time.shift(wait, &mut cells);
        }
        cells
    }
}

/// The longest time of a burst of n that is likely, in nanoseconds.
fn longest(steady: &Steady, n: usize) -> f64 {
    let server = &steady.server;
    let (mean, n) = (server.packet_time(), n as f64);
    let variance: f64 = server.packets.iter().map(|(p, time)| p * (time - mean).powi(2)).sum();
    let most = server.packets.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    server.burst_ns + (n * mean + 7.0 * (n * variance).sqrt()).min(n * most)
}

#[cfg(test)]
mod tests;
