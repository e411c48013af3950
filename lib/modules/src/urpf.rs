// SPDX-License-Identifier: MIT
//! Unicast reverse path forwarding (RFC 3704): drops packets whose source has no route back, on the interfaces that ask for it.
//!
//! `strict` wants a path to the source out of the interface that the packet came in on, one of several will do; `loose` wants
//! any path, and a default route is one (RFC 3704 2.2 to 2.4). Blackhole, unreachable and prohibit routes are none, so that a
//! blackhole route drops what comes from there, too (RFC 5635). Sources are looked up in the same tables as destinations.
//! Link-local and unspecified sources never come here: `ipv4_valid`, `ipv6_valid` and the slow path judge them.
//!
//! Cost: one branch per burst where no interface asks for it; otherwise, for the packets of those that do, one lookup more.

use crate::context::Context;
use crate::lookup::{Destination, gather};
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::NextHopId;
use perigee_net::{InterfaceId, ReversePath};
use perigee_packet::{BATCH_SIZE, Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Drops packets whose source has no route back, on interfaces with `urpf`.";

reasons! { urpf:
    drop FAILED4 = "ipv4_failed", "RFC 3704 2", "no route leads back to the source, or none by the interface it came in on";
    drop FAILED6 = "ipv6_failed", "RFC 3704 2", "no route leads back to the source, or none by the interface it came in on";
}

/// The module.
pub fn urpf(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let Some(modes) = ctx.tables.reverse_paths.clone() else { return };
    ctx.counters.module(ModuleId::urpf, ip4.count() + ip6.count());
    let failed4 = failed::<u32, 20, 12>(ctx, batch, *ip4, &modes);
    let failed6 = failed::<u128, 40, 8>(ctx, batch, *ip6, &modes);
    ctx.drop(batch, failed4, FAILED4);
    ctx.drop(batch, failed6, FAILED6);
    (*ip4, *ip6) = (*ip4 - failed4, *ip6 - failed6);
}

/// The packets whose source fails the check of their interface. `AT` is the offset of the source in the header.
fn failed<A: Destination, const HEADER: usize, const AT: usize>(
    ctx: &Context,
    batch: &mut Batch,
    mask: Mask,
    modes: &[ReversePath],
) -> Mask {
    let mode = |interface: u16| modes.get(usize::from(interface)).copied().unwrap_or_default();
    let checked = batch.filter(mask, |packet| mode(packet.interface()) != ReversePath::Off);
    let mut addresses = [A::ZERO; BATCH_SIZE];
    let n = gather::<A, HEADER, AT>(batch, checked, &mut addresses);
    let mut ids = [0u32; BATCH_SIZE];
    A::table(&ctx.tables).lookup_batch(&addresses[..n], &mut ids[..n]);
    let mut next = 0;
    batch.filter(checked, |packet| {
        let id = NextHopId(ids[next % BATCH_SIZE]);
        next += 1;
        let interface = packet.interface();
        let by = (mode(interface) == ReversePath::Strict).then_some(InterfaceId(interface));
        !ctx.tables.next_hops.leads(id, by)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        BLACKHOLE, LOCAL, NOWHERE, PROHIBITED, Rig, SPREAD, UNREACHABLE, UNRESOLVED, changed, udp4, udp6, v4, v6,
    };

    /// Whether packets of both families from a destination's address pass that come in on an interface.
    fn passes(rig: &mut Rig, from: u8, interface: u16) -> bool {
        rig.batch.refill();
        let frames = [
            changed(udp4(1, 8), |f| f[26..30].copy_from_slice(&v4(from).octets())),
            changed(udp6(1, 8), |f| f[22..38].copy_from_slice(&v6(from).octets())),
        ];
        for frame in frames {
            let slot = rig.receive_classified(&frame);
            rig.batch.slot(slot).unwrap().set_interface(interface);
        }
        let (mut ip4, mut ip6) = (Mask::only(0), Mask::only(1));
        urpf(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!(ip4.is_empty(), ip6.is_empty(), "both families alike");
        assert_eq!(ip4 | ip6, rig.batch.live());
        !ip4.is_empty()
    }

    fn rig(mode: ReversePath) -> Rig {
        let mut rig = Rig::new();
        rig.change_interface(1, |interface| interface.policy.urpf = mode);
        rig
    }

    #[test]
    fn ipv4_row_43_strict_wants_the_interface_it_came_in_on() {
        let mut rig = rig(ReversePath::Strict);
        assert!(passes(&mut rig, 1, 1));
        for from in [0, 2, UNRESOLVED, BLACKHOLE, UNREACHABLE, PROHIBITED, LOCAL, NOWHERE] {
            assert!(!passes(&mut rig, from, 1), "from {from}");
        }
        assert_eq!(rig.reasons(), [("urpf.ipv4_failed".to_owned(), 8), ("urpf.ipv6_failed".to_owned(), 8)]);
        assert!(passes(&mut rig, NOWHERE, 0), "another interface does not ask for it");
        assert!(passes(&mut rig, NOWHERE, 99), "nor one that is not there");
        // One of several paths will do, whichever the flow would take.
        rig.spread(&[(0, 3), (1, 1)]);
        assert!(passes(&mut rig, SPREAD, 1));
        rig.spread(&[(0, 1), (2, 1)]);
        assert!(!passes(&mut rig, SPREAD, 1));
        // A path counts while its neighbor is being asked for.
        rig.lose_neighbor(1);
        assert!(passes(&mut rig, 1, 1));
    }

    #[test]
    fn ipv4_row_43_loose_wants_any_route() {
        let mut rig = rig(ReversePath::Loose);
        rig.spread(&[(0, 1), (2, 1)]);
        for from in [0, 1, 2, UNRESOLVED, SPREAD] {
            assert!(passes(&mut rig, from, 1), "from {from}");
        }
        for from in [BLACKHOLE, UNREACHABLE, PROHIBITED, LOCAL, NOWHERE] {
            assert!(!passes(&mut rig, from, 1), "from {from}");
        }
    }

    #[test]
    fn nothing_is_done_where_nobody_asks_for_it() {
        let mut rig = rig(ReversePath::Off);
        assert!(passes(&mut rig, NOWHERE, 1) && rig.ctx.tables.reverse_paths.is_none());
        assert_eq!(rig.ctx.counters.module_packets(ModuleId::urpf as usize), 0);
    }
}
