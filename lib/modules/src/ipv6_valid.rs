// SPDX-License-Identifier: MIT
//! Is it a valid IPv6 packet that may be forwarded (RFC 8200 section 3, RFC 4291 section 2)?
//!
//! Valid packets go on, also those to groups that reach beyond their link where there are multicast routes. Hop-by-hop options,
//! other groups and link-local addresses go to the slow path, and so do sources that are the router's own addresses (it knows
//! whether they are in use: another station may have won them) and packets that are longer than what was received, for an
//! ICMP Parameter Problem. Other broken ones and addresses that no packet on a wire may have are dropped, each under its
//! reason. Bytes behind the packet are cut off; those that pad the shortest Ethernet frame are set to zero.
//!
//! Cost: arithmetic on columns, eight or sixteen packets at a time; a read of the header's addresses, and one of a small table for the source
//! (`lib/fib/src/own.rs`). Everything unusual is examined out of line.

use crate::context::Context;
use crate::ipv4_valid::{SHORTEST_FRAME, cut};
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::OwnAddresses;
use perigee_net::is_forwarded_group;
use perigee_packet::batch::columns::View;
use perigee_packet::batch::lanes::{Kernel, Lanes};
use perigee_packet::{Batch, Mask, Slot};
use std::net::Ipv6Addr;

/// What it does, for the documentation.
pub const SUMMARY: &str =
    "Drops broken IPv6 packets; sends hop-by-hop options, multicast and link-local ones to the slow path.";

reasons! { ipv6_valid:
    drop SHORT = "short", "RFC 8200 3", "fewer bytes than an IPv6 header has";
    drop VERSION = "version", "RFC 8200 3", "the version is not 6";
    punt TRUNCATED = "truncated", "RFC 4443 3.4", "the payload length is more than was received";
    drop MULTICAST_SOURCE = "multicast_source", "RFC 4291 2.7", "the source is a multicast group";
    drop LOOPBACK = "loopback", "RFC 4291 2.5.3", "source or destination is ::1";
    drop UNSPECIFIED = "unspecified", "RFC 4291 2.5.2", "source or destination is ::";
    punt OWN_SOURCE = "own_source", "RFC 4862 5.4.4", "the source is an address of the router's own, or another station has it as well";
    punt HOP_BY_HOP = "hop_by_hop", "RFC 8200 4.3", "a hop-by-hop options header follows";
    punt MULTICAST = "multicast", "RFC 4291 2.7", "the destination is a multicast group that is not forwarded";
    punt LINK_LOCAL = "link_local", "RFC 4291 2.5.6", "source or destination is link-local: never forwarded";
}

/// The module.
pub fn ipv6_valid(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    if !ctx.counters.enter(ModuleId::ipv6_valid, *mask) {
        return;
    }
    batch.load_destinations6(*mask);
    let loaded = batch.load(*mask);
    let own = ctx.tables.interfaces.own().marks6();
    let (isa, count) = (batch.isa(), batch.count());
    let [plain, padded] = isa.sort(count, &mut Valid { columns: batch.view() });
    // What has not 40 bytes has the destination 0, which is not a plain one.
    let destinations = batch.destinations6();
    let [plain] = batch.headers::<24, 1>(plain & loaded, |slot, header| {
        let source = header[8..].first_chunk::<16>().copied().unwrap_or_default();
        [is_plain_address((destinations[slot] >> 120) as u8) & !own.may_have6(source)]
    });
    for mut packet in batch.packets(padded & plain) {
        let header = packet.network::<6>().copied().unwrap_or_default();
        let end = usize::from(packet.l3()) + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        cut(&mut packet, end);
    }
    let suspect = *mask - plain;
    if !suspect.is_empty() {
        *mask = (*mask - suspect) | look_again(ctx, batch, suspect);
    }
}

/// Finds nearly all packets by the words before the addresses and the source's first byte: a valid header, nothing but padding behind the
/// packet. The second mask has those with padding.
struct Valid<'a> {
    columns: View<'a>,
}

impl Kernel<2> for Valid<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 2] {
        let View { words, length, l3, .. } = self.columns;
        let [first, second, source] = [0, 1, 2].map(|i| L::load(&words[i], at));
        let version = L::equal(L::and(first, L::splat(0xf0)), L::splat(0x60));
        // The payload's length, big-endian, then the next header, of which 0 is hop-by-hop options.
        let total = L::add(L::shr::<16>(L::swap(second)), L::splat(40));
        let frame = L::load16(length, at);
        let available = L::sub(frame, L::load8(l3, at));
        let exact = L::equal(total, available);
        let padded = L::except(L::greater(available, total), L::greater(frame, L::splat(SHORTEST_FRAME as u32)));
        let hop_by_hop = L::equal(L::and(second, L::splat(0xff << 16)), L::splat(0));
        // A plain address by its first byte, as below.
        let byte = L::and(source, L::splat(0xff));
        let plain_source = L::both(L::greater(byte, L::splat(0)), L::greater(L::splat(0xfe), byte));
        let header = L::except(L::both(version, plain_source), hop_by_hop);
        [L::bits(L::both(header, L::either(exact, padded))), L::bits(padded)]
    }
}

/// By its first byte: neither ::/8, which holds :: and ::1, nor fe00::/7, which holds link-local addresses and groups.
#[inline(always)]
fn is_plain_address(first: u8) -> bool {
    (first != 0) & (first < 0xfe)
}

#[inline(never)]
fn look_again(ctx: &mut Context, batch: &mut Batch, suspect: Mask) -> Mask {
    let mut fine = Mask::EMPTY;
    let (interfaces, groups) = (ctx.tables.interfaces.clone(), ctx.multicast.in_burst);
    for slot in suspect {
        let Some(mut packet) = batch.slot(slot) else { continue };
        match verdict(&mut packet, interfaces.own(), groups) {
            None => fine.set(slot),
            Some(reason @ (TRUNCATED | OWN_SOURCE | HOP_BY_HOP | MULTICAST | LINK_LOCAL)) => {
                ctx.punt(batch, Mask::only(slot), reason)
            }
            Some(reason) => ctx.drop(batch, Mask::only(slot), reason),
        }
    }
    fine
}

/// Why the packet cannot go on; `None` if it can. With `groups`, packets to groups are forwarded.
fn verdict(packet: &mut Slot<'_>, own: &OwnAddresses, groups: bool) -> Option<crate::Reason> {
    let l3 = usize::from(packet.l3());
    let bytes = packet.frame().get(l3..).unwrap_or(&[]);
    let Some(header) = bytes.first_chunk::<40>() else { return Some(SHORT) };
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| u128::from_be_bytes(std::array::from_fn(|i| header[at + i]));
    let (source, destination) = (address(8), address(24));
    let is_forwarded = |a: u128| is_forwarded_group(Ipv6Addr::from_bits(a).into());
    let is_link_local = |a: u128| Ipv6Addr::from_bits(a).is_unicast_link_local();
    if header[0] >> 4 != 6 {
        Some(VERSION)
    } else if total > bytes.len() {
        Some(TRUNCATED)
    } else if source >> 120 == 0xff {
        Some(MULTICAST_SOURCE)
    } else if source == 1 || destination == 1 {
        Some(LOOPBACK)
    } else if destination >> 120 == 0xff && !(source != 0 && groups && is_forwarded(destination)) {
        Some(MULTICAST)
    } else if source == 0 || destination == 0 {
        Some(UNSPECIFIED)
    } else if is_link_local(source) || is_link_local(destination) {
        Some(LINK_LOCAL)
    } else if own.find(Ipv6Addr::from_bits(source).into()).is_some() {
        Some(OWN_SOURCE)
    } else if header[6] == 0 {
        Some(HOP_BY_HOP)
    } else {
        cut(packet, l3 + total);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, changed, fuzz, tagged, udp6};
    use perigee_fib::synth::Random;
    use std::collections::BTreeMap;

    /// What happens to one frame: its length if it goes on, else the reason.
    fn checked(frame: &[u8], l3: u8) -> Result<usize, String> {
        let mut rig = Rig::new();
        let slot = rig.receive(0, frame);
        rig.batch.slot(slot).unwrap().set_l3(l3);
        let mask = rig.run(ipv6_valid);
        assert_eq!(mask, rig.batch.live());
        match &rig.reasons()[..] {
            [] => Ok(rig.batch.frame(slot).unwrap().len()),
            [(name, 1)] => Err(name.strip_prefix("ipv6_valid.").unwrap().to_owned()),
            more => panic!("{more:?}"),
        }
    }

    /// The frame from and to these addresses; `None` leaves the good one.
    fn between(source: Option<&str>, destination: Option<&str>) -> Vec<u8> {
        changed(udp6(1, 8), |frame| {
            for (at, address) in [(22, source), (38, destination)] {
                if let Some(address) = address {
                    frame[at..at + 16].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets());
                }
            }
        })
    }

    #[test]
    fn headers() {
        let good = udp6(1, 8);
        assert_eq!(checked(&good, 14), Ok(70));
        for length in 14..54 {
            assert_eq!(checked(&good[..length], 14), Err("short".to_owned()));
        }
        assert_eq!(checked(&good[..69], 14), Err("truncated".to_owned()));
        assert_eq!(checked(&changed(good.clone(), |f| f[14] = 0x45), 14), Err("version".to_owned()));
        assert_eq!(checked(&changed(good.clone(), |f| f[20] = 0), 14), Err("hop_by_hop".to_owned()));
        assert_eq!(checked(&changed(good.clone(), |f| f[20] = 60), 14), Ok(70), "other extensions are the receiver's");
        assert_eq!(checked(&changed(good.clone(), |f| f.resize(99, 7)), 14), Ok(70), "bytes behind the packet");
        assert_eq!(checked(&tagged(changed(good, |f| f.resize(99, 7)), 0, 30), 18), Ok(74));
        let empty = changed(udp6(1, 8), |f| {
            f.truncate(60);
            f[19] = 0;
        });
        assert_eq!(checked(&empty, 14), Ok(60), "padding of the shortest frame");
    }

    #[test]
    fn addresses() {
        let reason = |source, destination| checked(&between(source, destination), 14).err().unwrap_or_default();
        assert_eq!(reason(Some("ff02::1"), None), "multicast_source");
        assert_eq!(reason(Some("::1"), None), "loopback");
        assert_eq!(reason(None, Some("::1")), "loopback");
        assert_eq!(reason(Some("::"), None), "unspecified");
        assert_eq!(reason(None, Some("::")), "unspecified");
        assert_eq!(reason(None, Some("ff0e::5")), "multicast");
        assert_eq!(reason(Some("::"), Some("ff02::1:ff00:1")), "multicast", "duplicate address detection");
        assert_eq!(reason(Some("fe80::1"), None), "link_local");
        assert_eq!(reason(None, Some("febf::1")), "link_local");
        // Looked at twice, and fine.
        for address in ["fec0::1", "fe7f::1", "64:ff9b::1", "::2", "::ffff:1.2.3.4", "fd00::1"] {
            assert_eq!(reason(Some(address), Some(address)), "", "{address}");
        }
    }

    // RFC 4291 2.1, RFC 4862 5.4.4: whether the address is in use, or another station's, the slow path knows.
    #[test]
    fn a_source_that_only_the_router_has() {
        let mut rig = Rig::new();
        rig.change_interface(3, |interface| {
            interface.addresses = vec!["2001:db8:9::1/64".parse().unwrap(), "fe80::9/64".parse().unwrap()];
        });
        for (source, expected) in
            [("2001:db8:9::1", Some("own_source")), ("2001:db8:9::2", None), ("fe80::9", Some("link_local"))]
        {
            rig.batch.refill();
            rig.receive_classified(&between(Some(source), None));
            assert_eq!(rig.run(ipv6_valid).is_empty(), expected.is_some());
            let punted = rig.punted.try_recv().ok().map(|punted| punted.reason);
            assert_eq!(punted, expected.map(|name| if name == "own_source" { OWN_SOURCE } else { LINK_LOCAL }));
        }
        rig.receive_classified(&between(None, Some("2001:db8:9::1")));
        assert!(!rig.run(ipv6_valid).is_empty(), "to the router");
    }

    /// The rules once more, without regard to speed; `None` if the packet goes on.
    fn oracle(packet: &[u8]) -> Option<&'static str> {
        let address = |at| packet.get(at..at + 16).map(|b: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(b).unwrap()));
        let (Some(source), Some(destination)) = (address(8), address(24)) else { return Some("short") };
        let payload = 256 * usize::from(packet[4]) + usize::from(packet[5]);
        let rules = [
            (packet[0] / 16 != 6, "version"),
            (40 + payload > packet.len(), "truncated"),
            (source.is_multicast(), "multicast_source"),
            (source.is_loopback() || destination.is_loopback(), "loopback"),
            (destination.is_multicast(), "multicast"),
            (source.is_unspecified() || destination.is_unspecified(), "unspecified"),
            (source.is_unicast_link_local() || destination.is_unicast_link_local(), "link_local"),
            (packet[6] == 0, "hop_by_hop"),
        ];
        rules.iter().find(|(broken, _)| *broken).map(|(_, name)| *name)
    }

    fn random_packet(random: &mut Random) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..30 + random.below(60)).map(|_| random.bits() as u8).collect();
        if packet.len() < 40 || random.below(16) == 0 {
            return packet;
        }
        packet[0] = 0x60 | packet[0] & 15;
        let spare = if random.below(2) == 0 { random.below(packet.len() as u32 - 39) as usize } else { 0 };
        let payload = packet.len() - 40 - spare;
        packet[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        for at in [8, 24] {
            match random.below(16) {
                0 => packet[at..at + 16].fill(0),
                1 => packet[at..at + 15].fill(0),
                2 => packet[at..at + 2].copy_from_slice(&[0xfe, 0x40 | random.bits() as u8]),
                3 => packet[at..at + 2].copy_from_slice(&[0xfe, 0x80 | random.bits() as u8]),
                _ => packet[at] = 0x20,
            }
            if random.below(16) == 0 {
                packet[at + 15] = 1;
            }
        }
        if random.below(4) == 0 {
            let at = [0, 4, 5, 6, 8, 24][random.below(6) as usize];
            packet[at] = [0, 1, 0x60, 0xff, random.bits() as u8][random.below(5) as usize];
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
            let mut expected: BTreeMap<_, _> = rig.reasons().into_iter().collect();
            let mut fine = Mask::EMPTY;
            for _ in 0..=random.below(3) {
                let packet = random_packet(&mut random);
                let slot = rig.receive_classified(&[&[0; 14], &packet[..]].concat());
                let verdict = oracle(&packet);
                fine.set_if(slot, verdict.is_none());
                *seen.entry(verdict.unwrap_or("fine")).or_default() += 1;
                if let Some(name) = verdict {
                    *expected.entry(format!("ipv6_valid.{name}")).or_default() += 1;
                }
                done += 1;
            }
            let bytes: Vec<_> = rig.batch.live().iter().map(|slot| rig.batch.frame(slot).unwrap().to_vec()).collect();
            assert_eq!(rig.run(ipv6_valid), fine, "{bytes:02x?}");
            assert_eq!(rig.reasons().into_iter().collect::<BTreeMap<_, _>>(), expected, "{bytes:02x?}");
            rig.punted.try_iter().for_each(drop);
        }
        println!("{seen:?}");
        assert!(count < 10_000 || (seen.len() == 10 && seen.values().all(|n| *n > count / 1000)), "{seen:?}");
    }
}
