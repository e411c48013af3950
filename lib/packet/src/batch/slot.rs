// SPDX-License-Identifier: MIT
//! One packet of a batch, borrowed: what a module reads and changes. The invariant of [`Batch`] holds here, too.

use super::{Batch, Handle, Memory};
use crate::batch::mask::{Mask, Ones};
use std::marker::PhantomData;
use std::num::NonZeroU16;
use std::ptr::NonNull;

/// Why a packet could not be made longer or shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Not enough free bytes before the packet, for [`Slot::push`].
    Head,
    /// Not enough free bytes behind the packet, for [`Slot::resize`].
    Tail,
    /// The packet is shorter than what was to be removed.
    Short,
}

impl Batch {
    /// A packet with its metadata; `None` if the slot is empty.
    #[inline]
    pub fn slot(&mut self, slot: u8) -> Option<Slot<'_>> {
        self.live.contains(slot).then_some(Slot { batch: NonNull::from(self), slot, borrow: PhantomData })
    }

    /// The live packets of `mask`, one after the other.
    #[inline(always)]
    pub fn packets(&mut self, mask: Mask) -> Packets<'_> {
        let ones = (mask & self.live).iter();
        Packets { batch: NonNull::from(self), ones, borrow: PhantomData }
    }

    /// The live packets of `mask` for which `choose` is true; see [`Mask::filter`].
    #[inline(always)]
    pub fn filter(&mut self, mask: Mask, mut choose: impl FnMut(&mut Slot<'_>) -> bool) -> Mask {
        self.sort(mask, |packet| [choose(packet)])[0]
    }

    /// Calls `f` with each live packet of `mask`: like [`packets`](Batch::packets), for short loop bodies.
    #[inline(always)]
    pub fn for_each(&mut self, mask: Mask, mut f: impl FnMut(&mut Slot<'_>)) {
        let [] = self.sort(mask, |packet| {
            f(packet);
            []
        });
    }

    /// Sorts the live packets of `mask` into several masks; see [`Mask::sort`].
    #[inline(always)]
    pub fn sort<const N: usize>(
        &mut self,
        mask: Mask,
        mut choose: impl FnMut(&mut Slot<'_>) -> [bool; N],
    ) -> [Mask; N] {
        let batch = NonNull::from(&mut *self);
        // Each slot comes up once, and is given up again before the next.
        (mask & self.live).sort(|slot| choose(&mut Slot { batch, slot, borrow: PhantomData }))
    }
}

/// Iterator over the packets of a mask; see [`Batch::packets`].
pub struct Packets<'a> {
    batch: NonNull<Batch>,
    ones: Ones,
    borrow: PhantomData<&'a mut Batch>,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Slot<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Slot<'a>> {
        // Each slot comes up once, so the slots given out never overlap.
        self.ones.next().map(|slot| Slot { batch: self.batch, slot, borrow: PhantomData })
    }
}

/// One live packet of a batch, borrowed: its bytes and its metadata.
pub struct Slot<'a> {
    batch: NonNull<Batch>,
    slot: u8,
    borrow: PhantomData<&'a mut Batch>,
}

macro_rules! metadata {
    ($($(#[$doc:meta])* $get:ident, $set:ident, $field:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $get(&self) -> $type {
            // SAFETY: in bounds (slot is u8, the array has 256 entries); this slot's entries are this borrow's alone.
            unsafe { (*self.batch.as_ptr()).$field[usize::from(self.slot)] }
        }
        #[doc = concat!("Sets [`", stringify!($get), "`](Slot::", stringify!($get), ").")]
        #[inline(always)]
        pub fn $set(&mut self, value: $type) {
            // SAFETY: as above.
            unsafe { (*self.batch.as_ptr()).$field[usize::from(self.slot)] = value }
        }
    )*};
}

impl Slot<'_> {
    /// Its number in the batch, for masks.
    #[inline(always)]
    pub fn index(&self) -> u8 {
        self.slot
    }

    metadata! {
        /// Port it leaves by, known after apply.
        out_port, set_out_port, out_port: u16;
        /// Receiving interface, known after classify.
        interface, set_interface, interface: u16;
        /// See [`flags`](super::flags).
        flags, set_flags, flags: u8;
        /// When it arrived, where flags say so.
        time, set_time, time: u64;
        /// Next-hop id, known after a lookup.
        next_hop, set_next_hop, next_hop: u32;
        /// Flow hash, where `flags` say so.
        hash, set_hash, hash: u32;
    }

    /// Receiving port.
    #[inline(always)]
    pub fn port(&self) -> u16 {
        // SAFETY: in bounds, and this slot's entries are this borrow's alone.
        unsafe { (*self.batch.as_ptr()).port[usize::from(self.slot)] }
    }

    /// Sets [`port`](Slot::port).
    #[inline(always)]
    pub fn set_port(&mut self, value: u16) {
        // SAFETY: as above; `port_of_all` is shared by all slots, but a Slot never leaves its thread (it holds a
        // NonNull).
        unsafe {
            (*self.batch.as_ptr()).port[usize::from(self.slot)] = value;
            (*self.batch.as_ptr()).port_of_all = None;
        }
    }

    /// Offset of the network header in the frame in bytes, known after classify.
    #[inline(always)]
    pub fn l3(&self) -> u8 {
        // SAFETY: in bounds, and this slot's entries are this borrow's alone.
        unsafe { (*self.batch.as_ptr()).l3[usize::from(self.slot)] }
    }

    /// Sets [`l3`](Slot::l3).
    #[inline(always)]
    pub fn set_l3(&mut self, value: u8) {
        self.unload();
        // SAFETY: as above.
        unsafe { (*self.batch.as_ptr()).l3[usize::from(self.slot)] = value }
    }

    /// The columns no longer show the frame: see [`columns`](super::columns).
    #[inline(always)]
    fn unload(&mut self) {
        // SAFETY: `loaded` is one word shared by several slots, but a Slot never leaves its thread (it holds a
        // NonNull), so no two writes meet.
        unsafe { (*self.batch.as_ptr()).loaded.clear(self.slot) }
    }

    #[inline(always)]
    fn raw(&self) -> (*mut u8, usize) {
        let i = usize::from(self.slot);
        // SAFETY: in bounds, and this slot's entries are this borrow's alone; a live slot's data is never null.
        unsafe {
            let data = (*self.batch.as_ptr()).data[i];
            std::hint::assert_unchecked(!data.is_null());
            (data, (*self.batch.as_ptr()).length[i].into())
        }
    }

    /// The frame, from its destination MAC address on.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        let (data, length) = self.raw();
        // SAFETY: a Slot is made of live slots only, and while it lives nobody can empty it.
        unsafe { std::slice::from_raw_parts(data, length) }
    }

    /// The frame, for writing.
    #[inline(always)]
    pub fn frame_mut(&mut self) -> &mut [u8] {
        self.unload();
        let (data, length) = self.raw();
        // SAFETY: as above; slots given out never overlap.
        unsafe { std::slice::from_raw_parts_mut(data, length) }
    }

    /// Sets all bytes of the frame from `at` on; columns stay as they are if it lies behind what they show of either
    /// family.
    pub fn fill_from(&mut self, at: usize, value: u8) {
        if at < usize::from(self.l3()) + 40 {
            self.unload();
        }
        let (data, length) = self.raw();
        // SAFETY: a Slot is made of live slots only, and slots given out never overlap.
        let frame = unsafe { std::slice::from_raw_parts_mut(data, length) };
        frame.get_mut(at..).unwrap_or_default().fill(value);
    }

    /// The Ethernet header's two addresses, for writing: nothing that columns show, where the network header is behind
    /// them. `None` where the frame is too short.
    #[inline(always)]
    pub fn addresses_mut(&mut self) -> Option<&mut [u8; 12]> {
        if self.l3() < 12 {
            self.unload();
        }
        let (data, length) = self.raw();
        // SAFETY: the frame has the bytes; slots given out never overlap.
        (length >= 12).then(|| unsafe { &mut *data.cast::<[u8; 12]>() })
    }

    /// The first `N` bytes of the network header; `None` where the frame is too short.
    #[inline(always)]
    pub fn network<const N: usize>(&self) -> Option<&[u8; N]> {
        let l3 = usize::from(self.l3());
        self.frame().get(l3..l3 + N).and_then(|bytes| bytes.try_into().ok())
    }

    /// The first `N` bytes of the network header, for writing.
    #[inline(always)]
    pub fn network_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let l3 = usize::from(self.l3());
        self.frame_mut().get_mut(l3..l3 + N).and_then(|bytes| bytes.try_into().ok())
    }

    /// The packet's memory, and its buffer to be lent to it.
    fn buffer(&self) -> (&'static dyn Memory, Handle) {
        // SAFETY: the slot is live. A Handle has no Drop, and this one is lent to `memory` only, while this borrow
        // lasts.
        unsafe {
            let batch = self.batch.as_ptr();
            ((*batch).memory, Handle(NonNull::new_unchecked((*batch).handle[usize::from(self.slot)])))
        }
    }

    /// Of a [super-frame](crate::wire::super_frame), the payload of its segments in bytes.
    #[inline]
    pub fn gso_size(&self) -> Option<NonZeroU16> {
        let (memory, handle) = self.buffer();
        memory.gso_size(&handle)
    }

    /// Sets [`gso_size`](Slot::gso_size).
    #[inline]
    pub fn set_gso_size(&mut self, size: Option<NonZeroU16>) {
        let (memory, mut handle) = self.buffer();
        memory.set_gso_size(&mut handle, size);
    }

    fn region(&self) -> (usize, usize) {
        let (data, _) = self.raw();
        let (memory, handle) = self.buffer();
        let (start, size) = memory.region(&handle);
        let head = data as usize - start.as_ptr() as usize;
        (head, size - head)
    }

    fn set_place(&mut self, data: *mut u8, length: usize) {
        let i = usize::from(self.slot);
        // SAFETY: in bounds. Callers have checked that the place lies inside the buffer. `moved` is one word shared by
        // several slots, but a Slot never leaves its thread (it holds a NonNull), so no two writes meet.
        unsafe {
            let batch = self.batch.as_ptr();
            (*batch).data[i] = data;
            (*batch).length[i] = length as u16;
            (*batch).moved.set(self.slot);
        }
        self.unload();
    }

    /// Makes the frame longer by `n` bytes at its start, whose contents are unspecified.
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        let (data, length) = self.raw();
        let (head, _) = self.region();
        if n > head || length + n > usize::from(u16::MAX) {
            return Err(NoRoom::Head);
        }
        // SAFETY: `head` bytes of the same buffer lie before `data`.
        self.set_place(unsafe { data.sub(n) }, length + n);
        Ok(())
    }

    /// Removes `n` bytes at the frame's start.
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let (data, length) = self.raw();
        if n > length {
            return Err(NoRoom::Short);
        }
        // SAFETY: at most one past the frame's end.
        self.set_place(unsafe { data.add(n) }, length - n);
        Ok(())
    }

    /// Sets the frame's length; bytes that it gains are zero.
    pub fn resize(&mut self, n: usize) -> Result<(), NoRoom> {
        let (data, length) = self.raw();
        let (_, size) = self.region();
        if n > size || n > usize::from(u16::MAX) {
            return Err(NoRoom::Tail);
        }
        if n > length {
            // SAFETY: length..n lies inside the buffer, as n <= size, which counts from `data`.
            unsafe { data.add(length).write_bytes(0, n - length) };
        }
        self.set_place(data, n);
        Ok(())
    }
}
