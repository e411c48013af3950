// SPDX-License-Identifier: MIT
//! Frames that are nearly right: the plane does with them what the modules do, or lets others decide.

use crate::bed::{Bed, Outcome};
use perigee_fib::synth::Random;
use perigee_modules::testing::{
    self, DESTINATION_PORT, INTERFACES, SOURCE_PORT, arp_request, changed, fix_checksum, fuzz, own_mac, tagged, udp4,
    udp6, with_options,
};
use perigee_net::{FiveTuple, Interface, PortRange, Prefix, ReversePath, Rule};
use perigee_xdp::Up;
use std::collections::BTreeMap;

/// Destinations of every kind.
const DESTINATIONS: [u8; 14] = [
    0,
    1,
    2,
    3,
    4,
    5,
    testing::UNRESOLVED,
    testing::BLACKHOLE,
    testing::UNREACHABLE,
    testing::PROHIBITED,
    testing::LOCAL,
    testing::TO_LINUX,
    testing::REFUSED,
    testing::NOWHERE,
];

/// Frames in a row that come in by one port: to change it, the plane's settings are written again.
const ROW: u64 = 200;

/// A frame that comes in by a port.
fn frame(random: &mut Random, port: u16) -> Vec<u8> {
    let to = DESTINATIONS[random.below(DESTINATIONS.len() as u32) as usize];
    let payload = [0, 3, 4, 8, 18, 64, 1232, 1240, 1472, 1480][random.below(10) as usize];
    // The port's own VLAN, none, or one that is nobody's.
    let vlan = [[30, 0, 0, 30, 7], [10, 0, 0, 10, 7], [20, 20, 20, 0, 7]][usize::from(port)][random.below(5) as usize];
    let plain = match random.below(16) {
        0 => arp_request(),
        1 => with_options(to, &[1; 4]),
        2..9 => udp6(to, payload),
        _ => udp4(to, payload),
    };
    let mut frame = changed(plain, |frame| frame[..6].copy_from_slice(&own_mac(port).octets()));
    if vlan > 0 || random.below(16) == 0 {
        frame = tagged(frame, port, vlan);
    }
    let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    for _ in 0..random.below(3) {
        let bits = random.bits() as u8;
        // Mostly in the headers.
        let at = if random.below(4) == 0 { random.below(frame.len() as u32) } else { random.below(62) } as usize;
        match random.below(8) {
            0 if frame.len() > 60 => frame.truncate(14 + random.below(frame.len() as u32 - 14) as usize),
            1 => frame.extend(std::iter::repeat_n(bits, random.below(60) as usize)),
            2 => frame.get_mut(l3 + 8).into_iter().for_each(|ttl| *ttl = bits & 3),
            3 => frame.get_mut(l3 + 9).into_iter().for_each(|protocol| *protocol = bits % 8),
            4 => {
                frame.get_mut(l3 + 6).into_iter().for_each(|next| *next = [0, 6, 17, 44, 58, 60][usize::from(bits % 6)])
            }
            _ => frame.get_mut(at).into_iter().for_each(|byte| *byte = bits),
        }
    }
    if random.below(8) > 0 && frame.len() > l3 {
        fix_checksum(&mut frame[l3..]);
    }
    frame
}

/// How often the modules did what, and how often the plane left it to others.
#[derive(Default)]
struct Seen(BTreeMap<String, [u64; 2]>);

impl Seen {
    fn note(&mut self, user: &Outcome, kernel: &Outcome) {
        let name = match user {
            Outcome::Sent(..) => "sent".to_owned(),
            Outcome::Dropped(module, reason) => format!("{module}.{reason}"),
            Outcome::Up => "up".to_owned(),
            Outcome::Copied => "copied".to_owned(),
        };
        let entry = self.0.entry(name).or_default();
        entry[0] += 1;
        entry[1] += u64::from(kernel == &Outcome::Up);
    }

    /// The share of what the plane left to others.
    fn left(&self, name: &str) -> f64 {
        self.0.get(name).map_or(1.0, |[all, left]| *left as f64 / *all as f64)
    }
}

fn run(bed: &mut Bed, random: &mut Random, count: u64) -> Seen {
    let mut seen = Seen::default();
    for i in 0..count {
        let port = (i / ROW % 3) as u16;
        let (user, kernel) = bed.compare(port, &frame(random, port));
        seen.note(&user, &kernel);
    }
    for (name, [all, left]) in &seen.0 {
        println!("{all:>8} {name}, {left} of them left to the router");
    }
    seen
}

pub fn fare_alike() {
    let (mut random, count) = fuzz();
    let seen = run(&mut Bed::new(vec![], vec![]), &mut random, count);
    assert!(seen.left("sent") < 0.05, "what is plain is sent on in the kernel");
    for reason in ["classify.not_ours", "classify.unknown_vlan", "ipv4_lookup.blackhole", "ipv6_valid.short"] {
        assert!(seen.left(reason) < 0.05, "{reason}: dropped in the kernel");
    }
    // Those with options are left to the router.
    assert!(seen.left("ipv4_valid.checksum") < 0.3);
}

pub fn fare_alike_with_filters() {
    let (mut random, count) = fuzz();
    let prefix = |text: &str| text.parse::<Prefix>().ok();
    let rules = [
        FiveTuple {
            dst: prefix("10.1.0.0/16"),
            dport: Some(PortRange::only(DESTINATION_PORT)),
            ..FiveTuple::default()
        },
        FiveTuple { dst: prefix("2001:db8:1::/48"), sport: Some(PortRange::only(SOURCE_PORT)), ..FiveTuple::default() },
        FiveTuple { proto: Some(6), ..FiveTuple::default() },
        FiveTuple { src: prefix("198.51.100.0/25"), dst: prefix("10.3.0.0/16"), ..FiveTuple::default() },
        FiveTuple { dst: prefix("2001:db8:2::/47"), proto: Some(17), ..FiveTuple::default() },
    ];
    let filters = (0..).zip(rules).map(|(number, tuple)| Rule { tuple, deny: number != 3, number }).collect();
    let steered = vec![Rule::deny(FiveTuple { dst: prefix("10.4.0.0/16"), ..FiveTuple::default() })];
    let seen = run(&mut Bed::new(filters, steered), &mut random, count);
    for name in ["sent", "filter.ipv4_denied", "filter.ipv6_denied"] {
        assert!(seen.left(name) < 0.3, "{name}: {}", seen.left(name));
    }
}

/// What Linux gets has passed the filters, as no other router sees it.
pub fn linux_gets_what_the_router_does_not_finish() {
    let (mut random, count) = fuzz();
    let deny = |dst: &str| FiveTuple { dst: dst.parse::<Prefix>().ok(), ..FiveTuple::default() };
    let filters = ["10.1.0.0/16", "2001:db8:1::/48"].into_iter().map(deny);
    let filters = (0..).zip(filters).map(|(number, tuple)| Rule { tuple, deny: true, number }).collect();
    let mut bed = Bed::new(filters, vec![]);
    bed.up = Up::Linux;
    for id in 0..INTERFACES {
        let own = |interface: &mut Interface| interface.addresses.push("192.0.2.1/24".parse().expect("an address"));
        bed.rig.change_interface(id.into(), own);
    }
    bed.publish();
    let mut seen = Seen::default();
    for i in 0..count {
        let port = (i / ROW % 3) as u16;
        let frame = frame(&mut random, port);
        let (user, kernel) = (bed.in_user_space(port, &frame), bed.in_kernel(port, &frame));
        seen.note(&user, &kernel);
        match (&user, &kernel) {
            (user, kernel) if user == kernel => {}
            // Filters come first for what the router would only have judged later, or dropped before.
            (Outcome::Up | Outcome::Copied | Outcome::Dropped(..), Outcome::Dropped("filter", _)) => {}
            (Outcome::Dropped("filter", _), _) => panic!("{user:?}, in the kernel {kernel:?}: {frame:02x?}"),
            (_, Outcome::Up) => {}
            _ => panic!("{user:?}, in the kernel {kernel:?}: {frame:02x?}"),
        }
    }
    assert!(seen.left("sent") < 0.05 && seen.left("filter.ipv4_denied") == 0.0);
    for reason in ["classify.not_ours", "classify.unknown_vlan"] {
        assert!(seen.left(reason) > 0.9, "{reason}: Linux may have a use for it");
    }
}

/// A filter of UDP dropped reports of multicast listeners, whose first header is one of hop-by-hop options.
pub fn extension_headers_are_followed_for_linux() {
    let udp = FiveTuple { proto: Some(17), dport: Some(PortRange::only(DESTINATION_PORT)), ..FiveTuple::default() };
    let mut bed = Bed::new(vec![Rule { tuple: udp, deny: true, number: 0 }], vec![]);
    bed.up = Up::Linux;
    bed.publish();
    // As many headers of hop-by-hop or destination options, then what follows.
    let extended = |count: usize, last: u8| {
        changed(udp6(2, 64), |frame| {
            frame[..6].copy_from_slice(&own_mac(0).octets());
            frame[20] = if count > 0 { 60 } else { last };
            for n in (0..count).rev() {
                let next = if n + 1 == count { last } else { 60 };
                frame.splice(54..54, [next, 0, 1, 4, 0, 0, 0, 0]);
            }
            let length = (frame.len() - 54) as u16;
            frame[18..20].copy_from_slice(&length.to_be_bytes());
        })
    };
    for count in 0..=8 {
        let denied = Outcome::Dropped("filter", "ipv6_denied");
        assert_eq!(bed.in_kernel(0, &extended(count, 17)), denied, "{count} headers");
        assert_ne!(bed.in_kernel(0, &extended(count, 58)), denied, "{count} headers before ICMP");
    }
    assert_eq!(bed.in_kernel(0, &extended(9, 58)), Outcome::Dropped("filter", "ipv6_denied"), "it may be UDP");
}

/// A DHCP client waits for a packet to the address that it is offered.
pub fn linux_gets_all_of_ipv4_where_it_has_no_address() {
    let mut bed = Bed::new(vec![], vec![]);
    for up in [Up::Socket, Up::Linux] {
        bed.up = up;
        bed.publish();
        let frame = |plain: Vec<u8>| changed(plain, |frame| frame[..6].copy_from_slice(&own_mac(0).octets()));
        let sent = |outcome: Outcome| matches!(outcome, Outcome::Sent(..));
        assert_eq!(sent(bed.in_kernel(0, &frame(udp4(2, 64)))), up == Up::Socket);
        assert!(sent(bed.in_kernel(0, &frame(udp6(2, 64)))));
    }
}

pub fn fare_alike_with_reverse_paths() {
    let (mut random, count) = fuzz();
    let mut bed = Bed::new(vec![], vec![]);
    for (id, mode) in [(0, ReversePath::Loose), (1, ReversePath::Strict), (3, ReversePath::Strict)] {
        bed.rig.change_interface(id, |interface| interface.policy.urpf = mode);
    }
    bed.publish();
    let mut seen = Seen::default();
    for i in 0..count {
        let port = (i / ROW % 3) as u16;
        let mut frame = frame(&mut random, port);
        // Sources that have a route.
        let from = random.below(8) as u8;
        match frame.get(12..14) {
            Some([0x08, 0x00]) if frame.len() >= 34 => {
                frame[26..30].copy_from_slice(&testing::v4(from).octets());
                fix_checksum(&mut frame[14..]);
            }
            Some([0x86, 0xdd]) if frame.len() >= 54 => frame[22..38].copy_from_slice(&testing::v6(from).octets()),
            _ => {}
        }
        let (user, kernel) = bed.compare(port, &frame);
        seen.note(&user, &kernel);
    }
    for name in ["sent", "urpf.ipv4_failed", "urpf.ipv6_failed"] {
        assert!(seen.left(name) < 0.05, "{name}: {}", seen.left(name));
    }
}
