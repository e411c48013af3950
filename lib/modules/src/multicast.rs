// SPDX-License-Identifier: MIT
//! Forwards packets to groups that reach beyond their link: one copy for each interface of the group's route.
//!
//! All of them leave the masks here. IGMP, MLD and PIM go to the slow path, which gives them to Linux for its routing daemons, and so
//! do packets without a route, a limited number per second and flow. A packet has to come in on the route's interface, and
//! leaves by those whose TTL threshold its TTL exceeds (RFC 1812 5.2.1.3); nothing is answered by an error. One that is too big
//! for an interface goes to the slow path as a whole. Of a route that a daemon has made in Linux, one packet in 10 s goes to
//! Linux *instead of* being forwarded here, and Linux forwards it: the daemon asks Linux whether the source is still there.
//!
//! Only scripts that call this module get groups in their masks. The first burst after a start goes to the slow path, as do all
//! those of other scripts.
//!
//! Cost: one comparison per burst where there is no multicast route; then a look at each packet's destination. For a packet to a
//! group a hash and a lookup, and for each interface but the last a buffer and a copy of the packet.

use crate::apply::{retag, write_header};
use crate::context::Context;
use crate::distribute::distribute;
use crate::filter;
use crate::mtu::fits_in_segments;
use crate::reason::{Reason, reasons};
use crate::registry::ModuleId;
use perigee_fib::{MulticastEntry, MulticastOrigin, MulticastTable};
use perigee_net::{InterfaceId, MacAddr, MulticastOutput};
use perigee_packet::batch::flags;
use perigee_packet::wire::{icmp6, protocol};
use perigee_packet::{Batch, Mask, SuperFrame};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Forwards packets to groups: a copy for each interface of the group's route.";

reasons! { multicast:
    punt CONTROL = "control", "RFC 1112 7, RFC 3810, RFC 7761", "IGMP, MLD or PIM: for routing daemons";
    punt NO_ROUTE = "no_route", "", "no multicast route; Linux hears it, and a routing daemon may make one";
    drop NO_ROUTE_LIMITED = "no_route_limited", "", "no multicast route, and Linux has heard enough of them";
    drop WRONG_INTERFACE = "wrong_interface", "RFC 1812 5.2.1.3", "it did not come in on the route's interface";
    punt ASSERT = "assert", "RFC 7761 4.6", "the same, of a route of Linux's: a routing daemon is shown one per second";
    punt LINUX = "linux", "", "the route has interfaces that are Linux's alone: Linux forwards it";
    punt SAMPLE = "sample", "", "Linux forwards one in 10 s, so that a routing daemon knows that the source is there";
    drop BOUNDARY = "boundary", "RFC 2365 5", "its group does not pass the interface it came in on";
    drop NO_OUTPUT = "no_output", "", "the route has no interface to leave by, or none but the one it came in on";
    drop TTL = "ttl", "RFC 1812 5.2.1.3", "TTL or hop limit does not exceed any interface's threshold, which is at least 1";
    punt TOO_BIG = "too_big", "RFC 1812 5.2.6, RFC 4443 3.2", "larger than the MTU of one of the interfaces it leaves by";
    drop NO_BUFFER = "no_buffer", "", "a copy: no packet buffer was free for it";
    drop NO_ROOM = "no_room", "", "no room before the packet for a VLAN tag";
}

/// Packets without a route are limited by cells, which flows share by hash.
const CELLS: usize = 64;
/// Time in which a cell earns a packet for Linux, in ns, and how many it can save up.
const INTERVAL: u64 = 5_000_000;
const SAVED_UP: u64 = 32;

/// What a worker keeps for this module.
#[derive(Default)]
pub struct Multicast {
    /// Whether the module was called since classify last asked: without it, a script would look groups up among unicast routes, so
    /// that they must not come into its masks.
    pub runs: bool,
    /// Whether packets to groups of this burst go on.
    pub in_burst: bool,
    /// `None` before the first packet.
    pub(crate) state: Option<Box<State>>,
}

impl Multicast {
    /// A new burst: whether packets to groups go on depends on what the script has done with the last one.
    #[inline(always)]
    pub(crate) fn next_burst(&mut self, routes: bool) {
        if self.runs | self.in_burst {
            self.in_burst = std::mem::take(&mut self.runs) & routes;
        }
    }
}

pub(crate) struct State {
    /// When each cell has earned the next packet for Linux, in ns.
    earned: [u64; CELLS],
    /// Where copies get their headers, and wait for the rest of the burst's.
    copies: Box<Batch>,
}

/// What the module reads of a packet.
struct Header {
    source: IpAddr,
    group: IpAddr,
    ttl: u8,
    /// IGMP, MLD or PIM.
    control: bool,
    interface: InterfaceId,
    /// Bytes from the IP header on.
    length: usize,
}

/// What becomes of a packet.
enum Fate {
    Drop(Reason),
    Punt(Reason),
    /// Already done.
    Sent,
}

/// The module; packets to groups leave the masks.
pub fn multicast(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    if ctx.tables.multicast.is_some() {
        with_routes(ctx, batch, ip4, ip6);
    }
}

/// Out of line, so that routers without multicast routes pay for a comparison alone.
#[inline(never)]
fn with_routes(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let Some(table) = ctx.tables.multicast.clone() else { return };
    ctx.multicast.runs = true;
    let to_group4 = batch.filter(*ip4, |packet| packet.network::<20>().is_some_and(|header| header[16] >> 4 == 14));
    let to_group6 = batch.filter(*ip6, |packet| packet.network::<40>().is_some_and(|header| header[24] == 0xff));
    let groups = to_group4 | to_group6;
    if !groups.is_empty() {
        *ip4 -= to_group4;
        *ip6 -= to_group6;
        // Once, before there are copies.
        let groups = if ctx.tables.filter.is_some() { filter::judge(ctx, batch, groups) } else { groups };
        to_groups(ctx, batch, groups, to_group4, &table);
    }
}

#[inline(never)]
fn to_groups(ctx: &mut Context, batch: &mut Batch, groups: Mask, four: Mask, table: &MulticastTable) {
    ctx.counters.module(ModuleId::multicast, groups.count());
    let state = ctx.multicast.state.take().filter(|state| std::ptr::addr_eq(state.copies.memory(), batch.memory()));
    let mut state = state.unwrap_or_else(|| Box::new(State { earned: [0; CELLS], copies: Batch::new(batch.memory()) }));
    let mut originals = Mask::EMPTY;
    for slot in groups {
        let Some(header) = header(batch, slot, four.contains(slot)) else { continue };
        match one(ctx, batch, slot, &header, table, &mut state) {
            Fate::Sent => originals.set(slot),
            Fate::Drop(reason) => ctx.drop(batch, Mask::only(slot), reason),
            Fate::Punt(reason) => ctx.punt(batch, Mask::only(slot), reason),
        }
    }
    send_copies(ctx, &mut state.copies);
    distribute(ctx, batch, &mut originals, &mut Mask::default());
    ctx.multicast.state = Some(state);
}

/// Reads a packet's header, of IPv4 or IPv6 as the masks had it; `None` if that is cut off or the slot empty.
fn header(batch: &Batch, slot: u8, is_4: bool) -> Option<Header> {
    let (interface, l3) = (InterfaceId(batch.interface(slot)), batch.l3(slot));
    let packet = batch.frame(slot)?.get(l3..)?;
    let length = packet.len();
    if let Some(v4) = packet.first_chunk::<20>().filter(|_| is_4) {
        let address = |at: usize| IpAddr::V4(Ipv4Addr::new(v4[at], v4[at + 1], v4[at + 2], v4[at + 3]));
        let control = matches!(v4[9], protocol::IGMP | protocol::PIM);
        return Some(Header { source: address(12), group: address(16), ttl: v4[8], control, interface, length });
    }
    let v6 = packet.first_chunk::<40>()?;
    let address = |at: usize| IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&v6[at..at + 16]).unwrap_or_default()));
    let listener = |kind: &u8| icmp6::is_listener_discovery(*kind);
    let control = v6[6] == protocol::PIM || v6[6] == protocol::ICMPV6 && packet.get(40).is_some_and(listener);
    Some(Header { source: address(8), group: address(24), ttl: v6[7], control, interface, length })
}

/// Judges a packet, and sends it out of all interfaces but the last; out of that the packet itself is to be sent.
fn one(
    ctx: &mut Context,
    batch: &mut Batch,
    slot: u8,
    header: &Header,
    table: &MulticastTable,
    state: &mut State,
) -> Fate {
    if header.control {
        return Fate::Punt(CONTROL);
    }
    if !table.admits(header.interface, header.group) {
        return Fate::Drop(BOUNDARY);
    }
    let Some(entry) = table.find(header.source, header.group, header.interface) else {
        return state.without_route(ctx.now, header);
    };
    if entry.origin == MulticastOrigin::LinuxAlone {
        return Fate::Punt(LINUX);
    }
    if !entry.expects(header.interface, || leads_back(ctx, header)) {
        // The slow path counts what it gets for itself.
        if entry.origin == MulticastOrigin::Linux && entry.counters.assert.due(ctx.now) {
            return Fate::Punt(ASSERT);
        }
        entry.counters.wrong();
        return Fate::Drop(WRONG_INTERFACE);
    }
    if entry.origin == MulticastOrigin::Linux && entry.counters.sample.due(ctx.now) {
        return Fate::Punt(SAMPLE);
    }
    forward(ctx, batch, slot, header, entry, &mut state.copies)
}

/// Does the unicast route to the packet's source lead out of the interface that it came in on?
fn leads_back(ctx: &Context, header: &Header) -> bool {
    let tables = &*ctx.tables;
    let id = match header.source {
        IpAddr::V4(source) => tables.v4.lookup(source.to_bits()),
        IpAddr::V6(source) => tables.v6.lookup(source.to_bits()),
    };
    tables.next_hops.leads(id, Some(header.interface))
}

impl State {
    /// A packet without a route: Linux hears some of them.
    fn without_route(&mut self, now: u64, header: &Header) -> Fate {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits() as u64 ^ (v6.to_bits() >> 64) as u64,
        };
        let mixed = (bits(header.source) ^ bits(header.group).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let earned = &mut self.earned[(mixed >> 58) as usize % CELLS];
        if *earned > now + (SAVED_UP - 1) * INTERVAL {
            return Fate::Drop(NO_ROUTE_LIMITED);
        }
        *earned = now.max(*earned) + INTERVAL;
        Fate::Punt(NO_ROUTE)
    }
}

/// Sends a packet by its route.
fn forward(
    ctx: &mut Context,
    batch: &mut Batch,
    slot: u8,
    header: &Header,
    entry: &MulticastEntry,
    copies: &mut Batch,
) -> Fate {
    let mut leaves = entry.leaves_by(header.interface, header.ttl);
    let Some(mut output) = leaves.next() else {
        let nowhere = entry.outputs.iter().all(|output| output.interface == header.interface);
        return Fate::Drop(if nowhere { NO_OUTPUT } else { TTL });
    };
    let gso_size = batch.slot(slot).and_then(|packet| packet.gso_size());
    let mtu = |output: MulticastOutput| ctx.tables.interfaces.egress(output.interface).map_or(0, |egress| egress.mtu);
    let fits = |batch: &mut Batch, mtu: u16| {
        header.length <= usize::from(mtu) || gso_size.is_some() && fits_in_segments(batch, slot, mtu)
    };
    if !std::iter::once(output).chain(leaves.clone()).all(|output| fits(batch, mtu(output))) {
        return Fate::Punt(TOO_BIG);
    }
    let whole = gso_size.and_then(|size| SuperFrame::new(batch.frame(slot)?, size));
    entry.counters.used(whole.map_or(1, |whole| whole.len() as u64), header.length as u64, ctx.now);
    decrement(batch, slot, header.group.is_ipv4());
    let group = MacAddr::of_group(header.group);
    for next in leaves {
        copy(ctx, batch, slot, output, group, copies);
        output = next;
    }
    if address(ctx, batch, slot, output, group).is_none() {
        return Fate::Drop(NO_ROOM);
    }
    Fate::Sent
}

/// Takes one off TTL or hop limit, which are greater than 1.
fn decrement(batch: &mut Batch, slot: u8, is_4: bool) {
    let Some(mut packet) = batch.slot(slot) else { return };
    if is_4 {
        packet.network_mut::<20>().into_iter().for_each(crate::ttl::decrement);
    } else if let Some(header) = packet.network_mut::<40>() {
        header[7] -= 1;
    }
}

/// Puts a copy that leaves by `output` among the copies.
fn copy(ctx: &mut Context, batch: &mut Batch, slot: u8, output: MulticastOutput, group: MacAddr, copies: &mut Batch) {
    if copies.room() == 0 {
        send_copies(ctx, copies);
    }
    let (l3, port) = (batch.l3(slot) as u8, batch.port(slot));
    let Some(at) = batch.copy(slot).and_then(|packet| copies.push(packet, port).ok()) else {
        return ctx.counters.reason(NO_BUFFER, 1);
    };
    let verdict = batch.slot(slot).map_or(0, |packet| packet.flags() & flags::FILTERED);
    if let Some(mut packet) = copies.slot(at) {
        packet.set_flags(verdict);
        packet.set_l3(l3);
        packet.set_interface(batch.interface(slot));
    }
    if address(ctx, copies, at, output, group).is_none() {
        ctx.drop(copies, Mask::only(at), NO_ROOM);
    }
}

/// Gives a packet the Ethernet header with which it leaves by `output`; `None` if there is no room for a VLAN tag.
fn address(ctx: &Context, batch: &mut Batch, slot: u8, output: MulticastOutput, group: MacAddr) -> Option<()> {
    let egress = ctx.tables.interfaces.egress(output.interface)?;
    let mut packet = batch.slot(slot)?;
    if packet.l3() != 14 || egress.vlan != 0 {
        retag(&mut packet, egress)?;
    }
    let [a, b, c, d, e, f] = group.octets();
    write_header(&mut packet, u64::from_be_bytes([0, 0, a, b, c, d, e, f]), egress);
    Some(())
}

/// Sends all copies that wait.
fn send_copies(ctx: &mut Context, copies: &mut Batch) {
    let mut all = copies.live();
    if !all.is_empty() {
        distribute(ctx, copies, &mut all, &mut Mask::default());
    }
    copies.refill();
}
