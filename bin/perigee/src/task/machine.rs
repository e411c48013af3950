// SPDX-License-Identifier: MIT
//! The machine that tasks run on: DPDK, started when the first device, pool or ring is asked for.

use super::MachineArgs;
use perigee_dpdk::numa::Topology;
use perigee_dpdk::{
    Clock, Device, DpdkPort, Eal, EalConfig, MBUF, MbufPool, PoolConfig, PortConfig, RegisteredThread,
    pin_current_thread, ring, usable_cores,
};
use perigee_lua::task::{Core, DeviceQueue, DeviceRequest, Machine, OpenDevice};
use perigee_packet::{Memory, Pool, Port, ReceiveQueue, TransmitQueue};
use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors of a queue, as usual.
const DESCRIPTORS: u16 = 1024;

thread_local! {
    /// Makes this thread known to DPDK, so that it has caches of its own.
    static REGISTERED: RefCell<Option<RegisteredThread>> = const { RefCell::new(None) };
}

/// Starts DPDK.
type Start = Box<dyn Fn() -> Result<Eal, String> + Send + Sync>;

/// DPDK as tasks see it.
pub struct DpdkMachine {
    cores: Vec<Core>,
    clock: Clock,
    start: Start,
    eal: Mutex<Option<Eal>>,
}

impl DpdkMachine {
    pub fn new(args: &MachineArgs) -> DpdkMachine {
        let numbers = args.cores.as_ref().map_or_else(usable_cores, |cores| cores.0.clone());
        let config = EalConfig {
            memory_mb: args.memory,
            hugepages: args.hugepages.into(),
            main_core: numbers.first().copied(),
            // No devices at the start: those that scripts name are opened one by one.
            pci: if Path::new("/sys/bus/pci/devices").exists() { vec!["0000:00:00.0".to_owned()] } else { Vec::new() },
            ..EalConfig::default()
        };
        DpdkMachine::of(numbers, Box::new(move || Eal::start(&config).map_err(|error| error.to_string())))
    }

    /// A machine of these cores, whose DPDK is started so.
    pub fn of(cores: Vec<usize>, start: Start) -> DpdkMachine {
        let cores =
            cores.into_iter().map(|number| Core { number, numa_node: Topology::here().node_of(number) }).collect();
        DpdkMachine { cores, clock: Clock::new(), start, eal: Mutex::default() }
    }

    /// DPDK; starts it if this is the first call. The calling thread is known to it afterwards.
    pub fn eal(&self) -> Result<Eal, String> {
        let mut running = self.eal.lock().unwrap_or_else(PoisonError::into_inner);
        let eal = match &*running {
            Some(eal) => eal.clone(),
            None => running.insert((self.start)()?).clone(),
        };
        drop(running);
        register(&eal);
        Ok(eal)
    }

    /// Gives DPDK up: it ends with the last of what was made by it.
    pub fn release(&self) {
        drop(self.eal.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Are there as many queues as a task wants of a device?
pub fn enough_queues(name: &str, has: [u16; 2], wanted: [u16; 2]) -> Result<(), String> {
    for ((what, has), wanted) in ["receive", "transmit"].into_iter().zip(has).zip(wanted) {
        if has < wanted {
            return Err(format!(
                "{name} has {has} {what} queues, and {wanted} were asked for: ask for fewer, or share them by a ring"
            ));
        }
    }
    Ok(())
}

/// Makes the calling thread known to DPDK; without that it is slower.
fn register(eal: &Eal) {
    REGISTERED.with_borrow_mut(|registered| {
        if registered.is_none() {
            *registered = eal.register_thread().ok().flatten();
        }
    });
}

/// What a task's thread has from DPDK, until it ends.
struct Thread;

impl Drop for Thread {
    fn drop(&mut self) {
        REGISTERED.with_borrow_mut(|registered| drop(registered.take()));
    }
}

impl Machine for DpdkMachine {
    fn memory(&self) -> &'static dyn Memory {
        &MBUF
    }

    fn cores(&self) -> Vec<Core> {
        self.cores.clone()
    }

    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String> {
        let eal = self.eal()?;
        let device = Device::named(&request.name);
        let receive_descriptors = request.receive_descriptors.unwrap_or(DESCRIPTORS);
        // What the descriptors hold, what tasks have in their bursts, and rings between them.
        let enough = u32::from(request.receive_queues) * (u32::from(receive_descriptors) * 2 + 512) + 1024;
        let mtu = request.mtu.or_else(|| device.interface_mtu().ok().flatten()).unwrap_or(1500);
        let pool = PoolConfig { buffers: request.buffers.unwrap_or(enough), ..PoolConfig::default() }.for_mtu(mtu);
        let pool = PoolConfig { cache: pool.cache.min(pool.buffers / 2), ..pool };
        let pool = MbufPool::new(&eal, pool).map_err(|error| error.to_string())?;
        let config = PortConfig {
            receive_queues: request.receive_queues,
            transmit_queues: request.transmit_queues,
            receive_descriptors,
            transmit_descriptors: request.transmit_descriptors.unwrap_or(DESCRIPTORS),
            mtu: request.mtu,
            mac: request.mac,
            promiscuous: request.promiscuous,
            ..PortConfig::new(device)
        };
        let port = DpdkPort::open(&eal, &config, &pool).map_err(|error| error.to_string())?;
        let info = port.info();
        let wanted = [request.receive_queues, request.transmit_queues];
        enough_queues(&request.name, [info.receive_queues, info.transmit_queues], wanted)?;
        let receive =
            (0..info.receive_queues).map(|i| port.rx_queue(i).map(|queue| Box::new(queue) as Box<dyn ReceiveQueue>));
        let transmit =
            (0..info.transmit_queues).map(|i| port.tx_queue(i).map(|queue| Box::new(queue) as Box<dyn TransmitQueue>));
        let receive = receive.map(|queue| queue.map(DeviceQueue::from)).collect::<Result<_, _>>();
        let transmit = transmit.map(|queue| queue.map(DeviceQueue::from)).collect::<Result<_, _>>();
        let (receive, transmit) = (receive.map_err(|e| e.to_string())?, transmit.map_err(|e| e.to_string())?);
        Ok(OpenDevice { port: Box::new(port), receive, transmit })
    }

    fn pool(&self, buffers: u32, room: u16, numa_node: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        let config = PoolConfig { buffers, room, numa_node, cache: 256.min(buffers / 2) };
        let pool = MbufPool::new(&self.eal()?, config).map_err(|error| error.to_string())?;
        Ok(pool)
    }

    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        let (sender, receiver) = ring(&self.eal()?, capacity, None).map_err(|error| error.to_string())?;
        Ok((Box::new(sender), Box::new(receiver)))
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn enter(&self, core: usize) -> Result<Box<dyn Any>, String> {
        pin_current_thread(core).map_err(|error| error.to_string())?;
        if let Some(eal) = &*self.eal.lock().unwrap_or_else(PoisonError::into_inner) {
            register(eal);
        }
        Ok(Box::new(Thread))
    }
}
