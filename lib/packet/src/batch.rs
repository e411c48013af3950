// SPDX-License-Identifier: MIT
//! Packet buffers and the batch that owns them. With `batch/packet.rs`, `moves.rs`, `slot.rs`, `columns`, `lanes` and
//! `heap.rs` the only files of this crate with `unsafe` in them.
//!
//! A [`Batch`] is a structure of arrays: pointer, length and metadata of up to 256 packets side by side, so that a
//! module that needs one of them touches a few cache lines. The batch *owns* its packets through its `live` mask:
//! whatever consumes packets takes them out and clears their bits, so nothing is sent or freed twice. From receive to
//! hand-over the batch's pointer and length are the truth; the buffer's own header is brought up to date when the
//! packet leaves.
//!
//! Invariant of this file, of `moves.rs` and of `slot.rs`: for every slot in `live`, `handle` is a packet buffer that
//! this batch alone owns, and `data .. data + length` lies inside that buffer. Everything public keeps it, or is
//! `unsafe` and says what to keep.
#![allow(unsafe_code)]

pub mod columns;
#[deny(unsafe_code)]
pub mod cut;
#[deny(unsafe_code)]
pub mod flags;
pub mod heap;
pub mod lanes;
#[deny(unsafe_code)]
pub mod mask;
mod moves;
mod packet;
#[deny(unsafe_code)]
pub mod port;
#[deny(unsafe_code)]
pub mod rebatch;
#[deny(unsafe_code)]
pub mod scatter;
mod slot;

pub use moves::ReceiveArrays;
pub use packet::{Handle, Memory, Packet, frame_of};
pub use slot::{NoRoom, Packets, Slot};

use columns::Columns;
use lanes::Isa;
use mask::{BATCH_SIZE, Mask};
use std::ffi::c_void;

/// A field of [`Batch`] that is part of the C ABI.
pub struct Field {
    /// Its name, in Rust and in C.
    pub name: &'static str,
    /// Type in C: of the field, or of an entry where there is one per slot.
    pub c_type: &'static str,
    /// Whether it is an array with an entry per slot.
    pub per_slot: bool,
    /// Offset in bytes.
    pub offset: usize,
    /// What it holds, as `perigee.h` describes it.
    pub about: &'static str,
}

/// Defines the batch from a single list of its fields, `name: type = empty, "type in C", "what it holds"`: the struct,
/// an empty batch, the fields that move with a packet, and `perigee_batch` in `perigee.h` are generated from it.
macro_rules! batch {
    (
        batch { $($name:ident: $type:ty = $empty:expr, $c_type:literal, $about:literal;)* }
        slots { $($array:ident: $entry:ty = $nothing:expr, $c_entry:literal, $holds:literal;)* }
        behind { $($last:ident: $last_type:ty = $last_empty:expr, $last_c:literal, $last_about:literal;)* }
    ) => {
        /// Up to 256 packets, side by side; part of the C ABI (`perigee_batch`).
        #[repr(C)]
        pub struct Batch {
            $($name: $type,)*
            $($array: [$entry; BATCH_SIZE],)*
            $($last: $last_type,)*
            memory: &'static dyn Memory,
            isa: Isa,
            /// The port of all packets, where it is known to be one.
            port_of_all: Option<u16>,
            columns: Columns,
        }

        /// The fields of [`Batch`] that C sees, in their order.
        pub const BATCH_LAYOUT: &[Field] = &[
            $(Field {
                name: stringify!($name),
                c_type: $c_type,
                per_slot: false,
                offset: std::mem::offset_of!(Batch, $name),
                about: $about,
            },)*
            $(Field {
                name: stringify!($array),
                c_type: $c_entry,
                per_slot: true,
                offset: std::mem::offset_of!(Batch, $array),
                about: $holds,
            },)*
            $(Field {
                name: stringify!($last),
                c_type: $last_c,
                per_slot: false,
                offset: std::mem::offset_of!(Batch, $last),
                about: $last_about,
            },)*
        ];

        impl Batch {
            /// An empty batch for packets of one kind of memory, whose columns are handled with these instructions.
            pub fn with_isa(memory: &'static dyn Memory, isa: Isa) -> Box<Batch> {
                Box::new(Batch {
                    $($name: $empty,)*
                    $($array: [$nothing; BATCH_SIZE],)*
                    $($last: $last_empty,)*
                    memory,
                    isa,
                    port_of_all: None,
                    columns: Columns::EMPTY,
                })
            }

            /// Copies everything about a slot's packet, its buffer included, to a slot of another batch.
            #[inline(always)]
            fn copy_slot(&self, from: usize, to: &mut Batch, at: usize) {
                $(to.$array[at] = self.$array[from];)*
            }
        }
    };
}

batch! {
    batch {
        live: Mask = Mask::EMPTY, "perigee_mask", "slots that hold a packet";
        moved: Mask = Mask::EMPTY, "perigee_mask", "slots whose packet was moved or resized; the host's";
        count: u32 = 0, "uint32_t", "slots in use, emptied ones included";
    }
    slots {
        data: *mut u8 = std::ptr::null_mut(), "uint8_t *", "the frame, from its destination MAC address on";
        handle: *mut c_void = std::ptr::null_mut(), "void *", "the buffer; the host's";
        length: u16 = 0, "uint16_t", "bytes of the frame";
        port: u16 = 0, "uint16_t", "port it was received on; the host's";
        out_port: u16 = 0, "uint16_t", "port it leaves by: set by apply, read by distribute";
        interface: u16 = 0, "uint16_t", "interface it was received on: set by classify";
        l3: u8 = 0, "uint8_t", "offset of the network header: set by classify";
        flags: u8 = 0, "uint8_t", "PERIGEE_IPV4_CHECKSUM_GOOD, ...";
        next_hop: u32 = 0, "uint32_t", "next-hop id: set by a lookup";
        hash: u32 = 0, "uint32_t", "the device's flow hash, where flags say so";
        time: u64 = 0, "uint64_t", "when it arrived, in ns since 1970, where flags say so";
    }
    behind {
        loaded: Mask = Mask::EMPTY, "perigee_mask", "slots whose header the host has read, and nobody written since";
    }
}

// SAFETY: the pointers are owned buffers (see Handle) and memory that goes with them.
unsafe impl Send for Batch {}

impl Batch {
    /// An empty batch for packets of one kind of memory.
    pub fn new(memory: &'static dyn Memory) -> Box<Batch> {
        Batch::with_isa(memory, Isa::detect())
    }

    /// The slots that hold a packet.
    #[inline]
    pub fn live(&self) -> Mask {
        self.live
    }

    /// Number of slots in use, those emptied since the last refill included.
    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Sum of the lengths of the packets received last, in bytes.
    #[inline]
    pub fn received_bytes(&self) -> u64 {
        // 256 lengths of 16 bits each fit into 32.
        self.length[..self.count()].iter().map(|&length| u32::from(length)).sum::<u32>().into()
    }

    /// Number of slots still free for [`push`](Batch::push).
    #[inline]
    pub fn room(&self) -> usize {
        BATCH_SIZE - self.count()
    }

    /// The memory its packets come from.
    pub fn memory(&self) -> &'static dyn Memory {
        self.memory
    }

    /// Makes room for the next burst: frees the packets that nobody took, and returns their number.
    #[inline]
    pub fn refill(&mut self) -> usize {
        let unclaimed = if self.live.is_empty() { 0 } else { self.discard(Mask::ALL) };
        self.count = 0;
        self.moved = Mask::EMPTY;
        self.loaded = Mask::EMPTY;
        self.port_of_all = None;
        unclaimed
    }

    /// A packet's bytes; `None` if the slot is empty.
    #[inline]
    pub fn frame(&self, slot: u8) -> Option<&[u8]> {
        let i = usize::from(slot);
        // SAFETY: the slot is live, see the invariant; the borrow of self keeps it so.
        self.live.contains(slot).then(|| unsafe { std::slice::from_raw_parts(self.data[i], self.length[i].into()) })
    }

    /// Next hop of a slot, as set by a lookup; stale for an empty one.
    #[inline(always)]
    pub fn next_hop(&self, slot: u8) -> u32 {
        self.next_hop[usize::from(slot)]
    }

    /// When a slot's packet arrived, in ns since 1970, if the device or the kernel has said so; see [`flags`].
    pub fn time(&self, slot: u8) -> Option<u64> {
        (self.flags[usize::from(slot)] & flags::TIME != 0).then_some(self.time[usize::from(slot)])
    }

    /// Receiving port of a slot; stale for an empty one.
    #[inline(always)]
    pub fn port(&self, slot: u8) -> u16 {
        self.port[usize::from(slot)]
    }

    /// Port a slot's packet leaves by, as set by apply; stale for an empty one.
    #[inline(always)]
    pub fn out_port(&self, slot: u8) -> u16 {
        self.out_port[usize::from(slot)]
    }

    /// Receiving interface of a slot, as set by classify; stale for an empty one.
    #[inline(always)]
    pub fn interface(&self, slot: u8) -> u16 {
        self.interface[usize::from(slot)]
    }

    /// Offset of the network header in the slot's frame, as set by classify; stale for an empty one.
    #[inline(always)]
    pub fn l3(&self, slot: u8) -> usize {
        self.l3[usize::from(slot)].into()
    }

    /// Length of the slot's frame in bytes; stale for an empty one.
    #[inline(always)]
    pub fn length(&self, slot: u8) -> usize {
        self.length[usize::from(slot)].into()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.refill();
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} of {} packets live)", self.live.count(), self.count)
    }
}
