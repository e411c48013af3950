// SPDX-License-Identifier: MIT
//! Packet buffers and the batch that owns them. With `batch/slot.rs`, `columns`, `lanes` and `heap.rs` the only files of this crate
//! with `unsafe` in them.
//!
//! A [`Batch`] is a structure of arrays: pointer, length and metadata of up to 256 packets side by side, so that a module
//! that needs one of them touches a few cache lines. The batch *owns* its packets through its `live` mask: whatever
//! consumes packets takes them out and clears their bits, so nothing is sent or freed twice. From receive to hand-over
//! the batch's pointer and length are the truth; the buffer's own header is brought up to date when the packet leaves.
//!
//! Invariant of this file and of `slot.rs`: for every slot in `live`, `handle` is a packet buffer that this batch alone owns, and
//! `data .. data + length` lies inside that buffer. Everything public keeps it, or is `unsafe` and says what to keep.
#![allow(unsafe_code)]

pub mod columns;
#[deny(unsafe_code)]
pub mod cut;
pub mod heap;
pub mod lanes;
#[deny(unsafe_code)]
pub mod mask;
#[deny(unsafe_code)]
pub mod port;
#[deny(unsafe_code)]
pub mod rebatch;
#[deny(unsafe_code)]
pub mod scatter;
mod slot;

pub use slot::{NoRoom, Packets, Slot};

use columns::Columns;
use lanes::Isa;
use mask::{BATCH_SIZE, Mask};
use std::ffi::c_void;
use std::num::NonZeroU16;
use std::ptr::NonNull;

/// A packet buffer of any kind: an `rte_mbuf *` in a running router, a heap allocation in tests.
///
/// Owned: whoever holds it must hand it on or free it through its [`Memory`]. It has no `Drop`, as it doesn't know its
/// memory; [`Packet`] does.
#[repr(transparent)]
#[derive(Debug)]
pub struct Handle(NonNull<c_void>);

// SAFETY: a handle is the only reference to its buffer, and buffers may be used and freed on any thread.
unsafe impl Send for Handle {}

impl Handle {
    /// Wraps a buffer's address.
    ///
    /// # Safety
    /// The buffer must be one of some [`Memory`], owned by nobody else, and handed only to what belongs to that memory.
    pub unsafe fn new(buffer: NonNull<c_void>) -> Handle {
        Handle(buffer)
    }

    /// The buffer's address.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr()
    }
}

/// Bits of a packet's `flags`, as set by receive.
pub mod flags {
    /// The device found the IPv4 header checksum good: it need not be computed again.
    pub const IPV4_CHECKSUM_GOOD: u8 = 1;
    /// The device found the IPv4 header checksum bad.
    pub const IPV4_CHECKSUM_BAD: u8 = 2;
    /// `hash` holds the device's flow hash.
    pub const HASH: u8 = 4;
    /// `time` holds when the frame arrived: by the kernel's clock, unless `DEVICE_TIME` is set, too.
    pub const TIME: u8 = 8;
    /// `time` is of the device's clock, which may not count from 1970.
    pub const DEVICE_TIME: u8 = 16;
}

/// A kind of packet memory: what can be done with a buffer beyond reading and writing its bytes.
///
/// # Safety
/// `region` must describe memory that stays valid, and is used by nobody else, until the handle is freed; `place` must lie inside it
/// and be initialised; `copy` must return a fresh buffer whose region holds the bytes at the returned address.
pub unsafe trait Memory: Sync {
    /// Returns buffers to where they came from.
    fn free(&self, packets: &mut Vec<Handle>);
    /// The buffer's memory: its first byte and its size in bytes.
    fn region(&self, packet: &Handle) -> (NonNull<u8>, usize);
    /// The packet's first byte and its length in bytes, as the buffer's own header has them.
    fn place(&self, packet: &Handle) -> (NonNull<u8>, u16);
    /// Writes the packet's start and length into the buffer's own header, for a device or another owner to see.
    fn write_back(&self, packet: &mut Handle, data: NonNull<u8>, length: u16);
    /// Writes the port that the packet was received on into the buffer's own header, for whoever receives it from a ring.
    fn set_port(&self, packet: &mut Handle, port: u16);
    /// A new buffer like `packet` (from the same pool, with the same headroom) holding `bytes`; `None` if there is none or
    /// it is too small.
    fn copy(&self, packet: &Handle, bytes: &[u8]) -> Option<(Handle, NonNull<u8>)>;
    /// Of a [super-frame](crate::wire::super_frame) the bytes of payload that each of its segments has at most; `None` for any other.
    fn gso_size(&self, packet: &Handle) -> Option<NonZeroU16>;
    /// Says that the packet is a super-frame, or is none. One that was received by a device, or made, is none.
    fn set_gso_size(&self, packet: &mut Handle, size: Option<NonZeroU16>);
}

/// A single packet that owns its buffer and frees it when dropped; packets travel over punt rings in this form.
pub struct Packet {
    handle: Option<Handle>,
    data: NonNull<u8>,
    length: u16,
    memory: &'static dyn Memory,
}

// SAFETY: a packet is the only owner of its buffer, and `Memory` is Sync.
unsafe impl Send for Packet {}

impl Packet {
    /// Makes a packet of a buffer.
    ///
    /// # Safety
    /// `handle` must be an owned buffer of `memory`, with `data .. data + length` inside its region and initialised.
    pub unsafe fn from_raw(handle: Handle, data: NonNull<u8>, length: u16, memory: &'static dyn Memory) -> Packet {
        Packet { handle: Some(handle), data, length, memory }
    }

    /// The packet of a buffer of `memory`, as the buffer's own header has it.
    pub(crate) fn of(handle: Handle, memory: &'static dyn Memory) -> Packet {
        let (data, length) = memory.place(&handle);
        Packet { handle: Some(handle), data, length, memory }
    }

    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the constructors' contract; the borrow of self keeps the buffer alive.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length.into()) }
    }

    /// The frame's bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.length.into()) }
    }

    /// Asks for the buffer's header and the frame's first bytes, where the processor can: they will be needed soon.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            if let Some(handle) = &self.handle {
                _mm_prefetch::<_MM_HINT_T0>(handle.as_ptr().cast());
            }
            _mm_prefetch::<_MM_HINT_T0>(self.data.as_ptr().cast());
        }
    }

    /// Frees packets together, which costs less than one by one.
    pub fn free_all(packets: impl IntoIterator<Item = Packet>) {
        let mut handles: Vec<Handle> = Vec::new();
        let mut memory: Option<&'static dyn Memory> = None;
        for mut packet in packets {
            let same = memory.is_some_and(|memory| std::ptr::addr_eq(memory, packet.memory));
            if !same && let Some(before) = memory.replace(packet.memory) {
                before.free(&mut handles);
            }
            handles.extend(packet.handle.take());
        }
        if let Some(memory) = memory {
            memory.free(&mut handles);
        }
    }

    /// Of a [super-frame](crate::wire::super_frame), the payload of its segments in bytes.
    pub fn gso_size(&self) -> Option<NonZeroU16> {
        self.memory.gso_size(self.handle.as_ref()?)
    }

    /// Gives up the packet for transmission: its buffer, with start and length written into it.
    pub fn into_handle(mut self) -> Handle {
        let mut handle = self.handle.take().expect("a packet owns its buffer until it is consumed");
        self.memory.write_back(&mut handle, self.data, self.length);
        handle
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.memory.free(&mut vec![handle]);
        }
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} bytes)", self.length)
    }
}

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

/// Defines the batch from a single list of its fields, `name: type = empty, "type in C", "what it holds"`: the struct, an
/// empty batch, the fields that move with a packet, and `perigee_batch` in `perigee.h` are generated from it.
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

/// The arrays that a receive queue fills; see [`Batch::receive_with`].
#[repr(C)]
pub struct ReceiveArrays {
    /// Buffers.
    pub handle: *mut *mut c_void,
    /// First byte of each frame.
    pub data: *mut *mut u8,
    /// Length of each frame in bytes.
    pub length: *mut u16,
    /// Receiving port of each frame.
    pub port: *mut u16,
    /// [`flags`] of each frame.
    pub flags: *mut u8,
    /// Flow hash of each frame, where `flags` say so.
    pub hash: *mut u32,
}

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

    /// Lets a receive queue fill an empty batch: `fill` writes up to `burst` packets into the arrays and returns how many. `port` is theirs, if
    /// it is one for all.
    ///
    /// # Safety
    /// For each of the first `n` entries, where `n` is its result, `fill` must have written an owned buffer of this
    /// batch's memory, the frame's address and length inside it, the port and the flags; `n` must not exceed `burst`.
    #[inline]
    pub unsafe fn receive_with(
        &mut self,
        burst: usize,
        port: Option<u16>,
        fill: impl FnOnce(ReceiveArrays) -> usize,
    ) -> usize {
        assert!(self.count == 0 && burst <= BATCH_SIZE, "receive needs an empty batch and a burst of at most 256");
        let n = fill(ReceiveArrays {
            handle: self.handle.as_mut_ptr(),
            data: self.data.as_mut_ptr(),
            length: self.length.as_mut_ptr(),
            port: self.port.as_mut_ptr(),
            flags: self.flags.as_mut_ptr(),
            hash: self.hash.as_mut_ptr(),
        });
        debug_assert!(n <= burst);
        // A punt before the lookup must not hand over the next hop of an earlier packet. Sixty-four at once, as a call of memset would cost
        // more.
        self.next_hop.as_chunks_mut::<64>().0[..n.div_ceil(64)].fill([0; 64]);
        self.count = n as u32;
        self.live = Mask::first(n);
        (self.port_of_all, self.loaded) = (port, Mask::EMPTY);
        n
    }

    /// Fills an empty batch with new packets: `fill` writes a buffer and the frame's address for each of these lengths, or
    /// returns false and writes nothing. Returns their number.
    ///
    /// # Safety
    /// Unless it returns false, `fill` must have written as many owned buffers of this batch's memory as there are lengths, each
    /// with initialised room for its length at the frame's address, both also written into the buffer's own header.
    #[inline]
    pub unsafe fn fill_with(
        &mut self,
        lengths: &[u16],
        fill: impl FnOnce(*mut *mut c_void, *mut *mut u8) -> bool,
    ) -> usize {
        let n = lengths.len();
        assert!(self.count == 0 && n <= BATCH_SIZE, "new packets need an empty batch, and are at most 256");
        if !fill(self.handle.as_mut_ptr(), self.data.as_mut_ptr()) {
            return 0;
        }
        self.length[..n].copy_from_slice(lengths);
        self.port[..n].fill(0);
        self.flags[..n].fill(0);
        self.next_hop[..n].fill(0);
        (self.port_of_all, self.loaded) = (None, Mask::EMPTY);
        self.count = n as u32;
        self.live = Mask::first(n);
        n
    }

    /// Lets a transmit queue take packets from the front of the batch, start and length written into their buffers: `take` gets
    /// the buffers of the first `most` live packets and returns how many of the first it took. Returns that number; the others stay.
    ///
    /// # Safety
    /// `take` must have taken over exactly as many of the first buffers as it returns.
    #[inline]
    pub unsafe fn send_with(&mut self, most: usize, take: impl FnOnce(&mut [*mut c_void]) -> usize) -> usize {
        for slot in self.live & self.moved {
            self.write_back(slot);
        }
        let n = self.live.count().min(most);
        if self.live == Mask::first(self.count()) {
            let taken = take(&mut self.handle[..n]);
            self.live -= Mask::first(taken);
            return taken;
        }
        let mut handles = [std::ptr::null_mut(); BATCH_SIZE];
        let mut slots = [0; BATCH_SIZE];
        for (i, slot) in self.live.iter().take(n).enumerate() {
            (handles[i], slots[i]) = (self.handle[usize::from(slot)], slot);
        }
        let taken = take(&mut handles[..n]);
        slots[..taken].iter().for_each(|&slot| self.live.clear(slot));
        taken
    }

    /// Adds a packet from a port; gives it back if the batch is full or the packet is of another memory.
    pub fn push(&mut self, mut packet: Packet, port: u16) -> Result<u8, Packet> {
        let same = std::ptr::addr_eq(packet.memory, self.memory);
        if self.count() == BATCH_SIZE || !same {
            return Err(packet);
        }
        let slot = self.count as u8;
        let i = usize::from(slot);
        let handle = packet.handle.take().expect("a packet owns its buffer until it is consumed");
        self.handle[i] = handle.as_ptr();
        self.data[i] = packet.data.as_ptr();
        self.length[i] = packet.length;
        self.port[i] = port;
        self.flags[i] = 0;
        self.next_hop[i] = 0;
        self.port_of_all = None;
        self.loaded.clear(slot);
        self.count += 1;
        self.live.set(slot);
        // If the packet was moved or resized, its buffer's header is out of date.
        self.moved.set(slot);
        Ok(slot)
    }

    /// Takes a packet out; `None` if the slot is empty.
    pub fn take(&mut self, slot: u8) -> Option<Packet> {
        if !self.live.contains(slot) {
            return None;
        }
        self.live.clear(slot);
        let i = usize::from(slot);
        let handle = Handle(NonNull::new(self.handle[i])?);
        let data = NonNull::new(self.data[i])?;
        // SAFETY: the slot was live, and no longer is: its buffer moves into the packet.
        Some(unsafe { Packet::from_raw(handle, data, self.length[i], self.memory) })
    }

    /// Takes a packet's buffer out for transmission, start and length written into it; `None` if the slot is empty.
    #[inline(always)]
    pub fn take_handle(&mut self, slot: u8) -> Option<Handle> {
        if !self.live.contains(slot) {
            return None;
        }
        self.live.clear(slot);
        let i = usize::from(slot);
        // SAFETY: a live slot's handle and data are never null.
        let (mut handle, data) =
            unsafe { (Handle(NonNull::new_unchecked(self.handle[i])), NonNull::new_unchecked(self.data[i])) };
        if self.moved.contains(slot) {
            self.memory.write_back(&mut handle, data, self.length[i]);
        }
        Some(handle)
    }

    /// Takes the buffers of `mask` out for transmission, start and length written into them, and gives each to `give` with
    /// its outgoing port. What `give` gives back stays in the batch: the mask of those is returned.
    #[inline(always)]
    pub fn take_handles(&mut self, mask: Mask, mut give: impl FnMut(u16, Handle) -> Option<Handle>) -> Mask {
        let mask = mask & self.live;
        for slot in mask & self.moved {
            self.write_back(slot);
        }
        // Before the first is given: should `give` panic, buffers are lost, not owned twice.
        self.live -= mask;
        let (handles, out_port, mut refused) = (&self.handle, &self.out_port, Mask::EMPTY);
        mask.for_each(|slot| {
            let i = usize::from(slot);
            // SAFETY: the slot was live, so its handle is not null, and no longer is: its buffer is ours to give.
            let handle = Handle(unsafe { NonNull::new_unchecked(handles[i]) });
            if let Some(back) = give(out_port[i], handle) {
                // Another slot's buffer would be owned twice.
                assert!(back.as_ptr() == handles[i], "what comes back is what was given");
                refused.set(slot);
            }
        });
        self.live |= refused;
        refused
    }

    /// Takes the buffers of `mask` out for transmission, start and length written into them, and puts them behind those in `to`.
    #[inline]
    pub fn append_to(&mut self, mask: Mask, to: &mut Vec<Handle>) {
        let mask = mask & self.live;
        if !(mask & self.moved).is_empty() {
            (mask & self.moved).iter().for_each(|slot| self.write_back(slot));
        }
        let (before, more) = (to.len(), mask.count());
        to.reserve(more);
        self.live -= mask;
        let (handles, room) = (&self.handle, to.spare_capacity_mut());
        let mut n = 0;
        mask.for_each(|slot| {
            // SAFETY: the slot was live, so its handle is not null, and no longer is: its buffer is ours to give.
            let handle = Handle(unsafe { NonNull::new_unchecked(handles[usize::from(slot)]) });
            // SAFETY: there is room for as many as the mask has slots.
            unsafe { room.get_unchecked_mut(n).write(handle) };
            n += 1;
        });
        // SAFETY: so many were written behind what was there.
        unsafe { to.set_len(before + more) };
    }

    /// Brings the header of a live slot's buffer up to date.
    #[cold]
    fn write_back(&mut self, slot: u8) {
        let i = usize::from(slot);
        // SAFETY: a live slot's handle and data are never null; the handle is lent for this call.
        let (mut handle, data) =
            unsafe { (Handle(NonNull::new_unchecked(self.handle[i])), NonNull::new_unchecked(self.data[i])) };
        self.memory.write_back(&mut handle, data, self.length[i]);
    }

    /// Frees the packets of `mask`; returns their number.
    pub fn discard(&mut self, mask: Mask) -> usize {
        let dead = mask & self.live;
        let mut handles: Vec<Handle> = dead.iter().filter_map(|slot| self.take_handle(slot)).collect();
        let n = handles.len();
        self.memory.free(&mut handles);
        n
    }

    /// Moves the packets of `mask` with their metadata behind those of `to`, as far as there is room; returns the number of
    /// those that were moved.
    pub fn move_to(&mut self, mask: Mask, to: &mut Batch) -> usize {
        assert!(std::ptr::addr_eq(self.memory, to.memory), "packets move between batches of the same memory only");
        let mut moved = 0;
        for slot in (mask & self.live).iter().take(to.room()) {
            let (from, at) = (usize::from(slot), to.count());
            self.live.clear(slot);
            self.copy_slot(from, to, at);
            to.port_of_all = None;
            to.loaded.clear(at as u8);
            to.live.set(at as u8);
            to.moved.set_if(at as u8, self.moved.contains(slot));
            to.count += 1;
            moved += 1;
        }
        moved
    }

    /// A deep copy of a packet (mirror, twin); `None` if the slot is empty or there is no buffer left.
    pub fn copy(&self, slot: u8) -> Option<Packet> {
        let frame = self.frame(slot)?;
        let like = Handle(NonNull::new(self.handle[usize::from(slot)])?);
        let (handle, data) = self.memory.copy(&like, frame)?;
        // SAFETY: `Memory::copy` returns a fresh buffer that holds `frame` at `data`.
        Some(unsafe { Packet::from_raw(handle, data, frame.len() as u16, self.memory) })
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
