// SPDX-License-Identifier: MIT
//! Pools of packet buffers, each on one NUMA node.

use crate::device::socket_frame;
use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, last_errno};
use crate::memory::{MBUF, make};
use crate::{ffi, left, log};
use perigee_packet::{Batch, Packet, Pool};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Bytes of an mbuf before its buffer (`struct rte_mbuf`).
const MBUF_HEADER: u64 = 128;
/// Free bytes before a received packet (`RTE_PKTMBUF_HEADROOM`).
pub const HEADROOM: u16 = ffi::HEADROOM;
/// Bytes of a frame around its IP packet: an Ethernet header and two VLAN tags.
pub const FRAME_OVERHEAD: u16 = 14 + 2 * 4;

/// The requested pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of buffers; memory is used best by a power of two minus one.
    pub buffers: u32,
    /// Buffers that each thread caches, at most 512 and at most two thirds of `buffers`.
    pub cache: u32,
    /// Room for a frame in bytes, without headroom.
    pub room: u16,
    /// NUMA node; `None`: wherever there is memory.
    pub numa_node: Option<u16>,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig { buffers: 16383, cache: 256, room: 2048, numa_node: None }
    }
}

impl PoolConfig {
    /// Makes buffers large enough for frames with IP packets of `mtu` bytes, also for those of AF_PACKET sockets.
    pub fn for_mtu(mut self, mtu: u16) -> PoolConfig {
        self.room = self.room.max(u16::try_from(socket_frame(mtu)).unwrap_or(u16::MAX));
        self
    }
}

/// A pool of packet buffers. Keep it until its ports are closed, then compare [`Pool::in_use`] with 0.
#[derive(Debug)]
pub struct MbufPool {
    pool: NonNull<ffi::Mempool>,
    config: PoolConfig,
    abandoned: AtomicBool,
    eal: Arc<Started>,
}

// SAFETY: a mempool may be used by any thread at any time.
unsafe impl Send for MbufPool {}
// SAFETY: as above.
unsafe impl Sync for MbufPool {}

impl MbufPool {
    /// Makes a pool.
    pub fn new(eal: &Eal, config: PoolConfig) -> Result<Arc<MbufPool>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = c_string(&format!("perigee{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        let room = config.room.checked_add(HEADROOM).ok_or_else(|| {
            Error::new(format!("packet buffers of {} bytes were requested; at most 65407 are possible", config.room))
        })?;
        if !eal.hugepages() {
            // Each has a mempool's header besides, and is written to when the pool is made.
            let bytes = u64::from(config.buffers) * (u64::from(room) + MBUF_HEADER + 64);
            if let Some(why) = left::too_much(bytes) {
                return Err(Error::new(format!(
                    "no memory pool of {} packet buffers of {} bytes: {why}; ask for fewer buffers (`mbufs` in [router]) or give it more memory",
                    config.buffers, config.room
                )));
            }
        }
        let socket = config.numa_node.map_or(-1, i32::from);
        let mark = log::mark();
        // SAFETY: EAL is started; the name is a C string that is copied.
        let pool = unsafe {
            let packed = !eal.hugepages();
            ffi::perigee_pool_create(name.as_ptr(), config.buffers, config.cache, room, socket, packed.into())
        };
        let pool = NonNull::new(pool).ok_or_else(|| {
            Error::new(format!(
                "no memory pool of {} packet buffers of {} bytes: {}; ask for fewer buffers or give DPDK more memory",
                config.buffers,
                config.room,
                log::cause(mark, last_errno())
            ))
        })?;
        Ok(MbufPool::of(pool, config, eal))
    }

    /// Wraps a pool that has been made; `config` says how large its buffers are.
    pub(crate) fn of(pool: NonNull<ffi::Mempool>, config: PoolConfig, eal: &Eal) -> Arc<MbufPool> {
        Arc::new(MbufPool { pool, config, abandoned: AtomicBool::new(false), eal: eal.started() })
    }

    /// Declares that the holders of its packets are gone or will not use them: EAL need not stay for them.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// How it was made.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::Mempool {
        self.pool.as_ptr()
    }
}

impl Pool for MbufPool {
    fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        // SAFETY: the pool lives as long as self.
        let (handle, data) = unsafe { make(self.pool.as_ptr(), bytes) }?;
        // SAFETY: a fresh buffer that holds `bytes` at `data`.
        Some(unsafe { Packet::from_raw(handle, data, bytes.len() as u16, &MBUF) })
    }

    #[inline]
    fn fill(&self, batch: &mut Batch, lengths: &[u16]) -> usize {
        crate::open_port::check_memory(batch);
        if lengths.iter().any(|&length| length > self.config.room) {
            return 0;
        }
        // SAFETY: the pool lives as long as self; the shim writes a buffer for each length, or none. A pool's memory
        // comes zeroed from the kernel or is a former packet's: initialised either way.
        unsafe {
            batch.fill_with(lengths, |handles, data| {
                let n = lengths.len() as u16;
                ffi::perigee_pool_fill(self.pool.as_ptr(), handles.cast(), data, lengths.as_ptr(), n) != 0
            })
        }
    }

    fn in_use(&self) -> usize {
        // SAFETY: the pool lives as long as self.
        unsafe { ffi::perigee_pool_in_use(self.pool.as_ptr()) as usize }
    }

    fn size(&self) -> usize {
        self.config.buffers as usize
    }
}

impl Drop for MbufPool {
    fn drop(&mut self) {
        if self.in_use() == 0 {
            // SAFETY: no buffer is in use, and nobody is left who could take one.
            unsafe { ffi::rte_mempool_free(self.pool.as_ptr()) };
        } else if !self.abandoned.load(Ordering::Relaxed) {
            // Someone still holds a packet: its memory, and so EAL, has to stay for the rest of the process.
            std::mem::forget(self.eal.clone());
        }
    }
}
