// SPDX-License-Identifier: MIT
//! Finds the next hop of IPv4 packets: the longest prefix that matches the destination.
//!
//! Packets whose neighbor is known go on with `next_hop` set. Those for the router itself, without a route, with an
//! unreachable or prohibit route, or whose neighbor is not resolved yet go to the slow path; a blackhole route drops.
//!
//! A route may have several next hops. Then each flow takes one of them, by a hash over addresses, protocol and ports.
//!
//! Cost: what the lookup structure takes; the whole batch is looked up together, so that its cache misses overlap.

use crate::context::Context;
use crate::lookup::{finish, lookup_batch, lookup_reasons};
use crate::registry::ModuleId;
use perigee_fib::NextHopId;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::{BATCH_SIZE, Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Finds the next hop by longest-prefix match; what cannot be sent on goes to the slow path.";

lookup_reasons!(ipv4_lookup, "RFC 1812 5.2.7.1", "RFC 1812 3.3.2", "RFC 1812 5.2.7.1");

/// The module.
pub fn ipv4_lookup(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    ctx.counters.module(ModuleId::ipv4_lookup, mask.count());
    if mask.is_empty() {
        return;
    }
    let special = lookup_batch!(ctx, batch, *mask, v4, u32, 20, 16);
    if !special.is_empty() {
        *mask -= finish(ctx, batch, special, ethertype::IPV4, &BY_ACTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, INTERFACES, Rig, neighbor, udp4};
    use perigee_fib::Action;
    use perigee_net::InterfaceId;

    #[test]
    fn a_mixed_burst_is_sorted_by_what_its_next_hops_say() {
        let mut rig = Rig::new();
        let special = [
            (testing::LOCAL, LOCAL),
            (testing::NOWHERE, NO_ROUTE),
            (testing::UNRESOLVED, UNRESOLVED),
            (testing::UNREACHABLE, UNREACHABLE),
            (testing::PROHIBITED, PROHIBITED),
            (testing::BLACKHOLE, BLACKHOLE),
        ];
        for (to, _) in special {
            for to in (0..INTERFACES).chain([to]) {
                rig.receive_classified(&udp4(to, 8));
            }
        }
        let mask = rig.run(ipv4_lookup);
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
                assert_eq!((punted.packet.bytes(), punted.reason), (&udp4(to, 8)[..], reason));
                assert_eq!(punted.next_hop != 0, to != testing::NOWHERE);
            }
        }
        assert_eq!((rig.reasons().len(), rig.ctx.counters.punted.get()), (6, 5));
    }

    /// A route that changes while the workers run: the next burst sees it.
    #[test]
    fn a_resolved_neighbor_is_used_at_once() {
        let mut rig = Rig::new();
        rig.lose_neighbor(3);
        rig.receive_classified(&udp4(3, 8));
        assert!(rig.run(ipv4_lookup).is_empty());
        rig.find_neighbor(3);
        rig.receive_classified(&udp4(3, 8));
        assert_eq!(rig.run(ipv4_lookup), Mask::only(1));
    }

    /// Two gateways, of which the second has three times the first's weight: every flow keeps to one of them, which is the one
    /// that the table's own view of the flow's hash says, and the slow path gets what goes to a gateway that is not known.
    #[test]
    fn flows_are_spread_over_several_next_hops() {
        let mut rig = Rig::new();
        rig.spread(&[(1, 1), (2, 3)]);
        let frame =
            |port: u16| testing::changed(udp4(testing::SPREAD, 8), |f| f[34..36].copy_from_slice(&port.to_be_bytes()));
        let mut counts = [0; 2];
        for port in 1000..1200 {
            let frame = frame(port);
            rig.receive_classified(&frame);
            rig.receive_classified(&udp4(3, 8));
            rig.receive_classified(&frame);
            assert_eq!(rig.run(ipv4_lookup), (0..3).collect());
            assert_eq!(rig.batch.next_hop(0), rig.batch.next_hop(2), "one flow, one way");
            let flow = perigee_packet::wire::flow::symmetric_hash(&frame, 14, ethertype::IPV4);
            let (id, _) = rig.fib.reader().lookup_flow(testing::v4(testing::SPREAD).into(), flow);
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
        assert_eq!(rig.run(ipv4_lookup).count(), 64, "the other one takes them");
        rig.batch.discard(Mask::ALL);
        rig.batch.refill();
        rig.lose_neighbor(2);
        rig.receive_classified(&frame(1000));
        assert!(rig.run(ipv4_lookup).is_empty());
        assert_eq!(rig.ctx.counters.reason_packets(UNRESOLVED), 1);
    }
}
