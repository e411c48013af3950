// SPDX-License-Identifier: MIT
//! Hits of filters: whichever way a packet takes through a worker, the rule that decides about it counts it once.
//!
//! `PERIGEE_FUZZ` multiplies the number of frames, `PERIGEE_FUZZ_SEED` is the seed (default: a new one each time).

use perigee_fib::MulticastOrigin;
use perigee_fib::synth::Random;
use perigee_modules::rules::{LinearFilter, Rule};
use perigee_modules::testing::*;
use perigee_net::{FiveTuple, PortRange, Prefix};
use perigee_packet::wire::tuple;
use std::net::IpAddr;
use std::sync::Arc;

/// Where frames go: to be forwarded, to be punted for many reasons, to the router, nowhere.
const TO: [u8; 10] = [0, 1, 2, SMALL_MTU, NO_OUTPUT, UNRESOLVED, BLACKHOLE, PROHIBITED, LOCAL, NOWHERE];

fn group(v6: bool) -> IpAddr {
    if v6 { "ff05::1" } else { "239.1.1.1" }.parse().expect("a group")
}

/// A frame that every check of headers lets pass, or that is punted. `asked`: filters are asked before routes drop it.
fn frame(random: &mut Random, asked: bool) -> Vec<u8> {
    let leaving = [0, 1, 2, UNRESOLVED, LOCAL, NOWHERE];
    let to = if asked { &TO[..] } else { &leaving[..] };
    let to = to[random.below(to.len() as u32) as usize];
    let port = |frame: Vec<u8>, at: usize, port: u32| changed(frame, |frame| frame[at + 1] = port as u8);
    let payload = [8, 1300][random.below(2) as usize];
    match random.below(8) {
        0 if asked => to_group(udp4(0, 8), group(false)),
        1 if asked => to_group(udp6(0, 8), group(true)),
        2 => with_options(to, &[1; 8]),
        // Its time to live ends.
        3 => changed4(udp4(to, 8), |frame| frame[22] = 1),
        4 => arp_request(),
        5 | 6 => port(udp6(to, payload), 56, random.below(4)),
        _ => port(udp4(to, payload), 36, random.below(4)),
    }
}

fn rule(random: &mut Random, number: u32) -> Rule {
    let to = TO[random.below(TO.len() as u32) as usize];
    let dst: Option<IpAddr> = match random.below(5) {
        0 => None,
        1 => Some(group(random.below(2) == 0)),
        2 => Some(v6(to).into()),
        _ => Some(v4(to).into()),
    };
    let dport = (random.below(2) == 0).then(|| PortRange::only(DESTINATION_PORT & 0xff00 | random.below(4) as u16));
    let tuple = FiveTuple { dst: dst.map(Prefix::host), dport, ..FiveTuple::default() };
    Rule { tuple, deny: random.below(2) == 0, number }
}

#[test]
fn a_packet_is_counted_once_whichever_way_it_takes() {
    let (mut random, count) = fuzz();
    let (mut decided, mut undecided) = (0, 0);
    for round in 0..count / 10_000 {
        let mut rules: Vec<Rule> = (0..1 + random.below(8)).map(|number| rule(&mut random, number)).collect();
        // A rule's number says nothing about its place.
        if random.below(2) == 0 {
            rules.reverse();
        }
        let list = LinearFilter(rules.clone());
        let mut rig = Rig::with_filter(Some(Arc::new(list.clone())));
        rig.set_multicast(
            [false, true]
                .map(|v6| multicast_route(group(v6), None, Some(0), &[(1, 1), (2, 1)], MulticastOrigin::Static))
                .into(),
            Vec::new(),
        );
        let hits = rig.count_hits(rules.len());
        let mut expected = vec![0; rules.len()];
        for burst in 0..20 {
            let asked = (round + burst) % 2 == 0;
            for _ in 0..1 + random.below(250) {
                let frame = frame(&mut random, asked);
                let judged = tuple::network(&frame).and_then(|(at, is_6)| match is_6 {
                    false => Some(list.verdict4(&tuple::key4(&frame[at..])?)),
                    true => Some(list.verdict6(&tuple::key6(&frame[at..])?)),
                });
                match judged.map_or(0, |verdict| verdict.place()) {
                    0 => undecided += 1,
                    place => expected[place - 1] += 1,
                }
                rig.receive(0, &frame);
            }
            // A script that does not ask for filters has its packets judged as they leave.
            if asked {
                rig.run_all()
            } else {
                rig.run_without("filter")
            }
            rig.punted.try_iter().for_each(drop);
            (0..PORTS).for_each(|port| drop(rig.sent(port)));
            assert_eq!((0..rules.len()).map(|rule| hits.of(rule)).collect::<Vec<_>>(), expected, "{rules:?}");
        }
        decided += expected.iter().sum::<u64>();
    }
    println!("{decided} packets were decided about, {undecided} were not");
    assert!(decided > 1000 && undecided > 1000);
}
