// SPDX-License-Identifier: MIT
//! A port that is open: what its queues, its filters and the control side share, and how it is found and closed.

use crate::device::Device;
use crate::eal::Started;
use crate::error::{Error, Result, c_string};
use crate::ffi::{self, DeviceInfo, NonPlain};
use crate::log;
use crate::memory::MBUF;
use crate::pool::MbufPool;
use perigee_packet::{Batch, PortInfo};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A batch that DPDK fills must free its packets to DPDK.
#[inline]
pub(crate) fn check_memory(batch: &Batch) {
    assert!(std::ptr::addr_eq(batch.memory(), &MBUF), "a batch that receives from DPDK is made with Batch::new(&MBUF)");
}

/// The ports in use: DPDK itself would let the same device be configured twice.
static OPEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

fn open_ports() -> MutexGuard<'static, BTreeSet<u16>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device that was found; closed, and unplugged if it was plugged here, when dropped.
pub(crate) struct Found {
    pub(crate) port: u16,
    device: *mut ffi::Device,
    plugged: bool,
    /// An interface of Linux that took no frames to others before: DPDK's drivers leave it so that it does.
    restored: bool,
}

// SAFETY: the device is a token for DPDK, used when the port is closed.
unsafe impl Send for Found {}
// SAFETY: as above.
unsafe impl Sync for Found {}

impl Found {
    pub(crate) fn find(devargs: &str, device: &Device) -> Result<(Found, DeviceInfo)> {
        let c = c_string(devargs)?;
        let restored = device.is_promiscuous() == Some(false);
        let mark = log::mark();
        let fail = |what: &str, error| {
            let (name, cause, hint) = (device.name(), log::cause(mark, error), device.hint());
            Error::new(format!("port {name}: {what}: {cause}; {hint} (device: {devargs})"))
        };
        // SAFETY: EAL is started (callers have an Eal); a C string.
        let probed = unsafe { ffi::rte_dev_probe(c.as_ptr()) };
        // -17 is EEXIST: EAL has found a listed PCI device, or an argument --vdev, at its start.
        if probed != 0 && probed != -17 {
            if device.looks_like_an_interface() {
                let name = device.name();
                return Err(Error::new(format!(
                    "there is no interface `{name}` in this network namespace: `ip link` lists those there are; devices of DPDK have \
                     names such as 0000:03:00.0 or net_pcap0"
                )));
            }
            return Err(fail("DPDK could not open the device", probed));
        }
        let mut port = 0;
        // SAFETY: as above; the port's number is written.
        let error = unsafe { ffi::perigee_port_find(c.as_ptr(), &mut port) };
        if error != 0 {
            return Err(fail("the device was found, but is not an Ethernet port", error));
        }
        // SAFETY: plain data, for which zeros are valid.
        let mut info: DeviceInfo = unsafe { std::mem::zeroed() };
        // SAFETY: the port exists; `info` is written.
        let error = unsafe { ffi::perigee_port_describe(port, &mut info) };
        if error != 0 {
            return Err(fail("the device does not describe itself", error));
        }
        if !open_ports().insert(port) {
            return Err(Error::new(format!("port {}: this device is already in use by another port", device.name())));
        }
        Ok((Found { port, device: info.device, plugged: probed == 0, restored }, info))
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: all queues are gone, as they hold the port; so nobody uses it any more.
        unsafe {
            if self.restored {
                ffi::rte_eth_promiscuous_disable(self.port);
                ffi::rte_eth_allmulticast_disable(self.port);
            }
            ffi::rte_eth_dev_stop(self.port);
            ffi::rte_eth_dev_close(self.port);
            if self.plugged && !self.device.is_null() {
                ffi::rte_dev_remove(self.device);
            }
        }
        open_ports().remove(&self.port);
    }
}

/// The sockets of an AF_PACKET port, whose drops its driver does not count: the kernel knows.
#[derive(Default)]
pub(crate) struct PacketSockets {
    descriptors: Vec<c_int>,
    drops: AtomicU64,
}

impl PacketSockets {
    /// Those of an interface, none of another device. What they have dropped so far does not count.
    pub(crate) fn of(device: &Device, queues: u16) -> PacketSockets {
        let Device::Interface(name) = device else { return PacketSockets::default() };
        let Ok(c) = c_string(name) else { return PacketSockets::default() };
        let mut descriptors = vec![0; usize::from(queues)];
        // SAFETY: a C string, and room for so many numbers.
        let found = unsafe { ffi::perigee_packet_sockets(c.as_ptr(), descriptors.as_mut_ptr(), c_int::from(queues)) };
        descriptors.truncate(usize::try_from(found).unwrap_or(0));
        let sockets = PacketSockets { descriptors, drops: AtomicU64::new(0) };
        sockets.dropped();
        sockets.drops.store(0, Ordering::Relaxed);
        sockets
    }

    /// Frames that their rings had no room for.
    pub(crate) fn dropped(&self) -> u64 {
        // SAFETY: a number; if it is no packet socket any more, the answer is 0.
        let more: u64 = self.descriptors.iter().map(|fd| unsafe { ffi::perigee_packet_drops(*fd) }).sum();
        self.drops.fetch_add(more, Ordering::Relaxed) + more
    }
}

/// The part of a port that queues, filters and the control side share. Fields are dropped in this order: the device
/// before the pool that its buffers go back to.
pub(crate) struct OpenPort {
    pub(crate) found: Found,
    pub(crate) pool: Arc<MbufPool>,
    pub(crate) name: String,
    pub(crate) kick: bool,
    pub(crate) rx_taken: Vec<AtomicBool>,
    pub(crate) tx_taken: Vec<AtomicBool>,
    pub(crate) non_plain: Vec<NonPlain>,
    pub(crate) slow_queue: Option<u16>,
    /// Was it configured with receive interrupts?
    pub(crate) has_interrupts: bool,
    /// Does it need promiscuous mode for its own frames, as its device keeps another MAC address, or is it configured?
    pub(crate) promiscuous: bool,
    /// Whoever switches a queue's interrupts.
    pub(crate) interrupts: Mutex<()>,
    pub(crate) sockets: PacketSockets,
    pub(crate) info: Mutex<PortInfo>,
    pub(crate) _eal: Arc<Started>,
}

impl OpenPort {
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.found.port
    }

    /// The lock also keeps control calls apart: DPDK wants one at a time per port.
    pub(crate) fn control(&self) -> MutexGuard<'_, PortInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
