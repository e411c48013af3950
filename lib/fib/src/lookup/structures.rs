// SPDX-License-Identifier: MIT
//! The lookup structures by name.

use crate::lookup::Structure;
use crate::lookup::bm19::Bm19Writer;
use crate::lookup::dir24::Dir24Writer;
use crate::lookup::dirb::DirbWriter;
use crate::lookup::dxr::DxrWriter;
use crate::lookup::poptrie::PoptrieWriter;
use crate::lookup::range6::Range6Writer;
use crate::lookup::trie6::Trie6Writer;

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
