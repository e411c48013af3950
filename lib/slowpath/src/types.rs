// SPDX-License-Identifier: MIT
//! Inputs and outputs.

use std::net::{IpAddr, Ipv6Addr};

use perigee_net::{HostAddress, Interface, InterfaceId, MacAddr, MulticastOutput, Proxy};

/// Nanoseconds since any moment that the caller chooses; only differences count. Must not go backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The time this many seconds after time 0.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// The time this many milliseconds later.
    pub const fn after_millis(self, millis: u64) -> Time {
        Time(self.0.saturating_add(millis.saturating_mul(1_000_000)))
    }
}

/// Where a packet to a destination goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteDecision {
    /// To this router, though none of its interfaces has the address (say, an address of Linux's loopback).
    Local,
    /// The destination is a neighbor on this interface.
    Connected(InterfaceId),
    /// Over a gateway on this interface.
    Gateway(InterfaceId, IpAddr),
    /// Out of this interface to this station, whose IP address is not known: the answer of workers' tables.
    Station(InterfaceId, MacAddr),
    /// Out of this interface, once the next hop's MAC address is known; its IP address is not: the answer of workers'
    /// tables.
    Unresolved(InterfaceId),
    /// No route: answered by "network unreachable" (RFC 1812 5.2.7.1).
    NoRoute,
    /// Configured: answered by "host unreachable".
    Unreachable,
    /// Configured: answered by "administratively prohibited".
    Prohibit,
    /// Configured: not answered.
    Blackhole,
    /// To Linux, which alone can forward by the route.
    ToLinux,
    /// Linux alone could forward by the route, and is not let: answered by "host unreachable".
    Refused,
}

/// What Linux asks for besides the plain route to a packet's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing.
    Plain,
    /// To Linux, which decides about the packet.
    ToLinux,
    /// Linux would decide about it, and is not let: answered by "host unreachable".
    Refused,
    /// The route has this MTU, bytes.
    Mtu(u16),
    /// An assistant cannot tell: the owner of the tables can.
    AskOwner,
}

/// A packet to a group that reaches beyond its link, as far as its route depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPacket {
    pub source: IpAddr,
    pub group: IpAddr,
    /// The interface it came in on.
    pub interface: InterfaceId,
    /// Its length from the IP header on.
    pub bytes: usize,
}

/// Where a packet to a group goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastDecision {
    /// There is no route for it.
    NoRoute,
    /// Linux forwards it, or has to know that it came in on a wrong interface.
    Linux,
    /// It did not come in on the route's interface.
    WrongInterface,
    /// Its group does not pass the interface that it came in on (RFC 2365 5).
    Boundary,
    /// By these interfaces, none of which it came in on.
    Forward(Vec<MulticastOutput>),
}

/// The routing table, as far as the slow path needs it.
pub trait Routes {
    /// The best route. Never asked for groups, broadcasts or link-local IPv6 addresses. Of several equal paths,
    /// `flow` picks one: it is the hash by which the fast path does so, too.
    fn route(&self, destination: IpAddr, flow: u32) -> RouteDecision;

    /// What Linux asks for besides the plain route. `packet` begins with the IP header, and came in on `input`.
    fn treatment(&self, input: InterfaceId, packet: &[u8]) -> Treatment {
        let _ = (input, packet);
        Treatment::Plain
    }

    /// Whether a route leads back to a source: by this interface, if one is given, which one of several equal paths
    /// does. A default route is one; routes that are not forwarded by are none (RFC 3704 2). Never asked for
    /// groups, unspecified and link-local addresses.
    fn leads_back(&self, source: IpAddr, by: Option<InterfaceId>) -> bool;

    /// Where a packet to a group goes; it is counted for its route, unless it is for the owner of the tables and an
    /// assistant asks: for Linux, or without a route. Never asked for groups of the link alone, nor for unspecified
    /// and link-local sources.
    fn multicast(&self, now: Time, packet: &GroupPacket) -> MulticastDecision;

    /// Whether a packet to a group that Linux sends may leave by an interface: no boundary and no TTL threshold keeps
    /// it back.
    fn lets_linux_send(&self, interface: InterfaceId, group: IpAddr, ttl: u8) -> bool;
}

/// What the caller passes to the slow path.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A frame that the fast path punted, as it was received (unchanged, its VLAN tag may be there or not). Why it was
    /// punted does not matter here: tables may have changed since, so the slow path judges every packet itself.
    Punted {
        /// The interface it came in on.
        interface: InterfaceId,
        /// From the destination MAC on, without checksum.
        frame: &'a [u8],
    },
    /// A copy of a frame that the fast path has sent on by the interface it came in on, as it was received: its sender
    /// may have to be redirected. Nothing else comes of it.
    SentBack {
        /// The interface.
        interface: InterfaceId,
        /// From the destination MAC on, without checksum.
        frame: &'a [u8],
    },
    /// A packet of the router's own that an assistant has made and cannot send: see [`Output::Own`].
    Own {
        /// The interface by which workers' tables let it leave.
        interface: InterfaceId,
        /// From the IP header on.
        packet: &'a [u8],
    },
    /// A frame that Linux sent through the twin of the interface's port; goes out as it is.
    FromTwin {
        /// The interface it goes out of.
        interface: InterfaceId,
        /// From the destination MAC on, without checksum.
        frame: &'a [u8],
    },
    /// Adds an interface or changes it. What did not change keeps its state.
    SetInterface {
        /// Which one.
        id: InterfaceId,
        /// All of its configuration.
        interface: Interface,
    },
    /// Replaces the addresses of this router that are on none of its interfaces (of Linux's loopback, say), those that
    /// it speaks from first.
    SetHostAddresses {
        /// All of them.
        addresses: Vec<HostAddress>,
    },
    /// Removes an interface, its neighbors and its waiting packets.
    RemoveInterface {
        /// Which one.
        id: InterfaceId,
    },
    /// For which other stations an interface answers, instead of those before.
    SetProxy { interface: InterfaceId, proxy: Proxy },
    /// Sets a static neighbor: never asked for, never aged, never learned over. Ignored on an unknown interface.
    SetNeighbor {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC; must be unicast, else ignored.
        mac: MacAddr,
    },
    /// Removes a static neighbor.
    UnsetNeighbor { interface: InterfaceId, address: IpAddr },
    /// Another program on this machine has learned a neighbor's MAC. Used where nothing is known of that neighbor yet,
    /// and confirmed soon; what this router has heard itself takes precedence.
    LearnNeighbor {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC; must be unicast, else ignored.
        mac: MacAddr,
        /// An operator says so: it replaces what is known of any but a configured neighbor.
        replace: bool,
        /// It counts as confirmed.
        confirmed: bool,
    },
    /// A next hop needs this gateway: resolve its MAC now, keep it fresh, and keep trying if that fails. Ignored on an
    /// unknown interface. Repeating it has no effect.
    Resolve {
        /// The gateway's interface.
        interface: InterfaceId,
        gateway: IpAddr,
    },
    /// The last next hop that needed this gateway is gone: it now ages like any neighbor.
    Forget {
        /// The gateway's interface.
        interface: InterfaceId,
        gateway: IpAddr,
    },
    /// An operator wants neighbors forgotten: of this interface and this address, or all of them where none is given.
    /// Static ones stay; gateways that next hops need are asked for again at once, the others when a packet needs
    /// them.
    FlushNeighbors { interface: Option<InterfaceId>, address: Option<IpAddr> },
    /// The fast path has sent packets to this neighbor since the last time. A hint: repeated every few seconds for
    /// those in use, it keeps them from expiring.
    NeighborUsed { interface: InterfaceId, address: IpAddr },
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this frame; the interface's VLAN tag, if it has one, is still to be added.
    Transmit {
        /// Out of this interface.
        interface: InterfaceId,
        /// From the destination MAC on; may be shorter than the medium's minimum.
        frame: Vec<u8>,
    },
    /// Give this frame to Linux through the twin; the interface's VLAN tag is still to be added.
    ToTwin {
        /// The interface it came in on.
        interface: InterfaceId,
        /// From the destination MAC on.
        frame: Vec<u8>,
    },
    /// A packet of the router's own whose next hop an assistant does not know: for the owner of the tables, as
    /// [`Input::Own`].
    Own {
        /// The interface by which workers' tables let it leave.
        interface: InterfaceId,
        /// From the IP header on.
        packet: Vec<u8>,
    },
    /// Something that the tables must follow.
    Event(Event),
}

/// What happened. The events of one neighbor are `Resolved (Changed)* Lost`, repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbor has a MAC now.
    NeighborResolved {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC, always unicast.
        mac: MacAddr,
    },
    /// A neighbor has another MAC.
    NeighborChanged {
        interface: InterfaceId,
        address: IpAddr,
        /// Its new MAC, always unicast.
        mac: MacAddr,
    },
    /// A neighbor's MAC must not be used any more.
    NeighborLost { interface: InterfaceId, address: IpAddr },
    /// Duplicate address detection found no other station: the address is in use from now on.
    AddressValid { interface: InterfaceId, address: Ipv6Addr },
    /// Duplicate address detection found another station: the address is not used (RFC 4862 5.4.5).
    AddressDuplicate {
        interface: InterfaceId,
        address: Ipv6Addr,
        /// The other station.
        mac: MacAddr,
    },
    /// Another station uses an address that is in use here.
    AddressConflict {
        interface: InterfaceId,
        address: IpAddr,
        /// The other station.
        mac: MacAddr,
    },
}

/// Limits and intervals.
#[derive(Clone, Debug)]
pub struct Config {
    /// Time between two requests to one neighbor, ms; at least 1000 (RFC 1122 2.3.2.1, RFC 4861 10 RETRANS_TIMER).
    pub retransmit_ms: u64,
    /// Requests before a neighbor has failed (RFC 4861 10 MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
    pub solicitations: u8,
    /// How long a confirmed neighbor counts as reachable, ms (RFC 4861 10 REACHABLE_TIME).
    pub reachable_ms: u64,
    /// From a stale neighbor's use to the first probe, ms (RFC 4861 10 DELAY_FIRST_PROBE_TIME).
    pub delay_ms: u64,
    /// How long an unused stale neighbor is kept, ms.
    pub stale_ms: u64,
    /// How long a failed neighbor is not asked again, ms; at least `retransmit_ms`.
    pub failed_ms: u64,
    /// How often a neighbor is refreshed without a sign of use: the fast path's packets are not seen here, and
    /// [`Input::NeighborUsed`] may never come.
    pub unused_refreshes: u8,
    /// Neighbors of one interface and family whose MAC is known; gateways and static ones are not counted.
    pub max_known: usize,
    /// Those that have not answered, likewise (RFC 6583).
    pub max_unresolved: usize,
    /// Neighbors that are asked for per second, likewise: those that nothing is known of. Each is asked up to
    /// `solicitations` times.
    pub requests_per_second: u32,
    /// Packets waiting for one neighbor.
    pub queue_per_neighbor: usize,
    /// Packets waiting for all neighbors.
    pub queue_total: usize,
    /// Their bytes.
    pub queue_bytes: usize,
    /// Frames in the queue of outputs. Events are never dropped for it.
    pub max_outputs: usize,
    /// ICMP errors per second about packets of one interface, for each of IPv4 and IPv6; 0: none at all.
    pub icmp_errors_per_second: u32,
    /// ICMP errors per second to one source prefix, of 24 bits for IPv4 and 64 for IPv6; 0: none at all.
    pub icmp_errors_per_source: u32,
    /// ICMP errors in one burst.
    pub icmp_error_burst: u32,
    /// Redirects per second on one interface, for each of IPv4 and IPv6; 0: none at all.
    pub redirects_per_second: u32,
    /// Redirects in one burst.
    pub redirect_burst: u32,
    /// Solicitations before an own address counts as unique (RFC 4862 5.1 DupAddrDetectTransmits); 0: no detection.
    pub dad_transmits: u8,
    /// How long a datagram waits for its fragments, ms: RFC 8200 4.5 says 60 s, RFC 1122 3.3.2 recommends 60 to 120 s.
    pub reassembly_ms: u64,
    /// Datagrams under way, refused ones that are remembered included.
    pub reassembly_datagrams: usize,
    /// Their memory, bytes, bookkeeping included.
    pub reassembly_bytes: usize,
    /// Datagrams under way from one source, which is an IPv4 prefix of 24 bits or an IPv6 prefix of 64.
    pub reassembly_source_datagrams: usize,
    /// Their memory, bytes.
    pub reassembly_source_bytes: usize,
    /// Fragments of one datagram. 65,535 bytes are 119 fragments of 576, the smallest that IPv4 hosts are used to.
    pub reassembly_fragments: usize,
    /// What nobody else knows, random for each start: identifications are computed from it (RFC 7739).
    pub secret: u128,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            retransmit_ms: 1000,
            solicitations: 3,
            reachable_ms: 30_000,
            delay_ms: 5_000,
            stale_ms: 60_000,
            failed_ms: 3_000,
            unused_refreshes: 10,
            max_known: 65_536,
            max_unresolved: 1024,
            requests_per_second: 1000,
            queue_per_neighbor: 8,
            queue_total: 1024,
            queue_bytes: 4 << 20,
            max_outputs: 8192,
            icmp_errors_per_second: 1000,
            icmp_errors_per_source: 1000,
            icmp_error_burst: 50,
            redirects_per_second: 100,
            redirect_burst: 50,
            dad_transmits: 1,
            reassembly_ms: 60_000,
            reassembly_datagrams: 1024,
            reassembly_bytes: 4 << 20,
            reassembly_source_datagrams: 256,
            reassembly_source_bytes: 1 << 20,
            reassembly_fragments: 128,
            secret: 0,
        }
    }
}
