// SPDX-License-Identifier: MIT
//! What Linux says of its network, as far as a router listens.

use std::net::IpAddr;

use perigee_net::{InterfaceAddress, MacAddr, Prefix};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// An interface is there, or has changed.
    Link(Link),
    /// The interface of this index is gone.
    LinkGone(u32),
    /// An interface has an address.
    Address(Address),
    /// It has it no more.
    AddressGone(Address),
    /// A neighbor is there, or has changed.
    Neighbor(Neighbor),
    /// It is gone.
    NeighborGone(Neighbor),
    /// A next-hop object is there, or has changed.
    NextHop(NextHop),
    /// The next-hop object of this id is gone.
    NextHopGone(u32),
    /// A route is there, or has changed.
    Route(Route),
    /// It is gone.
    RouteGone(Route),
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Administratively up (`ip link set up`).
    pub up: bool,
    /// Whether there is a link (IFF_LOWER_UP).
    pub carrier: bool,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Its MAC address, where it has one.
    pub mac: Option<MacAddr>,
    /// The VLAN that it is, and the index of the interface that it is on.
    pub vlan: Option<(u32, u16)>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's index.
    pub link: u32,
    /// The address; with the length of a host if it says nothing of its network (`peer`, `noprefixroute`).
    pub address: InterfaceAddress,
}

/// A neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The interface's index.
    pub link: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, where it is known.
    pub mac: Option<MacAddr>,
    /// Set by hand: never asked for (NUD_PERMANENT, NUD_NOARP).
    pub permanent: bool,
    /// Who made the entry, in numbers of routing protocols; 0 for the kernel itself.
    pub protocol: u8,
}

/// A next-hop object (`ip nexthop`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Its id.
    pub id: u32,
    /// What it is.
    pub to: NextHopTo,
}

/// What a next-hop object stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopTo {
    /// A neighbor, or a link.
    Hop(Hop),
    /// Other objects: ids and weights.
    Group(Box<[(u32, u16)]>),
    /// Nowhere.
    Blackhole,
    /// What a router of packets does not know (a bridge's entry, an encapsulation).
    Other,
}

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface's index; 0 where none was told.
    pub link: u32,
    /// The router; `None` for destinations on the link itself.
    pub gateway: Option<IpAddr>,
    /// Its part of the flows: 1 to 256.
    pub weight: u16,
}

/// What becomes of a route's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// They are sent on.
    Unicast,
    /// They are for this machine.
    Local,
    /// Dropped silently.
    Blackhole,
    /// Answered with ICMP host unreachable.
    Unreachable,
    /// Answered with ICMP administratively prohibited.
    Prohibit,
    /// Broadcast, multicast, anycast, throw, NAT: not a matter of routes here.
    Other,
}

/// The ways of a route. One is the rule, and needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hops {
    /// None was told.
    None,
    /// One.
    One(Hop),
    /// Several.
    Many(Box<[Hop]>),
}

impl Hops {
    /// All of them.
    pub fn as_slice(&self) -> &[Hop] {
        match self {
            Hops::None => &[],
            Hops::One(hop) => std::slice::from_ref(hop),
            Hops::Many(hops) => hops,
        }
    }
}

impl From<Vec<Hop>> for Hops {
    fn from(hops: Vec<Hop>) -> Self {
        match hops[..] {
            [] => Hops::None,
            [hop] => Hops::One(hop),
            _ => Hops::Many(hops.into()),
        }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its destinations.
    pub prefix: Prefix,
    /// Its table (254 is main).
    pub table: u32,
    /// Who made it (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// What becomes of its packets.
    pub kind: RouteKind,
    /// The IPv4 type of service it is for; 0 for all.
    pub tos: u8,
    /// The lower is preferred.
    pub metric: u32,
    /// Its ways.
    pub hops: Hops,
    /// The next-hop object it names; 0 for none.
    pub next_hop: u32,
    /// Whether it came after those that were there with the same prefix and metric (`ip route append`).
    pub appended: bool,
    /// Whether its packets would need a header that this router does not make (MPLS, SRv6).
    pub encapsulated: bool,
}
