// SPDX-License-Identifier: MIT
//! What is on the wire: one file per header, each a view that checks the bytes once and is safe to read and write
//! afterwards.
//!
//! ```text
//! ethernet > vlan > arp
//!                   ipv4 (ipv4_options) > icmp4, udp
//!                   ipv6 (extension)    > icmp6 (nd_options), udp
//! flow       the five fields that make a flow, and its hash   summary    a frame described in one line
//! malformed  why bytes are not what they should be            checksum   RFC 1071, RFC 1624
//! protocol   numbers                                       checksums  all of a frame's at once
//! super_frame  many segments of a flow in one frame         tuple      the same as filters match it, and what is missing of it
//! ```

pub mod arp;
mod bytes;
#[cfg(test)]
mod captured;
pub mod checksum;
pub mod checksums;
pub mod ethernet;
pub mod extension;
pub mod flow;
pub mod icmp4;
pub mod icmp6;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod malformed;
pub mod nd_options;
pub mod protocol;
pub mod summary;
pub mod super_frame;
pub mod tuple;
pub mod udp;
pub mod vlan;

pub use arp::Arp;
pub use ethernet::Ethernet;
pub use extension::{ExtensionHeaders, Ipv6Option, Ipv6Options};
pub use icmp4::Icmp4;
pub use icmp6::Icmp6;
pub use ipv4::Ipv4;
pub use ipv4_options::{Ipv4Option, Ipv4Options};
pub use ipv6::Ipv6;
pub use malformed::Malformed;
pub use nd_options::{NdOption, NdOptions};
pub use summary::Summary;
pub use super_frame::SuperFrame;
pub use udp::Udp;
pub use vlan::Vlan;
