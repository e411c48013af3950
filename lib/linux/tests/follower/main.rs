// SPDX-License-Identifier: MIT
//! The follower with a simulated kernel: no namespaces, no threads, no clock but the tests' own.
//!
//! | file | contents |
//! | --- | --- |
//! | `world.rs` | the simulated kernel and zebra, the router's tables, and the caller between them |
//! | `kernel.rs` | what a kernel may do, at random, and what the router should have of it then |
//! | `fuzz.rs` | whatever the kernel does, loses or keeps to itself, the routes converge |
//! | `routes.rs` | single routes: which are followed, replaced, withdrawn, left out |
//! | `next_hops.rs` | next-hop objects: replaced in place, deleted, lost with a link |
//! | `dumps.rs` | dumps: incomplete, among notifications, in doubt |
//! | `links.rs` | links, addresses, VLANs, MTUs, carrier |
//! | `addresses.rs` | addresses on links that are none of the router's; what distinguishes addresses |
//! | `multicast.rs` | multicast routes |
//! | `neighbors.rs` | neighbors, both ways |
//! | `proxies.rs` | for which other stations the router answers |
//! | `twins.rs` | twins, namespaces and sockets that go away |
//! | `audit.rs` | the audit: what it finds, repairs and counts |

mod addresses;
mod audit;
mod dumps;
mod fuzz;
mod kernel;
mod limit;
mod links;
mod linux_only;
mod multicast;
mod neighbors;
mod next_hops;
mod own_stack;
mod proxies;
mod routes;
mod twins;
mod world;
