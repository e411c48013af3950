// SPDX-License-Identifier: MIT
//! Nanoseconds from the time-stamp counter: a few cycles a call.

use crate::ffi;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A clock that counts from its creation, the same on every core; copies show the same time. Its rate is measured
/// against Linux's clock when the first one is made: EAL's own estimate is a round number of 10 MHz, parts in a
/// thousand off, which a measured rate would be, too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    #[allow(clippy::new_without_default, reason = "a clock is started, not made empty")]
    pub fn new() -> Clock {
        static SCALE: OnceLock<u64> = OnceLock::new();
        let scale = *SCALE.get_or_init(|| scale(measured_hz()));
        // SAFETY: reads a counter.
        Clock { start: unsafe { ffi::perigee_tsc() }, scale }
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub fn now(&self) -> u64 {
        // SAFETY: reads a counter.
        nanoseconds(unsafe { ffi::perigee_tsc() }.saturating_sub(self.start), self.scale)
    }
}

/// How long the counter is compared with Linux's clock: reading both is exact to some 50 ns, so this makes parts per
/// million.
const CALIBRATION: Duration = Duration::from_millis(25);

/// Ticks per second of the time-stamp counter.
fn measured_hz() -> u64 {
    let (start, first) = both_clocks();
    loop {
        let (now, last) = both_clocks();
        let elapsed = now.duration_since(start);
        if elapsed >= CALIBRATION {
            return (u128::from(last.saturating_sub(first)) * 1_000_000_000 / elapsed.as_nanos()) as u64;
        }
    }
}

/// Linux's clock and the counter at one moment: of several readings, the one that was interrupted least.
fn both_clocks() -> (Instant, u64) {
    let reading = || {
        // SAFETY: reads a counter.
        let (before, time, after) = unsafe { (ffi::perigee_tsc(), Instant::now(), ffi::perigee_tsc()) };
        (after.saturating_sub(before), time, before + after.saturating_sub(before) / 2)
    };
    let (_, time, ticks) = (0..16).map(|_| reading()).min_by_key(|(taken, ..)| *taken).expect("sixteen readings");
    (time, ticks)
}

fn scale(hz: u64) -> u64 {
    ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64
}

#[inline]
fn nanoseconds(ticks: u64, scale: u64) -> u64 {
    ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_is_exact_to_a_microsecond_per_hour_and_does_not_wrap() {
        for hz in [25_000_000, 1_000_000_000, 2_600_000_000, 5_123_456_789] {
            let hour = nanoseconds(hz * 3600, scale(hz));
            assert!(hour.abs_diff(3_600_000_000_000) <= 10_000, "{hz} Hz: {hour}");
            let year = nanoseconds(hz * 3600 * 24 * 365, scale(hz));
            assert!(year.abs_diff(31_536_000_000_000_000) <= 100_000_000, "{hz} Hz: {year}");
        }
    }
}
