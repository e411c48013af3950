// SPDX-License-Identifier: MIT
//! The 5-tuples of packets, as the matchers of filters take them: side by side, without a gap.
//!
//! Addresses and protocol of IPv4 are in the [columns](super), and so is where the ports are; only these are read from
//! the frame. Those of IPv6 are made packet by packet (`wire/tuple.rs`).

use super::{Column, Columns, View};
use crate::batch::lanes::{Kernel, Lanes};
use crate::batch::{BATCH_SIZE, Batch, Mask};
use crate::wire::tuple::{self, WITH_PORTS};
use perigee_net::{Key, Key4, Key6, Missing};
use std::mem::{offset_of, transmute};

/// Keys, and what is found out about a burst before they are made.
pub(super) struct Tuples {
    keys4: [Key4; BATCH_SIZE],
    keys6: [Key6; BATCH_SIZE],
    /// The first four bytes of each key, the lowest first, without what is missing.
    heads: Column,
    /// Offset of the ports in each frame, in bytes; [`NONE`] where there are none, and beyond any frame where the
    /// datagram has some, but not the packet.
    ports: Column,
}

/// Beyond any frame.
const NONE: u32 = u32::MAX;
/// Of a key's first four bytes: the packet is a fragment ...
const FRAGMENT: u32 = 1 << (8 * offset_of!(Key4, fragment));
/// ... and does not show its ports.
const NO_PORTS: u32 = (Missing::Ports as u32) << (8 * offset_of!(Key4, missing));
const _: () =
    assert!(offset_of!(Key4, protocol) == 0 && offset_of!(Key4, source) == 4 && offset_of!(Key4, source_port) == 12);

impl Tuples {
    pub(super) const EMPTY: Tuples = Tuples {
        keys4: [Key::ZERO; BATCH_SIZE],
        keys6: [Key::ZERO; BATCH_SIZE],
        heads: [0; BATCH_SIZE],
        ports: [NONE; BATCH_SIZE],
    };
}

/// Finds the protocols and the ports of IPv4 packets.
struct Find<'a> {
    columns: View<'a>,
    heads: &'a mut Column,
    ports: &'a mut Column,
}

impl Kernel<0> for Find<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 0] {
        let View { words, l3, .. } = self.columns;
        let [first, second, third] = [0, 1, 2].map(|i| L::load(&words[i], at));
        // The second byte of the third word. Of the second word the last 13 bits are the fragment's offset.
        let protocol = L::and(L::shr::<8>(third), L::splat(0xff));
        let is_whole = L::equal(L::and(second, L::splat(0xff3f_0000)), L::splat(0));
        let is_first = L::equal(L::and(second, L::splat(0xff1f_0000)), L::splat(0));
        let mut has_ports = L::equal(protocol, L::splat(WITH_PORTS[0].into()));
        for other in &WITH_PORTS[1..] {
            has_ports = L::either(has_ports, L::equal(protocol, L::splat((*other).into())));
        }
        let header = L::shl::<2>(L::and(first, L::splat(0xf)));
        let total = L::and(L::swap(first), L::splat(0xffff));
        let here = L::except(is_first, L::greater(L::add(header, L::splat(4)), total));
        let behind = L::add(L::load8(l3, at), header);
        // One less than 0 is NONE.
        let found = L::only(L::both(here, has_ports), L::add(behind, L::splat(1)));
        let missing = L::only(L::except(has_ports, here), L::splat(u32::MAX));
        let ports = L::sub(L::or(found, missing), L::splat(1));
        L::store(self.heads, at, L::or(protocol, L::only(L::not(is_whole), L::splat(FRAGMENT))));
        L::store(self.ports, at, ports);
        []
    }
}

impl Batch {
    /// The 5-tuples of the live IPv4 packets of `mask`, in their order. A packet without 20 bytes of a header has an
    /// empty one.
    #[inline(never)]
    pub fn keys4(&mut self, mask: Mask) -> &mut [Key4] {
        let mask = mask & self.live;
        let loaded = self.load(mask);
        let count = self.count();
        let Batch { data, length, l3, flags, interface, columns, isa, .. } = self;
        let Columns { words, tuples: Tuples { keys4, heads, ports, .. }, .. } = columns;
        let words = &*words;
        let [_, _, _, sources, destinations] = words;
        let columns = View { words, length, l3, flags, interface };
        let [] = isa.sort(count, &mut Find { columns, heads, ports });
        let mut n = 0;
        mask.for_each(|slot| {
            let i = usize::from(slot);
            let at = ports[i];
            let (missing, ports) = if u64::from(at) + 4 <= length[i].into() {
                // SAFETY: the slot is live, and its frame has the bytes. We hold the batch alone.
                (0, unsafe { data[i].add(at as usize).cast::<u32>().read_unaligned() })
            } else {
                (if at == NONE { 0 } else { NO_PORTS }, 0)
            };
            let key = [(heads[i] | missing).to_le(), sources[i], destinations[i], ports];
            // SAFETY: both have 16 bytes, and any value is one of each field but two: `heads` has 0 or 1 at
            // `fragment`'s, and nothing at that of `missing`.
            keys4[n % BATCH_SIZE] = unsafe { transmute::<[u32; 4], Key4>(key) };
            n += 1;
        });
        for slot in mask - loaded {
            keys4[(mask & Mask::first(slot.into())).count()] = Key::ZERO;
        }
        &mut keys4[..n]
    }

    /// The first keys that [`keys4`](Self::keys4) made last.
    pub fn made4(&mut self, count: usize) -> &mut [Key4] {
        &mut self.columns.tuples.keys4[..count]
    }

    /// The first keys that [`keys6`](Self::keys6) made last.
    pub fn made6(&mut self, count: usize) -> &mut [Key6] {
        &mut self.columns.tuples.keys6[..count]
    }

    /// The same of IPv6 packets, whose headers have 40 bytes. The protocol is that of the upper layer.
    #[inline(never)]
    pub fn keys6(&mut self, mask: Mask) -> &mut [Key6] {
        let Batch { data, length, l3, columns, live, .. } = self;
        let keys6 = &mut columns.tuples.keys6;
        let mut n = 0;
        (mask & *live).for_each(|slot| {
            let i = usize::from(slot);
            // SAFETY: the slot is live: its frame has that many bytes. We hold the batch alone.
            let frame = unsafe { std::slice::from_raw_parts(data[i], length[i].into()) };
            keys6[n % BATCH_SIZE] = tuple::key6(frame.get(l3[i].into()..).unwrap_or_default()).unwrap_or(Key::ZERO);
            n += 1;
        });
        &mut keys6[..n]
    }
}
