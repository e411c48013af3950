// SPDX-License-Identifier: MIT
//! Rings of mbufs for the router's wiring.

use perigee_dpdk::{Eal, RingSender, RingToTx, ring};
use perigee_packet::TransmitQueue;
use perigee_router::{Fabric, Refusal, Ring, Sender, Shared};

/// Packets that a ring between workers, or in front of a transmit queue, can hold.
const CAPACITY: u32 = 1024;

/// Makes rings in DPDK's memory.
pub struct DpdkFabric<'a> {
    pub eal: &'a Eal,
    /// The NUMA node of each worker, where there are several.
    pub nodes: Vec<Option<u16>>,
}

struct Producers(RingSender);

impl Sender for Producers {
    fn queue(&self) -> Box<dyn TransmitQueue> {
        Box::new(self.0.clone())
    }
}

impl Fabric for DpdkFabric<'_> {
    fn hand_over(&mut self, worker: usize) -> Result<Ring, Refusal> {
        let (sender, receiver) = ring(self.eal, CAPACITY, self.nodes.get(worker).copied().flatten())?;
        Ok((Box::new(Producers(sender)), Box::new(receiver)))
    }

    fn share(&mut self, queue: Box<dyn TransmitQueue>) -> Result<Shared, Refusal> {
        let (sender, receiver) = ring(self.eal, CAPACITY, None)?;
        Ok((Box::new(Producers(sender)), Box::new(RingToTx::new(receiver, queue))))
    }
}
