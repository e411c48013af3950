// SPDX-License-Identifier: MIT
//! Departure times, one after the other: ns of the tester's clock, without an error that grows.
//!
//! The gap between departures is kept as a fraction of whole numbers, and its remainder is carried on from one
//! departure to the next, as Bresenham draws a line. So departure k of a constant rate is at start + floor(k / rate) in
//! exact arithmetic, after hours as after a second, for the price of two additions.

use super::{Bursting, Pattern};
use std::collections::VecDeque;

const SECOND: u128 = 1_000_000_000;

/// A gap of `whole` + `part` / `of` ns.
#[derive(Clone, Copy, Debug)]
struct Gap {
    whole: u64,
    part: u64,
    of: u64,
}

impl Gap {
    const NONE: Gap = Gap { whole: 0, part: 0, of: 1 };

    /// That of `frames` departures at `rate` per second, between [`LOWEST`](super::rate::LOWEST) and
    /// [`HIGHEST`](super::rate::HIGHEST).
    fn new(frames: u32, rate: f64) -> Gap {
        let (mantissa, exponent) = fraction(rate);
        let (above, of) = if exponent < 0 { (SECOND << -exponent, mantissa) } else { (SECOND, mantissa << exponent) };
        let above = above * u128::from(frames);
        Gap { whole: (above / u128::from(of)) as u64, part: (above % u128::from(of)) as u64, of }
    }

    /// The gap in units of 1 / `of` ns.
    fn units(&self) -> u128 {
        u128::from(self.whole) * u128::from(self.of) + u128::from(self.part)
    }
}

/// A positive number as mantissa * 2^exponent, exactly, with an odd mantissa.
fn fraction(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (exponent, stored) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    // Rates are far from the subnormal numbers, which have no leading one.
    let mantissa = stored | 1 << 52;
    let even = mantissa.trailing_zeros();
    (mantissa >> even, exponent - 1075 + even as i32)
}

/// Departures with the same gap: the next one is at `at` + `carried` / `gap.of`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    at: u64,
    carried: u64,
    gap: Gap,
}

impl Steps {
    fn new(at: u64, gap: Gap) -> Steps {
        Steps { at, carried: 0, gap }
    }

    #[inline(always)]
    fn step(&mut self) {
        self.at += self.gap.whole;
        self.carried += self.gap.part;
        if self.carried >= self.gap.of {
            self.carried -= self.gap.of;
            self.at += 1;
        }
    }

    /// How many departures, this one included, are before `time`.
    fn before(&self, time: u64) -> u64 {
        let Some(ahead) = time.checked_sub(self.at).filter(|ahead| *ahead > 0) else { return 0 };
        // Departure k is before `time` if carried + k * units < ahead * of.
        let room = u128::from(ahead) * u128::from(self.gap.of) - u128::from(self.carried);
        // Without a gap, all of them are.
        let units = self.gap.units();
        if units == 0 { u64::MAX } else { room.div_ceil(units) as u64 }
    }

    fn skip(&mut self, departures: u64) {
        let total = u128::from(self.carried) + u128::from(departures) * u128::from(self.gap.part);
        self.at += self.gap.whole * departures + (total / u128::from(self.gap.of)) as u64;
        self.carried = (total % u128::from(self.gap.of)) as u64;
    }
}

/// The departures of a pattern from some start on; it never ends.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    Constant(Steps),
    Poisson(Poisson),
    Bursts(Bursts),
    Timed(Timed),
}

/// Departures at times that somebody else knows, such as those of a capture; given bit by bit.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    start: u64,
    /// ns after the start.
    times: VecDeque<u64>,
    over: bool,
}

impl Timed {
    pub fn new(start: u64) -> Timed {
        Timed { start, times: VecDeque::new(), over: false }
    }

    /// The next times, in their order; none: there are no more.
    pub fn give(&mut self, times: &[u64]) {
        self.over = times.is_empty();
        self.times.extend(times);
    }

    fn at(&self) -> u64 {
        self.times.front().map_or(u64::MAX, |time| self.start.saturating_add(*time))
    }
}

/// Exponential gaps: `at` and `part` of a ns is the next departure.
#[derive(Clone, Debug)]
pub(super) struct Poisson {
    at: u64,
    part: f64,
    mean: f64,
    state: u64,
}

/// Departure `index` of the `frames` of a burst is next.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    starts: Steps,
    within: Steps,
    frames: u32,
    index: u32,
}

impl Schedule {
    /// `None` for a pattern without one, [`Pattern::Line`].
    pub fn new(pattern: &Pattern, start: u64) -> Option<Schedule> {
        Some(match *pattern {
            Pattern::Line => return None,
            Pattern::Constant { rate } => Schedule::Constant(Steps::new(start, Gap::new(1, rate))),
            Pattern::Poisson { rate, seed } => {
                let mut poisson = Poisson { at: start, part: 0.0, mean: 1e9 / rate, state: seed };
                poisson.step();
                Schedule::Poisson(poisson)
            }
            Pattern::Bursts { frames, within, spacing } => {
                let period = match spacing {
                    Bursting::Mean(rate) => Gap::new(frames, rate),
                    Bursting::Gap(gap) => {
                        let burst = within.map_or(Gap::NONE, |within| Gap::new(frames, within));
                        Gap { whole: burst.whole + gap, ..burst }
                    }
                };
                let within = within.map_or(Gap::NONE, |within| Gap::new(1, within));
                let (starts, within) = (Steps::new(start, period), Steps::new(start, within));
                Schedule::Bursts(Bursts { starts, within, frames, index: 0 })
            }
        })
    }

    /// When the next departure is due.
    #[inline(always)]
    pub fn at(&self) -> u64 {
        match self {
            Schedule::Constant(steps) => steps.at,
            Schedule::Poisson(poisson) => poisson.at,
            Schedule::Bursts(bursts) => bursts.within.at,
            Schedule::Timed(timed) => timed.at(),
        }
    }

    /// Goes on to the departure after it.
    #[inline(always)]
    pub fn step(&mut self) {
        match self {
            Schedule::Constant(steps) => steps.step(),
            Schedule::Poisson(poisson) => poisson.step(),
            Schedule::Bursts(bursts) => bursts.step(),
            Schedule::Timed(timed) => drop(timed.times.pop_front()),
        }
    }

    /// Whether the next departure is known, or that there is none.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        if let Schedule::Timed(timed) = self { timed.over || !timed.times.is_empty() } else { true }
    }

    /// How many departures are before `time`; `None` where nobody knows without drawing them.
    pub fn before(&self, time: u64) -> Option<u64> {
        match self {
            Schedule::Constant(steps) => Some(steps.before(time)),
            Schedule::Poisson(_) | Schedule::Timed(_) => None,
            Schedule::Bursts(bursts) => Some(bursts.before(time)),
        }
    }

    /// Goes on to the first departure that is not before `time`, by at most `most`; returns by how many.
    pub fn skip_before(&mut self, time: u64, most: u64) -> u64 {
        match self {
            Schedule::Constant(steps) => {
                let skipped = steps.before(time).min(most);
                steps.skip(skipped);
                skipped
            }
            Schedule::Bursts(bursts) => {
                let skipped = bursts.before(time).min(most);
                bursts.skip(skipped);
                skipped
            }
            Schedule::Timed(timed) => {
                let mut skipped = 0;
                while !timed.times.is_empty() && timed.at() < time && skipped < most {
                    timed.times.pop_front();
                    skipped += 1;
                }
                skipped
            }
            Schedule::Poisson(poisson) => {
                let mut skipped = 0;
                while poisson.at < time && skipped < most {
                    poisson.step();
                    skipped += 1;
                }
                skipped
            }
        }
    }
}

impl Poisson {
    /// By inversion: -ln(u) has the exponential distribution for u from (0, 1].
    #[inline]
    fn step(&mut self) {
        let uniform = ((self.random() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64);
        let gap = self.part - uniform.ln() * self.mean;
        self.at += gap as u64;
        self.part = gap.fract();
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
    #[inline]
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Bursts {
    #[inline]
    fn step(&mut self) {
        self.index += 1;
        if self.index < self.frames {
            self.within.step();
        } else {
            self.index = 0;
            self.starts.step();
            self.within = Steps::new(self.starts.at, self.within.gap);
        }
    }

    fn before(&self, time: u64) -> u64 {
        let left = u64::from(self.frames - self.index);
        let here = self.within.before(time).min(left);
        let mut later = self.starts;
        later.step();
        let started = later.before(time);
        let Some(whole) = started.checked_sub(1) else { return here };
        // Bursts do not overlap, so of those that have started, all but the last are over.
        later.skip(whole);
        let last = Steps::new(later.at, self.within.gap).before(time).min(self.frames.into());
        here + whole * u64::from(self.frames) + last
    }

    fn skip(&mut self, departures: u64) {
        let index = u64::from(self.index) + departures;
        let bursts = index / u64::from(self.frames);
        if bursts > 0 {
            self.starts.skip(bursts);
            self.within = Steps::new(self.starts.at, self.within.gap);
            self.index = 0;
        }
        let index = (index % u64::from(self.frames)) as u32;
        self.within.skip(u64::from(index - self.index));
        self.index = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::rate::{HIGHEST, LOWEST};
    use proptest::prelude::*;

    /// floor(k * frames * 1e9 / rate) by long division, with rate as the fraction that an f64 is.
    fn exact(k: u64, rate: f64) -> u64 {
        let (mantissa, exponent) = fraction(rate);
        assert_eq!(mantissa as f64 * 2f64.powi(exponent), rate);
        // One bit of the numerator after the other: (k * 1e9 * 2^-exponent) / mantissa.
        let (mut quotient, mut rest) =
            (u128::from(k) * SECOND / u128::from(mantissa), u128::from(k) * SECOND % u128::from(mantissa));
        for _ in 0..-exponent {
            rest *= 2;
            quotient = quotient * 2 + rest / u128::from(mantissa);
            rest %= u128::from(mantissa);
        }
        (quotient >> exponent.max(0)) as u64
    }

    fn rates() -> impl Strategy<Value = f64> {
        prop_oneof![
            LOWEST..HIGHEST,
            (-3.0..10.0).prop_map(|e| 10f64.powf(e)),
            Just(1e6),
            Just(1e10 / 672.0),
            Just(LOWEST),
            Just(HIGHEST)
        ]
        .prop_map(|rate| rate.clamp(LOWEST, HIGHEST))
    }

    fn times(schedule: &Schedule, count: usize) -> Vec<u64> {
        let mut schedule = schedule.clone();
        std::iter::repeat_with(|| {
            let at = schedule.at();
            schedule.step();
            at
        })
        .take(count)
        .collect()
    }

    fn patterns() -> impl Strategy<Value = Pattern> {
        prop_oneof![
            rates().prop_map(|rate| Pattern::Constant { rate }),
            (1.0..HIGHEST, any::<u64>()).prop_map(|(rate, seed)| Pattern::Poisson { rate, seed }),
            (1.0..HIGHEST, 1u32..50, prop_oneof![Just(1), 1u64..1_000_000], any::<bool>()).prop_map(
                |(within, frames, gap, at_once)| {
                    let within = Some(within).filter(|_| !at_once);
                    Pattern::Bursts { frames, within, spacing: Bursting::Gap(gap) }
                }
            ),
            (1.0..HIGHEST, 1u32..50, 1.0..10f64).prop_map(|(rate, frames, faster): (f64, u32, f64)| {
                let within = Some((rate * faster).min(HIGHEST));
                Pattern::Bursts { frames, within, spacing: Bursting::Mean(rate) }
            }),
        ]
    }

    proptest! {
        #[test]
        fn constant_is_exact_at_any_distance(rate in rates(), start in 0u64..1 << 40, far in 0u64..1 << 40, steps in 0usize..200) {
            // Up to about 30 years, the clock's range is 584.
            let far = far.min((rate * 1e9) as u64);
            let mut schedule = Schedule::new(&Pattern::Constant { rate }, start).unwrap();
            let Schedule::Constant(inner) = &mut schedule else { panic!() };
            inner.skip(far);
            for (i, at) in times(&schedule, steps).into_iter().enumerate() {
                prop_assert_eq!(at - start, exact(far + i as u64, rate), "departure {}", far + i as u64);
            }
        }

        #[test]
        fn skipping_is_stepping(pattern in patterns(), first in 0usize..60, count in 0usize..200, offset in 0u64..3, most in 0u64..300) {
            let mut schedule = Schedule::new(&pattern, 1000).unwrap();
            for _ in 0..first {
                schedule.step();
            }
            let ahead = times(&schedule, 400);
            let time = (ahead[count] + offset).saturating_sub(1);
            let expected = ahead.iter().filter(|at| **at < time).count() as u64;
            // As many as that may have the same time, at ten frames per ns.
            prop_assume!(expected < 400);
            prop_assert!(schedule.before(time).is_none_or(|before| before == expected));
            let mut skipped = schedule.clone();
            prop_assert_eq!(skipped.skip_before(time, most), expected.min(most));
            let rest = &ahead[expected.min(most) as usize..];
            prop_assert_eq!(times(&skipped, rest.len()), rest);
        }

        #[test]
        fn bursts_are_exact(within in 1.0..HIGHEST, frames in 1u32..50, gap in 0u64..1_000_000, mean in any::<bool>()) {
            let spacing = if mean { Bursting::Mean(within / 3.0) } else { Bursting::Gap(gap) };
            let schedule = Schedule::new(&Pattern::Bursts { frames, within: Some(within), spacing }, 7).unwrap();
            for (i, at) in times(&schedule, 300).into_iter().enumerate() {
                let (burst, index) = (i as u64 / u64::from(frames), i as u64 % u64::from(frames));
                let sent = burst * u64::from(frames);
                let start = if mean { exact(sent, within / 3.0) } else { exact(sent, within) + burst * gap };
                prop_assert_eq!(at, 7 + start + exact(index, within), "frame {} of burst {}", index, burst);
            }
        }
    }

    /// The values that the reference implementation in C (Vigna, prng.di.unimi.it/splitmix64.c) gives for this seed.
    #[test]
    fn splitmix64() {
        let mut poisson = Poisson { at: 0, part: 0.0, mean: 1.0, state: 1_234_567 };
        let found = [poisson.random(), poisson.random(), poisson.random()];
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    /// Mean and variance of gaps, and the share of those below the mean, are an exponential distribution's.
    #[test]
    fn poisson_is_exponential() {
        for seed in [0, 1, 0xdead_beef] {
            let schedule = Schedule::new(&Pattern::Poisson { rate: 1e6, seed }, 0).unwrap();
            let at = times(&schedule, 400_000);
            let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let below = gaps.iter().filter(|gap| **gap < 1000.0).count() as f64 / gaps.len() as f64;
            println!("seed {seed}: mean {mean}, deviation {}, below the mean {below}", variance.sqrt());
            // Standard errors are 1.6, 2.2 and 0.00076.
            assert!((mean - 1000.0).abs() < 8.0 && (variance.sqrt() - 1000.0).abs() < 12.0);
            assert!((below - (1.0 - (-1f64).exp())).abs() < 0.004);
            assert_eq!(at, times(&Schedule::new(&Pattern::Poisson { rate: 1e6, seed }, 0).unwrap(), 400_000));
        }
    }
}
