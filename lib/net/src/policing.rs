// SPDX-License-Identifier: MIT
//! What a port may give the slow path: classes of packets (RFC 6192), each with a rate and a burst.

/// A class of packets for the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PuntClass {
    /// Routing protocols: OSPF, BGP, RIP, BFD, PIM, IGMP, MLD, VRRP, LDP, IS-IS and their like.
    Routing,
    /// ARP and neighbor discovery.
    Discovery,
    /// Packets to connected hosts whose MAC address is not known yet.
    Unresolved,
    /// ICMP and ICMPv6 to the router itself.
    Icmp,
    /// TCP and UDP to the router itself.
    Management,
    /// Everything else: packets that end here with an error, with options, to be fragmented, of other types.
    Other,
}

impl PuntClass {
    /// All of them, in order.
    pub const ALL: [PuntClass; 6] = [
        PuntClass::Routing,
        PuntClass::Discovery,
        PuntClass::Unresolved,
        PuntClass::Icmp,
        PuntClass::Management,
        PuntClass::Other,
    ];
}

/// What a port may give the slow path of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntLimit {
    /// Packets per second.
    pub rate: u32,
    /// Packets at once.
    pub burst: u32,
}

/// The limits of all classes, by their order.
pub type PuntLimits = [PuntLimit; PuntClass::ALL.len()];
