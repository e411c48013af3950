// SPDX-License-Identifier: MIT
//! The lookup structures: several writers at once, one per instruction set, compared with the oracle after every
//! change, and read while they change.

mod dense;
mod harness;
mod ipv4;
mod oracle;
mod poptrie;
mod range6;
mod tables;
mod trie6;
