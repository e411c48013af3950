// SPDX-License-Identifier: MIT
//! What the slow path's thread looks after now and then: links, interfaces, gateways, memory, workers that are silent.

use crate::routing::lock;
use crate::slow::{RouterPort, SlowThread};
use perigee_net::{Interface, InterfaceId};
use perigee_slowpath::Input;

/// How often links are looked at, memory is reclaimed and silent workers are noticed.
const HOUSEKEEPING: u64 = 250_000_000;
/// A worker that passes no batch boundary for so long is reported.
const SILENT: u64 = 1_000_000_000;

impl SlowThread {
    /// Looks after everything once.
    pub(crate) fn housekeeping(&mut self, now: u64) {
        self.next_housekeeping = now + HOUSEKEEPING;
        if self.look_at_links() {
            self.set_interfaces();
        }
        self.mend_linux();
        self.audit_when_due(now);
        let mut published = lock(&self.parts.published);
        published.reclaim();
        lock(&self.parts.staging).reclaim();
        if self.parts.routing.fib().waiting() > 0 {
            self.parts.routing.fib().reclaim(published.grace());
        }
        drop(published);
        for (worker, pulse) in self.pulse.iter_mut().enumerate() {
            let polls = self.parts.counters[worker].polls.get();
            let silent = now.saturating_sub(pulse.1) >= SILENT;
            if polls != pulse.0 {
                *pulse = (polls, now);
            } else if silent && now.saturating_sub(pulse.1) < SILENT + HOUSEKEEPING {
                tracing::warn!("worker {worker} has passed no batch boundary for a second");
            }
        }
        for queue in self.parts.outputs.iter_mut().flatten() {
            queue.poll();
        }
    }

    /// Whether the link of any port has changed.
    pub(crate) fn look_at_links(&mut self) -> bool {
        let up = |(index, port): (usize, &RouterPort)| port.port.link().up && self.underlay_up(index);
        let links: Vec<bool> = self.parts.ports.iter().enumerate().map(up).collect();
        let before = std::mem::replace(&mut self.links, links);
        for (index, now) in self.links.iter().enumerate().filter(|(index, now)| before[*index] != **now) {
            let name = &self.parts.config.ports[index].name;
            tracing::info!("port {name}: link {}", if *now { "up" } else { "down" });
            self.carrier_for_linux(index, *now);
        }
        self.links != before
    }

    /// Whether an interface is up, and its port has a link.
    pub(crate) fn interface_is_up(&self, interface: InterfaceId) -> bool {
        let Some(interface) = self.parts.routing.interfaces().get(interface) else { return false };
        let index = self.infos.iter().position(|info| info.port == interface.port);
        interface.up && index.is_some_and(|index| self.links[index])
    }

    /// Tells the slow path what the interfaces are now.
    pub(crate) fn set_interfaces(&mut self) {
        let interfaces = self.parts.routing.interfaces().clone();
        for (id, interface) in interfaces.iter() {
            let index = self.infos.iter().position(|info| info.port == interface.port);
            let up = interface.up && index.is_some_and(|index| self.links[index]);
            let interface = Interface { up, ..interface.clone() };
            self.tell(Input::SetInterface { id, interface });
        }
        self.carry_out();
    }

    /// Tells the slow path the configuration's neighbors.
    pub(crate) fn set_static_neighbors(&mut self) {
        for neighbor in self.parts.config.neighbors.clone() {
            let (interface, address) = (neighbor.interface, neighbor.address);
            if self.linux.is_by_hand(interface, address) {
                continue;
            }
            self.tell(Input::SetNeighbor { interface, address, mac: neighbor.mac });
        }
        self.carry_out();
    }

    /// Tells the slow path which gateways routes need, as far as that has changed.
    pub(crate) fn follow_gateways(&mut self) {
        let now = self.parts.routing.gateways();
        let before = std::mem::replace(&mut self.gateways, now.clone());
        for &(interface, gateway) in now.difference(&before) {
            self.tell(Input::Resolve { interface, gateway });
        }
        for &(interface, gateway) in before.difference(&now) {
            self.tell(Input::Forget { interface, gateway });
        }
        self.carry_out();
    }
}
