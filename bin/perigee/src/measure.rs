// SPDX-License-Identifier: MIT
//! What the generator and the tester have in common: ports, threads, and lines for people.
//!
//! ```text
//! ports     DPDK devices as ends of cables
//! threads   stations on cores of their own, and what they report once a second
//! text      rates, times and histograms as people read them
//! ```

pub mod ports;
pub mod text;
pub mod threads;
