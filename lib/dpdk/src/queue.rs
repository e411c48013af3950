// SPDX-License-Identifier: MIT
//! A port's queues. Each exists once, so that no two threads share one; dropping it gives it back to the port.

use crate::error::{Error, Result};
use crate::ffi::{self, NonPlain};
use crate::memory::{MBUF, as_c, forget_first};
use crate::open_port::{OpenPort, check_memory};
use crate::power::Wake;
use perigee_packet::{BATCH_SIZE, Batch, Handle, Memory, ReceiveQueue, TransmitQueue, Wakes};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Received mbufs that were not plain, that is, not one unshared segment, and what happened to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxNonPlain {
    /// Chained or shared, and copied into a plain one.
    pub made_whole: u64,
    /// Chained and dropped: too long for one mbuf, or none was free.
    pub dropped_chained: u64,
    /// Shared and dropped: no mbuf was free.
    pub dropped_shared: u64,
}

impl NonPlain {
    /// For the shim, which writes atomically what others read.
    pub(crate) fn as_ptr(&self) -> *mut NonPlain {
        std::ptr::from_ref(self).cast_mut()
    }
}

impl RxNonPlain {
    pub(crate) fn add(&mut self, non_plain: &NonPlain) {
        self.made_whole += non_plain.made_whole.load(Ordering::Relaxed);
        self.dropped_chained += non_plain.dropped_chained.load(Ordering::Relaxed);
        self.dropped_shared += non_plain.dropped_shared.load(Ordering::Relaxed);
    }
}

/// Marks a queue as taken.
pub(crate) fn take(taken: &[AtomicBool], index: u16, what: &str, port: &str) -> Result<()> {
    let Some(flag) = taken.get(usize::from(index)) else {
        return Err(Error::new(format!("port {port} has no {what} queue {index}: it has {}", taken.len())));
    };
    if flag.swap(true, Ordering::Acquire) {
        return Err(Error::new(format!("{what} queue {index} of port {port} is already in use by another thread")));
    }
    Ok(())
}

/// A receive queue of a device.
pub struct RxQueue {
    port: Arc<OpenPort>,
    index: u16,
    wake: Wake,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<OpenPort>, index: u16) -> Result<RxQueue> {
        take(&port.rx_taken, index, "receive", &port.name)?;
        let wake = Wake::new(&port, index);
        Ok(RxQueue { port, index, wake })
    }
}

impl ReceiveQueue for RxQueue {
    #[inline]
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        check_memory(batch);
        let burst = burst.min(BATCH_SIZE) as u16;
        let (port, queue) = (&*self.port, self.index);
        let non_plain = &port.non_plain[usize::from(queue)];
        // SAFETY: the port is started and stays so while we hold it; this queue is ours alone. The shim writes at most
        // `burst` owned, whole buffers with their metadata into the arrays.
        unsafe {
            batch.receive_with(burst.into(), Some(port.id()), |to| {
                ffi::perigee_rx_burst(port.id(), queue, &to, burst, port.pool.as_ptr(), non_plain.as_ptr()).into()
            })
        }
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wake.descriptor()
    }

    fn arm(&mut self) -> bool {
        self.wake.arm(&self.port, self.index)
    }

    fn disarm(&mut self) {
        self.wake.disarm(&self.port, self.index);
    }

    fn rest(&mut self, alone: bool) {
        if !self.wake.rest(&self.port, self.index, alone) {
            perigee_packet::pause();
        }
    }

    fn wakes(&self) -> Wakes {
        self.wake.wakes()
    }
}

impl Drop for RxQueue {
    fn drop(&mut self) {
        self.wake.close(&self.port, self.index);
        self.port.rx_taken[usize::from(self.index)].store(false, Ordering::Release);
    }
}

/// A transmit queue of a device. If the device takes nothing, it tries four more times, then leaves the rest to its
/// caller.
pub struct TxQueue {
    port: Arc<OpenPort>,
    index: u16,
}

impl TxQueue {
    pub(crate) fn new(port: Arc<OpenPort>, index: u16) -> Result<TxQueue> {
        take(&port.tx_taken, index, "transmit", &port.name)?;
        Ok(TxQueue { port, index })
    }
}

impl TransmitQueue for TxQueue {
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let n = packets.len().min(u16::MAX.into());
        // SAFETY: the port is started and stays so while we hold it; this queue is ours alone. The device takes the
        // first `sent` buffers over, which are then forgotten here.
        let sent = unsafe { ffi::perigee_tx_burst(self.port.id(), self.index, as_c(packets), n as u16) };
        forget_first(packets, sent.into());
    }

    #[inline]
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        check_memory(batch);
        // SAFETY: the port is started and stays so while we hold it; this queue is ours alone. The device takes over
        // the first buffers, as many as it says.
        unsafe {
            batch.send_with(most, |packets| {
                let n = packets.len() as u16;
                ffi::perigee_tx_burst(self.port.id(), self.index, packets.as_mut_ptr().cast(), n).into()
            })
        }
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }

    fn poll(&mut self) {
        // Only AF_XDP needs a call to proceed with what it has taken; others may not even expect an empty burst.
        if self.port.kick {
            // SAFETY: as above, with no packets.
            unsafe { ffi::perigee_tx_burst(self.port.id(), self.index, std::ptr::null_mut(), 0) };
        }
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        self.port.tx_taken[usize::from(self.index)].store(false, Ordering::Release);
    }
}
