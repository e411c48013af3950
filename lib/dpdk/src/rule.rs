// SPDX-License-Identifier: MIT
//! Five-tuples as DPDK takes them: fields of fixed width in place of prefixes and ranges, for one address family at a
//! time.

use perigee_net::{FiveTuple, PortRange, Prefix};

/// An address family of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// 4 or 6.
    pub(crate) fn number(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }

    /// Whether a tuple can match packets of this family.
    pub(crate) fn has(self, tuple: &FiveTuple) -> bool {
        match self {
            Family::V4 => tuple.ipv4(),
            Family::V6 => tuple.ipv6(),
        }
    }
}

/// The first address of a prefix, in network order and left-aligned, and its length. `None` counts as length 0.
pub(crate) fn bytes(prefix: Option<Prefix>) -> ([u8; 16], u8) {
    let first = match prefix {
        None => 0,
        Some(Prefix::V4(prefix)) => u128::from(prefix.addr()) << 96,
        Some(Prefix::V6(prefix)) => prefix.addr(),
    };
    (first.to_be_bytes(), prefix.map_or(0, Prefix::len))
}

/// The lowest and the highest port. A packet without ports has 0 in their place.
pub(crate) fn ports(range: Option<PortRange>) -> (u16, u16) {
    let range = range.unwrap_or(PortRange::ALL);
    (range.first(), range.last())
}

/// Protocol and mask.
pub(crate) fn protocol(proto: Option<u8>) -> (u8, u8) {
    proto.map_or((0, 0), |number| (number, 0xff))
}
