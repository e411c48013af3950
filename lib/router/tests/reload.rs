// SPDX-License-Identifier: MIT
//! A reload of a whole router on heap packets: what workers see of it, and what it carries over.

mod common;

use common::*;
use perigee_api::RouteChange;
use perigee_api::queries::{AddRoute, LoadRoutes, Reload, ShowRoutes};
use perigee_net::MacAddr;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// Port b has two networks, with a known neighbor in each.
fn two_networks() -> String {
    let known = [("10.0.2.2", PEER_B), ("10.0.5.2", MacAddr([2, 0, 0, 0, 1, 5]))];
    TWO_PORTS.replace("\"10.0.2.1/24\"", "\"10.0.2.1/24\", \"10.0.5.1/24\"") + &neighbors(&known)
}

/// Sends one packet to an address; returns how many the workers send on port b.
fn forwarded(router: &mut OnDisk, destination: &str) -> u64 {
    let before = router.bed.counters[0].port_transmitted(1);
    router.receive(&udp(destination, 64, 1));
    router.bed.counters[0].port_transmitted(1) - before
}

/// The prefixes that have a route of a source.
fn prefixes(router: &mut OnDisk, source: &str) -> Vec<String> {
    let list =
        ask(&mut router.bed, ShowRoutes { within: None, to: None, source: None, limit: Some(usize::MAX) }).unwrap();
    let routes = list.routes.into_iter().filter(|route| route.source.name() == source);
    routes.map(|route| route.prefix.to_string()).collect()
}

#[test]
fn a_reload_that_changes_static_routes_alone_reaches_workers() {
    let text = two_networks();
    let mut router = OnDisk::new(&text, ONE_EACH);
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n";
    assert_eq!(forwarded(&mut router, "10.9.0.1"), 0);
    router.reload(&format!("{text}{route}")).unwrap();
    assert_eq!(forwarded(&mut router, "10.9.0.1"), 1);
    router.reload(&format!("{text}{}", route.replace("10.9.", "10.8."))).unwrap();
    assert_eq!((forwarded(&mut router, "10.9.0.1"), forwarded(&mut router, "10.8.0.1")), (0, 1));
    router.reload(&text).unwrap();
    assert_eq!(forwarded(&mut router, "10.8.0.1"), 0);
    router.end();
}

#[test]
fn a_script_that_does_not_load_takes_static_routes_back() {
    let text = two_networks();
    let mut router = OnDisk::new(&text, ONE_EACH);
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n";
    let with_route = format!("{text}{route}");
    router.reload(&with_route).unwrap();
    let broken = text.replace("[router]", "[router]\nscript = \"broken.lua\"");
    assert!(router.reload(&broken).unwrap_err().contains("broken.lua:1:"));
    assert_eq!(forwarded(&mut router, "10.9.0.1"), 1, "the route is there again");
    let broken = format!("{broken}{}", route.replace("10.9.", "10.8."));
    assert!(router.reload(&broken).unwrap_err().contains("broken.lua:1:"));
    assert_eq!((forwarded(&mut router, "10.9.0.1"), forwarded(&mut router, "10.8.0.1")), (1, 0));
    router.end();
}

#[test]
fn operator_routes_survive_a_reload_and_their_neighbors_with_them() {
    let text = two_networks();
    let mut router = OnDisk::new(&text, ONE_EACH);
    let change = |prefix: &str, via: &str, dev: Option<&str>| -> RouteChange {
        serde_json::from_value(serde_json::json!({ "prefix": prefix, "via": via, "dev": dev })).unwrap()
    };
    for (prefix, via, dev) in [
        ("10.9.0.0/16", "10.0.2.2", None),
        ("10.8.0.0/16", "10.0.5.2", None),
        ("10.7.0.0/16", "10.0.2.2", Some("b")),
        ("10.6.0.0/16", "10.0.5.2", Some("b")),
    ] {
        ask(&mut router.bed, AddRoute(change(prefix, via, dev))).unwrap();
    }
    router.bed.settle();
    assert_eq!((forwarded(&mut router, "10.9.0.1"), forwarded(&mut router, "10.8.0.1")), (1, 1));
    assert_eq!((forwarded(&mut router, "10.0.2.2"), forwarded(&mut router, "10.0.5.2")), (1, 1));
    // Port b has lost the second network: the gateway there is off-link, and so is the neighbor.
    let fewer = text.replace(", \"10.0.5.1/24\"", "");
    let fewer = fewer.split("[[neighbor]]\naddress = \"10.0.5.2\"").next().unwrap();
    let message = router.reload(fewer).unwrap();
    for gone in ["10.8.0.0/16", "10.6.0.0/16"] {
        let sentence = format!("the operator route to {gone} is gone: its gateway is on no interface any more");
        assert!(message.contains(&sentence), "{message}");
    }
    assert_eq!(prefixes(&mut router, "api"), ["10.7.0.0/16", "10.9.0.0/16"]);
    let off_link = forwarded(&mut router, "10.0.5.2");
    assert_eq!((forwarded(&mut router, "10.0.2.2"), off_link), (1, 0), "what is off-link is given up");
    assert_eq!((forwarded(&mut router, "10.9.0.1"), forwarded(&mut router, "10.8.0.1")), (1, 0));
    router.end();
}

const NOTHING: Reload = Reload { script: None, text: None };

/// A file that answers no reader before somebody writes into it.
fn slow_file(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Waits until a reload reads a slow file, which it does until it has got what is written and this is dropped.
fn being_read(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

/// The slow path waited for the loader, and that one for the file system or the helper.
#[test]
fn the_slow_path_does_not_wait_for_a_script_that_is_being_read() {
    let mut router = OnDisk::new(TWO_PORTS, ONE_EACH);
    let script = router.path.with_file_name("slow.lua");
    slow_file(&script);
    let text = TWO_PORTS.replace("[router]", &format!("[router]\nscript = \"{}\"", script.display()));
    std::fs::write(&router.path, text).unwrap();
    let answer = begin(&mut router.bed, NOTHING);
    let mut file = being_read(&script);
    let list = ask(&mut router.bed, ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap();
    assert!(list.total > 0 && answer.try_take().is_none());
    file.write_all(b"-- a script").unwrap();
    drop(file);
    let message = wait_for(&mut router.bed, &answer).unwrap().message;
    assert!(message.contains("slow.lua"), "{message}");
    router.end();
}

/// The first of two reloads that read at once had an older file, and won if it took longer.
#[test]
fn a_reload_that_a_later_one_overtakes_changes_nothing() {
    let text = two_networks();
    let mut router = OnDisk::new(&text, ONE_EACH);
    let route = |prefix: &str| format!("{text}[[route]]\nprefix = \"{prefix}\"\nvia = \"10.0.2.2\"\n");
    let path = router.path.clone();
    std::fs::remove_file(&path).unwrap();
    slow_file(&path);
    let answer = begin(&mut router.bed, NOTHING);
    let mut file = being_read(&path);
    std::fs::rename(&path, path.with_extension("old")).unwrap();
    router.reload(&route("10.9.0.0/16")).unwrap();
    file.write_all(route("10.8.0.0/16").as_bytes()).unwrap();
    drop(file);
    let why = wait_for(&mut router.bed, &answer).unwrap_err();
    assert!(why.contains("a later reload has read its files sooner"), "{why}");
    assert_eq!((forwarded(&mut router, "10.9.0.1"), forwarded(&mut router, "10.8.0.1")), (1, 0));
    router.end();
}

/// The routes of a new address took the room of operator routes, which were gone after the reload.
#[test]
fn a_reload_at_the_limit_keeps_what_operators_have_added() {
    let text = TWO_PORTS.replacen("[router]", "[router]\nmax_routes = 1000", 1);
    let mut router = OnDisk::new(&text, ONE_EACH);
    let change = |n: usize| RouteChange {
        via: Some("10.0.2.2".parse().unwrap()),
        ..RouteChange::of(format!("20.{}.{}.0/24", n >> 8, n & 255).parse().unwrap())
    };
    let loaded = ask(&mut router.bed, LoadRoutes { routes: (0..1100).map(change).collect() }).unwrap();
    assert!(loaded.first_refused.is_some(), "{loaded:?}");
    let before = prefixes(&mut router, "api");
    let message = router.reload(&text.replace("\"10.0.2.1/24\"", "\"10.0.2.1/24\", \"10.0.5.1/24\"")).unwrap();
    assert!(!message.contains("is gone"), "{message}");
    assert_eq!(prefixes(&mut router, "api"), before);
    // It is no room for others.
    let refused = ask(&mut router.bed, LoadRoutes { routes: vec![change(1101)] }).unwrap().first_refused;
    assert!(refused.is_some_and(|refused| refused.why.contains("max_routes")));
    router.end();
}
