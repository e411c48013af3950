// SPDX-License-Identifier: MIT
//! A small router for tests, without threads or devices: [`Rig`] has a context with four heap ports, two tables of
//! routes, and a batch; the functions around it build frames. For tests alone, of this crate and of others. It is
//! no feature: a feature would make two variants of this crate and of all that build on it, one to test and one to run.
//!
//! ```text
//! id  interface  port  VLAN  MTU        routes 10.<id>.0.0/16 and 2001:db8:<id>::/48 lead out of it, to a neighbor
//! 0   p0         0     -     1500       with the MAC address neighbor(id)
//! 1   p1         1     -     1500
//! 2   p1.10      1     10    1500
//! 3   p2.20      2     20    1500       port 2 has no interface for untagged frames
//! 4   p0.30      0     30    1280
//! 5   p3         3     -     1500       port 3 has no transmit buffer
//! ```

use crate::exceptions::Exceptions;
use crate::hits::Hits;
use crate::multicast::Multicast;
use crate::policer::Policer;
use crate::rules::Filter;
use crate::{Context, Counters, CustomReasons, Kind, MODULES, PuntSink, Punted, Reason, Run, Tables, all_reasons};
use perigee_fib::synth::Random;
use perigee_fib::{FibWriter, Interfaces, MulticastInput, MulticastOrigin, MulticastTable, Published};
use perigee_net::{
    Exception, ExceptionCause, FiveTuple, Interface, InterfaceId, LinuxOnly, MacAddr, Member, MulticastLimits,
    MulticastOutput, MulticastRoute, Multipath, Policy, Prefix, PuntLimits, Route, RouteSource, RouteTarget,
};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::wire::{arp, checksum, ethernet, ethernet::ethertype, ipv4, ipv6, protocol, udp, vlan};
use perigee_packet::{Batch, Mask, Packet, Pool, ReceiveQueue, TransmitBuffer};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Number of ports.
pub const PORTS: u16 = 4;
/// Number of interfaces, and of destinations that packets are forwarded to.
pub const INTERFACES: u8 = 6;
/// The interface whose MTU is 1280.
pub const SMALL_MTU: u8 = 4;
/// The interface whose port cannot transmit.
pub const NO_OUTPUT: u8 = 5;
/// Destination whose neighbor is not resolved.
pub const UNRESOLVED: u8 = 100;
/// Destination with a blackhole route.
pub const BLACKHOLE: u8 = 101;
/// Destination with an unreachable route.
pub const UNREACHABLE: u8 = 102;
/// Destination with a prohibit route.
pub const PROHIBITED: u8 = 103;
/// Destination that is the router itself.
pub const LOCAL: u8 = 104;
/// Destination with a route by which Linux alone can forward.
pub const TO_LINUX: u8 = 106;
/// The same, where Linux is not let.
pub const REFUSED: u8 = 107;
/// Destination that [`Rig::spread`] gives several neighbors.
pub const SPREAD: u8 = 105;
/// Destination without a route.
pub const NOWHERE: u8 = 200;
/// Source port of the UDP frames.
pub const SOURCE_PORT: u16 = 4000;
/// Destination port of the UDP frames.
pub const DESTINATION_PORT: u16 = 4001;

/// A port's MAC address.
pub const fn own_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0xaa, port as u8])
}

/// MAC address of the neighbor behind an interface.
pub const fn neighbor(interface: u8) -> MacAddr {
    MacAddr([6, 0xde, 0xad, 0xbe, 0xef, interface])
}

/// An address of a destination.
pub const fn v4(to: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, to, 0, 9)
}

/// An address of a destination.
pub const fn v6(to: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, to as u16, 0, 0, 0, 0, 9)
}

/// Where the frames come from.
pub const SOURCE4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Where the frames come from.
pub const SOURCE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 7);

fn interfaces() -> Interfaces {
    let interface = |(name, port, vlan, mtu): (&str, u16, Option<u16>, u16)| Interface {
        name: name.to_owned(),
        port,
        vlan,
        mtu,
        mac: own_mac(port),
        addresses: Vec::new(),
        up: true,
        attributes: Default::default(),
        policy: Policy::default(),
    };
    let list = [
        ("p0", 0, None, 1500),
        ("p1", 1, None, 1500),
        ("p1.10", 1, Some(10), 1500),
        ("p2.20", 2, Some(20), 1500),
        ("p0.30", 0, Some(30), 1280),
        ("p3", 3, None, 1500),
    ];
    Interfaces::new(list.into_iter().map(interface).collect()).expect("valid interfaces")
}

/// The address of the neighbor behind an interface; not itself a destination of the tests.
fn gateway(interface: u8, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, interface.into()).into()
    } else {
        Ipv4Addr::new(192, 0, 2, interface + 1).into()
    }
}

/// The prefix of a destination.
fn prefix(to: u8, is_v6: bool) -> Prefix {
    let (address, length) = if is_v6 { (v6(to).into(), 48) } else { (IpAddr::from(v4(to)), 16) };
    Prefix::truncated(address, length).expect("a prefix")
}

/// The routes of the small router.
pub fn routes() -> FibWriter {
    add_routes(FibWriter::new(1024).expect("memory for a table"))
}

/// The same in a table that is empty.
pub fn add_routes(mut fib: FibWriter) -> FibWriter {
    for is_v6 in [false, true] {
        let mut add = |to: u8, target| {
            fib.insert(prefix(to, is_v6), Route::new(RouteSource::Static, target)).expect("room for a route");
        };
        let via = |id: u8| RouteTarget::Gateway {
            address: gateway(id, is_v6),
            interface: Some(InterfaceId(u16::from(id % INTERFACES))),
        };
        (0..INTERFACES).for_each(|id| add(id, via(id)));
        add(UNRESOLVED, via(UNRESOLVED));
        add(BLACKHOLE, RouteTarget::Blackhole);
        add(UNREACHABLE, RouteTarget::Unreachable);
        add(PROHIBITED, RouteTarget::Prohibit);
        add(LOCAL, RouteTarget::Local);
        add(TO_LINUX, RouteTarget::ToLinux(LinuxOnly::Encapsulation));
        add(REFUSED, RouteTarget::Refused(LinuxOnly::Encapsulation));
        for id in 0..INTERFACES {
            fib.set_neighbor(InterfaceId(id.into()), gateway(id, is_v6), Some(neighbor(id)));
        }
    }
    fib
}

/// What workers see of these routes.
pub fn tables(fib: &FibWriter, filter: Option<Arc<dyn Filter>>) -> Tables {
    let macs: Vec<_> = (0..PORTS).map(own_mac).collect();
    Tables::new(fib.reader(), Arc::new(interfaces()), filter, &macs)
}

/// A bounded channel to a test in place of the slow path.
pub struct PuntChannel(SyncSender<Punted>);

impl PuntSink for PuntChannel {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        self.0.try_send(packet).map_err(|(TrySendError::Full(packet) | TrySendError::Disconnected(packet))| packet)
    }
}

/// A channel for `capacity` packets: the worker's end and the test's.
pub fn punt_channel(capacity: usize) -> (PuntChannel, Receiver<Punted>) {
    let (sender, receiver) = sync_channel(capacity);
    (PuntChannel(sender), receiver)
}

/// A context, a batch, and the far ends of everything.
pub struct Rig {
    /// What modules see.
    pub ctx: Context,
    /// Where [`receive`](Rig::receive) puts packets.
    pub batch: Box<Batch>,
    /// Counts the packets that are alive.
    pub pool: &'static HeapPool,
    /// The routes, which tests may change.
    pub fib: FibWriter,
    /// What was punted.
    pub punted: Receiver<Punted>,
    outputs: Vec<HeapQueue>,
    multicast: Option<(Vec<MulticastInput>, Vec<MulticastLimits>)>,
}

/// The capacity of a rig's transmit queues and of its punt channel.
const ROOM: usize = 1024;

impl Rig {
    /// A rig without filters.
    pub fn new() -> Rig {
        Rig::with_filter(None)
    }

    /// A rig with a filter.
    pub fn with_filter(filter: Option<Arc<dyn Filter>>) -> Rig {
        Rig::with_filters(filter, None)
    }

    /// A rig with a filter, and one that steers what it denies to the slow path.
    pub fn with_filters(filter: Option<Arc<dyn Filter>>, steer: Option<Arc<dyn Filter>>) -> Rig {
        Rig::with_routes(routes(), filter, steer)
    }

    /// A rig that forwards by these routes.
    pub fn with_routes(fib: FibWriter, filter: Option<Arc<dyn Filter>>, steer: Option<Arc<dyn Filter>>) -> Rig {
        let pool = HeapPool::leak(8192);
        let outputs: Vec<_> = (0..PORTS).map(|port| HeapQueue::new(pool, port, ROOM)).collect();
        let buffer = |queue: &HeapQueue| TransmitBuffer::new(Box::new(queue.clone()), 32, 1000);
        let mut buffers: Vec<_> = outputs.iter().map(|queue| Some(buffer(queue))).collect();
        buffers[usize::from(NO_OUTPUT) - 2] = None;
        let (punts, punted) = punt_channel(ROOM);
        let ctx = Context {
            now: 0,
            worker: 0,
            tables: Published::new(tables(&fib, filter).with_steer(steer)).subscribe(),
            counters: Arc::new(Counters::new(PORTS.into())),
            outputs: buffers,
            punts: Box::new(punts),
            custom: Arc::new(CustomReasons::default()),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Multicast { runs: true, ..Multicast::default() },
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        };
        Rig { ctx, batch: Batch::new(pool), pool, fib, punted, outputs, multicast: None }
    }

    /// Replaces the filter.
    pub fn set_filter(&mut self, filter: Option<Arc<dyn Filter>>) {
        let tables = (*self.ctx.tables).clone().with_filter(filter);
        self.ctx.tables = Published::new(tables).subscribe();
    }

    /// Counts the hits of so many rules of the filter from now on.
    pub fn count_hits(&mut self, rules: usize) -> Arc<Hits> {
        let hits = Arc::new(Hits::new(rules, 1));
        let tables = (*self.ctx.tables).clone().with_hits(hits.clone());
        self.ctx.tables = Published::new(tables).subscribe();
        hits
    }

    /// Puts a frame into the batch as if it came from `port`; returns its slot.
    pub fn receive(&mut self, port: u16, frame: &[u8]) -> u8 {
        let packet = self.pool.packet(frame).expect("a free buffer");
        self.batch.push(packet, port).expect("room in the batch")
    }

    /// Puts an untagged IP packet into the batch as if classify had seen it; returns its slot.
    pub fn receive_classified(&mut self, frame: &[u8]) -> u8 {
        let slot = self.receive(0, frame);
        self.batch.slot(slot).expect("just received").set_l3(14);
        slot
    }

    /// Runs a module that narrows one mask on all packets of the batch; returns the mask.
    pub fn run(&mut self, module: fn(&mut Context, &mut Batch, &mut Mask)) -> Mask {
        let mut mask = self.batch.live();
        module(&mut self.ctx, &mut self.batch, &mut mask);
        mask
    }

    /// Runs all modules in the registry's order, which is the fast path's, and then forgets the batch.
    pub fn run_all(&mut self) {
        self.run_between(|_| {});
    }

    /// The same, and does something with the batch before each module.
    pub fn run_between(&mut self, between: impl FnMut(&mut Batch)) {
        self.run_modules("count", between);
    }

    /// The same as [`run_all`](Rig::run_all), as a script does that does not call a module.
    pub fn run_without(&mut self, module: &str) {
        self.run_modules(module, |_| {});
    }

    fn run_modules(&mut self, without: &str, mut between: impl FnMut(&mut Batch)) {
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        for module in MODULES.iter().filter(|module| module.name != "count" && module.name != without) {
            between(&mut self.batch);
            match module.run {
                Run::One(run) if module.name.starts_with("ipv6") || module.name == "hop_limit" => {
                    run(&mut self.ctx, &mut self.batch, &mut ip6);
                }
                Run::One(run) => run(&mut self.ctx, &mut self.batch, &mut ip4),
                Run::Two(run) => run(&mut self.ctx, &mut self.batch, &mut ip4, &mut ip6),
                Run::None => {}
            }
            let live = self.batch.live();
            assert!((ip4 - live).is_empty() && (ip6 - live).is_empty(), "{} kept a packet that is gone", module.name);
        }
        assert_eq!(self.batch.refill(), 0, "every packet was sent, dropped or punted");
    }

    /// Routes to [`SPREAD`] over the neighbors behind these interfaces, each with its weight.
    pub fn spread(&mut self, neighbors: &[(u8, u16)]) {
        for is_v6 in [false, true] {
            let member = |&(id, weight): &(u8, u16)| Member {
                address: Some(gateway(id, is_v6)),
                interface: Some(InterfaceId(id.into())),
                weight,
            };
            let multipath = Multipath::new(&neighbors.iter().map(member).collect::<Vec<_>>()).expect("a few neighbors");
            let route = Route::new(RouteSource::Static, RouteTarget::Multipath(multipath));
            self.fib.insert(prefix(SPREAD, is_v6), route).expect("room for a route");
        }
    }

    /// Makes the network of a destination a connected one.
    pub fn connect(&mut self, to: u8, interface: InterfaceId) {
        for is_v6 in [false, true] {
            let route = Route::new(RouteSource::Connected, RouteTarget::Connected { interface });
            self.fib.insert(prefix(to, is_v6), route).expect("room for a route");
        }
    }

    /// Shows modules the tables of the routes, which changes of these may have replaced.
    pub fn publish(&mut self) {
        let steer = self.ctx.tables.steer.clone();
        let exceptions = self.ctx.tables.exceptions.clone();
        let changed = tables(&self.fib, self.ctx.tables.filter.clone()).with_steer(steer).with_exceptions(exceptions);
        self.ctx.tables = Published::new(changed).subscribe();
    }

    /// Makes the neighbors behind an interface unknown.
    pub fn lose_neighbor(&mut self, interface: u8) {
        self.set_neighbor(interface, None);
    }

    /// Makes the neighbors behind an interface known again.
    pub fn find_neighbor(&mut self, interface: u8) {
        self.set_neighbor(interface, Some(neighbor(interface)));
    }

    fn set_neighbor(&mut self, interface: u8, mac: Option<MacAddr>) {
        for is_v6 in [false, true] {
            self.fib.set_neighbor(InterfaceId(interface.into()), gateway(interface, is_v6), mac);
        }
    }

    /// Changes one of the interfaces in the tables.
    pub fn change_interface(&mut self, id: u16, change: impl FnOnce(&mut Interface)) {
        let tables = &self.ctx.tables;
        let mut list: Vec<_> = tables.interfaces.iter().map(|(_, interface)| interface.clone()).collect();
        change(&mut list[usize::from(id)]);
        let interfaces = Arc::new(Interfaces::new(list).expect("valid interfaces"));
        let macs: Vec<_> = (0..PORTS).map(own_mac).collect();
        let multicast = self.multicast.clone().map(|(routes, limits)| MulticastTable::new(routes, &interfaces, limits));
        let changed = Tables::new(tables.fib(), interfaces, tables.filter.clone(), &macs);
        let changed = changed.with_steer(tables.steer.clone()).with_multicast(multicast.map(Arc::new));
        let changed = changed.with_exceptions(tables.exceptions.clone());
        self.ctx.tables = Published::new(changed).subscribe();
    }

    /// Makes packets to a destination exceptions to the plain routes.
    pub fn except(&mut self, to: u8) {
        let exception = |is_v6| Exception {
            tuple: FiveTuple { dst: Some(prefix(to, is_v6)), ..FiveTuple::default() },
            tos: None,
            input: None,
            cause: ExceptionCause::Route,
        };
        let exceptions = Exceptions::new(vec![exception(false), exception(true)]).map(Arc::new);
        self.ctx.tables = Published::new(self.ctx.tables.clone().with_exceptions(exceptions)).subscribe();
    }

    /// Forwards packets to groups by these routes; interfaces have these limits, by id.
    pub fn set_multicast(&mut self, routes: Vec<MulticastInput>, limits: Vec<MulticastLimits>) {
        self.multicast = Some((routes, limits));
        self.change_interface(0, |_| ());
    }

    /// Limits what each port may give the slow path.
    pub fn police(&mut self, limits: &PuntLimits) {
        let policer = Policer::new(&[*limits; PORTS as usize], 0);
        let changed = self.ctx.tables.clone().with_policer(Some(Arc::new(policer)));
        self.ctx.tables = Published::new(changed).subscribe();
    }

    /// Leaves no room for punts.
    pub fn fill_punts(&mut self) {
        while self.ctx.punts.punt(self.punt_of(&udp4(0, 0))).is_ok() {}
    }

    fn punt_of(&self, frame: &[u8]) -> Punted {
        let packet = self.pool.packet(frame).expect("a free buffer");
        let reason = crate::host::PUNT_RING_FULL;
        Punted { packet, reason, port: 0, interface: InterfaceId(0), next_hop: 0, trace: None }
    }

    /// Moves a slot's frame to its buffer's very start.
    pub fn use_up_headroom(&mut self, slot: u8) {
        let mut packet = self.batch.slot(slot).expect("a live slot");
        let frame = packet.frame().to_vec();
        while packet.push(1).is_ok() {}
        packet.frame_mut()[..frame.len()].copy_from_slice(&frame);
        packet.resize(frame.len()).expect("shorter");
    }

    /// The name and count of every reason that was counted, as "module.reason".
    pub fn reasons(&self) -> Vec<(String, u64)> {
        let count = |reason: Reason| self.ctx.counters.reason_packets(reason);
        let counted = all_reasons().map(|(reason, module, info)| (format!("{module}.{}", info.name), count(reason)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Packets dropped, by all reasons together.
    pub fn dropped(&self) -> u64 {
        let drops = all_reasons().filter(|(_, _, info)| info.kind == Kind::Drop);
        drops.map(|(reason, ..)| self.ctx.counters.reason_packets(reason)).sum()
    }

    /// Flushes a port and takes out what it sent, as packets.
    pub fn sent_packets(&mut self, port: u16) -> Vec<Packet> {
        self.ctx.flush_all();
        let mut batch = Batch::new(self.pool);
        self.outputs[usize::from(port)].receive(&mut batch, perigee_packet::BATCH_SIZE);
        batch.live().iter().filter_map(|slot| batch.take(slot)).collect()
    }

    /// Flushes a port and takes out what it sent.
    pub fn sent(&mut self, port: u16) -> Vec<Vec<u8>> {
        self.ctx.flush_all();
        std::iter::from_fn(|| self.outputs[usize::from(port)].collect()).collect()
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new()
    }
}

/// An Ethernet header to a port.
fn to_port(port: u16, kind: u16, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + payload];
    ethernet::emit(&mut frame, own_mac(port), MacAddr([2, 0x11, 0x22, 0x33, 0x44, 0x55]), kind).expect("room");
    frame
}

/// A UDP packet over IPv4 to port 0, with `payload` bytes of data.
pub fn udp4(to: u8, payload: usize) -> Vec<u8> {
    let header = ipv4::Repr::new(SOURCE4, v4(to), protocol::UDP, udp::HEADER_LEN + payload);
    let mut frame = to_port(0, ethertype::IPV4, ipv4::HEADER_LEN + header.payload_len);
    header.emit(&mut frame[14..]).expect("room");
    udp::emit(&mut frame[34..], SOURCE_PORT, DESTINATION_PORT, payload).expect("room");
    frame
}

/// A UDP packet over IPv6 to port 0, with `payload` bytes of data.
pub fn udp6(to: u8, payload: usize) -> Vec<u8> {
    let header = ipv6::Repr::new(SOURCE6, v6(to), protocol::UDP, udp::HEADER_LEN + payload);
    let mut frame = to_port(0, ethertype::IPV6, ipv6::HEADER_LEN + header.payload_len);
    header.emit(&mut frame[14..]).expect("room");
    udp::emit(&mut frame[54..], SOURCE_PORT, DESTINATION_PORT, payload).expect("room");
    frame
}

/// A multicast route with outputs (interface, TTL threshold). `from`: the interface that packets have to come in on.
pub fn multicast_route(
    group: IpAddr,
    source: Option<IpAddr>,
    from: Option<u16>,
    to: &[(u16, u8)],
    origin: MulticastOrigin,
) -> MulticastInput {
    let output = |&(interface, ttl): &(u16, u8)| MulticastOutput { interface: InterfaceId(interface), ttl };
    let (from, to) = (from.map(InterfaceId), to.iter().map(output).collect());
    MulticastInput { route: MulticastRoute { group, source, from, to }, origin, counters: Arc::default() }
}

/// The untagged frame, to this group of its family and to the group's MAC address.
pub fn to_group(frame: Vec<u8>, group: IpAddr) -> Vec<u8> {
    let mut frame = changed(frame, |frame| frame[..6].copy_from_slice(&MacAddr::of_group(group).octets()));
    match group {
        IpAddr::V4(group) => changed4(frame, |frame| frame[30..34].copy_from_slice(&group.octets())),
        IpAddr::V6(group) => {
            frame[38..54].copy_from_slice(&group.octets());
            frame
        }
    }
}

/// An IPv4 packet with options, to port 0.
pub fn with_options(to: u8, options: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr::new(SOURCE4, v4(to), protocol::UDP, 8);
    let mut frame = to_port(0, ethertype::IPV4, ipv4::HEADER_LEN + options.len() + 8);
    header.emit_with_options(&mut frame[14..], options).expect("room");
    frame
}

/// An ARP request, broadcast.
pub fn arp_request() -> Vec<u8> {
    let mut frame = changed(to_port(0, ethertype::ARP, arp::LEN), |frame| frame[..6].fill(0xff));
    let request = arp::Repr::request(neighbor(0), Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 254));
    request.emit(&mut frame[14..]).expect("room");
    frame
}

/// The frame with a VLAN tag, and to another port's MAC address.
pub fn tagged(frame: Vec<u8>, port: u16, vid: u16) -> Vec<u8> {
    let mut tagged = [&frame[..14], &[0; 4], &frame[14..]].concat();
    tagged[..6].copy_from_slice(&own_mac(port).octets());
    let kind = u16::from_be_bytes([frame[12], frame[13]]);
    tagged[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
    vlan::emit(&mut tagged[14..], vid, kind).expect("room");
    tagged
}

/// Applies a change to a frame.
pub fn changed(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut frame);
    frame
}

/// The untagged IPv4 frame, changed, and its header checksum made right again over what its header length says.
pub fn changed4(frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = changed(frame, change);
    fix_checksum(&mut frame[14..]);
    frame
}

/// Makes the checksum of an IPv4 header right, over 20 bytes at least and as many as there are at most.
pub fn fix_checksum(packet: &mut [u8]) {
    if packet.len() >= ipv4::HEADER_LEN {
        packet[10..12].fill(0);
        let length = usize::from(packet[0] & 0x0f) * 4;
        let checksum = checksum::checksum(&packet[..length.clamp(ipv4::HEADER_LEN, packet.len())]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Random numbers for a fuzz test, and how many inputs it should try: `PERIGEE_FUZZ_SEED` (default: a new seed each
/// time) and `PERIGEE_FUZZ`, which multiplies 300,000. Both are printed.
///
/// # Panics
/// If one of them is set to something that is not a number.
pub fn fuzz() -> (Random, u64) {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
    };
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    (Random::new(seed), 300_000 * times)
}
