// SPDX-License-Identifier: MIT
//! The forwarding table: what workers look up in, and the control thread's end that keeps it equal to the routes.

use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::grace::Grace;
use crate::lookup::{Lookup, LookupError, LookupWriter};
use crate::next_hop::{InterfaceId, Mac, NextHop, NextHopId, NextHops};
use crate::next_hop_writer::{NextHopError, NextHopWriter, Via};
use crate::prefix::Prefix;
use crate::rib::{Change, Rib, Route, RouteSource, RouteTarget};
use crate::structures;

/// The forwarding table as workers see it: shared, changing in place, never locked.
#[derive(Clone)]
pub struct Fib {
    /// IPv4 lookup.
    pub v4: Arc<dyn Lookup<u32>>,
    /// IPv6 lookup.
    pub v6: Arc<dyn Lookup<u128>>,
    /// What the ids found there mean.
    pub next_hops: Arc<NextHops>,
}

impl Fib {
    /// Whether both are the same memory: then nothing needs to be published.
    pub fn is_same(&self, other: &Fib) -> bool {
        Arc::ptr_eq(&self.v4, &other.v4)
            && Arc::ptr_eq(&self.v6, &other.v6)
            && Arc::ptr_eq(&self.next_hops, &other.next_hops)
    }

    /// One address at a time, for who is not in a hurry.
    pub fn lookup(&self, address: IpAddr) -> (NextHopId, NextHop) {
        let id = match address {
            IpAddr::V4(address) => self.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.v6.lookup(address.to_bits()),
        };
        (id, self.next_hops.get(id))
    }
}

/// The routes, and what follows from them in the forwarding table. Every call changes both or neither.
pub struct FibWriter {
    rib: Rib,
    v4: Box<dyn LookupWriter<u32>>,
    v6: Box<dyn LookupWriter<u128>>,
    next_hops: NextHopWriter,
}

impl FibWriter {
    /// An empty table with room for `next_hops` gateways (8 bytes each, once used), and the default lookup structures.
    pub fn new(next_hops: u32) -> Result<Self, FibError> {
        Self::with(next_hops, (structures::DEFAULT4.new)()?, (structures::DEFAULT6.new)()?)
    }

    /// The same with lookup structures of the caller's choice, which are empty.
    pub fn with(
        next_hops: u32,
        v4: Box<dyn LookupWriter<u32>>,
        v6: Box<dyn LookupWriter<u128>>,
    ) -> Result<Self, FibError> {
        let next_hops = NextHopWriter::new(next_hops)?;
        Ok(Self { rib: Rib::default(), v4, v6, next_hops })
    }

    /// The workers' view. A change may replace the lookup structures in it: compare with [`Fib::is_same`], and publish.
    pub fn reader(&self) -> Fib {
        Fib { v4: self.v4.reader(), v6: self.v6.reader(), next_hops: Arc::clone(self.next_hops.reader()) }
    }

    /// Makes the changes so far visible, where a lookup structure collects them.
    pub fn commit(&mut self) -> Result<(), FibError> {
        self.v4.commit()?;
        Ok(self.v6.commit()?)
    }

    /// All routes.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// Adds a route, in place of the one to the same prefix with the same source and metric. The interface of a
    /// gateway that comes without is the one of the connected network it is in now.
    pub fn insert(&mut self, prefix: Prefix, mut route: Route) -> Result<(), FibError> {
        if let RouteTarget::Gateway { address, interface } = &mut route.target {
            check_gateway(*address)?;
            *interface = Some(interface.map_or_else(|| self.link_of(*address), Ok)?);
        }
        let inserted = self.rib.insert(prefix, route);
        let result = self.apply(prefix, inserted.change);
        if result.is_err() {
            match inserted.replaced {
                Some(before) => drop(self.rib.insert(prefix, before)),
                None => drop(self.rib.remove(prefix, route.source, route.metric)),
            }
        }
        result
    }

    /// Removes the route to `prefix` of this source and metric, and returns it.
    pub fn remove(&mut self, prefix: Prefix, source: RouteSource, metric: u32) -> Result<Route, FibError> {
        let removed = self.rib.remove(prefix, source, metric).ok_or(FibError::Missing { prefix })?;
        match self.apply(prefix, removed.change) {
            Ok(()) => Ok(removed.route),
            Err(error) => {
                self.rib.insert(prefix, removed.route);
                Err(error)
            }
        }
    }

    /// The link that `gateway` is on, by the connected network it is in.
    fn link_of(&self, gateway: IpAddr) -> Result<InterfaceId, FibError> {
        match self.rib.lookup(gateway).map(|(_, route)| route.target) {
            Some(RouteTarget::Connected { interface }) => Ok(interface),
            // A neighbor that is resolved already has a route of its own.
            Some(RouteTarget::Gateway { address, interface: Some(interface) }) if address == gateway => Ok(interface),
            _ => Err(FibError::GatewayNotConnected { gateway }),
        }
    }

    fn apply(&mut self, prefix: Prefix, change: Change) -> Result<(), FibError> {
        let before = match change {
            Change::Same => return Ok(()),
            Change::Gone => Some(self.lookup_remove(prefix)?),
            Change::Best(route) => {
                let id = self.next_hop(route.target)?;
                self.lookup_insert(prefix, id).inspect_err(|_| self.next_hops.release(id))?
            }
        };
        if let Some(before) = before {
            self.next_hops.release(before);
        }
        Ok(())
    }

    fn lookup_insert(&mut self, prefix: Prefix, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        match prefix {
            Prefix::V4(prefix) => self.v4.insert(prefix, id),
            Prefix::V6(prefix) => self.v6.insert(prefix, id),
        }
    }

    fn lookup_remove(&mut self, prefix: Prefix) -> Result<NextHopId, LookupError> {
        match prefix {
            Prefix::V4(prefix) => self.v4.remove(prefix),
            Prefix::V6(prefix) => self.v6.remove(prefix),
        }
    }

    /// One more use of the next hop that `target` means.
    fn next_hop(&mut self, target: RouteTarget) -> Result<NextHopId, FibError> {
        let via = match target {
            RouteTarget::Connected { interface } => Via { interface, gateway: None },
            RouteTarget::Gateway { address, interface: Some(interface) } => Via { interface, gateway: Some(address) },
            RouteTarget::Gateway { address, interface: None } => {
                return Err(FibError::GatewayNotConnected { gateway: address });
            }
            RouteTarget::Local => return Ok(NextHopId::LOCAL),
            RouteTarget::Blackhole => return Ok(NextHopId::BLACKHOLE),
            RouteTarget::Unreachable => return Ok(NextHopId::UNREACHABLE),
            RouteTarget::Prohibit => return Ok(NextHopId::PROHIBIT),
        };
        Ok(self.next_hops.acquire(via)?)
    }

    /// What a next hop stands for: where a packet that was punted with this id wants to go.
    pub fn via(&self, id: NextHopId) -> Option<Via> {
        self.next_hops.via(id)
    }

    /// The neighbor `address` on `interface` has this MAC address now, or none that is known. Takes effect at once
    /// on all routes through it; the host route to a connected destination is the caller's to insert.
    pub fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<Mac>) {
        self.next_hops.set_neighbor(interface, address, mac);
    }

    /// How many pieces of memory wait for [`reclaim`](Self::reclaim).
    pub fn waiting(&self) -> usize {
        self.v4.waiting() + self.v6.waiting() + self.next_hops.waiting()
    }

    /// Lets memory be used again that no worker can hold any more. To be called with
    /// [`Published::grace`](crate::Published::grace) now and then while something is [`waiting`](Self::waiting).
    pub fn reclaim(&mut self, grace: Grace) {
        self.v4.reclaim(grace);
        self.v6.reclaim(grace);
        self.next_hops.reclaim(grace);
    }

    /// Bytes of the lookup structures that are or were in use: IPv4, IPv6.
    pub fn memory(&self) -> (usize, usize) {
        (self.v4.memory(), self.v6.memory())
    }
}

fn check_gateway(gateway: IpAddr) -> Result<(), FibError> {
    let broadcast = gateway == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() || broadcast {
        return Err(FibError::GatewayAddress { gateway });
    }
    Ok(())
}

/// Why a change of a route was refused; everything is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FibError {
    /// The lookup structure refused.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// No further next hop.
    #[error(transparent)]
    NextHop(#[from] NextHopError),
    /// No interface was given, and none has the gateway's network.
    #[error(
        "gateway {gateway} is not on a connected network; name the interface, or give one an address in its network"
    )]
    GatewayNotConnected {
        /// The gateway given.
        gateway: IpAddr,
    },
    /// Not the address of a host.
    #[error("gateway {gateway} is not the address of a neighbor; expected a unicast address")]
    GatewayAddress {
        /// The gateway given.
        gateway: IpAddr,
    },
    /// Nothing to remove.
    #[error("there is no such route to {prefix}")]
    Missing {
        /// The prefix given.
        prefix: Prefix,
    },
}
