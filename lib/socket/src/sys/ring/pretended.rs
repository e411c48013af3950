// SPDX-License-Identifier: MIT
//! A ring in memory of our own, whose slots are filled with whatever a kernel could say: for [`crate::rehearsal`].

use super::super::offload::OFFLOAD;
use super::{BLOCK, BLOCKS, Ring, check};
use crate::rehearsal::Arrived;
use libc::tpacket2_hdr;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

impl Ring {
    /// A ring that no kernel fills, with slots for frames of `longest` bytes.
    pub(crate) fn pretended(longest: usize) -> io::Result<Ring> {
        let (slot, per_block) = super::slots(longest);
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping; no address is asked for.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), BLOCK * BLOCKS, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(check(-1).expect_err("-1 is an error"));
        }
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at address zero");
        Ok(Ring { memory, slot, per_block, slots: per_block * BLOCKS, head: 0 })
    }

    /// Fills the first slot that is free; false if there is none.
    pub(crate) fn pretend(&mut self, arrived: &Arrived<'_>) -> bool {
        let Some(ahead) = (0..self.slots).find(|ahead| self.get(*ahead).is_none()) else { return false };
        let slot = self.header(ahead).cast::<u8>();
        let start = usize::from(arrived.start);
        let header = tpacket2_hdr {
            tp_status: 0,
            tp_len: arrived.length,
            tp_snaplen: arrived.kept,
            tp_mac: arrived.start,
            tp_net: 0,
            tp_sec: arrived.seconds,
            tp_nsec: arrived.nanoseconds,
            tp_vlan_tci: arrived.tag.1,
            tp_vlan_tpid: arrived.tag.0,
            tp_padding: [0; 4],
        };
        let write = |at: usize, bytes: &[u8]| {
            let bytes = &bytes[..bytes.len().min(self.slot.saturating_sub(at))];
            // SAFETY: inside the slot, which is ours alone while its bit USER is not set: `get` hands none of it out.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.add(at.min(self.slot)).as_ptr(), bytes.len()) };
        };
        write(start, arrived.bytes);
        if let Some(at) = start.checked_sub(OFFLOAD) {
            write(at, &arrived.offload);
        }
        // SAFETY: as above; slots are aligned to 16 bytes. The header comes last, as the frame may have been put over
        // it.
        unsafe { slot.cast::<tpacket2_hdr>().write(header) };
        let status = arrived.status | libc::TP_STATUS_USER;
        // SAFETY: the status word is the first of the slot, aligned.
        unsafe { slot.cast::<AtomicU32>().as_ref() }.store(status, Ordering::Release);
        true
    }
}
