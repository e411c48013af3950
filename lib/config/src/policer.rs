// SPDX-License-Identifier: MIT
//! `[policer]`: what each port may give the slow path, by class (RFC 6192).

use perigee_net::{PuntLimit, PuntLimits};

use super::kind::{Kind, integer};
use super::section::section;

section! {
    /// What each port may give the slow path, by class; more is dropped and counted as `host.policed_CLASS`. One source has a quarter of a
    /// class at most. 0 is nothing, 1000000000 no limit. `[port.NAME.policer]` has the same keys, for one port by itself; what it does not
    /// say is as here.
    pub struct Policer(context) keys {
        /// Packets per second of routing protocols for the router: OSPF, BGP, RIP, BFD, PIM, IGMP, MLD, VRRP, LDP, IS-IS and their like.
        routing: u32, rate(), default context.policer.map_or(100_000, |all| all.routing), live;
        /// Those of them at once.
        routing_burst: u32, burst(), default context.policer.map_or(5000, |all| all.routing_burst), live;
        /// Packets per second of ARP and neighbor discovery.
        discovery: u32, rate(), default context.policer.map_or(100_000, |all| all.discovery), live;
        /// Those of them at once.
        discovery_burst: u32, burst(), default context.policer.map_or(5000, |all| all.discovery_burst), live;
        /// Packets per second to connected hosts whose MAC address is not known yet.
        unresolved: u32, rate(), default context.policer.map_or(50_000, |all| all.unresolved), live;
        /// Those of them at once.
        unresolved_burst: u32, burst(), default context.policer.map_or(2500, |all| all.unresolved_burst), live;
        /// Packets per second of ICMP and ICMPv6 to the router itself.
        icmp: u32, rate(), default context.policer.map_or(100_000, |all| all.icmp), live;
        /// Those of them at once.
        icmp_burst: u32, burst(), default context.policer.map_or(5000, |all| all.icmp_burst), live;
        /// Packets per second of TCP and UDP to the router itself.
        management: u32, rate(), default context.policer.map_or(50_000, |all| all.management), live;
        /// Those of them at once.
        management_burst: u32, burst(), default context.policer.map_or(2500, |all| all.management_burst), live;
        /// Packets per second of everything else: what ends here with an error, has options, is to be fragmented or of another type.
        other: u32, rate(), default context.policer.map_or(50_000, |all| all.other), live;
        /// Those of them at once.
        other_burst: u32, burst(), default context.policer.map_or(2500, |all| all.other_burst), live;
    }
}

fn rate<'k>() -> Kind<'k, u32> {
    integer("packets per second", 0..=1_000_000_000)
}

fn burst<'k>() -> Kind<'k, u32> {
    integer("packets", 1..=1_000_000)
}

impl Policer {
    /// The limits in the order of the classes.
    pub fn limits(&self) -> PuntLimits {
        [
            PuntLimit { rate: self.routing, burst: self.routing_burst },
            PuntLimit { rate: self.discovery, burst: self.discovery_burst },
            PuntLimit { rate: self.unresolved, burst: self.unresolved_burst },
            PuntLimit { rate: self.icmp, burst: self.icmp_burst },
            PuntLimit { rate: self.management, burst: self.management_burst },
            PuntLimit { rate: self.other, burst: self.other_burst },
        ]
    }
}
