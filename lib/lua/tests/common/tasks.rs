// SPDX-License-Identifier: MIT
//! Programs of tasks on a machine of heap packets: two cores, and devices whose queues lead back to themselves.
#![allow(dead_code)]

use perigee_lua::Script;
use perigee_lua::task::{Core, DeviceRequest, Machine, OpenDevice, Tasks};
use perigee_net::MacAddr;
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Link, Memory, Pool, Port, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device whose queues lead back to itself.
struct Loop(String, u16);

impl Port for Loop {
    fn info(&self) -> PortInfo {
        PortInfo {
            port: self.1,
            device: self.0.clone(),
            driver: "heap".to_owned(),
            mac: MacAddr([2, 0, 0, 0, 0, self.1 as u8]),
            mtu: 1500,
            receive_queues: 1,
            transmit_queues: 1,
            numa_node: None,
            offloads: vec![],
            notes: vec![],
        }
    }
    fn link(&self) -> Link {
        Link { up: true, speed: Some(10_000), full_duplex: true }
    }
    fn stats(&self) -> PortStats {
        PortStats { rx_packets: 7, ..PortStats::default() }
    }
    fn set_promiscuous(&self, _: bool) -> Result<(), String> {
        Ok(())
    }
    fn set_mtu(&self, _: u16) -> Result<(), String> {
        Ok(())
    }
}

struct Heap {
    pool: &'static HeapPool,
    start: Instant,
}

impl Machine for Heap {
    fn memory(&self) -> &'static dyn Memory {
        self.pool
    }
    fn cores(&self) -> Vec<Core> {
        (0..2).map(|number| Core { number, numa_node: None }).collect()
    }
    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String> {
        if request.name == "broken" {
            return Err("broken: there is no such device".to_owned());
        }
        let queues: Vec<HeapQueue> = (0..request.receive_queues.max(request.transmit_queues))
            .map(|_| HeapQueue::new(self.pool, 3, 128))
            .collect();
        Ok(OpenDevice {
            port: Box::new(Loop(request.name.clone(), 3)),
            receive: queues.iter().map(|queue| (Box::new(queue.clone()) as Box<dyn ReceiveQueue>).into()).collect(),
            transmit: queues.iter().map(|queue| (Box::new(queue.clone()) as Box<dyn TransmitQueue>).into()).collect(),
        })
    }
    fn pool(&self, _: u32, _: u16, _: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        Ok(Arc::new(self.pool))
    }
    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        let queue = HeapQueue::new(self.pool, 0, capacity as usize);
        Ok((Box::new(queue.clone()), Box::new(queue)))
    }
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
    fn enter(&self, _: usize) -> Result<Box<dyn Any>, String> {
        Ok(Box::new(()))
    }
}

pub struct Program {
    pub pool: &'static HeapPool,
    pub tasks: Arc<Tasks>,
}

/// A machine by itself.
pub fn heap() -> Arc<dyn Machine> {
    Arc::new(Heap { pool: HeapPool::leak(100_000), start: Instant::now() })
}

pub fn program(source: &str) -> Program {
    let pool = HeapPool::leak(100_000);
    let script = Script { name: "test.lua".to_owned(), source: source.to_owned(), folder: None };
    let machine = Arc::new(Heap { pool, start: Instant::now() });
    Program { pool, tasks: Tasks::new(machine, script, vec!["loop0".to_owned()]) }
}

/// Runs a script; whatever it does, its packets are back.
pub fn run(source: &str, arguments: &[&str]) -> Result<(), String> {
    let Program { pool, tasks } = program(source);
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let result = tasks.run(&arguments, Duration::from_secs(180)).map_err(|error| error.to_string());
    assert_eq!(pool.in_use(), 0, "packets are left");
    result
}

#[track_caller]
pub fn runs(source: &str) {
    run(source, &[]).unwrap_or_else(|error| panic!("{error}"));
}

#[track_caller]
pub fn fails(source: &str, expected: &str) {
    let error = run(source, &[]).unwrap_err();
    assert!(error.contains(expected), "found {error:?}, expected {expected:?} in it");
}
