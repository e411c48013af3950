// SPDX-License-Identifier: MIT
//! Where a packet goes next: routes, next hops, interfaces, lookup structures and their publication.
//!
//! ```text
//!  control thread                                        workers
//!  FibWriter                                             Fib (shared, read only)
//!    Rib             every route, best one per prefix      -
//!    LookupWriter    patches in place, or rebuilds       > Lookup   IPv4 address -> NextHopId
//!    LookupWriter    the same                            > Lookup   IPv6 address -> NextHopId
//!    NextHopWriter   a neighbor changed: one store       > NextHops NextHopId -> NextHop (interface, MAC)
//!                    a group's member, too               >          a group and a flow -> NextHopId of a member
//!  Published<T>      a new version of anything else      > Subscriber<T>, refreshed between two batches
//! ```
//!
//! Nothing here has a clock, a socket or a thread. What a reader may still hold (a group of the table, a next
//! hop, an old version) is only reused after every [`Subscriber`] passed a batch boundary: see [`Grace`].
//!
//! Which lookup structures there are is in [`structures`]. `unsafe` is in `table.rs` (huge pages) and in the room `simd`
//! (vector instructions and prefetch), nowhere else.
#![deny(unsafe_code)]

mod blocks;
mod bm19;
mod buckets;
mod dir24;
mod dirb;
mod double;
mod dxr;
mod entries;
mod family;
mod fib;
mod grace;
mod group;
mod interface;
mod lookup;
mod next_hop;
mod next_hop_writer;
mod poptrie;
mod prefix;
mod prefix_list;
mod publish;
mod range6;
mod reads;
mod recursion;
mod rib;
mod runs;
mod simd;
mod slots;
pub mod structures;
mod sync;
pub mod synth;
mod table;
mod tree;
mod trie6;

pub use bm19::{Bm19, Bm19Writer};
pub use dir24::{Dir24, Dir24Writer};
pub use dirb::{Dirb, DirbWriter};
pub use double::{Buffer, DoubleBuffered, Make, SingleBuffered};
pub use dxr::{Dxr, DxrWriter};
pub use entries::Routes;
pub use fib::{Fib, FibError, FibWriter};
pub use grace::Grace;
pub use interface::{Egress, Interface, InterfaceError, Interfaces};
pub use lookup::{Lookup, LookupError, LookupWriter, Structure};
pub use next_hop::{Action, InterfaceId, Mac, NextHop, NextHopId, NextHops, NextHopsView};
pub use next_hop_writer::{GroupMember, Leaf, NextHopError, NextHopInfo, NextHopKind, NextHopWriter, Via};
pub use poptrie::{Poptrie, PoptrieWriter};
pub use prefix::{Address, Prefix, Prefix4, Prefix6, PrefixError, PrefixOf};
pub use prefix_list::{LineError, PrefixList, PrefixListError};
pub use publish::{Published, Subscriber};
pub use range6::{Range6, Range6Writer};
pub use reads::RandomReads;
pub use recursion::MAX_DEPTH;
pub use rib::{Member, Multipath, MultipathError, Rib, Route, RouteKey, RouteSource, RouteTarget};
pub use simd::Isa;
pub use trie6::{Trie6, Trie6Writer};
