// SPDX-License-Identifier: MIT
//! Routes: their source, their preference, and where they lead.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::{InterfaceId, RouteProtocol, Selector};

/// The source of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteSource {
    /// The router's own addresses.
    Local,
    /// The networks of the interfaces' addresses.
    Connected,
    /// The configuration, or the operator.
    Static,
    /// The kernel's table.
    Linux,
    /// A routing protocol.
    Dynamic,
}

impl RouteSource {
    /// All sources.
    pub const ALL: [Self; 5] = [Self::Local, Self::Connected, Self::Static, Self::Linux, Self::Dynamic];

    /// The preference of this source's routes, unless they have their own.
    pub const fn preference(self) -> u8 {
        match self {
            Self::Local | Self::Connected => 0,
            Self::Static => 1,
            Self::Linux => 10,
            Self::Dynamic => 20,
        }
    }
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    /// To the destination itself, on this interface's link.
    Connected {
        /// The link.
        interface: InterfaceId,
    },
    /// To a router, or to a neighbor that is the destination itself.
    Gateway {
        address: IpAddr,
        /// The link it is on. Without, the gateway is reached by the routes to it, and follows them.
        interface: Option<InterfaceId>,
    },
    /// To several gateways, flow by flow.
    Multipath(Multipath),
    /// To the router itself.
    Local,
    /// Nowhere, silently.
    Blackhole,
    /// Nowhere, with ICMP host unreachable.
    Unreachable,
    /// Nowhere, with ICMP administratively prohibited.
    Prohibit,
    /// Used by none here: Linux has the route for a part of the packets to its prefix, which are given to it
    /// (see [`Exception`](crate::Exception)).
    Selective(Arc<Selector>),
    /// To Linux, which alone can forward by the route.
    ToLinux(LinuxOnly),
    /// Nowhere, with ICMP host unreachable: Linux alone could forward by the route, and the configuration does not let
    /// it.
    Refused(LinuxOnly),
}

/// Why Linux alone can forward by a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinuxOnly {
    /// The route leads to another table (`throw`), or is of a type that this router does not know.
    Type,
    /// The route is for one type of service, or for one source prefix.
    Selective,
    /// The route adds a header: a tunnel's, MPLS, SRv6.
    Encapsulation,
    /// The route leads over an interface that is no port's.
    OtherInterface,
    /// The route names a next-hop object that is not known, or not one for packets.
    NextHop,
    /// A policy rule (`ip rule`) leads packets to a table that is not among those that are followed.
    Rule,
    /// The route has an attribute that this router does not know.
    Attribute,
    /// There is no room for the route, or for one that this one's packets would take otherwise.
    Limit,
}

impl LinuxOnly {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Type,
        Self::Selective,
        Self::Encapsulation,
        Self::OtherInterface,
        Self::NextHop,
        Self::Rule,
        Self::Attribute,
        Self::Limit,
    ];

    /// Its name in `perigee show linux` and `perigee show routes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Selective => "selective",
            Self::Encapsulation => "encapsulation",
            Self::OtherInterface => "other_interface",
            Self::NextHop => "next_hop",
            Self::Rule => "rule",
            Self::Attribute => "attribute",
            Self::Limit => "limit",
        }
    }

    /// What Linux's route has that this router cannot do, as the end of a sentence.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Type => "its type is throw or unknown",
            Self::Selective => "it is for one type of service or source",
            Self::Encapsulation => "it adds a header",
            Self::OtherInterface => "it leads over an interface that is no port",
            Self::NextHop => "its next-hop object is not known, or not for packets",
            Self::Rule => "a policy rule leads to it",
            Self::Attribute => "it has an attribute that is not known",
            Self::Limit => "there are more routes than the router has room for, and some of them are inside it",
        }
    }
}

/// One of several gateways of a route, or one of several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its address; `None`: the destinations themselves, on the link of `interface`.
    pub address: Option<IpAddr>,
    /// The link it is on, as in [`RouteTarget::Gateway`].
    pub interface: Option<InterfaceId>,
    /// Its share of the flows, relative to the other members': 1 to 256.
    pub weight: u16,
}

/// 1 to 256 gateways or links with weights of 1 to 256.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multipath(Arc<[Member]>);

impl Multipath {
    /// The most members.
    pub const MAX_MEMBERS: usize = 256;
    /// The largest weight.
    pub const MAX_WEIGHT: u16 = 256;

    /// These gateways, if their number and weights are allowed.
    pub fn new(members: &[Member]) -> Result<Self, MultipathError> {
        if members.is_empty() || members.len() > Self::MAX_MEMBERS {
            return Err(MultipathError::Members { members: members.len() });
        }
        match members.iter().find(|member| !(1..=Self::MAX_WEIGHT).contains(&member.weight)) {
            Some(member) => Err(MultipathError::Weight { member: *member }),
            None if members.iter().any(|member| member.address.is_none() && member.interface.is_none()) => {
                Err(MultipathError::Nowhere)
            }
            None => Ok(Self(members.into())),
        }
    }

    /// The gateways.
    pub fn members(&self) -> &[Member] {
        &self.0
    }

    /// Maps each gateway by `f`; weights stay as they were.
    pub fn map(&self, f: impl Fn(Member) -> Member) -> Self {
        Self(self.0.iter().map(|member| Member { weight: member.weight, ..f(*member) }).collect())
    }
}

/// Why several gateways cannot form a route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MultipathError {
    /// Too many, or none.
    #[error("a route cannot have {members} gateways; expected 1 to {max}", max = Multipath::MAX_MEMBERS)]
    Members {
        /// How many were given.
        members: usize,
    },
    /// Out of range.
    #[error("{member} cannot have the weight {weight}; expected 1 to {max}", weight = member.weight, max = Multipath::MAX_WEIGHT)]
    Weight {
        /// Whose, and the weight given.
        member: Member,
    },
    /// Neither address nor link.
    #[error("a member of a route has neither a gateway nor an interface; expected one of them, or both")]
    Nowhere,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.interface) {
            (Some(address), _) => write!(f, "gateway {address}"),
            (None, Some(InterfaceId(id))) => write!(f, "interface {id}"),
            (None, None) => write!(f, "a member without gateway"),
        }
    }
}

/// A route; its prefix is its key in the table, together with [`RouteKey`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    pub source: RouteSource,
    /// The lowest preference wins (elsewhere called administrative distance) ...
    pub preference: u8,
    /// ... and among routes of one preference the lowest metric.
    pub metric: u32,
    /// Where it leads.
    pub target: RouteTarget,
    /// Bytes of its longest IP packet; 0 where that is the interface's.
    pub mtu: u16,
    /// Who gave it to Linux; `None` where it is not Linux's. To be shown: it decides nothing.
    pub protocol: Option<RouteProtocol>,
}

/// The key that distinguishes the routes to one prefix; ordered by preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// See [`Route::preference`].
    pub preference: u8,
    /// See [`Route::metric`].
    pub metric: u32,
    /// Where all else is equal, in the order of [`RouteSource`].
    pub source: RouteSource,
}

impl RouteKey {
    /// The key of this source's routes with its own preference and metric 0.
    pub const fn of(source: RouteSource) -> Self {
        Self { preference: source.preference(), metric: 0, source }
    }

    /// This key with another metric.
    pub const fn with_metric(self, metric: u32) -> Self {
        Self { metric, ..self }
    }

    /// This key with another preference.
    pub const fn with_preference(self, preference: u8) -> Self {
        Self { preference, ..self }
    }
}

impl Route {
    /// A route with its source's preference and metric 0.
    pub const fn new(source: RouteSource, target: RouteTarget) -> Self {
        Self { source, preference: source.preference(), metric: 0, target, mtu: 0, protocol: None }
    }

    /// This route with another metric.
    pub fn with_metric(self, metric: u32) -> Self {
        Self { metric, ..self }
    }

    /// This route with another preference.
    pub fn with_preference(self, preference: u8) -> Self {
        Self { preference, ..self }
    }

    /// This route, given to Linux by this protocol.
    pub fn with_protocol(self, protocol: RouteProtocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// The key that distinguishes it from other routes to its prefix.
    pub fn key(&self) -> RouteKey {
        RouteKey { preference: self.preference, metric: self.metric, source: self.source }
    }

    /// Its gateways, each with its interface where one was given. A link without a gateway is none.
    pub fn gateways(&self) -> impl Iterator<Item = (IpAddr, Option<InterfaceId>)> {
        let (one, several) = match &self.target {
            RouteTarget::Gateway { address, interface } => (Some((*address, *interface)), &[][..]),
            RouteTarget::Multipath(multipath) => (None, multipath.members()),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(several.iter().filter_map(|member| Some((member.address?, member.interface))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_gateways_are_1_to_256_of_weights_1_to_256() {
        let member = |weight| Member { address: Some([10, 0, 0, 1].into()), interface: None, weight };
        assert!(Multipath::new(&[member(1); 256]).is_ok_and(|multipath| multipath.members().len() == 256));
        for members in [0, 257] {
            let error = Multipath::new(&vec![member(1); members]).expect_err("refused").to_string();
            assert_eq!(error, format!("a route cannot have {members} gateways; expected 1 to 256"));
        }
        for weight in [0, 257] {
            let error = Multipath::new(&[member(256), member(weight)]).expect_err("refused").to_string();
            assert_eq!(error, format!("gateway 10.0.0.1 cannot have the weight {weight}; expected 1 to 256"));
        }
        let link = Member { address: None, interface: Some(InterfaceId(7)), weight: 300 };
        let error = Multipath::new(&[link]).expect_err("refused").to_string();
        assert_eq!(error, "interface 7 cannot have the weight 300; expected 1 to 256");
        let error = Multipath::new(&[Member { address: None, ..member(1) }]).expect_err("refused").to_string();
        assert_eq!(error, "a member of a route has neither a gateway nor an interface; expected one of them, or both");
    }
}
