// SPDX-License-Identifier: MIT
//! The common part of IPv4 and IPv6 lookup: what happens to a packet, by its next hop.

use crate::context::Context;
use crate::reason::Reason;
use crate::tables::Tables;
use perigee_fib::{Action, Lookup, NextHop, NextHopId, NextHopsView};
use perigee_net::Address;
use perigee_packet::batch::columns::Column;
use perigee_packet::batch::lanes::{Kernel, Lanes};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::flow;
use perigee_packet::{BATCH_SIZE, Batch, Mask};
use std::sync::atomic::AtomicU64;

/// The reasons of a lookup module, by kind of next hop.
pub(crate) struct Reasons {
    pub local: Reason,
    pub no_route: Reason,
    pub unresolved: Reason,
    pub unreachable: Reason,
    pub prohibited: Reason,
    pub blackhole: Reason,
    pub to_linux: Reason,
    pub refused: Reason,
}

/// Gives those packets of `special` that have several next hops the one of their flow, and those that are for a
/// neighbor on a connected network that neighbor's. Returns the rest: packets whose next hop, after that, cannot be
/// sent to.
///
/// All packets of a flow take one path (RFC 2991), chosen by the hash that also gives a flow its worker; those that the
/// slow path forwards take the same one.
fn resolve<A: Destination, const HEADER: usize, const AT: usize>(
    ctx: &Context,
    batch: &mut Batch,
    special: Mask,
) -> Mask {
    let next_hops = &*ctx.tables.next_hops;
    let (mut links, mut n) = ([0; BATCH_SIZE], 0);
    let [rest, on_link] = batch.sort(special, |packet| {
        let mut next_hop = next_hops.get(NextHopId(packet.next_hop()));
        if next_hop.is_group() {
            let flow = flow::symmetric_hash(packet.frame(), packet.l3().into(), A::ETHERTYPE);
            let member = next_hops.member(next_hop, flow);
            packet.set_next_hop(member.0);
            next_hop = next_hops.get(member);
        }
        let link = next_hop.on_link();
        if let Some(interface) = link {
            links[n % BATCH_SIZE] = interface.0;
            n += 1;
        }
        [!next_hop.is_forward(), link.is_some()]
    });
    if on_link.is_empty() {
        return rest;
    }
    let (mut addresses, mut ids) = ([A::ZERO; BATCH_SIZE], [0; BATCH_SIZE]);
    gather::<A, HEADER, AT>(batch, on_link, &mut addresses);
    ctx.tables.neighbors.lookup_batch(&links[..n], &addresses[..n], &mut ids[..n]);
    n = 0;
    rest - batch.filter(on_link, |packet| {
        let id = NextHopId(ids[n % BATCH_SIZE]);
        n += 1;
        // What was not found has the id of "no route", and keeps the link's.
        let known = next_hops.get(id).is_forward();
        if known {
            packet.set_next_hop(id.0);
        }
        known
    })
}

/// Punts or drops the packets of `special` that cannot be sent on; the others have several next hops, and get one of
/// them, or are for a neighbor on a connected network. Returns the mask of packets that are gone.
#[inline(never)]
pub(crate) fn finish<A: Destination, const HEADER: usize, const AT: usize>(
    ctx: &mut Context,
    batch: &mut Batch,
    special: Mask,
    reasons: &Reasons,
) -> Mask {
    let gone = resolve::<A, HEADER, AT>(ctx, batch, special);
    for slot in gone {
        let next_hop: NextHop = ctx.tables.next_hop(batch.next_hop(slot));
        let only = Mask::only(slot);
        match next_hop.action() {
            Action::Local => ctx.punt(batch, only, reasons.local),
            Action::Unreachable => ctx.punt(batch, only, reasons.unreachable),
            Action::Prohibit => ctx.punt(batch, only, reasons.prohibited),
            Action::Blackhole => ctx.drop(batch, only, reasons.blackhole),
            Action::ToLinux => ctx.punt(batch, only, reasons.to_linux),
            Action::Refused => ctx.punt(batch, only, reasons.refused),
            Action::NoRoute => ctx.punt(batch, only, reasons.no_route),
            // A packet whose neighbor was resolved a moment ago goes to the slow path like the others, which forwards
            // it.
            Action::Unresolved { .. } | Action::Forward { .. } | Action::Group => {
                ctx.punt(batch, only, reasons.unresolved);
            }
        }
    }
    gone
}

/// The reasons every lookup has, with the sections of its family's RFC.
macro_rules! lookup_reasons {
    ($module:ident, $no_route:literal, $unresolved:literal, $unreachable:literal) => {
        $crate::reason::reasons! { $module:
            punt LOCAL = "local", "", "it is for the router itself";
            punt NO_ROUTE = "no_route", $no_route, "no route matches";
            punt UNRESOLVED = "unresolved", $unresolved, "the neighbor's MAC address is not known yet";
            punt UNREACHABLE = "unreachable", $unreachable, "an unreachable route matches";
            punt PROHIBITED = "prohibited", $unreachable, "a prohibit route matches";
            drop BLACKHOLE = "blackhole", "", "a blackhole route matches";
            punt TO_LINUX = "to_linux", "", "Linux alone can forward by the route that matches";
            punt REFUSED = "refused", $unreachable, "Linux alone could forward by the route that matches, and is not let";
        }

        const BY_ACTION: $crate::lookup::Reasons = $crate::lookup::Reasons {
            local: LOCAL,
            no_route: NO_ROUTE,
            unresolved: UNRESOLVED,
            unreachable: UNREACHABLE,
            prohibited: PROHIBITED,
            blackhole: BLACKHOLE,
            to_linux: TO_LINUX,
            refused: REFUSED,
        };
    };
}
pub(crate) use lookup_reasons;

/// Looks the destinations of a mask up together. Returns the mask of packets whose next hop cannot be sent to, groups
/// and links included.
#[inline(always)]
pub(crate) fn lookup_batch<A: Destination>(ctx: &Context, batch: &mut Batch, mask: Mask) -> Mask {
    A::look_up(batch, mask, A::table(&ctx.tables));
    let view = ctx.tables.next_hops.view();
    let [special] = batch.isa().sort(batch.count(), &mut Special { ids: batch.next_hops(), stored: view.stored() });
    special & mask
}

/// Finds the packets whose next hop cannot be sent to.
struct Special<'a> {
    ids: &'a Column,
    stored: &'a [AtomicU64],
}

impl Kernel<1> for Special<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 1] {
        let high = L::gather_high(self.stored, L::load(self.ids, at));
        [L::bits(L::equal(L::shr::<{ NextHopsView::FORWARD_BITS_FROM - 32 }>(high), L::splat(0)))]
    }
}

/// Writes an address of each packet of a mask, at the offset `AT` of its header, into an array; returns their number.
#[inline(always)]
pub(crate) fn gather<A: Destination, const HEADER: usize, const AT: usize>(
    batch: &mut Batch,
    mask: Mask,
    addresses: &mut [A; BATCH_SIZE],
) -> usize {
    let mut n = 0;
    batch.for_each(mask, |packet| {
        if let Some(header) = packet.network::<HEADER>() {
            addresses[n % BATCH_SIZE] = A::read::<HEADER, AT>(header);
        }
        n += 1;
    });
    n
}

/// An address that packets are looked up by.
pub(crate) trait Destination: Address + Into<u128> {
    /// The Ethernet type of its family.
    const ETHERTYPE: u16;
    /// The value of unused elements.
    const ZERO: Self;
    /// The address at an offset of a header.
    fn read<const HEADER: usize, const AT: usize>(header: &[u8; HEADER]) -> Self;
    /// The table of its family.
    fn table(tables: &Tables) -> &dyn Lookup<Self>;
    /// Sets the next hops of packets by their destinations.
    fn look_up(batch: &mut Batch, mask: Mask, table: &dyn Lookup<Self>);
}

macro_rules! destination {
    ($address:ty, $table:ident, $look_up:ident, $ethertype:ident) => {
        impl Destination for $address {
            const ETHERTYPE: u16 = ethertype::$ethertype;
            const ZERO: $address = 0;

            #[inline(always)]
            fn read<const HEADER: usize, const AT: usize>(header: &[u8; HEADER]) -> $address {
                <$address>::from_be_bytes(std::array::from_fn(|i| header[AT + i]))
            }

            #[inline(always)]
            fn table(tables: &Tables) -> &dyn Lookup<$address> {
                &*tables.$table
            }

            #[inline(always)]
            fn look_up(batch: &mut Batch, mask: Mask, table: &dyn Lookup<$address>) {
                batch.$look_up(mask, |addresses, ids, expected| match expected {
                    true => table.lookup_prefetched(addresses, ids),
                    false => table.lookup_batch(addresses, ids),
                });
            }
        }
    };
}
destination!(u32, v4, look_up4, IPV4);
destination!(u128, v6, look_up6, IPV6);

/// The tests of both lookup modules, each of which runs them for its family.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{self, INTERFACES, Rig, changed, neighbor};
    use perigee_net::{InterfaceId, MacAddr};
    use std::net::IpAddr;

    /// A lookup module and what its family's packets look like.
    pub(crate) struct Family {
        pub run: fn(&mut Context, &mut Batch, &mut Mask),
        pub reasons: Reasons,
        pub ethertype: u16,
        /// A UDP packet to a destination, with a number of bytes of data.
        pub udp: fn(u8, usize) -> Vec<u8>,
        /// Where its frame has the source port.
        pub source_port: usize,
        /// An address of a destination.
        pub address: fn(u8) -> IpAddr,
    }

    pub(crate) fn a_mixed_burst_is_sorted_by_what_its_next_hops_say(family: &Family) {
        let mut rig = Rig::new();
        let reasons = &family.reasons;
        let special = [
            (testing::LOCAL, reasons.local),
            (testing::NOWHERE, reasons.no_route),
            (testing::UNRESOLVED, reasons.unresolved),
            (testing::UNREACHABLE, reasons.unreachable),
            (testing::PROHIBITED, reasons.prohibited),
            (testing::BLACKHOLE, reasons.blackhole),
        ];
        for (to, _) in special {
            for to in (0..INTERFACES).chain([to]) {
                rig.receive_classified(&(family.udp)(to, 8));
            }
        }
        let mask = rig.run(family.run);
        assert_eq!(mask, (0..42).filter(|slot| slot % 7 != 6).collect());
        assert_eq!(rig.batch.live(), mask);
        for slot in mask {
            let to = slot % 7;
            let action = rig.ctx.tables.next_hop(rig.batch.next_hop(slot)).action();
            assert_eq!(action, Action::Forward { interface: InterfaceId(to.into()), mac: neighbor(to) });
        }
        for (to, reason) in special {
            assert_eq!(rig.ctx.counters.reason_packets(reason), 1, "destination {to}");
            if to != testing::BLACKHOLE {
                let punted = rig.punted.try_recv().unwrap();
                assert_eq!((punted.packet.bytes(), punted.reason), (&(family.udp)(to, 8)[..], reason));
                assert_eq!(punted.next_hop != 0, to != testing::NOWHERE);
            }
        }
        assert_eq!((rig.reasons().len(), rig.ctx.counters.punted.get()), (6, 5));
    }

    /// A route that changes while the workers run: the next burst sees it.
    pub(crate) fn a_resolved_neighbor_is_used_at_once(family: &Family) {
        let mut rig = Rig::new();
        rig.lose_neighbor(3);
        rig.receive_classified(&(family.udp)(3, 8));
        assert!(rig.run(family.run).is_empty());
        rig.find_neighbor(3);
        rig.receive_classified(&(family.udp)(3, 8));
        assert_eq!(rig.run(family.run), Mask::only(1));
    }

    /// Neighbors on a connected network: found on their own link alone, among others, each in its place of the burst.
    pub(crate) fn neighbors_on_a_connected_network_are_found(family: &Family) {
        let mut rig = Rig::new();
        let (link, is_v6) = (InterfaceId(4), (family.address)(0).is_ipv6());
        rig.connect(testing::NOWHERE, link);
        let mac = |last| MacAddr([2, 0xaa, 0, 0, 0, last]);
        let frame = |last: u8| changed((family.udp)(testing::NOWHERE, 8), |f| f[if is_v6 { 53 } else { 33 }] = last);
        let address = |last: u8| match (family.address)(testing::NOWHERE) {
            IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & !0xff | u32::from(last)).into()),
            IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !0xff | u128::from(last)).into()),
        };
        for last in (0..=254).step_by(2) {
            rig.fib.set_neighbor(link, address(last), Some(mac(last)));
            rig.fib.set_on_link(link, address(last), true).unwrap();
        }
        // The odd ones are on another link, where no packet looks for them.
        rig.fib.set_neighbor(InterfaceId(3), address(1), Some(mac(1)));
        rig.fib.set_on_link(InterfaceId(3), address(1), true).unwrap();
        rig.publish();
        for last in 0..80 {
            rig.receive_classified(&frame(last));
            rig.receive_classified(&(family.udp)(1, 8));
        }
        let mask = rig.run(family.run);
        assert_eq!(mask, (0..160).filter(|slot| slot % 4 != 2).collect());
        for slot in mask.into_iter().filter(|slot| slot % 4 == 0) {
            let action = rig.ctx.tables.next_hop(rig.batch.next_hop(slot)).action();
            assert_eq!(action, Action::Forward { interface: link, mac: mac(slot / 2) });
        }
        assert_eq!(rig.ctx.counters.reason_packets(family.reasons.unresolved), 40);
        // One that is lost is punted again, with the next hop of the link.
        rig.fib.set_neighbor(link, address(0), None);
        rig.fib.set_on_link(link, address(0), false).unwrap();
        rig.batch.discard(Mask::ALL);
        rig.batch.refill();
        rig.punted.try_iter().for_each(drop);
        rig.receive_classified(&frame(0));
        assert!(rig.run(family.run).is_empty());
        let punted = rig.punted.try_recv().unwrap();
        assert_eq!(rig.ctx.tables.next_hop(punted.next_hop).on_link(), Some(link));
    }

    /// Two gateways, the second with three times the weight of the first: every flow keeps to one of them, which is the
    /// one that the table's own view of the flow's hash names, and the slow path gets what goes to a gateway that
    /// is not known.
    pub(crate) fn flows_are_spread_over_several_next_hops(family: &Family) {
        let mut rig = Rig::new();
        rig.spread(&[(1, 1), (2, 3)]);
        let at = family.source_port;
        let frame = |port: u16| {
            changed((family.udp)(testing::SPREAD, 8), |f| f[at..at + 2].copy_from_slice(&port.to_be_bytes()))
        };
        let mut counts = [0; 2];
        for port in 1000..1200 {
            let frame = frame(port);
            rig.receive_classified(&frame);
            rig.receive_classified(&(family.udp)(3, 8));
            rig.receive_classified(&frame);
            assert_eq!(rig.run(family.run), (0..3).collect());
            assert_eq!(rig.batch.next_hop(0), rig.batch.next_hop(2), "one flow, one way");
            let flow = flow::symmetric_hash(&frame, 14, family.ethertype);
            let (id, _) = rig.fib.reader().lookup_flow((family.address)(testing::SPREAD), flow);
            assert_eq!(rig.batch.next_hop(0), id.0);
            match rig.ctx.tables.next_hop(id.0).action() {
                Action::Forward { interface: InterfaceId(to @ 1..=2), .. } => counts[usize::from(to) - 1] += 1,
                other => panic!("{other:?}"),
            }
            rig.batch.discard(Mask::ALL);
            rig.batch.refill();
        }
        // A quarter of 200, and five standard deviations of 6.
        assert!((20..80).contains(&counts[0]), "{counts:?}");
        rig.lose_neighbor(1);
        for port in 1000..1064 {
            rig.receive_classified(&frame(port));
        }
        assert_eq!(rig.run(family.run).count(), 64, "the other one takes them");
        rig.batch.discard(Mask::ALL);
        rig.batch.refill();
        rig.lose_neighbor(2);
        rig.receive_classified(&frame(1000));
        assert!(rig.run(family.run).is_empty());
        assert_eq!(rig.ctx.counters.reason_packets(family.reasons.unresolved), 1);
    }
}
