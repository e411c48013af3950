// SPDX-License-Identifier: MIT
//! Which parts of a port's configuration the device can do, and a sentence for each that it cannot.

use crate::device::Device;
use crate::error::{errno_text, text};
use crate::ffi::{self, DeviceInfo, Setup};
use crate::pool::MbufPool;
use perigee_net::MacAddr;
use perigee_packet::PortInfo;
use std::ffi::c_int;

/// The requested port; where the device falls short of it, `PortInfo::notes` says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// What it is made of.
    pub device: Device,
    /// Receive queues for workers, flows spread over them.
    pub receive_queues: u16,
    /// Transmit queues: one per worker, and one for the slow path.
    pub transmit_queues: u16,
    /// One more receive queue that only hardware filters fill ([`DpdkPort::steer`](crate::DpdkPort::steer)).
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
    /// Receive interrupts, where the device has them: for threads that sleep.
    pub interrupts: bool,
    /// All packets sent here come from one pool, so the device may free them in bulk.
    pub one_pool: bool,
}

impl PortConfig {
    /// Descriptors per queue, where nothing else is asked for.
    pub const DESCRIPTORS: u16 = 1024;

    /// One queue each way and the device's own addresses.
    pub fn new(device: Device) -> PortConfig {
        PortConfig {
            device,
            receive_queues: 1,
            transmit_queues: 1,
            slow_path_queue: false,
            receive_descriptors: PortConfig::DESCRIPTORS,
            transmit_descriptors: PortConfig::DESCRIPTORS,
            mtu: None,
            mac: None,
            promiscuous: false,
            interrupts: false,
            one_pool: false,
        }
    }
}

/// The configuration, as far as the device can do it.
pub(crate) struct Plan {
    /// Receive queues for workers.
    pub(crate) rx: u16,
    pub(crate) tx: u16,
    /// One more receive queue, for hardware filters.
    pub(crate) slow_queue: bool,
    features: u16,
    pub(crate) info: PortInfo,
}

impl Plan {
    pub(crate) fn new(config: &PortConfig, device: &DeviceInfo, mtu: u16) -> Plan {
        // SAFETY: the shim has terminated both texts.
        let (name, driver) = unsafe { (text(device.name.as_ptr()), text(device.driver.as_ptr())) };
        let mut notes = Vec::new();
        // The kernel spreads an interface's packets over all pairs, needed or not.
        let wanted_rx = match config.device {
            Device::Interface(_) => config.receive_queues.max(config.transmit_queues),
            _ => config.receive_queues,
        }
        .max(1);
        let rx = wanted_rx.min(device.max_rx_queues);
        let tx = config.transmit_queues.max(1).min(device.max_tx_queues);
        let port = config.device.name();
        if rx < wanted_rx {
            notes.push(format!(
                "{port} has {}, {wanted_rx} were asked for: packets are spread over the workers in software",
                count(rx, "receive queue")
            ));
        } else if rx > config.receive_queues.max(1) {
            notes.push(format!(
                "{port} has {}, as its transmit queues come in pairs with them: some workers poll two",
                count(rx, "receive queue")
            ));
        }
        if tx < config.transmit_queues {
            notes.push(format!(
                "{port} has {}, {} were asked for: the other threads hand their packets over by ring",
                count(tx, "transmit queue"),
                config.transmit_queues
            ));
        }
        let mut plan = Plan {
            rx,
            tx,
            slow_queue: config.slow_path_queue
                && device.max_rx_queues > rx
                && device.reta_size > 0
                && device.features & ffi::RSS != 0,
            features: 0,
            info: PortInfo {
                port: 0,
                device: name,
                driver,
                mac: MacAddr(device.mac),
                mtu,
                receive_queues: rx,
                transmit_queues: tx,
                numa_node: u16::try_from(device.socket).ok(),
                offloads: Vec::new(),
                notes,
            },
        };
        plan.offloads(config, device);
        plan
    }

    fn offloads(&mut self, config: &PortConfig, device: &DeviceInfo) {
        let port = config.device.name();
        let notes = &mut self.info.notes;
        let mut request = |feature, name, wanted: bool| {
            let has = wanted && device.features & feature != 0;
            if has {
                self.features |= feature;
                self.info.offloads.push(name);
            }
            has
        };
        if !request(ffi::IPV4_CHECKSUM, "ipv4-checksum", true) {
            notes.push(format!("{port} does not check IPv4 header checksums: done in software"));
        }
        if !request(ffi::RSS_HASH, "rss-hash", true) {
            notes.push(format!("{port} gives no flow hash: computed in software where one is needed"));
        }
        request(ffi::RSS, "rss", self.rx > 1 || self.slow_queue);
        request(ffi::FAST_FREE, "fast-free", config.one_pool);
    }

    /// Asks for receive interrupts, or does no longer.
    pub(crate) fn interrupts(&mut self, wanted: bool) {
        self.features &= !ffi::INTERRUPTS;
        self.features |= if wanted { ffi::INTERRUPTS } else { 0 };
    }

    pub(crate) fn setup(&self, config: &PortConfig, port: u16, device: &DeviceInfo, pool: &MbufPool) -> Setup {
        Setup {
            pool: pool.as_ptr(),
            port,
            rx_queues: self.rx + u16::from(self.slow_queue),
            tx_queues: self.tx,
            rx_descriptors: config.receive_descriptors,
            tx_descriptors: config.transmit_descriptors,
            // The real MTU is set afterwards, where its refusal can be distinguished from other errors.
            mtu: device.max_mtu.min(1500),
            features: self.features,
        }
    }

    /// Gives the device its MTU, unless it is an interface that has it already.
    pub(crate) fn set_mtu(&mut self, port: u16, mtu: u16, interface: Option<u16>) {
        if interface.unwrap_or(1500) == mtu {
            return;
        }
        // SAFETY: the port is configured and not started.
        let error = unsafe { ffi::rte_eth_dev_set_mtu(port, mtu) };
        if error != 0 {
            self.info.notes.push(format!(
                "{} does not take an MTU of {mtu} ({}): the router keeps to it in software",
                self.info.device,
                errno_text(error)
            ));
        }
    }

    /// Sets the MAC address, and promiscuous mode if it is needed; returns whether it is.
    pub(crate) fn addresses(&mut self, config: &PortConfig, port: u16, device: &DeviceInfo) -> bool {
        let mut all = config.promiscuous;
        if let Some(mac) = config.mac.filter(|mac| mac.0 != device.mac) {
            self.info.mac = mac;
            // An interface keeps its own address: with the router's, Linux would answer for the router.
            let own = matches!(config.device, Device::Interface(_) | Device::Xdp(_));
            // SAFETY: the port is started; six bytes.
            if own || unsafe { ffi::perigee_port_set_mac(port, &mac.0) } != 0 {
                all = true;
                self.info.notes.push(format!(
                    "{} keeps its MAC address {}: frames to {mac} are received in promiscuous mode",
                    config.device.name(),
                    MacAddr(device.mac)
                ));
            }
        }
        // SAFETY: the port is started. Devices that cannot switch this receive everything as it is, so errors say
        // nothing.
        unsafe {
            let error = promiscuous(port, all);
            if all && error != 0 {
                self.info.notes.push(format!(
                    "{} has no promiscuous mode ({}): it receives what its driver lets through",
                    config.device.name(),
                    errno_text(error)
                ));
            }
            ffi::rte_eth_allmulticast_enable(port);
        }
        all
    }

    /// Keeps flows out of the slow path's queue.
    pub(crate) fn spread(&mut self, port: u16, device: &DeviceInfo) {
        if !self.slow_queue {
            return;
        }
        // SAFETY: the port is started.
        let error = unsafe { ffi::perigee_port_spread(port, device.reta_size, self.rx) };
        if error != 0 {
            // Then the queue gets flows like the others, and a worker has to poll it.
            self.slow_queue = false;
            self.rx += 1;
            self.info.receive_queues = self.rx;
            self.info.notes.push(format!(
                "{} cannot keep flows out of a queue ({}): workers poll all {} receive queues",
                self.info.device,
                errno_text(error),
                self.rx
            ));
        }
    }
}

fn count(n: u16, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Switches promiscuous mode; 0 or a negative errno.
///
/// # Safety
/// The port must exist.
pub(crate) unsafe fn promiscuous(port: u16, on: bool) -> c_int {
    // SAFETY: the caller's port exists.
    unsafe { if on { ffi::rte_eth_promiscuous_enable(port) } else { ffi::rte_eth_promiscuous_disable(port) } }
}
