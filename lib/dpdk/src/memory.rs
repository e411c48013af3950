// SPDX-License-Identifier: MIT
//! Packet buffers as `perigee_packet` sees them: a handle is an `rte_mbuf *` of a single segment, not shared.

use crate::ffi::{self, Mbuf};
use perigee_packet::{Handle, Memory};
use std::ffi::c_uint;
use std::num::NonZeroU16;
use std::ptr::NonNull;

/// The memory of every packet in a router on DPDK; there is one, [`MBUF`].
///
/// Not of size zero, as batches compare its address to tell memories apart.
#[derive(Debug)]
pub struct MbufMemory(#[allow(dead_code, reason = "gives it an address of its own")] u8);

/// Every batch that receives from DPDK is made with this: `Batch::new(&MBUF)`.
pub static MBUF: MbufMemory = MbufMemory(0);

/// The buffers of some packets as C wants them.
pub(crate) fn as_c(packets: &mut [Handle]) -> *mut *mut Mbuf {
    // Handle is a transparent NonNull<c_void>.
    packets.as_mut_ptr().cast()
}

/// Forgets the first `n` packets, which C has taken.
pub(crate) fn forget_first(packets: &mut Vec<Handle>, n: usize) {
    if n == packets.len() {
        packets.clear(); // a handle has no Drop
    } else {
        packets.drain(..n);
    }
}

// `gso_size` and `set_gso_size` cut all other bits off.
const _: () = assert!(ffi::MBUF_SEGMENT_BITS == u16::BITS);

fn mbuf(packet: &Handle) -> *mut Mbuf {
    packet.as_ptr().cast()
}

/// The packet's first byte.
///
/// # Safety
/// A living buffer, whose packet starts inside its memory.
unsafe fn data(m: *const Mbuf) -> NonNull<u8> {
    // SAFETY: the caller's contract; the memory's address is never null.
    unsafe { NonNull::new_unchecked((*m).buf_addr.cast::<u8>().add((*m).data_off.into())) }
}

/// Makes a buffer of `pool` that holds `bytes`.
///
/// # Safety
/// `pool` must be a living pool of packet buffers.
pub(crate) unsafe fn make(pool: *mut ffi::Mempool, bytes: &[u8]) -> Option<(Handle, NonNull<u8>)> {
    let length = u16::try_from(bytes.len()).ok()?;
    // SAFETY: the pool lives; `bytes` has `length` bytes.
    let m = NonNull::new(unsafe { ffi::perigee_mbuf_new(pool, bytes.as_ptr(), length) })?;
    // SAFETY: a fresh buffer, whose packet starts inside its memory.
    unsafe { Some((Handle::new(m.cast()), data(m.as_ptr()))) }
}

// SAFETY: receive hands out whole, unshared buffers only, so each one's memory is its holder's alone until it is freed;
// pools outlive their packets (see MbufPool's Drop); `copy` makes a fresh buffer that holds the bytes.
unsafe impl Memory for MbufMemory {
    #[inline]
    fn free(&self, packets: &mut Vec<Handle>) {
        // SAFETY: owned buffers, each freed once, as the vector is emptied.
        unsafe { ffi::rte_pktmbuf_free_bulk(as_c(packets), packets.len() as c_uint) };
        packets.clear();
    }

    #[inline]
    fn region(&self, packet: &Handle) -> (NonNull<u8>, usize) {
        // SAFETY: the handle is a living buffer, whose address is never null.
        unsafe { (NonNull::new_unchecked((*mbuf(packet)).buf_addr.cast()), (*mbuf(packet)).buf_len.into()) }
    }

    #[inline]
    fn place(&self, packet: &Handle) -> (NonNull<u8>, u16) {
        // SAFETY: the handle is a living buffer, whose packet starts inside its memory.
        unsafe { (data(mbuf(packet)), (*mbuf(packet)).data_len) }
    }

    #[inline]
    fn write_back(&self, packet: &mut Handle, data: NonNull<u8>, length: u16) {
        // SAFETY: the handle is a living buffer lent to us alone; the caller's `data` lies inside it.
        unsafe {
            let m = &mut *mbuf(packet);
            m.data_off = (data.as_ptr() as usize - m.buf_addr as usize) as u16;
            m.data_len = length;
            m.pkt_len = length.into();
        }
    }

    #[inline]
    fn set_port(&self, packet: &mut Handle, port: u16) {
        // SAFETY: the handle is a living buffer lent to us alone.
        unsafe { (*mbuf(packet)).port = port };
    }

    fn copy(&self, packet: &Handle, bytes: &[u8]) -> Option<(Handle, NonNull<u8>)> {
        // SAFETY: a living buffer's pool lives.
        let (mut copy, data) = unsafe { make((*mbuf(packet)).pool, bytes) }?;
        self.set_gso_size(&mut copy, self.gso_size(packet));
        Some((copy, data))
    }

    #[inline]
    fn gso_size(&self, packet: &Handle) -> Option<NonZeroU16> {
        // SAFETY: the handle is a living buffer. Whoever fills a buffer writes its flags.
        unsafe {
            let m = mbuf(packet);
            if (*m).ol_flags & ffi::MBUF_LRO == 0 {
                return None;
            }
            NonZeroU16::new(((*m).tx_offload >> ffi::MBUF_SEGMENT_SHIFT) as u16)
        }
    }

    #[inline]
    fn set_gso_size(&self, packet: &mut Handle, size: Option<NonZeroU16>) {
        // SAFETY: the handle is a living buffer lent to us alone.
        let m = unsafe { &mut *mbuf(packet) };
        m.ol_flags &= !ffi::MBUF_LRO;
        if let Some(size) = size {
            m.ol_flags |= ffi::MBUF_LRO;
            m.tx_offload = u64::from(size.get()) << ffi::MBUF_SEGMENT_SHIFT;
        }
    }
}
