// SPDX-License-Identifier: MIT
//! The network that every router under test is put into: its links, addresses and routes, and what differs between
//! worlds.
//!
//! ```text
//!  left station                                                   right station
//!  10.0.1.2  2001:db8:1::2  ─── 10.0.1.1  router  10.0.2.1 ───  10.0.2.2  2001:db8:2::2, 2001:db8:ff::
//!  10.0.1.254, fe80::254              │      MTU 1400       └──  10.0.2.3  2001:db8:2::3
//!  (a gateway on the same link)       └ 10.0.3.1 ─── 10.0.3.2  2001:db8:3::2   third station
//! ```
//!
//! All stations are the runner itself: nobody else sends on these links.

use perigee_net::MacAddr;
use std::fmt::{Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A link of the router's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Left,
    Right,
    Third,
}

use Side::{Left, Right, Third};

impl Side {
    /// All of them.
    pub const ALL: [Side; 3] = [Left, Right, Third];

    /// Its name: of the router's port, in messages and in file names.
    pub fn name(self) -> &'static str {
        ["left", "right", "third"][self as usize]
    }

    /// The router's interface, in its namespace.
    pub fn interface(self) -> String {
        format!("r-{}", self.name())
    }

    fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The router's address.
    pub fn router4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number(), 1)
    }

    /// The station's address.
    pub fn station4(self) -> Ipv4Addr {
        self.host4(2)
    }

    /// Another address of the link.
    pub fn host4(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number(), host)
    }

    /// The link's broadcast address.
    pub fn broadcast4(self) -> Ipv4Addr {
        self.host4(255)
    }

    /// The router's address.
    pub fn router6(self) -> Ipv6Addr {
        self.host6(1)
    }

    /// The station's address.
    pub fn station6(self) -> Ipv6Addr {
        self.host6(2)
    }

    /// Another address of the link.
    pub fn host6(self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, u16::from(self.number()), 0, 0, 0, 0, host)
    }

    /// The station's link-local address.
    pub fn station_link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2)
    }

    /// The longest IP packet that the router may send there, bytes.
    pub fn mtu(self) -> usize {
        if self == Right { NARROW } else { 1500 }
    }

    /// The router's own addresses, each with the length of its network's prefix.
    pub fn addresses(self) -> Vec<String> {
        let mut list = vec![format!("{}/24", self.router4()), format!("{}/64", self.router6())];
        if self == Right {
            list.push(format!("{POINT_TO_POINT_ROUTER}/127"));
        }
        list
    }
}

impl Display for Side {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The MTU of the right link, bytes: less than that of the left one, and more than IPv6's smallest.
pub const NARROW: usize = 1400;
/// The router's address on the right link in a network of 127 bits (RFC 6164).
pub const POINT_TO_POINT_ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 1);
/// The other address of that network, a station's: it would be the subnet-router anycast address of a shorter prefix.
pub const POINT_TO_POINT_STATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0);
/// A gateway on the left link: what is sent to it from there leaves by the interface that it came in on.
pub const SAME_LINK_GATEWAY4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 254);
/// Its address of the other family.
pub const SAME_LINK_GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x254);
/// The second gateway on the right link.
pub const SECOND_GATEWAY: u8 = 3;
/// No route leads to it, except in a world with a default route.
pub const UNROUTED4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
/// No route leads to it, except in a world with a default route.
pub const UNROUTED6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);
/// A group whose packets from the left go to the right in [`World::Plain`], in routers that can be given such a route.
pub const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 77, 1, 2);
/// The same in IPv6; of global scope.
pub const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x77);
/// Routes of all lengths from [`SHORTEST`] to 128 bits lead to prefixes of this address, by both right gateways in
/// turn.
pub const NESTED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb9, 0x5555, 0x5555, 0x5555, 0x5555, 0x5555, 0x5555);
/// The shortest of these prefixes, bits.
pub const SHORTEST: u8 = 32;

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations: `10.20.0.0/16`.
    pub prefix: String,
    /// The gateway.
    pub via: IpAddr,
    /// The link that the gateway is on.
    pub side: Side,
}

impl Display for Route {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} via {} dev {}", self.prefix, self.via, self.side.interface())
    }
}

/// One router's configuration and the rows that it is asked for together. Each world has a router of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum World {
    /// Nothing but addresses and routes; as many ICMP errors as are asked for.
    Plain,
    /// A default route besides.
    Default,
    /// A rate limit of ICMP errors.
    Limited,
    /// Source validation, strict, on the left.
    Strict,
    /// Source validation, loose, on the left.
    Loose,
    /// Source routes are followed.
    SourceRoutes,
    /// Neighbors that do not answer, of IPv4: rows that wait.
    Waiting4,
    /// Neighbors that do not answer, of IPv6: rows that wait.
    Waiting6,
    /// Neighbors that move after a while, of IPv4.
    Aging4,
    /// Neighbors that move after a while, of IPv6.
    Aging6,
    /// Thousands of neighbors that do not exist.
    Exhausted,
    /// A station on the right has the router's address already.
    Conflict,
}

impl World {
    /// All of them, those that take longest first.
    pub const ALL: [World; 12] = [
        World::Aging4,
        World::Aging6,
        World::Waiting6,
        World::Waiting4,
        World::Exhausted,
        World::Plain,
        World::Limited,
        World::Conflict,
        World::Default,
        World::Strict,
        World::Loose,
        World::SourceRoutes,
    ];

    /// Its name, also that of the router's namespace.
    pub fn name(self) -> &'static str {
        match self {
            World::Plain => "plain",
            World::Default => "default-route",
            World::Limited => "limited-errors",
            World::Strict => "urpf-strict",
            World::Loose => "urpf-loose",
            World::SourceRoutes => "source-routes",
            World::Waiting4 => "waiting4",
            World::Waiting6 => "waiting6",
            World::Aging4 => "aging4",
            World::Aging6 => "aging6",
            World::Exhausted => "exhausted",
            World::Conflict => "conflict",
        }
    }

    /// What the router is asked for beyond addresses and routes.
    pub fn settings(self) -> Settings {
        Settings {
            limited: self == World::Limited,
            urpf: match self {
                World::Strict => Some("strict"),
                World::Loose => Some("loose"),
                _ => None,
            },
            source_routes: self == World::SourceRoutes,
            ages_soon: matches!(self, World::Aging4 | World::Aging6),
        }
    }

    /// The static routes.
    pub fn routes(self) -> Vec<Route> {
        let right =
            |prefix: &str, host: u16| Route { prefix: prefix.to_owned(), via: gateway(prefix, host), side: Right };
        let mut routes = vec![
            right("10.20.0.0/16", 2),
            right("10.20.30.0/24", 3),
            right("10.20.30.128/25", 2),
            right("10.20.30.200/32", 3),
            right("2001:db8:20::/48", 2),
            right("2001:db8:20:30::/64", 3),
            Route { prefix: "10.30.0.0/16".to_owned(), via: SAME_LINK_GATEWAY4.into(), side: Left },
            Route { prefix: "2001:db8:30::/48".to_owned(), via: SAME_LINK_GATEWAY6.into(), side: Left },
        ];
        if self == World::Plain {
            routes.extend((SHORTEST..=128).map(|length| {
                let network = Ipv6Addr::from_bits(NESTED.to_bits() >> (128 - length) << (128 - length));
                right(&format!("{network}/{length}"), nested_gateway(length))
            }));
        }
        if self == World::Default {
            routes.extend([right("0.0.0.0/0", 2), right("::/0", 2)]);
        }
        routes
    }
}

/// The gateway of [`NESTED`]'s prefix of this length, by its last two bytes.
pub fn nested_gateway(length: u8) -> u16 {
    if length.is_multiple_of(2) { 2 } else { u16::from(SECOND_GATEWAY) }
}

fn gateway(prefix: &str, host: u16) -> IpAddr {
    match prefix.contains(':') {
        true => Right.host6(host).into(),
        false => Right.host4(host as u8).into(),
    }
}

/// What the router is asked for beyond addresses and routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// ICMP errors are limited to a few a second; otherwise they are not, or hardly.
    pub limited: bool,
    /// Source validation on the left.
    pub urpf: Option<&'static str>,
    /// Source routes are followed.
    pub source_routes: bool,
    /// Neighbors are to be confirmed after a few seconds, if that can be configured.
    pub ages_soon: bool,
}

impl Settings {
    /// In words of the environment of a command: `urpf=strict`.
    pub fn words(self) -> String {
        let mut words = Vec::new();
        words.extend(self.limited.then_some("limited".to_owned()));
        words.extend(self.urpf.map(|mode| format!("urpf={mode}")));
        words.extend(self.source_routes.then_some("source-routes".to_owned()));
        words.join(" ")
    }
}

/// A MAC address of this world's link; 1 is the router's.
pub fn mac(world: World, side: Side, host: u8) -> MacAddr {
    MacAddr([2, 0, 0xc0, world as u8, side.number(), host])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_world_is_listed_once_and_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = World::ALL.iter().map(|world| world.name()).collect();
        assert_eq!(names.len(), World::ALL.len());
        // The last one of the declaration.
        assert_eq!(World::ALL.len(), World::Conflict as usize + 1);
        assert!(names.iter().all(|name| name.len() < 16));
    }

    #[test]
    fn nested_routes_have_all_lengths_and_the_others_leave_room_for_what_is_unrouted() {
        let routes = World::Plain.routes();
        let nested: Vec<_> = routes.iter().filter(|route| route.prefix.starts_with("2001:db9")).collect();
        assert_eq!(nested.len(), 97);
        assert_eq!(nested[96].to_string(), format!("{NESTED}/128 via 2001:db8:2::2 dev r-right"));
        assert!(!routes.iter().any(|route| route.prefix.ends_with("/0")));
    }
}
