// SPDX-License-Identifier: MIT
//! What goes in and what comes out, and the router's tables as the follower sees them.

use crate::AuditReport;
use perigee_config::{Linux, Neighbor};
use perigee_fib::{FibError, Interfaces, NextHopId, NextHopInfo, Rib};
use perigee_helper::{LinkChange, NeighborChange, TwinWanted};
use perigee_net::{Interface, InterfaceAddress, InterfaceId, MacAddr, Namespace, Prefix, Route, RouteKey};
use perigee_netlink::message::Message;
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
    /// All of it was passed on.
    DumpEnds {
        /// Whether nothing is missing.
        complete: bool,
    },
    /// Notifications were lost; a dump follows.
    Lost,
    /// Nothing more comes: why.
    Broken(String),
    /// One message.
    Message {
        /// Whether it is part of a dump, rather than a notification.
        dumped: bool,
        /// The message.
        message: Message,
    },
}

/// What tells a namespace from another that takes its name: device and inode of its file.
pub type Identity = (u64, u64);

/// What the caller tells the follower.
#[derive(Debug)]
pub enum Input {
    /// A feed has reported something.
    Reported(FeedId, Report),
    /// The link of a port, by its place, is up or down.
    PortLink {
        /// The port's place.
        port: usize,
        /// Whether it has a link.
        up: bool,
    },
    /// The slow path has resolved a neighbor, or (without a MAC address) has lost it.
    Neighbor {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
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
    /// The helper could not.
    TwinFailed {
        /// The port's place.
        port: usize,
        /// The addresses that the twin was to have.
        addresses: Vec<InterfaceAddress>,
    },
    /// There is a new feed from the kernel, which is about to dump everything.
    Reopened,
    /// There is none.
    ReopenFailed,
}

/// What the caller shall do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask this feed for a dump.
    Dump(FeedId),
    /// Ask the helper, without waiting.
    Helper(HelperRequest),
    /// The table has other interfaces: the slow path must follow them.
    InterfacesChanged,
    /// An operator has set this neighbor in Linux, or the configuration's applies again.
    SetNeighbor {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// No operator sets it any more.
    UnsetNeighbor {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
    },
    /// Linux has found it out by itself.
    LearnNeighbor {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// Report every neighbor that the slow path knows, by [`Input::Neighbor`]: Linux has lost them.
    ReportNeighbors,
    /// Linux is not followed any more: a resync that somebody waits for does not come.
    ResyncsFailed,
    /// The audit is over; `None`: it could not go on, as Linux is not followed any more.
    AuditEnded(Option<AuditReport>),
}

/// What the helper is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum HelperRequest {
    /// Neighbors for Linux.
    Neighbors(Vec<NeighborChange>),
    /// A change of a twin.
    Link(LinkChange),
    /// The twin of the port at this place, made again.
    Twin(usize, TwinWanted),
    /// The sockets by which Linux is followed, with this many bytes of room for notifications.
    Sockets(usize),
}

/// What the follower is told at the start; [`Follower::configure`](crate::Follower::configure) changes it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration's `[linux]`.
    pub linux: Linux,
    /// Where the twins are; the router's own namespace if `None`.
    pub namespace: Option<Namespace>,
    /// Its identity at the start.
    pub identity: Option<Identity>,
    /// The ports in the configuration's order.
    pub ports: Vec<Port>,
    /// How many interfaces the configuration has: they come first.
    pub configured: usize,
    /// The configuration's neighbors.
    pub neighbors: Vec<Neighbor>,
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
    /// Its number.
    pub number: u16,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Bytes of the largest IP packet that it was opened for.
    pub mtu: u16,
    /// The configuration's addresses of its interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Linux's number of its twin, if it has one.
    pub twin: Option<u32>,
    /// Whether it has a link.
    pub up: bool,
}

/// The routes and interfaces that follow Linux. The slow path's table of interfaces follows
/// [`Effect::InterfacesChanged`], and what workers see follows when the caller commits.
pub trait Table {
    /// The interfaces.
    fn interfaces(&self) -> &Interfaces;
    /// Other interfaces take the place of those there are. An interface keeps its number; there may be more of them at the end.
    /// What does not fit is reported by the table.
    fn set_interfaces(&mut self, list: Vec<Interface>);
    /// All routes, to be looked at.
    fn rib(&self) -> Rib<'_>;
    /// Adds a route of source Linux, in place of the one with its key; whether that changes anything.
    ///
    /// # Errors
    /// It does not fit.
    fn insert(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError>;
    /// Removes a route of source Linux.
    ///
    /// # Errors
    /// There is none, or what is left does not fit.
    fn withdraw(&mut self, prefix: Prefix, key: RouteKey) -> Result<(), FibError>;
}

/// What the audit compares and repairs beyond the routes of Linux.
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
    /// The neighbor's MAC address is this one, or none that is known.
    fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>);
}

/// A neighbor whose MAC address the slow path knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownNeighbor {
    /// Its interface.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: MacAddr,
}
