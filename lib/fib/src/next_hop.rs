// SPDX-License-Identifier: MIT
//! Next hops: one 64-bit word each, so that a changed neighbor is one atomic store, whatever the number of routes
//! through it.
//!
//! The word of a group of next hops says where its buckets are: ids of next hops in a second table, of which a flow's
//! hash picks one. No packet can be sent by that word itself, so the packets of a group leave the fast path's loop as
//! exceptions do, and a batch without groups pays nothing for them.

pub(crate) mod buckets;
pub(crate) mod group;
pub(crate) mod writer;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::lookup::table::{Memory, Table};
use crate::next_hop::group::LOG2;
use perigee_net::{InterfaceId, MacAddr};

/// Index into a table of [`NextHops`]; at most 24 bits. The lowest ids mean the same in every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// No route matches.
    pub const NO_ROUTE: Self = Self(0);
    /// The packet is for the router itself.
    pub const LOCAL: Self = Self(1);
    /// An unreachable route.
    pub const UNREACHABLE: Self = Self(2);
    /// A prohibit route.
    pub const PROHIBIT: Self = Self(3);
    /// A blackhole route.
    pub const BLACKHOLE: Self = Self(4);
    /// A route by which Linux alone can forward.
    pub const TO_LINUX: Self = Self(5);
    /// A route by which Linux alone could forward, and is not let.
    pub const REFUSED: Self = Self(6);
    /// Ids below this one are fixed; those from here on are assigned.
    pub const FIRST_FREE: u32 = 7;
    /// The largest id a lookup structure can hold.
    pub const MAX: u32 = (1 << 24) - 1;
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it out of `interface` to `mac`.
    Forward {
        /// The outgoing interface.
        interface: InterfaceId,
        /// The neighbor's address.
        mac: MacAddr,
    },
    /// Send it out of `interface` once the neighbor's MAC address is known: punt.
    Unresolved {
        /// The outgoing interface.
        interface: InterfaceId,
    },
    /// It is for the router itself: punt.
    Local,
    /// No route: punt for ICMP net unreachable (RFC 1812 section 5.2.7.1).
    NoRoute,
    /// Unreachable route: punt for ICMP host unreachable.
    Unreachable,
    /// Prohibit route: punt for ICMP communication administratively prohibited (RFC 1812 section 5.2.7.1).
    Prohibit,
    /// Drop silently.
    Blackhole,
    /// Linux alone can forward it: punt.
    ToLinux,
    /// Linux alone could forward it, and is not let: punt for ICMP host unreachable.
    Refused,
    /// One of several next hops, by the packet's flow: see [`NextHops::member`].
    Group,
}

/// An [`Action`] in one word.
///
/// The low 48 bits are the MAC address as a big-endian number (its first byte in bits 40..48), so that the last
/// six bytes of `word.to_be_bytes()` are the address. The high 16 bits are the interface or, from 0xfff0 on, one
/// of the actions that send nothing. An unresolved next hop has its interface in the low 16 bits, and above them a bit
/// that says whether each destination is its own neighbor there. A group has the index of its first bucket in the low
/// 32, and above those the base-2 logarithm of the number of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop(u64);

const fn special(code: u64) -> u64 {
    (InterfaceId::LIMIT as u64 + code) << 48
}

impl NextHop {
    /// No route matches.
    pub const NO_ROUTE: Self = Self(special(0));
    /// For the router itself.
    pub const LOCAL: Self = Self(special(1));
    /// Unreachable route.
    pub const UNREACHABLE: Self = Self(special(2));
    /// Prohibit route.
    pub const PROHIBIT: Self = Self(special(3));
    /// Blackhole route.
    pub const BLACKHOLE: Self = Self(special(4));
    const UNRESOLVED: u64 = special(5);
    const GROUP: u64 = special(6);
    /// A route by which Linux alone can forward.
    pub const TO_LINUX: Self = Self(special(7));
    /// A route by which Linux alone could forward, and is not let.
    pub const REFUSED: Self = Self(special(8));
    const LINK: u64 = Self::UNRESOLVED | 1 << 16;
    const MAC_BITS: u64 = (1 << 48) - 1;

    /// Send out of `interface`, which is below [`InterfaceId::LIMIT`], to `mac`.
    pub fn forward(interface: InterfaceId, mac: MacAddr) -> Self {
        debug_assert!(interface.0 < InterfaceId::LIMIT, "{interface:?} is reserved");
        Self(u64::from(interface.0) << 48 | mac_bits(mac))
    }

    /// Send out of `interface` once the neighbor is resolved.
    pub fn unresolved(interface: InterfaceId) -> Self {
        Self(Self::UNRESOLVED | u64::from(interface.0))
    }

    /// The destinations on the link of `interface`, each its own neighbor: a packet's is to be looked for among the
    /// [neighbors](crate::NeighborTable), and is [unresolved](Self::unresolved) if it is not there.
    pub fn link(interface: InterfaceId) -> Self {
        Self(Self::LINK | u64::from(interface.0))
    }

    /// The interface of a [`link`](Self::link); `None` of any other next hop.
    #[inline]
    pub fn on_link(self) -> Option<InterfaceId> {
        (self.0 & !0xffff == Self::LINK).then_some(InterfaceId(self.0 as u16))
    }

    /// A group with `1 << log2` buckets (at most 2^16) from index `first` on.
    pub(crate) fn group(first: u32, log2: u8) -> Self {
        Self(Self::GROUP | u64::from(log2) << 32 | u64::from(first))
    }

    /// Whether it is a group.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & !Self::MAC_BITS == Self::GROUP
    }

    /// Whether packets can be sent by it: the one test of the fast path.
    #[inline]
    pub fn is_forward(self) -> bool {
        self.0 < special(0)
    }

    /// The interface; meaningful only if [`is_forward`](Self::is_forward).
    #[inline]
    pub fn interface(self) -> InterfaceId {
        InterfaceId((self.0 >> 48) as u16)
    }

    /// The MAC address as a big-endian number of 48 bits; meaningful only if [`is_forward`](Self::is_forward).
    #[inline]
    pub fn mac_bits(self) -> u64 {
        self.0 & Self::MAC_BITS
    }

    /// Whether packets leave by it, or would if its neighbor were known, or Linux forwards them; by this interface, if
    /// one is given. Not asked of groups.
    #[inline]
    fn leads(self, by: Option<InterfaceId>) -> bool {
        match self.action() {
            Action::Forward { interface, .. } | Action::Unresolved { interface } => by.is_none_or(|by| by == interface),
            // By an interface of Linux's own.
            Action::ToLinux => by.is_none(),
            _ => false,
        }
    }

    /// The whole word, as laid out above.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// What the word stands for.
    #[inline]
    pub fn action(self) -> Action {
        if self.is_forward() {
            let [_, _, mac @ ..] = self.0.to_be_bytes();
            return Action::Forward { interface: self.interface(), mac: MacAddr(mac) };
        }
        match Self(self.0 & !Self::MAC_BITS) {
            Self::LOCAL => Action::Local,
            Self::UNREACHABLE => Action::Unreachable,
            Self::PROHIBIT => Action::Prohibit,
            Self::BLACKHOLE => Action::Blackhole,
            Self::TO_LINUX => Action::ToLinux,
            Self::REFUSED => Action::Refused,
            Self(Self::GROUP) => Action::Group,
            Self(Self::UNRESOLVED) => Action::Unresolved { interface: InterfaceId(self.0 as u16) },
            _ => Action::NoRoute,
        }
    }
}

/// A MAC address as a big-endian number of 48 bits.
pub(crate) fn mac_bits(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.octets();
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// The table of next hops as workers see it. [`NextHopWriter`](crate::NextHopWriter) fills it.
pub struct NextHops {
    /// Each word is stored xor [`NextHop::NO_ROUTE`], so that zeroed memory means "no route" and a large table takes
    /// memory only for the pages in use.
    words: Table<[AtomicU64]>,
    /// The buckets of all groups: ids of next hops that are not groups.
    buckets: Table<[AtomicU32]>,
    /// Makes this router's choices independent of those of its neighbors.
    seed: AtomicU32,
}

/// Buckets of the smallest group. There is room for one such group per next hop, within the limits below.
const SMALLEST: usize = 1 << *LOG2.start();
/// Limits of the number of buckets: room for two groups of the largest size, or for 524,288 of the smallest (256 MB,
/// once used).
const MIN_BUCKETS: usize = 1 << 17;
const MAX_BUCKETS: usize = 1 << 26;
/// The most of a table in an arena, which takes memory whether they are used or not: 4 MB.
const ARENA_BUCKETS: usize = 1 << 20;

/// Where a table of next hops is in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopParts {
    /// The line at which the words begin, and how many there are.
    pub words: (u32, u32),
    /// The line at which the buckets begin, and how many there are.
    pub buckets: (u32, u32),
    /// What flows' hashes are combined with (xor).
    pub seed: u32,
}

/// Which of the `1 << log2` buckets of a group a flow with this hash falls into. By MurmurHash3's 32-bit finalizer:
/// hashes that differ in a few bits, or that an upstream router has selected by another seed, are spread over all
/// buckets.
#[inline]
pub(crate) fn bucket_of(flow: u32, log2: u8) -> usize {
    let mut h = flow;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    ((h ^ h >> 16) >> (32 - u32::from(log2))) as usize
}

impl NextHops {
    /// A table with room for `capacity` ids, including the fixed ones; `None` if memory is short.
    pub(crate) fn new(capacity: usize, memory: &Memory) -> Option<Self> {
        let most = if matches!(memory, Memory::Arena(_)) { ARENA_BUCKETS } else { MAX_BUCKETS };
        let buckets = capacity.saturating_mul(SMALLEST).clamp(MIN_BUCKETS, most);
        let (words, buckets) = (memory.slice(capacity).ok()?, memory.slice(buckets).ok()?);
        let table = Self { words, buckets, seed: AtomicU32::new(0) };
        table.set(NextHopId::LOCAL, NextHop::LOCAL);
        table.set(NextHopId::UNREACHABLE, NextHop::UNREACHABLE);
        table.set(NextHopId::PROHIBIT, NextHop::PROHIBIT);
        table.set(NextHopId::BLACKHOLE, NextHop::BLACKHOLE);
        table.set(NextHopId::TO_LINUX, NextHop::TO_LINUX);
        table.set(NextHopId::REFUSED, NextHop::REFUSED);
        Some(table)
    }

    /// Where it is in an arena; `None` if it is in memory that this process alone reads.
    pub fn parts(&self) -> Option<NextHopParts> {
        Some(NextHopParts {
            words: (self.words.line()?, self.words.len() as u32),
            buckets: (self.buckets.line()?, self.buckets.len() as u32),
            seed: self.seed.load(Ordering::Relaxed),
        })
    }

    /// The next hop of `id`; "no route" for an id that was never assigned.
    #[inline]
    pub fn get(&self, id: NextHopId) -> NextHop {
        self.view().get(id)
    }

    /// A view of the table for a loop over packets, which keeps its address and size in registers.
    #[inline]
    pub fn view(&self) -> NextHopsView<'_> {
        NextHopsView(&self.words)
    }

    /// Release: a reader that sees a group's word also sees its buckets.
    pub(crate) fn set(&self, id: NextHopId, next_hop: NextHop) {
        self.words[id.0 as usize].store(next_hop.0 ^ NextHop::NO_ROUTE.0, Ordering::Release);
    }

    /// The next hop of `group` for the packets of a flow; `flow` is a hash of what these have in common. "No route" if
    /// `group` is not a group.
    ///
    /// Every bucket is one word, so a reader sees its old or its new member.
    #[inline]
    pub fn member(&self, group: NextHop, flow: u32) -> NextHopId {
        if !group.is_group() {
            return NextHopId::NO_ROUTE;
        }
        let (first, log2) = (group.0 as u32, (group.0 >> 32) as u8);
        let flow = flow ^ self.seed.load(Ordering::Relaxed);
        // Acquire: buckets were filled before the group's word was stored, which was loaded relaxed. The load of the
        // bucket acquires too: a member's word was stored before the member got the bucket.
        std::sync::atomic::fence(Ordering::Acquire);
        let bucket = self.buckets.get(first as usize + bucket_of(flow, log2));
        NextHopId(bucket.map_or(NextHopId::NO_ROUTE.0, |bucket| bucket.load(Ordering::Acquire)))
    }

    /// Whether packets leave by a next hop, or by any of a group's, or would if the neighbor were known; by this
    /// interface, if one is given. What reverse path forwarding asks of the next hop of a source.
    #[inline]
    pub fn leads(&self, id: NextHopId, by: Option<InterfaceId>) -> bool {
        let next_hop = self.get(id);
        if next_hop.is_group() { self.group_leads(next_hop, by) } else { next_hop.leads(by) }
    }

    #[cold]
    fn group_leads(&self, group: NextHop, by: Option<InterfaceId>) -> bool {
        let (first, log2) = (group.0 as u32 as usize, (group.0 >> 32) as u8);
        // As in `member`.
        std::sync::atomic::fence(Ordering::Acquire);
        let buckets = self.buckets.get(first..first + (1 << log2)).unwrap_or_default();
        buckets.iter().any(|bucket| self.get(NextHopId(bucket.load(Ordering::Acquire))).leads(by))
    }

    pub(crate) fn bucket(&self, at: usize) -> NextHopId {
        NextHopId(self.buckets[at].load(Ordering::Relaxed))
    }

    pub(crate) fn set_bucket(&self, at: usize, id: NextHopId) {
        self.buckets[at].store(id.0, Ordering::Release);
    }

    /// How many buckets there are for all groups together.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    pub(crate) fn set_seed(&self, seed: u32) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// How many ids there is room for.
    pub fn capacity(&self) -> usize {
        self.words.len()
    }
}

/// See [`NextHops::view`].
#[derive(Clone, Copy)]
pub struct NextHopsView<'a>(&'a [AtomicU64]);

impl<'a> NextHopsView<'a> {
    /// A stored word has a bit from this one on, unless nothing can be sent to its next hop.
    pub const FORWARD_BITS_FROM: u32 = 52;
    /// From this bit on a stored word has the interface, xor [`InterfaceId::LIMIT`], where packets can be sent to its
    /// next hop.
    pub const INTERFACE_FROM: u32 = 48;

    /// The words as they are stored: those of next hops that cannot be sent to, and of ids that were never assigned,
    /// have no bit from [`FORWARD_BITS_FROM`](Self::FORWARD_BITS_FROM) on. For who asks about several ids at once.
    #[inline]
    pub fn stored(self) -> &'a [AtomicU64] {
        self.0
    }

    /// The next hop of `id`; "no route" for an id that was never assigned.
    #[inline]
    pub fn get(self, id: NextHopId) -> NextHop {
        let word = self.0.get(id.0 as usize);
        word.map_or(NextHop::NO_ROUTE, |word| NextHop(word.load(Ordering::Relaxed) ^ NextHop::NO_ROUTE.0))
    }

    /// The interface of `id`, and the MAC address as a big-endian number in the low 48 bits, with anything above; the
    /// interface is at least [`InterfaceId::LIMIT`] unless packets can be sent by it. `None` for an id beyond the
    /// table.
    #[inline(always)]
    pub fn interface_and_mac(self, id: NextHopId) -> Option<(InterfaceId, u64)> {
        // What is stored differs from the word in the interface's bits alone, so that these are turned, and no 64-bit
        // constant is needed.
        let stored = self.0.get(id.0 as usize)?.load(Ordering::Relaxed);
        Some((InterfaceId((stored >> Self::INTERFACE_FROM) as u16 ^ InterfaceId::LIMIT), stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0x5e, 0x10, 0xfe, 0xff]);

    #[test]
    fn a_word_says_what_was_put_in() {
        for interface in [0, 1, 0x1234, InterfaceId::LIMIT - 1].map(InterfaceId) {
            let hop = NextHop::forward(interface, MAC);
            assert!(hop.is_forward());
            assert_eq!(hop.action(), Action::Forward { interface, mac: MAC });
            assert_eq!(hop.word().to_be_bytes()[2..], MAC.octets());
            assert_eq!(hop.mac_bits(), 0x0200_5e10_feff);
            let broadcast = NextHop::forward(interface, MacAddr::BROADCAST);
            assert_eq!(broadcast.action(), Action::Forward { interface, mac: MacAddr::BROADCAST });
            assert_eq!(hop.on_link(), None);
            let table = NextHops::new(20, &Memory::Own).expect("memory");
            table.set(NextHopId(7), hop);
            let (found, mac) = table.view().interface_and_mac(NextHopId(7)).unwrap();
            assert_eq!((found, mac & NextHop::MAC_BITS), (interface, hop.mac_bits()));
            let hop = NextHop::unresolved(interface);
            table.set(NextHopId(7), hop);
            for id in [0, 1, 6, 7, 20, u32::MAX] {
                assert!(
                    table
                        .view()
                        .interface_and_mac(NextHopId(id))
                        .is_none_or(|(interface, _)| interface.0 >= InterfaceId::LIMIT)
                );
            }
            let stored =
                |id: usize| table.view().stored()[id].load(Ordering::Relaxed) >> NextHopsView::FORWARD_BITS_FROM;
            assert_eq!([0, 1, 6, 7].map(stored), [0; 4]);
            table.set(NextHopId(8), NextHop::forward(interface, MAC));
            assert_ne!(stored(8), 0);
            assert!(!hop.is_forward() && !hop.is_group());
            assert_eq!((hop.action(), hop.on_link()), (Action::Unresolved { interface }, None));
            let hop = NextHop::link(interface);
            assert!(!hop.is_forward() && !hop.is_group());
            assert_eq!((hop.action(), hop.on_link()), (Action::Unresolved { interface }, Some(interface)));
        }
    }

    #[test]
    fn fixed_ids_and_everything_else() {
        let table = NextHops::new(20, &Memory::Own).expect("memory");
        let action = |id| table.get(NextHopId(id)).action();
        let answered = [Action::NoRoute, Action::Local, Action::Unreachable, Action::Prohibit, Action::Blackhole];
        let fixed = answered.into_iter().chain([Action::ToLinux, Action::Refused]);
        for (id, expected) in (0..).zip(fixed) {
            assert_eq!(action(id), expected);
            assert!(!table.get(NextHopId(id)).is_forward() && table.get(NextHopId(id)).on_link().is_none());
        }
        for id in [7, 15, 16, 19, 20, NextHopId::MAX, u32::MAX] {
            assert_eq!(action(id), Action::NoRoute, "id {id}");
        }
    }

    #[test]
    fn a_large_table_takes_no_memory_until_it_is_used() {
        let table = NextHops::new(NextHopId::MAX as usize + 1, &Memory::Own).expect("memory");
        table.set(NextHopId(NextHopId::MAX), NextHop::unresolved(InterfaceId(3)));
        assert_eq!(table.get(NextHopId(NextHopId::MAX)).action(), Action::Unresolved { interface: InterfaceId(3) });
        assert_eq!(table.get(NextHopId(NextHopId::MAX - 1)).action(), Action::NoRoute);
    }
}
