// SPDX-License-Identifier: MIT
//! Twins, namespaces and sockets that go away.

use crate::world::*;
use perigee_helper::{LinkChange, TwinWanted};
use perigee_linux::{Effect, FeedId, HelperRequest, Input, Report, Setup, State};
use perigee_net::InterfaceAddress;
use perigee_netlink::message::{Link, Message};

const QUARTER: u64 = SECOND / 4;

fn wanted(requests: Vec<HelperRequest>) -> Vec<(usize, TwinWanted)> {
    let twins = requests.into_iter();
    twins.filter_map(|r| if let HelperRequest::Twin(port, wanted) = r { Some((port, wanted)) } else { None }).collect()
}

fn texts(addresses: &[InterfaceAddress]) -> Vec<String> {
    addresses.iter().map(InterfaceAddress::to_string).collect()
}

#[test]
fn a_twin_that_is_deleted_is_made_again_with_its_addresses() {
    let mut world = World::new();
    world.kernel.add_address(address(B, "192.0.2.1/28"));
    world.kernel.add_address(address(B, "192.0.2.17/28"));
    world.settle();
    // Somebody removed it long before.
    world.kernel.delete_address(address(B, "192.0.2.17/28"));
    world.settle();
    world.pass(2 * SECOND);
    // Linux says that its addresses are gone, and then that it is.
    let addresses = world.kernel.addresses.clone();
    for gone in addresses.into_iter().filter(|address| address.link == B) {
        world.kernel.delete_address(gone);
    }
    world.settle();
    world.now += QUARTER;
    world.kernel.delete_link(B);
    world.settle();
    assert!(wanted(world.requests()).is_empty(), "not before the next look");
    world.pass(QUARTER);
    let requests = wanted(world.requests());
    let [(1, twin)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((twin.name.as_str(), twin.mac, twin.mtu, twin.up), ("b", mac(1), 1500, true));
    let mut addresses = texts(&twin.addresses);
    addresses.sort();
    assert_eq!(addresses, ["10.0.2.1/24", "192.0.2.1/28", "2001:db8:2::1/64", "fe80::ff:fe00:1/64"]);
    world.pass(SECOND);
    assert!(wanted(world.requests()).is_empty(), "it is being made");

    // It is there again, under another number.
    world.kernel.links.insert(50, link(50, "b"));
    world.kernel.addresses.push(address(50, "10.0.2.1/24"));
    let dumps = world.kernel.dumps;
    world.input(Input::TwinMade { port: 1, link: 50 });
    world.settle();
    assert_eq!(world.kernel.dumps, dumps + 1);
    assert_eq!(world.interface("b").addresses, ["10.0.2.1/24".parse().unwrap()]);
    assert_eq!(
        world.changes(),
        [LinkChange { name: "b".into(), index: Some(50), carrier: Some(true), ..LinkChange::default() }]
    );
    world.pass(SECOND);
    assert!(world.requests().is_empty());
}

#[test]
fn addresses_that_went_long_before_their_twin_do_not_come_back() {
    let mut world = World::new();
    world.kernel.add_address(address(B, "192.0.2.1/28"));
    world.settle();
    world.kernel.delete_address(address(B, "192.0.2.1/28"));
    world.settle();
    world.pass(SECOND);
    world.kernel.delete_link(B);
    world.settle();
    world.pass(QUARTER);
    let requests = wanted(world.requests());
    assert!(!texts(&requests[0].1.addresses).contains(&"192.0.2.1/28".to_owned()), "{requests:?}");
}

#[test]
fn of_addresses_that_went_just_before_their_twin_the_last_are_remembered() {
    let mut world = World::new();
    for n in 0..80 {
        world.kernel.add_address(address(B, &format!("192.0.2.{n}/32")));
    }
    world.settle();
    for n in 0..80 {
        world.kernel.delete_address(address(B, &format!("192.0.2.{n}/32")));
    }
    world.settle();
    world.kernel.delete_link(B);
    world.settle();
    world.pass(QUARTER);
    let requests = wanted(world.requests());
    let addresses = texts(&requests[0].1.addresses);
    let kept = (0..80).filter(|n| addresses.contains(&format!("192.0.2.{n}/32"))).collect::<Vec<_>>();
    assert_eq!(kept, (16..80).collect::<Vec<_>>());
}

#[test]
fn a_twin_that_cannot_be_made_is_tried_again() {
    let mut world = World::new();
    world.kernel.delete_link(A);
    world.settle();
    world.pass(QUARTER);
    let [(0, twin)] = &wanted(world.requests())[..] else { panic!("one twin is missing") };
    let addresses = twin.addresses.clone();
    world.input(Input::TwinFailed { port: 0, addresses: addresses.clone() });
    world.pass(QUARTER);
    let [(0, again)] = &wanted(world.requests())[..] else { panic!("it is tried again") };
    assert_eq!(again.addresses, addresses);
    // While it is being made, the report that the old one is gone is no reason to make another.
    world.kernel.say(Message::Link(link(A, "a")));
    world.kernel.say(Message::LinkGone(A));
    world.settle();
    world.pass(SECOND);
    assert!(wanted(world.requests()).is_empty());
    // Nor what was asked for between its failure and the answer.
    world.input(Input::TwinFailed { port: 0, addresses });
    world.input(Input::TwinMade { port: 0, link: 60 });
    world.pass(SECOND);
    assert!(wanted(world.requests()).is_empty());
}

fn in_a_namespace() -> World {
    let namespace = Some("blue".parse().unwrap());
    World::with(Setup { namespace, identity: Some((1, 1)), ..setup() }, &[])
}

#[test]
fn a_namespace_that_is_gone_is_waited_for_and_its_twins_are_made_again() {
    let mut world = in_a_namespace();
    world.input(Input::Namespace(Some((1, 1))));
    assert!(world.requests().is_empty(), "it is the same");
    world.input(Input::Namespace(None));
    world.kernel.delete_link(A);
    world.kernel.delete_link(B);
    world.settle();
    world.pass(5 * SECOND);
    assert_eq!((world.status().state, world.requests().len()), (State::Lost, 0), "there is nowhere to make them");
    world.input(Input::Namespace(Some((1, 2))));
    let requests = world.requests();
    let room = linux().receive_buffer as usize;
    assert_eq!(requests, [HelperRequest::Sockets(room)]);
    world.pass(QUARTER);
    let twins = wanted(world.requests());
    assert_eq!(twins.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 1]);
    assert!(twins.iter().all(|(_, twin)| twin.namespace == Some("blue".parse().unwrap())));
    assert!(texts(&twins[0].1.addresses).contains(&"10.0.1.1/24".to_owned()), "as the router has them still");
    world.input(Input::Namespace(Some((1, 2))));
    assert!(world.requests().is_empty());
}

#[test]
fn another_namespace_of_the_same_name_is_the_one_to_follow() {
    let mut world = in_a_namespace();
    world.input(Input::Namespace(Some((1, 9))));
    assert_eq!(world.requests().len(), 1, "sockets");
    world.pass(QUARTER);
    assert_eq!(wanted(world.requests()).len(), 2);
    // Without a namespace of its own there is nothing to look at.
    let mut world = World::new();
    world.input(Input::Namespace(Some((1, 9))));
    world.input(Input::Namespace(None));
    world.pass(SECOND);
    assert_eq!((world.requests().len(), world.status().state), (0, State::Following));
}

/// A router without twins and without helper was warned of twins that are made again.
#[test]
fn a_namespace_without_twins_is_not_looked_after() {
    let setup = Setup { namespace: Some("blue".parse().unwrap()), identity: Some((1, 1)), helper: false, ..setup() };
    let mut world = World::with(setup, &[]);
    world.input(Input::Namespace(None));
    world.input(Input::Namespace(Some((1, 9))));
    world.pass(SECOND);
    assert_eq!((world.requests().len(), world.status().state), (0, State::Following));
}

#[test]
fn only_ports_with_twins_have_them_made_again() {
    let mut setup = Setup { namespace: Some("blue".parse().unwrap()), identity: Some((1, 1)), ..setup() };
    setup.ports[0].twin = None;
    let mut world = World::with(setup, &[]);
    world.input(Input::Namespace(Some((1, 9))));
    world.pass(QUARTER);
    assert_eq!(wanted(world.requests()).iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
}

#[test]
fn sockets_that_do_not_work_are_opened_again() {
    let mut world = World::new();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    world.kernel.reports.push_back(Report::Broken("no more".into()));
    world.kernel.reports.push_back(Report::Broken("no more".into()));
    world.settle();
    assert_eq!(world.status().state, State::Lost);
    let room = linux().receive_buffer as usize;
    assert_eq!(world.requests(), [HelperRequest::Sockets(room)], "once");
    assert_eq!(world.taken(), [Effect::ResyncsFailed, Effect::ResyncsFailed]);
    world.pass(SECOND);
    assert!(world.requests().is_empty(), "it is waited for");
    world.input(Input::ReopenFailed);
    assert!(world.requests().is_empty());
    world.pass(QUARTER);
    assert_eq!(world.requests(), [HelperRequest::Sockets(room)]);
    world.pass(SECOND);
    assert!(world.requests().is_empty());
    // There they are. Everything stays until the first dump is complete.
    world.kernel.routes.clear();
    world.input(Input::Reopened);
    world.settle();
    assert_eq!((world.routes().len(), world.status().links), (1, 0));
    assert!(world.follower.is_ready_for(FeedId::Zebra), "it was complete, and is");
    world.kernel.dump();
    world.settle();
    assert_eq!((world.routes().len(), world.status().links, world.status().state), (0, 2, State::Following));
    world.kernel.reports.push_back(Report::Broken("again".into()));
    world.settle();
    assert_eq!(world.requests(), [HelperRequest::Sockets(room)]);
}

/// The first dump of a new feed is applied, even if an audit is waiting for one.
#[test]
fn an_audit_does_not_take_the_first_dump_of_a_new_feed() {
    let mut world = World::new();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    world.input(Input::Reopened);
    world.follower.begin_audit(world.now, false);
    world.kernel.routes.clear();
    world.kernel.dump();
    world.settle();
    assert!(world.routes().is_empty());
    assert_eq!(world.audits.len(), 1);
}

#[test]
fn without_a_helper_nothing_is_asked() {
    let mut world = World::with(Setup { helper: false, ..setup() }, &[]);
    world.kernel.delete_link(A);
    world.kernel.reports.push_back(Report::Broken("no more".into()));
    world.settle();
    world.pass(SECOND);
    assert!(world.requests().is_empty());
    world.kernel.say(Message::Link(Link { mtu: 1400, ..link(B, "b") }));
    world.settle();
    assert_eq!(world.interface("b").mtu, 1400, "what comes is followed all the same");
}
