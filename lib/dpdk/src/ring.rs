// SPDX-License-Identifier: MIT
//! Rings that hand packets from any thread to one: to the owner of a device queue, or to the worker of a flow.
//!
//! Lock-free: a producer that is interrupted in the middle holds up nobody. A full ring takes nothing; what to do then
//! is the producer's decision, as with a device.

use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text, last_errno};
use crate::ffi::{self, NonPlain};
use crate::memory::{MBUF, as_c, forget_first};
use crate::open_port::check_memory;
use perigee_packet::{BATCH_SIZE, Batch, Handle, Memory, ReceiveQueue, TransmitQueue};
use std::ffi::c_uint;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct Ring {
    ring: NonNull<ffi::Ring>,
    non_plain: NonPlain,
    _eal: Arc<Started>,
}

// SAFETY: any thread may put packets in; that only one takes them out is kept by RingReceiver, of which there is one.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    fn count(&self) -> usize {
        // SAFETY: the ring lives as long as self.
        unsafe { ffi::perigee_ring_count(self.ring.as_ptr()) as usize }
    }

    /// Moves up to `n` packets behind those of `to`.
    ///
    /// # Safety
    /// No other thread may take packets out at the same time.
    unsafe fn take(&self, to: &mut Vec<Handle>, n: usize) -> usize {
        to.reserve(n);
        let behind = to.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: there is room for n handles; the ring holds owned buffers; the caller is its only consumer.
        unsafe {
            let got = ffi::perigee_ring_dequeue(self.ring.as_ptr(), behind, n as c_uint) as usize;
            to.set_len(to.len() + got);
            got
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut left = Vec::new();
        // SAFETY: nobody else has the ring any more.
        while unsafe { self.take(&mut left, BATCH_SIZE) } > 0 {
            MBUF.free(&mut left);
        }
        // SAFETY: as above.
        unsafe { ffi::rte_ring_free(self.ring.as_ptr()) };
    }
}

/// Makes a ring for `capacity` packets, on a NUMA node or (`None`) anywhere; returns its two ends.
pub fn ring(eal: &Eal, capacity: u32, numa_node: Option<u16>) -> Result<(RingSender, RingReceiver)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = c_string(&format!("perigee-ring{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
    // SAFETY: EAL is started; the name is a C string that is copied.
    let ring = unsafe { ffi::perigee_ring_create(name.as_ptr(), capacity, numa_node.map_or(-1, i32::from)) };
    let ring = NonNull::new(ring)
        .ok_or_else(|| Error::new(format!("no ring for {capacity} packets: {}", errno_text(last_errno()))))?;
    let ring = Arc::new(Ring { ring, non_plain: NonPlain::default(), _eal: eal.started() });
    Ok((RingSender(ring.clone()), RingReceiver(ring)))
}

/// The end for producers: clone it for each.
#[derive(Clone)]
pub struct RingSender(Arc<Ring>);

impl RingSender {
    /// Packets in the ring now.
    pub fn waiting(&self) -> usize {
        self.0.count()
    }
}

impl TransmitQueue for RingSender {
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        // SAFETY: the ring lives; it takes the first `n` buffers over, which are then forgotten here.
        let n =
            unsafe { ffi::perigee_ring_enqueue(self.0.ring.as_ptr(), as_c(packets).cast(), packets.len() as c_uint) };
        forget_first(packets, n as usize);
    }

    #[inline]
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        check_memory(batch);
        // SAFETY: the ring lives; it takes over the first buffers, as many as it says.
        unsafe {
            batch.send_with(most, |packets| {
                ffi::perigee_ring_enqueue(self.0.ring.as_ptr(), packets.as_ptr(), packets.len() as c_uint) as usize
            })
        }
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }
}

/// The end for the consumer. A packet keeps its receiving port, and its device's flags and hash.
pub struct RingReceiver(Arc<Ring>);

impl RingReceiver {
    /// Packets in the ring now.
    pub fn waiting(&self) -> usize {
        self.0.count()
    }
}

impl ReceiveQueue for RingReceiver {
    #[inline]
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        check_memory(batch);
        let burst = burst.min(BATCH_SIZE);
        // SAFETY: the shim writes at most `burst` owned, whole buffers into the arrays; we are the ring's only
        // consumer.
        unsafe {
            batch.receive_with(burst, None, |to| {
                ffi::perigee_ring_receive(self.0.ring.as_ptr(), &to, burst as u16, self.0.non_plain.as_ptr()).into()
            })
        }
    }
}

/// A transmit queue whose owner sends for others too: whatever is in the ring goes out with its own packets, and
/// whenever it polls. For devices with fewer transmit queues than threads.
pub struct RingToTx {
    ring: RingReceiver,
    queue: Box<dyn TransmitQueue>,
    waiting: Vec<Handle>,
}

impl RingToTx {
    /// Sends what comes over `ring` on `queue`.
    pub fn new(ring: RingReceiver, queue: Box<dyn TransmitQueue>) -> RingToTx {
        RingToTx { ring, queue, waiting: Vec::with_capacity(BATCH_SIZE) }
    }

    /// Sends up to 256 packets of the ring. What the device does not take waits for the next call; then the ring fills
    /// up and its producers notice.
    #[inline]
    pub fn drain(&mut self) {
        let room = BATCH_SIZE - self.waiting.len();
        // SAFETY: we hold the ring's only receiver.
        unsafe { self.ring.0.take(&mut self.waiting, room) };
        if !self.waiting.is_empty() {
            self.queue.transmit(&mut self.waiting);
        }
    }
}

impl TransmitQueue for RingToTx {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        self.queue.transmit(packets);
        self.drain();
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.queue.discard(packets);
    }

    fn poll(&mut self) {
        self.drain();
        self.queue.poll();
    }

    fn collects(&self) -> bool {
        true
    }
}

impl Drop for RingToTx {
    fn drop(&mut self) {
        MBUF.free(&mut self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::{EalConfig, Hugepages};
    use crate::ffi::Mbuf;
    use crate::pool::{MbufPool, PoolConfig};
    use perigee_packet::Pool;
    use std::sync::atomic::Ordering::Relaxed;

    /// Receiving non-plain mbufs, on a ring, as no software device produces them: the only unit test that starts EAL.
    #[test]
    fn chained_and_shared_packets_become_whole() {
        let config = EalConfig { hugepages: Hugepages::No, memory_mb: 64, ..EalConfig::default() };
        let eal = Eal::start(&config).unwrap_or_else(|e| panic!("{e}"));
        let pool_of = |room| {
            let config = PoolConfig { buffers: 255, cache: 0, room, numa_node: None };
            MbufPool::new(&eal, config).unwrap()
        };
        let (large, small) = (pool_of(2048), pool_of(400));
        let frame = |n: usize| (0..n).map(|i| i as u8).collect::<Vec<u8>>();
        let packet = |n| large.packet(&frame(n)).unwrap().into_handle();
        let (mut sender, mut receiver) = ring(&eal, 64, None).unwrap();

        let m = |h: &Handle| h.as_ptr().cast::<Mbuf>();
        // SAFETY: the handles are buffers of these pools; each of them, copies and clones included, is freed once.
        let (packets, mut others) = unsafe {
            let owned = |m: *mut Mbuf| Handle::new(NonNull::new(m.cast()).expect("a buffer is free"));
            let (first, second, shared) = (packet(1000), packet(300), packet(700));
            let in_small_ones = |length| owned(ffi::rte_pktmbuf_copy(m(&first), small.as_ptr(), 0, length));
            let too_long = in_small_ones(u32::MAX);
            assert_eq!((*m(&too_long)).nb_segs, 3);
            // 400 and 100 bytes, of which the first 50 and all the others count: they fit behind each other.
            let chained = in_small_ones(500);
            (*m(&chained)).data_len = 50;
            (*m(&chained)).pkt_len = 150;
            // A second reference to the same bytes, and a request to compute a checksum (RTE_MBUF_F_TX_TCP_CKSUM).
            let clone = owned(ffi::rte_pktmbuf_clone(m(&second), small.as_ptr()));
            (*m(&clone)).ol_flags |= 1 << 52;
            // A second reference to the same buffer.
            (*m(&shared)).refcnt = 2;
            let also_shared = owned(m(&shared));
            (vec![too_long, chained, clone, shared, packet(60)], vec![first, second, also_shared])
        };
        let mut packets = packets;
        sender.transmit(&mut packets);
        let mut batch = Batch::new(&MBUF);
        assert_eq!(receiver.receive(&mut batch, 32), 4);
        let cut: Vec<u8> = [&frame(1000)[..50], &frame(1000)[400..500]].concat();
        for (slot, expected) in [cut, frame(300), frame(700), frame(60)].iter().enumerate() {
            assert_eq!(batch.frame(slot as u8).unwrap(), expected, "slot {slot}");
        }
        // Nobody else sees what is written now.
        batch.slot(2).unwrap().frame_mut().fill(0);
        // SAFETY: a living buffer of 700 bytes behind its headroom.
        assert_eq!(unsafe { *(*m(&others[2])).buf_addr.cast::<u8>().add(128 + 5) }, 5);
        let non_plain = &receiver.0.non_plain;
        let counts =
            [&non_plain.made_whole, &non_plain.dropped_chained, &non_plain.dropped_shared].map(|n| n.load(Relaxed));
        assert_eq!(counts, [3, 1, 0]);
        for slot in 0..4 {
            let handle = batch.take_handle(slot).unwrap();
            // SAFETY: a living buffer.
            let m = unsafe { &*m(&handle) };
            assert_eq!((m.nb_segs, m.refcnt, m.ol_flags), (1, 1, 0));
            MBUF.free(&mut vec![handle]);
        }
        MBUF.free(&mut others);
        assert_eq!((large.in_use(), small.in_use()), (0, 0));
    }
}
