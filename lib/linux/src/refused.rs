// SPDX-License-Identifier: MIT
//! Which prefixes may have a refused route inside: a Bloom filter with one bit per prefix.
//!
//! A refused route marks its own prefix, and all shorter ones around it as having one inside, so one bit answers for a
//! prefix of any length. A bit that another prefix has set costs a stand-in until the next dump; a refused route is
//! never overlooked. A million refused routes of IPv4 set about an eighth of the bits.

use perigee_net::Prefix;
use std::hash::{BuildHasher, RandomState};

/// Bits: 2 MB.
const BITS: u64 = 1 << 24;

/// The filter, and that of the dump that is under way.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Routes that were refused since the last complete dump began.
    since_last: Vec<u64>,
    /// Routes that were refused since the dump under way began.
    since_this: Vec<u64>,
    secret: RandomState,
}

impl Refused {
    /// A dump of routes begins, which names all that are refused still.
    pub fn dump_begins(&mut self) {
        self.since_this.clear();
    }

    /// It has ended, and was complete.
    pub fn dump_ends(&mut self) {
        self.since_last = std::mem::take(&mut self.since_this);
    }

    /// Notes a route that was refused.
    pub fn mark(&mut self, prefix: Prefix) {
        let words = usize::try_from(BITS / 64).unwrap_or(0);
        self.since_last.resize(words, 0);
        self.since_this.resize(words, 0);
        for shorter in around(prefix) {
            let (word, bit) = self.place(shorter, shorter == prefix);
            for bits in [&mut self.since_last, &mut self.since_this] {
                if let Some(bits) = bits.get_mut(word) {
                    *bits |= bit;
                }
            }
        }
    }

    /// Whether a longer prefix inside this one may be refused.
    pub fn may_be_inside(&self, prefix: Prefix) -> bool {
        self.has(&self.since_last, prefix, false)
    }

    /// Whether a route to this prefix may be refused. `named`: the dump under way, which names better routes first, is
    /// at that prefix.
    pub fn may_be_at(&self, prefix: Prefix, named: bool) -> bool {
        self.has(if named { &self.since_this } else { &self.since_last }, prefix, true)
    }

    /// Whether the dump under way may have named one of these.
    pub fn may_be_in_this_dump(&self, prefix: Prefix) -> bool {
        [false, true].into_iter().any(|itself| self.has(&self.since_this, prefix, itself))
    }

    fn has(&self, bits: &[u64], prefix: Prefix, itself: bool) -> bool {
        let (word, bit) = self.place(prefix, itself);
        bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn place(&self, prefix: Prefix, itself: bool) -> (usize, u64) {
        let at = self.secret.hash_one((prefix, itself)) % BITS;
        (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
    }
}

/// A prefix and all shorter ones around it.
fn around(prefix: Prefix) -> impl Iterator<Item = Prefix> {
    (0..=prefix.len()).filter_map(move |length| Prefix::truncated(prefix.addr(), length).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_refused_route_is_found_inside_each_prefix_around_it_until_a_dump_does_not_name_it() {
        let mut refused = Refused::default();
        assert!(!refused.may_be_inside(prefix("0.0.0.0/0")));
        refused.mark(prefix("10.9.1.0/24"));
        refused.mark(prefix("2001:db8:9::/48"));
        let around = ["0.0.0.0/0", "10.9.0.0/16", "::/0", "2001:db8::/32"];
        assert!(around.iter().all(|text| refused.may_be_inside(prefix(text))));
        let itself = ["10.9.1.0/24", "2001:db8:9::/48"];
        assert!(itself.iter().all(|text| refused.may_be_at(prefix(text), false)));
        // That two prefixes share a bit is rare; that all of these do is impossible in practice.
        let outside = ["10.9.1.0/24", "10.9.1.0/25", "10.8.0.0/16", "2001:db8:9::/49", "2001:db9::/32"];
        assert!(!outside.iter().all(|text| refused.may_be_inside(prefix(text))));
        refused.dump_begins();
        assert!(!around.iter().all(|text| refused.may_be_in_this_dump(prefix(text))));
        refused.mark(prefix("2001:db8:9::/48"));
        assert!(refused.may_be_inside(prefix("10.9.0.0/16")), "the dump may name it yet");
        assert!(refused.may_be_in_this_dump(prefix("2001:db8::/32")));
        refused.dump_ends();
        assert!(refused.may_be_inside(prefix("2001:db8::/32")));
        assert!(!["0.0.0.0/0", "10.9.0.0/16", "10.8.0.0/13"].iter().all(|text| refused.may_be_inside(prefix(text))));
    }
}
