// SPDX-License-Identifier: MIT
//! Random, mutated, cut and oversized frames of all kinds, in bursts, the whole way from classify to distribute:
//! nothing panics, every packet is sent, dropped under a reason or punted, and no buffer is left over. All instruction
//! sets do the same.
//!
//! `PERIGEE_FUZZ` multiplies the number of frames (300,000), `PERIGEE_FUZZ_SEED` is the seed (default: a new one each
//! time).

use perigee_fib::MulticastOrigin;
use perigee_fib::synth::Random;
use perigee_modules::rules::{Filter, LinearFilter, Rule};
use perigee_modules::testing::*;
use perigee_net::{FiveTuple, InterfaceId, PortRange, Prefix, ReversePath, Route, RouteSource, RouteTarget};
use perigee_packet::batch::flags::{IPV4_CHECKSUM_BAD, IPV4_CHECKSUM_GOOD};
use perigee_packet::{Batch, Isa, Pool};
use std::net::IpAddr;
use std::sync::Arc;

/// Prints the burst that was on its way when an assertion failed.
struct Report(Vec<(u16, Vec<u8>)>);

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|(port, frame)| {
                println!("port {port}, {} bytes: {:02x?}", frame.len(), &frame[..frame.len().min(96)])
            });
        }
    }
}

/// A good frame of every kind, to every kind of destination.
fn corpus() -> Vec<Vec<u8>> {
    let to: Vec<u8> = (0..INTERFACES).chain([UNRESOLVED, BLACKHOLE, UNREACHABLE, PROHIBITED, LOCAL, NOWHERE]).collect();
    let mut frames = vec![arp_request(), vec![], vec![0; 14]];
    for to in to {
        frames.extend([
            udp4(to, 8),
            udp4(to, 0),
            udp6(to, 8),
            udp4(to, 1300),
            udp6(to, 1300),
            with_options(to, &[1; 8]),
        ]);
    }
    for group in groups() {
        let frame = if group.is_ipv4() { udp4(0, 8) } else { udp6(0, 8) };
        let frame = to_group(frame, group);
        // More than once, so that they come up as often as others.
        frames.extend(std::iter::repeat_n(frame, 6));
    }
    // An IPv6 packet with a destination options header and a fragment header.
    frames.push(changed(udp6(1, 8), |frame| {
        frame.splice(54..54, [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 7]);
        (frame[19], frame[20]) = (32, 60);
    }));
    let tags = [(0, 30), (1, 10), (2, 20), (0, 0)];
    let tagged: Vec<_> = frames
        .iter()
        .filter(|frame| frame.len() >= 14)
        .flat_map(|f| tags.map(|(port, vid)| tagged(f.clone(), port, vid)))
        .collect();
    frames.extend(tagged);
    frames
}

fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u32) as usize
}

/// A frame: random, good, mutated, cut, or with something behind it.
fn frame(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let bytes = |random: &mut Random, n: usize| -> Vec<u8> { (0..n).map(|_| random.bits() as u8).collect() };
    if random.below(10) == 0 {
        let n = below(random, 128);
        return bytes(random, n);
    }
    let mut frame = corpus[below(random, corpus.len())].clone();
    for _ in 0..below(random, 4) {
        if frame.is_empty() {
            break;
        }
        // Most changes near the front, where types, lengths and addresses are.
        let reach = if random.below(4) == 0 { frame.len() } else { frame.len().min(62) };
        let at = below(random, reach);
        match random.below(8) {
            0 | 1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = [0, 1, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xff][below(random, 8)],
            3 => frame[at] = random.bits() as u8,
            4 => frame.truncate(at),
            5 => frame.insert(at, random.bits() as u8),
            6 => drop(frame.remove(at)),
            _ => {
                let tail = [1, 20, 60, 1500, 9000, 65_000][below(random, 6)];
                let tail = below(random, tail);
                frame.extend(bytes(random, tail));
            }
        }
    }
    frame.truncate(u16::MAX.into());
    // So that not all changes of an IPv4 header end at its checksum.
    if random.below(2) == 0 && frame.get(12..14) == Some(&[8, 0]) {
        fix_checksum(&mut frame[14..]);
    }
    frame
}

/// A group with a route and one without, of either family.
fn groups() -> [IpAddr; 4] {
    ["239.1.1.1", "239.1.1.2", "ff05::1", "ff05::2"].map(|group| group.parse().expect("a group"))
}

/// A filter that denies some of it.
fn filter() -> Option<Arc<dyn Filter>> {
    let dst = Prefix::truncated(v4(0).into(), 15).ok();
    let dport = Some(PortRange::only(4001));
    let tuple = FiveTuple { dst, proto: Some(17), dport, ..FiveTuple::default() };
    Some(Arc::new(LinearFilter(vec![Rule::deny(tuple)])))
}

/// That filter, and routes of groups.
fn rig() -> Rig {
    with_groups(Rig::with_filter(filter()))
}

/// Lists that depend on each part of a 5-tuple, of both families; some of what they deny or steer is left by the
/// others.
fn lists() -> [Option<Arc<dyn Filter>>; 2] {
    let prefix = |text: &str| text.parse::<Prefix>().ok();
    let port = |first, last| PortRange::new(first, last).ok();
    let any = FiveTuple::default();
    let rule = |tuple, deny| Rule { deny, ..Rule::deny(tuple) };
    let deny = vec![
        rule(FiveTuple { dst: prefix("10.5.0.0/16"), ..any }, false),
        rule(FiveTuple { src: prefix("198.51.100.0/30"), ..any }, true),
        rule(FiveTuple { dst: prefix("10.1.0.0/16"), dport: port(DESTINATION_PORT, DESTINATION_PORT), ..any }, true),
        rule(FiveTuple { dst: prefix("2001:db8:1::/48"), sport: port(SOURCE_PORT, SOURCE_PORT), ..any }, true),
        rule(FiveTuple { src: prefix("::/0"), proto: Some(44), ..any }, true),
        rule(FiveTuple { sport: port(0, 255), ..any }, true),
    ];
    let steer = vec![
        rule(FiveTuple { dst: prefix("10.2.0.0/15"), dport: port(DESTINATION_PORT, DESTINATION_PORT), ..any }, true),
        rule(FiveTuple { dst: prefix("2001:db8:2::/47"), sport: port(SOURCE_PORT, SOURCE_PORT), ..any }, true),
        rule(FiveTuple { proto: Some(6), ..any }, true),
        rule(FiveTuple { src: prefix("2001:db8:ffff::8/125"), ..any }, true),
        rule(FiveTuple { dport: port(1, DESTINATION_PORT - 1), ..any }, true),
    ];
    [deny, steer].map(|rules| Some(Arc::new(LinearFilter(rules)) as Arc<dyn Filter>))
}

/// Has a router check sources: each interface in a mode of its own, and the network that frames come from behind the
/// first of two gateways.
fn check_sources(rig: &mut Rig) {
    for is_v6 in [false, true] {
        let source = if is_v6 { IpAddr::from(SOURCE6) } else { SOURCE4.into() };
        let prefix = Prefix::truncated(source, if is_v6 { 48 } else { 28 }).expect("a prefix");
        let address = if is_v6 { "fe80::" } else { "192.0.2.1" };
        let target = RouteTarget::Gateway { address: address.parse().expect("one"), interface: Some(InterfaceId(0)) };
        rig.fib.insert(prefix, Route::new(RouteSource::Static, target)).expect("room for a route");
    }
    rig.publish();
    let modes = [ReversePath::Strict, ReversePath::Loose, ReversePath::Off, ReversePath::Strict];
    for (id, mode) in (0..).zip(modes) {
        rig.change_interface(id, |interface| interface.policy.urpf = mode);
    }
}

fn with_groups(mut rig: Rig) -> Rig {
    let [four, _, six, _] = groups();
    let route = |group| multicast_route(group, None, Some(0), &[(1, 1), (3, 1)], MulticastOrigin::Static);
    rig.set_multicast(vec![route(four), route(six)], Vec::new());
    rig
}

/// The port whose MAC address a frame is for, else 0.
fn port_of(frame: &[u8]) -> u16 {
    (0..PORTS).find(|port| frame.starts_with(&own_mac(*port).octets())).unwrap_or(0)
}

/// What has happened to the packets so far.
struct Account {
    received: u64,
    sent: u64,
    punted: u64,
}

/// Sends a burst through and settles the account.
fn run(rig: &mut Rig, account: &mut Account, random: &mut Random, burst: Vec<(u16, Vec<u8>)>) {
    let report = Report(burst);
    for (port, frame) in &report.0 {
        let slot = rig.receive(*port, frame);
        // Sometimes the device has an opinion on the checksum, and sometimes a wrong one.
        let opinion = [IPV4_CHECKSUM_GOOD, IPV4_CHECKSUM_BAD, 0][below(random, 16).min(2)];
        rig.batch.slot(slot).expect("just received").set_flags(opinion);
    }
    account.received += report.0.len() as u64;
    rig.run_all();
    account.punted += rig.punted.try_iter().count() as u64;
    for port in 0..PORTS {
        for frame in rig.sent(port) {
            account.sent += 1;
            assert!(frame.len() >= 14 + 20 && frame[6..12] == own_mac(port).octets(), "port {port} sent {frame:02x?}");
            let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
            let hops = if frame[l3 - 2..l3] == [8, 0] { frame[l3 + 8] } else { frame[l3 + 7] };
            assert!(hops > 0, "port {port} sent {frame:02x?}");
        }
    }
    let counters = &rig.ctx.counters;
    let transmitted: u64 = (0..PORTS).map(|port| counters.port_transmitted(port)).sum();
    assert_eq!((transmitted, counters.punted.get()), (account.sent, account.punted));
    // Each packet to a group leaves by two interfaces.
    let multicast = rig.ctx.tables.multicast.as_ref().expect("routes of groups");
    let copies: u64 = multicast.entries().iter().map(|entry| entry.counters.packets()).sum();
    assert_eq!(account.received + copies, account.sent + account.punted + rig.dropped());
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn every_packet_is_accounted_for() {
    let (mut random, count) = fuzz();
    let mut rig = rig();
    let mut account = Account { received: 0, sent: 0, punted: 0 };
    let corpus = corpus();
    while account.received < count {
        let n = [1, 4, 32, 256][below(&mut random, 4)];
        let mut burst = Vec::new();
        for _ in 0..n {
            let frame = frame(&mut random, &corpus);
            // Most come in by the port they are addressed to; port 4 does not exist.
            let port = if random.below(8) == 0 { random.below(5) as u16 } else { port_of(&frame) };
            burst.push((port, frame));
        }
        run(&mut rig, &mut account, &mut random, burst);
    }
    let Account { received, sent, punted } = account;
    println!("{received} received = {sent} sent + {punted} punted + {} dropped", rig.dropped());
    rig.reasons().iter().for_each(|(name, count)| println!("{count:>10} {name}"));
    let replicated = rig.ctx.tables.multicast.as_ref().expect("routes").entries()[0].counters.packets();
    assert!(count < 10_000 || replicated > received / 200, "too few of them to groups: {replicated}");
    assert!(count < 10_000 || (sent > received / 20 && punted > received / 20), "too few of them got through");
}

/// Every good frame cut off at every length, and as long as a buffer can be.
#[test]
fn every_length() {
    let (mut random, _) = fuzz();
    let mut rig = rig();
    let mut account = Account { received: 0, sent: 0, punted: 0 };
    for frame in corpus().into_iter().filter(|frame| frame.len() < 200) {
        let mut lengths: Vec<usize> = (0..=frame.len()).collect();
        lengths.extend([1514, 9018, 65_535]);
        let burst = lengths
            .into_iter()
            .map(|length| (port_of(&frame), changed(frame.clone(), |frame| frame.resize(length, 0))));
        run(&mut rig, &mut account, &mut random, burst.collect());
    }
    assert!(account.sent > 0);
}

/// What became of a burst: what left by each port, what was punted with all that goes with it, and the counts of all
/// reasons.
type Outcome = (Vec<Vec<Vec<u8>>>, Vec<String>, Vec<(String, u64)>);

fn outcome(rig: &mut Rig) -> Outcome {
    let sent = (0..PORTS).map(|port| rig.sent(port)).collect();
    let punted = rig.punted.try_iter().map(|punted| {
        let (reason, port, interface, next_hop) = (punted.reason, punted.port, punted.interface, punted.next_hop);
        format!("{reason:?} {port} {interface:?} {next_hop} {:02x?}", punted.packet.bytes())
    });
    (sent, punted.collect(), rig.reasons())
}

/// Each instruction set's router, and one that forgets what it has read of headers before every module, treat the same
/// bursts alike, byte for byte, also where frames are written between two modules.
#[test]
fn every_instruction_set_does_the_same() {
    let (mut random, count) = fuzz();
    let corpus = corpus();
    let isas = Isa::available();
    println!("{:?}", isas.iter().map(|isa| isa.name()).collect::<Vec<_>>());
    let rigs = isas.iter().chain([&isas[0]]).map(|&isa| {
        let mut rig = rig();
        rig.batch = Batch::with_isa(rig.pool, isa);
        rig
    });
    let simple: Vec<_> = rigs.collect();
    // The same routers with longer lists, and a check of sources.
    let strict = isas.iter().chain([&isas[0]]).map(|&isa| {
        let [deny, steer] = lists();
        let mut rig = with_groups(Rig::with_filters(deny, steer));
        check_sources(&mut rig);
        rig.batch = Batch::with_isa(rig.pool, isa);
        rig
    });
    let mut routers = [simple, strict.collect()];
    let forgetful = isas.len();
    let mut received = 0;
    while received < count / 4 {
        let rigs = &mut routers[below(&mut random, 2)];
        let n = [1, 7, 8, 16, 33, 64, 100, 256][below(&mut random, 8)];
        // Most bursts are of one port, and some of its packets gone before the first module.
        let one_port = (random.below(4) > 0).then(|| random.below(PORTS.into()) as u16);
        let mut burst = Vec::new();
        for _ in 0..n {
            let frame = if random.below(2) == 0 { frame(&mut random, &corpus) } else { udp4(random.below(6) as u8, 8) };
            let port = one_port.unwrap_or_else(|| port_of(&frame));
            let frame = changed(frame, |frame| {
                if frame.len() >= 6 && frame[..5] == own_mac(0).octets()[..5] && random.below(8) > 0 {
                    frame[5] = own_mac(port).octets()[5];
                }
            });
            burst.push((port, frame, [IPV4_CHECKSUM_GOOD, IPV4_CHECKSUM_BAD, 0][below(&mut random, 16).min(2)]));
        }
        let gone = (0..n).filter(|_| random.below(10) == 0).map(|slot| slot as u8).collect();
        let now = random.bits() >> 8;
        let (before, slot, at, value) =
            (below(&mut random, 40), random.below(n as u32) as u8, below(&mut random, 40), random.bits() as u8);
        received += n as u64;
        let report = Report(burst.iter().map(|(port, frame, _)| (*port, frame.clone())).collect());
        let mut first = None;
        for (i, rig) in rigs.iter_mut().enumerate() {
            rig.ctx.now = now;
            for (port, frame, opinion) in &burst {
                let slot = rig.receive(*port, frame);
                rig.batch.slot(slot).expect("just received").set_flags(*opinion);
            }
            rig.batch.discard(gone);
            let mut call = 0;
            rig.run_between(|batch| {
                if i == forgetful {
                    batch.unload();
                }
                // A module of somebody else's, which writes a byte.
                if call == before
                    && let Some(byte) = batch.slot(slot).as_mut().and_then(|packet| packet.frame_mut().get_mut(at))
                {
                    *byte = value;
                }
                call += 1;
            });
            let outcome = outcome(rig);
            assert_eq!(rig.pool.in_use(), 0);
            match &first {
                None => first = Some(outcome),
                Some(first) => assert_eq!(*first, outcome, "{}", isas.get(i).map_or("forgetful", |isa| isa.name())),
            }
        }
        drop(report);
    }
    let reasons = routers[1][0].reasons();
    reasons.iter().for_each(|(name, count)| println!("{count:>10} {name}"));
    let lists = ["filter.ipv4_denied", "filter.ipv6_denied", "filter.ipv4_steered", "filter.ipv6_steered"];
    for name in lists.into_iter().chain(["urpf.ipv4_failed", "urpf.ipv6_failed"]) {
        let packets = reasons.iter().find(|(reason, _)| reason == name).map_or(0, |(_, count)| *count);
        assert!(count < 10_000 || packets > count / 10_000, "{name}: {packets} packets are too few");
    }
}
