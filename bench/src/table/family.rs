// SPDX-License-Identifier: MIT
//! The differences between IPv4 and IPv6: structures, the reference, and which addresses are drawn.

use perigee_dpdk::fib as dpdk;
use perigee_fib::synth::{self, Random};
use perigee_fib::{PrefixList, Structure, structures};
use perigee_net::{Address, PrefixOf};
use std::hash::Hash;

/// An address family, named by the type of its addresses.
pub trait Family: Address + Hash {
    /// 4 or 6.
    const NUMBER: u8;
    /// The structure that ratios refer to, if it takes part.
    const REFERENCE: &'static str;
    /// Addresses per pattern: more than a cache keeps by accident, and read in order, so that reading them costs
    /// little.
    const ADDRESSES: usize;
    /// Prefixes in a synthetic table.
    const SYNTHETIC: usize;
    /// Every structure, perigee's own first.
    fn structures() -> Vec<Structure<Self>>;
    /// The prefixes of this family in a list.
    fn of(list: &PrefixList) -> &[PrefixOf<Self>];
    /// A table of the Internet's size and shape.
    fn synthetic(seed: u64) -> Vec<PrefixOf<Self>>;
    /// Random bits.
    fn random(random: &mut Random) -> Self;
    /// An address out of all those that may be anyone's: any IPv4 address; any of 2000::/3, as the rest of IPv6 is
    /// empty.
    fn uniform(random: &mut Random) -> Self;
    /// The last address of a prefix, where `bits` are all its host bits or some of them.
    fn with_host_bits(prefix: PrefixOf<Self>, bits: Self) -> Self;
    /// All ones.
    const ONES: Self;
    /// The previous address, if there is one.
    fn before(self) -> Option<Self>;
    /// The next address, if there is one.
    fn behind(self) -> Option<Self>;
    /// Stores it in the first words.
    fn put(self, words: &mut [u64]);
    /// Reads it from there.
    fn get(words: &[u64]) -> Self;
}

impl Family for u32 {
    const NUMBER: u8 = 4;
    const REFERENCE: &'static str = "rte_fib";
    const ADDRESSES: usize = 4 << 20;
    const SYNTHETIC: usize = 901_899;
    const ONES: u32 = u32::MAX;

    fn structures() -> Vec<Structure<u32>> {
        structures::IPV4.iter().chain(dpdk::RAW4).copied().collect()
    }

    fn of(list: &PrefixList) -> &[PrefixOf<u32>] {
        &list.v4
    }

    fn synthetic(seed: u64) -> Vec<PrefixOf<u32>> {
        synth::ipv4(Self::SYNTHETIC, seed).into_iter().map(|(prefix, _)| prefix).collect()
    }

    fn random(random: &mut Random) -> u32 {
        random.bits() as u32
    }

    fn uniform(random: &mut Random) -> u32 {
        random.bits() as u32
    }

    fn with_host_bits(prefix: PrefixOf<u32>, bits: u32) -> u32 {
        prefix.addr() | bits & u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0)
    }

    fn before(self) -> Option<u32> {
        self.checked_sub(1)
    }

    fn behind(self) -> Option<u32> {
        self.checked_add(1)
    }

    #[inline]
    fn put(self, words: &mut [u64]) {
        words[0] = self.into();
    }

    #[inline]
    fn get(words: &[u64]) -> u32 {
        words[0] as u32
    }
}

impl Family for u128 {
    const NUMBER: u8 = 6;
    const REFERENCE: &'static str = "rte_fib6";
    const ADDRESSES: usize = 1 << 20;
    const SYNTHETIC: usize = 160_147;
    const ONES: u128 = u128::MAX;

    fn structures() -> Vec<Structure<u128>> {
        structures::IPV6.iter().chain(dpdk::RAW6).copied().collect()
    }

    fn of(list: &PrefixList) -> &[PrefixOf<u128>] {
        &list.v6
    }

    fn synthetic(seed: u64) -> Vec<PrefixOf<u128>> {
        synth::ipv6(Self::SYNTHETIC, seed).into_iter().map(|(prefix, _)| prefix).collect()
    }

    fn random(random: &mut Random) -> u128 {
        u128::from(random.bits()) << 64 | u128::from(random.bits())
    }

    fn uniform(random: &mut Random) -> u128 {
        1 << 125 | Self::random(random) >> 3
    }

    fn with_host_bits(prefix: PrefixOf<u128>, bits: u128) -> u128 {
        prefix.addr() | bits & u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0)
    }

    fn before(self) -> Option<u128> {
        self.checked_sub(1)
    }

    fn behind(self) -> Option<u128> {
        self.checked_add(1)
    }

    #[inline]
    fn put(self, words: &mut [u64]) {
        words[0] = (self >> 64) as u64;
        words[1] = self as u64;
    }

    #[inline]
    fn get(words: &[u64]) -> u128 {
        u128::from(words[0]) << 64 | u128::from(words[1])
    }
}
