// SPDX-License-Identifier: MIT
//! Is it a valid IPv4 packet, by RFC 1812 section 5.2.2?
//!
//! Valid packets go on. Those with options go to the slow path, and so do those that are longer than what was received, for an
//! ICMP Parameter Problem. Packets to a group go on where there are multicast routes and the group reaches beyond its link,
//! else to the slow path. Other broken ones are dropped, each under its reason, and so are addresses that no packet on a wire
//! may have (RFC 1812 5.3.7), as a source also those of the router itself and of all hosts of one of its networks. For the header checksum
//! the device's verdict counts if there is one, otherwise it is computed; this cannot be switched off. Bytes behind the packet are
//! cut off; those that pad the shortest Ethernet frame are set to zero, as what was in the sender's memory is not to be passed on.
//!
//! Cost: arithmetic on columns, eight or sixteen packets at a time; the frames are not touched. The source costs a read of a small table
//! besides (`lib/fib/src/own.rs`). Everything unusual is examined out of line.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::{Marks, OwnAddress, OwnAddresses};
use perigee_net::is_forwarded_group;
use perigee_packet::batch::columns::View;
use perigee_packet::batch::flags;
use perigee_packet::batch::lanes::{Kernel, Lanes, Words};
use perigee_packet::wire::ipv4;
use perigee_packet::{Batch, Ipv4, Malformed, Mask, Slot};

/// What it does, for the documentation.
pub const SUMMARY: &str =
    "Drops broken IPv4 packets and martian addresses; sends packets with options to the slow path.";

// `computed` in the kernel below takes the flag for a number.
const _: () = assert!(flags::IPV4_CHECKSUM_GOOD == 1);

reasons! { ipv4_valid:
    drop SHORT = "short", "RFC 1812 5.2.2 (1)", "fewer bytes than an IPv4 header has";
    drop CHECKSUM = "checksum", "RFC 1812 5.2.2 (2)", "the header checksum is wrong";
    drop VERSION = "version", "RFC 1812 5.2.2 (3)", "the version is not 4";
    drop HEADER_LENGTH = "header_length", "RFC 1812 5.2.2 (4)", "the header length is less than 5 words, or more than the frame has";
    drop TOTAL_LENGTH = "total_length", "RFC 1812 5.2.2 (5)", "the total length is less than the header's";
    punt TRUNCATED = "truncated", "RFC 1812 5.2.2", "the total length is more than was received";
    drop MARTIAN_SOURCE = "martian_source", "RFC 1812 5.3.7", "the source is 0/8, 127/8, a group, 240/4 or the broadcast address of a network of the router's";
    drop OWN_SOURCE = "own_source", "RFC 1812 5.3.7", "the source is an address of the router's own";
    drop MARTIAN_DESTINATION = "martian_destination", "RFC 1812 5.3.7", "the destination is 0/8, 127/8 or 240/4";
    punt LINK_LOCAL = "link_local", "RFC 3927 7", "source or destination is in 169.254/16: never forwarded";
    punt OPTIONS = "options", "RFC 1812 5.2.4", "the header has options";
    punt MULTICAST = "multicast", "RFC 1812 5.2.1", "the destination is a multicast group that is not forwarded";
}

/// Shortest Ethernet frame without FCS, in bytes: shorter ones are padded to it.
pub(crate) const SHORTEST_FRAME: usize = 60;

/// The module.
pub fn ipv4_valid(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    if !ctx.counters.enter(ModuleId::ipv4_valid, *mask) {
        return;
    }
    let loaded = batch.load(*mask);
    let own = Own::new(ctx.tables.interfaces.own().marks4());
    let (isa, count) = (batch.isa(), batch.count());
    let [plain, exact] = isa.sort(count, &mut Valid { columns: batch.view(), own });
    let mut plain = plain & loaded;
    for slot in plain - exact {
        // Something is behind the packet: mostly what pads the shortest frame.
        if !clear_padding(batch, slot) {
            plain.clear(slot);
        }
    }
    let suspect = *mask - plain;
    if !suspect.is_empty() {
        *mask = (*mask - suspect) | look_again(ctx, batch, suspect);
    }
}

/// Sets what pads the shortest frame to zero; false for what is behind the packet in a longer one.
fn clear_padding(batch: &mut Batch, slot: u8) -> bool {
    let Some(mut packet) = batch.slot(slot).filter(|packet| packet.frame().len() <= SHORTEST_FRAME) else {
        return false;
    };
    let header = packet.network::<4>().copied().unwrap_or_default();
    let end = usize::from(packet.l3()) + usize::from(u16::from_be_bytes([header[2], header[3]]));
    packet.fill_from(end, 0);
    true
}

/// Finds nearly all packets: a valid header without options, unicast addresses, nothing missing of the packet. The second mask has those
/// with nothing behind the packet.
struct Valid<'a> {
    columns: View<'a>,
    own: Own<'a>,
}

impl Kernel<2> for Valid<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 2] {
        let View { words, length, l3, flags, .. } = self.columns;
        let [first, second, third, source, destination] = words.each_ref().map(|word| L::load(word, at));
        let low = |word| L::and(word, L::splat(0xffff));

        // Version 4, no options; the length is a big-endian number in the upper half.
        let header = L::equal(L::and(first, L::splat(0xff)), L::splat(0x45));
        let total = low(L::swap(first));
        let available = L::sub(L::load16(length, at), L::load8(l3, at));
        let lengths = L::except(L::greater(total, L::splat(19)), L::greater(total, available));

        // The one's complement sum of 16-bit words, in whatever byte order they are added (RFC 1071): all ones for a right checksum. What
        // the device found counts instead, if it found something.
        let mut sum = L::splat(0);
        for word in [first, second, third, source, destination] {
            sum = L::add(sum, L::add(low(word), L::shr::<16>(word)));
        }
        let sum = L::add(low(sum), L::shr::<16>(sum));
        let sum = L::add(low(sum), L::shr::<16>(sum));
        let wrong = L::sub(L::splat(0xffff), sum);
        let found = L::load8(flags, at);
        let computed = L::sub(L::and(found, L::splat(flags::IPV4_CHECKSUM_GOOD.into())), L::splat(1));
        let bad = L::and(found, L::splat(flags::IPV4_CHECKSUM_BAD.into()));
        let checked = L::equal(L::or(L::and(wrong, computed), bad), L::splat(0));

        let addresses = L::both(is_plain::<L>(source), is_plain::<L>(destination));
        let plain = L::both(L::both(header, lengths), L::both(checked, addresses));
        let plain = L::except(plain, self.own.may_have::<L>(source));
        [L::bits(plain), L::bits(L::equal(total, available))]
    }
}

/// The marks of the router's own addresses.
struct Own<'a> {
    marks: Words<'a>,
    shift: u32,
}

impl<'a> Own<'a> {
    fn new(marks: &'a Marks) -> Own<'a> {
        let (words, shift) = marks.words();
        Own { marks: Words::new(words).expect("the number of marks is a power of two"), shift }
    }

    /// [`Marks::may_have4`], of several addresses at once.
    #[inline(always)]
    fn may_have<L: Lanes>(&self, address: L::Word) -> L::Truth {
        let bit = L::shr_each(L::mul(address, L::splat(Marks::SPREAD4)), L::splat(self.shift));
        let word = L::gather(self.marks, L::shr::<5>(bit));
        L::equal(L::and(L::shr_each(word, bit), L::splat(1)), L::splat(1))
    }
}

/// By its first byte, which is a word's lowest: an address that one host may have, and that is surely not link-local. 0/8, 127/8, groups
/// and 240/4 are none.
#[inline(always)]
fn is_plain<L: Lanes>(address: L::Word) -> L::Truth {
    let byte = L::and(address, L::splat(0xff));
    let is = |other: u32| L::equal(byte, L::splat(other));
    let unicast = L::both(L::greater(byte, L::splat(0)), L::greater(L::splat(224), byte));
    L::except(L::except(unicast, is(127)), is(169))
}

/// By its first byte: an address that one host may have.
const fn is_unicast(first: u8) -> bool {
    first.wrapping_sub(1) < 223 && first != 127
}

/// Finds out what is wrong with packets; returns those that are fine after all.
#[inline(never)]
fn look_again(ctx: &mut Context, batch: &mut Batch, odd: Mask) -> Mask {
    let mut fine = Mask::EMPTY;
    let (interfaces, groups) = (ctx.tables.interfaces.clone(), ctx.multicast.in_burst);
    for slot in odd {
        let Some(mut packet) = batch.slot(slot) else { continue };
        let only = Mask::only(slot);
        match verdict(&mut packet, interfaces.own(), groups) {
            Verdict::Fine => fine.set(slot),
            Verdict::Drop(reason) => ctx.drop(batch, only, reason),
            Verdict::Punt(reason) => ctx.punt(batch, only, reason),
        }
    }
    fine
}

enum Verdict {
    Fine,
    Drop(crate::Reason),
    Punt(crate::Reason),
}

/// The checks in the order of RFC 1812 5.2.2, then the addresses. With `groups`, packets to groups are forwarded.
fn verdict(packet: &mut Slot<'_>, own: &OwnAddresses, groups: bool) -> Verdict {
    let l3 = usize::from(packet.l3());
    let bytes = packet.frame().get(l3..).unwrap_or(&[]);
    let checked = match packet.flags() & (flags::IPV4_CHECKSUM_GOOD | flags::IPV4_CHECKSUM_BAD) {
        0 => ipv4::validate(bytes),
        flags::IPV4_CHECKSUM_GOOD => Ipv4::new(bytes),
        _ if bytes.len() < ipv4::HEADER_LEN => Err(Malformed::Short),
        _ => Err(Malformed::Checksum),
    };
    let header = match checked {
        Ok(header) => header,
        Err(Malformed::Short) => return Verdict::Drop(SHORT),
        Err(Malformed::Checksum) => return Verdict::Drop(CHECKSUM),
        Err(Malformed::Version) => return Verdict::Drop(VERSION),
        Err(Malformed::TotalLength) if Ipv4::new_truncated(bytes).is_ok() => return Verdict::Punt(TRUNCATED),
        Err(Malformed::TotalLength) => return Verdict::Drop(TOTAL_LENGTH),
        Err(_) => return Verdict::Drop(HEADER_LENGTH),
    };
    let (source, destination, total) = (header.source(), header.destination(), header.total_len());
    let sender = own.find(source.into());
    let forwarded = groups && is_forwarded_group(destination.into());
    // A host that does not know its address yet may speak to a group (RFC 1122 3.2.1.3): the slow path knows when.
    if forwarded && source.is_unspecified() {
        Verdict::Punt(MULTICAST)
    } else if !is_unicast(source.octets()[0]) || sender == Some(OwnAddress::Broadcast) {
        Verdict::Drop(MARTIAN_SOURCE)
    } else if sender == Some(OwnAddress::Own) {
        Verdict::Drop(OWN_SOURCE)
    } else if destination.is_multicast() && !forwarded {
        Verdict::Punt(MULTICAST)
    } else if !forwarded && !is_unicast(destination.octets()[0]) {
        Verdict::Drop(MARTIAN_DESTINATION)
    } else if source.is_link_local() || destination.is_link_local() {
        Verdict::Punt(LINK_LOCAL)
    } else if header.has_options() {
        Verdict::Punt(OPTIONS)
    } else {
        cut(packet, l3 + total);
        Verdict::Fine
    }
}

/// Cuts off what is behind a packet that ends at `end`, or clears it where it pads the shortest frame.
pub(crate) fn cut(packet: &mut Slot<'_>, end: usize) {
    let frame = packet.frame().len();
    if frame > end && frame <= SHORTEST_FRAME {
        packet.frame_mut()[end..].fill(0);
    } else if frame > end {
        let shortened = packet.resize(end);
        debug_assert!(shortened.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, changed, changed4, fix_checksum, fuzz, tagged, udp4, with_options};
    use perigee_fib::synth::Random;
    use std::collections::BTreeMap;

    /// What happens to one frame: its length if it goes on, else the reason.
    fn checked(frame: &[u8], l3: u8, flags: u8) -> Result<usize, String> {
        let mut rig = Rig::new();
        let slot = rig.receive(0, frame);
        let mut packet = rig.batch.slot(slot).unwrap();
        packet.set_l3(l3);
        packet.set_flags(flags);
        let mask = rig.run(ipv4_valid);
        assert_eq!(mask, rig.batch.live());
        match &rig.reasons()[..] {
            [] => Ok(rig.batch.frame(slot).unwrap().len()),
            [(name, 1)] => Err(name.strip_prefix("ipv4_valid.").unwrap().to_owned()),
            more => panic!("{more:?}"),
        }
    }

    fn reason(frame: &[u8]) -> String {
        checked(frame, 14, 0).expect_err("refused")
    }

    #[test]
    fn rfc_1812_5_2_2_in_its_order() {
        let good = udp4(1, 40);
        assert_eq!(checked(&good, 14, 0), Ok(82));
        assert_eq!(reason(&good[..33]), "short");
        assert_eq!(reason(&good[..14]), "short");
        assert_eq!(reason(&changed(good.clone(), |f| f[24] ^= 1)), "checksum");
        let changed = |change: fn(&mut Vec<u8>)| changed4(good.clone(), change);
        assert_eq!(reason(&changed(|f| f[14] = 0x55)), "version");
        assert_eq!(reason(&changed(|f| f[14] = 0x44)), "header_length");
        assert_eq!(reason(&changed(|f| f.splice(14.., [0x4f; 40]).for_each(drop))), "header_length", "60 of 40 bytes");
        assert_eq!(reason(&changed(|f| f[14] = 0x54)), "version", "before the header length");
        assert_eq!(reason(&changed(|f| f[17] = 19)), "total_length");
        assert_eq!(reason(&changed(|f| f[17] = 69)), "truncated");
        assert_eq!(reason(&good[..81]), "truncated");
        assert_eq!(reason(&changed(|f| f[26] = 224)), "martian_source");
        assert_eq!(reason(&changed(|f| f[30] = 240)), "martian_destination");
        assert_eq!(reason(&changed(|f| f[30] = 224)), "multicast");
        assert_eq!(reason(&with_options(1, &[1; 4])), "options");
        assert_eq!(reason(&with_options(1, &[1; 40])), "options");
        assert_eq!(reason(&changed4(with_options(1, &[1; 4]), |f| f[17] = 20)), "total_length");
    }

    #[test]
    fn addresses_that_no_packet_may_have() {
        for first in 0..=255u8 {
            let source = checked(&changed4(udp4(1, 40), |f| f[26] = first), 14, 0);
            let destination = checked(&changed4(udp4(1, 40), |f| f[30] = first), 14, 0);
            let (expected_source, expected_destination) = match first {
                0 | 127 | 240.. => (Some("martian_source"), Some("martian_destination")),
                224..=239 => (Some("martian_source"), Some("multicast")),
                // 169/8 is looked at twice.
                _ => (None, None),
            };
            assert_eq!(source.err().as_deref(), expected_source, "from {first}.0.0.0/8");
            assert_eq!(destination.err().as_deref(), expected_destination, "to {first}.0.0.0/8");
        }
    }

    // RFC 1812 5.3.7: addresses of the router itself, and of all hosts of a network of its; RFC 3927 7.
    #[test]
    fn ipv4_row_42_sources_that_only_the_router_has() {
        let mut rig = Rig::new();
        rig.change_interface(3, |interface| interface.addresses = vec!["10.9.8.7/24".parse().unwrap()]);
        let mut run = |source: [u8; 4], destination: [u8; 4]| {
            rig.batch.refill();
            rig.receive_classified(&changed4(udp4(1, 40), |f| {
                f[26..30].copy_from_slice(&source);
                f[30..34].copy_from_slice(&destination);
            }));
            let before: BTreeMap<_, _> = rig.reasons().into_iter().collect();
            let goes_on = !rig.run(ipv4_valid).is_empty();
            let after = rig.reasons().into_iter().find(|(name, count)| before.get(name) != Some(count));
            assert_eq!(goes_on, after.is_none());
            after.map_or_else(String::new, |(name, _)| name)
        };
        assert_eq!(run([10, 9, 8, 7], [10, 1, 0, 9]), "ipv4_valid.own_source");
        assert_eq!(run([10, 9, 8, 255], [10, 1, 0, 9]), "ipv4_valid.martian_source");
        assert_eq!(run([10, 9, 8, 0], [10, 1, 0, 9]), "ipv4_valid.martian_source");
        assert_eq!(run([10, 9, 8, 6], [10, 1, 0, 9]), "");
        assert_eq!(run([10, 9, 8, 6], [10, 9, 8, 7]), "", "to the router");
        assert_eq!(run([169, 254, 0, 1], [10, 1, 0, 9]), "ipv4_valid.link_local");
        assert_eq!(run([10, 9, 8, 6], [169, 254, 255, 255]), "ipv4_valid.link_local");
        assert_eq!(run([169, 253, 0, 1], [169, 255, 0, 1]), "");
    }

    #[test]
    fn the_device_may_have_checked_the_checksum() {
        use flags::{IPV4_CHECKSUM_BAD as BAD, IPV4_CHECKSUM_GOOD as GOOD};
        let good = udp4(1, 40);
        let bad = changed(good.clone(), |f| f[24] ^= 1);
        assert_eq!(checked(&bad, 14, GOOD), Ok(82), "its word counts");
        assert_eq!(checked(&good, 14, BAD), Err("checksum".to_owned()));
        assert_eq!(checked(&good, 14, BAD | GOOD), Err("checksum".to_owned()));
        assert_eq!(checked(&good, 14, flags::HASH), Ok(82));
        assert_eq!(checked(&changed(good.clone(), |f| f[14] = 0x65), 14, GOOD), Err("version".to_owned()));
        assert_eq!(checked(&good[..20], 14, BAD), Err("short".to_owned()));
    }

    #[test]
    fn trailing_bytes_are_cut_off_but_for_padding() {
        let with_tail = |payload: usize, length: usize| changed(udp4(1, payload), |f| f.resize(length, 0xee));
        assert_eq!(checked(&with_tail(1, 60), 14, 0), Ok(60), "padding of the shortest frame");
        let mut rig = Rig::new();
        // What the sender had in its memory is not passed on.
        for frame in [with_tail(1, 60), with_tail(18, 60), with_tail(1, 50)] {
            rig.batch.refill();
            let slot = rig.receive_classified(&frame);
            assert_eq!(rig.run(ipv4_valid), Mask::only(slot));
            let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let passed = rig.batch.frame(slot).unwrap();
            assert_eq!((&passed[..end], passed[end..].iter().all(|byte| *byte == 0)), (&frame[..end], true));
        }
        assert_eq!(checked(&with_tail(1, 61), 14, 0), Ok(43));
        assert_eq!(checked(&with_tail(40, 200), 14, 0), Ok(82));
        assert_eq!(checked(&tagged(with_tail(40, 200), 0, 30), 18, 0), Ok(86));
        assert_eq!(checked(&tagged(with_tail(1, 60), 0, 30), 18, 0), Ok(47), "64 bytes with a tag");
    }

    /// The rules once more, literally and without regard to speed; `None` if the packet goes on.
    fn oracle(packet: &[u8], device: u8) -> Option<&'static str> {
        if packet.len() < 20 {
            return Some("short");
        }
        let header = 4 * usize::from(packet[0] % 16);
        let there = (20..=packet.len()).contains(&header);
        let mut sum = 0;
        for i in (0..if there { header } else { 0 }).step_by(2) {
            sum += 256 * u32::from(packet[i]) + u32::from(packet[i + 1]);
            sum = sum % 65536 + sum / 65536;
        }
        let total = 256 * usize::from(packet[2]) + usize::from(packet[3]);
        let (source, destination) = (packet[12], packet[16]);
        let link_local = packet[12..14] == [169, 254] || packet[16..18] == [169, 254];
        let rules = [
            (if device == 0 { there && sum != 65535 } else { device != 1 }, "checksum"),
            (packet[0] / 16 != 4, "version"),
            (!there, "header_length"),
            (total < header, "total_length"),
            (total > packet.len(), "truncated"),
            (matches!(source, 0 | 127 | 224..), "martian_source"),
            (matches!(destination, 224..=239), "multicast"),
            (matches!(destination, 0 | 127 | 240..), "martian_destination"),
            (link_local, "link_local"),
            (header > 20, "options"),
        ];
        rules.iter().find(|(broken, _)| *broken).map(|(_, name)| *name)
    }

    /// A packet that is random, or nearly valid.
    fn random_packet(random: &mut Random) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..random.below(90)).map(|_| random.bits() as u8).collect();
        if packet.len() < 20 || random.below(16) == 0 {
            return packet;
        }
        // Valid but for the options, in a quarter of the cases; then up to two fields are drawn again.
        packet[0] = if random.below(4) == 0 { 0x40 | random.bits() as u8 & 15 } else { 0x45 };
        let total = packet.len() - if random.below(2) == 0 { random.below(packet.len() as u32) as usize } else { 0 };
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        (packet[12], packet[16]) = (10, 192);
        if random.below(16) == 0 {
            let at = [12, 16][random.below(2) as usize];
            packet[at..at + 2].copy_from_slice(&[169, 254]);
        }
        for _ in 0..random.below(3) {
            let at = [0, 2, 3, 3, 12, 12, 16, 16, 8][random.below(9) as usize];
            packet[at] = random.bits() as u8;
        }
        fix_checksum(&mut packet);
        if random.below(6) == 0 {
            let at = random.below(packet.len() as u32) as usize;
            packet[at] ^= 1 << random.below(8);
        }
        packet
    }

    #[test]
    fn agrees_with_a_plain_validator() {
        let (mut random, count) = fuzz();
        let mut rig = Rig::new();
        let mut seen: BTreeMap<_, u64> = BTreeMap::new();
        let mut done = 0;
        while done < count {
            rig.batch.refill();
            let before: BTreeMap<_, _> = rig.reasons().into_iter().collect();
            let mut expected: BTreeMap<_, _> = before.clone();
            let mut fine = Mask::EMPTY;
            // Few packets at a time, so that no two of them can swap their reasons often.
            for _ in 0..=random.below(3) {
                let packet = random_packet(&mut random);
                let device = if random.below(8) == 0 { random.below(4) as u8 } else { 0 };
                let slot = rig.receive_classified(&[&[0; 14], &packet[..]].concat());
                rig.batch.slot(slot).unwrap().set_flags(device);
                let verdict = oracle(&packet, device);
                fine.set_if(slot, verdict.is_none());
                *seen.entry(verdict.unwrap_or("fine")).or_default() += 1;
                if let Some(name) = verdict {
                    *expected.entry(format!("ipv4_valid.{name}")).or_default() += 1;
                }
                // Up to here the view's own validation checks what this one does.
                if device == 0 {
                    let passes = !matches!(
                        verdict,
                        Some("short" | "checksum" | "version" | "header_length" | "total_length" | "truncated")
                    );
                    assert_eq!(ipv4::validate(&packet).is_ok(), passes, "{packet:02x?}");
                }
                done += 1;
            }
            let bytes: Vec<_> = rig.batch.live().iter().map(|slot| rig.batch.frame(slot).unwrap().to_vec()).collect();
            assert_eq!(rig.run(ipv4_valid), fine, "{bytes:02x?}");
            assert_eq!(rig.reasons().into_iter().collect::<BTreeMap<_, _>>(), expected, "{bytes:02x?}");
            rig.punted.try_iter().for_each(drop);
        }
        println!("{seen:?}");
        assert!(count < 10_000 || (seen.len() == 12 && seen.values().all(|n| *n > count / 1000)), "{seen:?}");
    }
}
