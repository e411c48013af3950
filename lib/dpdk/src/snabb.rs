// SPDX-License-Identifier: MIT
//! Snabb's packets in DPDK's buffers: a pool that grows, ports that move whole bursts to and from links, rings between
//! threads. `snabb.h` has the layout; Lua calls the shim directly, once per burst, with the pointers given out here.
//!
//! A [`ThreadState`] is what one thread's Lua works on: its free packets and its links. It is not Lua's, so that every
//! packet in it finds its way back to the pool however the script ends.

mod early;
mod tasks;

pub use early::EarlyPackets;
pub use tasks::{perigee_snabb_from_batch, perigee_snabb_to_batch};

use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text, last_errno};
use crate::ffi::{self, SnabbFreelist, SnabbLink, SnabbPacket, SnabbQueues};
use crate::plan::PortConfig;
use crate::pool::{MbufPool, PoolConfig};
use crate::port::DpdkPort;
use crate::queue::{RxQueue, TxQueue};
use crate::{Device, log};
use perigee_packet::{Link, Port, PortInfo, PortStats};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `snabb.h`, of which [`definitions`] is a part.
const HEADER: &str = include_str!("snabb.h");

/// Most packets of a process, as in Snabb.
pub const MAX_PACKETS: u32 = (1 << 20) - 1;

/// Most bytes of a packet.
pub const MAX_PAYLOAD: u16 = ffi::SNABB_PAYLOAD;

/// What `ffi.cdef` has to know.
pub fn definitions() -> &'static str {
    let (_, rest) = HEADER.split_once("/* ffi.cdef begins */").expect("snabb.h has its first mark");
    rest.split_once("/* ffi.cdef ends */").expect("snabb.h has its second mark").0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What Lua finds by name in the program: listed, so that the linker keeps it.
#[repr(transparent)]
struct Exports([*const c_void; 15]);

// SAFETY: addresses of functions, which never change.
unsafe impl Sync for Exports {}

#[used]
static EXPORTS: Exports = Exports([
    ffi::perigee_snabb_take as *const c_void,
    ffi::perigee_snabb_give as *const c_void,
    ffi::perigee_snabb_sweep as *const c_void,
    ffi::perigee_snabb_receive as *const c_void,
    ffi::perigee_snabb_transmit as *const c_void,
    ffi::perigee_snabb_put as *const c_void,
    ffi::perigee_snabb_get as *const c_void,
    tasks::perigee_snabb_to_batch as *const c_void,
    tasks::perigee_snabb_from_batch as *const c_void,
    ffi::perigee_snabb_load as *const c_void,
    ffi::perigee_snabb_compare_exchange_u32 as *const c_void,
    ffi::get_monotonic_time as *const c_void,
    ffi::get_unix_time as *const c_void,
    ffi::get_time_ns as *const c_void,
    ffi::full_memory_barrier as *const c_void,
]);

/// The packets of a process on one NUMA node, or all of them; clones share it.
#[derive(Clone)]
pub struct SnabbPool(Arc<Packets>);

struct Packets {
    pool: Arc<MbufPool>,
    node: Option<u16>,
    family: Arc<Family>,
}

/// The pools of a process: each knows the packets of all. A packet goes back to the pool it is of, whoever frees it.
#[derive(Default)]
struct Family {
    /// Growing and new pools are for one thread at a time.
    pools: Mutex<Vec<(Option<u16>, Arc<MbufPool>)>>,
}

impl SnabbPool {
    /// A pool without packets, wherever there is memory; see [`SnabbPool::grow`].
    pub fn new(eal: &Eal) -> Result<SnabbPool> {
        let (family, pool) = (Arc::<Family>::default(), SnabbPool::create(eal, None)?);
        lock(&family.pools).push((None, pool.clone()));
        Ok(SnabbPool(Arc::new(Packets { pool, node: None, family })))
    }

    fn create(eal: &Eal, node: Option<u16>) -> Result<Arc<MbufPool>> {
        let room = MAX_PAYLOAD + ffi::SNABB_WINDOW as u16;
        let mark = log::mark();
        let name = c_string(&node.map_or_else(|| "snabb".to_owned(), |node| format!("snabb-node{node}")))?;
        // SAFETY: EAL is started; a C string that is copied.
        let pool = unsafe { ffi::perigee_snabb_pool_create(name.as_ptr(), MAX_PACKETS, node.map_or(-1, i32::from)) };
        let pool = NonNull::new(pool).ok_or_else(|| {
            Error::new(format!("no pool of packets in Snabb's layout: {}", log::cause(mark, last_errno())))
        })?;
        let config = PoolConfig { buffers: MAX_PACKETS, cache: 256, room, numa_node: node };
        Ok(MbufPool::of(pool, config, eal))
    }

    /// The pool of the same process on a NUMA node, made if there is none yet.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn on_node(&self, eal: &Eal, node: u16) -> Result<SnabbPool> {
        let family = self.0.family.clone();
        let mut pools = lock(&family.pools);
        let found = pools.iter().find(|(of, _)| *of == Some(node)).map(|(_, pool)| pool.clone());
        let pool = match found {
            Some(pool) => pool,
            None => {
                let pool = SnabbPool::create(eal, Some(node))?;
                for (_, known) in &*pools {
                    // SAFETY: both live as long as the family; the lock keeps others out.
                    unsafe { ffi::perigee_snabb_pool_join(pool.as_ptr(), known.as_ptr()) };
                }
                pools.push((Some(node), pool.clone()));
                pool
            }
        };
        drop(pools);
        Ok(SnabbPool(Arc::new(Packets { pool, node: Some(node), family })))
    }

    /// Makes up to `n` more packets; returns how many.
    ///
    /// # Errors
    /// There is no memory for them, or there are [`MAX_PACKETS`].
    pub fn grow(&self, n: u32) -> Result<u32> {
        static ZONES: AtomicU32 = AtomicU32::new(0);
        let _one_at_a_time = lock(&self.0.family.pools);
        let zone = c_string(&format!("snabb{}", ZONES.fetch_add(1, Ordering::Relaxed)))?;
        let mark = log::mark();
        let node = self.0.node.map_or(-1, i32::from);
        // SAFETY: the pool lives as long as self; the lock keeps others out.
        let made = unsafe { ffi::perigee_snabb_pool_grow(self.0.pool.as_ptr(), zone.as_ptr(), n, node) };
        u32::try_from(made).map_err(|_| {
            Error::new(format!(
                "no memory for {n} more packets of 11,776 bytes each, besides {}: {}; give more with --memory",
                self.size(),
                log::cause(mark, made)
            ))
        })
    }

    /// All packets of the process: made, and free in a pool; and early ones that were given to one.
    pub fn all(&self) -> (u32, u32, u32) {
        let pools = lock(&self.0.family.pools);
        let sum = |of: unsafe extern "C" fn(*const ffi::Mempool) -> u32| {
            // SAFETY: the pools live.
            pools.iter().map(|(_, pool)| unsafe { of(pool.as_ptr()) }).sum()
        };
        (sum(ffi::perigee_snabb_pool_size), sum(ffi::perigee_snabb_pool_available), sum(ffi::perigee_snabb_pool_gone))
    }

    /// Packets made so far.
    pub fn size(&self) -> u32 {
        // SAFETY: the pool lives as long as self.
        unsafe { ffi::perigee_snabb_pool_size(self.0.pool.as_ptr()) }
    }

    /// Free packets in the pool.
    pub fn available(&self) -> u32 {
        // SAFETY: as above.
        unsafe { ffi::perigee_snabb_pool_available(self.0.pool.as_ptr()) }
    }

    /// The process is about to end: packets that a program still has will not be used any more, so EAL may be cleaned
    /// up in spite of them.
    pub fn abandon(&self) {
        lock(&self.0.family.pools).iter().for_each(|(_, pool)| pool.abandon());
    }

    /// For the shim's functions; valid as long as self.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.pool.as_ptr().cast()
    }
}

/// A pair of queues of a port, for one thread's app.
pub struct SnabbPort {
    /// From a box: Lua has its address, and the shim writes there.
    queues: NonNull<SnabbQueues>,
    notes: Vec<String>,
    port: SharedPort,
    // Dropped with the port, which they hold.
    _rx: Option<RxQueue>,
    _tx: Option<TxQueue>,
    packets: SnabbPool,
}

// SAFETY: the queues are this port's alone; its holder may use them from any one thread.
unsafe impl Send for SnabbPort {}

/// A port that several apps may take queues of; clones share it.
#[derive(Clone)]
pub struct SharedPort {
    port: DpdkPort,
    device: Device,
    copies: bool,
    kick: bool,
}

impl SharedPort {
    /// Opens a port that receives into Snabb's packets. If the device refuses these, or `copy` is set, the port has
    /// buffers of its own and every packet is copied (the `notes` of its info say so).
    pub fn open(eal: &Eal, config: &PortConfig, packets: &SnabbPool, copy: bool) -> Result<SharedPort> {
        let xdp = match &config.device {
            Device::Xdp(_) => true,
            Device::Dpdk(devargs) => devargs.starts_with("net_af_xdp"),
            Device::Interface(_) => false,
        };
        let needed = (u32::from(config.receive_descriptors) + 64) * u32::from(config.receive_queues) + 4096;
        if packets.available() < needed {
            packets.grow(needed)?;
        }
        // Buffers of a page at most: AF_XDP takes no others.
        let own = xdp || copy;
        let first = match own {
            true => Err(Error::new("AF_XDP takes buffers of a page at most")),
            false => DpdkPort::open(eal, config, &packets.0.pool),
        };
        let (port, copies) = match first {
            Ok(port) => (port, false),
            Err(error) => {
                let mtu = config.mtu.unwrap_or(1500).max(1500);
                let pool = MbufPool::new(eal, PoolConfig::default().for_mtu(mtu))?;
                // A missing device is refused once more for the same reason, and the error says so.
                match DpdkPort::open(eal, config, &pool) {
                    Ok(port) => (port, true),
                    Err(again) => return Err(if own { again } else { error }),
                }
            }
        };
        Ok(SharedPort { port, device: config.device.clone(), copies, kick: xdp })
    }

    /// Takes a pair of queues, or one of the two: only those that are taken may be used.
    pub fn queues(&self, index: u16, use_of: Directions, packets: &SnabbPool) -> Result<SnabbPort> {
        let rx = use_of.receive.then(|| self.port.rx_queue(index)).transpose()?;
        let tx = use_of.transmit.then(|| self.port.tx_queue(index)).transpose()?;
        let info = self.port.info();
        let mut notes = info.notes.clone();
        if self.copies {
            notes.push(format!("{} has buffers of its own, none of 11 KB: every packet is copied", info.device));
        }
        let queues = Box::leak(Box::new(SnabbQueues {
            port: info.port,
            queue: index,
            copies: self.copies.into(),
            kick: self.kick.into(),
            packets: packets.0.pool.as_ptr(),
            device: self.port.pool().as_ptr(),
            received: 0,
            transmitted: 0,
            copied_in: 0,
            copied_out: 0,
            rx_long: 0,
            rx_no_buffer: 0,
            tx_long: 0,
            tx_no_buffer: 0,
            max_frame: u64::from(info.mtu) + u64::from(crate::FRAME_OVERHEAD),
        }));
        Ok(SnabbPort { queues: queues.into(), notes, port: self.clone(), _rx: rx, _tx: tx, packets: packets.clone() })
    }
}

/// Which of a pair of queues is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directions {
    pub receive: bool,
    pub transmit: bool,
}

impl Directions {
    /// Both.
    pub const BOTH: Directions = Directions { receive: true, transmit: true };
}

/// Counters of a pair of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnabbCounts {
    /// Packets from the device.
    pub received: u64,
    /// Packets that the device took.
    pub transmitted: u64,
    /// Chained, shared or foreign packets that were copied at receive.
    pub copied_in: u64,
    /// Packets that were copied at transmit, as their memory is not the pool's or is shared.
    pub copied_out: u64,
    /// Received and dropped: longer than 10,240 bytes.
    pub rx_long: u64,
    /// Received and dropped: no packet was free to copy to.
    pub rx_no_buffer: u64,
    /// Dropped instead of sent: longer than 10,240 bytes, or than the device takes.
    pub tx_long: u64,
    /// Dropped instead of sent: no buffer of the device's was free to copy to.
    pub tx_no_buffer: u64,
}

impl SnabbPort {
    /// For the shim's functions; valid as long as self, which does not move it.
    pub fn as_ptr(&self) -> *mut c_void {
        self.queues.as_ptr().cast()
    }

    /// Where it receives to.
    pub fn packets(&self) -> &SnabbPool {
        &self.packets
    }

    /// What the port is.
    pub fn info(&self) -> PortInfo {
        PortInfo { notes: self.notes.clone(), ..self.port.port.info() }
    }

    /// What the device counts.
    pub fn stats(&self) -> PortStats {
        self.port.port.stats()
    }

    /// The state of the link.
    pub fn link(&self) -> Link {
        let link = self.port.port.link();
        // An AF_PACKET port is up as soon as it is open, its interface may not be.
        Link { up: link.up && self.port.device.is_running() != Some(false), ..link }
    }

    /// What the driver counts by names of its own.
    pub fn device_counters(&self) -> Vec<(String, u64)> {
        self.port.port.device_counters()
    }

    /// What the queues counted. Only for the thread that uses them.
    pub fn counts(&self) -> SnabbCounts {
        // SAFETY: our own memory; the thread that uses it is the one that calls.
        let q = unsafe { self.queues.as_ref() };
        SnabbCounts {
            received: q.received,
            transmitted: q.transmitted,
            copied_in: q.copied_in,
            copied_out: q.copied_out,
            rx_long: q.rx_long,
            rx_no_buffer: q.rx_no_buffer,
            tx_long: q.tx_long,
            tx_no_buffer: q.tx_no_buffer,
        }
    }
}

impl Drop for SnabbPort {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(self.queues.as_ptr()) });
    }
}

/// A link between two threads: one puts packets in, the other takes them out.
pub struct SnabbRing {
    ring: NonNull<ffi::Ring>,
    packets: SnabbPool,
    _eal: Arc<Started>,
}

// SAFETY: one producer and one consumer may use it at the same time; that there are no more is the graph's business.
unsafe impl Send for SnabbRing {}
// SAFETY: as above.
unsafe impl Sync for SnabbRing {}

impl SnabbRing {
    /// A ring for `capacity` packets.
    pub fn new(eal: &Eal, packets: &SnabbPool, capacity: u32) -> Result<SnabbRing> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = c_string(&format!("snabb-ring{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        // SAFETY: EAL is started; the name is a C string that is copied.
        let ring =
            unsafe { ffi::perigee_snabb_ring_create(name.as_ptr(), capacity, packets.0.node.map_or(-1, i32::from)) };
        let ring = NonNull::new(ring)
            .ok_or_else(|| Error::new(format!("no ring for {capacity} packets: {}", errno_text(last_errno()))))?;
        Ok(SnabbRing { ring, packets: packets.clone(), _eal: eal.started() })
    }

    /// For the shim's functions; valid as long as self.
    pub fn as_ptr(&self) -> *mut c_void {
        self.ring.as_ptr().cast()
    }
}

impl Drop for SnabbRing {
    fn drop(&mut self) {
        let mut left = [std::ptr::null_mut(); 64];
        // SAFETY: nobody else has the ring any more; what it holds are packets of the pool.
        unsafe {
            loop {
                let n = ffi::perigee_ring_dequeue(self.ring.as_ptr(), left.as_mut_ptr(), left.len() as u32);
                if n == 0 {
                    break;
                }
                ffi::perigee_snabb_give(self.packets.as_ptr().cast(), left.as_mut_ptr().cast(), n);
            }
            ffi::rte_ring_free(self.ring.as_ptr());
        }
    }
}

/// The free packets and the links of one thread's Lua, in memory of their own.
pub struct ThreadState {
    freelist: NonNull<SnabbFreelist>,
    links: Vec<NonNull<SnabbLink>>,
    pool: Option<SnabbPool>,
    /// Where its memory is; `None`: wherever the kernel likes.
    node: Option<u16>,
}

// SAFETY: the memory is owned by the state alone; its thread uses it through the pointers given out.
unsafe impl Send for ThreadState {}

/// A link, and room behind it: the rings of neighboring links should not start at the same place of a page, or what is
/// written to one looks to the processor like what is read from the other.
#[repr(C)]
struct Placed {
    link: SnabbLink,
    apart: [u8; 1024],
}

/// Zeroed memory for a plain structure, at the start of a cache line, of a NUMA node if one is named. Only what is
/// written to takes room.
fn zeroed<T>(node: Option<u16>) -> NonNull<T> {
    let layout = Layout::new::<T>().align_to(64).expect("64 is a power of two");
    let memory = match node {
        // SAFETY: the layout is not empty.
        None => unsafe { alloc_zeroed(layout) },
        // SAFETY: new pages.
        Some(node) => unsafe { ffi::perigee_snabb_memory(layout.size(), node.into()) }.cast(),
    };
    NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `memory` must come from [`zeroed`] with the same node, and be used no more.
unsafe fn release<T>(memory: NonNull<T>, node: Option<u16>) {
    let layout = Layout::new::<T>().align_to(64).expect("64 is a power of two");
    match node {
        // SAFETY: made with the same layout.
        None => unsafe { std::alloc::dealloc(memory.as_ptr().cast(), layout) },
        // SAFETY: mapped with the same length.
        Some(_) => unsafe { ffi::perigee_snabb_free_memory(memory.as_ptr().cast(), layout.size()) },
    }
}

impl ThreadState {
    /// No packets and no links.
    pub fn new() -> ThreadState {
        ThreadState::on(None)
    }

    /// The same, in memory of a NUMA node.
    pub fn on(node: Option<u16>) -> ThreadState {
        let freelist: NonNull<SnabbFreelist> = zeroed(node);
        // SAFETY: zeroed memory of our own.
        unsafe { (*freelist.as_ptr()).max = MAX_PACKETS.into() };
        ThreadState { freelist, links: Vec::new(), pool: None, node }
    }

    /// The pool that packets go back to at the end.
    pub fn use_pool(&mut self, pool: &SnabbPool) {
        self.pool = Some(pool.clone());
    }

    /// `struct perigee_snabb_freelist *`, valid as long as self.
    pub fn freelist(&self) -> *mut c_void {
        self.freelist.as_ptr().cast()
    }

    /// `struct link *`, valid until [`ThreadState::free_link`].
    pub fn new_link(&mut self) -> *mut c_void {
        let link = zeroed::<Placed>(self.node).cast::<SnabbLink>();
        self.links.push(link);
        link.as_ptr().cast()
    }

    /// Gives a link back with the packets in it; false: there is no such link.
    pub fn free_link(&mut self, link: *mut c_void) -> bool {
        let Some(index) = self.links.iter().position(|known| known.as_ptr().cast() == link) else { return false };
        let link = self.links.remove(index);
        self.empty(link);
        // SAFETY: it came from zeroed as this type, and is forgotten.
        unsafe { release(link.cast::<Placed>(), self.node) };
        true
    }

    fn give(&self, packets: *mut *mut SnabbPacket, n: u32) {
        let Some(pool) = &self.pool else { return };
        // SAFETY: callers pass arrays of n packets that nobody else has; what is not the pool's is left alone.
        unsafe { ffi::perigee_snabb_give(pool.as_ptr().cast(), packets, n) };
    }

    fn empty(&self, link: NonNull<SnabbLink>) {
        // SAFETY: a living link, whose thread has ended or calls us.
        let link = unsafe { &mut *link.as_ptr() };
        while i64::from(link.read) < link.write {
            let slot = link.read as usize & (ffi::SNABB_LINK - 1);
            self.give(&raw mut link.packets[slot], 1);
            link.read += 1;
        }
    }
}

impl Default for ThreadState {
    fn default() -> ThreadState {
        ThreadState::new()
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let links = std::mem::take(&mut self.links);
        for link in links {
            self.empty(link);
            // SAFETY: it came from zeroed as this type, and is forgotten.
            unsafe { release(link.cast::<Placed>(), self.node) };
        }
        // SAFETY: our own memory; Lua keeps nfree within the list.
        unsafe {
            let list = &mut *self.freelist.as_ptr();
            let n = list.nfree.clamp(0, list.list.len() as i64) as u32;
            self.give(list.list.as_mut_ptr(), n);
            release(self.freelist, self.node);
        }
    }
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(Placed, link) == 0 && size_of::<Placed>() == size_of::<SnabbLink>() + size_of::<[u8; 1024]>());
    assert!(offset_of!(Placed, apart) > 0);
};
