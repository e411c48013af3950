// SPDX-License-Identifier: MIT
//! What ICMP messages of the router are like: RFC 1812 4.3.2.2 to 4.3.2.5, 4.3.3.5 and 4.3.3.6.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::UNROUTED4;
use crate::seen::is_echo_of4;
use crate::wire::{IcmpError, Packet4, Probe as _, is_sound4, reassemble4};
use std::net::{IpAddr, Ipv4Addr};

/// A TTL below this is hardly a fresh one.
const FRESH: u8 = 32;

/// 4.3.2.2: the TTL of an ICMP message MUST be set anew, and for responses MUST NOT be taken from the packet that
/// triggered them.
pub fn fresh_ttl(bench: &mut Bench) -> Judged {
    let mut found = Vec::new();
    for ttl in [3, 130, 255] {
        for (path, packet) in both(bench, |bench| bench.unrouted4().ttl(ttl)) {
            found.push(bench.refused(Left, &packet, 3, 0).case(path)?.ttl);
        }
    }
    for (path, packet) in both(bench, |bench| bench.udp4().ttl(1)) {
        found.push(bench.refused(Left, &packet, 11, 0).case(path)?.ttl);
    }
    demand(
        found.iter().all(|ttl| *ttl >= FRESH),
        format_args!("TTL of errors: found {found:?}, expected {FRESH} or more"),
    )?;
    same("TTLs of errors", found.iter().min(), found.iter().max())?;
    let mut replies = Vec::new();
    for ttl in [1, 3, 255] {
        let echo = bench.echo4(Left, 40).ttl(ttl);
        bench.begin()?;
        bench.send(Left, &echo)?;
        let reply = bench.expect("the echo reply", |caught| is_echo_of4(caught, &echo))?;
        replies.extend(reply.ip4().map(|view| view.ttl()));
    }
    demand(
        replies.iter().all(|ttl| *ttl >= FRESH),
        format_args!("TTL of replies: found {replies:?}, expected {FRESH} or more"),
    )?;
    same("TTLs of echo replies", replies.iter().min(), replies.iter().max())
}

/// 4.3.2.3: the IP header and data that an error returns MUST be as they came, but for what forwarding may have changed
/// (TTL, and so the checksum); it SHOULD have as much as fits in an ICMP packet of 576 bytes.
pub fn what_is_quoted(bench: &mut Bench) -> Judged {
    for data in [0, 8, 64, 1000] {
        for (path, packet) in
            both(bench, |bench| Packet4::udp(bench.number(), Left.station4(), Right.station4(), data).tos(0x08))
        {
            let what = format!("{data} bytes of UDP data, {path}");
            let expired = packet.clone().ttl(1);
            let unrouted =
                Packet4 { identification: bench.number(), source: bench.stranger4(), ..packet }.to(UNROUTED4);
            for (packet, kind) in [(expired, 11), (unrouted, 3)] {
                let error = bench.refused(Left, &packet, kind, 0).case(&what)?;
                is_quoted(&packet, &error).case(&what)?;
            }
        }
    }
    Ok(())
}

fn is_quoted(packet: &Packet4, error: &IcmpError) -> Judged {
    let (was, quoted) = (packet.to_vec(), &error.quoted);
    let least = packet.header_len() + 8;
    demand(quoted.len() >= least, format_args!("{} bytes are quoted, expected at least {least}", quoted.len()))?;
    let length = quoted.len().min(was.len());
    let forwarded = |at: usize| (8..12).contains(&at) && at != 9;
    let changed = (0..length).find(|at| !forwarded(*at) && was[*at] != quoted[*at]);
    demand(changed.is_none(), format_args!("byte {} of what is quoted was changed", changed.unwrap_or(0)))?;
    demand(error.length <= 576, format_args!("the error has {} bytes, more than 576 (S)", error.length))?;
    // As much as fits; in steps of 4 or 8 bytes for all one knows.
    let fits = was.len().min(576 - 28);
    demand(quoted.len() + 8 > fits, format_args!("{} bytes are quoted, {fits} would fit (S)", quoted.len()))
}

/// 4.3.2.4: the source MUST be one of the addresses of the interface over which the message is sent; so an error that
/// leaves by another interface than the packet came by has that one's.
pub fn source_address(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4().ttl(1)) {
        let error = bench.refused(Left, &packet, 11, 0).case(path)?;
        same(format_args!("source, {path}"), error.source, Left.router4().into())?;
    }
    let behind = Ipv4Addr::new(10, 20, 1, 9);
    for (path, packet) in both(bench, |bench| bench.udp4().from(behind).to(Left.host4(9)).ttl(1)) {
        bench.begin()?;
        bench.send(Left, &packet)?;
        bench.wait(LIMIT, |log| log.iter().any(|caught| packet.error_in(caught).is_some()))?;
        bench.settle(Left)?;
        let errors = bench.seen(&packet).errors;
        let found: Vec<(_, IpAddr)> = errors.iter().map(|(side, error)| (*side, error.source)).collect();
        let expected = vec![(Right, IpAddr::V4(Right.router4()))];
        same(format_args!("link and source of an error that leaves by another link, {path}"), found, expected)?;
    }
    Ok(())
}

/// 4.3.2.5: an error SHOULD have the TOS bits of the packet that provoked it, and precedence 6 or 7. A reply has the
/// TOS of the request.
pub fn type_of_service(bench: &mut Bench) -> Judged {
    // D, T and R of RFC 795, and precedences; not the lowest two bits, which are ECN today.
    const SERVICE: u8 = 0x1c;
    for tos in [0x00, 0x10, 0x08, 0x04, 0x1c, 0x30, 0xa8] {
        for (path, packet) in both(bench, |bench| bench.udp4().tos(tos).ttl(1)) {
            let error = bench.refused(Left, &packet, 11, 0).case(path)?;
            let what = format!("of an error about TOS {tos:#04x}, {path}");
            same(format_args!("TOS bits {what}"), error.tos & SERVICE, tos & SERVICE)?;
            demand(error.tos >> 5 >= 6, format_args!("precedence {what}: found {}, expected 6 or 7", error.tos >> 5))?;
        }
        let echo = bench.echo4(Left, 40).tos(tos);
        bench.begin()?;
        bench.send(Left, &echo)?;
        let reply = bench.expect("the echo reply", |caught| is_echo_of4(caught, &echo))?;
        same("TOS of an echo reply", reply.ip4().map(|view| view.tos()), Some(tos))?;
    }
    Ok(())
}

/// 4.3.3.5: a Parameter Problem MUST be sent for an error that no other message covers, its pointer at the byte that is
/// wrong, and the option it is in MUST be returned unchanged.
pub fn pointer(bench: &mut Bench) -> Judged {
    // Options, where the bad one starts, and which of its bytes may be named.
    let cases: [(&[u8], usize, &[usize]); 6] = [
        // Record route with a pointer below 4.
        (&[7, 7, 3, 0, 0, 0, 0, 0], 0, &[2]),
        (&[1, 1, 7, 7, 1, 0, 0, 0, 0, 0, 0, 0], 2, &[2]),
        // A length beyond the header.
        (&[7, 40, 4, 0], 0, &[0, 1]),
        (&[1, 1, 1, 7, 9, 4, 0, 0], 3, &[0, 1]),
        // A length that has not even room for itself.
        (&[1, 7, 1, 4], 1, &[0, 1]),
        // A timestamp with a pointer below 5.
        (&[68, 8, 3, 0, 0, 0, 0, 0], 0, &[2]),
    ];
    for (options, start, bytes) in cases {
        let packet = bench.udp4().options(options);
        let what = format!("options {options:?}");
        let error = bench.refused(Left, &packet, 12, 0).case(&what)?;
        let expected: Vec<usize> = bytes.iter().map(|byte| 20 + start + byte).collect();
        let found = (error.rest >> 24) as usize;
        demand(
            expected.contains(&found),
            format_args!(
                "pointer for {what}: found {found}, expected {}",
                expected.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ")
            ),
        )?;
        let was = packet.to_vec();
        demand(
            error.quoted.get(20 + start..packet.header_len()) == Some(&was[20 + start..packet.header_len()]),
            format_args!("the option was changed in what is quoted, {what}"),
        )?;
    }
    Ok(())
}

/// 4.3.3.6: a router MUST receive, reassemble and echo a request as large as 576 bytes and the MTUs of its links, with
/// all its data.
pub fn echo(bench: &mut Bench) -> Judged {
    for data in [0, 1, 7, 548, 1001, 1472] {
        let echo = bench.echo4(Left, data);
        bench.begin()?;
        bench.send(Left, &echo)?;
        let reply = bench.expect("the echo reply", |caught| is_echo_of4(caught, &echo));
        let reply = reply.case(format_args!("{data} bytes of data"))?;
        same("source of the reply", reply.ip4().map(|view| view.source()), Some(Left.router4()))?;
    }
    // The largest one in fragments; and over the smaller link, where the reply has to be fragmented.
    for side in [Left, Right] {
        let echo = bench.echo4(side, 1472);
        bench.begin()?;
        for piece in echo.pieces(800) {
            bench.send(side, &piece)?;
        }
        let mut whole = None;
        bench.wait(LIMIT, |log| {
            whole = reassemble4(log.iter().filter(|caught| {
                caught.ip4().is_some_and(|view| {
                    view.protocol() == 1 && view.source() == side.router4() && view.total_len() > 100
                })
            }));
            whole.is_some()
        })?;
        let Some(reply) = whole else {
            return fail(format_args!("no echo reply came to a request of 1500 bytes in fragments on the {side} link"));
        };
        demand(reply[0] == 0 && is_sound4(&reply), "the reply's type or checksum is wrong")?;
        demand(reply[4..] == echo.payload[4..], "the data of the reply are not those of the request")?;
    }
    Ok(())
}
