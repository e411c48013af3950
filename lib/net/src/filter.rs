// SPDX-License-Identifier: MIT
//! Filters: a rule, what it says of a packet, and a list of rules as whoever has packets sees it.

use crate::{FiveTuple, Key4, Key6};

/// A rule of a list. Of those that match a packet, the first decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The packets it is about.
    pub tuple: FiveTuple,
    /// Whether a packet that matches is dropped.
    pub deny: bool,
    /// Its place in the operator's list, from 0: what its packets are counted under. It says nothing about the order
    /// here.
    pub number: u32,
}

impl Rule {
    /// A rule that drops, where it does not matter which one it is.
    pub const fn deny(tuple: FiveTuple) -> Rule {
        Rule { tuple, deny: true, number: 0 }
    }

    /// A rule that lets packets go on, where it does not matter which one it is.
    pub const fn accept(tuple: FiveTuple) -> Rule {
        Rule { tuple, deny: false, number: 0 }
    }

    /// What it says of the packets that it decides about.
    pub const fn verdict(&self) -> Verdict {
        Verdict((self.number + 1) << 1 | self.deny as u32)
    }
}

/// What a list says of a packet, in one word that is 0 if no rule matches: whether to drop it, and which rule decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Verdict(u32);

impl Verdict {
    /// No rule matches.
    pub const NONE: Verdict = Verdict(0);

    /// As one word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Whether the packet is to be dropped.
    #[inline(always)]
    pub const fn denies(self) -> bool {
        self.0 & 1 != 0
    }

    /// The place of the rule that decided in the operator's list, from 1; 0 if none did.
    #[inline(always)]
    pub const fn place(self) -> usize {
        (self.0 >> 1) as usize
    }
}

/// A list of rules, compiled.
pub trait Filter: Send + Sync {
    /// Writes the verdict about each IPv4 key to its place in `to`, which is as long.
    fn judge4(&self, keys: &[Key4], to: &mut [Verdict]);
    /// Writes the verdict about each IPv6 key to its place in `to`, which is as long.
    fn judge6(&self, keys: &[Key6], to: &mut [Verdict]);
    /// The list that it was compiled from, for who compiles it otherwise; `None` if that is not known any more.
    fn rules(&self) -> Option<&[Rule]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_that_of_its_rule_and_never_that_of_none() {
        for number in [0, 1, 2, 1 << 20, (1 << 30) - 1] {
            for deny in [false, true] {
                let verdict = Rule { tuple: FiveTuple::default(), deny, number }.verdict();
                assert_eq!((verdict.denies(), verdict.place()), (deny, number as usize + 1));
                assert_ne!(verdict, Verdict::NONE);
            }
        }
        assert_eq!((Verdict::NONE.denies(), Verdict::NONE.place(), Verdict::NONE.word()), (false, 0, 0));
        assert!(Rule::deny(FiveTuple::default()).verdict().denies());
        assert!(!Rule::accept(FiveTuple::default()).verdict().denies());
    }
}
