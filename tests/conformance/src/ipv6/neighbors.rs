// SPDX-License-Identifier: MIT
//! Neighbors that do not answer, move, or do not exist: RFC 4861 7.2.2 and 7.3, RFC 6583.

use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::mac;
use crate::wire::Probe as _;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

/// RFC 4861 10: MAX_MULTICAST_SOLICIT, RETRANS_TIMER, and what the scheduling of both sides may add to or take from it.
const SOLICITATIONS: usize = 3;
const RETRANSMIT: Duration = Duration::from_millis(1000);
/// Longer than a station takes to answer, less than until the next solicitation.
const SLOW_ANSWER: Duration = Duration::from_millis(700);
/// Until then a router must have noticed that a station has moved: 30 s, at most one and a half times that, then 5 s of
/// delay, then three probes (RFC 4861 10), and as much again for a busy machine.
const MOVED: Duration = Duration::from_secs(100);
/// Addresses without stations: more than any sensible limit of neighbors that are being asked for.
const NOBODY: u32 = 3000;

/// RFC 4861 7.2.2: while a neighbor is asked for, at least one packet MUST wait and be sent when the answer comes;
/// three solicitations are sent, a RETRANS_TIMER apart; then Destination Unreachable code 3 MUST be sent for each
/// packet that waits.
pub fn packets_wait_and_three_solicitations(bench: &mut Bench) -> Judged {
    let address = Right.host6(0x81);
    let packet = bench.udp6().to(address);
    bench.begin()?;
    bench.send(Left, &packet)?;
    let asked = bench.expect("a neighbor solicitation", |caught| caught.asks_for(address))?;
    bench.listen(SLOW_ANSWER)?;
    bench.seen(&packet).is_without_error().case("while the neighbor is asked for")?;
    let station = mac(bench.world(), Right, 0x81);
    bench.answers.set(Right, address, station);
    let answer = bench.answers.answer(&asked);
    bench.send_frame(Right, &answer.unwrap_or_default())?;
    let out = bench.expect("the packet that waited", |caught| packet.is_in(caught))?;
    same("its next hop", out.to(), station)?;
    nobody_answers(bench)
}

fn nobody_answers(bench: &mut Bench) -> Judged {
    let address = Right.host6(0x82);
    let packet = bench.udp6().to(address);
    bench.begin()?;
    let start = Instant::now();
    bench.send(Left, &packet)?;
    let (mut times, mut answered) = (Vec::new(), false);
    bench.wait(LIMIT, |log| {
        let asked = log.iter().filter(|caught| caught.asks_for(address)).count();
        times.extend((times.len()..asked).map(|_| start.elapsed()));
        answered = log.iter().any(|caught| packet.error_in(caught).is_some());
        answered
    })?;
    same("solicitations", times.len(), SOLICITATIONS)?;
    let shortest = times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default();
    // The runner may see the first of two late.
    demand(
        shortest > RETRANSMIT / 2,
        format_args!("two solicitations came {} ms apart, expected {}", shortest.as_millis(), RETRANSMIT.as_millis()),
    )?;
    match bench.seen(&packet).errors.first() {
        Some((_, error)) => same("the error (type, code)", (error.kind, error.code), (1, 3)),
        None => fail("no error came for a neighbor that does not answer"),
    }
}

/// RFC 4861 7.3: a neighbor that is not confirmed any more is probed, and one that does not answer is asked for anew:
/// here, one that has another link-layer address and does not say so.
pub fn unreachable_neighbors_are_noticed(bench: &mut Bench) -> Judged {
    let address = Right.host6(0x90);
    let (old, new) = (mac(bench.world(), Right, 0x90), mac(bench.world(), Right, 0x91));
    bench.answers.set(Right, address, old);
    let packet = bench.udp6().to(address);
    same("next hop at first", bench.pass(Left, &packet, Right)?.to(), old)?;
    bench.answers.set(Right, address, new);
    let (start, mut probed) = (Instant::now(), false);
    loop {
        bench.begin()?;
        let packet = bench.udp6().to(address);
        bench.send(Left, &packet)?;
        let arrived =
            bench.wait(Duration::from_millis(250), |log| log.iter().any(|c| packet.is_in(c) && c.to() == new))?;
        probed |= bench.log().iter().any(|caught| caught.asks_for(address) && caught.to() == old);
        if arrived {
            return demand(probed, "the neighbor was not probed by unicast before it was asked for anew");
        }
        demand(
            start.elapsed() < MOVED,
            format_args!("packets still go to the old link-layer address after {} s", MOVED.as_secs()),
        )?;
    }
}

/// RFC 6583 7: a router should withstand that thousands of addresses without stations are asked for: it goes on to
/// forward to the neighbors that it knows, answers, and finds new ones.
pub fn a_flood_of_addresses_is_survived(bench: &mut Bench) -> Judged {
    let known = bench.udp6();
    bench.pass(Left, &known, Right)?;
    for round in 0..NOBODY / 100 {
        bench.begin()?;
        for number in 0..100 {
            let host = u128::from(round * 100 + number);
            let nobody = Ipv6Addr::from_bits(Right.host6(0).to_bits() | 0x0bad_0000_0000_u128 << 16 | host);
            let packet = bench.udp6().to(nobody);
            bench.send(Left, &packet)?;
            bench.listen(Duration::ZERO)?;
        }
        let packet = bench.udp6();
        let arrived = |caught: &crate::wire::Caught| packet.is_in(caught);
        bench.send(Left, &packet)?;
        let what = format!("a packet to a known neighbor, behind {} addresses without stations", (round + 1) * 100);
        bench.expect(&what, arrived)?;
    }
    // A router that has no core for a while has no room left for one that comes right behind the flood.
    let start = Instant::now();
    loop {
        let echo = bench.echo6(Left, 40);
        bench.begin()?;
        bench.send(Left, &echo)?;
        let is_reply = |caught: &crate::wire::Caught| crate::seen::is_echo_of(caught, &echo);
        if bench.wait(Duration::from_millis(500), |log| log.iter().any(is_reply))? {
            break;
        }
        demand(start.elapsed() < LIMIT * 2, "no echo request was answered any more behind the flood")?;
    }
    // A new neighbor: at the latest when those without stations have failed.
    let (address, station) = (Right.host6(0x95), mac(bench.world(), Right, 0x95));
    bench.answers.set(Right, address, station);
    let start = Instant::now();
    loop {
        let packet = bench.udp6().to(address);
        bench.begin()?;
        bench.send(Left, &packet)?;
        if bench.wait(Duration::from_millis(500), |log| log.iter().any(|caught| packet.is_in(caught)))? {
            return Ok(());
        }
        demand(start.elapsed() < LIMIT * 2, "a new neighbor was not found any more behind the flood")?;
    }
}
