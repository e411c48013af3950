// SPDX-License-Identifier: MIT
//! Unicast reverse path forwarding (RFC 3704): drops packets whose source has no route back, on the interfaces that ask for it.
//!
//! `strict` wants a path to the source out of the interface that the packet came in on, one of several will do; `loose` wants
//! any path, and a default route is one (RFC 3704 2.2 to 2.4). Blackhole, unreachable and prohibit routes are none, so that a
//! blackhole route drops what comes from there, too (RFC 5635). Sources are looked up in the same tables as destinations.
//! Link-local and unspecified sources never come here: `ipv4_valid`, `ipv6_valid` and the slow path judge them.
//!
//! Cost: one branch per burst where no interface asks for it, a glance at the interfaces where one does; for the packets of those that do, one
//! lookup more, of IPv6 also a read of the source. What its next hops say is found for eight or sixteen packets at a time.

use crate::context::Context;
use crate::lookup::Destination;
use crate::reason::reasons;
use crate::registry::ModuleId;
use crate::tables::Tables;
use perigee_fib::{Lookup, NextHopId, NextHops, NextHopsView};
use perigee_net::{InterfaceId, ReversePath};
use perigee_packet::batch::columns::Column;
use perigee_packet::batch::lanes::{Kernel, Lanes};
use perigee_packet::{BATCH_SIZE, Batch, Mask};
use std::sync::atomic::AtomicU64;

/// What it does, for the documentation.
pub const SUMMARY: &str = "Drops packets whose source has no route back, on interfaces with `urpf`.";

reasons! { urpf:
    drop FAILED4 = "ipv4_failed", "RFC 3704 2", "no route leads back to the source, or none by the interface it came in on";
    drop FAILED6 = "ipv6_failed", "RFC 3704 2", "no route leads back to the source, or none by the interface it came in on";
}

/// The module.
pub fn urpf(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let Some(modes) = ctx.tables.reverse_paths.as_deref() else { return };
    ctx.counters.module(ModuleId::urpf, ip4.count() + ip6.count());
    let [checked, strict] = by_mode(batch, *ip4 | *ip6, modes);
    if checked.is_empty() {
        return;
    }
    let failed4 = failed::<u32>(&ctx.tables, batch, *ip4 & checked, strict);
    let failed6 = failed::<u128>(&ctx.tables, batch, *ip6 & checked, strict);
    ctx.drop(batch, failed4, FAILED4);
    ctx.drop(batch, failed6, FAILED6);
    (*ip4, *ip6) = (*ip4 - failed4, *ip6 - failed6);
}

/// The packets whose interfaces ask for a check, and those of them where it is the strict one.
fn by_mode(batch: &Batch, mask: Mask, modes: &[ReversePath]) -> [Mask; 2] {
    let asks = |interface: u16| {
        let mode = modes.get(usize::from(interface)).copied().unwrap_or_default();
        [mode != ReversePath::Off, mode == ReversePath::Strict]
    };
    let mask = mask & batch.live();
    match batch.common_interface(mask) {
        Some(interface) => asks(interface).map(|asked| if asked { mask } else { Mask::EMPTY }),
        None => mask.sort(|slot| asks(batch.interface(slot))),
    }
}

/// The packets of `mask` whose source fails the check; those of `strict` ask for their own interface.
fn failed<A: Source>(tables: &Tables, batch: &mut Batch, mask: Mask, strict: Mask) -> Mask {
    if mask.is_empty() {
        return Mask::EMPTY;
    }
    A::look_up_sources(batch, mask, A::table(tables));
    let stored = tables.next_hops.view().stored();
    let mut kernel = Paths { ids: batch.source_hops(), interfaces: batch.view().interface, stored };
    let [any, own] = batch.isa().sort(batch.count(), &mut kernel);
    let rest = mask - (any - (strict - own));
    if rest.is_empty() { Mask::EMPTY } else { without_path(&tables.next_hops, batch, rest, strict) }
}

/// Finds the packets whose source's next hop can be sent to, and those where it can be by the interface that they came in on.
struct Paths<'a> {
    ids: &'a Column,
    interfaces: &'a [u16; BATCH_SIZE],
    stored: &'a [AtomicU64],
}

impl Kernel<2> for Paths<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 2] {
        let high = L::gather_high(self.stored, L::load(self.ids, at));
        let none = L::equal(L::shr::<{ NextHopsView::FORWARD_BITS_FROM - 32 }>(high), L::splat(0));
        // a xor b = a + b - 2 (a and b)
        let (interface, limit) = (L::load16(self.interfaces, at), L::splat(InterfaceId::LIMIT.into()));
        let stored = L::sub(L::add(interface, limit), L::shl::<1>(L::and(interface, limit)));
        let same = L::equal(L::shr::<{ NextHopsView::INTERFACE_FROM - 32 }>(high), stored);
        [L::bits(L::not(none)), L::bits(L::except(same, none))]
    }
}

/// Looks again, one by one: groups have several next hops, and a neighbor that is not known yet counts.
#[inline(never)]
fn without_path(next_hops: &NextHops, batch: &Batch, rest: Mask, strict: Mask) -> Mask {
    rest.filter(|slot| {
        let id = NextHopId(batch.source_hops()[usize::from(slot)]);
        let by = strict.contains(slot).then_some(InterfaceId(batch.interface(slot)));
        !next_hops.leads(id, by)
    })
}

/// An address of a family whose sources can be looked up.
trait Source: Destination {
    /// Sets the next hops of sources.
    fn look_up_sources(batch: &mut Batch, mask: Mask, table: &dyn Lookup<Self>);
}

impl Source for u32 {
    #[inline(always)]
    fn look_up_sources(batch: &mut Batch, mask: Mask, table: &dyn Lookup<u32>) {
        batch.look_up_sources4(mask, |addresses, ids| table.lookup_batch(addresses, ids));
    }
}

impl Source for u128 {
    #[inline(always)]
    fn look_up_sources(batch: &mut Batch, mask: Mask, table: &dyn Lookup<u128>) {
        batch.look_up_sources6(mask, |addresses, ids| table.lookup_batch(addresses, ids));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        BLACKHOLE, INTERFACES, LOCAL, NOWHERE, PROHIBITED, REFUSED, Rig, SPREAD, TO_LINUX, UNREACHABLE, UNRESOLVED,
        changed, fuzz, udp4, udp6, v4, v6,
    };
    use perigee_packet::Isa;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
        for from in [0, 1, 2, UNRESOLVED, SPREAD, TO_LINUX] {
            assert!(passes(&mut rig, from, 1), "from {from}");
        }
        for from in [BLACKHOLE, UNREACHABLE, PROHIBITED, LOCAL, NOWHERE, REFUSED] {
            assert!(!passes(&mut rig, from, 1), "from {from}");
        }
    }

    /// The packets that fail, each looked at by itself.
    fn failing(rig: &mut Rig, mask: Mask) -> Mask {
        let tables = &rig.ctx.tables;
        rig.batch.filter(mask, |packet| {
            let modes = tables.reverse_paths.as_deref().unwrap_or_default();
            let mode = modes.get(usize::from(packet.interface())).copied().unwrap_or_default();
            let is_v6 = packet.frame().get(12..14) == Some(&[0x86, 0xdd]);
            let source: IpAddr = match is_v6 {
                true => Ipv6Addr::from_bits(packet.network::<40>().map_or(0, u128::read::<40, 8>)).into(),
                false => Ipv4Addr::from_bits(packet.network::<20>().map_or(0, u32::read::<20, 12>)).into(),
            };
            let by = (mode == ReversePath::Strict).then_some(InterfaceId(packet.interface()));
            mode != ReversePath::Off && !tables.next_hops.leads(tables.find(source), by)
        })
    }

    /// Bursts of one interface and of several, each with a mode of its own, from everywhere, tagged and cut.
    #[test]
    fn agrees_with_a_look_at_each_packet() {
        let (mut random, count) = fuzz();
        let mut rig = Rig::new();
        rig.spread(&[(1, 1), (2, 1)]);
        let places = [0, 1, 2, 3, 4, 5, UNRESOLVED, BLACKHOLE, UNREACHABLE, PROHIBITED, LOCAL, NOWHERE, SPREAD];
        let (mut seen, mut failed) = (0, 0);
        for turn in 0..count / 300 {
            let isas = Isa::available();
            rig.batch = Batch::with_isa(rig.pool, isas[turn as usize % isas.len()]);
            for id in 0..u16::from(INTERFACES) {
                let mode = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict][random.below(3) as usize];
                rig.change_interface(id, |interface| interface.policy.urpf = mode);
            }
            let one = (random.below(2) == 0).then(|| random.below(7) as u16);
            let n = [1, 9, 64, 100, 256][random.below(5) as usize];
            let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
            let families = random.below(3);
            for _ in 0..n {
                let from = places[random.below(places.len() as u32) as usize];
                let is_v6 = if families < 2 { families == 1 } else { random.below(2) == 0 };
                let frame = match is_v6 {
                    true => changed(udp6(1, 8), |f| f[22..38].copy_from_slice(&v6(from).octets())),
                    false => changed(udp4(1, 8), |f| f[26..30].copy_from_slice(&v4(from).octets())),
                };
                let cut = if random.below(20) == 0 { random.below(60) as usize } else { 60 };
                let slot = rig.receive_classified(&frame[..cut.min(frame.len()).max(14)]);
                let mut packet = rig.batch.slot(slot).unwrap();
                packet.set_interface(one.unwrap_or_else(|| random.below(7) as u16));
                packet.set_next_hop(77);
                if is_v6 { ip6.set(slot) } else { ip4.set(slot) }
            }
            if random.below(4) == 0 {
                rig.batch.discard((0..n as u8).step_by(5).collect());
            }
            (ip4, ip6) = (ip4 & rig.batch.live(), ip6 & rig.batch.live());
            let (all, expected) = (ip4 | ip6, failing(&mut rig, ip4 | ip6));
            urpf(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
            assert_eq!((ip4 | ip6, rig.batch.live()), (all - expected, all - expected));
            assert!(rig.batch.live().iter().all(|slot| rig.batch.next_hop(slot) == 77), "the way on is not touched");
            (seen, failed) = (seen + all.count(), failed + expected.count());
        }
        println!("{failed} of {seen} packets failed");
        assert_eq!(rig.dropped() as usize, failed);
        assert!(count < 10_000 || (failed > seen / 10 && failed < seen / 2), "{failed} of {seen}");
    }

    #[test]
    fn nothing_is_done_where_nobody_asks_for_it() {
        let mut rig = rig(ReversePath::Off);
        assert!(passes(&mut rig, NOWHERE, 1) && rig.ctx.tables.reverse_paths.is_none());
        assert_eq!(rig.ctx.counters.module_packets(ModuleId::urpf as usize), 0);
    }
}
