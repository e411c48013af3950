// SPDX-License-Identifier: MIT
//! An assistant does what the owner of the tables would have done, or nothing at all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::fuzz::{any_group, any_host_addresses, any_interface, frame, pick};
use crate::world::*;
use perigee_net::{Interface, InterfaceId, MacAddr};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{icmp4, protocol};
use perigee_packet::{Ethernet, Icmp4, Ipv4};
use perigee_slowpath::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// What workers' tables say: MAC addresses, where they are known, and no IP addresses of next hops.
struct Tables<'a> {
    routes: &'a Table,
    stations: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
}

impl<'a> Tables<'a> {
    fn of(w: &'a World) -> Tables<'a> {
        let known = w.slow.neighbors().filter_map(|n| Some(((n.interface, n.address), n.mac?)));
        Tables { routes: &w.table, stations: known.collect() }
    }
}

impl Routes for Tables<'_> {
    fn route(&self, destination: IpAddr, flow: u32) -> RouteDecision {
        let key = match self.routes.route(destination, flow) {
            RouteDecision::Connected(interface) => (interface, destination),
            RouteDecision::Gateway(interface, gateway) => (interface, gateway),
            other => return other,
        };
        self.stations.get(&key).map_or(RouteDecision::Unresolved(key.0), |mac| RouteDecision::Station(key.0, *mac))
    }

    fn leads_back(&self, source: IpAddr, by: Option<InterfaceId>) -> bool {
        self.routes.leads_back(source, by)
    }

    fn multicast(&self, now: Time, packet: &GroupPacket) -> MulticastDecision {
        self.routes.multicast(now, packet)
    }

    fn lets_linux_send(&self, interface: InterfaceId, group: IpAddr, ttl: u8) -> bool {
        self.routes.lets_linux_send(interface, group, ttl)
    }
}

fn unlimited() -> Config {
    Config {
        icmp_errors_per_second: u32::MAX,
        icmp_errors_per_source: u32::MAX,
        icmp_error_burst: u32::MAX,
        redirects_per_second: u32::MAX,
        redirect_burst: u32::MAX,
        ..Config::default()
    }
}

fn assistant(w: &World) -> Assistant {
    let mut assistant = Assistant::new(unlimited(), Arc::clone(w.slow.limits()));
    assistant.set_interfaces(&w.slow.interfaces());
    assistant
}

/// What an assistant did with a frame: `None` if it left it to the owner.
fn judged(assistant: &mut Assistant, w: &World, interface: InterfaceId, frame: &[u8]) -> Option<Vec<Output>> {
    let done = assistant.handle(w.now, interface, frame, &Tables::of(w));
    let outputs: Vec<_> = std::iter::from_fn(|| assistant.poll_output()).collect();
    assert!(done || outputs.is_empty(), "left, and yet: {outputs:?}");
    done.then_some(outputs)
}

/// Without identifications, which each thread counts for itself.
fn without_identifications(mut outputs: Vec<Output>) -> Vec<Output> {
    for output in &mut outputs {
        let (Output::Transmit { frame, .. } | Output::ToTwin { frame, .. }) = output else { continue };
        if Ethernet::new(&frame[..]).unwrap().ethertype() == ethertype::IPV4 {
            frame[18..20].fill(0);
            frame[24..26].fill(0);
        }
    }
    outputs
}

fn lockstep(seed: u64, steps: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut w = World::with(unlimited());
    let mut helper = assistant(&w);
    let (mut equal, mut left, mut handed) = (0, 0, 0);
    for step in 0..steps {
        if step.is_multiple_of(200) {
            let id = pick(&mut rng, &[LEFT, RIGHT]);
            w.set(id, any_interface(&mut rng, id));
            w.input(Input::SetHostAddresses { addresses: any_host_addresses(&mut rng) });
            let (group, from, decision) = any_group(&mut rng);
            w.table.1.decisions.insert((group, from), decision);
            w.advance(5_000);
            helper.set_interfaces(&w.slow.interfaces());
        }
        let id = pick(&mut rng, &[LEFT, RIGHT]);
        let frame = frame(&mut rng, id);
        let before = helper.counters().clone();
        let outputs = judged(&mut helper, &w, id, &frame);
        let counted: Vec<_> = helper.counters().since(&before).collect();
        let owners = w.slow.counters().clone();
        let Some(outputs) = outputs else {
            assert!(counted.is_empty(), "left, and yet counted {counted:?}: {frame:02x?}");
            left += 1;
            w.punt(id, &frame);
            continue;
        };
        // After copies of a packet to a group, Packet Too Big may follow.
        if let [copies @ .., Output::Own { interface, packet }] = &outputs[..] {
            assert!(copies.iter().all(|output| matches!(output, Output::Transmit { .. })), "{copies:?}");
            handed += 1;
            w.input(Input::Own { interface: *interface, packet });
            continue;
        }
        equal += 1;
        w.slow.handle(w.now, Input::Punted { interface: id, frame: &frame }, &w.table);
        let expected: Vec<_> = std::iter::from_fn(|| w.slow.poll_output()).collect();
        assert_eq!(without_identifications(outputs), without_identifications(expected), "{frame:02x?}");
        assert_eq!(counted, w.slow.counters().since(&owners).collect::<Vec<_>>(), "{frame:02x?}");
    }
    println!("    {equal} alike, {left} left to the owner, {handed} answers given to it");
    assert!(equal > steps / 5 && left > steps / 5 && handed > steps / 1000);
}

#[test]
fn assistant_and_owner_agree() {
    let seeds = std::env::var("PERIGEE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in 1..=2 * seeds {
        println!("PERIGEE_FUZZ_SEED={seed}");
        lockstep(seed, 20_000);
    }
}

// An error whose way back leads to a station that is not resolved is sent by the owner once it is.
#[test]
fn an_answer_to_an_unresolved_station_goes_by_the_owner() {
    let mut w = World::new();
    let mut helper = assistant(&w);
    let a = host(LEFT, 2);
    let expired = with_ttl(&udp4(a.v4, host(RIGHT, 3).v4, 1), 1);
    let frame = ethernet(mac(LEFT), a.mac, &expired);
    let outputs = judged(&mut helper, &w, LEFT, &frame).unwrap();
    let [Output::Own { interface, packet }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((*interface, helper.counters().icmp_errors_sent), (LEFT, 1));
    w.input(Input::Own { interface: *interface, packet });
    let (interface, to, error) = w.take_packet();
    assert_eq!((interface, to), (LEFT, a.mac));
    let error = Ipv4::new(&error[..]).unwrap();
    assert_eq!((error.protocol(), error.destination()), (protocol::ICMP, a.v4));
    assert_eq!(Icmp4::new(error.payload()).unwrap().kind(), icmp4::TIME_EXCEEDED);
    // Now that the station is known, the assistant sends by itself.
    assert!(matches!(&judged(&mut helper, &w, LEFT, &frame).unwrap()[..], [Output::Transmit { .. }]));
}

// The first packets of an interface may come before an assistant has heard of it: among them was the answer of the
// station that has one of the router's addresses, so that the duplicate was never found.
#[test]
fn packets_of_an_interface_not_heard_of_yet_are_the_owners() {
    let w = World::new();
    let mut helper = Assistant::new(Config::default(), Arc::clone(w.slow.limits()));
    let frame = ethernet(mac(LEFT), host(LEFT, 2).mac, &udp4(host(LEFT, 2).v4, host(RIGHT, 3).v4, 1));
    assert_eq!(judged(&mut helper, &w, LEFT, &frame), None);
    let table = w.slow.interfaces();
    let mut down = World::new();
    down.set(LEFT, Interface { up: false, ..interface(LEFT) });
    helper.set_interfaces(&down.slow.interfaces());
    assert_eq!(judged(&mut helper, &w, LEFT, &frame), None);
    assert!(helper.counters().iter().all(|count| count.value == 0));
    helper.set_interfaces(&table);
    let expired = ethernet(mac(LEFT), host(LEFT, 2).mac, &with_ttl(&frame[14..], 1));
    assert!(judged(&mut helper, &w, LEFT, &expired).is_some());
}

#[test]
fn limits_are_shared() {
    let mut w = World::with(Config { icmp_errors_per_second: 10, icmp_error_burst: 5, ..Config::default() });
    let mut helper = assistant(&w);
    let a = host(LEFT, 2);
    let expired = with_ttl(&udp4(a.v4, host(RIGHT, 3).v4, 1), 1);
    let frame = ethernet(mac(LEFT), a.mac, &expired);
    w.from(a, &expired);
    (0..2).for_each(|_| drop(judged(&mut helper, &w, LEFT, &frame)));
    (0..9).for_each(|_| w.from(a, &expired));
    let sent = (w.count("icmp_errors_sent"), helper.counters().icmp_errors_sent);
    assert_eq!(sent, (3, 2));
}

fn with_ttl(packet: &[u8], ttl: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let mut view = Ipv4::new(&mut packet[..]).unwrap();
    view.set_ttl(ttl);
    view.fill_checksum();
    packet
}
