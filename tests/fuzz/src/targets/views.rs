// SPDX-License-Identifier: MIT
//! The views of packets: whatever the bytes are, a view refuses them, or what it reports is consistent and what it writes reads back.

use crate::input::Input;
use crate::views;

const VIEWS: [fn(&[u8]) -> bool; 8] = [
    views::ethernet,
    views::vlan,
    views::arp,
    views::ipv4,
    views::icmp4,
    views::ipv6,
    views::icmp6,
    views::udp,
];

/// Runs one input: which view, and its bytes.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let view = input.pick(&VIEWS);
    view(input.rest());
}
