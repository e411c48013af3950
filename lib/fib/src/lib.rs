// SPDX-License-Identifier: MIT
//! Where a packet goes next: routes, next hops, interfaces, lookup structures and their publication.
//!
//! ```text
//!  control thread                                        workers
//!  FibWriter                                             Fib (shared, read only)
//!    Rib             every route, best one per prefix      -
//!    Dir24Writer     patches in place with atomic stores > Dir24    IPv4 address -> NextHopId
//!    Trie6Writer     the same                            > Trie6    IPv6 address -> NextHopId
//!    NextHopWriter   a neighbor changed: one store       > NextHops NextHopId -> NextHop (interface, MAC)
//!  Published<T>      a new version of anything else      > Subscriber<T>, refreshed between two batches
//! ```
//!
//! Nothing here has a clock, a socket or a thread. What a reader may still hold (a group of the table, a next
//! hop, an old version) is only reused after every [`Subscriber`] passed a batch boundary: see [`Grace`].
//!
//! One file has `unsafe` in it: `table.rs`, which asks the kernel for huge pages.
#![deny(unsafe_code)]

mod dir24;
mod fib;
mod grace;
mod interface;
mod lookup;
mod next_hop;
mod next_hop_writer;
mod prefix;
mod publish;
mod rib;
pub mod structures;
mod sync;
pub mod synth;
mod table;
mod trie6;

pub use dir24::{Dir24, Dir24Writer};
pub use fib::{Fib, FibError, FibWriter};
pub use grace::Grace;
pub use interface::{Egress, Interface, InterfaceError, Interfaces};
pub use lookup::{Lookup, LookupError, LookupWriter, Structure};
pub use next_hop::{Action, InterfaceId, Mac, NextHop, NextHopId, NextHops, NextHopsView};
pub use next_hop_writer::{NextHopError, NextHopWriter, Via};
pub use prefix::{Address, Prefix, Prefix4, Prefix6, PrefixError, PrefixOf};
pub use publish::{Published, Subscriber};
pub use rib::{Change, Inserted, Removed, Rib, Route, RouteSource, RouteTarget};
pub use trie6::{Trie6, Trie6Writer};
