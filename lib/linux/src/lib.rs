// SPDX-License-Identifier: MIT
//! Linux is the control plane: what `ip`, BIRD and FRR set up there, the router does. A machine without I/O, clock or
//! thread:
//!
//! ```text
//!                        (now, Input)                                   Effects
//!  kernel ──feed───► links, addresses, neighbors,  ─┐   ┌────────────► helper: neighbors, carrier, twins, sockets
//!                    next-hop objects, routes       │   │            ► feeds: dump everything
//!  zebra ───feed───► routes ────────────────────────┼─► Follower ────► slow path: neighbors that operators set
//!  helper ─────────► a twin was made, or was not ───┤   │            ► interfaces have changed
//!  slow path ──────► neighbors ─────────────────────┤   │            ► an audit has ended
//!  clock ──────────► handle_timeout ────────────────┘   ▼
//!                                                     Table: interfaces, and the routes of source Linux
//! ```
//!
//! The caller gives each [`Input`] to [`Follower::handle`], calls [`Follower::handle_timeout`] when
//! [`Follower::next_timeout`] says so and [`Follower::settle`] after each run of inputs, and carries out what
//! [`Follower::poll_effect`] returns after each of these calls. This crate can only touch the follower's own state, and
//! the parts of the router that [`Table`] offers; the audit also those of [`Audited`].
//!
//! | file | contents |
//! | --- | --- |
//! | `types.rs` | inputs, effects, and the table as the follower sees it |
//! | `follower.rs` | [`Follower`]: its state, and where each input goes |
//! | `feed.rs` | one feed: its dump in progress, its next-hop objects |
//! | `next_hops.rs` | next-hop objects, and which groups they are members of |
//! | `routes.rs` | one route that is there or gone |
//! | `translate.rs` | Linux's routes translated for the table |
//! | `rules.rs` | policy rules |
//! | `exceptions.rs` | what Linux alone can forward, and packets that need a closer look |
//! | `left_out.rs` | routes that are left out, to name some |
//! | `dump.rs` | a dump compared with what is there: only what differs changes |
//! | `merge.rs` | a dump and the RIB side by side, in order |
//! | `audit.rs` | Linux, RIB and lookup structures compared |
//! | `limit.rs`, `refused.rs` | routes that there is no room for, and in which prefixes they may be |
//! | `links.rs` | links and addresses to interfaces, and the reverse |
//! | `multicast.rs` | multicast routes |
//! | `neighbors.rs` | neighbors, both ways |
//! | `proxies.rs` | for which other stations the router answers |
//! | `twins.rs` | twins and namespaces that went away are made again |
//! | `differences.rs` | where the router does not do what Linux's interfaces say |
//! | `settings.rs` | Linux's settings of its links |
//! | `status.rs` | numbers to show |
#![forbid(unsafe_code)]

mod audit;
mod differences;
mod dump;
mod exceptions;
mod feed;
mod follower;
mod left_out;
mod limit;
mod links;
mod merge;
mod multicast;
mod neighbors;
mod next_hops;
mod proxies;
mod refused;
mod routes;
mod rules;
mod settings;
mod status;
mod translate;
mod twins;
mod types;

pub use audit::{AuditReport, Difference, DifferenceKind};
pub use follower::Follower;
pub use left_out::LeftOut;
pub use status::{State, Status};
pub use translate::Skip;
pub use twins::missing_link_local;
pub use types::{Audited, Effect, FeedId, HelperRequest, Identity, Input, KnownNeighbor, Port, Report, Setup, Table};
