// SPDX-License-Identifier: MIT
//! How packets come into a batch and leave it. The invariant of [`Batch`] holds here, too.
#![allow(unsafe_code)]

use super::{BATCH_SIZE, Batch, Handle, Mask, Packet};
use std::ffi::c_void;
use std::ptr::NonNull;

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
    /// [`flags`](super::flags) of each frame.
    pub flags: *mut u8,
    /// Flow hash of each frame, where `flags` say so.
    pub hash: *mut u32,
}

impl Batch {
    /// Lets a receive queue fill an empty batch: `fill` writes up to `burst` packets into the arrays and returns how
    /// many. `port` is theirs, if it is one for all.
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
        // A punt before the lookup must not hand over the next hop of an earlier packet. Sixty-four at once, as a call
        // of memset would cost more.
        self.next_hop.as_chunks_mut::<64>().0[..n.div_ceil(64)].fill([0; 64]);
        self.count = n as u32;
        self.live = Mask::first(n);
        (self.port_of_all, self.loaded) = (port, Mask::EMPTY);
        n
    }

    /// Fills an empty batch with new packets: `fill` writes a buffer and the frame's address for each of these lengths,
    /// or returns false and writes nothing. Returns their number.
    ///
    /// # Safety
    /// Unless it returns false, `fill` must have written as many owned buffers of this batch's memory as there are
    /// lengths, each with initialised room for its length at the frame's address, both also written into the
    /// buffer's own header.
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

    /// Sets the receiving port of all packets.
    #[inline]
    pub fn set_ports(&mut self, port: u16) {
        self.port[..self.count as usize].fill(port);
        self.port_of_all = Some(port);
    }

    /// Lets a transmit queue take packets from the front of the batch, start and length written into their buffers:
    /// `take` gets the buffers of the first `most` live packets and returns how many of the first it took. Returns
    /// that number; the others stay.
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

    /// Takes the buffers of `mask` out for transmission, start and length written into them, and gives each to `give`
    /// with its outgoing port. What `give` gives back stays in the batch: the mask of those is returned.
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

    /// Takes the buffers of `mask` out for transmission, start and length written into them, and puts them behind those
    /// in `to`.
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

    /// Moves the packets of `mask` with their metadata behind those of `to`, as far as there is room; returns the
    /// number of those that were moved.
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
}
