// SPDX-License-Identifier: MIT
//! Any sequence of changes: after each one the table agrees with the model, or the change was refused and nothing has
//! changed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use perigee_fib::synth::Random;
use perigee_fib::{Action, Fib, FibWriter, Grace, Leaf, Lookup, LookupError, LookupWriter, NextHopId, Via, structures};
use perigee_net::{
    InterfaceId, LinuxOnly, MacAddr, Member, Multipath, Prefix, PrefixOf, Route, RouteKey, RouteSource, RouteTarget,
    Selector,
};
use proptest::prelude::*;

use crate::model::{self, Model};

/// An address by its last byte. There are only two small networks, so that prefixes often cover one another.
fn address(v6: bool, last: u8) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(10, 0, 0, last).into()
    }
}

#[derive(Clone, Copy, Debug)]
pub enum To {
    Link(u8),
    /// The last byte of its address, and an interface or 0.
    Gateway(u8, u8),
    /// Two or three such gateways with weights; interfaces from 3 on stand for a link without a gateway.
    Several([(u8, u8, u16); 3], bool),
    Fixed(u8),
}

#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub v6: bool,
    /// The last byte of the prefix's address, and how many bits of that byte the prefix has; over 8: the default
    /// route.
    pub net: (u8, u8),
    pub key: (u8, u8),
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Insert(To),
    Remove,
    /// The interface, and whether the MAC address becomes known or unknown.
    Neighbor(u8, bool),
    /// All routes are loaded again.
    Load,
    /// The interfaces of these bits are down from now on, and no others.
    Down(u8),
    /// A lookup structure refuses an operation, after letting this many pass.
    Break(u8),
    Commit,
}

impl Change {
    fn prefix(&self) -> Prefix {
        let family = if self.v6 { 128 } else { 32 };
        match self.net {
            (_, 9..) => Prefix::truncated(address(self.v6, 0), 0),
            (last, bits) => Prefix::truncated(address(self.v6, last), family - 8 + bits),
        }
        .expect("in range")
    }

    fn key(&self) -> RouteKey {
        let sources = [RouteSource::Connected, RouteSource::Static, RouteSource::Linux, RouteSource::Dynamic];
        RouteKey::of(sources[usize::from(self.key.0 % 4)]).with_metric(self.key.1.into())
    }

    fn route(&self, to: To) -> Route {
        let gateway = |last| address(self.v6, last);
        let interface = |number: u8| (number > 0).then_some(InterfaceId(number.into()));
        let target = match to {
            To::Link(number) => RouteTarget::Connected { interface: InterfaceId(number.into()) },
            To::Gateway(last, number) => RouteTarget::Gateway { address: gateway(last), interface: interface(number) },
            To::Several(members, three) => {
                let member = |(last, i, weight): (u8, u8, u16)| match i {
                    3.. => Member { address: None, interface: interface(i - 2), weight },
                    _ => Member { address: Some(gateway(last)), interface: interface(i), weight },
                };
                let members = members.map(member);
                let members = &members[..if three { 3 } else { 2 }];
                RouteTarget::Multipath(Multipath::new(members).expect("few, and weights in range"))
            }
            To::Fixed(0) => RouteTarget::Local,
            To::Fixed(1) => RouteTarget::Blackhole,
            To::Fixed(2) => RouteTarget::Unreachable,
            To::Fixed(3) => RouteTarget::Prohibit,
            To::Fixed(4) => RouteTarget::ToLinux(LinuxOnly::Encapsulation),
            To::Fixed(_) => RouteTarget::Selective(Arc::new(Selector { source: None, tos: 4, metric: 0 })),
        };
        let RouteKey { preference, metric, source } = self.key();
        Route { source, preference, metric, target, mtu: 0, protocol: None }
    }
}

/// A lookup structure that refuses one operation: the one at which `left` runs out.
struct Flaky<A: perigee_net::Address> {
    inner: Box<dyn LookupWriter<A>>,
    left: Arc<AtomicI64>,
}

impl<A: perigee_net::Address> Flaky<A> {
    fn pass(&self) -> Result<(), LookupError> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            1 => Err(LookupError::Memory { structure: "flaky" }),
            _ => Ok(()),
        }
    }
}

impl<A: perigee_net::Address> LookupWriter<A> for Flaky<A> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.inner.reader()
    }
    fn view(&self) -> &dyn Lookup<A> {
        self.inner.view()
    }
    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        self.pass()?;
        self.inner.load(routes)
    }
    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.pass()?;
        self.inner.insert(prefix, id)
    }
    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        self.pass()?;
        self.inner.remove(prefix)
    }
    fn reclaim(&mut self, grace: Grace) {
        self.inner.reclaim(grace);
    }
    fn retired(&self) -> usize {
        self.inner.retired()
    }
    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

/// The table and the model, which are changed together.
pub struct Pair {
    pub writer: FibWriter,
    pub model: Model,
    left: Arc<AtomicI64>,
    epoch: u64,
    refused: u32,
}

impl Pair {
    pub fn new(next_hops: u32, via_default: bool) -> Pair {
        let left = Arc::new(AtomicI64::new(0));
        let v4 = Flaky { inner: (structures::DEFAULT4.new)().expect("memory"), left: left.clone() };
        let v6 = Flaky { inner: (structures::DEFAULT6.new)().expect("memory"), left: left.clone() };
        let mut writer = FibWriter::with(next_hops, Box::new(v4), Box::new(v6)).expect("memory");
        if via_default {
            writer = writer.resolving_via_default();
        }
        let model = Model { via_default, ..Model::default() };
        Pair { writer, model, left, epoch: 0, refused: 0 }
    }

    pub fn apply(&mut self, change: &Change) {
        let (prefix, key) = (change.prefix(), change.key());
        match change.what {
            What::Insert(to) => {
                let route = change.route(to);
                match self.writer.insert(prefix, route.clone()) {
                    Ok(()) => drop(self.model.routes.insert((prefix, key), route)),
                    Err(_) => self.refused += 1,
                }
            }
            What::Remove => match self.writer.remove(prefix, key) {
                Ok(route) => assert_eq!(self.model.routes.remove(&(prefix, key)), Some(route)),
                Err(_) if self.model.routes.contains_key(&(prefix, key)) => self.refused += 1,
                Err(error) => assert_eq!(error.to_string(), format!("there is no such route to {prefix}")),
            },
            What::Neighbor(interface, known) => {
                let (interface, address) = (InterfaceId(interface.into()), address(change.v6, change.net.0));
                let mac = known.then(|| mac_of(interface, address));
                self.writer.set_neighbor(interface, address, mac);
                match self.writer.set_on_link(interface, address, known) {
                    Ok(()) if known => drop(self.model.on_link.insert((interface, address))),
                    Ok(()) => drop(self.model.on_link.remove(&(interface, address))),
                    Err(_) => self.refused += 1,
                }
                match mac {
                    Some(mac) => drop(self.model.neighbors.insert((interface, address), mac)),
                    None => drop(self.model.neighbors.remove(&(interface, address))),
                }
            }
            What::Load => {
                let routes: Vec<_> = self.model.routes.iter().map(|((p, _), r)| (*p, r.clone())).collect();
                self.refused += u32::from(self.writer.load(routes).is_err());
            }
            What::Down(interfaces) => {
                self.set_down(interfaces);
                while self.writer.follow_links(3).expect("room") {}
                self.writer.commit().expect("nothing to fail");
            }
            What::Break(after) => return self.left.store(i64::from(after) + 1, Ordering::Relaxed),
            What::Commit => {
                self.writer.commit().expect("nothing to fail");
                self.epoch += 1;
                self.writer.reclaim(Grace { epoch: self.epoch, passed: self.epoch - 1 });
            }
        }
        self.left.store(0, Ordering::Relaxed);
    }

    /// The interfaces of these bits are down from now on. What follows for prefixes is up to the caller.
    pub fn set_down(&mut self, interfaces: u8) {
        // Nothing of it is refused.
        self.left.store(0, Ordering::Relaxed);
        self.model.down = (0..8).filter(|bit| interfaces >> bit & 1 == 1).map(InterfaceId).collect();
        self.writer.set_down(self.model.down.clone()).expect("room");
    }

    /// Compares everything that can be asked.
    pub fn check(&self) {
        let fib = self.writer.reader();
        for (v6, last) in [false, true].into_iter().flat_map(|v6| (0..=16).map(move |last| (v6, last))) {
            self.check_address(&fib, address(v6, if last == 16 { 255 } else { last }));
        }
        for (prefix, routes, chosen) in self.writer.rib().iter() {
            let all: Vec<&Route> =
                self.model.routes.iter().filter(|((p, _), _)| *p == prefix).map(|(_, r)| r).collect();
            assert_eq!(routes.iter().collect::<Vec<_>>(), all, "{prefix}");
            assert_eq!(
                chosen.and_then(|at| routes.get(at)),
                self.model.choose(prefix, None).map(|(route, _)| route),
                "{prefix}"
            );
        }
        let prefixes: BTreeSet<Prefix> = self.model.routes.keys().map(|(prefix, _)| *prefix).collect();
        assert_eq!(self.writer.rib().prefixes(), prefixes.len());
        let v4 = prefixes.iter().filter(|prefix| prefix.addr().is_ipv4()).count();
        assert_eq!(self.writer.rib().prefixes_by_family(), [v4, prefixes.len() - v4]);
        for source in RouteSource::ALL {
            let routes = self.writer.rib().iter().flat_map(|(_, routes, _)| routes.iter());
            assert_eq!(self.writer.rib().count(source), routes.filter(|route| route.source == source).count() as u64);
        }
        let on_link: BTreeSet<_> = self.writer.on_link().map(|(interface, address, _)| (interface, address)).collect();
        assert_eq!(on_link, self.model.on_link);
    }

    pub fn check_address(&self, fib: &Fib, address: IpAddr) {
        let mut random = Random::new(1);
        // With the smallest share, a seventh of the flows, a member is not missed by all of 300.
        let flows = if fib.lookup(address).1.is_group() { 300 } else { 1 };
        let mut seen = BTreeSet::new();
        for flow in std::iter::repeat_with(|| random.bits() as u32).take(flows) {
            let leaf = match self.writer.decide(address, flow) {
                Leaf::Fixed(id) => model::Leaf::Fixed(id),
                Leaf::Via(Via { interface, gateway: Some(gateway) }) => model::Leaf::Neighbor(interface, gateway),
                Leaf::Via(Via { interface, gateway: None }) => model::Leaf::Link(interface),
            };
            let expected = match leaf {
                model::Leaf::Fixed(NextHopId::NO_ROUTE) => Action::NoRoute,
                model::Leaf::Fixed(NextHopId::LOCAL) => Action::Local,
                model::Leaf::Fixed(NextHopId::BLACKHOLE) => Action::Blackhole,
                model::Leaf::Fixed(NextHopId::UNREACHABLE) => Action::Unreachable,
                model::Leaf::Fixed(NextHopId::TO_LINUX) => Action::ToLinux,
                model::Leaf::Fixed(_) => Action::Prohibit,
                model::Leaf::Link(interface) if self.model.on_link.contains(&(interface, address)) => {
                    Action::Forward { interface, mac: mac_of(interface, address) }
                }
                model::Leaf::Link(interface) => Action::Unresolved { interface },
                model::Leaf::Neighbor(interface, gateway) => match self.model.neighbors.get(&(interface, gateway)) {
                    Some(&mac) => Action::Forward { interface, mac },
                    None => Action::Unresolved { interface },
                },
            };
            assert_eq!(fib.lookup_flow(address, flow).1.action(), expected, "{address}: workers and control differ");
            seen.insert(leaf);
        }
        match self.model.lookup(address) {
            None => assert_eq!(seen, BTreeSet::from([model::Leaf::Fixed(NextHopId::NO_ROUTE)]), "{address}"),
            Some(way) if way.all => assert_eq!(seen, way.leaves, "{address}"),
            Some(way) => assert!(seen.is_subset(&way.leaves), "{address}: {seen:?}, expected some of {:?}", way.leaves),
        }
    }

    /// Removes all routes, after which nothing is in use.
    pub fn finish(mut self) {
        self.left.store(0, Ordering::Relaxed);
        // A removal is refused while there is no next hop for the route that would take over; other removals free some.
        while !self.model.routes.is_empty() {
            let before = self.model.routes.len();
            for (prefix, key) in self.model.routes.keys().copied().collect::<Vec<_>>() {
                if self.writer.remove(prefix, key).is_ok() {
                    self.model.routes.remove(&(prefix, key));
                }
            }
            assert!(self.model.routes.len() < before, "nothing can be removed");
            self.writer.commit().expect("nothing to fail");
            self.epoch += 2;
            self.writer.reclaim(Grace { epoch: self.epoch, passed: self.epoch });
        }
        for (interface, address, _) in self.writer.on_link().collect::<Vec<_>>() {
            self.writer.set_on_link(interface, address, false).expect("a removal");
        }
        self.writer.commit().expect("nothing to fail");
        self.epoch += 2;
        self.writer.reclaim(Grace { epoch: self.epoch, passed: self.epoch });
        assert_eq!(self.writer.next_hops().collect::<Vec<_>>(), []);
        assert_eq!((self.writer.retired(), self.writer.required_neighbors().len()), (0, 0));
    }
}

fn mac_of(interface: InterfaceId, address: IpAddr) -> MacAddr {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    MacAddr([2, 0, 0, 0, interface.0 as u8, last])
}

fn to() -> impl Strategy<Value = To> {
    let member = || (0u8..16, 0u8..=4, 1u16..=3);
    prop_oneof![
        2 => (1u8..=3).prop_map(To::Link),
        1 => (0u8..16, 1u8..=3).prop_map(|(last, interface)| To::Gateway(last, interface)),
        4 => (0u8..16).prop_map(|last| To::Gateway(last, 0)),
        3 => (member(), member(), member(), any::<bool>()).prop_map(|(a, b, c, three)| To::Several([a, b, c], three)),
        1 => (0u8..6).prop_map(To::Fixed),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let what = prop_oneof![
        8 => to().prop_map(What::Insert),
        4 => Just(What::Remove),
        4 => (1u8..=3, any::<bool>()).prop_map(|(interface, known)| What::Neighbor(interface, known)),
        1 => Just(What::Load),
        2 => (0u8..16).prop_map(What::Down),
        1 => (0u8..4).prop_map(What::Break),
        2 => Just(What::Commit),
    ];
    let net = prop_oneof![8 => (0u8..16, 4u8..=8), 1 => (0u8..16, 9u8..=9)];
    (any::<bool>(), net, (0u8..4, 0u8..2), what).prop_map(|(v6, net, key, what)| Change { v6, net, key, what })
}

fn run(changes: &[Change], next_hops: u32, via_default: bool) {
    let mut pair = Pair::new(next_hops, via_default);
    for change in changes {
        pair.apply(change);
        pair.check();
    }
    pair.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_table_agrees_with_the_model(changes in prop::collection::vec(change(), 1..40), via_default in any::<bool>()) {
        run(&changes, 1000, via_default);
    }

    /// Ids run out frequently. A link that goes down is never refused: `links.rs` has what happens without room.
    #[test]
    fn a_refused_change_changes_nothing(changes in prop::collection::vec(change(), 1..40), next_hops in 1u32..12) {
        let of_routes: Vec<_> = changes.into_iter().filter(|c| !matches!(c.what, What::Down(_))).collect();
        run(&of_routes, next_hops, false);
    }
}

/// A random change of a route.
pub fn random_change(random: &mut Random) -> Change {
    let mut below = |end: u8| random.below(end.into()) as u8;
    let to = match below(10) {
        0 | 1 => To::Link(1 + below(3)),
        2..=5 => To::Gateway(below(16), 1 + below(3)),
        6 | 7 => To::Gateway(below(16), 0),
        8 => To::Several([(); 3].map(|()| (below(16), below(5), 1 + u16::from(below(3)))), below(2) == 0),
        _ => To::Fixed(below(4)),
    };
    let what = if below(5) < 3 { What::Insert(to) } else { What::Remove };
    let net = (below(16), if below(12) == 0 { 9 } else { 4 + below(5) });
    Change { v6: below(3) == 0, net, key: (below(4), below(2)), what }
}

/// What is held back until a commit is then what it would have been at once, also if the lookup structure refuses some
/// of it.
#[test]
fn held_changes_are_those_made_at_once() {
    for seed in 200..212 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (mut held, mut at_once) = (Pair::new(1000, false), Pair::new(1000, false));
        for round in 0..60 {
            let context = format!("seed {seed}, round {round}");
            held.writer.hold();
            let longest = 1 << random.below(6);
            for _ in 0..1 + random.below(longest) {
                let change = random_change(&mut random);
                held.apply(&change);
                at_once.apply(&change);
            }
            if random.below(3) == 0 {
                held.left.store(1 + i64::from(random.below(6)), Ordering::Relaxed);
                let committed = held.writer.commit();
                let broken = held.left.swap(0, Ordering::Relaxed) <= 0;
                assert_eq!((committed.is_err(), held.writer.uncommitted()), (broken, broken), "{context}");
            }
            held.apply(&Change { what: What::Commit, ..random_change(&mut random) });
            assert!(!held.writer.uncommitted(), "{context}");
            let rib = |pair: &Pair| -> Vec<_> {
                let all = pair.writer.rib();
                all.iter().map(|(p, routes, at)| (p, routes.iter().cloned().collect::<Vec<_>>(), at)).collect()
            };
            assert_eq!(rib(&held), rib(&at_once), "{context}");
            held.check();
        }
        held.finish();
    }
}

/// Many changes of one table: it fills up, and its memory is reused again and again. `PERIGEE_FUZZ` multiplies the
/// number of changes (1,000), `PERIGEE_FUZZ_SEED` repeats a run.
#[test]
fn long_churn() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(|| {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    });
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    let mut random = Random::new(seed);
    let mut pair = Pair::new(24, false);
    for _ in 0..1000 * times {
        let mut below = |end: u8| random.below(end.into()) as u8;
        let to = match below(10) {
            0 | 1 => To::Link(1 + below(3)),
            2 => To::Gateway(below(16), 1 + below(3)),
            3..=5 => To::Gateway(below(16), 0),
            6..=8 => {
                let members = [(); 3].map(|()| (below(16), below(5), 1 + u16::from(below(3))));
                To::Several(members, below(2) == 0)
            }
            _ => To::Fixed(below(4)),
        };
        let what = match below(20) {
            0..=7 => What::Insert(to),
            8..=12 => What::Remove,
            13..=15 => What::Neighbor(1 + below(3), below(2) == 0),
            16 => What::Load,
            17 => What::Break(below(6)),
            _ => What::Commit,
        };
        let net = (below(16), if below(12) == 0 { 9 } else { 4 + below(5) });
        let change = Change { v6: below(4) == 0, net, key: (below(4), below(2)), what };
        pair.apply(&change);
        pair.check();
    }
    assert!(pair.refused > 0, "nothing was ever refused");
    pair.finish();
}

/// A lookup structure that has no room for one prefix.
struct Narrow {
    inner: Box<dyn LookupWriter<u32>>,
    unwanted: PrefixOf<u32>,
    room: Arc<AtomicI64>,
}

impl LookupWriter<u32> for Narrow {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.inner.reader()
    }
    fn view(&self) -> &dyn Lookup<u32> {
        self.inner.view()
    }
    fn load(&mut self, routes: &[(PrefixOf<u32>, NextHopId)]) -> Result<(), LookupError> {
        self.inner.load(routes)
    }
    fn insert(&mut self, prefix: PrefixOf<u32>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        if prefix == self.unwanted && self.room.load(Ordering::Relaxed) == 0 {
            return Err(LookupError::Full { prefix: prefix.into(), structure: "narrow", what: "places", limit: 0 });
        }
        self.inner.insert(prefix, id)
    }
    fn remove(&mut self, prefix: PrefixOf<u32>) -> Result<NextHopId, LookupError> {
        self.inner.remove(prefix)
    }
    fn reclaim(&mut self, grace: Grace) {
        self.inner.reclaim(grace);
    }
    fn retired(&self) -> usize {
        self.inner.retired()
    }
    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

/// A held change that found no room kept all next hops from being released, of every prefix and both families, had each
/// commit try again and none be the last, and left the prefix with its old next hop.
#[test]
fn a_held_change_without_room_blocks_nothing() {
    let prefix = |text: &str| text.parse::<Prefix>().expect(text);
    let unwanted = prefix("10.1.0.0/16");
    let Prefix::V4(narrow) = unwanted else { panic!("IPv4") };
    let room = Arc::new(AtomicI64::new(1));
    let v4 = Narrow { inner: (structures::DEFAULT4.new)().expect("memory"), unwanted: narrow, room: room.clone() };
    // With room for few next hops, so that one that is not released is missed.
    let mut fib = FibWriter::with(4, Box::new(v4), (structures::DEFAULT6.new)().expect("memory")).expect("memory");
    let route = |last: u8| {
        let target = RouteTarget::Gateway { address: [192, 0, 2, last].into(), interface: Some(InterfaceId(0)) };
        Route::new(RouteSource::Static, target)
    };
    let key = route(0).key();
    fib.hold();
    fib.insert(unwanted, route(1)).unwrap();
    fib.commit().unwrap();
    let found = |fib: &FibWriter, address: &str| fib.reader().lookup(address.parse().expect("an address")).0;
    assert_ne!(found(&fib, "10.1.0.1"), NextHopId::NO_ROUTE);

    room.store(0, Ordering::Relaxed);
    fib.hold();
    fib.insert(unwanted, route(2)).unwrap();
    fib.insert(prefix("10.2.0.0/16"), route(2)).unwrap();
    assert!(fib.commit().is_err(), "it is said");
    assert!(fib.is_refused(unwanted) && !fib.uncommitted());
    assert_eq!(found(&fib, "10.1.0.1"), NextHopId::NO_ROUTE, "not its old next hop, which may be given to others");
    assert_ne!(found(&fib, "10.2.0.1"), NextHopId::NO_ROUTE);
    for last in 3..40 {
        fib.hold();
        fib.insert(prefix("10.2.0.0/16"), route(last)).expect("next hops that nobody uses are released");
        fib.commit().expect("what was refused is not tried again while nothing leaves");
        fib.reclaim(Grace { epoch: last.into(), passed: u64::from(last) - 1 });
    }

    // As long as it has no room, a removal has it tried again in vain; then it is there.
    for (has_room, is_there) in [(0, false), (1, true)] {
        room.store(has_room, Ordering::Relaxed);
        fib.hold();
        fib.insert(prefix("10.3.0.0/16"), route(2)).unwrap();
        fib.remove(prefix("10.3.0.0/16"), key).unwrap();
        fib.hold();
        let _ = fib.commit();
        assert_eq!((found(&fib, "10.1.0.1") != NextHopId::NO_ROUTE, !fib.is_refused(unwanted)), (is_there, is_there));
    }
}

/// A route over another one has what is held back stored before the commit, and the error of that was nobody's: the
/// commit said that all was well, and the route was not there for workers.
#[test]
fn an_error_in_the_middle_of_a_run_is_told_by_its_commit() {
    let prefix = |text: &str| text.parse::<Prefix>().expect(text);
    let unwanted = prefix("10.1.0.0/16");
    let Prefix::V4(narrow) = unwanted else { panic!("IPv4") };
    let room = Arc::new(AtomicI64::new(0));
    let v4 = Narrow { inner: (structures::DEFAULT4.new)().expect("memory"), unwanted: narrow, room: room.clone() };
    let mut fib = FibWriter::with(16, Box::new(v4), (structures::DEFAULT6.new)().expect("memory")).expect("memory");
    let via = |address: [u8; 4], interface| {
        Route::new(RouteSource::Static, RouteTarget::Gateway { address: address.into(), interface })
    };
    let linked = |last| via([192, 0, 2, last], Some(InterfaceId(0)));
    fib.hold();
    fib.insert(prefix("10.2.0.0/16"), linked(1)).unwrap();
    fib.commit().expect("room for these");
    fib.hold();
    fib.insert(unwanted, linked(1)).expect("held");
    // Its gateway is reached over the first route, which asks for what is held.
    fib.insert(prefix("10.3.0.0/16"), via([10, 2, 0, 1], None)).expect("it fits");
    assert!(fib.commit().is_err(), "it is said");
    assert!(fib.is_refused(unwanted) && !fib.uncommitted());
    fib.commit().expect("it is said once");
    // What has found room before the commit is no error.
    fib.hold();
    fib.insert(unwanted, linked(2)).expect("held");
    fib.insert(prefix("10.4.0.0/16"), via([10, 2, 0, 2], None)).expect("it fits");
    room.store(1, Ordering::Relaxed);
    fib.insert(unwanted, linked(3)).expect("held");
    fib.commit().expect("there is room by now");
    assert!(!fib.is_refused(unwanted));
}
