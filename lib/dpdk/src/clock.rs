// SPDX-License-Identifier: MIT
//! Nanoseconds from the time-stamp counter: a few cycles a call.

use crate::eal::Eal;
use crate::ffi;

/// A clock that counts from its creation, the same on every core; copies show the same time. Its rate is EAL's estimate of
/// the counter's (a few parts in a thousand), so it is for timeouts and rates, not for the time of day.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    pub fn new(_eal: &Eal) -> Clock {
        // SAFETY: EAL is started, so the counter's frequency is known.
        unsafe { Clock { start: ffi::perigee_tsc(), scale: scale(ffi::rte_get_tsc_hz()) } }
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub fn now(&self) -> u64 {
        // SAFETY: reads a counter.
        nanoseconds(unsafe { ffi::perigee_tsc() }.saturating_sub(self.start), self.scale)
    }
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
