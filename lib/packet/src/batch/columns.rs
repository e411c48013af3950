// SPDX-License-Identifier: MIT
//! What modules ask of headers, side by side: the first five words of each packet's network header, and the destination
//! of IPv6. (Room for sources, their next hops and 5-tuples is beside them; those are made anew whenever they are asked
//! for.)
//!
//! The frame is always the truth, and a column what was read of it: `loaded` has the slots whose columns equal their
//! frame.
//!
//! 1. A module that needs the columns of a slot which is not in `loaded` has it read first ([`Batch::load`]);
//!    `classify` reads those of a whole burst at once ([`Batch::load_frames`]).
//! 2. Who writes bytes of a frame takes its slot out of `loaded`: every method of [`Slot`](super::Slot) that lends or
//!    moves the bytes does, and so does moving between batches.
//! 3. [`Batch::change_word`] changes a word of column and frame together, so that its slots stay in `loaded`.
//! 4. Code beyond our sight (a C module, a script that holds a pointer) is followed by `loaded.clear`: by the host
//!    before and after each call of a C module, and when a script asks for a frame. One that keeps a pointer and writes
//!    later makes a column out of date: of its own packet, which then leaves by a header of before; no other packet and
//!    no memory is in danger, as a slot in `loaded` is live and has its header's 20 bytes in the buffer, whatever they
//!    are.
#![allow(unsafe_code)]

mod addresses;
mod tuples;

use addresses::Gathered;
use tuples::Tuples;

use super::lanes::{Heads, Isa, Kernel, Lanes};
use super::{BATCH_SIZE, Batch, Mask};

/// Words of a network header that are kept: all of IPv4's; of IPv6's the first, the second, and three of the source's.
pub const WORDS: usize = 5;
/// What has to be there of a frame whose columns are read in a group: an Ethernet header and these words.
const HEAD: u16 = 14 + 4 * WORDS as u16;

/// A column of words.
pub type Column = [u32; BATCH_SIZE];

/// The columns of a batch.
pub(super) struct Columns {
    words: [Column; WORDS],
    /// IPv4 destinations, as numbers.
    destinations4: Column,
    /// IPv6 destinations, as numbers, of the slots of `loaded6` that are also in the batch's `loaded`.
    destinations6: [u128; BATCH_SIZE],
    loaded6: Mask,
    /// Sources as numbers, and the next hops that were found for them: of the packets of the last call of
    /// `look_up_sources4` or `6`.
    sources4: Column,
    sources6: [u128; BATCH_SIZE],
    source_hops: Column,
    /// Slots for whose IPv4 destinations what a lookup reads first is on its way into the cache.
    expected4: Mask,
    gathered4: Gathered<u32>,
    gathered6: Gathered<u128>,
    tuples: Tuples,
    /// Of the slots in `loaded`, those that were read with 14 bytes before the network header: their frames have 34
    /// bytes or more.
    untagged: Mask,
}

impl Columns {
    pub(super) const EMPTY: Columns = Columns {
        words: [[0; BATCH_SIZE]; WORDS],
        destinations4: [0; BATCH_SIZE],
        destinations6: [0; BATCH_SIZE],
        loaded6: Mask::EMPTY,
        sources4: [0; BATCH_SIZE],
        sources6: [0; BATCH_SIZE],
        source_hops: [0; BATCH_SIZE],
        expected4: Mask::EMPTY,
        gathered4: Gathered { addresses: [0; BATCH_SIZE], ids: [0; BATCH_SIZE] },
        gathered6: Gathered { addresses: [0; BATCH_SIZE], ids: [0; BATCH_SIZE] },
        tuples: Tuples::EMPTY,
        untagged: Mask::EMPTY,
    };
}

/// The columns of a batch, for kernels. Those of slots that are not loaded hold anything.
pub struct View<'a> {
    /// The words of the network header, in the frame's byte order.
    pub words: &'a [Column; WORDS],
    /// Length of each frame in bytes.
    pub length: &'a [u16; BATCH_SIZE],
    /// Offset of the network header in bytes.
    pub l3: &'a [u8; BATCH_SIZE],
    /// See [`flags`](super::flags).
    pub flags: &'a [u8; BATCH_SIZE],
    /// Receiving interface of each packet.
    pub interface: &'a [u16; BATCH_SIZE],
}

/// A station's MAC address as frames have it: its first two bytes, and the other four.
#[derive(Clone, Copy)]
pub struct Station(u32, u32);

impl Station {
    /// Of the address's six bytes.
    #[inline(always)]
    pub fn new([a, b, c, d, e, f]: [u8; 6]) -> Station {
        Station(u16::from_ne_bytes([a, b]).into(), u32::from_ne_bytes([c, d, e, f]))
    }
}

/// How a frame leaves.
#[derive(Clone, Copy)]
pub struct Departure {
    /// The destination's address and the first two bytes of the source's, as one big-endian number.
    pub first: u64,
    /// The other four.
    pub last: u32,
    /// The port.
    pub port: u16,
}

/// How a word of a header changes.
pub trait ChangeWord {
    /// The new words, and for which of the old ones there is none: their packets stay as they are. To be
    /// `#[inline(always)]`.
    fn change<L: Lanes>(&self, words: L::Word) -> (L::Word, L::Truth);
}

/// Ethernet types as the upper half of a word of the frame.
const IPV4: u32 = (u16::from_ne_bytes([0x08, 0x00]) as u32) << 16;
const IPV6: u32 = (u16::from_ne_bytes([0x86, 0xdd]) as u32) << 16;
const TYPE: u32 = 0xffff << 16;

/// What a slot without a whole head is read from.
static NOTHING: [u8; HEAD as usize] = [0; HEAD as usize];

/// Reads the heads of frames, and tells those to a station by their type.
struct Load<'a> {
    data: &'a [*mut u8; BATCH_SIZE],
    /// Live slots.
    live: Mask,
    length: &'a [u16; BATCH_SIZE],
    columns: &'a mut Columns,
    station: Station,
}

impl Kernel<3> for Load<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 3] {
        let all = u32::MAX >> (32 - L::COUNT);
        let long = L::bits(L::greater(L::load16(self.length, at), L::splat(u32::from(HEAD) - 1)));
        let there = long & self.live.bits_at(at) & all;
        let mut frames = [NOTHING.as_ptr(); 16];
        let mut first: *const *const u8 = self.data[at..].as_ptr().cast();
        if there != all {
            for (i, frame) in frames.iter_mut().enumerate().take(L::COUNT) {
                if there >> i & 1 != 0 {
                    *frame = self.data[at + i];
                }
            }
            first = frames.as_ptr();
        }
        // SAFETY: a group lies inside the batch. Every address is a live frame's with at least 34 bytes, or that of
        // NOTHING.
        let Heads { first, rest, kind, words } = unsafe { L::heads(first) };
        for (column, word) in self.columns.words.iter_mut().zip(words) {
            L::store(column, at, word);
        }
        L::store(&mut self.columns.destinations4, at, L::swap(words[WORDS - 1]));
        let ours = L::both(L::equal(first, L::splat(self.station.0)), L::equal(rest, L::splat(self.station.1)));
        let kind = L::and(kind, L::splat(TYPE));
        let family = |kind_of| L::bits(L::both(ours, L::equal(kind, L::splat(kind_of)))) & there;
        [there, family(IPV4), family(IPV6)]
    }
}

/// Changes a column.
struct Change<'a, C> {
    column: &'a mut Column,
    mask: Mask,
    change: C,
}

impl<C: ChangeWord> Kernel<1> for Change<'_, C> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 1] {
        let old = L::load(self.column, at);
        let (new, refused) = self.change.change::<L>(old);
        let refused = L::bits(refused);
        L::store(self.column, at, L::blend(self.mask.bits_at(at) & !refused, new, old));
        [refused]
    }
}

/// Finds the slots whose entry in a column has a value.
struct Equal16<'a>(&'a [u16; BATCH_SIZE], u16);

impl Kernel<1> for Equal16<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 1] {
        [L::bits(L::equal(L::load16(self.0, at), L::splat(self.1.into())))]
    }
}

/// Finds the packets that are longer than so many bytes from their network header on.
struct Longer<'a>(&'a [u16; BATCH_SIZE], &'a [u8; BATCH_SIZE], u16);

impl Kernel<1> for Longer<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 1] {
        let packet = L::sub(L::load16(self.0, at), L::load8(self.1, at));
        [L::bits(L::greater(packet, L::splat(self.2.into())))]
    }
}

impl Batch {
    /// The instruction set that its columns are handled with.
    #[inline]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The columns, for kernels; [`load`](Batch::load) them first.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        let Batch { columns, length, l3, flags, interface, .. } = self;
        View { words: &columns.words, length, l3, flags, interface }
    }

    /// Reads the columns of all live packets, taken for untagged frames: sets every slot's `l3` to 14. Returns the
    /// masks of the IPv4 and of the IPv6 packets among them whose destination is `station`, by the Ethernet type.
    #[inline]
    pub fn load_frames(&mut self, station: [u8; 6]) -> [Mask; 2] {
        let count = self.count();
        // Sixty-four slots at once, which takes two stores.
        self.l3.as_chunks_mut::<64>().0[..count.div_ceil(64)].fill([14; 64]);
        let station = Station::new(station);
        let Batch { data, live, length, columns, .. } = self;
        let [loaded, ip4, ip6] = self.isa.sort(count, &mut Load { data, live: *live, length, columns, station });
        self.loaded = loaded;
        self.columns.untagged = loaded;
        self.columns.loaded6 = Mask::EMPTY;
        self.columns.expected4 = Mask::EMPTY;
        [ip4, ip6]
    }

    /// Reads those columns of the packets of `mask` that are not up to date. Returns the packets that have them: all
    /// that are live, but for those without 20 bytes of a network header at `l3`.
    #[inline(always)]
    pub fn load(&mut self, mask: Mask) -> Mask {
        let missing = mask & (self.live - self.loaded);
        if !missing.is_empty() {
            self.load_each(missing);
        }
        mask & self.live & self.loaded
    }

    #[cold]
    #[inline(never)]
    fn load_each(&mut self, missing: Mask) {
        for slot in missing {
            let i = usize::from(slot);
            let header = self.frame(slot).and_then(|frame| frame.get(self.l3(slot)..)?.first_chunk::<{ 4 * WORDS }>());
            let Some(header) = header.copied() else { continue };
            for (column, word) in self.columns.words.iter_mut().zip(header.as_chunks::<4>().0) {
                column[i] = u32::from_ne_bytes(*word);
            }
            self.columns.destinations4[i] = u32::from_be(self.columns.words[WORDS - 1][i]);
            self.columns.loaded6.clear(slot);
            self.columns.untagged.clear(slot);
            self.columns.untagged.set_if(slot, self.l3[i] == 14);
            self.loaded.set(slot);
        }
    }

    /// Forgets the columns of all packets: their frames may have changed.
    #[inline(always)]
    pub fn unload(&mut self) {
        self.loaded = Mask::EMPTY;
    }

    /// Calls `f` with the slot and the first `N` bytes of the network header of each live packet of `mask` that has
    /// them, and makes masks of what it answers, as [`Batch::sort`] does.
    #[inline(always)]
    pub fn headers<const N: usize, const M: usize>(
        &self,
        mask: Mask,
        mut f: impl FnMut(usize, &[u8; N]) -> [bool; M],
    ) -> [Mask; M] {
        (mask & self.live).sort(|slot| {
            let i = usize::from(slot);
            let (l3, length) = (usize::from(self.l3[i]), usize::from(self.length[i]));
            if l3 + N > length {
                return [false; M];
            }
            // SAFETY: the slot is live, and its frame has the bytes; the borrow of self keeps it so.
            f(i, unsafe { &*self.data[i].add(l3).cast::<[u8; N]>() })
        })
    }

    /// Changes a word of the headers of `mask`, counted from 0, in column and frame, where `change` has a new one.
    /// Returns the packets for which it has none, and those without a header; they stay as they are.
    #[inline(always)]
    pub fn change_word<const WORD: usize>(&mut self, mask: Mask, change: impl ChangeWord) -> Mask {
        const { assert!(WORD < WORDS - 1, "the last word is kept as a number, too") };
        let mask = mask & self.live;
        let loaded = self.load(mask);
        let count = self.count();
        let mut kernel = Change { column: &mut self.columns.words[WORD], mask: loaded, change };
        let [refused] = self.isa.sort(count, &mut kernel);
        let changed = loaded - refused;
        let (column, data) = (&self.columns.words[WORD], &self.data);
        (changed & self.columns.untagged).for_each(|slot| {
            let i = usize::from(slot);
            // SAFETY: the slot is live, and its frame has 14 bytes and five words. We hold the batch alone.
            unsafe { data[i].add(14 + 4 * WORD).cast::<u32>().write_unaligned(column[i]) };
        });
        let tagged = changed - self.columns.untagged;
        if !tagged.is_empty() {
            self.write_tagged::<WORD>(tagged);
        }
        mask - changed
    }

    #[cold]
    #[inline(never)]
    fn write_tagged<const WORD: usize>(&mut self, tagged: Mask) {
        for slot in tagged {
            let i = usize::from(slot);
            let (word, at) = (self.columns.words[WORD][i].to_ne_bytes(), usize::from(self.l3[i]) + 4 * WORD);
            let Some(mut packet) = self.slot(slot) else { continue };
            // A script may have written `l3` since it was read.
            if let Some(bytes) = packet.frame_mut().get_mut(at..at + 4) {
                bytes.copy_from_slice(&word);
                self.loaded.set(slot);
            }
        }
    }

    /// Packets of `mask` with more than `most` bytes from the network header on.
    #[inline(always)]
    pub fn longer(&self, mask: Mask, most: u16) -> Mask {
        let [longer] = self.isa.sort(self.count(), &mut Longer(&self.length, &self.l3, most));
        longer & mask
    }

    /// Writes both addresses of the Ethernet headers of untagged packets of `mask`, and the port that they leave by:
    /// `depart` says what, by the next hop. Returns the packets for which it has nothing, and those that are not
    /// loaded or tagged; they stay as they are.
    #[inline(always)]
    pub fn readdress(&mut self, mask: Mask, depart: impl Fn(u32) -> Option<Departure>) -> Mask {
        let all = mask & self.live;
        let loaded = self.load(all);
        let untagged = loaded & self.columns.untagged;
        let mut odd = all - untagged;
        let Batch { data, next_hop, out_port, .. } = self;
        untagged.for_each(|slot| {
            let i = usize::from(slot);
            let Some(Departure { first, last, port }) = depart(next_hop[i]) else { return odd.set(slot) };
            out_port[i] = port;
            let frame = data[i];
            // SAFETY: the slot is live, and its frame has 34 bytes or more. We hold the batch alone.
            unsafe {
                frame.cast::<u64>().write_unaligned(first.to_be());
                frame.add(8).cast::<u32>().write_unaligned(last.to_be());
            }
        });
        odd
    }

    /// Which packets of `mask` leave by a port, as set by apply.
    #[inline(always)]
    pub fn leaving_by(&self, mask: Mask, port: u16) -> Mask {
        let [by] = self.isa.sort(self.count(), &mut Equal16(&self.out_port, port));
        by & mask
    }

    /// Sets the receiving interface of all slots.
    #[inline]
    pub fn set_interfaces(&mut self, interface: u16) {
        let blocks = self.count().div_ceil(64);
        self.interface.as_chunks_mut::<64>().0[..blocks].fill([interface; 64]);
    }

    /// The receiving interface of all live packets of `mask`, unless there are several or no packets.
    #[inline]
    pub fn common_interface(&self, mask: Mask) -> Option<u16> {
        let mask = mask & self.live;
        let interface = self.interface[usize::from(mask.first_slot()?)];
        let [same] = self.isa.sort(self.count(), &mut Equal16(&self.interface, interface));
        (mask - same).is_empty().then_some(interface)
    }

    /// The port that all packets were received on, unless there are several or no packets.
    #[inline]
    pub fn common_port(&self) -> Option<u16> {
        if self.port_of_all.is_some() {
            return self.port_of_all.filter(|_| !self.live.is_empty());
        }
        let port = self.port[usize::from(self.live.first_slot()?)];
        let [same] = self.isa.sort(self.count(), &mut Equal16(&self.port, port));
        (self.live - same).is_empty().then_some(port)
    }
}
