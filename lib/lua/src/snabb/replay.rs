// SPDX-License-Identifier: MIT
//! Anti-replay of ESP with 64-bit sequence numbers (RFC 4303, 3.4.3 and appendix A), under the names that `lib.ipsec`
//! of a Snabb tree calls in C.
//!
//! The window is a bitmap of `size` bits in `size / 8` bytes: a number's bit is that of the number modulo `size`. Bits
//! of the `size` numbers up to the highest one that was seen are those that count.

use std::ffi::c_void;

/// The high half of a number whose low half is `low`, if `top` is the highest one seen so far: the one that lies in the
/// window or, if none can, beyond it (RFC 4303, A2.2).
fn high_half(low: u32, top: u64, size: u32) -> Option<u32> {
    let (top_high, top_low) = ((top >> 32) as u32, top as u32);
    let bottom = top_low.wrapping_sub(size.wrapping_sub(1));
    if top_low >= size - 1 {
        // Case A: the window lies within one turn of the low half.
        if low >= bottom { Some(top_high) } else { top_high.checked_add(1) }
    } else if low >= bottom {
        // Case B: it begins in the turn before.
        top_high.checked_sub(1)
    } else {
        Some(top_high)
    }
}

/// The bitmap of a window, by its number of bits.
struct Window<'a>(&'a mut [u8]);

impl Window<'_> {
    fn place(&self, number: u64) -> (usize, u8) {
        let bit = (number % (self.0.len() as u64 * 8)) as usize;
        (bit / 8, 1 << (bit % 8))
    }

    fn has(&self, number: u64) -> bool {
        let (byte, bit) = self.place(number);
        self.0[byte] & bit != 0
    }

    fn set(&mut self, number: u64, seen: bool) {
        let (byte, bit) = self.place(number);
        if seen { self.0[byte] |= bit } else { self.0[byte] &= !bit }
    }
}

fn check(low: u32, top: u64, window: &Window<'_>) -> Option<u32> {
    let size = window.0.len() as u64 * 8;
    let high = high_half(low, top, size as u32)?;
    let number = u64::from(high) << 32 | u64::from(low);
    // Below the window only at the very beginning, where there is no turn before.
    let seen = number <= top && (top - number >= size || window.has(number));
    (!seen).then_some(high)
}

fn track(number: u64, top: u64, window: &mut Window<'_>) -> u64 {
    let size = window.0.len() as u64 * 8;
    if number > top {
        if number - top >= size {
            window.0.fill(0);
        } else {
            (top + 1..number).for_each(|skipped| window.set(skipped, false));
        }
    } else if top - number >= size {
        return top;
    }
    window.set(number, true);
    number.max(top)
}

/// # Safety
/// `window` has `size / 8` bytes; `size` is a multiple of 8 and above 0.
unsafe fn window<'a>(window: *mut u8, size: u32) -> Window<'a> {
    // SAFETY: the caller's.
    Window(unsafe { std::slice::from_raw_parts_mut(window, size as usize / 8) })
}

/// Whether a number whose low half is given is new: its high half, or -1 for one that was seen or is too old.
///
/// # Safety
/// `bits` has `size / 8` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn check_seq_no(low: u32, top: u64, bits: *mut u8, size: u32) -> i64 {
    if bits.is_null() || size < 8 {
        return -1;
    }
    // SAFETY: the caller's.
    check(low, top, &unsafe { window(bits, size) }).map_or(-1, i64::from)
}

/// Notes a number that has been authenticated; returns the highest one so far.
///
/// # Safety
/// `bits` has `size / 8` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn track_seq_no(high: u32, low: u32, top: u64, bits: *mut u8, size: u32) -> u64 {
    if bits.is_null() || size < 8 {
        return top;
    }
    // SAFETY: the caller's.
    track(u64::from(high) << 32 | u64::from(low), top, &mut unsafe { window(bits, size) })
}

#[repr(transparent)]
struct Kept([*const c_void; 2]);
// SAFETY: addresses, which never change.
unsafe impl Sync for Kept {}
/// Keeps the linker from leaving out what only Lua calls.
#[used]
static KEPT: Kept = Kept([check_seq_no as *const c_void, track_seq_no as *const c_void]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    /// Every number is kept; a low half stands for the number that is nearest to the top from the window's bottom on.
    #[test]
    fn what_was_seen_or_is_too_old_is_refused() {
        for (size, start) in [(64, 0), (64, (1u64 << 32) - 40), (128, (3u64 << 32) - 1000), (8, 1 << 33), (1024, 500)] {
            let (mut bits, mut top, mut seen) = (vec![0; size as usize / 8], start, BTreeSet::new());
            let mut seed = start | 77;
            let mut accepted = 0;
            for step in 0..20_000 {
                let distance = random(&mut seed) % (3 * size);
                let number = (top + size).saturating_sub(distance).max(1);
                let number = if random(&mut seed).is_multiple_of(50) { number + 5 * size } else { number };
                let fresh = number > top || (top - number < size && !seen.contains(&number));
                // SAFETY: as many bits as that.
                let found = unsafe { check_seq_no(number as u32, top, bits.as_mut_ptr(), size as u32) };
                let too_old = number <= top && top - number >= size;
                if too_old {
                    // It looks like one of the turn after, which the receiver finds out when it authenticates it.
                    assert!(found < 0 || found as u64 != number >> 32, "step {step}: {number} of {top}");
                    continue;
                }
                assert_eq!(found, if fresh { (number >> 32) as i64 } else { -1 }, "step {step}: {number} of {top}");
                if fresh {
                    // SAFETY: as above.
                    let highest = unsafe {
                        track_seq_no((number >> 32) as u32, number as u32, top, bits.as_mut_ptr(), size as u32)
                    };
                    seen.insert(number);
                    top = top.max(number);
                    accepted += 1;
                    assert_eq!(highest, top);
                }
            }
            assert!(accepted > 5000, "{size}: {accepted}");
        }
    }

    #[test]
    fn a_low_half_belongs_to_the_turn_that_the_window_lies_in() {
        let turn = 1_u64 << 32;
        let high = |low: u32, top: u64| {
            let mut bits = [0; 8];
            // SAFETY: as many bits as that.
            unsafe { check_seq_no(low, top, bits.as_mut_ptr(), 64) }
        };
        // The window begins at 37: what is below belongs to the next turn.
        assert_eq!([36, 37, 100, 101].map(|low| high(low, 100)), [1, 0, 0, 0]);
        // It begins at 0, and would begin before.
        assert_eq!([0, 63, 64].map(|low| high(low, 63)), [0, 0, 0]);
        assert_eq!([0, 62, 63].map(|low| high(low, 62)), [0, 0, 0]);
        assert_eq!(high(u32::MAX, 62), -1, "there is no turn before the first");
        // It begins in the turn before.
        let bottom = u32::MAX - 52;
        assert_eq!([bottom - 1, bottom, u32::MAX, 0, 11].map(|low| high(low, 2 * turn + 10)), [2, 1, 1, 2, 2]);
        // There is none after the last.
        assert_eq!([u32::MAX - 64, u32::MAX - 63].map(|low| high(low, u64::MAX)), [-1, i64::from(u32::MAX)]);
    }

    #[test]
    fn what_a_window_skips_is_new_and_what_leaves_it_is_forgotten() {
        let mut bits = [0; 8];
        // SAFETY: as many bits as that.
        let mut track = |low, top| unsafe { track_seq_no(0, low, top, bits.as_mut_ptr(), 64) };
        assert_eq!([track(70, 0), track(75, 70), track(72, 75)], [70, 75, 75]);
        assert_eq!(track(11, 75), 75, "too old: that bit is 75's");
        // SAFETY: as above.
        let mut check = |low, top| unsafe { check_seq_no(low, top, bits.as_mut_ptr(), 64) };
        let seen: Vec<u32> = (12..=75).filter(|low| check(*low, 75) < 0).collect();
        assert_eq!(seen, [70, 72, 75]);
        // 64 further, nothing of before is left; 63 further, one number is.
        for (next, left) in [(139, vec![]), (138, vec![75])] {
            let mut bits = bits;
            // SAFETY: as above.
            unsafe {
                assert_eq!(track_seq_no(0, next, 75, bits.as_mut_ptr(), 64), next.into());
                let is_seen = |low: &u32| check_seq_no(*low, next.into(), bits.as_mut_ptr(), 64) < 0;
                assert_eq!((next - 63..next).filter(is_seen).collect::<Vec<u32>>(), left);
            }
        }
    }

    #[test]
    fn without_a_window_nothing_is_new() {
        let mut bits = [0; 8];
        // SAFETY: nothing is read or written.
        unsafe {
            assert_eq!(check_seq_no(5, 1, std::ptr::null_mut(), 64), -1);
            assert_eq!(check_seq_no(5, 1, bits.as_mut_ptr(), 7), -1);
            assert_eq!(track_seq_no(0, 5, 1, std::ptr::null_mut(), 64), 1);
            assert_eq!(track_seq_no(0, 5, 1, bits.as_mut_ptr(), 7), 1);
            assert_eq!((check_seq_no(5, 1, bits.as_mut_ptr(), 8), track_seq_no(0, 5, 1, bits.as_mut_ptr(), 8)), (0, 5));
        }
    }
}
