// SPDX-License-Identifier: MIT
//! Inputs and effects, and the router's tables as the follower sees them.

use crate::AuditReport;
use perigee_config::{Linux, Neighbor, Stack};
use perigee_fib::{FibError, Interfaces, MulticastOrigin, NextHopId, NextHopInfo, Rib};
use perigee_helper::{LinkChange, LinkPreparation, NeighborChange, TwinWanted};
use perigee_net::{
    Exception, HostAddress, Interface, InterfaceAddress, InterfaceId, MacAddr, MulticastRoute, Namespace, Prefix,
    Proxy, Route, RouteKey,
};
use perigee_netlink::message::Message;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Where reports come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedId {
    /// The kernel, by netlink: everything.
    Kernel,
    /// FRR's zebra, by FPM: routes alone.
    Zebra,
}

/// What a feed reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A dump begins.
    DumpBegins,
    /// The dump was passed on.
    DumpEnds {
        /// Whether nothing is missing.
        complete: bool,
    },
    /// Notifications were lost; a dump follows.
    Lost,
    /// No more reports will come; the text says why.
    Broken(String),
    /// One message.
    Message {
        /// Whether it is part of a dump, rather than a notification.
        dumped: bool,
        message: Message,
    },
}

/// What distinguishes a namespace from a later one of the same name: device and inode of its file.
pub type Identity = (u64, u64);

/// What the caller passes to the follower.
#[derive(Debug)]
pub enum Input {
    /// A feed has reported something.
    Reported(FeedId, Report),
    /// The link of a port is up or down.
    PortLink {
        /// The port's place.
        port: usize,
        /// Whether it has a link.
        up: bool,
    },
    /// The slow path has resolved a neighbor, or (without a MAC address) has lost it.
    Neighbor {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC address.
        mac: Option<MacAddr>,
    },
    /// The router has changed a link itself, by the helper.
    LinkChanged(LinkChange),
    /// The twins' namespace as it is now; `None` if there is none of that name.
    Namespace(Option<Identity>),
    /// The helper has made a port's twin again.
    TwinMade {
        /// The port's place.
        port: usize,
        /// Linux's number of the twin.
        link: u32,
    },
    /// The helper could not make it.
    TwinFailed {
        /// The port's place.
        port: usize,
        /// The addresses that the twin should have had.
        addresses: Vec<InterfaceAddress>,
    },
    /// There is a new feed from the kernel, which is about to dump everything.
    Reopened,
    /// The kernel's feed could not be opened again.
    ReopenFailed,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask this feed for a dump.
    Dump(FeedId),
    /// Ask the helper, without waiting.
    Helper(HelperRequest),
    /// The table has other interfaces or addresses: the slow path must follow them.
    InterfacesChanged,
    /// An operator has set this neighbor in Linux, or the configuration's applies again.
    SetNeighbor {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// The operator's setting of this neighbor is gone.
    UnsetNeighbor { interface: InterfaceId, address: IpAddr },
    /// An operator has deleted this neighbor from Linux, where the router had put it: it is to be forgotten.
    FlushNeighbor { interface: InterfaceId, address: IpAddr },
    /// Linux has resolved this neighbor, or an operator has set it for as long as it is confirmed.
    LearnNeighbor {
        interface: InterfaceId,
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
        /// An operator has said so, or a program: it replaces what is known.
        by_hand: bool,
        /// It counts as confirmed.
        confirmed: bool,
    },
    /// For which other stations this interface answers from now on.
    SetProxy { interface: InterfaceId, proxy: Proxy },
    /// Report every neighbor that the slow path knows, by [`Input::Neighbor`]: Linux has lost them.
    ReportNeighbors,
    /// Linux is not followed any more: a requested resync will not come.
    ResyncsFailed,
    /// The audit is over; `None`: it could not go on, as Linux is not followed any more.
    AuditEnded(Option<AuditReport>),
}

/// A request to the helper.
#[derive(Clone, Debug, PartialEq)]
pub enum HelperRequest {
    /// Set these neighbors in Linux.
    Neighbors(Vec<NeighborChange>),
    /// Change a twin.
    Link(LinkChange),
    /// Make the twin of the port at this index again.
    Twin(usize, TwinWanted),
    /// Prepare an interface under a port again, as it was deleted and made again.
    Prepare(LinkPreparation),
    /// Have Linux ask these neighbors, by their links' numbers, whether they are still there.
    Confirm(Vec<(u32, IpAddr)>),
    /// Open the sockets by which Linux is followed again, with room for this many bytes of notifications.
    Sockets(usize),
}

/// The follower's settings at the start; [`Follower::configure`](crate::Follower::configure) changes them.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration's `[linux]`.
    pub linux: Linux,
    /// The twins' namespace; the router's own if `None`.
    pub namespace: Option<Namespace>,
    /// Its identity at the start.
    pub identity: Option<Identity>,
    /// The ports in the configuration's order.
    pub ports: Vec<Port>,
    /// How many interfaces the configuration has, which come first.
    pub configured: usize,
    /// The configuration's addresses of each of them.
    pub addresses: Vec<Vec<InterfaceAddress>>,
    /// The configuration's neighbors.
    pub neighbors: Vec<Neighbor>,
    /// Whose stack answers for the router's addresses. If it is Linux's, ports have no twins: their own interfaces are
    /// followed instead, and nothing of them is changed.
    pub stack: Stack,
    /// Whether there is a helper to ask.
    pub helper: bool,
    /// Which feeds there are, the kernel's first.
    pub feeds: Vec<FeedId>,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name, which is that of its twin.
    pub name: String,
    pub number: u16,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Bytes of the largest IP packet that it was opened for.
    pub mtu: u16,
    /// The configuration's addresses of its interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Linux's number of its twin, if it has one; of its own interface, if the stack is Linux's.
    pub twin: Option<u32>,
    /// The name of its own interface, if the stack is Linux's.
    pub own: Option<String>,
    /// Whether it has a link.
    pub up: bool,
}

/// The routes and interfaces that follow Linux. The slow path's table of interfaces follows
/// [`Effect::InterfacesChanged`], and what workers see follows when the caller commits.
pub trait Table {
    /// The interfaces.
    fn interfaces(&self) -> &Interfaces;
    /// Replaces the interfaces, and the addresses of the router that are on none of them. An interface keeps its
    /// number; there may be new ones at the end. The table reports what does not fit.
    fn set_interfaces(&mut self, list: Vec<Interface>, host_addresses: Vec<HostAddress>);
    /// Linux alone says which networks are connected by these interfaces; the others' follow from their addresses.
    fn set_linux_connects(&mut self, interfaces: BTreeSet<InterfaceId>);
    /// All routes, for reading.
    fn rib(&self) -> Rib<'_>;
    /// Adds a route of source Linux, replacing the one with its key; returns whether that changes anything.
    ///
    /// # Errors
    /// It does not fit.
    fn insert(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError>;
    /// Adds a route of source Linux that stands in for others, for which there is no room: there is some left for it.
    ///
    /// # Errors
    /// There is none.
    fn stand_in(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError>;
    /// Whether there is room for a good part more routes than there are.
    fn has_room(&self) -> bool;
    /// Removes a route of source Linux.
    ///
    /// # Errors
    /// There is none, or what is left does not fit.
    fn withdraw(&mut self, prefix: Prefix, key: RouteKey) -> Result<(), FibError>;
    /// Replaces the packets that need a closer look, as Linux treats them otherwise than by the plain route.
    /// `refused`: those that are Linux's are answered with "host unreachable".
    fn set_exceptions(&mut self, list: Vec<Exception>, refused: bool);
    /// Replaces the multicast routes of Linux.
    fn set_multicast(&mut self, routes: Vec<(MulticastRoute, MulticastOrigin)>);
}

/// What the audit compares and repairs besides the routes of Linux.
pub trait Audited: Table {
    /// Whether there are changes that workers do not see yet.
    fn uncommitted(&self) -> bool;
    /// The next hop of an address by the routes.
    fn expected(&self, address: IpAddr) -> NextHopId;
    /// The next hop of an address as workers find it.
    fn found(&self, address: IpAddr) -> NextHopId;
    /// Writes a prefix, and those inside it, into the lookup structure again.
    ///
    /// # Errors
    /// It has no room.
    fn repair(&mut self, prefix: Prefix) -> Result<usize, FibError>;
    /// All next hops in use.
    fn next_hops(&self) -> Vec<NextHopInfo>;
    /// The neighbors that packets find on connected networks.
    fn on_link(&self) -> Vec<KnownNeighbor>;
    /// The MAC address with which packets to `address` find it on an interface's link, looked up as workers do.
    fn found_on_link(&self, interface: InterfaceId, address: IpAddr) -> Option<MacAddr>;
    /// Sets the neighbor's MAC address, or (`None`) that it is not known.
    fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>);
}

/// A neighbor whose MAC address the slow path knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownNeighbor {
    pub interface: InterfaceId,
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: MacAddr,
}
