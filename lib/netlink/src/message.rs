// SPDX-License-Identifier: MIT
//! What Linux says about its network, as far as it concerns a router.

use std::net::IpAddr;

use perigee_net::{AddressAttributes, InterfaceAddress, MacAddr, PortRange, Prefix};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// An interface is new or has changed.
    Link(Link),
    /// The interface of this index is gone.
    LinkGone(u32),
    /// The interface of this index is in another namespace now.
    LinkMoved(u32),
    /// An interface has this address.
    Address(Address),
    /// An interface has lost this address.
    AddressGone(Address),
    /// A neighbor is new or has changed.
    Neighbor(Neighbor),
    /// A neighbor is gone.
    NeighborGone(Neighbor),
    /// The machine answers for this address of another station.
    ProxyNeighbor(ProxyNeighbor),
    /// These are all that it answers for. Linux does not say when one comes or goes: the feed asks for them.
    ProxyNeighbors(Vec<ProxyNeighbor>),
    /// Settings of a link, or some of them, are new or have changed.
    NetworkSettings(NetworkSettings),
    /// A link has no settings of this family any more: whether it is IPv6, and the link.
    NetworkSettingsGone(bool, i32),
    /// A next-hop object is new or has changed.
    NextHop(NextHop),
    /// The next-hop object of this id is gone.
    NextHopGone(u32),
    /// A route is new or has changed.
    Route(Route),
    /// A route is gone.
    RouteGone(Route),
    /// A policy rule is new.
    Rule(Rule),
    /// A policy rule is gone.
    RuleGone(Rule),
    /// A multicast route is new or has changed.
    MulticastRoute(MulticastRoute),
    /// The multicast route of this group and source is gone.
    MulticastRouteGone(MulticastKey),
}

impl Message {
    /// The prefix of a route that is there or gone.
    pub fn prefix(&self) -> Option<Prefix> {
        match self {
            Message::Route(route) | Message::RouteGone(route) => Some(route.prefix),
            _ => None,
        }
    }
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Administratively up (`ip link set up`).
    pub up: bool,
    /// Whether it has a carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// Bytes of the longest IP packet.
    pub mtu: u32,
    /// Its MAC address, if it has one.
    pub mac: Option<MacAddr>,
    /// If it is a VLAN.
    pub vlan: Option<Vlan>,
    /// If it is a macvlan: the index of the interface below.
    pub mac_vlan: Option<u32>,
    /// If it belongs to another interface (`ip link set master`).
    pub master: Option<Master>,
    /// If it is a VRF: the number of its table.
    pub vrf: Option<u32>,
}

/// The interface that a link belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Its index.
    pub index: u32,
    /// What it is: `bridge`, `vrf`, `bond`, ...; empty if Linux does not say.
    pub kind: String,
    /// The table of a VRF.
    pub table: Option<u32>,
}

/// What makes a link a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The index of the interface below.
    pub below: u32,
    pub id: u16,
    /// Its tags are those of IEEE 802.1ad, not of 802.1Q.
    pub service: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's index.
    pub link: u32,
    /// The address and the length of its prefix: that of a host route if the address has no connected network (`peer`,
    /// `noprefixroute`).
    pub with_prefix: InterfaceAddress,
    pub attributes: AddressAttributes,
    /// Linux does not know yet that no other station has it (IFA_F_TENTATIVE without IFA_F_OPTIMISTIC).
    pub tentative: bool,
    /// Linux has found another station that has it (IFA_F_DADFAILED).
    pub duplicate: bool,
}

impl Address {
    /// An address in use, without anything special about it.
    pub fn new(link: u32, with_prefix: InterfaceAddress) -> Address {
        let attributes = AddressAttributes::default();
        Address { link, with_prefix, attributes, tentative: false, duplicate: false }
    }
}

/// A neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The interface's index.
    pub link: u32,
    pub address: IpAddr,
    /// Its MAC address, if it is known.
    pub mac: Option<MacAddr>,
    /// Static: never resolved by ARP or ND (NUD_PERMANENT, NUD_NOARP).
    pub permanent: bool,
    /// It was confirmed a short while ago (NUD_REACHABLE).
    pub reachable: bool,
    /// It was confirmed once, and nobody has sent to it since (NUD_STALE).
    pub stale: bool,
    /// It does not answer, or somebody has said so (NUD_FAILED).
    pub failed: bool,
    /// A program keeps it up to date (NTF_EXT_LEARNED). Whoever changes the entry by hand takes this mark off.
    pub external: bool,
    /// Which routing protocol made the entry, by its number (`/etc/iproute2/rt_protos`); 0 for the kernel itself.
    pub protocol: u8,
}

/// An address of another station that the machine answers for (`ip neigh add proxy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProxyNeighbor {
    /// The index of the interface where it answers; 0: on all of them.
    pub link: u32,
    pub address: IpAddr,
    /// Whether the station is announced as a router (IPv6; `ip neigh add proxy ... router`).
    pub router: bool,
}

/// What Linux does on a link, as `net.ipv4.conf` or `net.ipv6.conf` says. A notification says what has changed alone,
/// and what is missing stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Whether they are those of IPv6.
    pub v6: bool,
    /// The interface's index, [`Self::ALL`] or [`Self::DEFAULT`].
    pub link: i32,
    /// `forwarding`
    pub forwarding: Option<bool>,
    /// `rp_filter`: 0 for none, 1 for strict, 2 for loose; IPv4 alone.
    pub reverse_path: Option<u8>,
    /// `mc_forwarding`
    pub multicast_forwarding: Option<bool>,
    /// `bc_forwarding`; IPv4 alone.
    pub broadcast_forwarding: Option<bool>,
    /// `proxy_arp`, or `proxy_ndp`.
    pub proxy_neighbors: Option<bool>,
    /// `ignore_routes_with_linkdown`
    pub ignore_routes_with_linkdown: Option<bool>,
}

impl NetworkSettings {
    /// The settings of `conf/all`.
    pub const ALL: i32 = -1;
    /// The settings of `conf/default`, which new interfaces begin with.
    pub const DEFAULT: i32 = -2;

    /// Takes over what a later message says.
    pub fn merge(&mut self, later: &NetworkSettings) {
        self.forwarding = later.forwarding.or(self.forwarding);
        self.reverse_path = later.reverse_path.or(self.reverse_path);
        self.multicast_forwarding = later.multicast_forwarding.or(self.multicast_forwarding);
        self.broadcast_forwarding = later.broadcast_forwarding.or(self.broadcast_forwarding);
        self.proxy_neighbors = later.proxy_neighbors.or(self.proxy_neighbors);
        self.ignore_routes_with_linkdown = later.ignore_routes_with_linkdown.or(self.ignore_routes_with_linkdown);
    }
}

/// A next-hop object (`ip nexthop`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    pub id: u32,
    /// What it is.
    pub to: NextHopTo,
}

/// What a next-hop object stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopTo {
    /// A neighbor, or a link.
    Hop(Hop),
    /// Other objects: ids and weights, of 1 to 65,535.
    Group(Box<[(u32, u16)]>),
    /// Packets are dropped.
    Blackhole,
    /// Something that this router does not know (a bridge's entry, an encapsulation).
    Other,
}

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface's index; 0 if none was given.
    pub link: u32,
    /// The gateway; `None` for destinations on the link itself.
    pub gateway: Option<IpAddr>,
    /// Its share of the flows: 1 to 256, of a member of a group up to 65,535.
    pub weight: u16,
}

/// What happens to a route's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// They are forwarded.
    Unicast,
    /// They are for this machine.
    Local,
    /// Dropped silently.
    Blackhole,
    /// Answered with ICMP host unreachable.
    Unreachable,
    /// Answered with ICMP administratively prohibited.
    Prohibit,
    /// They are for all stations on the link.
    Broadcast,
    /// They are for any of several machines, of which this is one.
    Anycast,
    /// They are for a group.
    Multicast,
    /// They are handled by another table (`throw`), or in a way that is not known.
    Other,
}

/// The next hops of a route. Most routes have one, which needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hops {
    /// None was given.
    None,
    /// A single next hop.
    One(Hop),
    /// Several next hops.
    Many(Box<[Hop]>),
}

impl Hops {
    /// All next hops.
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
    /// What happens to its packets.
    pub kind: RouteKind,
    /// The IPv4 type of service it is for; 0 for all.
    pub tos: u8,
    /// The source prefix that it is for (IPv6, `from`); `None` for all.
    pub source: Option<Prefix>,
    /// Linux's metric: the route with the lowest one is used.
    pub metric: u32,
    /// Its next hops.
    pub hops: Hops,
    /// The next-hop object it names; 0 for none.
    pub next_hop: u32,
    /// Whether it was added behind routes with the same prefix and metric (`ip route append`).
    pub appended: bool,
    /// Whether it has replaced one with the same prefix and metric.
    pub replaces: bool,
    /// Whether its packets would need a header that this router cannot add (MPLS, SRv6).
    pub encapsulated: bool,
    /// Bytes of the longest IP packet that it takes; 0 if that is the interface's matter.
    pub mtu: u32,
    /// The first attribute that is not known, by its number.
    pub unknown: Option<u16>,
}

/// A policy rule (`ip rule`): which packets are looked up in which table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is for IPv6.
    pub is_v6: bool,
    /// Rules are asked in the order of their priorities, the lowest first.
    pub priority: u32,
    /// What happens to the packets.
    pub action: RuleAction,
    /// The packets are those that do not match.
    pub inverted: bool,
    pub source: Option<Prefix>,
    pub destination: Option<Prefix>,
    /// Type of service or traffic class; 0 for all.
    pub tos: u8,
    /// Upper-layer protocol.
    pub protocol: Option<u8>,
    pub source_ports: Option<PortRange>,
    pub destination_ports: Option<PortRange>,
    /// The interface that packets come in on.
    pub input: Option<String>,
    /// A mark or a user, an output that sockets are bound to, a tunnel: packets from a port have none.
    pub asks_for_more: bool,
    /// Routes of prefixes up to this length do not count.
    pub suppressed: Option<u32>,
    /// The table is that of the VRF that the packet came in by.
    pub by_vrf: bool,
    /// An attribute that is not known, by its number.
    pub unknown: Option<u16>,
}

/// What a policy rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleAction {
    /// The packets are looked up in this table.
    Table(u32),
    /// The packets are dropped, or answered by an error.
    Refuse,
    /// The rule with this priority is asked next.
    Jump(u32),
    /// The next rule is asked.
    #[default]
    Nothing,
    /// It is not known.
    Unknown(u8),
}

/// What distinguishes a multicast route from others: its group, and its source if it is of one alone.
pub type MulticastKey = (IpAddr, Option<IpAddr>);

/// A multicast route of the default table, as a routing daemon has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastRoute {
    /// Group and source.
    pub key: MulticastKey,
    /// The index of the interface that packets come in on; `None` if it is gone.
    pub input: Option<u32>,
    /// The indices of the interfaces that packets leave by, each with its TTL threshold. Of a route for any source the
    /// input is among them: it is used for packets that come in on one of these alone.
    pub outputs: Vec<(u32, u8)>,
}
