// SPDX-License-Identifier: MIT
//! DPDK's own routing tables behind perigee_fib's trait: rte_lpm, rte_fib (DIR-24-8), rte_lpm6, rte_fib6 (a trie).
//!
//! They change in place, but not under readers: a group of entries that is given up is reused at once, for other
//! prefixes. So a router has each of them twice ([`IPV4`], [`IPV6`]: see [`DoubleBuffered`]); measurements have a
//! single one ([`RAW4`], [`RAW6`]).
//!
//! Their sizes are fixed when they are made, and their memory is EAL's: one that is full is rebuilt, larger, until
//! [`MOST4`] and [`MOST6`] routes. Adding a route to rte_lpm takes longer the more routes of its length there are: a
//! full table takes most of a minute, and twice that for two copies.

mod table;
mod v4;
mod v6;

use perigee_fib::{DoubleBuffered, SingleBuffered, Structure};

pub use v4::{Fib4, Lpm4};
pub use v6::{Fib6, Lpm6};

/// Most routes of the IPv4 structures: the Internet's table twice.
pub const MOST4: usize = 1 << 21;
/// Most routes of the IPv6 structures: the Internet's table twice.
pub const MOST6: usize = 1 << 19;

const LPM: (&str, &str) = ("rte_lpm", "DPDK's DIR-24-8, 4 bytes an entry; a full table takes two minutes to load");
const FIB1: (&str, &str) = ("rte_fib1", "DPDK's rte_fib, DIR-24-8 with 1 byte an entry; next hop ids up to 127");
const FIB2: (&str, &str) = ("rte_fib", "DPDK's rte_fib, DIR-24-8 with 2 bytes an entry; next hop ids up to 32767");
const FIB4: (&str, &str) = ("rte_fib4", "DPDK's rte_fib, DIR-24-8 with 4 bytes an entry");
const LPM6: (&str, &str) = ("rte_lpm6", "DPDK's trie of 24 and then 8 bits; next hop ids up to 2097151");
const FIB6: (&str, &str) = ("rte_fib6", "DPDK's rte_fib6, a trie of 24 and then 8 bits with 4 bytes an entry");
const FIB6_2: (&str, &str) = ("rte_fib6_2", "the same with 2 bytes an entry; next hop ids up to 32767");

/// For a router: IPv4, two copies each.
pub const IPV4: &[Structure<u32>] = &[
    Structure { name: LPM.0, about: LPM.1, new: || Ok(Box::new(DoubleBuffered::new(Lpm4::new)?)) },
    Structure { name: FIB1.0, about: FIB1.1, new: || Ok(Box::new(DoubleBuffered::new(Fib4::<0>::new)?)) },
    Structure { name: FIB2.0, about: FIB2.1, new: || Ok(Box::new(DoubleBuffered::new(Fib4::<1>::new)?)) },
    Structure { name: FIB4.0, about: FIB4.1, new: || Ok(Box::new(DoubleBuffered::new(Fib4::<2>::new)?)) },
];

/// For a router: IPv6, two copies each.
pub const IPV6: &[Structure<u128>] = &[
    Structure { name: LPM6.0, about: LPM6.1, new: || Ok(Box::new(DoubleBuffered::new(Lpm6::new)?)) },
    Structure { name: FIB6.0, about: FIB6.1, new: || Ok(Box::new(DoubleBuffered::new(Fib6::<2>::new)?)) },
    Structure { name: FIB6_2.0, about: FIB6_2.1, new: || Ok(Box::new(DoubleBuffered::new(Fib6::<1>::new)?)) },
];

/// For measurements: IPv4, a single copy each.
pub const RAW4: &[Structure<u32>] = &[
    Structure { name: LPM.0, about: LPM.1, new: || Ok(Box::new(SingleBuffered::new(Lpm4::new)?)) },
    Structure { name: FIB1.0, about: FIB1.1, new: || Ok(Box::new(SingleBuffered::new(Fib4::<0>::new)?)) },
    Structure { name: FIB2.0, about: FIB2.1, new: || Ok(Box::new(SingleBuffered::new(Fib4::<1>::new)?)) },
    Structure { name: FIB4.0, about: FIB4.1, new: || Ok(Box::new(SingleBuffered::new(Fib4::<2>::new)?)) },
];

/// For measurements: IPv6, a single copy each.
pub const RAW6: &[Structure<u128>] = &[
    Structure { name: LPM6.0, about: LPM6.1, new: || Ok(Box::new(SingleBuffered::new(Lpm6::new)?)) },
    Structure { name: FIB6.0, about: FIB6.1, new: || Ok(Box::new(SingleBuffered::new(Fib6::<2>::new)?)) },
    Structure { name: FIB6_2.0, about: FIB6_2.1, new: || Ok(Box::new(SingleBuffered::new(Fib6::<1>::new)?)) },
];

/// MB of EAL memory that a router needs for the structure of this name with this many routes; 0 for one that is not
/// DPDK's.
///
/// Enough for four copies: two in use, and two more while a reload makes a new table or a full one is enlarged.
pub fn memory_mb(name: &str, routes: usize) -> u32 {
    const COPIES: u64 = 4;
    let bytes = match name {
        "rte_lpm" => v4::lpm_bytes(routes),
        "rte_fib1" => v4::fib_bytes(0, routes),
        "rte_fib" => v4::fib_bytes(1, routes),
        "rte_fib4" => v4::fib_bytes(2, routes),
        "rte_lpm6" => v6::lpm_bytes(routes),
        "rte_fib6" => v6::fib_bytes(2, routes),
        "rte_fib6_2" => v6::fib_bytes(1, routes),
        _ => return 0,
    };
    // A MB more per copy: EAL's heap has gaps.
    u32::try_from(COPIES * ((bytes >> 20) + 2)).unwrap_or(u32::MAX)
}
