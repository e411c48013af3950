// SPDX-License-Identifier: MIT
//! Addresses as numbers, and the next hops that are found for them: those of destinations, which packets leave by, and
//! those of sources, beside them.

use super::{Column, Columns};
use crate::batch::lanes::{Kernel, Lanes};
use crate::batch::{BATCH_SIZE, Batch, Mask};

/// Room for the addresses of some slots without the others between them, and for what is found for them.
pub(super) struct Gathered<A> {
    pub(super) addresses: [A; BATCH_SIZE],
    pub(super) ids: Column,
}

/// Makes numbers of addresses.
struct Numbers<'a>(&'a Column, &'a mut Column);

impl Kernel<0> for Numbers<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 0] {
        L::store(self.1, at, L::swap(L::load(self.0, at)));
        []
    }
}

impl Batch {
    /// The next hops of all slots, for kernels.
    #[inline(always)]
    pub fn next_hops(&self) -> &Column {
        &self.next_hop
    }

    /// Has `prefetch` start to load what a lookup of the destinations of the IPv4 packets of `mask` reads first, unless
    /// few of the burst are among them.
    #[inline(always)]
    pub fn expect4(&mut self, mask: Mask, prefetch: impl FnOnce(&[u32])) {
        let span = mask.span();
        if is_dense(mask, span) {
            prefetch(&self.columns.destinations4[..span]);
            self.columns.expected4 = mask;
        }
    }

    /// Has `look_up` find the next hops of the destinations of the IPv4 packets of `mask`, and sets them. A packet
    /// without a header has the destination 0. Its third argument: whether they were [expected](Batch::expect4).
    #[inline(always)]
    pub fn look_up4(&mut self, mask: Mask, mut look_up: impl FnMut(&[u32], &mut [u32], bool)) {
        let mask = mask & self.live;
        for slot in mask - self.load(mask) {
            self.columns.destinations4[usize::from(slot)] = 0;
        }
        let Columns { destinations4, gathered4, expected4, .. } = &mut self.columns;
        let expected = (mask - *expected4).is_empty();
        let look_up = |addresses: &[u32], ids: &mut [u32]| look_up(addresses, ids, expected);
        look_up_column(destinations4, &mut self.next_hop, gathered4, self.live, mask, look_up);
    }

    /// The same of IPv6 packets, which are never expected.
    #[inline(always)]
    pub fn look_up6(&mut self, mask: Mask, mut look_up: impl FnMut(&[u128], &mut [u32], bool)) {
        let look_up = |addresses: &[u128], ids: &mut [u32]| look_up(addresses, ids, false);
        let mask = mask & self.live;
        self.load_destinations6(mask);
        let Columns { destinations6, gathered6, .. } = &mut self.columns;
        look_up_column(destinations6, &mut self.next_hop, gathered6, self.live, mask, look_up);
    }

    /// IPv6 destinations, by slot, for packets whose are [loaded](Batch::load_destinations6); 0 of one without a
    /// header.
    #[inline(always)]
    pub fn destinations6(&self) -> &[u128; BATCH_SIZE] {
        &self.columns.destinations6
    }

    /// Reads those destinations of the IPv6 packets of `mask` that are not up to date.
    #[inline(always)]
    pub fn load_destinations6(&mut self, mask: Mask) {
        let loaded = self.load(mask);
        let missing = (mask & self.live) - (loaded & self.columns.loaded6);
        if !missing.is_empty() {
            self.load_each6(missing);
        }
    }

    #[inline(never)]
    fn load_each6(&mut self, missing: Mask) {
        let whole = self.read6::<24>(missing, |columns| &mut columns.destinations6);
        self.columns.loaded6 |= whole;
    }

    /// Reads an address of the IPv6 packets of `mask`, at an offset of the header, into a column; 0 of one without a
    /// header. Returns those that have a header.
    #[inline(always)]
    fn read6<const AT: usize>(&mut self, mask: Mask, column: impl Fn(&mut Columns) -> &mut [u128; BATCH_SIZE]) -> Mask {
        let Batch { data, l3, length, columns, live, .. } = self;
        const { assert!(AT + 16 <= 40, "an address of the header") };
        let column = column(columns);
        let [whole] = (mask & *live).sort(|slot| {
            let i = usize::from(slot);
            let l3 = usize::from(l3[i]);
            let is_whole = l3 + 40 <= usize::from(length[i]);
            let mut bytes = [0; 16];
            if is_whole {
                // SAFETY: the slot is live, and its frame has the bytes. We hold the batch alone.
                bytes = unsafe { data[i].add(l3 + AT).cast::<[u8; 16]>().read() };
            }
            column[i] = u128::from_be_bytes(bytes);
            [is_whole]
        });
        whole
    }

    /// Has `look_up` find the next hops of the sources of the IPv4 packets of `mask`: the
    /// [`source_hops`](Batch::source_hops). A packet without a header has the source 0. The packets' own next hops
    /// stay.
    #[inline(always)]
    pub fn look_up_sources4(&mut self, mask: Mask, look_up: impl FnMut(&[u32], &mut [u32])) {
        let mask = mask & self.live;
        let loaded = self.load(mask);
        let count = self.count();
        let Columns { words, sources4, source_hops, gathered4, .. } = &mut self.columns;
        let [] = self.isa.sort(count, &mut Numbers(&words[3], sources4));
        for slot in mask - loaded {
            sources4[usize::from(slot)] = 0;
        }
        look_up_column(sources4, source_hops, gathered4, self.live, mask, look_up);
    }

    /// The same of IPv6 packets.
    #[inline(always)]
    pub fn look_up_sources6(&mut self, mask: Mask, look_up: impl FnMut(&[u128], &mut [u32])) {
        let mask = mask & self.live;
        self.read6::<8>(mask, |columns| &mut columns.sources6);
        let Columns { sources6, source_hops, gathered6, .. } = &mut self.columns;
        look_up_column(sources6, source_hops, gathered6, self.live, mask, look_up);
    }

    /// Next hops of sources, of the packets that these were looked up for last; those of other slots mean nothing.
    #[inline(always)]
    pub fn source_hops(&self) -> &Column {
        &self.columns.source_hops
    }
}

/// Whether so many of the first `span` slots are in a mask that the others may come along.
#[inline(always)]
fn is_dense(mask: Mask, span: usize) -> bool {
    4 * mask.count() >= 3 * span
}

/// Looks up the entries of a column.
#[inline(always)]
fn look_up_column<A: Copy>(
    column: &[A; BATCH_SIZE],
    next_hop: &mut Column,
    gathered: &mut Gathered<A>,
    live: Mask,
    mask: Mask,
    mut look_up: impl FnMut(&[A], &mut [u32]),
) {
    // What slots without a packet hold is looked up with the others, if they are few: their answers hurt nobody.
    let span = mask.span();
    if mask == live && is_dense(mask, span) {
        return look_up(&column[..span], &mut next_hop[..span]);
    }
    let Gathered { addresses, ids } = gathered;
    let mut n = 0;
    mask.for_each(|slot| {
        addresses[n % BATCH_SIZE] = column[usize::from(slot)];
        n += 1;
    });
    look_up(&addresses[..n], &mut ids[..n]);
    n = 0;
    mask.for_each(|slot| {
        next_hop[usize::from(slot)] = ids[n % BATCH_SIZE];
        n += 1;
    });
}
