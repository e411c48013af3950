// SPDX-License-Identifier: MIT
//! Finds the next hop of IPv6 packets: the longest prefix that matches the destination.
//!
//! Packets whose neighbor is known go on with `next_hop` set. Those for the router itself, without a route, with an
//! unreachable or prohibit route, or whose neighbor is not resolved yet go to the slow path; a blackhole route drops.
//!
//! A route may have several next hops. Then each flow takes one of them, by a hash over addresses, protocol and ports. A route to
//! a connected network leads to its link: there the destination is looked up among the neighbors.
//!
//! Cost: what the lookup structure takes; the whole batch is looked up together, so that its cache misses overlap. Packets for
//! neighbors are looked up once more, also together; a burst without any pays one test.

use crate::context::Context;
use crate::lookup::{finish, lookup_batch, lookup_reasons};
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Finds the next hop by longest-prefix match; what cannot be sent on goes to the slow path.";

lookup_reasons!(ipv6_lookup, "RFC 4443 3.1", "RFC 4861 7.2.2", "RFC 4443 3.1");

/// The module.
pub fn ipv6_lookup(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    if !ctx.counters.enter(ModuleId::ipv6_lookup, *mask) {
        return;
    }
    let special = lookup_batch::<u128>(ctx, batch, *mask);
    if !special.is_empty() {
        *mask -= finish::<u128, 40, 24>(ctx, batch, special, &BY_ACTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::tests::{self as lookup, Family};
    use crate::testing::{udp6, v6};
    use perigee_packet::wire::ethernet::ethertype;

    const FAMILY: Family = Family {
        run: ipv6_lookup,
        reasons: BY_ACTION,
        ethertype: ethertype::IPV6,
        udp: udp6,
        source_port: 54,
        address: |to| v6(to).into(),
    };

    #[test]
    fn a_mixed_burst_is_sorted_by_what_its_next_hops_say() {
        lookup::a_mixed_burst_is_sorted_by_what_its_next_hops_say(&FAMILY);
    }

    #[test]
    fn a_resolved_neighbor_is_used_at_once() {
        lookup::a_resolved_neighbor_is_used_at_once(&FAMILY);
    }

    #[test]
    fn neighbors_on_a_connected_network_are_found() {
        lookup::neighbors_on_a_connected_network_are_found(&FAMILY);
    }

    #[test]
    fn flows_are_spread_over_several_next_hops() {
        lookup::flows_are_spread_over_several_next_hops(&FAMILY);
    }
}
