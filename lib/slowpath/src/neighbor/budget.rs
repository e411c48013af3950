// SPDX-License-Identifier: MIT
//! How many neighbors may be asked for per second, and who gets what of it when more want to.
//!
//! A scan of a network is a stream of packets to neighbors that are not there. What may be asked per second for one
//! link and family is divided, so that a flood uses up the common half and what is its own, and leaves the others
//! theirs:
//!
//! | part of the rate | for |
//! | --- | --- |
//! | 1/2 | anybody |
//! | 3/16 | addresses that have answered before, by a memory of keyed hashes |
//! | 1/8 | addresses that were refused a moment ago and are wanted again: hosts try again, a scan goes on |
//! | 1/32 for each | interface that packets come in by, and the router itself |
//! | 1/1024 for each | of 128 groups of sources, by a hash with a secret |
//!
//! The sources of packets for Linux have a budget of their own, of half of the rate, divided alike; their groups are
//! those of the stations that sent the frames.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use perigee_net::InterfaceId;

use crate::Time;
use crate::rate::TokenBucket;

/// Groups of sources.
pub(super) const GROUPS: usize = 128;

/// Whose packet wants a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The interface that the packet came in by; `None`: it is the router's own.
    pub ingress: Option<InterfaceId>,
    /// Its source; of one of the router's own, whom it is for, who made the router send it.
    pub source: IpAddr,
}

/// The secret of all hashes: nobody can choose whom to share a place with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret(pub u128);

impl Secret {
    /// SipHash.
    pub fn hash(self, of: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        of.hash(&mut hasher);
        hasher.finish()
    }

    /// The group of a source, below [`GROUPS`].
    pub fn group(self, source: impl Hash) -> u8 {
        (self.hash(source) as usize % GROUPS) as u8
    }
}

/// What may be asked on one link for one family.
#[derive(Debug)]
pub(super) struct Budget {
    rate: u32,
    anybody: TokenBucket,
    familiar: TokenBucket,
    again: TokenBucket,
    /// There are as many as interfaces at most.
    ingress: BTreeMap<Option<InterfaceId>, TokenBucket>,
    groups: Box<[TokenBucket]>,
    /// Probes of neighbors that have told their addresses unasked.
    probes: TokenBucket,
}

impl Budget {
    pub fn new(rate: u32) -> Budget {
        let part = |of: u32, burst: u32| TokenBucket::new((rate / of).max(1), burst);
        Budget {
            rate,
            anybody: part(2, rate / 2),
            familiar: TokenBucket::new((rate / 16 * 3).max(1), rate / 4),
            again: part(8, rate / 8),
            ingress: BTreeMap::new(),
            groups: std::iter::repeat_with(|| part(1024, (rate / 250).min(4))).take(GROUPS).collect(),
            probes: part(1, rate / 4),
        }
    }

    /// Whether another neighbor may be asked for: one that has answered `before`, or was refused and is wanted `again`.
    pub fn take(&mut self, now: Time, ingress: Option<InterfaceId>, group: u8, before: bool, again: bool) -> bool {
        let rate = (self.rate / 32).max(1);
        let of_ingress = self.ingress.entry(ingress).or_insert_with(|| TokenBucket::new(rate, rate));
        self.groups[usize::from(group)].take(now)
            || of_ingress.take(now)
            || before && self.familiar.take(now)
            || again && self.again.take(now)
            || self.anybody.take(now)
    }

    /// Whether another neighbor that nobody has asked for may be probed.
    pub fn take_probe(&self, now: Time) -> bool {
        self.probes.take(now)
    }
}

/// Remembers keys for a while by 20 bits of their hashes, in as much memory as it is given, whatever the keys are: of
/// four that share a place the oldest makes room for another.
#[derive(Debug)]
pub(super) struct Memory {
    /// Places of four; none before the first key.
    ways: Vec<[u32; 4]>,
    places: usize,
}

/// Times are kept in 12 bits, in units of 1/16 s: 256 s.
const UNIT: u64 = 62_500_000;
const TIMES: u32 = (1 << 12) - 1;

impl Memory {
    /// Room for four times as many keys as `places`, a power of two up to 2^32.
    pub fn new(places: usize) -> Memory {
        Memory { ways: Vec::new(), places }
    }

    fn split(&self, hash: u64) -> (usize, u32) {
        // A tag is never 0, which marks an empty way.
        (hash as u32 as usize & (self.places - 1), ((hash >> 44) as u32).max(1) << 12)
    }

    fn unit(now: Time) -> u32 {
        (now.0 / UNIT) as u32 & TIMES
    }

    /// How long ago a key was remembered, in ns, as far as the clock of 256 s says so.
    pub fn age(&self, now: Time, hash: u64) -> Option<u64> {
        let (place, tag) = self.split(hash);
        let way = self.ways.get(place)?.iter().find(|way| **way & !TIMES == tag)?;
        Some(u64::from(Self::unit(now).wrapping_sub(*way) & TIMES) * UNIT)
    }

    /// Remembers a key from now on.
    pub fn put(&mut self, now: Time, hash: u64) {
        if self.ways.is_empty() {
            self.ways = vec![[0; 4]; self.places];
        }
        let (place, tag) = self.split(hash);
        // The latest first.
        let ways = &mut self.ways[place];
        let at = ways.iter().position(|way| *way & !TIMES == tag).unwrap_or(ways.len() - 1);
        ways[..=at].rotate_right(1);
        ways[0] = tag | Self::unit(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    fn hash(n: u64) -> u64 {
        Secret(5).hash(n)
    }

    #[test]
    fn a_memory_holds_the_latest_keys_and_no_others() {
        let mut memory = Memory::new(256);
        let start = Time::from_secs(7);
        assert_eq!(memory.age(start, hash(1)), None);
        (0..400).for_each(|n| memory.put(start, hash(n)));
        let later = start.after_millis(2 * SECOND);
        let kept = (0..400).filter(|n| memory.age(later, hash(*n)) == Some(2_000_000_000)).count();
        assert!(kept > 370, "{kept} of 400 in 1024 places");
        assert!((1000..9000).all(|n| memory.age(later, hash(n)).is_none()), "never put in");
        // A flood pushes them out; what was last put in is there.
        (10_000..20_000).for_each(|n| memory.put(later, hash(n)));
        assert!((0..400).filter(|n| memory.age(later, hash(*n)).is_some()).count() < 10);
        assert!((19_900..20_000).filter(|n| memory.age(later, hash(*n)).is_some()).count() > 90);
        // Put in again it is as old as the last time.
        memory.put(later.after_millis(SECOND), hash(19_999));
        assert_eq!(memory.age(later.after_millis(SECOND), hash(19_999)), Some(0));
    }

    /// A flood of one source through one interface, in one second: how much it gets, and what is left for others.
    #[test]
    fn a_flood_takes_what_is_anybodys_and_its_own() {
        let mut budget = Budget::new(1000);
        let (flooded, other) = (Some(InterfaceId(1)), Some(InterfaceId(2)));
        let mut taken = 0;
        for ms in 0..10 * SECOND {
            let now = Time::from_secs(5).after_millis(ms);
            taken += (0..20).filter(|_| budget.take(now, flooded, 3, false, false)).count();
        }
        // 500 and 31 and 1 per second, and bursts of 500, 31 and 4.
        assert!((5800..5900).contains(&taken), "{taken}");
        let now = Time::from_secs(15);
        let earned = (0..9).filter(|_| budget.take(now, flooded, 3, false, false)).count();
        assert!(earned <= 2, "{earned} in the last millisecond");
        assert!((0..4).all(|_| budget.take(now, flooded, 4, false, false)), "another source");
        assert!((0..31).all(|_| budget.take(now, other, 3, false, false)), "through another interface");
        assert!((0..31).all(|_| budget.take(now, None, 3, false, false)), "the router itself");
        assert!((0..250).all(|_| budget.take(now, flooded, 3, true, false)), "has answered before");
        assert!((0..125).all(|_| budget.take(now, flooded, 3, false, true)), "is wanted again");
        assert!(!budget.take(now, other, 3, true, true), "nothing is left");
    }
}
