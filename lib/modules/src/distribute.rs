// SPDX-License-Identifier: MIT
//! Puts packets into the transmit buffers of their ports, which send them a burst at a time (rebatching).
//!
//! Every packet is consumed: a port without a transmit buffer drops it, under a reason.
//!
//! Cost: for each port that packets leave by one comparison of all ports, and of its packets a copy of each pointer (at least half a burst that
//! leaves by one port is transmitted from where it is); the device's transmit function once per burst and port.

use crate::context::Context;
use crate::filter;
use crate::reason::reasons;
use crate::registry::ModuleId;
use crate::watch;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Puts packets into their ports' transmit buffers, which send a burst at a time.";

reasons! { distribute:
    drop NO_PORT = "no_port", "", "the port it should leave by cannot transmit";
}

/// The module; both masks are empty afterwards.
pub fn distribute(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let mut all = *ip4 | *ip6;
    (*ip4, *ip6) = (Mask::EMPTY, Mask::EMPTY);
    if !ctx.counters.enter(ModuleId::distribute, all) {
        return;
    }
    if ctx.tables.watched {
        all = leaving(ctx, batch, all);
    }
    let (mut rest, mut lost) = (all & batch.live(), Mask::EMPTY);
    for _ in 0..FEW {
        let Some(slot) = rest.first_slot() else { break };
        let port = batch.out_port(slot);
        let same = batch.leaving_by(rest, port);
        rest -= same;
        match ctx.outputs.get_mut(usize::from(port)) {
            Some(Some(output)) => {
                if let Some(flushed) = output.take(batch, same, ctx.now) {
                    ctx.flushed(port.into(), flushed);
                }
            }
            _ => lost |= same,
        }
    }
    if !rest.is_empty() {
        lost |= one_by_one(ctx, batch, rest);
    }
    ctx.drop(batch, lost, NO_PORT);
}

/// What filters deny, of a script that has not asked them, does not leave; taps see what does.
#[inline(never)]
fn leaving(ctx: &mut Context, batch: &mut Batch, all: Mask) -> Mask {
    let all = filter::judge(ctx, batch, all);
    if ctx.tables.taps.is_some() {
        watch::transmitting(ctx, batch, all);
    }
    all
}

/// Packets of so many ports are looked for port by port.
const FEW: usize = 4;

/// Puts each packet into its port's buffer; returns those for which there is none.
#[inline(never)]
fn one_by_one(ctx: &mut Context, batch: &mut Batch, rest: Mask) -> Mask {
    batch.take_handles(rest, |port, packet| {
        let Some(Some(output)) = ctx.outputs.get_mut(usize::from(port)) else { return Some(packet) };
        if let Some(flushed) = output.push(packet, ctx.now) {
            ctx.flushed(port.into(), flushed);
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, udp4, udp6};
    use perigee_packet::Pool;

    const BURST: usize = perigee_packet::BATCH_SIZE;

    #[test]
    fn every_packet_goes_to_its_port_or_is_dropped() {
        let mut rig = Rig::new();
        for (number, port) in [0, 1, 2, 3, 4, u16::MAX, 1].into_iter().enumerate() {
            let slot = rig.receive(0, &if number == 1 { udp6(0, number) } else { udp4(0, number) });
            rig.batch.slot(slot).unwrap().set_out_port(port);
        }
        rig.receive(0, &udp4(0, 100));
        let (mut ip4, mut ip6) = (Mask::first(7) - Mask::only(1), Mask::only(1));
        distribute(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert!(ip4.is_empty() && ip6.is_empty());
        assert_eq!(rig.batch.live(), Mask::only(7), "what was in no mask stays");
        // Port 3 cannot transmit; 4 and 65535 do not exist.
        assert_eq!(rig.reasons(), [("distribute.no_port".to_owned(), 3)]);
        assert_eq!(rig.ctx.counters.port_transmitted(1), 0, "they wait for a burst or the timeout");
        assert_eq!(rig.sent(1), [udp6(0, 1), udp4(0, 6)]);
        assert_eq!((rig.sent(0), rig.sent(2), rig.sent(3)), (vec![udp4(0, 0)], vec![udp4(0, 2)], vec![]));
        assert_eq!((rig.ctx.counters.port_transmitted(1), rig.ctx.counters.port_transmitted(3)), (2, 0));
        rig.batch.refill();
        assert_eq!(rig.pool.in_use(), 0);
    }

    #[test]
    fn a_burst_goes_out_at_once_and_a_full_queue_is_counted() {
        let mut rig = Rig::new();
        for _ in 0..5 {
            for _ in 0..BURST {
                rig.receive(0, &udp4(0, 8));
            }
            distribute(&mut rig.ctx, &mut rig.batch, &mut Mask::first(BURST), &mut Mask::default());
            rig.batch.refill();
        }
        assert_eq!(rig.ctx.counters.port_transmitted(0), 1024, "the queue's room");
        assert_eq!(rig.reasons(), [("host.transmit_full".to_owned(), 5 * BURST as u64 - 1024)]);
        assert_eq!((rig.sent(0).len(), rig.pool.in_use()), (1024, 0));
    }
}
