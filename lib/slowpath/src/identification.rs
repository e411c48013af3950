// SPDX-License-Identifier: MIT
//! Identifications of this router's own packets (RFC 7739 5.3, RFC 6864): a counter for each pair of addresses, from a
//! start that nobody else can compute.
//!
//! One counter for all would let anyone learn from its own packets how many others get, and guess the next value:
//! enough to slip a fragment into a datagram (RFC 7739 3). Without a secret, as in tests, the values can be predicted,
//! but still do not repeat soon.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Counters that pairs of addresses share: two pairs with one counter see each other's packets as gaps, no more.
const COUNTERS: usize = 256;

#[derive(Debug)]
pub(crate) struct Identifications {
    secret: u128,
    counters: Box<[u32]>,
}

impl Identifications {
    pub(crate) fn new(secret: u128) -> Self {
        Identifications { secret, counters: vec![0; COUNTERS].into() }
    }

    /// The next one for packets from one address to another. IPv4 takes the low 16 bits.
    pub(crate) fn next(&mut self, from: IpAddr, to: IpAddr) -> u32 {
        let hash = self.hash(from, to);
        let (start, which) = (hash as u32, (hash >> 32) as usize % self.counters.len());
        self.counters[which] = self.counters[which].wrapping_add(1);
        start.wrapping_add(self.counters[which])
    }

    /// SipHash of the secret and both addresses: its low half is F of RFC 7739, its high half G.
    fn hash(&self, from: IpAddr, to: IpAddr) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(self.secret);
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                hasher.write_u64(u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()))
            }
            (from, to) => (from, to).hash(&mut hasher),
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn counts_up_for_a_pair_from_a_start_of_its_own() {
        let mut ids = Identifications::new(7);
        let to: Vec<u32> = (0..100).map(|_| ids.next(address(1), address(2))).collect();
        assert!(to.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
        let starts: std::collections::BTreeSet<u32> = (0..=255).map(|n| ids.next(address(n), address(9))).collect();
        assert_eq!(starts.len(), 256);
    }

    #[test]
    fn another_secret_gives_others_and_the_same_gives_the_same() {
        let series = |secret| {
            let mut ids = Identifications::new(secret);
            [ids.next(address(1), address(2)), ids.next(address(2), address(1))]
        };
        assert_eq!(series(1), series(1));
        assert_ne!(series(1), series(2));
        assert_ne!(series(1)[0], series(1)[1]);
    }
}
