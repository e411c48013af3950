// SPDX-License-Identifier: MIT
//! Options of forwarded packets: RFC 1812 4.2.2.2 and 5.3.13, RFC 791 3.1, RFC 7126.

use crate::bench::Bench;
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::wire::options::{COPIED, NOT_COPIED};
use std::net::Ipv4Addr;

/// Forwards a packet with these options; returns those that it has then.
fn forwarded(bench: &mut Bench, options: &[u8]) -> Judged<Vec<u8>> {
    let packet = bench.udp4().options(options);
    let length = packet.options.len();
    let out = bench.pass(Left, &packet, Right)?;
    let view = out.ip4().filter(|view| view.verify_checksum());
    match view.map(|view| view.header()[20..].to_vec()) {
        Some(options) if options.len() == length => Ok(options),
        Some(options) => fail(format_args!("found {} bytes of options, expected {length}", options.len())),
        None => fail("the header is wrong"),
    }
}

/// 5.3.13.1: options that a router does not know MUST pass unchanged.
pub fn unknown_options_pass(bench: &mut Bench) -> Judged {
    // Experiments of RFC 4727, two types that nobody has assigned, and the longest header.
    let longest = [&[0xde, 40][..], &[0x77; 38]].concat();
    let cases = [COPIED.to_vec(), NOT_COPIED.to_vec(), vec![0x5e, 5, 1, 2, 3, 0, 0, 0], vec![0xb5, 4, 1, 2], longest];
    for options in cases {
        same("options", forwarded(bench, &options)?, options.clone()).case(format_args!("type {}", options[0]))?;
    }
    Ok(())
}

/// 5.3.13.5, 5.3.13.6, 4.2.2.2: the address that a router writes into record route and timestamp MUST be that of the
/// interface by which the packet leaves.
pub fn record_route_and_timestamp(bench: &mut Bench) -> Judged {
    record_route(bench).case("record route")?;
    timestamps(bench).case("timestamp")
}

fn record_route(bench: &mut Bench) -> Judged {
    let ours = Right.router4().octets();
    let out = forwarded(bench, &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    same("pointer", out[2], 8)?;
    same("address", &out[3..7], &ours[..])?;
    same("the next one's room", &out[7..11], &[0; 4][..])?;
    // Others have written already.
    let out = forwarded(bench, &[7, 11, 8, 192, 0, 2, 1, 0, 0, 0, 0, 0])?;
    same("second pointer", out[2], 12)?;
    same("both addresses", &out[3..11], &[&[192, 0, 2, 1], &ours[..]].concat()[..])?;
    // Full: passes as it is (RFC 791).
    let full = [7, 7, 8, 192, 0, 2, 1, 0];
    same("a full one", &forwarded(bench, &full)?[..], &full[..])
}

fn timestamps(bench: &mut Bench) -> Judged {
    let ours = Right.router4().octets();
    let out = forwarded(bench, &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    same("pointer, times alone", out[2], 9)?;
    demand(out[4..8] != [0; 4], "no time was written")?;
    let out = forwarded(bench, &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0])?;
    same("pointer, with addresses", out[2], 13)?;
    same("address", &out[4..8], &ours[..])?;
    demand(out[8..12] != [0; 4], "no time was written beside the address")?;
    // Addresses that the sender has chosen: this router's, and another one's.
    let chosen = |address: [u8; 4]| [&[68, 12, 5, 3], &address[..], &[0; 4]].concat();
    let out = forwarded(bench, &chosen(ours))?;
    same("pointer behind its own address", out[2], 13)?;
    demand(out[8..12] != [0; 4], "no time was written for its own address")?;
    let other = chosen([192, 0, 2, 1]);
    same("one that waits for another router", forwarded(bench, &other)?, other)?;
    // Full: it is counted that there was no room.
    let out = forwarded(bench, &[68, 12, 13, 1, 192, 0, 2, 1, 0, 0, 0, 1])?;
    same("overflow", out[3], 0x11)
}

/// A packet to the router whose source route, loose or strict, leads to the right station.
fn routed(bench: &mut Bench, kind: u8) -> crate::wire::Packet4 {
    let route = [&[kind, 7, 4], &Right.station4().octets()[..]].concat();
    bench.udp4().to(Left.router4()).options(&route)
}

const LOOSE: u8 = 131;
const STRICT: u8 = 137;

/// RFC 7126 4.3 and 4.4: routers should drop packets with source routes by default. (5.3.13.4 of RFC 1812 wants them
/// followed.)
pub fn source_routes_are_off(bench: &mut Bench) -> Judged {
    for kind in [LOOSE, STRICT] {
        let packet = routed(bench, kind);
        bench.stays(Left, &packet).case(format_args!("by default, type {kind}"))?;
        // Also one that is on its way to another router.
        let transit = routed(bench, kind).to(Ipv4Addr::new(10, 20, 1, 1));
        bench.stays(Left, &transit).case(format_args!("by default, type {kind}, in transit"))?;
    }
    Ok(())
}

/// RFC 1812 5.2.4.1 and 5.3.13.4: with the switch on, the route is followed, and the address of the interface by which
/// the packet leaves takes the place of the one that was next.
pub fn source_routes_are_followed(bench: &mut Bench) -> Judged {
    for kind in [LOOSE, STRICT] {
        let what = format!("switched on, type {kind}");
        let packet = routed(bench, kind);
        let out = bench.pass(Left, &packet, Right).case(&what)?;
        let Some(view) = out.ip4().filter(|view| view.verify_checksum()) else { return fail("the header is wrong") };
        same(format_args!("destination, {what}"), view.destination(), Right.station4())?;
        same(format_args!("pointer, {what}"), view.header()[22], 8)?;
        same(format_args!("recorded address, {what}"), &view.header()[23..27], &Right.router4().octets()[..])?;
    }
    Ok(())
}
