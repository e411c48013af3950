// SPDX-License-Identifier: MIT
//! Neighbor discovery messages: which are valid (RFC 4861 7.1), what they change (7.2.5), and duplicate address
//! detection (RFC 4862 5.4).

use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, same};
use crate::network::Side::{self, Left, Right};
use crate::network::mac;
use crate::seen::is_echo_of;
use crate::station::advertisement;
use crate::wire::{Caught, Packet6, target};
use perigee_net::{MacAddr, solicited_node};
use perigee_packet::NdOptions;
use perigee_packet::wire::icmp6::{self, Advertisement};
use perigee_packet::wire::{ethernet::ethertype, protocol};
use std::net::Ipv6Addr;
use std::time::Duration;

/// A neighbor solicitation for the router's address on a link, with these options.
fn solicitation(bench: &mut Bench, side: Side, options: &[u8]) -> Packet6 {
    let target = side.router6();
    let body = [&target.octets()[..], options].concat();
    let group = solicited_node(target);
    let kind = (icmp6::NEIGHBOR_SOLICITATION, 0, 0);
    Packet6::icmp(bench.mark(), side.station6(), group, kind, &body).hop_limit(255)
}

/// The option that says who asks.
fn own_mac(mac: MacAddr) -> Vec<u8> {
    [&[1, 1], &mac.octets()[..]].concat()
}

/// How often the router's address was advertised since `begin`.
fn advertised(bench: &Bench, side: Side) -> usize {
    advertised_in(bench.log(), side)
}

fn advertised_in(log: &[Caught], side: Side) -> usize {
    let is_one = |kind: u8, of: Option<Ipv6Addr>| kind == icmp6::NEIGHBOR_ADVERTISEMENT && of == Some(side.router6());
    let own = |caught: &&Caught| {
        caught.side == side && caught.icmp6().is_some_and(|(_, message)| is_one(message.kind(), target(&message)))
    };
    log.iter().filter(own).count()
}

/// Solicits; returns how often that was answered. An answer that must come is waited for: the last marker does not wait
/// for the thread of the slow path that answers.
fn ask(bench: &mut Bench, packet: &Packet6, expected: usize) -> Judged<usize> {
    bench.begin()?;
    let group = MacAddr::from_ipv6_multicast(solicited_node(Left.router6()));
    bench.send_to(Left, group, packet)?;
    bench.settle(Left)?;
    if expected > 0 {
        bench.wait(LIMIT, |log| advertised_in(log, Left) >= expected)?;
    }
    Ok(advertised(bench, Left))
}

/// RFC 4861 7.1.1 and 7.1.2: solicitations and advertisements MUST be silently discarded unless hop limit is 255,
/// checksum and code are right, the message is long enough, its target is no group and no option has length 0; a
/// solicitation from the unspecified address goes to a solicited-node address and has no link-layer address.
pub fn messages_are_validated(bench: &mut Bench) -> Judged {
    let own = own_mac(mac(bench.world(), Left, 2));
    let good = solicitation(bench, Left, &own);
    same("answers to a valid solicitation", ask(bench, &good, 1)?, 1)?;
    let with = |change: fn(&mut Packet6)| {
        let mut packet = good.clone();
        change(&mut packet);
        packet
    };
    let unspecified = good.clone().from(Ipv6Addr::UNSPECIFIED);
    let mut bare = unspecified.clone();
    bare.payload.truncate(24);
    let bad: [(&str, Packet6); 9] = [
        ("hop limit 254", with(|packet| packet.hop_limit = 254)),
        ("hop limit 64", with(|packet| packet.hop_limit = 64)),
        (
            "a wrong checksum",
            with(|packet| {
                packet.payload = packet.upper_layer();
                packet.payload[2] ^= 1;
                packet.sums = false;
            }),
        ),
        ("code 1", with(|packet| packet.payload[1] = 1)),
        ("20 bytes", with(|packet| packet.payload.truncate(20))),
        ("an option of length 0", with(|packet| packet.payload[25] = 0)),
        ("a group as its target", with(|packet| packet.payload[8..10].copy_from_slice(&[0xff, 2]))),
        ("a link-layer address from the unspecified address", unspecified),
        ("the unspecified address, and not to a solicited-node address", bare.to(Left.router6())),
    ];
    for (name, packet) in &bad {
        same(format_args!("answers to a solicitation with {name}"), ask(bench, packet, 0)?, 0)?;
    }
    let good = solicitation(bench, Left, &own);
    same("answers to a valid solicitation at the end", ask(bench, &good, 1)?, 1)?;
    advertisements_are_validated(bench)
}

fn advertisements_are_validated(bench: &mut Bench) -> Judged {
    type Change = fn(&mut Vec<u8>);
    let bad: [(&str, Change); 4] = [
        ("hop limit 64", |bytes| bytes[7] = 64),
        ("a wrong checksum", |bytes| bytes[42] ^= 1),
        ("code 1, without another checksum", |bytes| bytes[41] = 1),
        ("an option of length 0", |bytes| bytes[65] = 0),
    ];
    for (host, (name, change)) in (0x100..).zip(bad) {
        let (address, station) = (Right.host6(host), mac(bench.world(), Right, 0x60));
        let packet = bench.udp6().to(address);
        bench.begin()?;
        bench.send(Left, &packet)?;
        let asked = bench.expect("a neighbor solicitation", |caught| caught.asks_for(address))?;
        let Some(asker) = asked.ip6().map(|packet| packet.source()) else { continue };
        let answer = Advertisement {
            router: false,
            solicited: true,
            r#override: true,
            target: address,
            link_layer: Some(station),
        };
        let mut bytes = advertisement(answer, asker);
        change(&mut bytes);
        bench.send_frame(Right, &crate::wire::framed(station, asked.from(), ethertype::IPV6, &bytes))?;
        bench.settle(Right)?;
        let believed = !bench.seen(&packet).passed.is_empty();
        demand(!believed, format_args!("an advertisement with {name} was believed"))?;
        bench.answers.set(Right, address, station);
        let good = bench.udp6().to(address);
        bench.pass(Left, &good, Right).case(format_args!("after a valid advertisement, behind {name}"))?;
    }
    Ok(())
}

/// RFC 4861 7.2.5: an advertisement with another link-layer address replaces the known one only with the override flag,
/// and creates no entry where there is none.
pub fn advertisements_change_what_they_may(bench: &mut Bench) -> Judged {
    let (known, unknown) = (Right.host6(0x91), Right.host6(0x92));
    let (old, new) = (mac(bench.world(), Right, 0x91), mac(bench.world(), Right, 0x92));
    bench.answers.set(Right, known, old);
    let packet = bench.udp6().to(known);
    same("next hop at first", bench.pass(Left, &packet, Right)?.to(), old)?;
    for (r#override, expected) in [(false, old), (true, new)] {
        let message =
            Advertisement { router: false, solicited: false, r#override, target: known, link_layer: Some(new) };
        tell(bench, new, message)?;
        let packet = bench.udp6().to(known);
        let out = bench.pass(Left, &packet, Right)?;
        let words = if r#override { "with" } else { "without" };
        same(format_args!("next hop behind an advertisement {words} the override flag"), out.to(), expected)?;
    }
    let message =
        Advertisement { router: false, solicited: false, r#override: true, target: unknown, link_layer: Some(new) };
    tell(bench, new, message)?;
    let packet = bench.udp6().to(unknown);
    bench.begin()?;
    bench.send(Left, &packet)?;
    bench
        .expect("a solicitation for an address that was advertised before it was asked for", |c| c.asks_for(unknown))?;
    Ok(())
}

/// Sends an advertisement to all nodes on the right.
fn tell(bench: &mut Bench, from: MacAddr, message: Advertisement) -> Judged {
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let bytes = advertisement(message, all);
    bench.send_frame(Right, &crate::wire::framed(from, MacAddr::from_ipv6_multicast(all), ethertype::IPV6, &bytes))?;
    bench.settle(Right)?;
    Ok(())
}

/// RFC 4862 5.4.2: before an address is used, it is asked for on its link: from the unspecified address, to its
/// solicited-node address, without a link-layer address.
pub fn addresses_are_asked_for_first(bench: &mut Bench) -> Judged {
    for side in bench.sides() {
        let address = side.router6();
        let asks = |caught: &&Caught| {
            caught.side == side
                && caught.asks_for(address)
                && caught.ip6().is_some_and(|packet| packet.source().is_unspecified())
        };
        let Some(asked) = bench.startup().iter().find(asks) else {
            return crate::judge::fail(format_args!("no duplicate address detection was seen for {address}"));
        };
        let Some((packet, message)) = asked.icmp6() else { continue };
        same("hop limit of the solicitation", packet.hop_limit(), 255)?;
        same("destination of the solicitation", packet.destination(), solicited_node(address))?;
        same("next header of the solicitation", packet.next_header(), protocol::ICMPV6)?;
        // Other options, such as the nonce of RFC 7527, may be there.
        let options = NdOptions::new(&message.into_inner()[24..]);
        demand(options.source_link_layer() == Ok(None), "the solicitation has a link-layer address")?;
    }
    Ok(())
}

/// RFC 4862 5.4.5: an address that another station has MUST NOT be used. In this world one has answered for the
/// router's.
pub fn duplicates_are_not_used(bench: &mut Bench) -> Judged {
    let address = Right.router6();
    demand(bench.startup().iter().any(|caught| caught.asks_for(address)), "the address was not asked for")?;
    bench.begin()?;
    let own = own_mac(mac(bench.world(), Right, 2));
    let asked = solicitation(bench, Right, &own);
    bench.send_to(Right, MacAddr::from_ipv6_multicast(solicited_node(address)), &asked)?;
    let echo = bench.echo6(Right, 40);
    bench.send(Right, &echo)?;
    bench.settle(Right)?;
    bench.listen(Duration::from_millis(100))?;
    same("answers for the address of another station", advertised(bench, Right), 0)?;
    demand(!bench.log().iter().any(|caught| is_echo_of(caught, &echo)), "an echo request to it was answered")?;
    // The others are in use.
    let echo = bench.echo6(Left, 40);
    bench.begin()?;
    bench.send(Left, &echo)?;
    bench.expect("the echo reply from another address", |caught| is_echo_of(caught, &echo)).map(|_| ())
}
