// SPDX-License-Identifier: MIT
//! A ring of slots that the kernel fills with received frames (TPACKET_V2, Documentation/networking/packet_mmap.rst).
//!
//! ```text
//! block 0 (64 KiB)                  block 1
//! +--------+--------+--------+---+  +--------+---
//! | slot 0 | slot 1 | slot 2 |   |  | slot 3 |         slot: header (status, lengths, tag), then the frame
//! +--------+--------+--------+---+  +--------+---
//! ```
//!
//! A slot's status word says whose it is: the kernel's until its bit USER is set, then ours until we write zero. Right
//! before the frame lies what is left to a device (offload.rs). A frame that is too long for its slot waits as a whole
//! in the socket's queue (PACKET_COPY_THRESH) if that has room; such frames are in the same order there.

mod pretended;

use super::offload::{OFFLOAD, Offload};
use super::{Socket, check};
use libc::{c_int, tpacket2_hdr};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block, in which slots lie back to back.
const BLOCK: usize = 64 << 10;
/// Blocks of a ring: 2 MB.
const BLOCKS: usize = 32;
/// Bytes before a frame in its slot: the kernel's header and address, the Ethernet header aligned behind them, the
/// offload header.
const AHEAD: usize = 66 + OFFLOAD;

/// When a frame arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// In ns since 1970.
    pub(crate) time: u64,
    /// By the device's clock, which an operator has to set.
    pub(crate) by_device: bool,
}

/// A received frame, where the kernel put it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// The frame as far as it fits into the slot, without the tag that the kernel took out.
    pub(crate) bytes: &'a [u8],
    /// Its tag: type and control field.
    pub(crate) tag: Option<(u16, u16)>,
    /// Its length without the tag, in bytes: more than there are here if it was too long for the slot.
    pub(crate) whole: usize,
    pub(crate) arrival: Arrival,
    /// Does all of it wait in the socket's queue?
    pub(crate) queued: bool,
    /// What is left to a device.
    pub(crate) offload: Offload,
}

impl Frame<'_> {
    /// Length with its tag, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.whole + if self.tag.is_some() { 4 } else { 0 }
    }

    /// Was it too long for its slot, and the socket's queue full?
    pub(crate) fn is_lost(&self) -> bool {
        self.bytes.len() < self.whole && !self.queued
    }

    /// Can it be copied from here into a buffer, as one packet?
    pub(crate) fn is_plain(&self) -> bool {
        !self.queued && self.offload.gso_size.is_none()
    }
}

/// The receive ring of a socket.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: NonNull<u8>,
    slot: usize,
    per_block: usize,
    slots: usize,
    head: usize,
}

// SAFETY: the mapping is this ring's alone, and its methods borrow it as they should.
unsafe impl Send for Ring {}

/// Bytes of a slot for frames of `longest` bytes, and how many a block has.
fn slots(longest: usize) -> (usize, usize) {
    let slot = (longest + AHEAD).next_multiple_of(libc::TPACKET_ALIGNMENT).clamp(2048, BLOCK);
    (slot, BLOCK / slot)
}

impl Ring {
    /// Gives a socket a ring with slots for frames of `longest` bytes, without their first tag.
    pub(crate) fn new(socket: &Socket, longest: usize) -> io::Result<Ring> {
        let ((slot, per_block), size) = (slots(longest), BLOCK * BLOCKS);
        let slots = per_block * BLOCKS;
        let version: c_int = libc::tpacket_versions::TPACKET_V2 as c_int;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)?;
        // Where a device stamps frames (an operator has to ask it to), its time; else the kernel's.
        socket.set(libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &libc::SOF_TIMESTAMPING_RAW_HARDWARE)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1i32)?;
        socket.enlarge_receive_queue();
        let wanted = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &wanted)?;
        // SAFETY: a new mapping of the ring that was just made; no address is asked for.
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, socket.fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(check(-1).expect_err("-1 is an error"));
        }
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at address zero");
        Ok(Ring { memory, slot, per_block, slots, head: 0 })
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    fn header(&self, ahead: usize) -> NonNull<tpacket2_hdr> {
        let index = (self.head + ahead) % self.slots;
        let offset = index / self.per_block * BLOCK + index % self.per_block * self.slot;
        // SAFETY: index < slots, all of which lie inside the mapping, aligned to 16 bytes.
        unsafe { self.memory.add(offset).cast() }
    }

    /// The frame that is `ahead` (less than [`slots`](Ring::slots)) behind the first, if it has come.
    #[inline]
    pub(crate) fn get(&self, ahead: usize) -> Option<Frame<'_>> {
        let header = self.header(ahead);
        // SAFETY: the status word is the first of the slot, aligned, and both sides access it atomically.
        let status = unsafe { header.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: USER is set, so the kernel has written the slot and leaves it alone until `release`, which needs this
        // ring exclusively and so waits until the frame is no longer borrowed.
        unsafe {
            let header = header.as_ptr();
            let (start, kept) = (usize::from((*header).tp_mac), (*header).tp_snaplen as usize);
            let whole = (*header).tp_len as usize;
            // Never more than the frame has: who copies relies on it.
            let length = kept.min(whole).min(self.slot.saturating_sub(start));
            let frame = header.cast::<u8>().add(start.min(self.slot));
            let bytes = std::slice::from_raw_parts(frame, length);
            let ahead = match start.checked_sub(OFFLOAD) {
                Some(_) if start <= self.slot => frame.sub(OFFLOAD).cast::<[u8; OFFLOAD]>().read(),
                _ => [0; OFFLOAD],
            };
            let kind = match status & libc::TP_STATUS_VLAN_TPID_VALID {
                0 => 0x8100,
                _ => (*header).tp_vlan_tpid,
            };
            Some(Frame {
                bytes,
                tag: (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((kind, (*header).tp_vlan_tci)),
                whole,
                arrival: Arrival {
                    time: u64::from((*header).tp_sec) * 1_000_000_000 + u64::from((*header).tp_nsec),
                    by_device: status & libc::TP_STATUS_TS_RAW_HARDWARE != 0,
                },
                queued: status & libc::TP_STATUS_COPY != 0,
                offload: Offload::read(ahead),
            })
        }
    }

    /// Gives the first `n` slots, all of which hold frames, back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self, n: usize) {
        for ahead in 0..n {
            // SAFETY: as in `get`; nobody borrows the frame.
            unsafe { self.header(ahead).cast::<AtomicU32>().as_ref() }.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.head = (self.head + n) % self.slots;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows from it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}
