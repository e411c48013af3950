// SPDX-License-Identifier: MIT
//! The scoreboard: the rows of two lists of what RFCs demand of a router, packets in and packets out.
//!
//! ```text
//! rows       the table of all rows: number, section, level, sentence, tests
//! ipv4 ipv6  the tests, by topic
//! bench      a world as a test sees it: stations that send, what came out, silence that is judged by what follows; seen: of one packet
//! wire       packets with every field to choose; frames that came out
//! station    ARP and neighbor discovery for the stations; link: their packet sockets
//! network    links, addresses, routes; the worlds and how they differ
//! target     the router: perigee, the kernel, any command line
//! run        namespaces, worlds side by side, outcomes
//! board      what is printed; page: docs/conformance.md; record: frames of a row that fails
//! ```
#![forbid(unsafe_code)]

mod bench;
pub mod board;
mod ipv4;
mod ipv6;
mod judge;
mod link;
pub mod network;
pub mod page;
mod record;
pub mod rows;
pub mod run;
mod seen;
mod station;
pub mod target;
mod wire;
