// SPDX-License-Identifier: MIT
//! Packets to groups, the whole way from classify on: which are forwarded, to where, and what of them the slow path
//! gets.

use perigee_fib::{MulticastInput, MulticastOrigin, SAMPLE_INTERVAL};
use perigee_modules::ModuleId;
use perigee_modules::multicast::multicast;
use perigee_modules::testing::*;
use perigee_net::MulticastLimits;
use perigee_packet::wire::ipv4;
use perigee_packet::{Mask, Pool};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

const GROUP4: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
const GROUP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3));

/// Routes of both groups from one interface, or from where the unicast route leads.
fn routes(from: Option<u16>, to: &[(u16, u8)], origin: MulticastOrigin) -> Vec<MulticastInput> {
    [GROUP4, GROUP6].map(|group| multicast_route(group, None, from, to, origin)).into()
}

fn rig(from: Option<u16>, to: &[(u16, u8)]) -> Rig {
    let mut rig = Rig::new();
    rig.ctx.now = 1;
    rig.set_multicast(routes(from, to, MulticastOrigin::Static), Vec::new());
    rig
}

fn frames() -> [Vec<u8>; 2] {
    [to_group(udp4(0, 8), GROUP4), to_group(udp6(0, 8), GROUP6)]
}

/// Sends one packet of each family all the way on `port`; returns why they left the fast path, if they did.
fn run(rig: &mut Rig, port: u16, frames: &[Vec<u8>]) -> Vec<String> {
    let before: Vec<_> = rig.reasons();
    for frame in frames {
        rig.receive(port, frame);
    }
    rig.run_all();
    let count = |name: &str| before.iter().find(|(before, _)| before == name).map_or(0, |(_, count)| *count);
    let new = rig.reasons().into_iter().flat_map(|(name, now)| vec![name.clone(); (now - count(&name)) as usize]);
    new.collect()
}

/// The frame as it should leave by an interface.
fn leaving(frame: &[u8], port: u16, vlan: Option<u16>) -> Vec<u8> {
    let group = frame[..6].to_vec();
    let frame = changed(frame.to_vec(), |frame| match frame[14] >> 4 {
        4 => {
            frame[22] -= 1;
            fix_checksum(&mut frame[14..]);
        }
        _ => frame[21] -= 1,
    });
    let frame = vlan.map_or_else(|| frame.clone(), |vlan| tagged(frame.clone(), port, vlan));
    changed(frame, |frame| {
        frame[..6].copy_from_slice(&group);
        frame[6..12].copy_from_slice(&own_mac(port).octets());
    })
}

#[test]
fn a_copy_for_each_interface_with_its_tag() {
    for came_in in [None, Some(30)] {
        let from = if came_in.is_some() { 4 } else { 0 };
        let mut rig = rig(Some(from), &[(1, 1), (2, 1), (3, 1), (from, 1)]);
        let sent = frames();
        let tag = |frame: &Vec<u8>| match came_in {
            // `tagged` makes it the port's own.
            Some(vid) => changed(tagged(frame.clone(), 0, vid), |t| t[..6].copy_from_slice(&frame[..6])),
            None => frame.clone(),
        };
        assert!(run(&mut rig, 0, &sent.each_ref().map(tag)).is_empty());
        let both = |port, vlan| sent.each_ref().map(|frame| leaving(frame, port, vlan));
        let (plain, vlan) = (both(1, None), both(1, Some(10)));
        let mut out = rig.sent(1);
        out.sort_unstable();
        let mut expected = [plain, vlan].concat();
        expected.sort_unstable();
        assert_eq!(out, expected);
        assert_eq!(rig.sent(2), both(2, Some(20)));
        assert_eq!(rig.sent(0), [] as [Vec<u8>; 0], "never back");
        assert!(ipv4::validate(&both(1, None)[0][14..]).is_ok());
        let multicast = rig.ctx.tables.multicast.clone().unwrap();
        let counters = multicast.entries().iter().map(|entry| &*entry.counters);
        assert!(counters.clone().all(|c| c.packets() == 1 && c.last_use() == Some(1)));
        assert_eq!(counters.map(|c| c.bytes()).collect::<Vec<_>>(), [36, 56]);
        assert_eq!((rig.pool.in_use(), rig.ctx.counters.punted.get()), (0, 0));
    }
}

#[test]
fn without_routes_nothing_is_done_and_groups_go_to_the_slow_path() {
    let mut rig = Rig::new();
    assert_eq!(run(&mut rig, 0, &frames()), ["classify.multicast", "classify.multicast"]);
    assert_eq!(rig.ctx.counters.module_packets(ModuleId::multicast as usize), 0);
}

#[test]
fn frames_to_a_group_of_stations_need_a_group_in_them_and_one_that_is_forwarded() {
    let mut rig = rig(Some(0), &[(1, 1)]);
    let mac = |frame: Vec<u8>, mac: [u8; 6]| changed(frame, |frame| frame[..6].copy_from_slice(&mac));
    let [to4, to6] = frames();
    for other in [
        mac(udp4(1, 8), [1, 0, 0x5e, 1, 2, 3]),
        mac(udp6(1, 8), [0x33, 0x33, 0, 1, 0, 3]),
        mac(to4.clone(), [0x33, 0x33, 0, 1, 0, 3]),
        mac(to6.clone(), [1, 0, 0x5e, 1, 2, 3]),
        to_group(udp4(0, 8), Ipv4Addr::new(224, 0, 0, 5).into()),
        to_group(udp6(0, 8), "ff02::5".parse().unwrap()),
        to_group(udp6(0, 8), "ff01::5".parse().unwrap()),
        to4[..33].to_vec(),
        to6[..53].to_vec(),
    ] {
        assert_eq!(run(&mut rig, 0, std::slice::from_ref(&other)), ["classify.multicast"], "{other:02x?}");
    }
    assert_eq!(run(&mut rig, 0, &[mac(to4.clone(), [0xff; 6])]), ["classify.broadcast"]);
    // To the router's own MAC address it is a packet to the group all the same, as in Linux.
    assert!(run(&mut rig, 0, &[mac(to4, own_mac(0).octets()), mac(to6, own_mac(0).octets())]).is_empty());
    assert_eq!(rig.sent(1).len(), 2);
    // Without an address, and with one of the link alone.
    let source4 = |source: [u8; 4]| changed4(frames()[0].clone(), |frame| frame[26..30].copy_from_slice(&source));
    let source6 = |source: u16| {
        changed(frames()[1].clone(), |frame| {
            frame[22..38].fill(0);
            frame[22..24].copy_from_slice(&source.to_be_bytes());
        })
    };
    assert_eq!(run(&mut rig, 0, &[source4([0; 4]), source6(0)]), ["ipv4_valid.multicast", "ipv6_valid.multicast"]);
    let link_local = [source4([169, 254, 1, 1]), source6(0xfe80)];
    assert_eq!(run(&mut rig, 0, &link_local), ["ipv4_valid.link_local", "ipv6_valid.link_local"]);
    assert_eq!(run(&mut rig, 0, &[source4([127, 0, 0, 1])]), ["ipv4_valid.martian_source"]);
}

#[test]
fn the_interface_must_be_the_routes_or_that_of_the_unicast_route() {
    let mut fixed = rig(Some(1), &[(3, 1)]);
    assert_eq!(run(&mut fixed, 0, &frames()), ["multicast.wrong_interface"; 2]);
    assert!(run(&mut fixed, 1, &frames()).is_empty());
    let multicast = fixed.ctx.tables.multicast.clone().unwrap();
    assert!(multicast.entries().iter().all(|entry| entry.counters.wrong_interface() == 1));
    // From destination 1's address, which is behind interface 1.
    let mut free = rig(None, &[(0, 1), (1, 1), (3, 1)]);
    let from = |to: u8| {
        [
            changed4(frames()[0].clone(), |frame| frame[26..30].copy_from_slice(&v4(to).octets())),
            changed(frames()[1].clone(), |frame| frame[22..38].copy_from_slice(&v6(to).octets())),
        ]
    };
    assert!(run(&mut free, 1, &from(1)).is_empty());
    assert_eq!((free.sent(0).len(), free.sent(1).len(), free.sent(2).len()), (2, 0, 2));
    for source in [0, 3, BLACKHOLE, LOCAL, NOWHERE] {
        assert_eq!(run(&mut free, 1, &from(source)), ["multicast.wrong_interface"; 2], "from {source}");
    }
}

#[test]
fn ttl_thresholds_and_boundaries_drop_silently() {
    let mut rig = rig(Some(0), &[(1, 1), (3, 32)]);
    let ttl = |ttl: u8| {
        [changed4(frames()[0].clone(), |frame| frame[22] = ttl), changed(frames()[1].clone(), |frame| frame[21] = ttl)]
    };
    for low in [0, 1] {
        assert_eq!(run(&mut rig, 0, &ttl(low)), ["multicast.ttl"; 2]);
    }
    assert!(run(&mut rig, 0, &[ttl(2), ttl(32), ttl(33)].concat()).is_empty());
    assert_eq!((rig.sent(1).len(), rig.sent(2).len()), (6, 2));
    let boundary = MulticastLimits {
        boundary: vec!["239.0.0.0/8".parse().unwrap(), "ff05::/16".parse().unwrap()],
        ..MulticastLimits::default()
    };
    // Out of interface 1, then in by interface 0.
    let open = MulticastLimits::default;
    let linux = MulticastOrigin::Static;
    rig.set_multicast(routes(Some(0), &[(1, 1), (3, 1)], linux), vec![open(), boundary.clone()]);
    assert!(run(&mut rig, 0, &frames()).is_empty());
    assert_eq!((rig.sent(1).len(), rig.sent(2).len()), (0, 2));
    rig.set_multicast(routes(None, &[(3, 1)], linux), vec![boundary]);
    assert_eq!(run(&mut rig, 0, &frames()), ["multicast.boundary"; 2]);
    assert_eq!(rig.ctx.counters.punted.get(), 0);
}

#[test]
fn a_route_back_to_where_it_came_from_or_to_nowhere_sends_nothing() {
    for to in [&[(0, 1)][..], &[], &[(99, 1)]] {
        let mut rig = rig(Some(0), to);
        assert_eq!(run(&mut rig, 0, &frames()), ["multicast.no_output"; 2]);
    }
    let mut rig = rig(None, &[(1, 1)]);
    let frame = changed4(frames()[0].clone(), |frame| frame[26..30].copy_from_slice(&v4(1).octets()));
    assert_eq!(run(&mut rig, 1, &[frame]), ["multicast.no_output"]);
    rig.change_interface(1, |interface| interface.up = false);
    assert!(rig.ctx.tables.multicast.as_ref().unwrap().entries()[0].outputs.is_empty(), "it is down");
}

#[test]
fn routing_daemons_hear_their_protocols_and_some_of_what_has_no_route() {
    let mut rig = rig(Some(0), &[(1, 1)]);
    let [to4, to6] = frames();
    for protocol in [2, 103] {
        let frame = changed4(to4.clone(), |frame| frame[23] = protocol);
        assert_eq!(run(&mut rig, 0, &[frame]), ["multicast.control"]);
    }
    for (next_header, kind) in [(58, 130), (58, 131), (58, 132), (58, 143), (58, 153), (103, 0)] {
        let frame = changed(to6.clone(), |frame| (frame[20], frame[54]) = (next_header, kind));
        assert_eq!(run(&mut rig, 0, &[frame]), ["multicast.control"]);
    }
    let echo = changed(to6.clone(), |frame| (frame[20], frame[54]) = (58, 128));
    assert!(run(&mut rig, 0, &[echo]).is_empty());
    let other = to_group(to4, Ipv4Addr::new(239, 1, 2, 4).into());
    assert_eq!(run(&mut rig, 0, &vec![other.clone(); 32]), vec!["multicast.no_route"; 32]);
    assert_eq!(run(&mut rig, 0, &vec![other.clone(); 3]), vec!["multicast.no_route_limited"; 3]);
    // Another flow has a cell of its own, and time earns another packet.
    assert_eq!(run(&mut rig, 0, &[to_group(to6, "ff05::9".parse().unwrap())]), ["multicast.no_route"]);
    rig.ctx.now += 5_000_000;
    let names = ["multicast.no_route", "multicast.no_route_limited"];
    assert_eq!(run(&mut rig, 0, &[other.clone(), other]), names);
}

#[test]
fn linux_gets_its_share_of_its_own_routes() {
    let mut rig = Rig::new();
    rig.ctx.now = 1;
    rig.set_multicast(routes(Some(0), &[(0, 1), (1, 1)], MulticastOrigin::Linux), Vec::new());
    assert_eq!(run(&mut rig, 0, &frames()), ["multicast.sample"; 2]);
    assert!(run(&mut rig, 0, &frames()).is_empty());
    rig.ctx.now += SAMPLE_INTERVAL;
    assert_eq!(run(&mut rig, 0, &[frames(), frames()].concat()), ["multicast.sample"; 2]);
    assert_eq!(rig.sent(1).len(), 4);
    let both = ["multicast.wrong_interface", "multicast.assert"];
    let again = &frames()[..1];
    assert_eq!(run(&mut rig, 1, &[again, again].concat()), both);
    // Of any source, it is for its own interfaces alone: a source elsewhere is new to the daemon.
    assert_eq!(
        run(&mut rig, 2, &[changed(tagged(again[0].clone(), 2, 20), |f| f[..6].copy_from_slice(&again[0][..6]))]),
        ["multicast.no_route"]
    );
    rig.set_multicast(routes(Some(0), &[(1, 1)], MulticastOrigin::LinuxAlone), Vec::new());
    assert_eq!(run(&mut rig, 0, &[frames(), frames()].concat()), ["multicast.linux"; 4]);
    assert!(rig.sent(1).is_empty(), "Linux forwards them, and nobody else");
}

#[test]
fn what_is_too_big_for_one_interface_goes_to_the_slow_path_as_a_whole() {
    let mut rig = rig(Some(0), &[(1, 1), (u16::from(SMALL_MTU), 64), (3, 1)]);
    rig.set_multicast(routes(Some(1), &[(0, 1), (4, 1)], MulticastOrigin::Static), Vec::new());
    let big = [to_group(udp4(0, 1253), GROUP4), to_group(udp6(0, 1233), GROUP6)];
    let fits = [to_group(udp4(0, 1252), GROUP4), to_group(udp6(0, 1232), GROUP6)];
    assert_eq!(run(&mut rig, 1, &big), ["multicast.too_big"; 2]);
    assert_eq!(rig.punted.try_iter().map(|punted| punted.packet.bytes().to_vec()).collect::<Vec<_>>(), big);
    assert!(run(&mut rig, 1, &fits).is_empty());
    assert_eq!(rig.sent(0).len(), 4);
    // Not if it would not leave by that interface anyway.
    rig.set_multicast(routes(Some(1), &[(0, 1), (4, 200)], MulticastOrigin::Static), Vec::new());
    assert!(run(&mut rig, 1, &big).is_empty());
}

#[test]
fn super_frames_stay_whole_where_their_segments_fit() {
    for (size, fits) in [(1000, true), (1300, false)] {
        let mut rig = rig(Some(1), &[(0, 1), (4, 1)]);
        let slot = rig.receive(1, &to_group(udp4(0, 5000), GROUP4));
        rig.batch.slot(slot).unwrap().set_gso_size(NonZeroU16::new(size));
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        perigee_modules::classify::classify(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        multicast(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        if fits {
            let sizes: Vec<_> = rig.sent_packets(0).iter().map(|packet| packet.gso_size()).collect();
            assert_eq!(sizes, [NonZeroU16::new(size); 2]);
            let packets = rig.ctx.tables.multicast.as_ref().unwrap().entries()[0].counters.packets();
            assert_eq!(packets, 5, "5000 bytes in segments of 1000");
        } else {
            assert_eq!(rig.reasons(), [("multicast.too_big".to_owned(), 1)]);
            assert_eq!(rig.punted.try_recv().unwrap().packet.gso_size(), NonZeroU16::new(size));
        }
    }
}

#[test]
fn a_lack_of_buffers_or_headroom_is_counted_and_leaks_nothing() {
    let mut rig = rig(Some(0), &[(1, 1), (2, 1), (3, 1)]);
    let slot = rig.receive_classified(&frames()[0]);
    let held: Vec<_> = std::iter::from_fn(|| rig.pool.packet(&[0; 60])).collect();
    let mut ip4 = Mask::only(slot);
    multicast(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut Mask::default());
    assert_eq!((ip4, rig.reasons()), (Mask::EMPTY, vec![("multicast.no_buffer".to_owned(), 2)]));
    assert_eq!(rig.sent(2).len(), 1, "the packet itself leaves by the last interface");
    drop(held);
    assert_eq!(rig.pool.in_use(), 0);
    let slot = rig.receive_classified(&frames()[0]);
    rig.use_up_headroom(slot);
    multicast(&mut rig.ctx, &mut rig.batch, &mut Mask::only(slot), &mut Mask::default());
    // Copies have headroom of their own.
    assert_eq!(rig.reasons()[1], ("multicast.no_room".to_owned(), 1));
    rig.batch.refill();
    assert_eq!((rig.sent(1).len(), rig.pool.in_use()), (2, 0));
}

#[test]
fn more_copies_than_a_batch_has_places() {
    let mut rig = rig(Some(0), &[(1, 1), (2, 1), (3, 1), (5, 1)]);
    let burst: Vec<_> = (0..200).map(|n| to_group(udp4(0, n), GROUP4)).collect();
    let lost = run(&mut rig, 0, &burst);
    assert_eq!(lost, vec!["distribute.no_port"; 200], "of the interface whose port cannot transmit");
    let plain: Vec<_> = rig.sent(2);
    let expected: Vec<_> = burst.iter().map(|frame| leaving(frame, 2, Some(20))).collect();
    assert_eq!(plain, expected, "in their order");
    assert_eq!((rig.sent(1).len(), rig.pool.in_use()), (400, 0));
}

#[test]
fn a_script_without_the_module_gets_no_groups() {
    let mut rig = rig(Some(0), &[(1, 1)]);
    for expected in [2, 0] {
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        for frame in frames() {
            rig.receive(0, &frame);
        }
        perigee_modules::classify::classify(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        perigee_modules::ipv4_valid::ipv4_valid(&mut rig.ctx, &mut rig.batch, &mut ip4);
        perigee_modules::ipv6_valid::ipv6_valid(&mut rig.ctx, &mut rig.batch, &mut ip6);
        assert_eq!((ip4 | ip6).count(), expected, "the second burst knows that the first never came to the module");
        rig.batch.refill();
    }
    assert_eq!(rig.reasons(), [("classify.multicast".to_owned(), 2)]);
}
