// SPDX-License-Identifier: MIT
//! The vocabulary of all other crates: plain values that parse, print and compare.
//!
//! ```text
//! MacAddr                                     02:00:00:00:00:01
//! Prefix           (Prefix4, Prefix6)         10.0.0.0/8           no bit set behind the length
//! InterfaceAddress                            10.0.1.1/24          a host's address and its network's length
//! Interface        (InterfaceId)              a port or a VLAN on a port
//! Route            (RouteKey, RouteTarget)    its source, its preference, where it leads
//! RouteProtocol                               bgp, bird, 77        who made a route of Linux
//! Exception        (Selector, Tos)            packets that Linux treats otherwise than by the plain route
//! MulticastRoute   (MulticastLimits)       a group, its sources, where its packets leave
//! Proxy                                       for which other stations an interface answers
//! FiveTuple        (PortRange)                what a filter matches
//! Key              (Key4, Key6)               a packet's five-tuple, as a filter's matcher takes it
//! Filter           (Rule, Verdict)            a list of rules, and what it says of a packet
//! Namespace                                   blue, /proc/1/ns/net, 4711
//! ```
//!
//! A type belongs here if two crates that do not import one another need it, and if it means the same to both.
#![forbid(unsafe_code)]

mod exception;
mod filter;
mod interface;
mod mac;
mod multicast;
mod namespace;
mod policing;
mod prefix;
mod protocol;
mod proxy;
mod route;
#[cfg(feature = "serde")]
mod text;
mod tuple;

pub use exception::{Exception, ExceptionCause, Selector, Tos};
pub use filter::{Filter, Rule, Verdict};
pub use interface::{
    AddressAttributes, AddressScope, HostAddress, Interface, InterfaceAddress, InterfaceId, Policy, ReversePath,
    Station,
};
pub use mac::{MacAddr, ParseMacError, is_host, is_link_local, solicited_node};
pub use multicast::{MulticastLimits, MulticastOutput, MulticastRoute, is_forwarded_group};
pub use namespace::{Namespace, NamespaceError};
pub use policing::{PuntClass, PuntLimit, PuntLimits};
pub use prefix::{Address, Prefix, Prefix4, Prefix6, PrefixError, PrefixOf};
pub use protocol::{ParseProtocolError, RouteProtocol};
pub use proxy::Proxy;
pub use route::{LinuxOnly, Member, Multipath, MultipathError, Route, RouteKey, RouteSource, RouteTarget};
#[cfg(feature = "serde")]
pub use text::network;
pub use tuple::{FiveTuple, Key, Key4, Key6, Missing, PortRange, PortRangeError};
