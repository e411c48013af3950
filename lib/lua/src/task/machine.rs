// SPDX-License-Identifier: MIT
//! What tasks ask of the machine that they run on. `bin` answers with DPDK, tests with packets on the heap.

use perigee_net::MacAddr;
use perigee_packet::{Memory, Pool, Port, ReceiveQueue, TransmitQueue};
use std::any::Any;
use std::sync::Arc;

/// A device, as `device.open` or `device.config` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// A Linux interface, `xdp:INTERFACE`, a PCI address or a DPDK device with its arguments.
    pub name: String,
    pub receive_queues: u16,
    pub transmit_queues: u16,
    /// Descriptors per receive queue; `None`: the usual number.
    pub receive_descriptors: Option<u16>,
    /// Descriptors per transmit queue; `None`: the usual number.
    pub transmit_descriptors: Option<u16>,
    /// Packet buffers for receiving; `None`: enough for the descriptors.
    pub buffers: Option<u32>,
    /// Largest IP packet in bytes; `None`: the interface's, or 1500.
    pub mtu: Option<u16>,
    /// MAC address; `None`: the device's own.
    pub mac: Option<MacAddr>,
    /// Receive frames to any MAC address.
    pub promiscuous: bool,
    /// The queues share one queue of the device each way: the machine opens one, and rules choose between the receive
    /// queues.
    pub share: bool,
}

impl DeviceRequest {
    /// One queue each way, promiscuous, everything else as usual.
    pub fn new(name: &str) -> DeviceRequest {
        DeviceRequest {
            name: name.to_owned(),
            receive_queues: 1,
            transmit_queues: 1,
            receive_descriptors: None,
            transmit_descriptors: None,
            buffers: None,
            mtu: None,
            mac: None,
            promiscuous: true,
            share: false,
        }
    }
}

/// A queue that somebody other than a task may have instead.
pub trait Claim: Send + Sync {
    /// A task is to have it from now on.
    ///
    /// # Errors
    /// Who has it, in a sentence.
    fn take(&self) -> Result<(), String>;

    /// The task has ended.
    fn give_back(&self);
}

/// A queue of a device.
pub struct DeviceQueue<Q: ?Sized> {
    pub queue: Box<Q>,
    /// `None`: it is the tasks' alone.
    pub claim: Option<Arc<dyn Claim>>,
}

impl<Q: ?Sized> From<Box<Q>> for DeviceQueue<Q> {
    fn from(queue: Box<Q>) -> DeviceQueue<Q> {
        DeviceQueue { queue, claim: None }
    }
}

/// A started device and all of its queues.
pub struct OpenDevice {
    pub port: Box<dyn Port>,
    pub receive: Vec<DeviceQueue<dyn ReceiveQueue>>,
    pub transmit: Vec<DeviceQueue<dyn TransmitQueue>>,
}

/// A processor core that tasks may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    pub number: usize,
    /// NUMA node, where known.
    pub numa_node: Option<u16>,
}

/// The machine. Errors are sentences for whoever wrote the script.
pub trait Machine: Send + Sync {
    /// The memory of all packets.
    fn memory(&self) -> &'static dyn Memory;

    /// The cores that tasks may use; the first is the main task's.
    fn cores(&self) -> Vec<Core>;

    /// Who has a core besides tasks, such as "worker 2"; nobody, as a rule.
    fn holder(&self, core: usize) -> Option<String> {
        let _ = core;
        None
    }

    /// Opens and starts a device.
    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String>;

    /// A pool of packet buffers with room for frames of `room` bytes.
    fn pool(&self, buffers: u32, room: u16, numa_node: Option<u16>) -> Result<Arc<dyn Pool>, String>;

    /// New packets from the pool of the program that tasks run beside: what they send into its graph is not copied.
    fn programs_pool(&self, numa_node: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        let _ = numa_node;
        Err("a pool of the program's packets is for tasks beside a Snabb program: leave `snabb` out".to_owned())
    }

    /// A ring for packets from any number of threads to one.
    #[allow(clippy::type_complexity)]
    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String>;

    /// Nanoseconds of a monotonic clock, the same on all cores.
    fn now(&self) -> u64;

    /// Called first by a task's thread: binds it to its core. What it returns is dropped when the task has ended.
    ///
    /// # Errors
    /// Why it cannot run there.
    fn enter(&self, core: usize) -> Result<Box<dyn Any>, String>;
}
