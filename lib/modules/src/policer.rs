// SPDX-License-Identifier: MIT
//! The policer before the slow path (RFC 6192): what each port may give it, by class.
//!
//! ```text
//!  a punted packet ──► class, by its reason and headers ──► its source's share of the class ──► the port's class ──► punt ring
//!                                                                 │ too many                      │ too many
//!                                                                 └───────────────────────────────┴─► dropped: host.policed_CLASS
//! ```
//!
//! Limits are the port's, shared by all workers. A source, one of `SOURCES` hashes of its address, has at most a
//! quarter of a class, so that one station cannot keep the others of its class out. Each limit is a generic cell rate
//! algorithm (ITU-T I.371): the time at which the bucket would be empty again, in one word.
//!
//! Only packets for the router itself are of the first classes: a packet in transit that has expired is `Other`,
//! whatever it carries.

use crate::catalog::all_reasons;
use crate::host;
use crate::reason::{FIRST_CUSTOM, REASON_COUNT, Reason};
use perigee_net::{PuntClass, PuntLimit, PuntLimits};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::protocol;
use perigee_packet::wire::vlan::{self, Innermost};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hashes of sources that are told apart.
const SOURCES: usize = 64;
/// A source's part of its class.
const SHARE: u32 = 4;
const SECOND: u64 = 1_000_000_000;
/// Limits from this rate on are none.
const UNLIMITED: u32 = 1_000_000_000;

/// Why a packet of a class is dropped.
pub const fn reason(class: PuntClass) -> Reason {
    match class {
        PuntClass::Routing => host::POLICED_ROUTING,
        PuntClass::Discovery => host::POLICED_DISCOVERY,
        PuntClass::Unresolved => host::POLICED_UNRESOLVED,
        PuntClass::Icmp => host::POLICED_ICMP,
        PuntClass::Management => host::POLICED_MANAGEMENT,
        PuntClass::Other => host::POLICED_OTHER,
    }
}

/// A limit that several threads keep together.
struct Bucket {
    /// ns between two packets at the limit's rate.
    interval: u64,
    /// How far ahead of its rate it may be, in ns.
    tolerance: u64,
    /// When it would be empty again.
    empty: AtomicU64,
}

impl Bucket {
    fn new(limit: PuntLimit, share: u32) -> Bucket {
        let rate = u64::from(limit.rate.div_ceil(share));
        let interval = SECOND.checked_div(rate).map_or(u64::MAX, |interval| interval.max(1));
        let burst = u64::from(limit.burst.div_ceil(share).max(1));
        Bucket { interval, tolerance: interval.saturating_mul(burst), empty: AtomicU64::new(0) }
    }

    /// Takes a place, if there is one.
    fn take(&self, now: u64) -> bool {
        if self.interval == u64::MAX {
            return false;
        }
        let mut empty = self.empty.load(Ordering::Relaxed);
        loop {
            let next = empty.max(now).saturating_add(self.interval);
            if next - now > self.tolerance {
                return false;
            }
            match self.empty.compare_exchange_weak(empty, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => empty = other,
            }
        }
    }
}

/// A class of a port.
struct Class {
    unlimited: bool,
    all: Bucket,
    sources: Box<[Bucket]>,
}

/// The limits of all ports.
pub struct Policer {
    ports: Vec<[Class; PuntClass::ALL.len()]>,
    secret: u64,
}

/// What a packet is for the policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policed {
    /// Its class.
    pub class: PuntClass,
    /// The bytes that name its sender.
    source: u64,
}

impl Policer {
    /// The limits of each port, by its number. `secret` keeps strangers from choosing addresses that share a bucket
    /// with others'.
    pub fn new(limits: &[PuntLimits], secret: u64) -> Policer {
        let class = |limit: &PuntLimit| Class {
            unlimited: limit.rate >= UNLIMITED,
            all: Bucket::new(*limit, 1),
            sources: (0..SOURCES).map(|_| Bucket::new(*limit, SHARE)).collect(),
        };
        Policer { ports: limits.iter().map(|port| port.each_ref().map(class)).collect(), secret }
    }

    /// Whether a packet of this port may go to the slow path now.
    pub fn admits(&self, port: u16, packet: Policed, now: u64) -> bool {
        let Some(class) = self.ports.get(usize::from(port)).map(|port| &port[packet.class as usize]) else {
            return true;
        };
        if class.unlimited {
            return true;
        }
        // A multiplication mixes enough: the secret is not to be guessed, and the high bits choose.
        let mixed = (packet.source ^ self.secret).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let source = (mixed >> 58) as usize % SOURCES;
        class.sources[source].take(now) && class.all.take(now)
    }
}

/// What packets of a reason are, before their headers are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// For the router itself or everybody on the link: the headers tell.
    Own,
    Unresolved,
    Transit,
}

/// By the reason's number.
static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = vec![Kind::Transit; REASON_COUNT];
    kinds[usize::from(FIRST_CUSTOM)..].fill(Kind::Own);
    for (reason, module, info) in all_reasons() {
        kinds[reason.index()] = match (module, info.name) {
            ("ipv4_lookup" | "ipv6_lookup", "local") => Kind::Own,
            ("ipv4_lookup" | "ipv6_lookup", "unresolved") | ("apply", "stale") => Kind::Unresolved,
            ("classify", _) | ("filter", "ipv4_steered" | "ipv6_steered") | ("multicast", "control") => Kind::Own,
            ("ipv4_valid" | "ipv6_valid", "multicast" | "link_local" | "own_source" | "hop_by_hop") => Kind::Own,
            _ => Kind::Transit,
        };
    }
    kinds
});

/// What a frame is that a device's filter put into a queue of the slow path's own.
pub fn steered(frame: &[u8]) -> Policed {
    classify(frame, crate::filter::STEERED4)
}

/// The class of a frame that is punted under a reason.
pub fn classify(frame: &[u8], reason: Reason) -> Policed {
    let station = || word(frame.get(6..12));
    let other = |source| Policed { class: PuntClass::Other, source };
    let Ok(Innermost { ethertype: kind, offset, .. }) = vlan::innermost(frame) else { return other(station()) };
    let Some(packet) = frame.get(offset..) else { return other(station()) };
    let source = match kind {
        ethertype::IPV4 => word(packet.get(12..16)),
        // The network of a host, which can have any address in it.
        ethertype::IPV6 => word(packet.get(8..16)),
        _ => station(),
    };
    let class = match KINDS[reason.index()] {
        Kind::Unresolved => PuntClass::Unresolved,
        Kind::Transit => PuntClass::Other,
        Kind::Own => match kind {
            ethertype::ARP => PuntClass::Discovery,
            ethertype::IPV4 => ipv4(packet),
            ethertype::IPV6 => ipv6(packet),
            // IS-IS: 802.3 with a length, LLC 0xfefe.
            0..=1500 if packet.starts_with(&[0xfe, 0xfe]) => PuntClass::Routing,
            _ => PuntClass::Other,
        },
    };
    Policed { class, source }
}

/// Up to eight bytes as a number.
fn word(bytes: Option<&[u8]>) -> u64 {
    bytes.unwrap_or_default().iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn ipv4(packet: &[u8]) -> PuntClass {
    let header = usize::from(packet.first().map_or(0, |first| first & 15)) * 4;
    let fragment = packet.get(6..8).is_some_and(|field| field[0] & 0x1f != 0 || field[1] != 0);
    let above = if fragment { &[] } else { packet.get(header..).unwrap_or_default() };
    upper(packet.get(9).copied().unwrap_or(255), above)
}

fn ipv6(packet: &[u8]) -> PuntClass {
    let (mut next, mut above) = (packet.get(6).copied().unwrap_or(255), packet.get(40..).unwrap_or_default());
    // MLD has a router alert before it. What is for one station may be in transit: its options are looked at, nothing
    // else.
    if next == protocol::HOP_BY_HOP {
        if packet.get(24) != Some(&0xff) {
            return PuntClass::Other;
        }
        let length = usize::from(above.get(1).copied().unwrap_or(0)) * 8 + 8;
        next = above.first().copied().unwrap_or(255);
        above = above.get(length..).unwrap_or_default();
    }
    upper(next, above)
}

/// The class of a packet for the router itself. Protocol numbers and ports are IANA's.
fn upper(next: u8, above: &[u8]) -> PuntClass {
    let ports = || [above.get(0..2), above.get(2..4)].map(word);
    match next {
        // IGMP, EIGRP, OSPF, PIM, VRRP, IS-IS over IP.
        2 | 88 | 89 | 103 | 112 | 124 => PuntClass::Routing,
        // BGP, LDP.
        protocol::TCP if ports().iter().any(|port| [179, 646].contains(port)) => PuntClass::Routing,
        // RIP, RIPng, LDP, OLSR, HSRP, BFD, BFD over several hops, Babel.
        protocol::UDP if [520, 521, 646, 698, 1985, 3784, 3785, 4784, 6696].contains(&ports()[1]) => PuntClass::Routing,
        protocol::TCP | protocol::UDP => PuntClass::Management,
        protocol::ICMP => PuntClass::Icmp,
        protocol::ICMPV6 => match above.first() {
            // Router and neighbor solicitations and advertisements, redirects.
            Some(133..=137) => PuntClass::Discovery,
            // MLD.
            Some(130..=132 | 143) => PuntClass::Routing,
            _ => PuntClass::Icmp,
        },
        _ => PuntClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::synth::Random;

    const LIMITS: PuntLimits = [PuntLimit { rate: 1000, burst: 40 }; PuntClass::ALL.len()];

    fn of(class: PuntClass, source: u64) -> Policed {
        Policed { class, source }
    }

    /// A bucket as it is drawn: it leaks at its rate, and takes what does not overflow it.
    struct Leaky {
        rate: f64,
        burst: f64,
        level: f64,
        seen: u64,
    }

    impl Leaky {
        fn take(&mut self, now: u64) -> bool {
            self.level = (self.level - (now - self.seen) as f64 * self.rate / 1e9).max(0.0);
            self.seen = now;
            let room = self.level + 1.0 <= self.burst + 1e-6;
            self.level += f64::from(u8::from(room));
            room
        }
    }

    #[test]
    fn a_bucket_is_the_leaky_one_of_the_textbooks() {
        let seed = std::env::var("PERIGEE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
        println!("PERIGEE_SEED={seed}");
        let mut random = Random::new(seed);
        for _ in 0..200 {
            // Rates whose interval is a whole number of ns, so that both count alike.
            let rate = [1, 10, 1000, 50_000, 1_000_000][random.bits() as usize % 5];
            let burst = 1 + random.bits() as u32 % 50;
            let bucket = Bucket::new(PuntLimit { rate, burst }, 1);
            let mut leaky = Leaky { rate: rate.into(), burst: burst.into(), level: 0.0, seen: 0 };
            let mut now = 0;
            for _ in 0..500 {
                now += random.bits() % (2 * SECOND / u64::from(rate));
                let mut burst = random.bits() % 4;
                while burst > 0 {
                    assert_eq!(bucket.take(now), leaky.take(now), "seed {seed}, {rate}/s at {now}");
                    burst -= 1;
                }
            }
        }
    }

    #[test]
    fn a_source_has_a_quarter_of_its_class_and_a_class_nothing_of_another() {
        let policer = Policer::new(&[LIMITS; 2], 99);
        let taken = |port, class, source| (0..100).filter(|_| policer.admits(port, of(class, source), 5)).count();
        assert_eq!(taken(0, PuntClass::Icmp, 1), 10);
        assert_eq!(taken(0, PuntClass::Icmp, 1), 0);
        let others: usize = (2..100).map(|source| taken(0, PuntClass::Icmp, source)).sum();
        assert_eq!(others, 30, "the rest of the class");
        assert_eq!(taken(0, PuntClass::Routing, 1), 10, "another class");
        assert_eq!(taken(1, PuntClass::Icmp, 1), 10, "another port");
        assert_eq!(taken(7, PuntClass::Icmp, 1), 100, "no port of this router's has no limit");
    }

    #[test]
    fn none_and_unlimited_are_rates_too() {
        let mut limits = LIMITS;
        limits[PuntClass::Other as usize].rate = 0;
        limits[PuntClass::Icmp as usize].rate = UNLIMITED;
        let policer = Policer::new(&[limits], 0);
        for now in [0, 1, SECOND, u64::MAX / 2] {
            assert!(!policer.admits(0, of(PuntClass::Other, 1), now));
            assert!((0..10_000).all(|_| policer.admits(0, of(PuntClass::Icmp, 1), now)));
        }
    }

    #[test]
    fn threads_share_a_limit_without_exceeding_it() {
        let policer = Policer::new(&[[PuntLimit { rate: 1000, burst: 4000 }; 6]], 3);
        let taken = std::thread::scope(|scope| {
            let thread = |first: u64| {
                let policer = &policer;
                scope.spawn(move || {
                    let packet = |n: u64| of(PuntClass::Routing, first + n % 1000);
                    (0..20_000).filter(|n| policer.admits(0, packet(*n), 10)).count()
                })
            };
            let threads: Vec<_> = (0..4).map(|n| thread(n * 1000)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(taken, 4000);
    }

    fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9][..], &kind.to_be_bytes(), packet].concat()
    }

    fn ip4(next: u8, above: &[u8]) -> Vec<u8> {
        let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, next, 0, 0, 10, 0, 1, 2, 10, 0, 1, 1].to_vec();
        header.extend(above);
        frame(ethertype::IPV4, &header)
    }

    fn ip6(next: u8, destination: u8, above: &[u8]) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 255];
        header.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        header.extend([destination, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        header.extend(above);
        frame(ethertype::IPV6, &header)
    }

    #[test]
    fn packets_fall_into_their_classes() {
        use PuntClass::{Discovery, Icmp, Management, Other, Routing, Unresolved};
        let local = crate::ipv4_lookup::LOCAL;
        let multicast = crate::classify::MULTICAST;
        let tcp = |from: u16, to: u16| [from.to_be_bytes(), to.to_be_bytes()].concat();
        for (class, frame, reason) in [
            (Discovery, frame(ethertype::ARP, &[0; 28]), crate::classify::ARP),
            (Routing, ip4(89, &[]), multicast),
            (Routing, ip4(6, &tcp(179, 40_000)), local),
            (Routing, ip4(6, &tcp(40_000, 179)), local),
            (Routing, ip4(17, &tcp(49_152, 3784)), local),
            (Management, ip4(17, &tcp(3784, 49_152)), local),
            (Management, ip4(6, &tcp(40_000, 22)), local),
            (Icmp, ip4(1, &[8, 0]), local),
            (Other, ip4(47, &[]), local),
            (Other, ip4(6, &tcp(40_000, 179)), crate::ttl::EXPIRED),
            (Unresolved, ip4(6, &tcp(40_000, 179)), crate::ipv4_lookup::UNRESOLVED),
            (Discovery, ip6(58, 0xff, &[135, 0]), multicast),
            (Icmp, ip6(58, 0xfe, &[128, 0]), crate::ipv6_lookup::LOCAL),
            (Routing, ip6(0, 0xff, &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0]), multicast),
            (Other, ip6(0, 0x20, &[6, 0, 5, 2, 0, 0, 1, 0, 0, 179]), crate::ipv6_valid::HOP_BY_HOP),
            (Routing, frame(64, &[0xfe, 0xfe, 3]), multicast),
            (Other, frame(0x88cc, &[2]), crate::classify::OTHER_TYPE),
            (Other, vec![1, 2, 3], multicast),
            (Management, ip4(6, &[]), local),
        ] {
            assert_eq!(classify(&frame, reason).class, class, "{frame:02x?}");
        }
        assert_eq!(steered(&ip4(6, &tcp(179, 40_000))).class, Routing);
        assert_eq!(steered(&frame(ethertype::ARP, &[0; 28])).class, Discovery);
        let tagged = [&ip4(89, &[])[..12], &[0x81, 0, 0, 5][..], &ip4(89, &[])[12..]].concat();
        assert_eq!(classify(&tagged, multicast), classify(&ip4(89, &[]), multicast));
    }
}
