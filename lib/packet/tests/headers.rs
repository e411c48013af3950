// SPDX-License-Identifier: MIT
//! What is read of the headers of a burst at once, by any instruction set, is what each frame has, read one by one:
//! 5-tuples, and the addresses that are looked up.
//!
//! `PERIGEE_FUZZ` multiplies the number of bursts (2,000), `PERIGEE_FUZZ_SEED` is the seed (default: a new one each
//! time).

use perigee_net::{Key, Key4, Key6, Missing};
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::wire::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use perigee_packet::wire::tuple;
use perigee_packet::{Batch, ExtensionHeaders, Isa, Mask, Pool, Slot};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The key of a packet, by its frame alone.
fn key4(packet: &Slot<'_>) -> Option<Key4> {
    let header = packet.network::<20>()?;
    let mut key = Key::ZERO;
    key.protocol = header[9];
    key.source.copy_from_slice(&header[12..16]);
    key.destination.copy_from_slice(&header[16..20]);
    key.fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let first_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let l3 = usize::from(packet.l3());
    let end = packet.frame().len().min(l3 + usize::from(u16::from_be_bytes([header[2], header[3]])));
    let at = l3 + usize::from(header[0] & 0x0f) * 4;
    set_ports(&mut key, packet.frame()[..end].get(at..).filter(|_| first_fragment).unwrap_or(&[]));
    Some(key)
}

fn key6(packet: &Slot<'_>) -> Option<Key6> {
    let header = packet.network::<40>()?;
    let mut key = Key::ZERO;
    key.source.copy_from_slice(&header[8..24]);
    key.destination.copy_from_slice(&header[24..40]);
    let payload = packet.frame().get(usize::from(packet.l3()) + 40..).unwrap_or(&[]);
    let payload = &payload[..payload.len().min(u16::from_be_bytes([header[4], header[5]]).into())];
    let headers = ExtensionHeaders::new(header[6], payload);
    let twice = headers.clone().filter(|header| header.is_ok_and(|header| header.kind == 44)).count() > 1;
    match headers.upper_layer() {
        _ if twice => key.missing = Missing::Protocol,
        Ok(upper) if ![0, 43, 44, 51, 60].contains(&upper.protocol) => {
            key.protocol = upper.protocol;
            key.fragment = upper.is_fragment();
            set_ports(&mut key, if upper.has_header() { upper.payload } else { &[] });
        }
        _ => key.missing = Missing::Protocol,
    }
    Some(key)
}

fn set_ports<const N: usize>(key: &mut Key<N>, upper: &[u8]) {
    match (key.protocol, upper) {
        (TCP | UDP | DCCP | SCTP | UDP_LITE, &[a, b, c, d, ..]) => {
            key.source_port = [a, b];
            key.destination_port = [c, d];
        }
        (TCP | UDP | DCCP | SCTP | UDP_LITE, _) => key.missing = Missing::Ports,
        _ => {}
    }
}

/// An address at an offset of the header; 0 without a header.
fn address<const HEADER: usize>(packet: &Slot<'_>, at: usize, length: usize) -> u128 {
    let bytes = packet.network::<HEADER>().map_or(&[][..], |header| &header[at..at + length]);
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

const PROTOCOLS: [u8; 14] = [TCP, UDP, UDP, TCP, DCCP, SCTP, UDP_LITE, 0, 1, 43, 44, 51, 58, 60];

/// A frame that may be an IPv4 or an IPv6 packet at `l3`, whole or cut, with options, extension headers, or a fragment
/// of one.
fn frame(rng: &mut SmallRng, l3: usize) -> Vec<u8> {
    let mut frame = vec![0; rng.random_range(0..140)];
    rng.fill(&mut frame[..]);
    let whole = rng.random_bool(0.9) && frame.len() >= l3 + 44;
    if let Some(packet) = frame.get_mut(l3..).filter(|_| whole) {
        let protocol = |rng: &mut SmallRng| PROTOCOLS[rng.random_range(0..PROTOCOLS.len())];
        let is_4 = rng.random();
        if rng.random() {
            let length = rng.random_range(0..140u16).to_be_bytes();
            packet[if is_4 { 2..4 } else { 4..6 }].copy_from_slice(&length);
        }
        if is_4 {
            packet[0] = 0x40 | [5, 5, 5, rng.random_range(0..16)][rng.random_range(0..4)];
            let fragment = if rng.random_bool(0.8) { [0x20 * rng.random_range(0..8), 0] } else { rng.random() };
            packet[6..8].copy_from_slice(&fragment);
            packet[9] = protocol(rng);
        } else {
            packet[6] = protocol(rng);
            for at in (40..packet.len() - 4).step_by(8) {
                (packet[at], packet[at + 1]) = (protocol(rng), packet[at + 1] & 1);
                packet[at + 2..at + 4].fill(0);
            }
        }
    }
    frame
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

fn mask(rng: &mut SmallRng, one_in: f64) -> Mask {
    (0..=255).filter(|_| rng.random_bool(one_in)).collect()
}

/// A burst, of whose packets some are gone and some were changed after their headers had been read.
fn burst(rng: &mut SmallRng, batch: &mut Batch, pool: &'static HeapPool) {
    let n = [1, 7, 16, 33, 64, 100, 256][rng.random_range(0..7)];
    let is_tagged = rng.random_bool(0.3);
    for _ in 0..n {
        let l3 = if is_tagged && rng.random() { 18 } else { 14 };
        let slot = batch.push(pool.packet(&frame(rng, l3)).unwrap(), 0).unwrap();
        batch.slot(slot).unwrap().set_l3(l3 as u8);
        batch.slot(slot).unwrap().set_next_hop(u32::from(slot) + 7);
    }
    if is_tagged {
        batch.load(mask(rng, 0.7));
    } else if rng.random() {
        batch.load_frames([2, 0, 0, 0, 0, 1]);
    }
    if rng.random() {
        batch.discard(mask(rng, 0.1));
    }
    for slot in mask(rng, 0.05) {
        let Some(mut packet) = batch.slot(slot) else { continue };
        if rng.random() {
            rng.fill(packet.frame_mut());
        } else {
            let length = rng.random_range(0..100);
            packet.resize(length).unwrap();
        }
    }
}

/// Hops that say which address they are of.
fn hop(address: u128) -> u32 {
    (address ^ address >> 32 ^ address >> 64 ^ address >> 96) as u32
}

#[test]
fn headers_read_together_are_those_of_the_frames() {
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let pool = HeapPool::leak(1024);
    let (mut with_ports, mut without) = (0, 0);
    for turn in 0..2000 * times {
        let isas = Isa::available();
        let mut batch = Batch::with_isa(pool, isas[turn as usize % isas.len()]);
        burst(&mut rng, &mut batch, pool);
        let wanted = match rng.random_range(0..3) {
            0 => Mask::ALL,
            1 => mask(&mut rng, 0.5),
            _ => batch.live() - Mask::first(batch.count() / 2),
        };
        let wanted = wanted & (batch.live() | mask(&mut rng, 0.01));
        let (mut four, mut six) = (Vec::new(), Vec::new());
        let mut addresses = [const { Vec::new() }; 4];
        for packet in batch.packets(wanted) {
            four.push(key4(&packet).unwrap_or(Key::ZERO));
            six.push(key6(&packet).unwrap_or(Key::ZERO));
            addresses[0].push(address::<20>(&packet, 12, 4));
            addresses[1].push(address::<40>(&packet, 8, 16));
            addresses[2].push(address::<20>(&packet, 16, 4));
            addresses[3].push(address::<40>(&packet, 24, 16));
        }
        for packet in batch.packets(wanted) {
            let bytes = packet.frame().get(packet.l3().into()..).unwrap_or(&[]);
            assert_eq!((tuple::key4(bytes), tuple::key6(bytes)), (key4(&packet), key6(&packet)));
        }
        assert_eq!(batch.keys4(wanted), four);
        assert_eq!(batch.keys6(wanted), six);
        let ports = four.iter().map(|key| key.source_port).chain(six.iter().map(|key| key.source_port));
        let ported = ports.filter(|port| *port != [0; 2]).count();
        (with_ports, without) = (with_ports + ported, without + 2 * four.len() - ported);
        let wanted = wanted & batch.live();
        let hops: Vec<Vec<u32>> = addresses.iter().map(|list| list.iter().map(|a| hop(*a)).collect()).collect();
        let of = |hops: &[u32; 256]| wanted.iter().map(|slot| hops[usize::from(slot)]).collect::<Vec<_>>();
        batch.look_up_sources4(wanted, |from, to| from.iter().zip(to).for_each(|(a, to)| *to = hop((*a).into())));
        assert_eq!(of(batch.source_hops()), hops[0]);
        batch.look_up_sources6(wanted, |from, to| from.iter().zip(to).for_each(|(a, to)| *to = hop(*a)));
        assert_eq!(of(batch.source_hops()), hops[1]);
        assert!(batch.live().iter().all(|slot| batch.next_hop(slot) == u32::from(slot) + 7), "packets keep theirs");
        batch.look_up4(wanted, |from, to, _| from.iter().zip(to).for_each(|(a, to)| *to = hop((*a).into())));
        assert_eq!(of(batch.next_hops()), hops[2]);
        batch.look_up6(wanted, |from, to, _| from.iter().zip(to).for_each(|(a, to)| *to = hop(*a)));
        assert_eq!(of(batch.next_hops()), hops[3]);
        let others = batch.live() - wanted;
        assert!(others.iter().all(|slot| batch.next_hop(slot) == u32::from(slot) + 7), "so do others");
    }
    println!("{with_ports} packets with ports, {without} without");
    assert!(with_ports > 10_000 && without > 10_000, "{with_ports} with, {without} without");
}
