// SPDX-License-Identifier: MIT
//! Ports: a device is found, configured as far as possible, and started. For each thing that it cannot do there is a sentence
//! (`PortInfo::notes`), and software elsewhere that does it.

use crate::device::Device;
use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text, text};
use crate::ffi::{self, DeviceInfo, NonPlain};
use crate::flow::{FlowRule, Steer};
use crate::log;
use crate::memory::MBUF;
use crate::plan::Plan;
use crate::pool::{FRAME_OVERHEAD, MbufPool};
use crate::queue::{RxNonPlain, RxQueue, TxQueue};
use perigee_net::MacAddr;
use perigee_packet::{Batch, Link, Port, PortInfo, PortStats};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requested port; where the device falls short of it, `PortInfo::notes` says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// What it is made of.
    pub device: Device,
    /// Receive queues for workers, flows spread over them.
    pub receive_queues: u16,
    /// Transmit queues: one per worker, and one for the slow path.
    pub transmit_queues: u16,
    /// One more receive queue that only hardware filters fill ([`DpdkPort::steer`]).
    pub slow_path_queue: bool,
    /// Descriptors per receive queue, adjusted to what the device takes.
    pub receive_descriptors: u16,
    /// Descriptors per transmit queue, adjusted to what the device takes.
    pub transmit_descriptors: u16,
    /// Largest IP packet in bytes; `None`: the interface's, or 1500.
    pub mtu: Option<u16>,
    /// MAC address; `None`: the device's own.
    pub mac: Option<MacAddr>,
    /// Receive frames to any MAC address.
    pub promiscuous: bool,
    /// All packets sent here come from one pool, so the device may free them in bulk.
    pub one_pool: bool,
}

impl PortConfig {
    /// One queue each way and the device's own addresses.
    pub fn new(device: Device) -> PortConfig {
        PortConfig {
            device,
            receive_queues: 1,
            transmit_queues: 1,
            slow_path_queue: false,
            receive_descriptors: 1024,
            transmit_descriptors: 1024,
            mtu: None,
            mac: None,
            promiscuous: false,
            one_pool: false,
        }
    }
}

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
struct Found {
    port: u16,
    device: *mut ffi::Device,
    plugged: bool,
}

// SAFETY: the device is a token for DPDK, used when the port is closed.
unsafe impl Send for Found {}
// SAFETY: as above.
unsafe impl Sync for Found {}

impl Found {
    fn find(devargs: &str, device: &Device) -> Result<(Found, DeviceInfo)> {
        let c = c_string(devargs)?;
        let mark = log::mark();
        let fail = |what: &str, error| {
            let (name, cause, hint) = (device.name(), log::cause(mark, error), device.hint());
            Error::new(format!("port {name}: {what}: {cause}; {hint} (device: {devargs})"))
        };
        // SAFETY: EAL is started (callers have an Eal); a C string.
        let probed = unsafe { ffi::rte_dev_probe(c.as_ptr()) };
        // -17 is EEXIST: EAL has found a listed PCI device, or an argument --vdev, at its start.
        if probed != 0 && probed != -17 {
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
        Ok((Found { port, device: info.device, plugged: probed == 0 }, info))
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: all queues are gone, as they hold the port; so nobody uses it any more.
        unsafe {
            ffi::rte_eth_dev_stop(self.port);
            ffi::rte_eth_dev_close(self.port);
            if self.plugged && !self.device.is_null() {
                ffi::rte_dev_remove(self.device);
            }
        }
        open_ports().remove(&self.port);
    }
}

/// The part of a port that queues, filters and the control side share. Fields are dropped in this order: the device before the
/// pool that its buffers go back to.
pub(crate) struct Inner {
    found: Found,
    pub(crate) pool: Arc<MbufPool>,
    pub(crate) name: String,
    pub(crate) kick: bool,
    pub(crate) rx_taken: Vec<AtomicBool>,
    pub(crate) tx_taken: Vec<AtomicBool>,
    pub(crate) non_plain: Vec<NonPlain>,
    slow_queue: Option<u16>,
    info: Mutex<PortInfo>,
    _eal: Arc<Started>,
}

impl Inner {
    #[inline]
    pub(crate) fn id(&self) -> u16 {
        self.found.port
    }

    /// The lock also keeps control calls apart: DPDK wants one at a time per port.
    pub(crate) fn control(&self) -> MutexGuard<'_, PortInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A started port; clones are the same port. It is stopped and closed when it and all its queues and rules are dropped.
#[derive(Clone)]
pub struct DpdkPort(Arc<Inner>);

impl DpdkPort {
    /// Opens, configures and starts a port whose packets are received into buffers of `pool`.
    pub fn open(eal: &Eal, config: &PortConfig, pool: &Arc<MbufPool>) -> Result<DpdkPort> {
        let name = config.device.name().to_owned();
        let fail = |what: &str, error: c_int, mark| {
            Error::new(format!("port {name}: the device did not {what}: {}", log::cause(mark, error)))
        };
        let interface_mtu = config.device.interface_mtu()?;
        let mtu = config.mtu.or(interface_mtu).unwrap_or(1500);
        check_room(&name, mtu, pool)?;

        let pairs = config.receive_queues.max(config.transmit_queues).max(1);
        let (found, device) = Found::find(&config.device.devargs(pairs, mtu)?, &config.device)?;
        let mut plan = Plan::new(config, &device, mtu);
        let mark = log::mark();
        let setup = plan.setup(config, found.port, &device, pool);
        let mut step = c"be configured".as_ptr();
        // SAFETY: the port exists and is not started; the pool outlives it (see Inner).
        let error = unsafe { ffi::perigee_port_setup(&setup, &mut step) };
        if error != 0 {
            // SAFETY: the shim's steps are static texts.
            return Err(fail(&unsafe { text(step) }, error, mark));
        }
        plan.set_mtu(found.port, mtu, interface_mtu);
        // SAFETY: the port is configured.
        let error = unsafe { ffi::rte_eth_dev_start(found.port) };
        if error != 0 {
            return Err(fail("start", error, mark));
        }
        // SAFETY: the port exists.
        unsafe { ffi::rte_eth_stats_reset(found.port) };
        plan.addresses(config, found.port, &device);
        plan.spread(found.port, &device);

        let flags = |n| (0..n).map(|_| AtomicBool::new(false)).collect();
        let rx_total = plan.rx + u16::from(plan.slow_queue);
        let port = DpdkPort(Arc::new(Inner {
            pool: pool.clone(),
            name,
            kick: plan.info.driver == "net_af_xdp",
            rx_taken: flags(rx_total),
            tx_taken: flags(plan.tx),
            non_plain: (0..rx_total).map(|_| NonPlain::default()).collect(),
            slow_queue: plan.slow_queue.then_some(plan.rx),
            info: Mutex::new(PortInfo { port: found.port, ..plan.info }),
            found,
            _eal: eal.started(),
        }));
        if config.slow_path_queue {
            port.try_hardware_filter();
        }
        Ok(port)
    }

    /// Takes a receive queue: `0 .. info().receive_queues` are for workers and all of them have to be polled.
    pub fn rx_queue(&self, index: u16) -> Result<RxQueue> {
        RxQueue::new(self.0.clone(), index)
    }

    /// Takes a transmit queue: `0 .. info().transmit_queues`.
    pub fn tx_queue(&self, index: u16) -> Result<TxQueue> {
        TxQueue::new(self.0.clone(), index)
    }

    /// Number of the receive queue that only hardware filters fill, if there is one.
    pub fn slow_path_queue(&self) -> Option<u16> {
        self.0.slow_queue
    }

    /// How many received mbufs were not plain (chained or shared), summed over all queues.
    pub fn non_plain(&self) -> RxNonPlain {
        let mut sum = RxNonPlain::default();
        self.0.non_plain.iter().for_each(|non_plain| sum.add(non_plain));
        sum
    }

    /// Makes the device put matching packets into receive queue `queue`; an error if it cannot.
    pub fn steer(&self, rule: &Steer, queue: u16) -> Result<FlowRule> {
        FlowRule::new(self.0.clone(), rule, queue)
    }

    /// The pool it receives into.
    pub fn pool(&self) -> &Arc<MbufPool> {
        &self.0.pool
    }

    /// Finds out whether the device has filters by asking it to steer ARP.
    fn try_hardware_filter(&self) {
        let tried = match self.0.slow_queue {
            Some(queue) => self.steer(&Steer::EtherType(0x0806), queue).map(drop),
            None => Err(Error::new(format!(
                "{} has no receive queue to spare for the slow path: the software filter does it",
                self.0.name
            ))),
        };
        let mut info = self.0.control();
        match tried {
            Ok(()) => info.offloads.push("flow"),
            Err(error) => info.notes.push(error.to_string()),
        }
    }
}

impl Port for DpdkPort {
    fn info(&self) -> PortInfo {
        self.0.control().clone()
    }

    fn link(&self) -> Link {
        let mut state = ffi::LinkState::default();
        let _control = self.0.control();
        // SAFETY: the port exists; on an error the state stays "down".
        unsafe { ffi::perigee_port_link(self.0.id(), &mut state) };
        Link {
            up: state.up != 0,
            speed: (state.speed_known != 0).then_some(state.mbps),
            full_duplex: state.full_duplex != 0,
        }
    }

    fn stats(&self) -> PortStats {
        let mut n = [0; 8];
        let _control = self.0.control();
        // SAFETY: the port exists; eight numbers are written, or none.
        unsafe { ffi::perigee_port_stats(self.0.id(), n.as_mut_ptr()) };
        let [rx_packets, rx_bytes, rx_missed, rx_errors, rx_no_buffer, tx_packets, tx_bytes, tx_errors] = n;
        PortStats { rx_packets, rx_bytes, rx_missed, rx_errors, rx_no_buffer, tx_packets, tx_bytes, tx_errors }
    }

    fn set_promiscuous(&self, on: bool) -> std::result::Result<(), String> {
        let _control = self.0.control();
        // SAFETY: the port exists.
        match unsafe { promiscuous(self.0.id(), on) } {
            0 => Ok(()),
            error => Err(format!(
                "port {}: promiscuous mode cannot be switched {}: {}",
                self.0.name,
                if on { "on" } else { "off" },
                errno_text(error)
            )),
        }
    }

    fn set_mtu(&self, mtu: u16) -> std::result::Result<(), String> {
        check_room(&self.0.name, mtu, &self.0.pool).map_err(|e| e.to_string())?;
        let mut info = self.0.control();
        // SAFETY: the port exists.
        match unsafe { ffi::rte_eth_dev_set_mtu(self.0.id(), mtu) } {
            0 => {
                info.mtu = mtu;
                Ok(())
            }
            error => Err(format!(
                "port {}: the device does not take an MTU of {mtu} now: {}; set it in the configuration",
                self.0.name,
                errno_text(error)
            )),
        }
    }
}

/// Switches promiscuous mode; 0 or a negative errno.
///
/// # Safety
/// The port must exist.
pub(crate) unsafe fn promiscuous(port: u16, on: bool) -> c_int {
    // SAFETY: the caller's port exists.
    unsafe { if on { ffi::rte_eth_promiscuous_enable(port) } else { ffi::rte_eth_promiscuous_disable(port) } }
}

fn check_room(name: &str, mtu: u16, pool: &MbufPool) -> Result<()> {
    let room = pool.config().room;
    if u32::from(mtu) + u32::from(FRAME_OVERHEAD) <= u32::from(room) {
        return Ok(());
    }
    Err(Error::new(format!(
        "port {name}: an MTU of {mtu} needs packet buffers of {} bytes, and the pool's have {room}: make the pool with \
         PoolConfig::for_mtu",
        u32::from(mtu) + u32::from(FRAME_OVERHEAD)
    )))
}
