// SPDX-License-Identifier: MIT
//! The state machine: inputs in, outputs out, and everything that connects the parts.

use perigee_net::{Interface, InterfaceId, MacAddr, Policy, Proxy, ReversePath, is_host, is_link_local};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{flow, ipv6};
use perigee_packet::{Ipv4, Ipv6};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::fragment::{fragment, fragment6};
use crate::frame::{self, Received};
use crate::identification::Identifications;
use crate::interface::{AddressInfo, InterfaceTable, Interfaces, Own};
use crate::multicast::{Unrouted, is_confined};
use crate::neighbor::{Action, Answer, Heard, Key, NeighborInfo, NeighborUsage, Neighbors, NextHop, Origin, Pending};
use crate::rate::{Limits, TokenBucket};
use crate::reassembly::{Reassembling, Reassembly};
use crate::{Config, Counters, Event, Input, Output, RouteDecision, Routes, Time, Treatment};

/// What stays constant during one call.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub now: Time,
    pub routes: &'a dyn Routes,
}

/// The slow path. After every [`Self::handle`] and [`Self::handle_timeout`], drain [`Self::poll_output`] and ask
/// [`Self::next_timeout`] when to call again.
#[derive(Debug)]
pub struct SlowPath {
    pub(crate) config: Config,
    pub(crate) interfaces: Interfaces,
    pub(crate) neighbors: Neighbors,
    pub(crate) reassembly: Reassembly,
    pub(crate) counters: Counters,
    pub(crate) limits: Arc<Limits>,
    pub(crate) unrouted: Unrouted,
    /// For which other stations interfaces answer.
    pub(crate) proxies: BTreeMap<InterfaceId, Proxy>,
    /// Limits events about conflicts, which any station on a link can cause.
    conflicts: TokenBucket,
    pub(crate) outputs: VecDeque<Output>,
    /// Frames among the outputs.
    frames: usize,
    identifications: Identifications,
    /// It owns no tables: see [`Assistant`](crate::Assistant).
    pub(crate) assistant: bool,
    /// An assistant has found that the packet at hand is the owner's to judge.
    pub(crate) left: bool,
}

impl SlowPath {
    /// A slow path without interfaces and neighbors, which owns the tables.
    pub fn new(config: Config) -> Self {
        let limits = Arc::new(Limits::new(&config));
        SlowPath::sharing(config, limits)
    }

    /// As [`Self::new`], with limits that [`Assistant`](crate::Assistant)s share.
    pub fn sharing(config: Config, limits: Arc<Limits>) -> Self {
        SlowPath::with(config, limits, false)
    }

    pub(crate) fn with(config: Config, limits: Arc<Limits>, assistant: bool) -> Self {
        SlowPath {
            interfaces: Interfaces::default(),
            neighbors: Neighbors::new(config.clone()),
            reassembly: Reassembly::new(config.clone()),
            counters: Counters::default(),
            limits,
            unrouted: Unrouted::new(),
            proxies: BTreeMap::new(),
            conflicts: TokenBucket::new(1, 10),
            outputs: VecDeque::new(),
            frames: 0,
            identifications: Identifications::new(config.secret),
            assistant,
            left: false,
            config,
        }
    }

    /// Takes an input at a time; never fails, whatever the bytes are.
    pub fn handle(&mut self, now: Time, input: Input<'_>, routes: &dyn Routes) {
        let turn = Turn { now, routes };
        match input {
            Input::Punted { interface, frame } => self.punted(turn, interface, frame),
            Input::SentBack { interface, frame } => self.sent_back(turn, interface, frame),
            Input::Own { interface, packet } => self.send_for_assistant(turn, interface, packet),
            Input::FromTwin { interface, frame } => self.linux_sent(turn, interface, frame),
            Input::SetInterface { id, interface } => self.set_interface(turn, id, interface),
            Input::SetHostAddresses { addresses } => {
                self.interfaces.set_host_addresses(addresses);
                let ours = |key: &Key| self.interfaces.is_host_address(key.1);
                self.neighbors.remove_all(ours, true, &mut self.counters);
            }
            Input::RemoveInterface { id } => {
                self.neighbors.remove_all(|key| key.0 == id, false, &mut self.counters);
                self.interfaces.remove(id);
                self.proxies.remove(&id);
            }
            Input::SetProxy { interface, proxy } => self.set_proxy(interface, proxy),
            Input::SetNeighbor { interface, address, mac } => {
                if mac.is_unicast() && self.interfaces.get(interface).is_some() {
                    self.neighbors.set_static((interface, address), mac, self.interfaces.is_up(interface));
                }
            }
            Input::UnsetNeighbor { interface, address } => {
                self.neighbors.unset_static(now, (interface, address), self.interfaces.is_up(interface));
            }
            Input::LearnNeighbor { interface, address, mac, replace, confirmed } => {
                let heard = Heard { mac: Some(mac), solicited: confirmed, replace, create: true };
                self.learn(now, (interface, address), heard);
            }
            Input::Resolve { interface, gateway } => {
                if let Some(own) = self.interfaces.get(interface) {
                    self.neighbors.resolve(now, (interface, gateway), own.config.up);
                }
            }
            Input::Forget { interface, gateway } => self.neighbors.forget((interface, gateway), &mut self.counters),
            Input::FlushNeighbors { interface, address } => {
                let which = |key: &Key| interface.is_none_or(|id| id == key.0) && address.is_none_or(|a| a == key.1);
                self.neighbors.flush(now, which, |id| self.interfaces.is_up(id), &mut self.counters);
            }
            Input::NeighborUsed { interface, address } => self.neighbors.used(now, (interface, address)),
        }
        self.settle(turn);
    }

    fn learn(&mut self, now: Time, key: Key, heard: Heard) {
        let usable = |own: &Own| own.config.up && !own.has(key.1) && !self.interfaces.is_host_address(key.1);
        if heard.mac.is_some_and(MacAddr::is_unicast) && self.interfaces.get(key.0).is_some_and(usable) {
            self.neighbors.heard(now, key, heard, &mut self.counters);
        }
    }

    /// Does everything that is due by `now`.
    pub fn handle_timeout(&mut self, now: Time, routes: &dyn Routes) {
        let turn = Turn { now, routes };
        self.neighbors.expire(now, &mut self.counters);
        self.expire_fragments(turn);
        let due = |own: &Own| own.next_timeout().is_some_and(|time| time <= now);
        let ids: Vec<_> = self.interfaces.iter().filter(|(_, own)| due(own)).map(|(id, _)| id).collect();
        for id in ids {
            self.detect(now, id);
        }
        self.settle(turn);
    }

    /// When [`Self::handle_timeout`] has something to do next, if ever.
    pub fn next_timeout(&self) -> Option<Time> {
        let detections = self.interfaces.iter().filter_map(|(_, own)| own.next_timeout());
        detections.chain(self.neighbors.next_timeout()).chain(self.reassembly.next_timeout()).min()
    }

    /// The oldest output not yet taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        self.frames -= usize::from(matches!(output, Output::Transmit { .. } | Output::ToTwin { .. }));
        Some(output)
    }

    /// What was counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The neighbor table, in no particular order.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.neighbors.iter()
    }

    /// How many neighbors each link has, by family, against [`Config::max_known`] and [`Config::max_unresolved`].
    pub fn neighbor_usage(&self) -> impl Iterator<Item = NeighborUsage> + '_ {
        self.neighbors.usage()
    }

    /// The limits and intervals.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Packets that wait for a neighbor.
    pub fn queued(&self) -> usize {
        self.neighbors.queued()
    }

    /// The limits of errors and redirects, which assistants share.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The router's interfaces and addresses as they are now, for assistants.
    pub fn interfaces(&self) -> InterfaceTable {
        InterfaceTable(self.interfaces.clone())
    }

    /// How often the interfaces and addresses have changed.
    pub fn interface_changes(&self) -> u64 {
        self.interfaces.changes()
    }

    /// What waits for more fragments.
    pub fn reassembling(&self) -> Reassembling {
        self.reassembly.holds()
    }

    /// The router's own addresses.
    pub fn addresses(&self) -> impl Iterator<Item = AddressInfo> + '_ {
        self.interfaces.addresses()
    }

    pub(crate) fn punted(&mut self, turn: Turn, interface: InterfaceId, frame: &[u8]) {
        self.counters.punted += 1;
        // An assistant's copy may be older than the interface's first packets.
        if !self.interfaces.is_up(interface) && self.leave_to_owner() {
            return;
        }
        let Some(own) = self.usable(interface) else { return };
        let mac = own.config.mac;
        let Ok(received) = Received::new(interface, own.config.vlan, frame) else {
            self.counters.drops.bad_frame += 1;
            return;
        };
        if received.source.is_multicast() {
            self.counters.drops.bad_frame += 1;
        } else if !received.is_group()
            && received.destination != mac
            && !self.interfaces.has_station(interface, received.destination)
        {
            self.counters.drops.other_station += 1;
        } else {
            self.receive(turn, &received);
        }
    }

    fn receive(&mut self, turn: Turn, received: &Received) {
        match received.ethertype {
            ethertype::IPV4 => self.ipv4(turn, received),
            ethertype::IPV6 => self.ipv6(turn, received),
            _ if self.leave_to_owner() => {}
            ethertype::ARP => self.arp(turn, received),
            // A tag that is not the interface's.
            ethertype::VLAN | ethertype::QINQ => self.counters.drops.bad_frame += 1,
            // LLDP, IS-IS and the like are Linux's business.
            _ => self.deliver(received),
        }
    }

    fn linux_sent(&mut self, turn: Turn, interface: InterfaceId, frame: &[u8]) {
        self.counters.from_twin += 1;
        let Some(own) = self.usable(interface) else { return };
        let most = usize::from(own.config.mtu);
        match frame::strip(own.config.vlan, frame) {
            // Linux cuts to the MTU of the twin, which is this one but for the moment in which one of the two changes.
            Ok(frame) if frame::ip_len(&frame).is_some_and(|len| len > most) => self.counters.drops.too_big += 1,
            Ok(frame) if is_confined(turn, interface, &frame) => self.counters.drops.multicast_boundary += 1,
            Ok(frame) => self.transmit(interface, frame.into_owned()),
            Err(_) => self.counters.drops.bad_frame += 1,
        }
    }

    /// The interface, if it exists and is up; otherwise counts why not.
    pub(crate) fn usable(&mut self, id: InterfaceId) -> Option<&Own> {
        match self.interfaces.get(id) {
            None => self.counters.drops.unknown_interface += 1,
            Some(own) if !own.config.up => self.counters.drops.interface_down += 1,
            Some(_) => {}
        }
        self.interfaces.get(id).filter(|own| own.config.up)
    }

    fn set_interface(&mut self, turn: Turn, id: InterfaceId, config: Interface) {
        let mut own = Own::new(config);
        let before = self.interfaces.get(id).filter(|before| before.config.up);
        let was_up = before.is_some();
        let same = before.filter(|before| own.config.up && before.config.mac == own.config.mac);
        own.detection = same.map(|before| before.detection.clone()).unwrap_or_default();
        own.detection.retain(|address, _| own.config.addresses.iter().any(|a| a.address == IpAddr::V6(*address)));
        let known: Vec<_> = same.map(|before| before.config.addresses.clone()).unwrap_or_default();
        let fresh: Vec<_> = own.config.addresses.iter().filter(|a| !known.contains(a)).map(|a| a.address).collect();
        let up = own.config.up;
        self.interfaces.set(id, own);
        if was_up && !up {
            self.neighbors.interface_down(id, &mut self.counters);
        }
        if let Some(own) = self.interfaces.get(id) {
            let neighbor = |address| own.on_link(address) || is_on_link_by_route(turn, id, address);
            let gone = |key: &Key| key.0 == id && (!neighbor(key.1) || own.has(key.1));
            self.neighbors.remove_all(gone, true, &mut self.counters);
        }
        if up {
            self.start_detection(turn.now, id);
            for address in fresh {
                if let IpAddr::V4(address) = address {
                    self.announce(id, address);
                }
            }
        }
        if up && !was_up {
            self.neighbors.interface_up(turn.now, id);
        }
    }

    /// Carries out the neighbor table's decisions until there are none left.
    fn settle(&mut self, turn: Turn) {
        while let Some(action) = self.neighbors.next_action() {
            match action {
                Action::Tell(event) => self.event(event),
                Action::Solicit((interface, IpAddr::V4(address)), mac) => self.request(interface, address, mac),
                Action::Solicit((interface, IpAddr::V6(address)), mac) => self.solicit(interface, address, mac),
                Action::Release(packets) => {
                    for (key, packet) in packets {
                        self.release(turn, key, packet);
                    }
                }
            }
        }
    }

    fn release(&mut self, turn: Turn, key: Key, packet: Pending) {
        match packet {
            Pending::Own(packet) => self.send_own(turn.now, key.into(), packet),
            Pending::Received { interface, frame, .. } => {
                if let Ok(received) = Received::untagged(interface, frame) {
                    self.receive(turn, &received);
                }
            }
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Another station uses `address`: events about it are limited in rate, counts are not.
    pub(crate) fn conflict(&mut self, now: Time, interface: InterfaceId, address: IpAddr, mac: MacAddr) {
        self.counters.address_conflicts += 1;
        if self.conflicts.take(now) {
            self.event(Event::AddressConflict { interface, address, mac });
        }
    }

    /// Leaves the packet at hand to the owner of the tables if this is an assistant; returns whether it is. Nothing may
    /// have been counted or sent for the packet before.
    pub(crate) fn leave_to_owner(&mut self) -> bool {
        self.left |= self.assistant;
        self.assistant
    }

    pub(crate) fn transmit(&mut self, interface: InterfaceId, frame: Vec<u8>) {
        if self.has_room() {
            self.counters.transmitted += 1;
            self.outputs.push_back(Output::Transmit { interface, frame });
        }
    }

    /// Takes a place among the outputs' frames.
    pub(crate) fn has_room(&mut self) -> bool {
        let room = self.frames < self.config.max_outputs;
        self.frames += usize::from(room);
        self.counters.drops.output_full += u64::from(!room);
        room
    }

    /// Sends an IP packet to a station whose MAC is known.
    pub(crate) fn transmit_ip(&mut self, interface: InterfaceId, mac: MacAddr, packet: &[u8]) {
        let Some(own) = self.interfaces.get(interface) else { return };
        let kind = if packet.first().is_some_and(|b| b >> 4 == 6) { ethertype::IPV6 } else { ethertype::IPV4 };
        self.transmit(interface, frame::build(mac, own.config.mac, kind, packet));
    }

    /// Where to send a packet for this next hop.
    pub(crate) fn look_up(&mut self, now: Time, next_hop: NextHop, origin: Origin) -> Answer {
        match next_hop.mac {
            Some(mac) => Answer::Mac(mac),
            None if self.assistant => Answer::AskOwner,
            None => self.neighbors.look_up(now, next_hop.key, origin, &mut self.counters),
        }
    }

    /// Sends what an assistant has made, by the tables as they are now.
    fn send_for_assistant(&mut self, turn: Turn, interface: InterfaceId, packet: &[u8]) {
        let to = match (Ipv4::new(packet), Ipv6::new(packet)) {
            (Ok(v4), _) => IpAddr::V4(v4.destination()),
            (_, Ok(v6)) => IpAddr::V6(v6.destination()),
            _ => return,
        };
        match self.way_back(turn, to, interface) {
            Some(next_hop) => self.send_own(turn.now, next_hop, packet.to_vec()),
            None => self.counters.drops.own_unroutable += 1,
        }
    }

    /// Sends a packet of this router's own to a next hop, in fragments where it must.
    pub(crate) fn send_own(&mut self, now: Time, next_hop: NextHop, packet: Vec<u8>) {
        let (interface, address) = next_hop.key;
        let Some(own) = self.usable(interface) else { return };
        let mtu = usize::from(own.config.mtu);
        // Where workers' tables have named the station, the address is the destination's: a neighbor's only on the
        // link.
        let neighbor = Some(address).filter(|address| next_hop.mac.is_none() || own.on_link(*address));
        let source = destination_of(&packet).unwrap_or(address);
        match self.look_up(now, next_hop, Origin { ingress: None, source }) {
            Answer::Mac(mac) if packet.len() <= mtu => self.transmit_ip(interface, mac, &packet),
            Answer::Mac(mac) => match self.cut(&packet, neighbor, mtu) {
                Some(pieces) => {
                    self.counters.fragmented += 1;
                    pieces.iter().for_each(|piece| self.transmit_ip(interface, mac, piece));
                }
                None => self.counters.drops.cannot_fragment += 1,
            },
            Answer::AskOwner => self.outputs.push_back(Output::Own { interface, packet }),
            Answer::Wait => self.neighbors.enqueue(next_hop.key, Pending::Own(packet), &mut self.counters),
            Answer::Failed => self.counters.drops.neighbor_failed += 1,
            Answer::Full => self.counters.drops.neighbor_table_full += 1,
            Answer::Limited => self.counters.drops.neighbor_limited += 1,
        }
    }

    /// The fragments of a packet of this router's own, by its family. Those of IPv6 that go beyond the link are as
    /// small as every path takes: no router on the way may cut them, and this one keeps no path MTUs (RFC 8200 5, RFC
    /// 8201 1). A link that is too small for IPv6 gets none, so that neighbor discovery and errors are never cut (RFC
    /// 6980).
    fn cut(&mut self, packet: &[u8], next_hop: Option<IpAddr>, mtu: usize) -> Option<Vec<Vec<u8>>> {
        let Ok(view) = Ipv6::new(packet) else { return fragment(packet, mtu) };
        let (from, to) = (IpAddr::V6(view.source()), IpAddr::V6(view.destination()));
        let most = if Some(to) == next_hop { mtu } else { ipv6::MIN_MTU };
        (mtu >= ipv6::MIN_MTU).then(|| fragment6(&view, most, self.identifications.next(from, to)))
    }

    /// The path back to the sender of a packet that came in on `receiving`.
    pub(crate) fn way_back(&self, turn: Turn, to: IpAddr, receiving: InterfaceId) -> Option<NextHop> {
        let on_link = self.interfaces.get(receiving).is_some_and(|own| own.on_link(to));
        if is_link_local(to) {
            return Some((receiving, to).into());
        }
        match turn.routes.route(to, flow::symmetric_hash_of(to, to, 0, None)) {
            RouteDecision::Connected(interface) | RouteDecision::Unresolved(interface) => Some((interface, to).into()),
            RouteDecision::Gateway(interface, gateway) => Some((interface, gateway).into()),
            RouteDecision::Station(interface, mac) => Some(NextHop { key: (interface, to), mac: Some(mac) }),
            RouteDecision::NoRoute if on_link => Some((receiving, to).into()),
            _ => None,
        }
    }

    /// The decision about a packet as Linux's exceptions to the plain route have it, and the most bytes that the route
    /// takes; `None`: the packet is left to the owner of the tables.
    pub(crate) fn treat(
        &mut self,
        turn: Turn,
        received: &Received,
        plain: RouteDecision,
    ) -> Option<(RouteDecision, u16)> {
        // Workers' tables say so of a link that is down until the prefix has another way; the owner knows the routes.
        if plain == RouteDecision::Unreachable && self.leave_to_owner() {
            return None;
        }
        Some(match turn.routes.treatment(received.interface, received.payload()) {
            Treatment::Plain => (plain, u16::MAX),
            Treatment::Mtu(mtu) => (plain, mtu),
            Treatment::ToLinux => (RouteDecision::ToLinux, u16::MAX),
            Treatment::Refused => (RouteDecision::Refused, u16::MAX),
            Treatment::AskOwner => {
                self.leave_to_owner();
                return None;
            }
        })
    }

    /// Whether a source passes the check that the interface it came in on asks for (RFC 3704). Link-local ones are of
    /// the link, and hosts that have no address yet have no route (DHCP, duplicate address detection).
    pub(crate) fn leads_back(&self, turn: Turn, interface: InterfaceId, source: IpAddr) -> bool {
        let by = match self.policy(interface).urpf {
            ReversePath::Off => return true,
            ReversePath::Loose => None,
            ReversePath::Strict => Some(interface),
        };
        source.is_unspecified() || is_link_local(source) || turn.routes.leads_back(source, by)
    }

    /// The switches of an interface; those of one that does not exist are the defaults.
    pub(crate) fn policy(&self, interface: InterfaceId) -> Policy {
        self.interfaces.get(interface).map(|own| own.config.policy).unwrap_or_default()
    }

    /// An IPv4 identification for a packet of this router's own.
    pub(crate) fn next_identification(&mut self, from: Ipv4Addr, to: Ipv4Addr) -> u16 {
        self.identifications.next(IpAddr::V4(from), IpAddr::V4(to)) as u16
    }

    /// Any IPv4 address of this router, the interface's before others', for a packet to `to` by a next hop.
    pub(crate) fn speak_from4(&self, (interface, next_hop): Key, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let near = if let IpAddr::V4(next_hop) = next_hop { Some(next_hop) } else { None };
        let on_link = self.interfaces.get(interface).is_some_and(|own| own.on_link(IpAddr::V4(to)));
        self.interfaces.source4(interface, near, on_link)
    }

    /// Is the address that of a station on this link, by the interface's networks or by a route?
    pub(crate) fn is_on_link(&self, turn: Turn, id: InterfaceId, address: IpAddr) -> bool {
        let by_network = |own: &Own| own.on_link(address);
        self.interfaces.get(id).is_some_and(by_network) || is_on_link_by_route(turn, id, address)
    }
}

/// Does a route say that the address is a station's on this link, as that of a point-to-point link's peer?
fn is_on_link_by_route(turn: Turn, id: InterfaceId, address: IpAddr) -> bool {
    let routed = match address {
        IpAddr::V4(v4) => is_host(v4),
        IpAddr::V6(v6) => !is_link_local(address) && !v6.is_multicast() && !v6.is_unspecified() && !v6.is_loopback(),
    };
    let route = || turn.routes.route(address, flow::symmetric_hash_of(address, address, 0, None));
    routed && route() == RouteDecision::Connected(id)
}

/// Whom a packet of the router's own is for.
fn destination_of(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::V4(packet.get(16..20)?.first_chunk::<4>().copied()?.into())),
        _ => Some(IpAddr::V6(packet.get(24..40)?.first_chunk::<16>().copied()?.into())),
    }
}
