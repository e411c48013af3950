// SPDX-License-Identifier: MIT
//! The lookup structures by name: one line each.

use crate::dir24::Dir24Writer;
use crate::lookup::Structure;
use crate::trie6::Trie6Writer;

/// IPv4.
pub const IPV4: &[Structure<u32>] = &[Structure {
    name: "dir24",
    about: "DIR-24-8: one entry per /24, groups of 256 for longer prefixes",
    new: || Ok(Box::new(Dir24Writer::new()?)),
}];

/// IPv6.
pub const IPV6: &[Structure<u128>] = &[Structure {
    name: "trie6",
    about: "multibit trie: 16 bits, then 8 per level",
    new: || Ok(Box::new(Trie6Writer::new()?)),
}];

/// What a router takes that is not told otherwise.
pub const DEFAULT4: &Structure<u32> = &IPV4[0];
/// The same for IPv6.
pub const DEFAULT6: &Structure<u128> = &IPV6[0];
