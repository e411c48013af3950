// SPDX-License-Identifier: MIT
//! ARP: RFC 1812 3.3.2 and 5.2.7.1, RFC 1122 2.3.2.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::mac;
use crate::wire::{Packet4, Probe as _};
use perigee_net::MacAddr;
use std::time::{Duration, Instant};

/// Longer than it takes a station to answer, and less than a router waits for an answer before it asks again.
const SLOW_ANSWER: Duration = Duration::from_millis(700);
/// Until then a router must have noticed that a station has moved: RFC 1122 2.3.2.1 names a minute as the order of the
/// time.
const MOVED: Duration = Duration::from_secs(90);

/// 5.2.7.1: when the router has found out that no path leads to a host on a connected network, Destination Unreachable
/// code 1 MUST be sent.
pub fn nobody_answers(bench: &mut Bench) -> Judged {
    let host = Right.host4(77);
    let packets = both(bench, |bench| bench.udp4().to(host));
    bench.all_refused(&packets, 3, 1)?;
    demand(bench.log().iter().any(|caught| caught.asks_for(host)), "nobody was asked for the host")
}

/// 3.3.2: a router MUST NOT say that a destination is unreachable merely because there is no entry in the ARP cache for
/// it: packets may be queued (SHOULD) until the answer comes. Returns whether the packet came out.
fn answered_slowly(bench: &mut Bench, host: u8) -> Judged<bool> {
    let address = Right.host4(host);
    let packets = both(bench, |bench| bench.udp4().to(address));
    let mut arrived = true;
    for (path, packet) in packets {
        // Each path asks for a neighbor of its own.
        let address = if path == "plain" { address } else { Right.host4(host + 1) };
        let packet = packet.to(address);
        bench.begin()?;
        bench.send(Left, &packet)?;
        let request = bench.expect("an ARP request", |caught| caught.side == Right && caught.asks_for(address))?;
        bench.listen(SLOW_ANSWER)?;
        let station = bench.mac(Right, host);
        bench.answers.set(Right, address, station);
        let reply = bench.answers.answer(&request);
        bench.send_frame(Right, &reply.unwrap_or_default())?;
        let came = bench.wait(Duration::from_secs(2), |log| log.iter().any(|caught| packet.is_in(caught)))?;
        let seen = bench.seen(&packet);
        seen.is_without_error().case(path)?;
        demand(
            seen.passed.iter().all(|passed| passed.to() == station),
            format_args!("another station got it, {path}"),
        )?;
        arrived &= came;
        // A later one must pass in any case.
        let later = Packet4 { identification: bench.number(), ..packet };
        bench.pass(Left, &later, Right).case(format_args!("behind the answer, {path}"))?;
    }
    Ok(arrived)
}

/// See [`answered_slowly`].
pub fn no_error_while_asking(bench: &mut Bench) -> Judged {
    answered_slowly(bench, 101).map(|_| ())
}

/// See [`answered_slowly`].
pub fn packets_wait_for_the_answer(bench: &mut Bench) -> Judged {
    match answered_slowly(bench, 111)? {
        true => Ok(()),
        false => fail("the packet that asked for a neighbor did not arrive when that had answered"),
    }
}

/// 3.3.2: a router MUST NOT believe an ARP reply that claims that another station has a broadcast or multicast address.
pub fn group_addresses_are_not_believed(bench: &mut Bench) -> Judged {
    let lies = [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 5])];
    for (host, lie) in (121..).zip(lies) {
        let address = Right.host4(host);
        bench.answers.set(Right, address, lie);
        let packet = bench.udp4().to(address);
        bench.begin()?;
        bench.send(Left, &packet)?;
        bench.expect("an ARP request", |caught| caught.asks_for(address))?;
        bench.listen(Duration::from_millis(300))?;
        let seen = bench.seen(&packet);
        demand(seen.passed.is_empty(), format_args!("a packet was sent to {lie}, as an ARP reply claimed"))?;
        // The truth is believed: what waits, or another packet.
        let station = bench.mac(Right, host);
        bench.answers.set(Right, address, station);
        let later = bench.udp4().to(address);
        let start = Instant::now();
        loop {
            bench.send(Left, &later)?;
            let came = bench.wait(Duration::from_millis(500), |log| {
                log.iter().any(|caught| later.is_in(caught) && caught.to() == station)
            })?;
            if came {
                break;
            }
            demand(start.elapsed() < LIMIT, "the station is not reached when it tells the truth")?;
        }
    }
    Ok(())
}

/// RFC 1122 2.3.2.1, by RFC 1812 3.3.2: ARP requests for one address MUST NOT flood; at most one a second is
/// recommended.
pub fn one_request_a_second(bench: &mut Bench) -> Judged {
    let address = Right.host4(131);
    let window = Duration::from_secs(3);
    bench.begin()?;
    let start = Instant::now();
    while start.elapsed() < window {
        let packet = bench.udp4().to(address);
        bench.send(Left, &packet)?;
        bench.listen(Duration::from_millis(50))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let requests = bench.log().iter().filter(|caught| caught.asks_for(address)).count();
    demand(requests > 0, "no ARP request came")?;
    demand(
        requests as f64 <= seconds + 1.0,
        format_args!("{requests} ARP requests for one address in {seconds:.1} s, expected at most one a second"),
    )
}

/// RFC 1122 2.3.2.1: there MUST be a mechanism to flush cache entries that are out of date: here, of a station that has
/// another MAC address and does not say so.
pub fn stale_entries_are_flushed(bench: &mut Bench) -> Judged {
    let (address, old, new) = (Right.host4(141), mac(bench.world(), Right, 141), mac(bench.world(), Right, 142));
    bench.answers.set(Right, address, old);
    let packet = bench.udp4().to(address);
    let out = bench.pass(Left, &packet, Right)?;
    same("next hop at first", out.to(), old)?;
    bench.answers.set(Right, address, new);
    let start = Instant::now();
    loop {
        bench.begin()?;
        let packet = bench.udp4().to(address);
        bench.send(Left, &packet)?;
        let arrived =
            bench.wait(Duration::from_millis(250), |log| log.iter().any(|c| packet.is_in(c) && c.to() == new))?;
        if arrived {
            return Ok(());
        }
        demand(
            start.elapsed() < MOVED,
            format_args!("packets still go to the old MAC address after {} s", MOVED.as_secs()),
        )?;
    }
}
