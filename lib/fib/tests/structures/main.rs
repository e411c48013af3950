// SPDX-License-Identifier: MIT
//! The lookup structures: several writers at once, for each instruction set one, against the oracle after every change,
//! and under readers while they change.

mod harness;
mod ipv4;
mod oracle;
mod poptrie;
mod range6;
mod tables;
mod trie6;
