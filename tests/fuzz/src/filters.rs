// SPDX-License-Identifier: MIT
//! Frames against filters: random lists of rules, nearly right frames, and a reader of both that shares no code with
//! the router's.
//!
//! What a list denies goes to a router with that list, by its ports and by the queues that a device would fill for the
//! slow path, and must vanish: no worker sends or punts anything, and the slow path counts each such frame as denied.
//! What a list lets pass goes to another router with the same list, which must deny nothing.

use crate::bed::{Bed, ONE_EACH, ask};
use crate::frames::mutate;
use crate::frames::router::{ADDRESSES4, ADDRESSES6, PORTS, configuration};
use crate::frames::templates::{self, Template};
use perigee_api::queries::ShowDrops;
use perigee_net::Prefix;
use perigee_worker::native;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Frames of a list, denied and let pass.
const PIECE: u64 = 4_000;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Lists of rules.
    pub lists: u64,
    /// Frames that a list denies.
    pub denied: u64,
    /// Those of them that do not show their ports or their protocol.
    pub hidden: u64,
    /// Frames that a list lets pass.
    pub passed: u64,
}

/// A rule, as its reader here has it.
#[derive(Clone, Debug)]
struct Rule {
    src: Option<Prefix>,
    dst: Option<Prefix>,
    proto: Option<u8>,
    sport: Option<RangeInclusive<u16>>,
    dport: Option<RangeInclusive<u16>>,
    drop: bool,
}

/// A packet, as far as it shows what rules ask for.
#[derive(Clone, Debug)]
struct Packet {
    src: IpAddr,
    dst: IpAddr,
    proto: Option<u8>,
    /// `None`: it has some, and does not show them.
    ports: Option<(u16, u16)>,
}

/// Tries frames until `frames` denied ones have been.
///
/// # Panics
/// A denied frame has passed, or one that passes was denied; the message has the seed, the list and the frame.
pub fn run(frames: u64, seed: u64, folder: &Path, progress: impl Fn(u64)) -> Outcome {
    let templates = templates::all();
    let mut outcome = Outcome::default();
    while outcome.denied < frames {
        let before = outcome.denied;
        let mut random = SmallRng::seed_from_u64(seed.wrapping_add(outcome.lists));
        let rules: Vec<Rule> = (0..random.random_range(1..12)).map(|_| rule(&mut random)).collect();
        let report = Report { seed: seed.wrapping_add(outcome.lists), rules: &rules };
        list(&mut random, &rules, &templates, folder, &mut outcome);
        drop(report);
        outcome.lists += 1;
        progress(outcome.denied - before);
    }
    outcome
}

struct Report<'a> {
    seed: u64,
    rules: &'a [Rule],
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the first list of seed {}:\n{}", self.seed, text(self.rules));
        }
    }
}

fn list(random: &mut SmallRng, rules: &[Rule], templates: &[Template], folder: &Path, outcome: &mut Outcome) {
    let all = configuration(1, 1);
    let (before, after) = (all.find("[[filter]]"), all.find("[[neighbor]]"));
    let (before, after) = (before.expect("filters of its own"), after.expect("neighbors behind them"));
    let configuration = format!("{}{}{}", &all[..before], text(rules), &all[after..]);
    let mut beds = ["denied", "passed"].map(|name| Bed::new(&configuration, &folder.join(name), ONE_EACH));
    beds.iter_mut().for_each(Bed::settle);
    let (mut frame, mut denied) = (Vec::new(), [0, 0]);
    for _ in 0..PIECE {
        let port = mutate::frame(&mut frame, templates, random);
        let Some(packet) = read(&frame) else { continue };
        let is_denied = verdict(rules, &packet);
        let bed = &mut beds[usize::from(!is_denied)];
        bed.now.fetch_add(1000, Ordering::Relaxed);
        let before = sent(bed);
        if is_denied && random.random_range(0..8) == 0 {
            assert!(bed.steered[usize::from(port)].inject(&frame), "room for a frame");
            denied[1] += 1;
        } else {
            assert!(bed.receive[usize::from(port)][0].inject(&frame), "room for a frame");
            denied[0] += u64::from(is_denied);
        }
        native::round(&mut bed.workers[0], &mut bed.bursts[0]);
        bed.workers[0].context().flush_all();
        if is_denied {
            assert_eq!(sent(bed), before, "a denied frame was sent or punted: {packet:?}, {frame:02x?}");
            outcome.hidden += u64::from(packet.ports.is_none());
        }
        outcome.denied += u64::from(is_denied);
        outcome.passed += u64::from(!is_denied);
        if outcome.denied.is_multiple_of(64) {
            bed.slow.round();
        }
    }
    let counts = beds.each_mut().map(|bed| {
        bed.settle();
        let drops = ask(bed, ShowDrops {}).expect("drops can always be shown");
        let count = |module: &str| {
            let of = drops.iter().filter(|drop| drop.module == module && drop.reason.ends_with("denied"));
            of.map(|drop| drop.packets).sum::<u64>()
        };
        [count("filter"), count("slowpath")]
    });
    assert!(counts[0][0] <= denied[0], "{} of {} frames", counts[0][0], denied[0]);
    assert_eq!(counts[0][1], denied[1], "frames of the queues for the slow path alone");
    assert_eq!(counts[1], [0, 0], "frames that no rule is about were denied");
    for bed in beds {
        assert_eq!(bed.end(), 0, "packet buffers are missing");
    }
}

/// How many frames the worker has sent or punted.
fn sent(bed: &mut Bed) -> u64 {
    let counters = &bed.workers[0].context().counters;
    (0..PORTS).map(|port| counters.port_transmitted(port)).sum::<u64>() + counters.punted.get()
}

fn rule(random: &mut SmallRng) -> Rule {
    let is_4 = random.random();
    let prefix = |random: &mut SmallRng| {
        let (address, longest): (IpAddr, u8) = match is_4 {
            true => (ADDRESSES4[random.random_range(0..ADDRESSES4.len())].into(), 32),
            false => (ADDRESSES6[random.random_range(0..ADDRESSES6.len())].into(), 128),
        };
        Prefix::truncated(address, [0, longest / 2, longest - 8, longest][random.random_range(0..4)]).ok()
    };
    let mut some = |one_in: f64| random.random_bool(one_in);
    let (with_src, with_dst, with_proto, with_ports) = (some(0.3), some(0.6), some(0.6), some(0.5));
    let (src, dst) = (prefix(random).filter(|_| with_src), prefix(random).filter(|_| with_dst));
    let proto = [6, 17, 17, 1, 58, 89, 2, 132][random.random_range(0..8)];
    let ports = |random: &mut SmallRng| {
        let first = [0, 1, 53, 1000, 2000, 4001, 9000][random.random_range(0..7)];
        Some(first..=first + [0, 1, 5000][random.random_range(0..3)])
    };
    let with_ports = with_ports && with_proto && matches!(proto, 6 | 17 | 132);
    let (sport, dport) = (ports(random).filter(|_| with_ports), ports(random).filter(|_| with_ports));
    let (with_sport, with_dport) = (random.random(), random.random_bool(0.8));
    Rule {
        src,
        dst,
        proto: with_proto.then_some(proto),
        sport: sport.filter(|_| with_sport),
        dport: dport.filter(|_| with_dport),
        drop: random.random_bool(0.6),
    }
}

/// The rules as the configuration has them.
fn text(rules: &[Rule]) -> String {
    let mut text = String::new();
    for Rule { src, dst, proto, sport, dport, drop } in rules {
        text.push_str("[[filter]]\n");
        for (key, prefix) in [("src", src), ("dst", dst)] {
            prefix.iter().for_each(|prefix| writeln!(text, "{key} = \"{prefix}\"").expect("a string grows"));
        }
        proto.iter().for_each(|proto| writeln!(text, "proto = {proto}").expect("a string grows"));
        for (key, ports) in [("sport", sport), ("dport", dport)] {
            let line = |ports: &RangeInclusive<u16>| format!("{key} = \"{}-{}\"\n", ports.start(), ports.end());
            ports.iter().for_each(|ports| text.push_str(&line(ports)));
        }
        let action = if *drop { "drop" } else { "accept" };
        writeln!(text, "action = \"{action}\"").expect("a string grows");
    }
    text
}

/// Is the packet dropped? The first rule that is surely about it decides, and before that any that drops and may be.
fn verdict(rules: &[Rule], packet: &Packet) -> bool {
    for rule in rules {
        let within = |prefix: &Option<Prefix>, address| prefix.as_ref().is_none_or(|prefix| prefix.contains(address));
        if !within(&rule.src, packet.src) || !within(&rule.dst, packet.dst) {
            continue;
        }
        // Yes, no, or unknown.
        let proto = rule.proto.map_or(Some(true), |proto| packet.proto.map(|own| own == proto));
        let port = |range: &Option<RangeInclusive<u16>>, own: fn((u16, u16)) -> u16| match range {
            None => Some(true),
            Some(range) => packet.ports.map(|ports| range.contains(&own(ports))),
        };
        match [proto, port(&rule.sport, |ports| ports.0), port(&rule.dport, |ports| ports.1)] {
            answers if answers.contains(&Some(false)) => {}
            [Some(true), Some(true), Some(true)] => return rule.drop,
            _ if rule.drop => return true,
            _ => {}
        }
    }
    false
}

/// What a frame shows, if it is an IP packet behind at most one tag, a customer's or a provider's.
fn read(frame: &[u8]) -> Option<Packet> {
    let word = |bytes: &[u8], at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let at = if matches!(word(frame, 12)?, 0x8100 | 0x88a8) { 18 } else { 14 };
    let packet = frame.get(at..)?;
    match word(frame, at - 2)? {
        0x0800 => read4(packet),
        0x86dd => read6(packet),
        _ => None,
    }
}

fn read4(packet: &[u8]) -> Option<Packet> {
    let header = packet.get(..20)?;
    let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let end = packet.len().min(usize::from(header[2]) << 8 | usize::from(header[3]));
    let behind = packet[..end].get(usize::from(header[0] & 15) * 4..);
    let is_first = header[6] & 0x1f == 0 && header[7] == 0;
    let ports = ports(header[9], behind.filter(|_| is_first));
    Some(Packet { src: address(12), dst: address(16), proto: Some(header[9]), ports })
}

fn read6(packet: &[u8]) -> Option<Packet> {
    let header = packet.get(..40)?;
    let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).expect("sixteen bytes"));
    let end = packet.len().min(40 + (usize::from(header[4]) << 8 | usize::from(header[5])));
    let mut rest = &packet[40..end];
    let (mut next, mut shown, mut is_later) = (header[6], true, false);
    let (mut count, mut fragments) = (0, 0);
    while [0, 43, 44, 51, 60].contains(&next) {
        let length = match (next, rest.get(1)) {
            (44, Some(_)) => 8,
            (51, Some(words)) => 4 * (usize::from(*words) + 2),
            (_, Some(units)) => 8 * (usize::from(*units) + 1),
            _ => usize::MAX,
        };
        // RFC 8200 4.1: hop-by-hop options stand first.
        fragments += usize::from(next == 44);
        // A fragment of a fragment shows nothing.
        if is_later || fragments > 1 || count == 8 || rest.len() < length || (next == 0 && count > 0) {
            shown = false;
            break;
        }
        is_later = next == 44 && (rest[2] != 0 || rest[3] & 0xf8 != 0);
        next = rest[0];
        rest = &rest[length..];
        count += 1;
    }
    let proto = Some(next).filter(|_| shown);
    let ports = proto.and_then(|proto| ports(proto, Some(rest).filter(|_| !is_later)));
    Some(Packet { src: address(8), dst: address(24), proto, ports })
}

/// Of a protocol with ports, those in the bytes behind the IP header, if these are there; of others 0.
fn ports(proto: u8, behind: Option<&[u8]>) -> Option<(u16, u16)> {
    if ![6, 17, 33, 132, 136].contains(&proto) {
        return Some((0, 0));
    }
    let &[a, b, c, d] = behind?.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
