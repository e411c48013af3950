// SPDX-License-Identifier: MIT
//! Frames between a router and Linux, through twins whose other ends the tests have.

mod common;

use common::kernel::Kernel;
use common::*;
use perigee_api::answers::{DropKind, TwinEntry};
use perigee_api::queries::{Reload, ShowDrops, ShowFilters, ShowPorts};
use perigee_packet::wire::checksum;
use perigee_router::{LinuxFeeds, Lookups};
use std::time::{Duration, Instant};

/// A router with twins that has read what Linux has, with these lines in its configuration.
fn start(folder: &tempfile::TempDir, lines: &str) -> Bed {
    let text = TWO_PORTS.replace("twin = false\n", "") + lines;
    let feeds = LinuxFeeds { netlink: Some(Box::new(Kernel::new())), ..LinuxFeeds::default() };
    let mut bed = Bed::beside_linux(&text, &folder.path().join("a.toml"), ONE_EACH, Lookups::default(), feeds);
    bed.settle();
    (0..2).for_each(|port| drop(bed.sent(port)));
    (0..2).for_each(|port| drop(received(&bed, port)));
    bed
}

/// What Linux has received through a port's twin.
fn received(bed: &Bed, port: usize) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 2000];
    let next = || {
        let length = bed.linux[port].recv(&mut buffer).ok()?;
        Some(buffer[..length].to_vec())
    };
    std::iter::from_fn(next).collect()
}

fn twin(bed: &mut Bed, port: usize) -> TwinEntry {
    ask(bed, ShowPorts {}).unwrap().remove(port).twin.expect("a twin")
}

fn dropped(bed: &mut Bed, reason: &str) -> u64 {
    let drops = ask(bed, ShowDrops {}).unwrap();
    let drops = drops.iter().filter(|d| d.module == "slowpath" && d.reason == reason && d.kind == DropKind::Drop);
    drops.map(|drop| drop.packets).sum()
}

#[test]
fn what_linux_sends_leaves_on_the_twins_port_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "");
    for port in [0, 1] {
        let before = twin(&mut bed, port).from_linux;
        let frames: Vec<Vec<u8>> = (0..100).map(|n| udp("192.0.2.9", 64, n)).collect();
        frames.iter().for_each(|frame| assert!(bed.linux[port].send(frame).is_ok()));
        bed.settle();
        assert_eq!(bed.sent(port), frames);
        assert!(bed.sent(1 - port).is_empty());
        assert_eq!(twin(&mut bed, port).from_linux - before, 100);
    }
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_is_for_the_router_goes_to_linux_as_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "");
    let before = twin(&mut bed, 0).to_linux;
    let frame = udp("10.0.1.1", 64, 7);
    assert!(bed.receive[0][0].inject(&frame));
    bed.settle();
    assert_eq!((received(&bed, 0), received(&bed, 1)), (vec![frame.clone()], vec![]));
    assert_eq!(twin(&mut bed, 0).to_linux - before, 1);
    // As a device's filters would give it to the slow path.
    assert!(bed.steered[0].inject(&frame));
    bed.settle();
    assert_eq!(received(&bed, 0), [frame]);
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_linux_may_not_send_is_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let filter = "[[filter]]\nfrom = \"linux\"\ndst = \"192.0.2.0/24\"\naction = \"drop\"\n";
    let mut bed = start(&folder, filter);
    let (denied, admitted) = (udp("192.0.2.9", 64, 7), udp("198.51.100.9", 64, 7));
    for frame in [&denied, &admitted, &denied] {
        assert!(bed.linux[0].send(frame).is_ok());
    }
    bed.settle();
    assert_eq!((bed.sent(0), dropped(&mut bed, "denied_linux")), (vec![admitted], 2));
    // It is about what Linux sends, and nothing else.
    assert_eq!(dropped(&mut bed, "denied"), 0);
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_linux_sends_on_a_vlan_that_is_not_configured_is_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "");
    let before = dropped(&mut bed, "unknown_interface");
    let mut tagged = udp("192.0.2.9", 64, 7);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    (0..3).for_each(|_| assert!(bed.linux[0].send(&tagged).is_ok()));
    bed.settle();
    assert_eq!((bed.sent(0), dropped(&mut bed, "unknown_interface") - before), (vec![], 3));
    assert_eq!(bed.end(), 0);
}

/// They end with their descriptors; the helper removes all of them together before that.
#[test]
fn a_router_that_ends_hands_over_its_twins() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "");
    let mut twins = bed.slow.finish();
    assert_eq!(twins.len(), 2);
    let frame = udp("192.0.2.9", 64, 7);
    for port in [0, 1] {
        assert!(bed.linux[port].send(&frame).is_ok());
        drop(twins.remove(0));
        assert!(bed.linux[port].send(&frame).is_err(), "that was the twin of port {port}");
    }
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_ports_may_not_receive_is_dropped_in_a_steered_queue_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let filter = "[[filter]]\ndport = \"9\"\nproto = \"udp\"\naction = \"drop\"\n";
    let mut bed = start(&folder, filter);
    assert!(bed.steered[0].inject(&udp("10.0.1.1", 64, 7)));
    bed.settle();
    assert_eq!((received(&bed, 0), dropped(&mut bed, "denied")), (vec![], 1));
    // Of a VLAN that nobody has configured.
    let before = dropped(&mut bed, "unknown_interface");
    let mut tagged = udp("10.0.1.1", 64, 7);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    tagged[40..42].copy_from_slice(&10_u16.to_be_bytes());
    assert!(bed.steered[0].inject(&tagged));
    bed.settle();
    assert_eq!((received(&bed, 0), dropped(&mut bed, "unknown_interface") - before), (vec![], 1));
    assert_eq!(bed.end(), 0);
}

/// What a worker, a device's own queue and Linux bring is counted under the rule as it stands in the file. A reload that
/// leaves the filters alone leaves their hits alone.
#[test]
fn each_filter_shows_the_packets_that_it_decided_about() {
    let folder = tempfile::tempdir().unwrap();
    let filters = "[[filter]]\nfrom = \"linux\"\ndst = \"192.0.2.0/24\"\naction = \"drop\"\n\
        [[filter]]\ndst = \"10.0.1.1\"\ndport = \"9\"\nproto = \"udp\"\naction = \"accept\"\n\
        [[filter]]\nproto = \"tcp\"\naction = \"drop\"\n\
        [[filter]]\nfrom = \"both\"\nproto = \"udp\"\naction = \"drop\"\n";
    let steer = "[[steer]]\nethertype = 0x88cc\n";
    let mut bed = start(&folder, &format!("{filters}{steer}"));
    let hits =
        |bed: &mut Bed| -> Vec<_> { ask(bed, ShowFilters {}).unwrap().iter().map(|filter| filter.hits).collect() };
    let shown = |numbers: [u64; 4]| numbers.map(Some).into_iter().chain([None]).collect::<Vec<_>>();
    let (own, other) = (udp("10.0.1.1", 64, 7), udp("10.0.2.9", 64, 7));
    for (worker, steered, linux, expected) in [
        (&own, None, None, [0, 1, 0, 0]),
        (&other, Some(&own), None, [0, 2, 0, 1]),
        (&other, Some(&other), Some(udp("192.0.2.9", 64, 7)), [1, 2, 0, 3]),
        (&own, None, Some(udp("198.51.100.9", 64, 7)), [1, 3, 0, 4]),
    ] {
        assert!(bed.receive[0][0].inject(worker));
        assert!(steered.is_none_or(|frame| bed.steered[0].inject(frame)));
        assert!(linux.is_none_or(|frame| bed.linux[0].send(&frame).is_ok()));
        bed.settle();
        assert_eq!(hits(&mut bed), shown(expected));
    }
    // They are those that the drops show.
    assert_eq!((dropped(&mut bed, "denied"), dropped(&mut bed, "denied_linux")), (1, 2));
    let file = folder.path().join("a.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (text, before, after) in [
        (text.clone(), [1, 3, 0, 4], [1, 3, 0, 5]),
        // Other tables, beside the old ones.
        (text.replace("10.0.2.1/24", "10.0.2.8/24"), [1, 3, 0, 5], [1, 3, 0, 6]),
        // Another rule, whose place was one of a counter.
        (
            text.replacen("[[filter]]", "[[filter]]\nproto = \"icmp\"\naction = \"accept\"\n[[filter]]", 1),
            [0; 4],
            [0; 4],
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        ask(&mut bed, Reload { script: None, text: None }).unwrap();
        bed.settle();
        assert_eq!(hits(&mut bed)[..4], before.map(Some));
        assert!(bed.receive[0][0].inject(&other));
        bed.settle();
        assert_eq!(hits(&mut bed)[..4], after.map(Some));
    }
    assert_eq!(hits(&mut bed)[4], Some(1), "the last rule is the fifth one now");
    assert_eq!(bed.end(), 0);
}

/// The thread sleeps when a round had nothing to do. None of these frames has an effect that would show otherwise.
#[test]
fn a_round_that_takes_a_frame_from_anywhere_has_had_something_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "[[filter]]\nfrom = \"linux\"\naction = \"drop\"\n");
    assert!(!bed.slow.round());
    // Of a VLAN that nobody has configured, from a queue that a device's filters fill.
    let mut tagged = udp("10.0.1.1", 64, 7);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    assert!(bed.steered[0].inject(&tagged) && bed.slow.round() && !bed.slow.round());
    // Denied, from Linux.
    assert!(bed.linux[0].send(&udp("192.0.2.9", 64, 7)).is_ok() && bed.slow.round() && !bed.slow.round());
    // The first fragment of a datagram, from a worker: it waits for the others.
    let mut fragment = udp("10.0.1.1", 64, 7);
    fragment[20] = 0x20;
    fragment[24..26].fill(0);
    let sum = checksum::checksum(&fragment[14..34]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    assert!(bed.receive[0][0].inject(&fragment));
    bed.work_without_owner();
    assert!(bed.slow.round() && !bed.slow.round());
    assert_eq!(bed.end(), 0);
}

/// The clock stands still, so no timer wakes it.
#[test]
fn a_slow_path_that_sleeps_wakes_for_frames_of_linux() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = start(&folder, "");
    let (linux, wire) = (bed.linux[1].try_clone().unwrap(), bed.transmit[1].clone());
    let (mailbox, stop) = (bed.mailbox.clone(), bed.stop.clone());
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let sent = |frame: &[u8]| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_secs(120) {
                    if wire.iter().find_map(|queue| queue.collect()).is_some_and(|sent| sent == frame) {
                        return true;
                    }
                    std::thread::yield_now();
                }
                false
            };
            // It is awake for a while after each.
            let all = (0..50).all(|n| {
                let frame = udp("192.0.2.9", 64, n);
                linux.send(&frame).is_ok() && sent(&frame)
            });
            stop.request();
            mailbox.wake();
            all
        });
        bed.slow.run();
        assert!(sending.join().unwrap());
    });
    assert_eq!(bed.end(), 0);
}
