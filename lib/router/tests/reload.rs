// SPDX-License-Identifier: MIT
//! A reload of a whole router on heap packets: what workers see of it, and what it carries over.

mod common;

use common::*;
use perigee_api::RouteChange;
use perigee_api::queries::{AddRoute, Reload, ShowRoutes};
use perigee_net::MacAddr;
use perigee_packet::wire::{ethernet, ipv4, protocol};
use std::path::PathBuf;

const TWO_PORTS: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
twin = false
addresses = ["10.0.1.1/24"]
[port.b]
device = "heap1"
twin = false
addresses = ["10.0.2.1/24", "10.0.5.1/24"]
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:01:0b"
[[neighbor]]
address = "10.0.5.2"
mac = "02:00:00:00:01:05"
"#;

/// A router, and the file that it is reloaded from.
struct Reloaded {
    bed: Bed,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Reloaded {
    fn new(text: &str) -> Reloaded {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let mut bed = Bed::new(text, &path, Queues { receive: 1, transmit: 2 });
        bed.settle();
        Reloaded { bed, path, _folder: folder }
    }

    fn reload(&mut self, text: &str) -> Result<String, String> {
        std::fs::write(&self.path, text).unwrap();
        let outcome = ask(&mut self.bed, Reload { script: None });
        self.bed.settle();
        outcome.map(|outcome| outcome.message)
    }

    /// Sends one packet to an address; returns how many the workers send on port b.
    fn forwarded(&mut self, destination: &str) -> u64 {
        let mut frame = vec![0; 14 + 20 + 8 + 20];
        ethernet::emit(&mut frame, MacAddr(mac(0)), MacAddr([2, 0, 0, 0, 1, 0xa]), ethernet::ethertype::IPV4).unwrap();
        let (source, destination) = ("10.0.1.2".parse().unwrap(), destination.parse().unwrap());
        ipv4::Repr::new(source, destination, protocol::UDP, 28).emit(&mut frame[14..]).unwrap();
        let before = self.bed.counters[0].port_transmitted(1);
        assert!(self.bed.receive[0][0].inject(&frame));
        self.bed.settle();
        self.bed.counters[0].port_transmitted(1) - before
    }

    /// The prefixes that have a route of a source.
    fn prefixes(&mut self, source: &str) -> Vec<String> {
        let list = ask(&mut self.bed, ShowRoutes { within: None, limit: Some(usize::MAX) }).unwrap();
        let routes = list.routes.into_iter().filter(|route| route.source.name() == source);
        routes.map(|route| route.prefix.to_string()).collect()
    }

    fn end(self) {
        (0..2).for_each(|port| drop(self.bed.sent(port)));
        assert_eq!(self.bed.end(), 0);
    }
}

#[test]
fn a_reload_that_changes_static_routes_alone_reaches_workers() {
    let mut router = Reloaded::new(TWO_PORTS);
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n";
    assert_eq!(router.forwarded("10.9.0.1"), 0);
    router.reload(&format!("{TWO_PORTS}{route}")).unwrap();
    assert_eq!(router.forwarded("10.9.0.1"), 1);
    router.reload(&format!("{TWO_PORTS}{}", route.replace("10.9.", "10.8."))).unwrap();
    assert_eq!((router.forwarded("10.9.0.1"), router.forwarded("10.8.0.1")), (0, 1));
    router.reload(TWO_PORTS).unwrap();
    assert_eq!(router.forwarded("10.8.0.1"), 0);
    router.end();
}

#[test]
fn a_script_that_does_not_load_takes_static_routes_back() {
    let mut router = Reloaded::new(TWO_PORTS);
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n";
    let with_route = format!("{TWO_PORTS}{route}");
    router.reload(&with_route).unwrap();
    let broken = TWO_PORTS.replace("[router]", "[router]\nscript = \"broken.lua\"");
    assert!(router.reload(&broken).unwrap_err().contains("broken.lua:1:"));
    assert_eq!(router.forwarded("10.9.0.1"), 1, "the route is there again");
    let broken = format!("{broken}{}", route.replace("10.9.", "10.8."));
    assert!(router.reload(&broken).unwrap_err().contains("broken.lua:1:"));
    assert_eq!((router.forwarded("10.9.0.1"), router.forwarded("10.8.0.1")), (1, 0));
    router.end();
}

#[test]
fn operator_routes_survive_a_reload_and_their_neighbors_with_them() {
    let mut router = Reloaded::new(TWO_PORTS);
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
    assert_eq!((router.forwarded("10.9.0.1"), router.forwarded("10.8.0.1")), (1, 1));
    assert_eq!(router.prefixes("neighbor"), ["10.0.2.2/32", "10.0.5.2/32"]);
    // Port b has lost the second network: the gateway there is off-link, and so is the neighbor.
    let fewer = TWO_PORTS.replace(", \"10.0.5.1/24\"", "");
    let fewer = fewer.split("[[neighbor]]\naddress = \"10.0.5.2\"").next().unwrap();
    let message = router.reload(fewer).unwrap();
    for gone in ["10.8.0.0/16", "10.6.0.0/16"] {
        let sentence = format!("the operator route to {gone} is gone: its gateway is on no interface any more");
        assert!(message.contains(&sentence), "{message}");
    }
    assert_eq!(router.prefixes("api"), ["10.7.0.0/16", "10.9.0.0/16"]);
    assert_eq!(router.prefixes("neighbor"), ["10.0.2.2/32"], "what is off-link is given up");
    assert_eq!((router.forwarded("10.9.0.1"), router.forwarded("10.8.0.1")), (1, 0));
    router.end();
}
