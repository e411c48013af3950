// SPDX-License-Identifier: MIT
//! Where a packet goes next: routes, next hops, interfaces, lookup structures and their publication.
//!
//! ```text
//!  control thread                                        workers
//!  FibWriter                                             Fib (shared, read only)
//!    Rib             every route, best one per prefix      -
//!    LookupWriter    patches in place, or rebuilds       > Lookup   IPv4 address -> NextHopId
//!    LookupWriter    likewise                            > Lookup   IPv6 address -> NextHopId
//!    NextHopWriter   one store per changed neighbor      > NextHops NextHopId -> NextHop (interface, MAC)
//!                    or bucket of a group                >          a group and a flow -> NextHopId of a member
//!    NeighborTableWriter  patches in place             > NeighborTable  a link and a destination on it -> NextHopId
//!  Published<T>      new versions of everything else     > Subscriber<T>, refreshed between two batches
//! ```
//!
//! Nothing here has a clock, a socket or a thread. What a reader may still hold (a group of a table, a next
//! hop, an old version) is reused only after every [`Subscriber`] has passed a batch boundary: see [`Grace`].
//!
//! The lookup structures are listed in [`structures`]. `unsafe` is in `lookup/table` (huge pages, shared memory) and in
//! `lookup/simd` (vector instructions and prefetch), nowhere else.
#![deny(unsafe_code)]

mod fib;
mod hash;
mod interface;
pub mod lookup;
mod multicast;
mod neighbors;
mod next_hop;
mod own;
mod prefix_list;
mod publish;
mod rib;
pub mod synth;

pub use fib::{Fib, FibError, FibWriter};
pub use interface::{Egress, InterfaceError, Interfaces};
pub use lookup::bm19::{Bm19, Bm19Writer};
pub use lookup::dir24::{Dir24, Dir24Writer};
pub use lookup::dirb::{Dirb, DirbWriter};
pub use lookup::double::{Buffer, DoubleBuffered, Make, SingleBuffered};
pub use lookup::dxr::{Dxr, DxrWriter};
pub use lookup::poptrie::{Poptrie, PoptrieWriter};
pub use lookup::range6::{Range6, Range6Writer};
pub use lookup::reads::RandomReads;
pub use lookup::simd::Isa;
pub use lookup::structures;
pub use lookup::trie6::{Trie6, Trie6Writer};
pub use lookup::{Arena, Lookup, LookupError, LookupWriter, Parts, Parts4, Parts6, Structure};
pub use multicast::{ASSERT_INTERVAL, SAMPLE_INTERVAL, Share};
pub use multicast::{MulticastCounters, MulticastEntry, MulticastInput, MulticastOrigin, MulticastTable};
pub use neighbors::{NeighborParts, NeighborTable, NeighborTableWriter, TableMemory};
pub use next_hop::writer::{GroupMember, Leaf, NextHopError, NextHopInfo, NextHopKind, NextHopWriter, Via};
pub use next_hop::{Action, NextHop, NextHopId, NextHopParts, NextHops, NextHopsView};
pub use own::{Marks, OwnAddress, OwnAddresses};
pub use prefix_list::{LineError, PrefixList, PrefixListError};
pub use publish::grace::Grace;
pub use publish::{Published, Subscriber};
pub use rib::Rib;
pub use rib::entries::Routes;
pub use rib::recursion::MAX_DEPTH;
