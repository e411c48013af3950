// SPDX-License-Identifier: MIT
//! What must hold of every packet: where it went is counted, and what was sent is a frame that a router may send.

use super::router::{PORTS, VLAN};
use crate::bed::{self, Bed};
use perigee_modules::{Counters, Kind, ModuleId, all_reasons, multicast, redirect};
use perigee_packet::wire::checksum;
use perigee_worker::Worker;

/// Packets of a worker that ended under a reason.
fn dropped(counters: &Counters) -> u64 {
    let drops = all_reasons().filter(|(_, _, info)| info.kind == Kind::Drop);
    drops.map(|(reason, ..)| counters.reason_packets(reason)).sum()
}

/// Packets to groups that were copied for each of the two interfaces of their routes: those that the module neither
/// dropped nor punted.
fn replicated(counters: &Counters) -> u64 {
    // These are of copies.
    let of_copies = [multicast::NO_BUFFER, multicast::NO_ROOM];
    let own = all_reasons().filter(|(reason, module, _)| *module == "multicast" && !of_copies.contains(reason));
    let refused: u64 = own.map(|(reason, ..)| counters.reason_packets(reason)).sum();
    counters.module_packets(ModuleId::multicast as usize) - refused
}

/// Panics if a worker, which holds no packet, has lost or made one: what it received, and what it copied, was sent,
/// dropped or punted.
pub fn settled(worker: &mut Worker) {
    let counters = &*worker.context().counters;
    let sent: u64 = (0..PORTS).map(|port| counters.port_transmitted(port)).sum();
    let came = counters.received.get() + replicated(counters) + counters.reason_packets(redirect::SENT_BACK);
    let went = sent + counters.punted.get() + dropped(counters);
    assert_eq!(came, went, "received and copied; sent, punted and dropped");
}

/// Panics if a frame is none that the router may send by a port.
pub fn sendable(port: u16, frame: &[u8]) {
    assert!(frame.len() >= 14, "port {port} sent {} bytes: {frame:02x?}", frame.len());
    assert!(frame[6..12] == bed::mac(port), "port {port} sent from another address than its own: {frame:02x?}");
    let tagged = frame[12..14] == [0x81, 0];
    assert!(!tagged || port == 1 && frame[14..16] == [0, VLAN as u8], "port {port} sent a tag: {frame:02x?}");
    let (at, mtu) = if tagged { (18, 1280) } else { (14, 1500) };
    let packet = &frame[at..];
    match &frame[at - 2..at] {
        [8, 0] => {
            let header = usize::from(packet[0] & 15) * 4;
            assert!(packet[0] >> 4 == 4 && header >= 20, "port {port} sent {frame:02x?}");
            assert!(checksum::verify(&packet[..header]), "port {port} sent a wrong checksum: {frame:02x?}");
            let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            assert!((header..=packet.len()).contains(&total), "port {port} sent a wrong length: {frame:02x?}");
            assert!(total <= mtu && packet[8] > 0, "port {port} sent {frame:02x?}");
        }
        [0x86, 0xdd] => {
            let total = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            assert!(packet[0] >> 4 == 6 && total <= packet.len(), "port {port} sent a wrong length: {frame:02x?}");
            assert!(total <= mtu && packet[7] > 0, "port {port} sent {frame:02x?}");
        }
        kind => assert!(kind == [8, 6], "port {port} sent {frame:02x?}"),
    }
}

/// Takes out what a router has sent, and looks at it.
pub fn take_sent(bed: &Bed) -> u64 {
    let mut count = 0;
    for port in 0..PORTS {
        for frame in bed.sent(usize::from(port)) {
            sendable(port, &frame);
            count += 1;
        }
    }
    count
}
