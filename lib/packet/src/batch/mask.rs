// SPDX-License-Identifier: MIT
//! A set of batch slots: one bit per packet.
//!
//! A module gets the packets it should handle as a mask, narrows it to those that go on, and may add others to a second
//! mask. Set operations are four word operations; iteration jumps from one set bit to the next.

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not, Sub, SubAssign};

/// How many packets a batch can hold, and so how many bits a mask has.
pub const BATCH_SIZE: usize = 256;

const WORDS: usize = BATCH_SIZE / 64;

/// A set of slots of a [`Batch`](crate::Batch), one bit each; part of the C ABI (`perigee_mask`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Mask {
    words: [u64; WORDS],
}

impl Mask {
    /// No slot.
    pub const EMPTY: Mask = Mask { words: [0; WORDS] };
    /// Every slot.
    pub const ALL: Mask = Mask { words: [!0; WORDS] };

    /// The first `n` slots; all of them if `n` is larger than [`BATCH_SIZE`].
    #[inline]
    pub fn first(n: usize) -> Mask {
        let mut words = [0; WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            let below = n.saturating_sub(i * 64);
            *word = if below >= 64 { !0 } else { (1 << below) - 1 };
        }
        Mask { words }
    }

    /// The set of a single slot.
    #[inline]
    pub fn only(slot: u8) -> Mask {
        let mut mask = Mask::EMPTY;
        mask.set(slot);
        mask
    }

    /// The set with these bits, 64 slots a word.
    #[inline(always)]
    pub const fn from_words(words: [u64; WORDS]) -> Mask {
        Mask { words }
    }

    /// The set with these bits, 8 slots a byte.
    #[inline(always)]
    pub fn from_bytes(bytes: [u8; BATCH_SIZE / 8]) -> Mask {
        let (words, _) = bytes.as_chunks::<8>();
        Mask { words: std::array::from_fn(|word| u64::from_le_bytes(words[word])) }
    }

    /// Its bits, 64 slots a word.
    #[inline(always)]
    pub const fn words(&self) -> [u64; WORDS] {
        self.words
    }

    /// The bits of the slots from `at` on, a multiple of 8, the first one's lowest, as far as they lie in one word of
    /// 64.
    #[inline(always)]
    pub fn bits_at(&self, at: usize) -> u32 {
        (self.words[at / 64 % WORDS] >> (at % 64)) as u32
    }

    /// The first slot; `None` if the set is empty.
    #[inline]
    pub fn first_slot(&self) -> Option<u8> {
        self.iter().next()
    }

    /// How many slots there are up to the last one of the set, that included.
    #[inline]
    pub fn span(&self) -> usize {
        let last = self.words.iter().rposition(|&word| word != 0);
        last.map_or(0, |i| i * 64 + 64 - self.words[i].leading_zeros() as usize)
    }

    /// Adds a slot.
    #[inline(always)]
    pub fn set(&mut self, slot: u8) {
        self.words[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Adds a slot if `condition` holds, without a branch.
    #[inline(always)]
    pub fn set_if(&mut self, slot: u8, condition: bool) {
        self.words[slot as usize / 64] |= u64::from(condition) << (slot % 64);
    }

    /// Removes a slot.
    #[inline(always)]
    pub fn clear(&mut self, slot: u8) {
        self.words[slot as usize / 64] &= !(1 << (slot % 64));
    }

    /// Is the slot in the set?
    #[inline(always)]
    pub fn contains(&self, slot: u8) -> bool {
        self.words[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    /// Number of slots in the set.
    #[inline]
    pub fn count(&self) -> usize {
        // Of two words together, as the compiler would otherwise use vector instructions, of which there are four times
        // as many.
        let [a, b, c, d] = self.words.map(u128::from);
        ((a | b << 64).count_ones() + (c | d << 64).count_ones()) as usize
    }

    /// Is no slot in the set?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().fold(0, |all, w| all | w) == 0
    }

    /// The slots in ascending order.
    #[inline]
    pub fn iter(&self) -> Ones {
        Ones { bits: self.words[0], word: 0, mask: *self }
    }

    /// The first slot from `slot` on, or from the start if none follows; `None` if the set is empty.
    #[inline]
    pub fn next_from(&self, slot: u8) -> Option<u8> {
        let word = usize::from(slot / 64);
        let bits = self.words[word] & !0 << (slot % 64);
        if bits != 0 {
            return Some((word * 64) as u8 + bits.trailing_zeros() as u8);
        }
        (*self - Mask::first(slot.into())).iter().next().or_else(|| self.iter().next())
    }

    /// The slots for which `choose` is true, asked in ascending order. Unlike a loop with [`set_if`](Mask::set_if) it
    /// gathers its answers in a register.
    #[inline(always)]
    pub fn filter(&self, mut choose: impl FnMut(u8) -> bool) -> Mask {
        self.sort(|slot| [choose(slot)])[0]
    }

    /// Sorts the slots into several masks by the answers of `choose`.
    #[inline(always)]
    pub fn sort<const N: usize>(&self, mut choose: impl FnMut(u8) -> [bool; N]) -> [Mask; N] {
        let mut masks = [Mask::EMPTY; N];
        for (word, bits) in self.words.into_iter().enumerate() {
            let mut found = [0; N];
            let mut ask = |bit: u32| {
                let chosen = choose((word * 64) as u8 + bit as u8);
                for (found, chosen) in found.iter_mut().zip(chosen) {
                    *found |= u64::from(chosen) << bit;
                }
            };
            let dense = bits.trailing_ones();
            (0..dense).for_each(&mut ask);
            let mut rest = if dense == 64 { 0 } else { bits >> dense << dense };
            while rest != 0 {
                ask(rest.trailing_zeros());
                rest &= rest - 1;
            }
            for (mask, found) in masks.iter_mut().zip(found) {
                mask.words[word] = found;
            }
        }
        masks
    }

    /// Those of its slots whose numbers are in `chosen`: each slot's number is how many come before it.
    #[inline]
    pub fn numbered(&self, chosen: Mask) -> Mask {
        if chosen.is_empty() || *self == Mask::first(self.count()) {
            return *self & chosen;
        }
        let mut number = 0u8;
        self.filter(|_| {
            let is_chosen = chosen.contains(number);
            number = number.wrapping_add(1);
            is_chosen
        })
    }

    /// Calls `f` with each slot in ascending order: like [`iter`](Mask::iter), for short loop bodies.
    ///
    /// What modules get are nearly always the first slots of a burst, all of them: to count is cheaper than to look for
    /// bits.
    #[inline(always)]
    pub fn for_each(&self, mut f: impl FnMut(u8)) {
        let n = self.count();
        if *self == Mask::first(n) {
            for pair in 0..n / 2 {
                f(2 * pair as u8);
                f(2 * pair as u8 + 1);
            }
            if !n.is_multiple_of(2) {
                f(n as u8 - 1);
            }
            return;
        }
        for (word, mut bits) in self.words.into_iter().enumerate() {
            while bits != 0 {
                f((word * 64) as u8 + bits.trailing_zeros() as u8);
                bits &= bits - 1;
            }
        }
    }
}

/// Iterator over the slots of a [`Mask`], in ascending order.
pub struct Ones {
    /// The rest of the current word, in a register, unlike the others.
    bits: u64,
    word: usize,
    mask: Mask,
}

impl Iterator for Ones {
    type Item = u8;

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        while self.bits == 0 {
            self.word += 1;
            self.bits = *self.mask.words.get(self.word)?;
        }
        let slot = (self.word * 64) as u8 + self.bits.trailing_zeros() as u8;
        self.bits &= self.bits - 1;
        Some(slot)
    }
}

impl IntoIterator for Mask {
    type Item = u8;
    type IntoIter = Ones;
    #[inline]
    fn into_iter(self) -> Ones {
        self.iter()
    }
}

impl FromIterator<u8> for Mask {
    fn from_iter<I: IntoIterator<Item = u8>>(slots: I) -> Mask {
        let mut mask = Mask::EMPTY;
        slots.into_iter().for_each(|slot| mask.set(slot));
        mask
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

macro_rules! set_operation {
    ($trait:ident, $method:ident, $assign_trait:ident, $assign:ident, $f:expr) => {
        impl $trait for Mask {
            type Output = Mask;
            #[inline]
            fn $method(mut self, other: Mask) -> Mask {
                self.$assign(other);
                self
            }
        }
        impl $assign_trait for Mask {
            #[inline]
            fn $assign(&mut self, other: Mask) {
                for (a, b) in self.words.iter_mut().zip(other.words) {
                    *a = $f(*a, b);
                }
            }
        }
    };
}

set_operation!(BitAnd, bitand, BitAndAssign, bitand_assign, |a: u64, b| a & b);
set_operation!(BitOr, bitor, BitOrAssign, bitor_assign, |a: u64, b| a | b);
set_operation!(Sub, sub, SubAssign, sub_assign, |a: u64, b: u64| a & !b);

impl Not for Mask {
    type Output = Mask;
    #[inline]
    fn not(self) -> Mask {
        Mask::ALL - self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn first_is_exact_at_word_borders() {
        for n in [0, 1, 63, 64, 65, 127, 128, 255, 256] {
            assert_eq!(Mask::first(n).count(), n);
            assert_eq!(Mask::first(n).iter().map(usize::from).collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
        }
        assert_eq!(Mask::first(1000), Mask::ALL);
    }

    proptest! {
        /// Every operation against a plain set.
        #[test]
        fn behaves_like_a_set(a: BTreeSet<u8>, b: BTreeSet<u8>, slot: u8, flag: bool) {
            let (x, y): (Mask, Mask) = (a.iter().copied().collect(), b.iter().copied().collect());
            let set = |m: Mask| m.iter().collect::<BTreeSet<u8>>();
            prop_assert_eq!(set(x & y), &a & &b);
            prop_assert_eq!(set(x | y), &a | &b);
            prop_assert_eq!(set(x - y), &a - &b);
            prop_assert_eq!(x.count(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.contains(slot), a.contains(&slot));
            prop_assert_eq!(!!x, x);
            prop_assert_eq!(x.next_from(slot), a.range(slot..).chain(&a).next().copied());
            let mut z = x;
            z.set_if(slot, flag);
            prop_assert_eq!(z.contains(slot), a.contains(&slot) || flag);
            z.clear(slot);
            prop_assert!(!z.contains(slot));
            prop_assert_eq!(x.filter(|slot| y.contains(slot)), x & y);
            prop_assert_eq!(x.sort(|slot| [y.contains(slot), !y.contains(slot)]), [x & y, x - y]);
            prop_assert_eq!((!x).sort(|slot| [y.contains(slot), !y.contains(slot)]), [y - x, !x - y]);
            prop_assert_eq!(Mask::from_words(x.words()), x);
            let numbered = a.iter().enumerate().filter(|(number, _)| b.contains(&(*number as u8)));
            prop_assert_eq!(set(x.numbered(y)), numbered.map(|(_, slot)| *slot).collect::<BTreeSet<u8>>());
            prop_assert_eq!(Mask::first(a.len()).numbered(y), Mask::first(a.len()) & y);
            prop_assert_eq!(x.first_slot(), a.first().copied());
            prop_assert_eq!(x.span(), a.last().map_or(0, |last| usize::from(*last) + 1));
            let at = usize::from(slot / 8 * 8);
            let expected = (0..8).fold(0, |bits, i| bits | u32::from(a.contains(&((at + i) as u8))) << i);
            prop_assert_eq!(x.bits_at(at) & 0xff, expected);
            // An iterator that is at its end stays there.
            let mut ones = x.iter();
            prop_assert_eq!(ones.by_ref().count(), a.len());
            prop_assert!(ones.next().is_none() && ones.next().is_none());
        }
    }
}
