// SPDX-License-Identifier: MIT
//! Devices in place of sources and sinks, on one core. A generator on another core would have to be faster than the
//! router to keep it busy; here the ring of the router's first port is filled up whenever it is empty, and the time
//! that takes is not counted.

use crate::source::Count;
use crate::traffic::Traffic;
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use perigee_dpdk::{Device, DpdkPort, Eal, MBUF, MbufPool, PortConfig, RxQueue, TxQueue};
use perigee_packet::{BATCH_SIZE, Batch, Handle, Pool as _, ReceiveQueue, TransmitQueue};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Packets that a ring is filled with.
const FILL: usize = 1024;
/// Packets that are given to the device at once.
const AT_ONCE: usize = 64;

/// The devices.
pub(crate) struct Devices {
    /// `None`: what the first port sends comes back to it.
    feed: Option<DpdkPort>,
    first: DpdkPort,
    other: DpdkPort,
}

impl Devices {
    pub fn open(eal: &Eal, pool: &Arc<MbufPool>, feed: &str, first: &str, other: &str) -> Result<Devices> {
        let open = |device: &str| DpdkPort::open(eal, &PortConfig::new(Device::Dpdk(device.to_owned())), pool);
        let feed = (feed != first).then(|| open(feed)).transpose()?;
        Ok(Devices { feed, first: open(first)?, other: open(other)? })
    }

    /// The queue that all packets leave by.
    pub fn output(&self) -> Result<TxQueue> {
        Ok(self.other.tx_queue(0)?)
    }
}

/// The router's first port, whose ring is filled up when it is empty.
pub(crate) struct Feed {
    queue: RxQueue,
    wire: TxQueue,
    pool: Arc<MbufPool>,
    traffic: Arc<Traffic>,
    lengths: Vec<u16>,
    at: usize,
    batch: Box<Batch>,
    packets: Vec<Handle>,
    count: Arc<Count>,
}

impl Feed {
    pub fn new(devices: &Devices, pool: Arc<MbufPool>, traffic: Arc<Traffic>) -> Result<Feed> {
        Ok(Feed {
            queue: devices.first.rx_queue(0)?,
            wire: devices.feed.as_ref().unwrap_or(&devices.first).tx_queue(0)?,
            pool,
            lengths: vec![traffic.length; AT_ONCE],
            traffic,
            at: 0,
            batch: Batch::new(&MBUF),
            packets: Vec::with_capacity(BATCH_SIZE),
            count: Arc::default(),
        })
    }

    pub fn count(&self) -> Arc<Count> {
        self.count.clone()
    }

    #[cold]
    fn fill(&mut self) {
        let begun = cpu_time();
        for _ in 0..FILL / AT_ONCE {
            self.batch.refill();
            if self.pool.fill(&mut self.batch, &self.lengths) == 0 {
                break;
            }
            for slot in 0..AT_ONCE {
                if let Some(mut slot) = self.batch.slot(slot as u8) {
                    self.traffic.write(slot.frame_mut(), self.traffic.entries[self.at], 0);
                }
                self.at = (self.at + 1) % self.traffic.entries.len();
            }
            let all = self.batch.live();
            self.batch.append_to(all, &mut self.packets);
            self.wire.transmit(&mut self.packets);
            self.count.lost.fetch_add(self.packets.len() as u64, Relaxed);
            self.wire.discard(&mut self.packets);
            self.count.offered.fetch_add(AT_ONCE as u64, Relaxed);
        }
        self.count.beside.fetch_add((cpu_time() - begun).as_nanos() as u64, Relaxed);
    }
}

fn cpu_time() -> Duration {
    // A thread can always ask for its own time.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl ReceiveQueue for Feed {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let n = self.queue.receive(batch, burst);
        if n > 0 {
            batch.set_ports(0);
            return n;
        }
        self.fill();
        0
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Feed {
    /// The next measurement has other packets.
    fn drop(&mut self) {
        self.batch.refill();
        while self.queue.receive(&mut self.batch, BATCH_SIZE) > 0 {
            let all = self.batch.live();
            self.batch.append_to(all, &mut self.packets);
            self.wire.discard(&mut self.packets);
            self.batch.refill();
        }
    }
}
