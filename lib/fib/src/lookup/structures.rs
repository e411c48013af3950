// SPDX-License-Identifier: MIT
//! The lookup structures by name.

use std::sync::Arc;

use crate::lookup::bm19::Bm19Writer;
use crate::lookup::dir24::Dir24Writer;
use crate::lookup::dirb::DirbWriter;
use crate::lookup::dxr::DxrWriter;
use crate::lookup::poptrie::PoptrieWriter;
use crate::lookup::range6::Range6Writer;
use crate::lookup::trie6::Trie6Writer;
use crate::lookup::{Arena, LookupError, LookupWriter, Structure};

/// DXR with this many direct bits; a macro, as the texts are put together at compile time.
macro_rules! dxr {
    ($bits:literal) => {
        Structure {
            name: concat!("dxr", $bits),
            about: concat!("DXR: ", $bits, " bits at once, the rest by ranges"),
            new: || Ok(Box::new(DxrWriter::new($bits)?)),
        }
    };
}

/// IPv4.
pub const IPV4: &[Structure<u32>] = &[
    Structure {
        name: "dir24",
        about: "DIR-24-8: one entry per /24, groups of 256 for longer prefixes",
        new: || Ok(Box::new(Dir24Writer::new()?)),
    },
    dxr!(16),
    dxr!(17),
    dxr!(18),
    dxr!(19),
    dxr!(20),
    Structure {
        name: "bm19",
        about: "BM19: one bitmap of runs per /19, and their next hops",
        new: || Ok(Box::new(Bm19Writer::new()?)),
    },
    Structure {
        name: "dirb",
        about: "DIRB: one byte per /24 for popular next hops, BM19 for the rest",
        new: || Ok(Box::new(DirbWriter::new(false)?)),
    },
    AUTO,
    Structure {
        name: "poptrie",
        about: "Poptrie: 18 bits, then six per node of two bitmaps",
        new: || Ok(Box::new(PoptrieWriter::new()?)),
    },
];

/// IPv6.
pub const IPV6: &[Structure<u128>] = &[
    Structure {
        name: "trie6",
        about: "multibit trie: 16 bits, then 8 per level",
        new: || Ok(Box::new(Trie6Writer::new()?)),
    },
    RANGE6,
    Structure {
        name: "poptrie",
        about: "Poptrie: 16 bits, then six per node of two bitmaps",
        new: || Ok(Box::new(PoptrieWriter::new()?)),
    },
];

/// What the in-kernel plane reads of IPv4, by name.
const IN_ARENA4: [&str; 3] = [AUTO.name, "dirb", "bm19"];

/// An empty structure for IPv4, by name, in memory that the in-kernel plane reads, too.
///
/// # Errors
/// It does not read this one, or the arena has no room.
pub fn in_arena4(name: &str, arena: &Arc<Arena>) -> Result<Box<dyn LookupWriter<u32>>, LookupError> {
    match IN_ARENA4.iter().position(|known| *known == name) {
        Some(0) => Ok(Box::new(DirbWriter::in_arena(true, arena)?)),
        Some(1) => Ok(Box::new(DirbWriter::in_arena(false, arena)?)),
        Some(_) => Ok(Box::new(Bm19Writer::in_arena(arena)?)),
        None => Err(LookupError::Unavailable {
            structure: known(IPV4.iter().map(|structure| structure.name), name),
            reason: "the in-kernel plane reads auto, dirb and bm19 for IPv4; choose one of these",
        }),
    }
}

/// An empty structure for IPv6, by name, in memory that the in-kernel plane reads, too.
///
/// # Errors
/// It does not read this one, or the arena has no room.
pub fn in_arena6(name: &str, arena: &Arc<Arena>) -> Result<Box<dyn LookupWriter<u128>>, LookupError> {
    if name == RANGE6.name {
        // An eighth of the arena: a table that is built again exists twice.
        return Ok(Box::new(Range6Writer::in_arena(arena, (arena.bytes() / 64 / 8) as u32)?));
    }
    Err(LookupError::Unavailable {
        structure: known(IPV6.iter().map(|structure| structure.name), name),
        reason: "the in-kernel plane reads range6 for IPv6; choose that",
    })
}

/// A name among the known ones.
fn known(mut names: impl Iterator<Item = &'static str>, name: &str) -> &'static str {
    names.find(|known| *known == name).unwrap_or("this structure")
}

const AUTO: Structure<u32> = Structure {
    name: "auto",
    about: "dirb while popular next hops fit it, else bm19",
    new: || Ok(Box::new(DirbWriter::new(true)?)),
};

const RANGE6: Structure<u128> = Structure {
    name: "range6",
    about: "ranges: 16 bits, indices of 4 to 16 bits, lines of eleven runs",
    new: || Ok(Box::new(Range6Writer::new()?)),
};

/// The router's default for IPv4: the fastest in the forwarding loop with the Internet's table and routed destinations,
/// measured by `./x bench fib --in-router` (bench/RESULTS.md).
pub const DEFAULT4: &Structure<u32> = &AUTO;
/// The default for IPv6, chosen likewise; rte_fib6 is as fast, with 90 times the memory.
pub const DEFAULT6: &Structure<u128> = &RANGE6;
