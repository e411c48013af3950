// SPDX-License-Identifier: MIT
//! Linux interfaces under ports: their carrier, and what they lose.

mod common;

use common::*;
use perigee_api::answers::{NextHopType, RouteEntry};
use perigee_api::queries::{AddRoute, ShowFib, ShowNextHops, ShowPorts, ShowRoutes};
use perigee_api::{RouteChange, RouteGateway};
use perigee_netlink::message::{Link, Message};
use perigee_netlink::{LinkLosses, LinkStatistics, Source, SourceCounters, Update};
use perigee_router::Below;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// Reports of Linux on the interfaces under ports.
#[derive(Clone, Default)]
struct Links(Arc<Mutex<VecDeque<Update>>>);

impl Links {
    fn report(&self, name: &str, carrier: bool) {
        let link = Link { index: 3, name: name.into(), up: true, carrier, mtu: 1500, ..Link::default() };
        self.0.lock().unwrap().push_back(Update::Notifications(vec![Message::Link(link)]));
    }
}

impl Source for Links {
    fn next(&mut self) -> Option<Update> {
        self.0.lock().unwrap().pop_front()
    }
    fn dump(&mut self) {}
    fn counters(&self) -> SourceCounters {
        SourceCounters::default()
    }
}

/// What the kernel says that a link has lost.
#[derive(Clone, Default)]
struct Lost(Arc<Mutex<LinkLosses>>);

impl LinkStatistics for Lost {
    fn losses(&self, index: u32) -> Option<LinkLosses> {
        (index == 3).then(|| *self.0.lock().unwrap())
    }
}

#[test]
fn what_the_kernel_loses_under_a_port_is_shown_once_the_router_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = TWO_PORTS.replace("device = \"heap0\"", "interface = \"eth0\"");
    let (links, lost) = (Links::default(), Lost::default());
    let below = Below { reports: Box::new(links.clone()), statistics: Box::new(lost.clone()) };
    let mut bed = Bed::over_links(&text, &folder.path().join("a.toml"), ONE_EACH, below);
    let shown = |bed: &mut Bed| -> Vec<Option<u64>> {
        let ports = ask(bed, ShowPorts {}).unwrap();
        ports.iter().map(|port| port.kernel.as_ref().map(|kernel| kernel.receive_dropped)).collect()
    };
    lost.0.lock().unwrap().receive_dropped = 1000;
    links.report("eth0", true);
    bed.settle();
    assert_eq!(
        shown(&mut bed),
        [Some(0), None],
        "what was lost before is not this router's; the other port has no interface"
    );
    lost.0.lock().unwrap().receive_dropped += 7;
    assert_eq!(shown(&mut bed), [Some(7), None]);
}

#[test]
fn a_cable_that_is_pulled_under_a_port_is_noticed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = TWO_PORTS.replace("device = \"heap0\"", "interface = \"eth0\"");
    let links = Links::default();
    let below = Below { reports: Box::new(links.clone()), statistics: Box::new(Lost::default()) };
    let mut bed = Bed::over_links(&text, &folder.path().join("a.toml"), ONE_EACH, below);
    let up = |bed: &mut Bed| -> Vec<bool> { ask(bed, ShowPorts {}).unwrap().iter().map(|port| port.link_up).collect() };
    bed.settle();
    assert_eq!(up(&mut bed), [true, true]);
    // No time passes: nothing that is looked after at intervals is due.
    links.report("eth0", false);
    bed.settle();
    assert_eq!(up(&mut bed), [false, true]);
    links.report("eth0", true);
    bed.settle();
    assert_eq!(up(&mut bed), [true, true]);
}

/// What is shown of a route, and of each of its gateways: is it down?
fn down(bed: &mut Bed, prefix: &str) -> (bool, Vec<bool>) {
    let list = ask(bed, ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap();
    let is_it = |route: &&RouteEntry| route.prefix.to_string() == prefix;
    let route = list.routes.iter().find(is_it).unwrap_or_else(|| panic!("no route to {prefix}"));
    (route.down, route.gateways.iter().map(|gateway| gateway.down).collect())
}

#[test]
fn what_a_pulled_cable_keeps_from_being_used_is_shown_as_down() {
    let folder = tempfile::tempdir().unwrap();
    let text = TWO_PORTS.replace("device = \"heap0\"", "interface = \"eth0\"")
        + &neighbors(&[("10.0.1.2", PEER_A), ("10.0.2.2", PEER_B)]);
    let links = Links::default();
    let below = Below { reports: Box::new(links.clone()), statistics: Box::new(Lost::default()) };
    let mut bed = Bed::over_links(&text, &folder.path().join("a.toml"), ONE_EACH, below);
    let gateway = |via: &str| RouteGateway { via: via.parse().unwrap(), dev: None, recursive: false, weight: 1 };
    for (prefix, gateways) in [
        ("10.7.0.0/16", vec![gateway("10.0.1.2")]),
        ("10.8.0.0/16", vec![gateway("10.0.1.2"), gateway("10.0.2.2")]),
        ("10.9.0.0/16", vec![gateway("10.0.2.2")]),
    ] {
        let change = RouteChange { gateways, ..RouteChange::of(prefix.parse().unwrap()) };
        ask(&mut bed, AddRoute(change)).unwrap();
    }
    for carrier in [true, false, true] {
        links.report("eth0", carrier);
        bed.settle();
        let gone = !carrier;
        assert_eq!(down(&mut bed, "10.0.1.0/24"), (gone, vec![]));
        assert_eq!(down(&mut bed, "10.0.2.0/24"), (false, vec![]));
        assert_eq!(down(&mut bed, "10.0.1.1/32"), (false, vec![]), "the router's own address");
        assert_eq!(down(&mut bed, "10.7.0.0/16"), (gone, vec![]));
        assert_eq!(down(&mut bed, "10.8.0.0/16"), (false, vec![gone, false]), "a gateway is left");
        assert_eq!(down(&mut bed, "10.9.0.0/16"), (false, vec![]));
        let list = ask(&mut bed, ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap();
        let devices = ["10.7.0.0/16", "10.9.0.0/16"].map(|prefix| {
            list.routes.iter().find(|route| route.prefix.to_string() == prefix).and_then(|route| route.dev.clone())
        });
        assert_eq!(
            devices.each_ref().map(Option::as_deref),
            [Some("a"), Some("b")],
            "it is known where they would leave"
        );
        let hops = ask(&mut bed, ShowNextHops {}).unwrap();
        let stations = hops.iter().filter(|hop| hop.kind == NextHopType::Neighbor);
        let stations: BTreeSet<_> = stations.filter_map(|hop| hop.dev.as_deref()).collect();
        assert_eq!(stations, if gone { BTreeSet::from(["b"]) } else { BTreeSet::from(["a", "b"]) });
        let group = hops.iter().find(|hop| hop.kind == NextHopType::Group).unwrap();
        let shares: Vec<f64> = group.members.iter().map(|member| member.share).collect();
        assert_eq!(shares, if gone { [0.0, 1.0] } else { [0.5, 0.5] });
        assert!(ask(&mut bed, ShowFib {}).unwrap().iter().all(|family| !family.pending), "nothing is left to do");
    }
    assert_eq!(bed.end(), 0);
}
