// SPDX-License-Identifier: MIT
//! Where packets to groups go: routes by (source, group) and by group alone, with what workers have counted of each.
//!
//! A table is immutable and published as a whole, like interfaces. What it says of a route is ready to be followed:
//! interfaces that are down, that a boundary closes to the group, and the one that packets come in on are no outputs
//! any more. The counters of a route are shared by all versions of the table.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::interface::Interfaces;
use perigee_net::{InterfaceId, MulticastLimits, MulticastOutput, MulticastRoute};

/// How often a packet of a route of Linux's is handed to Linux, in ns. Routing daemons ask the kernel how many packets
/// it has forwarded: a source of which it has seen none for 30 s or more is not there any more.
pub const SAMPLE_INTERVAL: u64 = 10_000_000_000;
/// How often Linux is shown a packet that came in on a wrong interface, in ns; the kernel passes on one in 3 s.
pub const ASSERT_INTERVAL: u64 = 1_000_000_000;

/// Where a route comes from, and who follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MulticastOrigin {
    /// The configuration.
    Static,
    /// A routing daemon, by the kernel's table.
    Linux,
    /// The same, with an interface that is not the router's: the kernel forwards these packets itself.
    LinuxAlone,
}

/// What was counted of a route. Any thread may write: a flow mostly has one worker, so they seldom meet.
#[derive(Debug, Default)]
pub struct MulticastCounters {
    packets: AtomicU64,
    bytes: AtomicU64,
    wrong_interface: AtomicU64,
    /// When the last packet was forwarded, in ns; 0: never.
    last_use: AtomicU64,
    /// Packets for Linux instead of being forwarded, so that its counts go on.
    pub sample: Share<SAMPLE_INTERVAL>,
    /// Packets of a wrong interface, for a routing daemon to assert itself against another router (RFC 7761 4.6).
    pub assert: Share<ASSERT_INTERVAL>,
}

/// Linux's share of the packets: one in `INTERVAL` ns. A worker that finds one due gives it to the slow path, which
/// takes it.
#[derive(Debug, Default)]
pub struct Share<const INTERVAL: u64> {
    /// When the last one was due; 0: never.
    last: AtomicU64,
    /// Whether one is on its way to the slow path. If it gets lost there, the next one is taken instead.
    owed: AtomicBool,
}

impl<const INTERVAL: u64> Share<INTERVAL> {
    /// Whether a packet is due: true for one of an interval, which must then come to [`take`](Self::take).
    #[inline]
    pub fn due(&self, now: u64) -> bool {
        let due = self.claim(now);
        if due {
            self.owed.store(true, Relaxed);
        }
        due
    }

    /// Whether [`take`](Self::take) would say yes; takes nothing.
    pub fn is_next(&self, now: u64) -> bool {
        self.is_over(self.last.load(Relaxed), now) || self.owed.load(Relaxed)
    }

    /// Whether this packet is Linux's, as one is due or on its way.
    pub fn take(&self, now: u64) -> bool {
        self.claim(now) | (self.owed.load(Relaxed) && self.owed.swap(false, Relaxed))
    }

    #[inline]
    fn claim(&self, now: u64) -> bool {
        let before = self.last.load(Relaxed);
        self.is_over(before, now) && self.last.compare_exchange(before, now.max(1), Relaxed, Relaxed).is_ok()
    }

    #[inline]
    fn is_over(&self, last: u64, now: u64) -> bool {
        last == 0 || now.saturating_sub(last) >= INTERVAL
    }
}

impl MulticastCounters {
    /// Packets that came in on the right interface.
    pub fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }

    /// Their bytes, from the IP header on.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Packets that came in on another interface.
    pub fn wrong_interface(&self) -> u64 {
        self.wrong_interface.load(Relaxed)
    }

    /// When the last packet came in on the right interface, in ns of the workers' clock, if one ever has.
    pub fn last_use(&self) -> Option<u64> {
        Some(self.last_use.load(Relaxed)).filter(|time| *time > 0)
    }

    /// Counts packets that came in on the right interface.
    #[inline]
    pub fn used(&self, packets: u64, bytes: u64, now: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.last_use.store(now.max(1), Relaxed);
    }

    /// Counts a packet that came in on another interface.
    pub fn wrong(&self) {
        self.wrong_interface.fetch_add(1, Relaxed);
    }
}

/// A route of the table.
#[derive(Clone, Debug)]
pub struct MulticastEntry {
    /// As it was given.
    pub route: MulticastRoute,
    pub origin: MulticastOrigin,
    /// Where packets leave now. A route without `from` may name the interface that a packet came in on.
    pub outputs: Box<[MulticastOutput]>,
    pub counters: Arc<MulticastCounters>,
}

impl MulticastEntry {
    /// Whether a packet came in where it should. `leads_back` says if the unicast route to its source leads out of that
    /// interface.
    #[inline]
    pub fn expects(&self, interface: InterfaceId, leads_back: impl FnOnce() -> bool) -> bool {
        self.route.from.map_or_else(leads_back, |from| from == interface)
    }

    /// Whether it is for packets that come in on an interface at all. Linux's routes for any source are for those that
    /// come in on one of their own interfaces; a source that is heard elsewhere is a new one.
    #[inline]
    pub fn is_for(&self, interface: InterfaceId) -> bool {
        self.origin != MulticastOrigin::Linux
            || self.route.source.is_some()
            || self.route.to.iter().any(|output| output.interface == interface)
    }

    /// The interfaces by which a packet leaves that came in on `interface` with this TTL or hop limit.
    #[inline]
    pub fn leaves_by(&self, interface: InterfaceId, ttl: u8) -> impl Iterator<Item = MulticastOutput> + Clone + '_ {
        self.outputs.iter().copied().filter(move |output| ttl > output.ttl && output.interface != interface)
    }
}

/// A route that is to enter a table.
#[derive(Clone, Debug)]
pub struct MulticastInput {
    pub route: MulticastRoute,
    pub origin: MulticastOrigin,
    /// What was counted of it so far.
    pub counters: Arc<MulticastCounters>,
}

/// All multicast routes.
#[derive(Clone, Debug, Default)]
pub struct MulticastTable {
    entries: Vec<MulticastEntry>,
    /// Places of entries by group and source, which is 0 for those of any source.
    v4: HashMap<(u32, u32), u32>,
    v6: HashMap<(u128, u128), u32>,
    limits: Vec<MulticastLimits>,
}

impl MulticastTable {
    /// A table of these routes. Of several with one group and source the first counts. `limits` are those of interfaces
    /// by number; interfaces beyond them have the default ones.
    pub fn new(
        routes: impl IntoIterator<Item = MulticastInput>,
        interfaces: &Interfaces,
        limits: Vec<MulticastLimits>,
    ) -> MulticastTable {
        let mut table = MulticastTable { limits, ..MulticastTable::default() };
        for MulticastInput { route, origin, counters } in routes {
            let place = table.entries.len() as u32;
            if *table.place(&route, place) == place {
                let outputs = table.outputs(&route, interfaces);
                table.entries.push(MulticastEntry { route, origin, outputs, counters });
            }
        }
        table
    }

    /// The place of the entry with this route's group and source; `new` if there is none yet.
    fn place(&mut self, route: &MulticastRoute, new: u32) -> &mut u32 {
        match (route.group, route.source) {
            (IpAddr::V4(group), source) => {
                let source = if let Some(IpAddr::V4(source)) = source { source } else { Ipv4Addr::UNSPECIFIED };
                self.v4.entry((group.to_bits(), source.to_bits())).or_insert(new)
            }
            (IpAddr::V6(group), source) => {
                let source = if let Some(IpAddr::V6(source)) = source { source } else { Ipv6Addr::UNSPECIFIED };
                self.v6.entry((group.to_bits(), source.to_bits())).or_insert(new)
            }
        }
    }

    /// The outputs that packets of a route can take.
    fn outputs(&self, route: &MulticastRoute, interfaces: &Interfaces) -> Box<[MulticastOutput]> {
        if route.from.is_some_and(|from| !self.admits(from, route.group)) {
            return Box::default();
        }
        let up = |id| interfaces.get(id).is_some_and(|interface| interface.up);
        let open = |output: &&MulticastOutput| {
            Some(output.interface) != route.from && up(output.interface) && self.admits(output.interface, route.group)
        };
        let limited = |output: &MulticastOutput| {
            let least = self.limits.get(output.interface.index()).map_or(1, |limits| limits.ttl);
            MulticastOutput { ttl: output.ttl.max(least).max(1), ..*output }
        };
        let mut outputs: Vec<_> = route.to.iter().filter(open).map(limited).collect();
        outputs.sort_by_key(|output| output.interface);
        outputs.dedup_by_key(|output| output.interface);
        outputs.into()
    }

    /// The route of a packet that came in on an interface: its source's own, or that of all sources.
    #[inline]
    pub fn find(&self, source: IpAddr, group: IpAddr, interface: InterfaceId) -> Option<&MulticastEntry> {
        let place = match (source, group) {
            (IpAddr::V4(source), IpAddr::V4(group)) => {
                let group = group.to_bits();
                self.v4.get(&(group, source.to_bits())).or_else(|| self.v4.get(&(group, 0)))
            }
            (IpAddr::V6(source), IpAddr::V6(group)) => {
                let group = group.to_bits();
                self.v6.get(&(group, source.to_bits())).or_else(|| self.v6.get(&(group, 0)))
            }
            _ => None,
        };
        self.entries.get(*place? as usize).filter(|entry| entry.is_for(interface))
    }

    /// Whether packets to a group may pass an interface.
    #[inline]
    pub fn admits(&self, interface: InterfaceId, group: IpAddr) -> bool {
        self.limits.get(interface.index()).is_none_or(|limits| limits.admit(group))
    }

    /// Whether a packet to a group that Linux sends may leave by an interface; its TTL or hop limit is already
    /// decremented.
    pub fn admits_from_linux(&self, interface: InterfaceId, group: IpAddr, ttl: u8) -> bool {
        self.limits.get(interface.index()).is_none_or(|limits| limits.admit(group) && ttl >= limits.ttl)
    }

    /// The routes, in the order in which they were given.
    pub fn entries(&self) -> &[MulticastEntry] {
        &self.entries
    }

    /// Is there no route?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Random;
    use perigee_net::{Interface, MacAddr, Policy};
    use std::hash::{BuildHasher, Hasher, RandomState};

    /// Interfaces 0 to `n` - 1, of which `down` are down.
    fn interfaces(n: u16, down: &[u16]) -> Interfaces {
        let interface = |port: u16| Interface {
            name: format!("p{port}"),
            port,
            vlan: None,
            mtu: 1500,
            mac: MacAddr([2, 0, 0, 0, 0, port as u8]),
            up: !down.contains(&port),
            addresses: Vec::new(),
            attributes: Default::default(),
            policy: Policy::default(),
        };
        Interfaces::new((0..n).map(interface).collect()).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn output(interface: u16, ttl: u8) -> MulticastOutput {
        MulticastOutput { interface: InterfaceId(interface), ttl }
    }

    fn route(group: &str, source: Option<&str>, from: Option<u16>, to: &[(u16, u8)]) -> MulticastInput {
        let to = to.iter().map(|(interface, ttl)| output(*interface, *ttl)).collect();
        let (group, source, from) = (ip(group), source.map(ip), from.map(InterfaceId));
        let route = MulticastRoute { group, source, from, to };
        MulticastInput { route, origin: MulticastOrigin::Static, counters: Arc::default() }
    }

    #[test]
    fn a_source_of_its_own_comes_before_any_source() {
        let routes = [
            route("239.1.1.1", None, Some(0), &[(1, 1)]),
            route("239.1.1.1", Some("10.0.0.1"), Some(1), &[(0, 1)]),
            route("ff05::1", None, None, &[(2, 1)]),
            route("239.1.1.1", None, Some(2), &[]),
        ];
        let table = MulticastTable::new(routes, &interfaces(3, &[]), Vec::new());
        let from = |source, group| table.find(ip(source), ip(group), InterfaceId(0)).map(|entry| entry.route.from);
        assert_eq!(from("10.0.0.1", "239.1.1.1"), Some(Some(InterfaceId(1))));
        assert_eq!(from("10.0.0.2", "239.1.1.1"), Some(Some(InterfaceId(0))), "the first of two counts");
        assert_eq!(from("2001:db8::1", "ff05::1"), Some(None));
        assert_eq!((from("10.0.0.1", "239.1.1.2"), from("2001:db8::1", "ff05::2")), (None, None));
        assert_eq!(from("2001:db8::1", "239.1.1.1"), None);
        assert_eq!(table.entries().len(), 3);
    }

    #[test]
    fn outputs_are_those_that_packets_can_take() {
        let limits = |ttl, boundary: &[&str]| MulticastLimits {
            ttl,
            boundary: boundary.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        };
        let limits = vec![limits(1, &["239.9.0.0/16"]), limits(16, &[]), limits(1, &["239.1.0.0/16", "ff05::/16"])];
        let all = &[(0, 1), (1, 1), (2, 1), (3, 0), (4, 9), (5, 1), (9, 1), (4, 9)];
        let routes = [
            route("239.1.1.1", None, Some(0), all),
            route("ff08::1", None, None, all),
            route("239.9.1.1", None, Some(0), all),
        ];
        let table = MulticastTable::new(routes, &interfaces(6, &[5]), limits);
        let outputs = |at: usize| table.entries()[at].outputs.to_vec();
        assert_eq!(outputs(0), [output(1, 16), output(3, 1), output(4, 9)]);
        assert_eq!(outputs(1), [output(0, 1), output(1, 16), output(2, 1), output(3, 1), output(4, 9)]);
        assert_eq!(outputs(2), [], "it comes in by a boundary");
        let leaves = |interface, ttl| {
            let outputs = table.entries()[1].leaves_by(InterfaceId(interface), ttl);
            outputs.map(|output| output.interface.0).collect::<Vec<_>>()
        };
        assert_eq!(leaves(0, 17), [1, 2, 3, 4], "never back by where it came in");
        assert_eq!((leaves(0, 16), leaves(4, 9)), (vec![2, 3, 4], vec![0, 2, 3]));
        assert_eq!((leaves(0, 1), leaves(0, 0)), (vec![], vec![]));
        assert!(!table.admits(InterfaceId(2), ip("239.1.1.1")) && table.admits(InterfaceId(7), ip("239.1.1.1")));
        let from_linux = |interface, ttl| table.admits_from_linux(InterfaceId(interface), ip("239.1.1.1"), ttl);
        assert!(from_linux(1, 16) && !from_linux(1, 15) && !from_linux(2, 64) && from_linux(9, 1));
    }

    #[test]
    fn linux_gets_one_packet_of_an_interval() {
        let counters = MulticastCounters::default();
        let sample = &counters.sample;
        assert!(sample.due(5) && !sample.due(6), "the first one");
        assert!(
            sample.is_next(7) && sample.take(7) && !sample.is_next(8) && !sample.take(8),
            "and it is handed over once"
        );
        assert!(
            !sample.due(4 + SAMPLE_INTERVAL) && sample.is_next(5 + SAMPLE_INTERVAL) && sample.take(5 + SAMPLE_INTERVAL)
        );
        assert!(!sample.take(6 + SAMPLE_INTERVAL) && !sample.due(6 + SAMPLE_INTERVAL));
        assert!(counters.assert.due(0) && !counters.assert.due(ASSERT_INTERVAL));
        assert!(counters.assert.due(1 + ASSERT_INTERVAL));
        assert_eq!(counters.last_use(), None);
        counters.used(3, 300, 0);
        counters.wrong();
        assert_eq!((counters.packets(), counters.bytes(), counters.wrong_interface()), (3, 300, 1));
        assert!(counters.last_use().is_some());
    }

    /// Random tables and packets, compared with a walk through all routes. `PERIGEE_FUZZ_SEED` repeats a run.
    #[test]
    fn tables_agree_with_a_walk_through_all_routes() {
        let given = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|text| text.parse().ok());
        let seed: u64 = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("PERIGEE_FUZZ_SEED={seed}");
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let down: Vec<u16> = (0..6).filter(|_| random.below(4) == 0).collect();
            let interfaces = interfaces(6, &down);
            let limits: Vec<_> = (0..random.below(7)).map(|_| random_limits(&mut random)).collect();
            let routes: Vec<_> = (0..random.below(40)).map(|_| random_route(&mut random)).collect();
            let table = MulticastTable::new(routes.clone(), &interfaces, limits.clone());
            for _ in 0..200 {
                let (source, group) = addresses(&mut random);
                let (came_in, ttl) = (InterfaceId(random.below(7) as u16), random.below(40) as u8);
                let leads = InterfaceId(random.below(6) as u16);
                let found = table.find(source, group, came_in);
                let wanted = oracle(&routes, source, group, came_in);
                assert_eq!(found.map(|entry| &entry.route), wanted, "{source} to {group}");
                let (Some(entry), Some(wanted)) = (found, wanted) else { continue };
                let expected = entry.expects(came_in, || leads == came_in);
                assert_eq!(expected, wanted.from.unwrap_or(leads) == came_in);
                if !expected || !table.admits(came_in, group) {
                    continue;
                }
                let mut leaves: Vec<u16> = entry.leaves_by(came_in, ttl).map(|output| output.interface.0).collect();
                leaves.sort_unstable();
                let takes = |interface: &u16| takes(wanted, *interface, came_in, ttl, &down, &limits);
                assert_eq!(leaves, (0..8).filter(takes).collect::<Vec<_>>(), "{wanted:?} {limits:?} {down:?}");
            }
        }
    }

    /// Whether a packet of a route leaves by an interface.
    fn takes(
        route: &MulticastRoute,
        interface: u16,
        came_in: InterfaceId,
        ttl: u8,
        down: &[u16],
        limits: &[MulticastLimits],
    ) -> bool {
        // Of several mentions of an interface the first counts.
        let Some(output) = route.to.iter().find(|output| output.interface.0 == interface) else { return false };
        let (least, admitted) = limits.get(usize::from(interface)).map_or((1, true), |l| (l.ttl, l.admit(route.group)));
        let exists = interface < 6 && !down.contains(&interface);
        exists && admitted && InterfaceId(interface) != came_in && ttl > output.ttl.max(least).max(1)
    }

    fn oracle(
        routes: &[MulticastInput],
        source: IpAddr,
        group: IpAddr,
        came_in: InterfaceId,
    ) -> Option<&MulticastRoute> {
        let of = |wanted: Option<IpAddr>| {
            routes.iter().find(|input| (input.route.group, input.route.source) == (group, wanted))
        };
        if let Some(own) = of(Some(source)) {
            return Some(&own.route);
        }
        let MulticastInput { route, origin, .. } = of(None)?;
        let among = route.to.iter().any(|output| output.interface == came_in);
        (*origin == MulticastOrigin::Static || among).then_some(route)
    }

    /// A source and a group out of a few.
    fn addresses(random: &mut Random) -> (IpAddr, IpAddr) {
        let [source, group] = [1 + random.below(4) as u8, random.below(4) as u8];
        match random.below(2) {
            0 => (IpAddr::from([10, 0, 0, source]), IpAddr::from([239, group & 1, group & 2, 1])),
            _ => {
                let v6 = |first: u16, last: u8| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last.into()).into();
                (v6(0x2001, source), v6(0xff05 + u16::from(group & 1), group))
            }
        }
    }

    fn random_route(random: &mut Random) -> MulticastInput {
        let (source, group) = addresses(random);
        let source = (random.below(3) > 0).then_some(source);
        let from = (random.below(3) > 0).then(|| InterfaceId(random.below(6) as u16));
        // Each interface once, as in a configuration, and one that does not exist.
        let to = (0..7).filter(|_| random.below(2) == 0).collect::<Vec<u16>>();
        let to = to.into_iter().map(|interface| output(interface, random.below(20) as u8)).collect();
        let route = MulticastRoute { group, source, from, to };
        let origin = if random.below(2) == 0 { MulticastOrigin::Linux } else { MulticastOrigin::Static };
        MulticastInput { route, origin, counters: Arc::default() }
    }

    fn random_limits(random: &mut Random) -> MulticastLimits {
        let prefixes = ["239.0.0.0/16", "239.1.2.0/24", "ff05::/16"];
        let chosen = prefixes.into_iter().filter(|_| random.below(4) == 0);
        MulticastLimits {
            boundary: chosen.map(|prefix| prefix.parse().unwrap()).collect(),
            ttl: 1 + random.below(20) as u8,
        }
    }
}
