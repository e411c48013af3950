// SPDX-License-Identifier: MIT
//! The tables a worker reads: fixed between two batch boundaries, replaced as a whole, patched inside with atomic
//! stores.

use crate::exceptions::Exceptions;
use crate::hits::Hits;
use crate::policer::Policer;
use crate::rules::{Filter, Rule};
use crate::taps::Taps;
use perigee_fib::{Fib, Interfaces, Lookup, MulticastTable, NeighborTable, NextHop, NextHopId, NextHops};
use perigee_net::{InterfaceId, MacAddr, ReversePath};
use std::net::IpAddr;
use std::sync::Arc;

/// Everything a module may look up; a clone shares what is large.
#[derive(Clone)]
pub struct Tables {
    /// Where each IPv4 address goes.
    pub v4: Arc<dyn Lookup<u32>>,
    /// Where each IPv6 address goes.
    pub v6: Arc<dyn Lookup<u128>>,
    /// What a next-hop id means.
    pub next_hops: Arc<NextHops>,
    /// The neighbors on connected networks, for packets whose next hop is a link.
    pub neighbors: Arc<NeighborTable>,
    /// Ports and VLANs, with MTU, MAC and IP addresses.
    pub interfaces: Arc<Interfaces>,
    /// The configured filters, if there are any.
    pub(crate) filter: Option<Arc<dyn Filter>>,
    /// Which of their rules decided, by worker.
    pub(crate) hits: Arc<Hits>,
    /// Matches packets for the slow path that devices cannot steer there themselves; packets that it "denies" are
    /// punted.
    pub steer: Option<Arc<dyn Filter>>,
    /// Packets that the slow path looks at because of Linux's routes or rules; `None` while there are none.
    pub exceptions: Option<Arc<Exceptions>>,
    /// The check of sources, by interface; `None` while no interface asks for it.
    pub reverse_paths: Option<Arc<[ReversePath]>>,
    /// Routes of groups; `None` while there are none.
    pub multicast: Option<Arc<MulticastTable>>,
    /// What ports may give the slow path; `None` where there are no limits.
    pub policer: Option<Arc<Policer>>,
    /// Captures and traces; `None` while none is on.
    pub(crate) taps: Option<Arc<Taps>>,
    /// There are filters or taps: packets that leave are looked at.
    pub(crate) watched: bool,
    /// There are filters, steers or exceptions: the module `filter` has something to do.
    pub(crate) sorted: bool,
    ports: Vec<PortView>,
    /// The view of a port that does not exist: no frame is its own.
    pub(crate) nobody: PortView,
}

/// The lists that packets are compared with; of each, the first rule that is about a packet decides.
#[derive(Clone, Debug, Default)]
pub struct RuleLists {
    /// The configured filters.
    pub filters: Vec<Rule>,
    /// What the slow path gets, whatever the filters say of those that they let pass: all of these rules "deny".
    pub steered: Vec<Rule>,
}

/// What classify needs of a port.
#[derive(Clone)]
pub struct PortView {
    /// The port's own MAC address.
    pub mac: [u8; 6],
    /// Interface of untagged frames; only means something where `has_untagged`.
    pub untagged: u16,
    /// Whether there is an interface for untagged frames.
    pub has_untagged: bool,
    number: u16,
    interfaces: Arc<Interfaces>,
    own: u64,
}

/// The low 48 bits of a 64-bit read of a frame's first bytes hold the destination, in the machine's order.
const DESTINATION: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

impl PortView {
    /// Is the frame's destination this port's MAC address?
    #[inline(always)]
    pub fn is_own(&self, head: &[u8; 16]) -> bool {
        let (first, _) = head.as_chunks::<8>();
        u64::from_ne_bytes(first[0]) & DESTINATION == self.own
    }

    /// Is it the MAC address of a virtual station on an interface of this port?
    #[cold]
    pub fn has_station(&self, interface: u16, mac: [u8; 6]) -> bool {
        self.interfaces.has_station(InterfaceId(interface), MacAddr(mac))
    }

    /// The interface of a VLAN on this port.
    pub fn vlan(&self, vid: u16) -> Option<u16> {
        self.interfaces.ingress(self.number, vid).map(|id| id.0)
    }
}

impl Tables {
    /// The tables of a router whose ports have these MAC addresses, by port number.
    pub fn new(fib: Fib, interfaces: Arc<Interfaces>, filter: Option<Arc<dyn Filter>>, macs: &[MacAddr]) -> Tables {
        let Fib { v4, v6, next_hops, neighbors } = fib;
        let view = |(number, mac): (u16, &MacAddr)| {
            let untagged = interfaces.ingress(number, 0);
            let [a, b, c, d, e, f] = mac.octets();
            PortView {
                mac: mac.octets(),
                untagged: untagged.map_or(0, |id| id.0),
                has_untagged: untagged.is_some(),
                number,
                interfaces: interfaces.clone(),
                own: u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]),
            }
        };
        let nobody = PortView { has_untagged: false, ..view((u16::MAX, &MacAddr::ZERO)) };
        let ports = (0..).zip(macs).map(view).collect();
        let reverse_paths: Arc<[_]> = interfaces.iter().map(|(_, interface)| interface.policy.urpf).collect();
        let asked_for = reverse_paths.iter().any(|mode| *mode != ReversePath::Off);
        let reverse_paths = asked_for.then_some(reverse_paths);
        let exceptions = None;
        let (steer, multicast, policer, taps) = (None, None, None, None);
        Tables {
            v4,
            v6,
            next_hops,
            neighbors,
            interfaces,
            filter,
            hits: Arc::default(),
            steer,
            exceptions,
            reverse_paths,
            multicast,
            policer,
            taps,
            watched: false,
            sorted: false,
            ports,
            nobody,
        }
        .complete()
    }

    fn complete(self) -> Tables {
        let (watched, steered) = (self.filter.is_some() || self.taps.is_some(), self.steer.is_some());
        let sorted = self.filter.is_some() || steered || self.exceptions.is_some();
        Tables { watched, sorted, ..self }
    }

    /// These tables, with other filters.
    pub fn with_filter(self, filter: Option<Arc<dyn Filter>>) -> Tables {
        Tables { filter, ..self }.complete()
    }

    /// These tables, with what their filters' rules decide counted there.
    pub fn with_hits(self, hits: Arc<Hits>) -> Tables {
        Tables { hits, ..self }
    }

    /// These tables, with packets that `steer` matches going to the slow path.
    pub fn with_steer(self, steer: Option<Arc<dyn Filter>>) -> Tables {
        Tables { steer, ..self }.complete()
    }

    /// These tables, with exceptions to the plain routes.
    pub fn with_exceptions(self, exceptions: Option<Arc<Exceptions>>) -> Tables {
        Tables { exceptions, ..self }.complete()
    }

    /// These tables, with routes of groups.
    pub fn with_multicast(self, multicast: Option<Arc<MulticastTable>>) -> Tables {
        Tables { multicast, ..self }
    }

    /// These tables, with limits before the slow path.
    pub fn with_policer(self, policer: Option<Arc<Policer>>) -> Tables {
        Tables { policer, ..self }
    }

    /// These tables, with taps.
    pub fn with_taps(self, taps: Option<Arc<Taps>>) -> Tables {
        Tables { taps, ..self }.complete()
    }

    /// The lists that packets are compared with, for who compares them otherwise; `None` if one of them is not known
    /// any more.
    pub fn rule_lists(&self) -> Option<RuleLists> {
        let exceptions = self.exceptions.as_deref().map(|exceptions| exceptions as &dyn Filter);
        let list = |filter: Option<&dyn Filter>| filter.map_or(Some(Vec::new()), |f| f.rules().map(<[_]>::to_vec));
        let mut steered = list(self.steer.as_deref())?;
        steered.extend(list(exceptions)?);
        Some(RuleLists { filters: list(self.filter.as_deref())?, steered })
    }

    /// A number that is another one where hits of filters count from zero again.
    pub fn hits_identity(&self) -> usize {
        Arc::as_ptr(&self.hits).addr()
    }

    /// Whether a capture or a trace is on.
    #[inline(always)]
    pub fn tapped(&self) -> bool {
        self.taps.is_some()
    }

    /// The ports, by number.
    #[inline(always)]
    pub fn ports(&self) -> &[PortView] {
        &self.ports
    }

    /// The forwarding table among them.
    pub fn fib(&self) -> Fib {
        let (v4, v6) = (self.v4.clone(), self.v6.clone());
        Fib { v4, v6, next_hops: self.next_hops.clone(), neighbors: self.neighbors.clone() }
    }

    /// Looks up a single address, where speed does not matter.
    pub fn find(&self, address: IpAddr) -> NextHopId {
        match address {
            IpAddr::V4(v4) => self.v4.lookup(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.lookup(v6.to_bits()),
        }
    }

    /// What a next-hop id means now.
    #[inline(always)]
    pub fn next_hop(&self, id: u32) -> NextHop {
        self.next_hops.get(NextHopId(id))
    }
}
