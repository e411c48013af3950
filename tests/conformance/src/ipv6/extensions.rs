// SPDX-License-Identifier: MIT
//! Extension headers: RFC 8200 4, RFC 5095, RFC 5722, RFC 6946.

use super::{both, is_unchanged};
use crate::bench::Bench;
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::seen::is_echo_of;
use crate::wire::{Extension, Packet6, destination_options, fragment_header, hop_by_hop, routing};
use perigee_net::MacAddr;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Options that nobody knows, by what their highest bits say (RFC 8200 4.2); the rest is that of experiments (RFC
/// 4727).
const SKIP: u8 = 0x1e;
const DISCARD: u8 = 0x5e;
const REPORT: u8 = 0x9e;
const REPORT_UNICAST: u8 = 0xde;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// RFC 8200 4: extension headers but for hop-by-hop options are not processed by any node along the path. So whatever
/// they are, packets pass unchanged.
pub fn transit_ignores_headers(bench: &mut Bench) -> Judged {
    let headers: [(&str, Vec<Extension>, u8); 9] = [
        ("destination options, unknown, to be reported", vec![destination_options(&[REPORT_UNICAST, 2, 1, 2])], 17),
        ("destination options, malformed", vec![(60, vec![0, 0, 0x3e, 77, 1, 2, 3, 4])], 17),
        ("routing header of type 0", vec![routing(0, 1, Right.station6())], 17),
        ("routing header of an unknown type", vec![routing(253, 1, Right.station6())], 17),
        ("first fragment", vec![fragment_header(5, 0, true)], 17),
        ("later fragment", vec![fragment_header(5, 1240, false)], 17),
        (
            "authentication header",
            vec![(51, vec![0, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])],
            17,
        ),
        ("unknown next header", Vec::new(), 253),
        ("no next header", Vec::new(), 59),
    ];
    for (name, extensions, protocol) in headers {
        for (path, mut packet) in both(bench, |bench| bench.udp6()) {
            packet.extensions.extend(extensions.clone());
            packet.protocol = protocol;
            let out = bench.pass(Left, &packet, Right).case(format_args!("{name}, {path}"))?;
            is_unchanged(&packet, &out).case(format_args!("{name}, {path}"))?;
        }
    }
    // Fragments that overlap are their destination's business.
    let packet = bench.udp6();
    for (offset, length) in [(0, 40), (32, 40), (8, 16)] {
        let piece = packet.piece(77, offset, length);
        let out = bench.pass(Left, &piece, Right).case("overlapping fragments")?;
        is_unchanged(&piece, &out).case("overlapping fragments")?;
    }
    Ok(())
}

/// RFC 8200 4.2: the two highest bits of an option that a node does not know say what it does: skip it; discard the
/// packet; discard it and report it, to a group as well; discard it and report it unless to a group. Here of packets to
/// the router, in both headers that have options. In transit a router may leave hop-by-hop options alone (4.8), or do
/// what the bits say.
pub fn action_bits(bench: &mut Bench) -> Judged {
    type Header = fn(&[u8]) -> Extension;
    let headers: [(&str, Header); 2] = [("hop-by-hop", hop_by_hop), ("destination", destination_options)];
    for (name, header) in headers {
        for (kind, answered, reported) in
            [(SKIP, true, false), (DISCARD, false, false), (REPORT, false, true), (REPORT_UNICAST, false, true)]
        {
            to_the_router(bench, header(&[1, 0, kind, 0]), answered, reported.then_some(44))
                .case(format_args!("{name} option {kind:#04x} to the router"))?;
        }
        // To a group of the router's.
        for (kind, reported) in [(REPORT, true), (REPORT_UNICAST, false)] {
            let echo = bench.echo6(Left, 40).to(ALL_NODES).extension(header(&[1, 0, kind, 0]));
            bench.begin()?;
            bench.send_to(Left, ALL_NODES_MAC, &echo)?;
            bench.wait(Duration::from_millis(if reported { 3000 } else { 100 }), |log| {
                log.iter().any(|caught| caught.error6().is_some())
            })?;
            bench.settle(Left)?;
            let errors: Vec<_> = bench.seen(&echo).errors.iter().map(|(_, e)| (e.kind, e.code, e.rest)).collect();
            let expected = if reported { vec![(4, 2, 44)] } else { Vec::new() };
            same(format_args!("errors about {name} option {kind:#04x} to a group"), errors, expected)?;
        }
    }
    for (kind, reported) in [(SKIP, None), (DISCARD, Some(false)), (REPORT, Some(true)), (REPORT_UNICAST, Some(true))] {
        in_transit(bench, kind, reported).case(format_args!("hop-by-hop option {kind:#04x} in transit"))?;
    }
    Ok(())
}

/// An echo request with this header: is it answered, or reported with this pointer?
fn to_the_router(bench: &mut Bench, header: Extension, answered: bool, pointer: Option<u32>) -> Judged {
    let echo = bench.echo6(Left, 40).extension(header);
    bench.begin()?;
    bench.send(Left, &echo)?;
    if answered {
        bench.expect("the echo reply", |caught| is_echo_of(caught, &echo))?;
    }
    if pointer.is_some() {
        bench.expect("an ICMP error", |caught| caught.error6().is_some())?;
    }
    // Where nothing is to come, what follows on the same way must have: another echo request that is answered.
    let good = bench.echo6(Left, 40).extension(destination_options(&[]));
    bench.send(Left, &good)?;
    bench.expect("the reply to the next echo request", |caught| is_echo_of(caught, &good))?;
    bench.settle(Left)?;
    let replies = bench.log().iter().filter(|caught| is_echo_of(caught, &echo)).count();
    same("echo replies", replies, usize::from(answered))?;
    let errors: Vec<_> = bench.seen(&echo).errors.iter().map(|(_, e)| (e.kind, e.code, e.rest)).collect();
    same("errors (type, code, pointer)", errors, pointer.map(|pointer| (4, 2, pointer)).into_iter().collect())
}

/// `reported`: what the bits say of a packet that is dropped.
fn in_transit(bench: &mut Bench, kind: u8, reported: Option<bool>) -> Judged {
    let packet = bench.udp6().extension(hop_by_hop(&[1, 0, kind, 0]));
    let Some(reported) = reported else {
        let out = bench.pass(Left, &packet, Right)?;
        return is_unchanged(&packet, &out);
    };
    let seen = if reported { bench.outcome(Left, &packet)? } else { bench.offer(Left, &packet)? };
    let errors: Vec<_> = seen.errors.iter().map(|(_, e)| (e.kind, e.code, e.rest)).collect();
    if let [out] = &seen.passed[..] {
        same("errors about a packet that was forwarded", errors, Vec::new())?;
        return is_unchanged(&packet, out);
    }
    same("errors (type, code, pointer)", errors, if reported { vec![(4, 2, 44)] } else { Vec::new() })
}

/// RFC 5095 3: a routing header of type 0 is treated as one of an unknown type (RFC 8200 4.4): with segments left, the
/// packet is discarded and Parameter Problem code 0 points at the type; without, the header is skipped.
pub fn routing_headers(bench: &mut Bench) -> Judged {
    for kind in [0, 253] {
        for (path, echo) in both(bench, |bench| bench.echo6(Left, 40)) {
            let at = echo.extensions.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() + 42;
            let what = format!("type {kind}, segments left, {path}");
            let packet = echo.extension(routing(kind, 1, Right.station6()));
            let error = bench.refused(Left, &packet, 4, 0).case(&what)?;
            same(format_args!("pointer, {what}"), error.rest as usize, at)?;
        }
        for (path, echo) in both(bench, |bench| bench.echo6(Left, 40)) {
            let echo = echo.extension(routing(kind, 0, Right.station6()));
            bench.begin()?;
            bench.send(Left, &echo)?;
            let what = format!("type {kind}, no segments left, {path}");
            bench.expect("the echo reply", |caught| is_echo_of(caught, &echo)).case(what)?;
        }
    }
    Ok(())
}

/// An echo request that the fragments of a row are pieces of.
fn whole(bench: &mut Bench) -> Packet6 {
    bench.echo6(Left, 1192)
}

/// RFC 5722 4, RFC 8200 4.5: if any fragments of a datagram overlap, the datagram, and fragments of it that are yet to
/// come, MUST be silently discarded. RFC 6946 4: a packet with a fragment header that is no fragment MUST be processed
/// by itself.
pub fn overlapping_and_atomic_fragments(bench: &mut Bench) -> Judged {
    // The echo request is 1200 bytes long: where pieces start and how long they are.
    let cases: [(&str, &[(usize, usize)]); 5] = [
        ("the second begins within the first", &[(0, 408), (400, 400), (800, 400)]),
        ("one lies inside another", &[(0, 800), (400, 200), (800, 400)]),
        ("the first one comes later and reaches into the second", &[(400, 400), (0, 600), (800, 400)]),
        ("the same start, another length", &[(0, 400), (0, 408), (400, 800)]),
        ("one covers two others", &[(0, 400), (400, 400), (0, 808), (800, 400)]),
    ];
    for (name, pieces) in cases {
        let echo = whole(bench);
        let identification = u32::from(bench.number());
        bench.begin()?;
        for (offset, length) in pieces {
            bench.send(Left, &echo.piece(identification, *offset, *length))?;
        }
        // A datagram without overlaps is put together behind it.
        let good = whole(bench);
        let identification = u32::from(bench.number());
        for piece in good.pieces(identification, 400) {
            bench.send(Left, &piece)?;
        }
        bench.expect("the reply to fragments that do not overlap", |caught| is_echo_of(caught, &good)).case(name)?;
        bench.listen(Duration::from_millis(100))?;
        let replied = bench.log().iter().any(|caught| is_echo_of(caught, &echo));
        demand(!replied, format_args!("fragments that overlap were put together: {name}"))?;
        if let Some((_, error)) = bench.seen(&echo).errors.first() {
            return fail(format_args!("an ICMP error of type {} came, expected silence: {name}", error.kind));
        }
    }
    atomic(bench)
}

fn atomic(bench: &mut Bench) -> Judged {
    let waiting = whole(bench);
    let identification = u32::from(bench.number());
    let mut pieces = waiting.pieces(identification, 400);
    bench.begin()?;
    let last = pieces.pop();
    for piece in &pieces {
        bench.send(Left, piece)?;
    }
    // Of the same identification.
    let alone = bench.echo6(Left, 40).extension(fragment_header(identification, 0, false));
    bench.send(Left, &alone)?;
    bench.expect("the reply to an atomic fragment", |caught| is_echo_of(caught, &alone))?;
    if let Some(last) = last {
        bench.send(Left, &last)?;
    }
    let what = "the reply to fragments between which an atomic one came";
    bench.expect(what, |caught| is_echo_of(caught, &waiting)).map(|_| ())
}
