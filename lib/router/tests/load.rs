// SPDX-License-Identifier: MIT
//! Routes that are set many at once, by the API and by a reload: the same as one after the other.

mod common;

use common::*;
use perigee_api::answers::{LoadedRoutes, RouteFate, RouteList};
use perigee_api::queries::{AddRoute, DeleteRoute, LoadRoutes, ShowConfig, ShowRoutes};
use perigee_api::{RouteChange, RouteGateway};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn via(prefix: &str, gateway: &str) -> RouteChange {
    RouteChange { via: Some(gateway.parse().unwrap()), ..RouteChange::of(prefix.parse().unwrap()) }
}

fn shown(bed: &mut Bed) -> RouteList {
    ask(bed, ShowRoutes { within: None, to: None, source: None, limit: Some(usize::MAX) }).unwrap()
}

/// Sends one packet to an address; returns how many the workers send on port b.
fn forwarded(router: &mut OnDisk, destination: &str) -> u64 {
    let before = router.bed.counters[0].port_transmitted(1);
    router.receive(&udp(destination, 64, 1));
    router.bed.counters[0].port_transmitted(1) - before
}

fn counts(loaded: &LoadedRoutes) -> [u64; 4] {
    [loaded.added, loaded.changed, loaded.unchanged, loaded.refused]
}

#[test]
fn loaded_routes_are_used_and_what_is_refused_keeps_no_other_out() {
    let text = TWO_PORTS.to_owned()
        + &neighbors(&[("10.0.2.2", PEER_B)])
        + "[[route]]\nprefix = \"10.7.0.0/16\"\nvia = \"10.0.2.2\"\n";
    let mut router = OnDisk::new(&text, ONE_EACH);
    let routes = vec![
        via("10.9.0.0/16", "10.0.2.2"),
        via("10.8.0.0/16", "192.0.2.1"),
        via("10.6.0.0/16", "10.0.2.3"),
        via("10.7.0.0/16", "10.0.2.3"),
        via("10.7.0.0/16", "10.0.2.2"),
    ];
    let loaded = ask(&mut router.bed, LoadRoutes { routes: routes.clone() }).unwrap();
    assert_eq!(counts(&loaded), [2, 0, 1, 2], "{loaded:?}");
    let first = loaded.first_refused.unwrap();
    assert_eq!(first.at, 1);
    assert!(first.why.contains("192.0.2.1 is not on a connected network"), "{}", first.why);
    assert_eq!(forwarded(&mut router, "10.9.0.1"), 1);
    // Once more, one of them by another gateway.
    let mut again = routes;
    again[2] = via("10.6.0.0/16", "10.0.2.2");
    let loaded = ask(&mut router.bed, LoadRoutes { routes: again }).unwrap();
    assert_eq!(counts(&loaded), [0, 1, 2, 2], "{loaded:?}");
    let why = ask(&mut router.bed, LoadRoutes { routes: vec![via("10.7.0.0/16", "10.0.2.3")] }).unwrap().first_refused;
    assert!(why.unwrap().why.contains("in the configuration"));
    router.bed.settle();
    assert_eq!(forwarded(&mut router, "10.6.0.1"), 1);
    router.end();
}

/// The configuration names the links of gateways, and whoever loads routes may leave that to the router.
#[test]
fn a_route_of_the_configuration_by_several_gateways_is_found_unchanged() {
    let gateways = "{ address = \"10.0.2.2\", weight = 2 }, { address = \"10.0.1.2\" }";
    let text = format!("{TWO_PORTS}[[route]]\nprefix = \"10.7.0.0/16\"\nvia = [{gateways}]\n");
    let mut router = OnDisk::new(&text, ONE_EACH);
    let gateway = |via: &str, weight| RouteGateway { via: via.parse().unwrap(), dev: None, recursive: false, weight };
    let by = |gateways| RouteChange { gateways, ..RouteChange::of("10.7.0.0/16".parse().unwrap()) };
    let same = by(vec![gateway("10.0.2.2", 2), gateway("10.0.1.2", 1)]);
    let other = by(vec![gateway("10.0.2.2", 2), gateway("10.0.1.3", 1)]);
    let loaded = ask(&mut router.bed, LoadRoutes { routes: vec![same, other] }).unwrap();
    assert_eq!(counts(&loaded), [0, 0, 1, 1], "{loaded:?}");
    router.end();
}

/// "route ... via 10.0.2.2 via 10.0.2.3 added" left out two thirds and one third.
#[test]
fn a_route_that_was_added_is_said_with_its_weights() {
    let mut router = OnDisk::new(TWO_PORTS, ONE_EACH);
    let gateway = |via: &str, weight| RouteGateway { via: via.parse().unwrap(), dev: None, recursive: false, weight };
    let gateways = vec![gateway("10.0.2.2", 2), gateway("10.0.2.3", 1)];
    let change = RouteChange { gateways, ..RouteChange::of("10.9.0.0/16".parse().unwrap()) };
    let said = ask(&mut router.bed, AddRoute(change)).unwrap().message;
    assert_eq!(said, "route to 10.9.0.0/16 via 10.0.2.2 weight 2 via 10.0.2.3 weight 1 added");
    let said = ask(&mut router.bed, AddRoute(via("10.8.0.0/16", "10.0.2.2"))).unwrap().message;
    assert_eq!(said, "route to 10.8.0.0/16 via 10.0.2.2 added");
    router.end();
}

/// Routes to nowhere could be in the routes file alone.
#[test]
fn routes_to_nowhere_are_added_kept_and_deleted() {
    let mut router = OnDisk::new(&(TWO_PORTS.to_owned() + &neighbors(&[("10.0.2.2", PEER_B)])), ONE_EACH);
    let nowhere = |prefix: &str, fate| RouteChange { fate: Some(fate), ..RouteChange::of(prefix.parse().unwrap()) };
    let blackhole = nowhere("10.9.1.0/24", RouteFate::Blackhole);
    ask(&mut router.bed, AddRoute(via("10.9.0.0/16", "10.0.2.2"))).unwrap();
    let said = ask(&mut router.bed, AddRoute(blackhole.clone())).unwrap().message;
    assert_eq!(said, "route to 10.9.1.0/24 blackhole added");
    let routes = vec![nowhere("10.9.2.0/24", RouteFate::Prohibit), nowhere("224.0.0.0/4", RouteFate::Unreachable)];
    let loaded = ask(&mut router.bed, LoadRoutes { routes }).unwrap();
    assert_eq!(counts(&loaded), [2, 0, 0, 0], "{loaded:?}");
    let to = ["10.9.0.1", "10.9.1.1", "10.9.2.1"];
    assert_eq!(to.map(|address| forwarded(&mut router, address)), [1, 0, 0]);
    let config = ask(&mut router.bed, ShowConfig {}).unwrap().toml;
    assert!(config.contains("blackhole = true") && config.contains("prohibit = true"), "{config}");

    let mut both = via("10.8.0.0/16", "10.0.2.2");
    both.fate = Some(RouteFate::Blackhole);
    let refused = ask(&mut router.bed, AddRoute(both)).unwrap_err();
    assert!(refused.contains("`fate` is blackhole, and there is a gateway"), "{refused}");
    let other = nowhere("10.9.1.0/24", RouteFate::Prohibit);
    let refused = ask(&mut router.bed, DeleteRoute(other)).unwrap_err();
    assert_eq!(refused, "there is no static route to 10.9.1.0/24 prohibit with metric 0");
    ask(&mut router.bed, DeleteRoute(blackhole)).unwrap();
    assert_eq!(forwarded(&mut router, "10.9.1.1"), 1);
    router.end();
}

/// What is beyond `max_routes` is refused aloud and counted; what is there may be changed, and what leaves makes room.
#[test]
fn routes_beyond_the_limit_are_refused_and_counted() {
    let text = TWO_PORTS.replacen("[router]", "[router]\nmax_routes = 1000", 1);
    assert!(text.contains("max_routes"), "{text}");
    let mut router = OnDisk::new(&text, ONE_EACH);
    let held = shown(&mut router.bed).total as usize;
    let prefix = |n: usize| format!("20.{}.{}.0/24", n >> 8, n & 255);
    let routes: Vec<RouteChange> = (0..1200).map(|n| via(&prefix(n), "10.0.2.2")).collect();
    let loaded = ask(&mut router.bed, LoadRoutes { routes }).unwrap();
    let refused = 200 + held as u64;
    assert_eq!(counts(&loaded), [1200 - refused, 0, 0, refused], "{loaded:?}");
    let why = loaded.first_refused.unwrap().why;
    assert!(why.contains("there are 1000 routes") && why.contains("max_routes"), "{why}");
    let list = shown(&mut router.bed);
    assert_eq!((list.total, list.refused), (1000, refused));
    let changed = ask(&mut router.bed, LoadRoutes { routes: vec![via(&prefix(0), "10.0.2.3")] }).unwrap();
    assert_eq!(counts(&changed), [0, 1, 0, 0], "{changed:?}");
    let gone = ask(&mut router.bed, DeleteRoute(via(&prefix(1), "10.0.2.2")));
    gone.unwrap();
    let added = ask(&mut router.bed, LoadRoutes { routes: vec![via(&prefix(1199), "10.0.2.3")] }).unwrap();
    assert_eq!(counts(&added), [1, 0, 0, 0], "{added:?}");
    router.end();
}

/// A router whose lookup structure has no room for what is longer than 24 bits in 20.0.0.0/8.
fn narrow() -> (OnDisk, String) {
    let text = TWO_PORTS.replacen("[router]", "[router]\nfib = \"narrow\"", 1);
    (OnDisk::with(&text, ONE_EACH, common::narrow::lookups()), text)
}

/// The prefixes that operators and the configuration have routes to.
fn kept(router: &mut OnDisk) -> Vec<String> {
    let of_people = |source: &str| ["api", "static"].contains(&source);
    let routes = shown(&mut router.bed).routes.into_iter().filter(|route| of_people(route.source.name()));
    routes.map(|route| route.prefix.to_string()).collect()
}

#[test]
fn what_the_lookup_structure_has_no_room_for_is_refused_and_kept_nowhere() {
    let (far, near) = ("192.0.2.1", "10.0.2.2");
    let routes = vec![
        via("20.1.0.0/16", near),
        via("20.2.1.0/25", near),
        via("20.3.0.0/16", near),
        // Twice: the second takes the place of the first.
        via("20.4.1.0/26", near),
        via("20.4.1.0/26", "10.0.2.3"),
        via("20.5.0.0/16", far),
    ];
    let (mut router, _) = narrow();
    let loaded = ask(&mut router.bed, LoadRoutes { routes: routes.clone() }).unwrap();
    assert_eq!(counts(&loaded), [2, 0, 0, 4], "{loaded:?}");
    let first = loaded.first_refused.unwrap();
    assert_eq!(first.at, 1);
    assert!(first.why.contains("20.2.1.0/25 does not fit"), "{}", first.why);
    assert_eq!(kept(&mut router), ["20.1.0.0/16", "20.3.0.0/16"]);
    // Only once nobody holds the old tables is it known at once what fits.
    router.bed.pass(1);
    // What is refused for another reason may come first, too.
    let mut again = routes;
    again.rotate_right(1);
    let loaded = ask(&mut router.bed, LoadRoutes { routes: again }).unwrap();
    assert_eq!(counts(&loaded), [0, 0, 2, 4], "{loaded:?}");
    let first = loaded.first_refused.unwrap();
    assert_eq!(first.at, 0);
    assert!(first.why.contains("192.0.2.1 is not on a connected network"), "{}", first.why);
    let why = ask(&mut router.bed, AddRoute(via("20.6.1.0/25", near))).unwrap_err();
    assert!(why.contains("20.6.1.0/25 does not fit"), "{why}");
    assert_eq!(kept(&mut router), ["20.1.0.0/16", "20.3.0.0/16"]);
    router.end();
}

#[test]
fn a_reload_with_a_route_that_does_not_fit_changes_nothing() {
    let (mut router, text) = narrow();
    let route = |prefix: &str| format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"10.0.2.2\"\n");
    let text = text + &route("20.1.0.0/16");
    router.reload(&text).unwrap();
    router.bed.pass(1);
    let other = text.replace("20.1.", "20.2.");
    let why = router.reload(&(other.clone() + &route("20.3.1.0/25"))).unwrap_err();
    assert!(why.contains("20.3.1.0/25 does not fit"), "{why}");
    assert_eq!(kept(&mut router), ["20.1.0.0/16"]);
    router.reload(&other).unwrap();
    assert_eq!(kept(&mut router), ["20.2.0.0/16"]);
    router.end();
}

/// In any order, prefixes within one another and named several times: as if each had been loaded alone.
#[test]
fn a_run_ends_as_its_routes_one_by_one() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let [mut together, mut alone] = [0, 1].map(|_| OnDisk::new(TWO_PORTS, ONE_EACH));
        for _ in 0..4 {
            let route = |random: &mut StdRng| {
                let length = random.random_range(8..=32);
                let address = format!("20.{}.{}.0/{length}", random.random_range(0..4), random.random_range(0..4) * 64);
                let prefix = perigee_net::Prefix::around(&address).unwrap();
                let gateway = ["10.0.1.9", "10.0.2.2", "10.0.2.3", "192.0.2.1"][random.random_range(0..4)];
                let recursive = random.random_range(0..4) == 0;
                let gateway = if recursive { "20.1.64.1" } else { gateway };
                let metric = random.random_range(0..2);
                RouteChange { via: Some(gateway.parse().unwrap()), recursive, metric, ..RouteChange::of(prefix) }
            };
            let routes: Vec<RouteChange> = (0..200).map(|_| route(&mut random)).collect();
            let mut sum = [0; 4];
            for route in &routes {
                let loaded = ask(&mut alone.bed, LoadRoutes { routes: vec![route.clone()] }).unwrap();
                sum.iter_mut().zip(counts(&loaded)).for_each(|(sum, count)| *sum += count);
            }
            let loaded = ask(&mut together.bed, LoadRoutes { routes }).unwrap();
            assert_eq!(counts(&loaded), sum, "seed {seed}");
            assert!(sum[0] > 0 && sum[3] > 0);
            assert_eq!(shown(&mut together.bed).routes, shown(&mut alone.bed).routes, "seed {seed}");
        }
        for _ in 0..200 {
            let text = format!(
                "20.{}.{}.{}",
                random.random_range(0..5),
                random.random_range(0..256),
                random.random_range(0..256)
            );
            let [one, other] =
                [&mut together, &mut alone].map(|router| router.receive(&udp(&text, 64, 1)).map(|port| port.len()));
            assert_eq!(one, other, "{text}, seed {seed}");
        }
        [together, alone].into_iter().for_each(OnDisk::end);
    }
}

#[test]
fn a_reload_with_many_routes_ends_as_routes_one_by_one() {
    let mut router = OnDisk::new(TWO_PORTS, ONE_EACH);
    let route = |n: usize, gateway: usize| {
        format!("[[route]]\nprefix = \"20.{}.{}.0/24\"\nvia = \"10.0.2.{gateway}\"\n", n / 200, n % 200)
    };
    let text = |skip: usize, gateway: usize| {
        TWO_PORTS.to_owned() + &(0..600).filter(|n| n % 3 != skip).map(|n| route(n, gateway)).collect::<String>()
    };
    for (skip, gateway) in [(0, 2), (1, 2), (2, 3)] {
        router.reload(&text(skip, gateway)).unwrap();
        let list = shown(&mut router.bed).routes;
        let list: Vec<_> = list
            .iter()
            .filter(|route| route.source.name() == "static")
            .map(|route| (route.prefix, route.via))
            .collect();
        let expected = (0..600).filter(|n| n % 3 != skip).map(|n| {
            let prefix = format!("20.{}.{}.0/24", n / 200, n % 200);
            (prefix.parse().unwrap(), Some(format!("10.0.2.{gateway}").parse().unwrap()))
        });
        assert_eq!(list, expected.collect::<Vec<_>>());
    }
    router.end();
}
