// SPDX-License-Identifier: MIT
//! A packet's buffer, the kind of memory that it is of, and a packet outside of batches, which owns its buffer.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::num::NonZeroU16;
use std::ptr::NonNull;

/// A packet buffer of any kind: an `rte_mbuf *` in a running router, a heap allocation in tests.
///
/// Owned: whoever holds it must hand it on or free it through its [`Memory`]. It has no `Drop`, as it doesn't know its
/// memory; [`Packet`] does.
#[repr(transparent)]
#[derive(Debug)]
pub struct Handle(pub(super) NonNull<c_void>);

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

/// A kind of packet memory: what can be done with a buffer beyond reading and writing its bytes.
///
/// # Safety
/// `region` must describe memory that stays valid, and is used by nobody else, until the handle is freed; `place` must
/// lie inside it and be initialised; `copy` must return a fresh buffer whose region holds the bytes at the returned
/// address.
pub unsafe trait Memory: Sync {
    /// Returns buffers to where they came from.
    fn free(&self, packets: &mut Vec<Handle>);
    /// The buffer's memory: its first byte and its size in bytes.
    fn region(&self, packet: &Handle) -> (NonNull<u8>, usize);
    /// The packet's first byte and its length in bytes, as the buffer's own header has them.
    fn place(&self, packet: &Handle) -> (NonNull<u8>, u16);
    /// Writes the packet's start and length into the buffer's own header, for a device or another owner to see.
    fn write_back(&self, packet: &mut Handle, data: NonNull<u8>, length: u16);
    /// Writes the port that the packet was received on into the buffer's own header, for whoever receives it from a
    /// ring.
    fn set_port(&self, packet: &mut Handle, port: u16);
    /// A new buffer like `packet` (from the same pool, with the same headroom) holding `bytes`; `None` if there is none
    /// or it is too small.
    fn copy(&self, packet: &Handle, bytes: &[u8]) -> Option<(Handle, NonNull<u8>)>;
    /// Of a [super-frame](crate::wire::super_frame) the bytes of payload that each of its segments has at most; `None`
    /// for any other.
    fn gso_size(&self, packet: &Handle) -> Option<NonZeroU16>;
    /// Says that the packet is a super-frame, or is none. One that was received by a device, or made, is none.
    fn set_gso_size(&self, packet: &mut Handle, size: Option<NonZeroU16>);
}

/// The frame in a buffer of `memory` that is in no batch, as the buffer's own header has it.
#[inline]
pub fn frame_of<'a>(packet: &'a Handle, memory: &dyn Memory) -> &'a [u8] {
    let (data, length) = memory.place(packet);
    // SAFETY: `place` lies inside the buffer and is initialised; the buffer is its holder's, who lends it for as long.
    unsafe { std::slice::from_raw_parts(data.as_ptr(), length.into()) }
}

/// A single packet that owns its buffer and frees it when dropped; packets travel over punt rings in this form.
pub struct Packet {
    pub(super) handle: Option<Handle>,
    pub(super) data: NonNull<u8>,
    pub(super) length: u16,
    pub(super) memory: &'static dyn Memory,
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
