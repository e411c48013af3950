// SPDX-License-Identifier: MIT
//! Packets that Linux treats otherwise than by the plain route to their destination.

use std::fmt;

use crate::{FiveTuple, InterfaceId, Prefix};

/// What distinguishes the packets of a selective route from others to its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Their source (IPv6, `from`).
    pub source: Option<Prefix>,
    /// Their IPv4 type of service; 0 for all.
    pub tos: u8,
    /// Linux's metric of the route. That of its [`RouteKey`](crate::RouteKey) is made of all three.
    pub metric: u32,
}

impl Selector {
    /// The type of service, as a packet has to have it.
    pub fn tos(self) -> Option<Tos> {
        // Linux has compared these three bits, later all six of the DSCP. A packet too many is no harm: Linux decides.
        let mask = if self.tos & !0x1c == 0 { 0x1c } else { 0xfc };
        (self.tos != 0).then_some(Tos { value: self.tos & mask, mask })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Some(source) => write!(f, "from {source}"),
            None => write!(f, "tos 0x{:02x}", self.tos),
        }
    }
}

/// Values of a packet's TOS or traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tos {
    pub value: u8,
    /// The bits that count.
    pub mask: u8,
}

impl Tos {
    /// Whether it has this byte among its values.
    pub const fn contains(self, tos: u8) -> bool {
        tos & self.mask == self.value
    }
}

/// Packets that the slow path looks at, as a route or a policy rule of Linux treats them otherwise than the plain route
/// does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exception {
    /// Addresses, protocol and ports; its destination is a route's prefix.
    pub tuple: FiveTuple,
    /// Their TOS or traffic class.
    pub tos: Option<Tos>,
    /// The interface that they come in on.
    pub input: Option<InterfaceId>,
    /// What makes them an exception.
    pub cause: ExceptionCause,
}

/// What makes an [`Exception`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExceptionCause {
    /// A policy rule: the packets are Linux's, whatever route there is.
    Rule,
    /// A route for a part of the packets to its prefix: they are Linux's where no route to a longer prefix matches.
    Route,
    /// A route with an MTU: its packets must not be longer.
    Mtu,
}
