// SPDX-License-Identifier: MIT
//! What the generator and the tester have in common: ports, threads, and lines for people.
//!
//! ```text
//! floor         the tester's own latency
//! links         whether a link went down meanwhile
//! ports         DPDK devices as ends of cables
//! threads       stations on cores of their own, and what they report once a second
//! surroundings  ports, threads and a clock, for lib/measure's tester
//! text          rates, times and histograms as people read them
//! ```

pub mod floor;
pub mod links;
pub mod ports;
pub mod surroundings;
pub mod text;
pub mod threads;
