// SPDX-License-Identifier: MIT
//! Finds the next hop of IPv4 packets: the longest prefix that matches the destination.
//!
//! Packets whose neighbor is known go on with `next_hop` set. Those for the router itself, without a route, with an
//! unreachable or prohibit route, or whose neighbor is not resolved yet go to the slow path; a blackhole route drops.
//!
//! Cost: what the lookup structure takes; the whole batch is looked up together, so that its cache misses overlap.

use crate::context::Context;
use crate::lookup::{finish, lookup_batch, lookup_reasons};
use crate::registry::ModuleId;
use perigee_fib::NextHopId;
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
        finish(ctx, batch, special, &BY_ACTION);
        *mask -= special;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, INTERFACES, Rig, neighbor, udp4};
    use perigee_fib::{Action, InterfaceId};

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
}
