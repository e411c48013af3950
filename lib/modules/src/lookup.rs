// SPDX-License-Identifier: MIT
//! What IPv4 and IPv6 lookup share: what becomes of a packet by its next hop.

use perigee_fib::{Action, NextHop, NextHopId};
use perigee_packet::wire::flow;
use perigee_packet::{Batch, Mask};

use crate::context::Context;
use crate::reason::Reason;

/// The reasons of a lookup module, by what its next hop says.
pub(crate) struct Reasons {
    pub local: Reason,
    pub no_route: Reason,
    pub unresolved: Reason,
    pub unreachable: Reason,
    pub prohibited: Reason,
    pub blackhole: Reason,
}

/// Gives those packets of `special` that have several next hops the one of their flow; `ethertype` is that of all of them.
/// Evaluates to the rest: packets whose next hop, after that, cannot be sent to.
///
/// All packets of a flow take one way (RFC 2991), by the hash that also gives a flow its worker. So does what the slow path
/// forwards.
fn spread(ctx: &Context, batch: &mut Batch, special: Mask, ethertype: u16) -> Mask {
    let next_hops = &*ctx.tables.next_hops;
    batch.filter(special, |packet| {
        let group = next_hops.get(NextHopId(packet.next_hop()));
        if !group.is_group() {
            return true;
        }
        let flow = flow::symmetric_hash(packet.frame(), packet.l3().into(), ethertype);
        let member = next_hops.member(group, flow);
        packet.set_next_hop(member.0);
        !next_hops.get(member).is_forward()
    })
}

/// Punts or drops the packets of `special` that cannot be sent on; the others have several next hops, and get one of them.
/// Evaluates to the mask of packets that are gone.
#[inline(never)]
pub(crate) fn finish(ctx: &mut Context, batch: &mut Batch, special: Mask, ethertype: u16, reasons: &Reasons) -> Mask {
    let gone = spread(ctx, batch, special, ethertype);
    for slot in gone {
        let next_hop: NextHop = ctx.tables.next_hop(batch.next_hop(slot));
        let only = Mask::only(slot);
        match next_hop.action() {
            Action::Local => ctx.punt(batch, only, reasons.local),
            Action::Unreachable => ctx.punt(batch, only, reasons.unreachable),
            Action::Prohibit => ctx.punt(batch, only, reasons.prohibited),
            Action::Blackhole => ctx.drop(batch, only, reasons.blackhole),
            Action::NoRoute => ctx.punt(batch, only, reasons.no_route),
            // A neighbor that was resolved a moment ago is the slow path's all the same: it forwards the packet.
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
        }

        const BY_ACTION: $crate::lookup::Reasons = $crate::lookup::Reasons {
            local: LOCAL,
            no_route: NO_ROUTE,
            unresolved: UNRESOLVED,
            unreachable: UNREACHABLE,
            prohibited: PROHIBITED,
            blackhole: BLACKHOLE,
        };
    };
}
pub(crate) use lookup_reasons;

/// Gathers the destinations of a mask, looks them up together, and writes the next hops back. Evaluates to the mask of
/// packets whose next hop cannot be sent to, groups included.
macro_rules! lookup_batch {
    ($ctx:ident, $batch:ident, $mask:expr, $table:ident, $address:ty, $header:literal, $at:literal) => {{
        let mut addresses: [$address; BATCH_SIZE] = [0; BATCH_SIZE];
        let mut ids = [0u32; BATCH_SIZE];
        let mut n = 0;
        $batch.for_each($mask, |packet| {
            if let Some(header) = packet.network::<$header>() {
                addresses[n % BATCH_SIZE] = <$address>::from_be_bytes(std::array::from_fn(|i| header[$at + i]));
            }
            n += 1;
        });
        $ctx.tables.$table.lookup_batch(&addresses[..n], &mut ids[..n]);
        let next_hops = $ctx.tables.next_hops.view();
        n = 0;
        $batch.filter($mask, |packet| {
            let id = ids[n % BATCH_SIZE];
            n += 1;
            packet.set_next_hop(id);
            !next_hops.get(NextHopId(id)).is_forward()
        })
    }};
}
pub(crate) use lookup_batch;
