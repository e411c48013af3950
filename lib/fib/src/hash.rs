// SPDX-License-Identifier: MIT
//! A fast hash for keys of a few words: routes and next hops are looked for with every change of a route. Whoever
//! announces routes does not know the secret of a map, and so cannot put many of them into one place.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers with a secret of their own.
#[derive(Clone, Debug)]
pub(crate) struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Secret {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { state: self.0, secret: self.0 | 1 }
    }
}

/// Each word is mixed in by a multiplication of 64 bits to 128, of which both halves count.
pub(crate) struct Folded {
    state: u64,
    secret: u64,
}

impl Folded {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15 ^ self.secret);
        self.state = (product >> 64) as u64 ^ product as u64 ^ self.secret.rotate_left(32);
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_ne_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        // Maps take the lowest and the highest bits.
        (self.state ^ self.state >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_a_little_have_hashes_that_differ_everywhere() {
        let secret = Secret::default();
        let all: Vec<u64> = (0..1u32 << 16).map(|key| secret.hash_one((key, key % 3))).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        // Of 65,536 balls in as many bins, 63 % of the bins have one.
        for part in [|hash: &u64| hash & 0xffff, |hash: &u64| hash >> 48] {
            let bins = all.iter().map(part).collect::<HashSet<_>>().len();
            assert!(bins > 40_000, "{bins} of 65536, secret {secret:?}");
        }
        assert_ne!(secret.hash_one("gateway 1"), secret.hash_one("gateway 2"));
        assert_ne!(secret.hash_one(1), Secret::default().hash_one(1), "another secret");
    }
}
