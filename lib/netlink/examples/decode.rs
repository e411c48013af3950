// SPDX-License-Identifier: MIT
//! What it costs to decode a route: here, and with netlink-packet-route. `cargo run --release -p perigee-netlink
//! --example decode`
//!
//! A dump's datagram of 300 IPv4 routes with one next hop each is decoded many times by both in turn.

use std::time::Instant;

use perigee_netlink::decode::{Tally, decode};
use rtnetlink::packet_core::NetlinkMessage;
use rtnetlink::packet_route::RouteNetlinkMessage;

const ROUTES: usize = 300;
const ROUNDS: usize = 2000;

/// RTM_NEWROUTE as Linux dumps it: table, destination, priority, gateway, link.
fn route(n: u32) -> Vec<u8> {
    let attribute = |kind: u16, value: [u8; 4]| [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat();
    let attributes = [
        attribute(15, 254u32.to_ne_bytes()),
        attribute(1, (0x0a00_0000 + n * 256).to_be_bytes()),
        attribute(6, 32u32.to_ne_bytes()),
        attribute(5, [10, 0, 0, 2]),
        attribute(4, 7u32.to_ne_bytes()),
    ];
    let head = [2, 24, 0, 0, 254, 12, 0, 1, 0, 0, 0, 0];
    let length = 16 + head.len() as u32 + 40;
    let header = [&length.to_ne_bytes()[..], &24u16.to_ne_bytes(), &2u16.to_ne_bytes(), &[0; 8]].concat();
    [header, head.to_vec(), attributes.concat()].concat()
}

fn main() {
    let datagram: Vec<u8> = (0..ROUTES as u32).flat_map(route).collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        let start = Instant::now();
        let (mut messages, mut tally) = (Vec::with_capacity(ROUTES), Tally::default());
        for _ in 0..ROUNDS {
            messages.clear();
            decode(&datagram, None, &mut messages, &mut tally);
        }
        assert_eq!((messages.len(), tally), (ROUTES, Tally::default()));
        ours.push(start.elapsed().as_nanos() as f64 / (ROUTES * ROUNDS) as f64);

        let start = Instant::now();
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).expect("a message");
                rest = &rest[message.header.length as usize..];
                seen += 1;
            }
        }
        assert_eq!(seen, ROUTES * ROUNDS);
        theirs.push(start.elapsed().as_nanos() as f64 / (ROUTES * ROUNDS) as f64);
    }
    let median = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!("ns per route: {ours:.0} here, {theirs:.0} with netlink-packet-route: {:.2} of it", ours / theirs);
}
