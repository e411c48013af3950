// SPDX-License-Identifier: MIT
//! Lookup structures that lose or refuse changes: how that is detected and repaired, and kept from doing more harm.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use perigee_fib::synth::Random;
use perigee_fib::{FibWriter, Grace, Leaf, Lookup, LookupError, LookupWriter, NextHopId, Structure, Via, structures};
use perigee_net::{Address, InterfaceId, Prefix, PrefixOf, Route, RouteKey, RouteSource, RouteTarget};

/// What happens to the next operations; all later ones are done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    /// Reported as done, but not done.
    Lost,
}

type Fates = Arc<Mutex<VecDeque<Fate>>>;

struct Unreliable<A: Address> {
    inner: Box<dyn LookupWriter<A>>,
    fates: Fates,
}

impl<A: Address> Unreliable<A> {
    fn boxed(structure: &Structure<A>, fates: &Fates) -> Box<dyn LookupWriter<A>> {
        Box::new(Self { inner: (structure.new)().expect("memory"), fates: fates.clone() })
    }

    fn loses(&self) -> Result<bool, LookupError> {
        match self.fates.lock().expect("no panic").pop_front() {
            Some(Fate::Refused) => Err(LookupError::Memory { structure: "unreliable" }),
            fate => Ok(fate == Some(Fate::Lost)),
        }
    }
}

impl<A: Address> LookupWriter<A> for Unreliable<A> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.inner.reader()
    }
    fn view(&self) -> &dyn Lookup<A> {
        self.inner.view()
    }
    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        if self.loses()? { Ok(()) } else { self.inner.load(routes) }
    }
    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        if self.loses()? { Ok(None) } else { self.inner.insert(prefix, id) }
    }
    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        if self.loses()? { Ok(NextHopId::NO_ROUTE) } else { self.inner.remove(prefix) }
    }
    fn commit(&mut self) -> Result<(), LookupError> {
        self.inner.commit()
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

fn via(number: u8) -> Route {
    let target =
        RouteTarget::Gateway { address: Ipv4Addr::new(192, 0, 2, number).into(), interface: Some(InterfaceId(1)) };
    Route::new(RouteSource::Linux, target)
}

fn any_prefix(random: &mut Random) -> Prefix {
    if random.below(2) == 0 {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | random.below(1 << 16));
        Prefix::truncated(address.into(), 14 + random.below(19) as u8)
    } else {
        let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(random.below(1 << 16)) << 64);
        Prefix::truncated(address.into(), 40 + random.below(25) as u8)
    }
    .expect("in range")
}

/// The prefixes for which the structure disagrees with the routes, found in steps, as by an audit.
fn wrong(writer: &FibWriter, further: &[Prefix]) -> Vec<Prefix> {
    let (fib, mut wrong) = (writer.reader(), Vec::new());
    let mut look = |prefix: Prefix| {
        if [prefix.addr(), prefix.last()].into_iter().any(|at| fib.lookup(at).0 != writer.expected(at)) {
            wrong.push(prefix);
        }
    };
    let mut turn = writer.rib().prefixes_after(None, 7);
    while let Some(last) = turn.last().copied() {
        turn.into_iter().for_each(&mut look);
        turn = writer.rib().prefixes_after(Some(last), 7);
    }
    further.iter().copied().for_each(look);
    wrong
}

#[test]
fn a_change_that_got_lost_is_found_and_made() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut lost = 0;
    for (v4, v6) in structures::IPV4.iter().zip(structures::IPV6.iter().cycle()) {
        let fates = Fates::default();
        let mut writer =
            FibWriter::with(100, Unreliable::boxed(v4, &fates), Unreliable::boxed(v6, &fates)).expect("memory");
        for _ in 0..400 {
            writer.insert(any_prefix(&mut random), via(1 + random.below(30) as u8)).expect("room");
        }
        for _ in 0..40 {
            let prefix = any_prefix(&mut random);
            fates.lock().expect("no panic").push_back(Fate::Lost);
            match writer.rib().routes(prefix).first().map(Route::key) {
                Some(key) if random.below(2) == 0 => drop(writer.remove(prefix, key).expect("there")),
                _ => writer.insert(prefix, via(1 + random.below(30) as u8)).expect("room"),
            }
            fates.lock().expect("no panic").clear();
            writer.commit().expect("memory");
            let found = wrong(&writer, &[prefix]);
            lost += usize::from(!found.is_empty());
            for prefix in found {
                writer.repair(prefix).expect("room");
            }
            writer.commit().expect("memory");
            assert_eq!(wrong(&writer, &[prefix]), [], "{} and {} after a repair", v4.name, v6.name);
        }
    }
    assert!(lost > 100, "only {lost} changes got lost: the test tested next to nothing");
}

#[test]
fn a_large_part_is_repaired_by_a_load() {
    let fates = Fates::default();
    let (v4, v6) = (structures::DEFAULT4, structures::DEFAULT6);
    let mut writer =
        FibWriter::with(100, Unreliable::boxed(v4, &fates), Unreliable::boxed(v6, &fates)).expect("memory");
    let hosts = (0..12_000u32).map(|n| Prefix::host(Ipv4Addr::from_bits(0x0a00_0000 + 7 * n).into()));
    for (n, host) in hosts.clone().enumerate() {
        if n % 100 == 0 {
            fates.lock().expect("no panic").push_back(Fate::Lost);
        }
        writer.insert(host, via(1 + (n % 30) as u8)).expect("room");
    }
    writer.commit().expect("memory");
    assert_eq!(wrong(&writer, &[]).len(), 120);
    let all = "10.0.0.0/8".parse().expect("a prefix");
    let before = writer.reader();
    assert_eq!(writer.repair(all), Ok(12_000));
    writer.commit().expect("memory");
    assert!(!writer.reader().is_same(&before), "to be published");
    assert_eq!(wrong(&writer, &[all]), []);
    assert_eq!(writer.repair("11.0.0.0/8".parse().expect("a prefix")), Ok(0));
}

/// IPv6 refuses a whole table, and IPv4, which has loaded its own already, refuses to go back: what readers find there
/// must keep its meaning.
#[test]
fn a_load_that_cannot_be_undone_gives_no_next_hop_to_another() {
    let fates = Fates::default();
    let (v4, v6) = (structures::DEFAULT4, structures::DEFAULT6);
    let mut writer = FibWriter::with(4, Unreliable::boxed(v4, &fates), Unreliable::boxed(v6, &fates)).expect("memory");
    let net: Prefix = "10.0.0.0/8".parse().expect("a prefix");
    writer.insert(net, via(1)).expect("room");
    fates.lock().expect("no panic").extend([Fate::Done, Fate::Refused, Fate::Refused]);
    assert!(writer.load([(net, via(2))]).is_err());
    assert_eq!(writer.rib().routes(net).iter().collect::<Vec<_>>(), [&via(1)], "the routes are as they were");
    let address: IpAddr = [10, 1, 1, 1].into();
    let gateway = |writer: &FibWriter| match writer.decide(address, 0) {
        Leaf::Via(Via { gateway: Some(IpAddr::V4(gateway)), .. }) => gateway.octets()[3],
        other => panic!("{other:?}"),
    };
    assert_eq!(gateway(&writer), 2, "the new table stayed");
    for (epoch, number) in (1..).zip(3..20) {
        writer.commit().expect("memory");
        writer.reclaim(Grace { epoch, passed: epoch });
        let other: Prefix = "11.0.0.0/8".parse().expect("a prefix");
        writer.insert(other, via(number)).expect("room: one next hop is reused again and again");
        writer.remove(other, RouteKey::of(RouteSource::Linux)).expect("there");
        assert_eq!(gateway(&writer), 2, "its next hop was given to another");
    }
    assert_eq!(writer.repair(net), Ok(1));
    assert_eq!(gateway(&writer), 1);
}

#[test]
fn routes_of_one_source_in_order_and_in_steps() {
    let seed = 12;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut writer = FibWriter::new(100).expect("memory");
    let mut expected = std::collections::BTreeMap::new();
    for _ in 0..500 {
        let (prefix, metric) = (any_prefix(&mut random), random.below(3));
        let source = if random.below(3) == 0 { RouteSource::Static } else { RouteSource::Linux };
        let route = Route { source, ..via(1 + random.below(30) as u8) }.with_metric(metric);
        writer.insert(prefix, route.clone()).expect("room");
        if source == RouteSource::Linux {
            expected.insert((prefix, metric), route.clone());
        }
        assert_eq!(writer.rib().route(prefix, route.key()), Some(&route));
        assert_eq!(writer.rib().route(prefix, route.key().with_metric(9)), None);
    }
    for is_v6 in [false, true] {
        let expected: Vec<_> = expected
            .iter()
            .filter(|((prefix, _), _)| prefix.addr().is_ipv6() == is_v6)
            .map(|((prefix, _), route)| (*prefix, route))
            .collect();
        let rib = writer.rib();
        let at_once: Vec<_> = rib.routes_of_source(RouteSource::Linux, is_v6, None).collect();
        assert_eq!(at_once, expected);
        for (prefix, _) in &expected {
            let behind: Vec<_> = rib.routes_of_source(RouteSource::Linux, is_v6, Some(*prefix)).collect();
            assert_eq!(behind, expected[expected.partition_point(|(other, _)| other <= prefix)..]);
        }
    }
    let all: Vec<Prefix> = writer.rib().iter().map(|(prefix, ..)| prefix).collect();
    assert_eq!(writer.rib().prefixes_after(None, usize::MAX), all);
    assert_eq!(writer.rib().prefixes_after(Some(all[4]), 3), all[5..8]);
}
