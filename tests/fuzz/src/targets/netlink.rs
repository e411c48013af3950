// SPDX-License-Identifier: MIT
//! Netlink datagrams: whatever the bytes are, the decoder takes or counts them, and what it takes is within its bounds.

use crate::input::Input;
use perigee_netlink::decode::{Tally, decode};
use perigee_netlink::message::{Message, MulticastRoute};

/// Runs one input: the sequence number that is waited for, then a datagram.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sequence = [None, Some(0), Some(7)][input.below(3)];
    let datagram = input.rest();
    let (mut messages, mut tally) = (Vec::new(), Tally::default());
    let dump = decode(datagram, sequence, &mut messages, &mut tally);
    // A header of 16 bytes for each.
    let most = datagram.len() / 16 + 1;
    assert!(messages.len() + (tally.malformed + tally.skipped) as usize <= most, "{} messages, {tally:?}", messages.len());
    assert!(dump.error.is_none_or(|error| error >= 0), "an error number that is negative: {dump:?}");
    messages.iter().for_each(check);
}

/// Panics if a message says what no message can mean.
pub fn check(message: &Message) {
    match message {
        Message::Route(route) | Message::RouteGone(route) => {
            assert!(route.hops.as_slice().iter().all(|hop| (1..=256).contains(&hop.weight)), "{route:?}");
            assert!(route.prefix.len() <= if route.prefix.addr().is_ipv4() { 32 } else { 128 });
        }
        Message::MulticastRoute(MulticastRoute { key: (group, source), .. })
        | Message::MulticastRouteGone((group, source)) => {
            assert!(group.is_multicast() && source.is_none_or(|source| source.is_ipv4() == group.is_ipv4()));
        }
        _ => {}
    }
}
