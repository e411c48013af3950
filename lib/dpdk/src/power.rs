// SPDX-License-Identifier: MIT
//! How a thread waits for the packets of a queue without polling it: by the device's interrupts, or by the processor's
//! instructions.
//!
//! The order that loses no packet: [`Wake::arm`], one more look at the queue, then poll(2) on the descriptor. A packet
//! that comes before the look is seen by it, one that comes later makes the descriptor readable.

use crate::ffi;
use crate::open_port::OpenPort;
use perigee_packet::Wakes;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, OnceLock, PoisonError};

/// Longest rest of the processor, in ns: what may delay a packet where the device's writes do not end it.
const REST: u32 = 2_000;

/// The interrupts of one receive queue, if it has any, and what the processor can do for it.
pub(crate) struct Wake {
    /// An epoll descriptor with the queue's own in it.
    interrupts: Option<RawFd>,
    monitors: bool,
}

/// Whether the processor has an instruction to rest for a time (WAITPKG, or what DPDK knows of others).
fn can_pause() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    // SAFETY: asks the processor.
    *CAN.get_or_init(|| unsafe { ffi::perigee_can_pause() } != 0)
}

impl Wake {
    /// What queue `index` of a started port has.
    pub(crate) fn new(port: &Arc<OpenPort>, index: u16) -> Wake {
        let _turn = port.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the port is started, and has the queue, which is ours alone.
        let (opened, monitors) = unsafe {
            let opened = if port.has_interrupts { ffi::perigee_wake_open(port.id(), index) } else { -1 };
            (opened, ffi::perigee_can_monitor(port.id(), index) != 0)
        };
        Wake { interrupts: (opened >= 0).then_some(opened), monitors }
    }

    /// What becomes readable at an interrupt.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it stays open until `close`, which ends the queue that lends it.
        self.interrupts.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Switches the queue's interrupts on; false if it has none, or the device refuses.
    pub(crate) fn arm(&self, port: &OpenPort, index: u16) -> bool {
        // Devices have the switches of all queues in one register, so one thread at a time: for one write.
        let _turn = port.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the port is started; the queue is ours alone.
        self.interrupts.is_some() && unsafe { ffi::perigee_wake_arm(port.id(), index) } == 0
    }

    /// Switches them off, and takes those that came.
    pub(crate) fn disarm(&self, port: &OpenPort, index: u16) {
        let Some(descriptor) = self.interrupts else { return };
        let _turn = port.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above; the descriptor is open.
        unsafe { ffi::perigee_wake_disarm(port.id(), index, descriptor) };
    }

    /// Rests for a few microseconds; `alone`: until the device writes to the queue, if the processor can watch that.
    pub(crate) fn rest(&self, port: &OpenPort, index: u16, alone: bool) -> bool {
        // SAFETY: the port is started; the queue is ours alone. What the processor cannot do is not asked of it.
        unsafe {
            (alone && self.monitors && ffi::perigee_monitor(port.id(), index, REST) == 0)
                || (can_pause() && ffi::perigee_pause(REST) == 0)
        }
    }

    pub(crate) fn wakes(&self) -> Wakes {
        match (self.interrupts, self.monitors) {
            (Some(_), _) => Wakes::Interrupt,
            (None, true) => Wakes::Monitor,
            (None, false) => Wakes::Timer,
        }
    }

    /// The queue is given back.
    pub(crate) fn close(&mut self, port: &OpenPort, index: u16) {
        if let Some(descriptor) = self.interrupts.take() {
            // SAFETY: the port is started; the descriptor is open and used no more.
            unsafe { ffi::perigee_wake_close(port.id(), index, descriptor) };
        }
    }
}
