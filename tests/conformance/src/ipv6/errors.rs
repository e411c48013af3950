// SPDX-License-Identifier: MIT
//! ICMPv6 errors and echo: RFC 4443.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::{NARROW, UNROUTED6};
use crate::seen::is_echo_of;
use crate::wire::{Caught, Packet6};
use perigee_net::MacAddr;
use perigee_packet::Ipv6;
use perigee_packet::wire::icmp6;
use perigee_packet::wire::protocol::FRAGMENT;
use std::net::Ipv6Addr;
use std::time::Duration;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// 3.1: code 0 where no route leads to the destination.
pub fn no_route(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp6().to(UNROUTED6)) {
        bench.refused(Left, &packet, 1, 0).case(path)?;
    }
    Ok(())
}

/// 3.1: code 3 where the destination's link-layer address cannot be found.
pub fn address_unreachable(bench: &mut Bench) -> Judged {
    let packets = both(bench, |bench| bench.udp6().to(Right.host6(0x77)));
    bench.all_refused(&packets, 1, 3)
}

/// 2.4 (c): an error MUST have as much of the packet that it is about as fits in 1280 bytes.
pub fn what_is_quoted(bench: &mut Bench) -> Judged {
    for data in [0, 100, 1100, 1184, 1250] {
        for (path, packet) in both(bench, |bench| {
            let mark = bench.mark();
            let mut packet = Packet6::udp(mark, Left.station6(), UNROUTED6, data.max(16));
            packet.flow_label = 0x5a5a5;
            packet
        }) {
            let what = format!("{data} bytes of data, {path}");
            let error = bench.refused(Left, &packet, 1, 0).case(&what)?;
            let was = packet.to_vec();
            let fits = was.len().min(1280 - 48);
            same(format_args!("bytes that are quoted, {what}"), error.quoted.len(), fits)?;
            let changed = (0..fits).find(|at| *at != 7 && error.quoted[*at] != was[*at]);
            demand(
                changed.is_none(),
                format_args!("byte {} was changed in what is quoted, {what}", changed.unwrap_or(0)),
            )?;
        }
    }
    Ok(())
}

/// The packet in ways that would be answered by errors: type, packet.
fn provocations(packet: &Packet6) -> [(u8, Packet6); 3] {
    let mut long = packet.clone();
    let room = 1500 - (long.to_vec().len() - long.payload.len());
    long.payload.resize(room, 0x5a);
    [(3, packet.clone().hop_limit(1)), (1, packet.clone().to(UNROUTED6)), (2, long)]
}

/// 2.4 (e): no error MUST be sent about an ICMPv6 error, a redirect, a packet to a group or in a link-layer group (but
/// Packet Too Big, and Parameter Problem code 2 where the option says so: row 5), and one whose source does not say who
/// sent it.
pub fn about_nothing_of_these(bench: &mut Bench) -> Judged {
    let quoted = Packet6::udp(7, Right.station6(), Left.station6(), 8).to_vec();
    // 100 and 127 are errors of experiments and to come.
    for kind in [1, 2, 3, 4, 100, 127, icmp6::REDIRECT] {
        for (path, packet) in both(bench, |bench| {
            let mark = bench.mark();
            let body = [&mark.to_be_bytes()[..], &[0; 24], &quoted].concat();
            Packet6::icmp(mark, Left.station6(), Right.station6(), (kind, 0, 0), &body)
        }) {
            for (provoked, packet) in provocations(&packet) {
                let what = format!("about ICMPv6 type {kind}, provoking type {provoked}, {path}");
                bench.silence(Left, &packet).case(what)?;
            }
        }
    }
    for (path, packet) in both(bench, |bench| bench.udp6()) {
        let provoked = provocations(&packet);
        for (kind, packet) in provoked.iter().filter(|(kind, _)| *kind != 2) {
            for mac in [MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
                let seen = bench.offer_to(Left, mac, packet)?;
                seen.is_without_error().case(format_args!("about a frame to {mac}, provoking type {kind}, {path}"))?;
            }
        }
        let nobody = [Ipv6Addr::UNSPECIFIED, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5), Ipv6Addr::LOCALHOST];
        for source in nobody {
            for (kind, packet) in provoked.clone() {
                bench
                    .silence(Left, &packet.from(source))
                    .case(format_args!("from {source}, provoking type {kind}, {path}"))?;
            }
        }
    }
    let groups = [ALL_NODES, Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x4242)];
    for group in groups {
        for (path, packet) in both(bench, |bench| bench.udp6().to(group)) {
            for hops in [1, 64] {
                let packet = packet.clone().hop_limit(hops);
                let seen = bench.offer_to(Left, MacAddr::from_ipv6_multicast(group), &packet)?;
                seen.is_without_error().case(format_args!("to {group}, hop limit {hops}, {path}"))?;
            }
        }
    }
    others_are_answered(bench)
}

fn others_are_answered(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| {
        let mark = bench.mark();
        Packet6::echo(mark, Left.station6(), Right.station6(), 64)
    }) {
        for (kind, mut packet) in provocations(&packet) {
            packet.mark = bench.mark();
            packet.payload[8..16].copy_from_slice(&packet.mark.to_be_bytes());
            bench.refused(Left, &packet, kind, 0).case(format_args!("about an echo request, {path}"))?;
        }
    }
    Ok(())
}

/// Sends packets without hops, and returns how many errors about them came, after at least the `expected` ones or in
/// vain.
fn expired(bench: &mut Bench, count: usize, expected: usize) -> Judged<usize> {
    bench.begin()?;
    for _ in 0..count {
        let packet = bench.udp6().hop_limit(1);
        bench.send(Left, &packet)?;
    }
    let is_error = |caught: &&Caught| caught.error6().is_some_and(|error| error.kind == 3);
    bench.wait(LIMIT, |log| log.iter().filter(is_error).count() >= expected)?;
    bench.settle(Left)?;
    Ok(bench.log().iter().filter(is_error).count())
}

/// 2.4 (f): the rate of errors MUST be limited, by a token bucket as it SHOULD be: a few come at once, and others after
/// a while.
pub fn errors_are_limited(bench: &mut Bench) -> Judged {
    let errors = expired(bench, 400, 1)?;
    demand(errors > 0, "no error came at all")?;
    demand(errors < 200, format_args!("{errors} errors about 400 packets, expected few"))?;
    // Tokens come again.
    bench.listen(Duration::from_millis(3000))?;
    let later = expired(bench, 20, 1)?;
    demand(later > 0, "no error came after a pause")?;
    let echo = bench.echo6(Left, 40);
    bench.send(Left, &echo)?;
    bench.expect("an echo reply behind the errors", |caught| is_echo_of(caught, &echo)).map(|_| ())
}

/// 4.2: every node MUST answer echo requests, with all their data and from the address that was asked; if that is a
/// group, from one of its own addresses.
pub fn echo(bench: &mut Bench) -> Judged {
    let link_local = Left.station_link_local();
    let own = bench.mac(Left, 1).link_local();
    for (from, to) in [
        (Left.station6(), Left.router6()),
        (Left.station6(), Right.router6()),
        (link_local, Left.router6()),
        (link_local, own),
        (Left.station6(), ALL_NODES),
        (link_local, ALL_NODES),
    ] {
        for data in [16, 1001, 1452] {
            let what = format!("from {from} to {to}, {data} bytes of data");
            let echo = Packet6::echo(bench.mark(), from, to, data);
            bench.begin()?;
            let mac = if to == ALL_NODES { MacAddr::from_ipv6_multicast(to) } else { bench.mac(Left, 1) };
            bench.send_to(Left, mac, &echo)?;
            let reply = bench.expect("the echo reply", |caught| is_echo_of(caught, &echo)).case(&what)?;
            let Some((packet, message)) = reply.icmp6() else { return fail("the reply cannot be read") };
            let source = packet.source();
            demand(message.verify_checksum(&source, &from), format_args!("the checksum is wrong, {what}"))?;
            if to != ALL_NODES {
                same(format_args!("source, {what}"), source, to)?;
            }
            demand(!source.is_multicast(), format_args!("the source is {source}, {what}"))?;
            same(format_args!("link, {what}"), reply.side, Left)?;
        }
    }
    large_echo(bench)
}

/// A request that came in fragments over the smaller link: the reply has to be fragmented as well.
fn large_echo(bench: &mut Bench) -> Judged {
    let echo = bench.echo6(Right, 1452);
    let identification = u32::from(bench.number());
    bench.begin()?;
    for piece in echo.pieces(identification, 800) {
        bench.send(Right, &piece)?;
    }
    let mut whole = None;
    bench.wait(LIMIT, |log| {
        whole = crate::wire::reassemble6(log.iter().filter(|caught| {
            let is_piece = |packet: Ipv6<&[u8]>| packet.next_header() == FRAGMENT && packet.source() == Right.router6();
            caught.ip6().is_some_and(is_piece)
        }));
        whole.is_some()
    })?;
    let Some(reply) = whole else {
        return fail("no echo reply came to a request in fragments, whose reply has to be fragmented");
    };
    demand(reply[0] == 129 && reply[4..] == echo.payload[4..], "the reply in fragments is not that of the request")?;
    demand(
        bench.log().iter().all(|caught| caught.side != Right || caught.frame.len() <= NARROW + 14),
        "a fragment is larger than the link takes",
    )
}
