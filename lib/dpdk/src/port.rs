// SPDX-License-Identifier: MIT
//! Ports: a device is found, configured as far as possible, and started. For each thing that it cannot do there is a
//! sentence (`PortInfo::notes`), and software elsewhere that does it.

use crate::eal::Eal;
use crate::error::{Error, Result, errno_text, text};
use crate::ffi::{self, NonPlain};
use crate::flow::{FlowRule, Steer};
use crate::log;
use crate::open_port::{Found, OpenPort, PacketSockets};
use crate::plan::{Plan, PortConfig, promiscuous};
use crate::pool::{FRAME_OVERHEAD, MbufPool};
use crate::queue::{RxNonPlain, RxQueue, TxQueue};
use perigee_packet::{Link, Port, PortInfo, PortStats};
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A started port; clones are the same port. It is stopped and closed when it and all its queues and rules are dropped.
#[derive(Clone)]
pub struct DpdkPort(Arc<OpenPort>);

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
        let mut start = |interrupts| {
            let mark = log::mark();
            plan.interrupts(interrupts);
            let setup = plan.setup(config, found.port, &device, pool);
            let mut step = c"be configured".as_ptr();
            // SAFETY: the port exists and is not started; the pool outlives it (see OpenPort).
            let error = unsafe { ffi::perigee_port_setup(&setup, &mut step) };
            if error != 0 {
                // SAFETY: the shim's steps are static texts.
                return Err(fail(&unsafe { text(step) }, error, mark));
            }
            plan.set_mtu(found.port, mtu, interface_mtu);
            // SAFETY: the port is configured.
            match unsafe { ffi::rte_eth_dev_start(found.port) } {
                0 => Ok(()),
                error => Err(fail("start", error, mark)),
            }
        };
        // A device without receive interrupts may say so by failing.
        let has_interrupts = config.interrupts && start(true).is_ok();
        if !has_interrupts {
            start(false)?;
            plan.info.notes.dedup();
        }
        // SAFETY: the port exists.
        unsafe { ffi::rte_eth_stats_reset(found.port) };
        let promiscuous = plan.addresses(config, found.port, &device);
        plan.spread(found.port, &device);

        let flags = |n| (0..n).map(|_| AtomicBool::new(false)).collect();
        let rx_total = plan.rx + u16::from(plan.slow_queue);
        let port = DpdkPort(Arc::new(OpenPort {
            pool: pool.clone(),
            name,
            kick: plan.info.driver == "net_af_xdp",
            rx_taken: flags(rx_total),
            tx_taken: flags(plan.tx),
            non_plain: (0..rx_total).map(|_| NonPlain::default()).collect(),
            slow_queue: plan.slow_queue.then_some(plan.rx),
            has_interrupts,
            promiscuous,
            interrupts: Mutex::default(),
            sockets: PacketSockets::of(&config.device, pairs),
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

    /// Whether it sends or obeys pause frames (IEEE 802.3 annex 31B); `None` where its driver does not say.
    pub fn flow_control(&self) -> Option<bool> {
        let _control = self.0.control();
        // SAFETY: the port exists.
        let state = unsafe { ffi::perigee_port_pause(self.0.id()) };
        (state >= 0).then_some(state != 0)
    }

    /// Which of its driver's functions it receives with, and which it transmits with ("Vector AVX512", ...); `None`
    /// where the driver does not say.
    pub fn paths(&self) -> [Option<String>; 2] {
        let _control = self.0.control();
        let (mut receive, mut transmit) = ([0; ffi::PATH], [0; ffi::PATH]);
        // SAFETY: the port exists, and there is room for two names; both are ended by a NUL.
        unsafe { ffi::perigee_port_paths(self.0.id(), &mut receive, &mut transmit) };
        [receive, transmit].map(|name| {
            let name: Vec<u8> = name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte.cast_unsigned()).collect();
            (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
        })
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
        unsafe { ffi::perigee_port_stats(self.0.id(), &mut n) };
        let [rx_packets, rx_bytes, missed, rx_errors, rx_no_buffer, tx_packets, tx_bytes, tx_errors] = n;
        let rx_missed = missed + self.0.sockets.dropped();
        // The device has counted them as received, but nobody gets them.
        let RxNonPlain { dropped_chained, dropped_shared, .. } = self.non_plain();
        let dropped = dropped_chained + dropped_shared;
        PortStats {
            rx_packets: rx_packets.saturating_sub(dropped),
            rx_bytes,
            rx_missed,
            rx_errors: rx_errors + dropped,
            rx_no_buffer,
            tx_packets,
            tx_bytes,
            tx_errors,
            ..PortStats::default()
        }
    }

    fn device_counters(&self) -> Vec<(String, u64)> {
        /// More than any driver has, with a few queues.
        const MOST: usize = 2048;
        let mut counters = vec![ffi::DeviceCounter { name: [0; 64], value: 0 }; MOST];
        let _control = self.0.control();
        // SAFETY: the port exists; at most MOST entries are written.
        let n = unsafe { ffi::perigee_port_counters(self.0.id(), counters.as_mut_ptr(), MOST as c_int) };
        let there = &counters[..usize::try_from(n).unwrap_or(0)];
        // SAFETY: the shim ends each name with a zero.
        there.iter().map(|counter| (unsafe { text(counter.name.as_ptr()) }, counter.value)).collect()
    }

    fn set_promiscuous(&self, on: bool) -> std::result::Result<(), String> {
        let _control = self.0.control();
        // SAFETY: the port exists.
        match unsafe { promiscuous(self.0.id(), on || self.0.promiscuous) } {
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
