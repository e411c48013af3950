// SPDX-License-Identifier: MIT
//! Next hops: one 64-bit word each, so that a changed neighbor is one atomic store for every route through it.

use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

/// An Ethernet address, its bytes in the order of the wire.
pub type Mac = [u8; 6];

/// Index into the table of [`Interfaces`](crate::Interfaces); below [`InterfaceId::LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// Ids from here on are not interfaces: the word of a next hop codes its other actions with them.
    pub const LIMIT: u16 = 0xfff0;
}

/// Index into the table of [`NextHops`]; at most 24 bits. The low ids are the same in every table.
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
    /// Ids below are fixed; from here on they are given out.
    pub const FIRST_FREE: u32 = 16;
    /// The largest id a lookup structure can hold.
    pub const MAX: u32 = (1 << 24) - 1;
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it out of `interface` to `mac`.
    Forward {
        /// Where it leaves.
        interface: InterfaceId,
        /// The neighbor's address.
        mac: Mac,
    },
    /// It leaves through `interface`, but the neighbor's MAC address is not known yet: punt.
    Unresolved {
        /// Where it will leave.
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
}

/// An [`Action`] in one word.
///
/// The low 48 bits are the MAC address as a big-endian number (its first byte in bits 40..48), so that the last
/// six bytes of `word.to_be_bytes()` are the address. The high 16 bits are the interface, or from 0xfff0 on one
/// of the actions that send nothing; an unresolved next hop has its interface in the low 16 bits.
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
    const MAC_BITS: u64 = (1 << 48) - 1;

    /// Send out of `interface` to `mac`. `interface` is below [`InterfaceId::LIMIT`].
    pub fn forward(interface: InterfaceId, mac: Mac) -> Self {
        debug_assert!(interface.0 < InterfaceId::LIMIT, "{interface:?} is reserved");
        Self(u64::from(interface.0) << 48 | mac_bits(mac))
    }

    /// Leaves through `interface`, neighbor not known yet.
    pub fn unresolved(interface: InterfaceId) -> Self {
        Self(Self::UNRESOLVED | u64::from(interface.0))
    }

    /// Whether packets can be sent: the one test of the fast path.
    #[inline]
    pub fn is_forward(self) -> bool {
        self.0 < special(0)
    }

    /// The interface; only means something where [`is_forward`](Self::is_forward).
    #[inline]
    pub fn interface(self) -> InterfaceId {
        InterfaceId((self.0 >> 48) as u16)
    }

    /// The MAC address as a big-endian number of 48 bits; only means something where [`is_forward`](Self::is_forward).
    #[inline]
    pub fn mac_bits(self) -> u64 {
        self.0 & Self::MAC_BITS
    }

    /// The whole word, as laid out above.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// What the word says.
    #[inline]
    pub fn action(self) -> Action {
        if self.is_forward() {
            let [_, _, mac @ ..] = self.0.to_be_bytes();
            return Action::Forward { interface: self.interface(), mac };
        }
        match Self(self.0 & !Self::MAC_BITS) {
            Self::LOCAL => Action::Local,
            Self::UNREACHABLE => Action::Unreachable,
            Self::PROHIBIT => Action::Prohibit,
            Self::BLACKHOLE => Action::Blackhole,
            Self(Self::UNRESOLVED) => Action::Unresolved { interface: InterfaceId(self.0 as u16) },
            _ => Action::NoRoute,
        }
    }
}

/// A MAC address as a big-endian number of 48 bits.
pub(crate) fn mac_bits(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// The table of next hops as workers see it. [`NextHopWriter`](crate::NextHopWriter) fills it.
pub struct NextHops {
    /// Each word is kept xor [`NextHop::NO_ROUTE`], so that fresh zeroed memory says "no route" and a large
    /// table costs only the pages in use.
    words: Box<[AtomicU64]>,
}

impl NextHops {
    /// A table with room for `capacity` ids, the fixed ones included; `None` if memory is short.
    pub(crate) fn new(capacity: usize) -> Option<Self> {
        let words = <[AtomicU64]>::new_box_zeroed_with_elems(capacity).ok()?;
        let table = Self { words };
        table.set(NextHopId::LOCAL, NextHop::LOCAL);
        table.set(NextHopId::UNREACHABLE, NextHop::UNREACHABLE);
        table.set(NextHopId::PROHIBIT, NextHop::PROHIBIT);
        table.set(NextHopId::BLACKHOLE, NextHop::BLACKHOLE);
        Some(table)
    }

    /// The next hop of `id`; any id that was never given out is "no route".
    #[inline]
    pub fn get(&self, id: NextHopId) -> NextHop {
        self.view().get(id)
    }

    /// The same table for a loop over packets, which keeps its place and size in registers.
    #[inline]
    pub fn view(&self) -> NextHopsView<'_> {
        NextHopsView(&self.words)
    }

    pub(crate) fn set(&self, id: NextHopId, next_hop: NextHop) {
        self.words[id.0 as usize].store(next_hop.0 ^ NextHop::NO_ROUTE.0, Ordering::Relaxed);
    }

    /// How many ids there is room for.
    pub fn capacity(&self) -> usize {
        self.words.len()
    }
}

/// See [`NextHops::view`].
#[derive(Clone, Copy)]
pub struct NextHopsView<'a>(&'a [AtomicU64]);

impl NextHopsView<'_> {
    /// The next hop of `id`; any id that was never given out is "no route".
    #[inline]
    pub fn get(self, id: NextHopId) -> NextHop {
        let word = self.0.get(id.0 as usize);
        word.map_or(NextHop::NO_ROUTE, |word| NextHop(word.load(Ordering::Relaxed) ^ NextHop::NO_ROUTE.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0x5e, 0x10, 0xfe, 0xff];

    #[test]
    fn a_word_says_what_was_put_in() {
        for interface in [0, 1, 0x1234, InterfaceId::LIMIT - 1].map(InterfaceId) {
            let hop = NextHop::forward(interface, MAC);
            assert!(hop.is_forward());
            assert_eq!(hop.action(), Action::Forward { interface, mac: MAC });
            assert_eq!(hop.word().to_be_bytes()[2..], MAC);
            assert_eq!(hop.mac_bits(), 0x0200_5e10_feff);
            let broadcast = NextHop::forward(interface, [0xff; 6]);
            assert_eq!(broadcast.action(), Action::Forward { interface, mac: [0xff; 6] });
            let hop = NextHop::unresolved(interface);
            assert!(!hop.is_forward());
            assert_eq!(hop.action(), Action::Unresolved { interface });
        }
    }

    #[test]
    fn fixed_ids_and_everything_else() {
        let table = NextHops::new(20).expect("memory");
        let action = |id| table.get(NextHopId(id)).action();
        let fixed = [Action::NoRoute, Action::Local, Action::Unreachable, Action::Prohibit, Action::Blackhole];
        for (id, expected) in (0..).zip(fixed) {
            assert_eq!(action(id), expected);
            assert!(!table.get(NextHopId(id)).is_forward());
        }
        for id in [5, 15, 16, 19, 20, NextHopId::MAX, u32::MAX] {
            assert_eq!(action(id), Action::NoRoute, "id {id}");
        }
    }

    #[test]
    fn a_large_table_costs_nothing_until_it_is_used() {
        let table = NextHops::new(NextHopId::MAX as usize + 1).expect("memory");
        table.set(NextHopId(NextHopId::MAX), NextHop::unresolved(InterfaceId(3)));
        assert_eq!(table.get(NextHopId(NextHopId::MAX)).action(), Action::Unresolved { interface: InterfaceId(3) });
        assert_eq!(table.get(NextHopId(NextHopId::MAX - 1)).action(), Action::NoRoute);
    }
}
