// SPDX-License-Identifier: MIT
//! A packet that is followed, and what a script does to it between two modules.

use perigee_fib::MulticastOrigin;
use perigee_modules::testing::{BLACKHOLE, Rig, UNRESOLVED, changed, multicast_route, to_group, udp4};
use perigee_modules::trace::{Decision, Step, TraceSink};
use perigee_modules::{
    Context, Kind, ModuleId, Trace, classify, distribute, host, ipv4_lookup, ipv4_valid, multicast, ttl, watch,
};
use perigee_packet::{Batch, Mask, Pool};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Keeps traces that have ended.
struct Keeper(Mutex<Sender<Box<Trace>>>);

impl TraceSink for Keeper {
    fn wants(&self, _frame: &[u8], _port: u16) -> bool {
        true
    }
    fn put(&self, trace: Box<Trace>) {
        self.0.lock().unwrap().send(trace).unwrap();
    }
}

/// A rig with frames in its batch, the last of which is followed from classify on.
fn rig(frames: &[Vec<u8>]) -> (Rig, Receiver<Box<Trace>>) {
    let mut rig = Rig::new();
    let slots: Vec<u8> = frames.iter().map(|frame| rig.receive(0, frame)).collect();
    let (sender, ended) = channel();
    let sink = Arc::new(Keeper(Mutex::new(sender)));
    rig.ctx.trace = Some(Trace::begin(sink, &rig.batch, slots[slots.len() - 1], 7));
    let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
    watch::two(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6, ModuleId::classify, classify::classify);
    (rig, ended)
}

fn one(ctx: &mut Context, batch: &mut Batch, module: ModuleId, run: fn(&mut Context, &mut Batch, &mut Mask)) {
    let mut mask = batch.live();
    watch::one(ctx, batch, &mut mask, module, run);
}

fn decisions(steps: &[Step]) -> Vec<(Option<ModuleId>, Decision)> {
    steps.iter().map(|step| (step.module, step.decision.clone())).collect()
}

const CLASSIFIED: (Option<ModuleId>, Decision) =
    (Some(ModuleId::classify), Decision::Classified { interface: perigee_net::InterfaceId(0), l3: 14 });

#[test]
fn what_the_script_does_between_modules_shows() {
    let (mut rig, ended) = rig(&[udp4(1, 8), udp4(2, 8)]);
    // The other packet's change is not this one's.
    rig.batch.slot(0).unwrap().frame_mut()[40] ^= 0xff;
    one(&mut rig.ctx, &mut rig.batch, ModuleId::ipv4_valid, ipv4_valid::ipv4_valid);
    rig.batch.slot(1).unwrap().frame_mut()[40..43].fill(0xee);
    one(&mut rig.ctx, &mut rig.batch, ModuleId::ttl, ttl::ttl);
    // It is moved to another batch, behind one that is there already, and followed there.
    let mut other = Batch::new(rig.pool);
    other.push(rig.pool.packet(&udp4(3, 8)).unwrap(), 0).unwrap();
    watch::moving(&mut rig.ctx, &rig.batch, Mask::ALL, &other);
    rig.batch.move_to(Mask::ALL, &mut other);
    one(&mut rig.ctx, &mut other, ModuleId::ipv4_lookup, ipv4_lookup::ipv4_lookup);
    other.slot(2).unwrap().set_out_port(2);
    let mut mask = other.live();
    let (ip6, run) = (&mut Mask::default(), distribute::distribute);
    watch::two(&mut rig.ctx, &mut other, &mut mask, ip6, ModuleId::distribute, run);
    let trace = ended.try_recv().expect("the trace has ended");
    assert_eq!((trace.time, trace.port, &trace.frame), (7, 0, &udp4(2, 8)));
    let steps = decisions(&trace.steps);
    let Decision::NextHop(next_hop) = steps[5].1 else { panic!("{steps:?}") };
    assert_ne!(next_hop, 0);
    let expected = [
        CLASSIFIED,
        (Some(ModuleId::ipv4_valid), Decision::GoesOn),
        (None, Decision::Changed(3)),
        (Some(ModuleId::ttl), Decision::Hops(64, 63)),
        (None, Decision::Moved),
        (Some(ModuleId::ipv4_lookup), Decision::NextHop(next_hop)),
        (Some(ModuleId::distribute), Decision::Transmitted(2)),
    ];
    assert_eq!(steps, expected);
    assert!(rig.ctx.trace.is_none());
}

/// The packet itself leaves by the last interface of its group's route.
#[test]
fn a_packet_to_a_group_is_sent_by_the_module_multicast() {
    let group = [239, 1, 1, 1].into();
    let (mut rig, ended) = rig(&[udp4(1, 8)]);
    let route = multicast_route(group, None, Some(0), &[(1, 1), (3, 1)], MulticastOrigin::Static);
    rig.set_multicast(vec![route], Vec::new());
    rig.batch.slot(0).unwrap().frame_mut().copy_from_slice(&to_group(udp4(0, 8), group));
    let (mut mask, ip6) = (rig.batch.live(), &mut Mask::default());
    let run = multicast::multicast;
    watch::two(&mut rig.ctx, &mut rig.batch, &mut mask, ip6, ModuleId::multicast, run);
    let steps = decisions(&ended.try_recv().expect("the trace has ended").steps);
    assert_eq!(steps.last(), Some(&(Some(ModuleId::multicast), Decision::Transmitted(2))), "{steps:?}");
    assert_eq!((rig.sent(1).len(), rig.sent(2).len()), (1, 1));
}

#[test]
fn every_drop_ends_a_trace() {
    let (mut rig, ended) = rig(&[udp4(1, 8), udp4(BLACKHOLE, 8)]);
    one(&mut rig.ctx, &mut rig.batch, ModuleId::ipv4_lookup, ipv4_lookup::ipv4_lookup);
    let steps = decisions(&ended.try_recv().unwrap().steps);
    assert_eq!(steps, [CLASSIFIED, (Some(ModuleId::ipv4_lookup), Decision::Dropped(ipv4_lookup::BLACKHOLE))]);

    let (mut rig, ended) = self::rig(&[udp4(1, 8), udp4(2, 8)]);
    let reason = rig.ctx.custom.number("mine", "too_old", Kind::Drop);
    rig.ctx.drop(&mut rig.batch, Mask::only(0), reason);
    assert!(ended.try_recv().is_err(), "another packet");
    rig.ctx.drop(&mut rig.batch, Mask::ALL, reason);
    let steps = decisions(&ended.try_recv().unwrap().steps);
    assert_eq!(steps, [CLASSIFIED, (None, Decision::Dropped(reason))]);

    let (mut rig, ended) = self::rig(&[udp4(1, 8)]);
    watch::gathering(&mut rig.ctx, &rig.batch, Mask::ALL);
    assert_eq!(decisions(&ended.try_recv().unwrap().steps), [CLASSIFIED, (None, Decision::Gathered)]);
}

#[test]
fn a_punt_takes_the_trace_along() {
    let (mut rig, ended) = rig(&[udp4(UNRESOLVED, 8), udp4(UNRESOLVED, 8)]);
    one(&mut rig.ctx, &mut rig.batch, ModuleId::ipv4_lookup, ipv4_lookup::ipv4_lookup);
    let (first, second) = (rig.punted.try_recv().unwrap(), rig.punted.try_recv().unwrap());
    assert!(first.trace.is_none() && ended.try_recv().is_err());
    let steps = decisions(&second.trace.unwrap().steps);
    assert_eq!(steps[1], (Some(ModuleId::ipv4_lookup), Decision::Punted(ipv4_lookup::UNRESOLVED)));
}

/// Punts until the ring to the slow path is full.
#[test]
fn a_full_ring_ends_the_trace_as_a_drop() {
    let (mut rig, ended) = rig(&[changed(udp4(1, 8), |frame| frame[22] = 1)]);
    let trace = rig.ctx.trace.take();
    let mut flood = Batch::new(rig.pool);
    while rig.reasons().iter().all(|(name, _)| name != "host.punt_ring_full") {
        flood.refill();
        (0..256).for_each(|_| {
            flood.push(rig.pool.packet(&udp4(1, 8)).unwrap(), 0).unwrap();
        });
        rig.ctx.punt(&mut flood, Mask::ALL, ttl::EXPIRED);
    }
    rig.ctx.trace = trace;
    one(&mut rig.ctx, &mut rig.batch, ModuleId::ttl, ttl::ttl);
    let steps = decisions(&ended.try_recv().expect("the trace has ended").steps);
    assert!(
        matches!(steps.last(), Some((_, Decision::Dropped(reason))) if *reason == host::PUNT_RING_FULL),
        "{steps:?}"
    );
}
