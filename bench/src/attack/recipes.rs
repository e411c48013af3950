// SPDX-License-Identifier: MIT
//! Garbage as data: a frame as a row of words, and what is computed once all of it is there.
//!
//! | word | means |
//! | --- | --- |
//! | hexadecimal digits | these bytes |
//! | `any:N`, `zero:N` | as many random bytes, or zeros |
//! | `router`, `station` | the router's MAC address, and a random one |
//! | `own4`, `own6` | the router's address on the attacked link |
//! | `near4`, `near6`, `link6` | a random address on that link, and a link-local one |
//! | `far4`, `far6` | a random address elsewhere |
//!
//! Packets to IPv6 groups go to the router's MAC address, so that the other stations of the link, whose kernels share
//! the machine's tables with the bystanders, do not get them.

use super::kinds::{EDGE4, EDGE6, LONGEST, ROUTER4, ROUTER6};
use anyhow::{Context as _, Result, ensure};
use perigee_fib::synth::Random;
use perigee_net::MacAddr;
use perigee_packet::wire::checksum::{checksum, pseudo_v4, pseudo_v6, sum};
use perigee_packet::wire::{ethernet, ipv4, ipv6};
use perigee_packet::{Ipv4, Ipv6};

/// A kind of garbage.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    pub name: &'static str,
    words: &'static str,
    fixes: &'static [Fix],
}

/// What is computed when the frame is there. Numbers are bytes from the frame's begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fix {
    /// The length and the checksum of the IPv4 header there.
    V4(usize),
    /// Its checksum alone.
    Sum4(usize),
    /// The payload length of the IPv6 header.
    V6,
    /// The checksum of everything from a place on, which is so many bytes behind it, without a pseudo-header.
    Plain(usize, usize),
    /// The same with the pseudo-header of IPv4, or IPv6, for this protocol.
    Pseudo4(usize, usize, u8),
    Pseudo6(usize, usize, u8),
}

use Fix::{Plain, Pseudo4, Pseudo6, Sum4, V4, V6};

/// Behind an IPv4 header, and behind one of IPv6.
const AT4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
const AT6: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;

/// An IPv4 packet to the router.
macro_rules! v4 {
    ($protocol:literal, $source:literal, $rest:literal) => {
        concat!("router station 0800 45000000 any:2 0000 40 ", $protocol, " 0000 ", $source, " own4 ", $rest)
    };
}

/// An IPv6 packet; where it does not say otherwise, to the router.
macro_rules! v6 {
    ($next:literal, $hops:literal, $source:literal, $rest:literal) => {
        concat!("router station 86dd 60000000 0000 ", $next, " ", $hops, " ", $source, " own6 ", $rest)
    };
    ($mac:literal, $next:literal, $hops:literal, $source:literal, $to:literal, $rest:literal) => {
        concat!($mac, " station 86dd 60000000 0000 ", $next, " ", $hops, " ", $source, " ", $to, " ", $rest)
    };
}

const fn recipe(name: &'static str, words: &'static str, fixes: &'static [Fix]) -> Recipe {
    Recipe { name, words, fixes }
}

/// All of them.
pub static RECIPES: &[Recipe] = &[
    recipe("UDP from the link", v4!("11", "near4", "any:4 0018 0000 zero:16"), &[V4(14)]),
    recipe("ICMP timestamps from the link", v4!("01", "near4", "0d00 0000 any:16"), &[V4(14), Plain(AT4, 2)]),
    recipe(
        "SYNs from the link",
        v4!("06", "near4", "any:2 00b3 any:4 00000000 5002 ffff 00000000"),
        &[V4(14), Pseudo4(AT4, 16, 6)],
    ),
    recipe(
        "UDP over IPv6 from the link",
        v6!("11", "40", "near6", "any:4 0010 0000 zero:8"),
        &[V6, Pseudo6(AT6, 6, 17)],
    ),
    recipe(
        "SYNs over IPv6 from the link",
        v6!("06", "40", "near6", "any:2 00b3 any:4 00000000 5002 ffff 00000000"),
        &[V6, Pseudo6(AT6, 16, 6)],
    ),
    recipe(
        "router advertisements",
        v6!("router", "3a", "ff", "link6", "ff02 zero:13 01", "8600 0000 40 00 0000 zero:8 0101 station"),
        &[V6, Pseudo6(AT6, 2, 58)],
    ),
    recipe(
        "router solicitations",
        v6!("router", "3a", "ff", "link6", "ff02 zero:13 02", "8500 0000 zero:4 0101 station"),
        &[V6, Pseudo6(AT6, 2, 58)],
    ),
    recipe("IPv6 redirects", v6!("3a", "ff", "link6", "8900 0000 zero:4 link6 far6"), &[V6, Pseudo6(AT6, 2, 58)]),
    recipe(
        "ICMPv6 packets too big",
        v6!("3a", "40", "far6", "0200 0000 00000500 60000000 0010 11 40 own6 far6"),
        &[V6, Pseudo6(AT6, 2, 58)],
    ),
    recipe(
        "MLD reports",
        v6!(
            "router",
            "00",
            "01",
            "link6",
            "ff02 zero:13 16",
            "3a00 0502 0000 0100 8f00 0000 0000 0001 04000000 ff0e any:14"
        ),
        &[V6, Pseudo6(AT6 + 8, 2, 58)],
    ),
    recipe(
        "duplicate address detection of the router's",
        v6!("router", "3a", "ff", "zero:16", "ff02 zero:9 01ff000001", "8700 0000 zero:4 own6"),
        &[V6, Pseudo6(AT6, 2, 58)],
    ),
    recipe("malformed ND", v6!("3a", "ff", "near6", "8700 0000 zero:4 own6 0100 station"), &[V6, Pseudo6(AT6, 2, 58)]),
    recipe("atomic IPv6 fragments", v6!("2c", "40", "far6", "1100 0000 any:4 any:4 0010 0000 zero:8"), &[V6]),
    recipe("overlapping IPv6 fragments", v6!("2c", "40", "far6", "1100 00 any:1 000000 any:1 zero:24"), &[V6]),
    recipe("tiny IPv6 fragments", v6!("2c", "40", "far6", "0600 0001 any:4 any:8"), &[V6]),
    recipe(
        "IPv6 header chains",
        v6!("00", "40", "far6", "3c00 010400000000 3c00 010400000000 3c00 010400000000 1100 010400000000 any:8"),
        &[V6],
    ),
    recipe("IPv6 router alerts", v6!("00", "40", "far6", "1100 0502 0000 0100 any:4 0008 0000"), &[V6]),
    recipe("unknown hop-by-hop options", v6!("00", "40", "far6", "1100 9e04 00000000 any:8"), &[V6]),
    recipe("unknown destination options", v6!("3c", "40", "near6", "1100 9e04 00000000 any:8"), &[V6]),
    recipe("routing headers of type 0", v6!("2b", "40", "far6", "1102 0001 00000000 far6 any:8"), &[V6]),
    recipe("jumbograms", v6!("00", "40", "far6", "1100 c204 00010000 any:16"), &[]),
    recipe(
        "ARP of the router's address",
        "ffffffffffff station 0806 0001 0800 0604 0001 station own4 zero:6 near4",
        &[],
    ),
    recipe("ARP of groups", "ffffffffffff station 0806 0001 0800 0604 0001 01005e any:3 near4 zero:6 own4", &[]),
    recipe("ARP of another link", "ffffffffffff station 0806 0001 0800 0604 0001 station 0a01 any:2 zero:6 own4", &[]),
    recipe("ARP nonsense", "ffffffffffff station 0806 any:28", &[]),
    recipe("VLAN tags in VLAN tags", "router station 8100 any:2 8100 any:2 88a8 any:2 0800 any:20", &[]),
    recipe(
        "priority tags",
        "router station 8100 e000 0800 45000000 any:2 0000 40 11 0000 far4 own4 any:4 0008 0000",
        &[V4(18)],
    ),
    recipe("spanning tree", "0180c2000000 station 0026 424203 any:35", &[]),
    recipe("pause frames", "0180c2000001 station 8808 0001 ffff", &[]),
    recipe("groups as stations", "router 01005e any:3 0800 45000000 any:2 0000 40 11 0000 far4 own4 any:8", &[V4(14)]),
    recipe("wrong IPv4 checksums", "router station 0800 45000024 any:2 0000 40 11 any:2 far4 own4 any:16", &[]),
    recipe("IPv4 martians", v4!("11", "7f any:3", "any:4 0008 0000"), &[V4(14)]),
    recipe("IPv6 martians", v6!("11", "40", "ff02 any:14", "any:4 0008 0000"), &[V6]),
    recipe("teardrops", "router station 0800 45000000 00 any:1 20 any:1 40 11 0000 far4 own4 any:24", &[V4(14)]),
    recipe("pings of death", "router station 0800 45000000 any:2 1fff 40 01 0000 far4 own4 any:24", &[V4(14)]),
    recipe("other ICMP from the link", v4!("01", "near4", "any:1 00 0000 any:16"), &[V4(14), Plain(AT4, 2)]),
    recipe("unknown protocols from the link", v4!("any:1", "near4", "any:16"), &[V4(14)]),
    recipe("lengths that lie", "router station 0800 4500 any:2 any:2 0000 40 11 0000 far4 own4 any:16", &[Sum4(14)]),
];

impl Recipe {
    /// Writes a frame for the router with this MAC address; its length.
    pub fn frame(&self, random: &mut Random, router: MacAddr, buffer: &mut [u8; LONGEST]) -> Result<usize> {
        let mut frame = Vec::with_capacity(LONGEST);
        for word in self.words.split_whitespace() {
            append(&mut frame, word, random, router).with_context(|| format!("{}: the word {word}", self.name))?;
        }
        self.fixes.iter().for_each(|fix| fix.apply(&mut frame));
        ensure!(frame.len() <= LONGEST, "{}: {} bytes", self.name, frame.len());
        buffer.fill(0);
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(frame.len().max(60))
    }
}

fn append(frame: &mut Vec<u8>, word: &str, random: &mut Random, router: MacAddr) -> Result<()> {
    let bits = random.bits();
    // The first 256 addresses of a link are those of real hosts: nobody speaks in their names.
    let low = (bits as u32 & 0xffff).max(0x100);
    let station = [2, 0xed, (bits >> 32) as u8, (bits >> 40) as u8, (bits >> 8) as u8, bits as u8];
    match word {
        "router" => frame.extend(router.octets()),
        "station" => frame.extend(station),
        "own4" => frame.extend(ROUTER4.octets()),
        "own6" => frame.extend(ROUTER6.octets()),
        "near4" => frame.extend((EDGE4 << 16 | low).to_be_bytes()),
        "near6" => frame.extend((EDGE6 | u128::from(bits >> 8 | 1 << 40)).to_be_bytes()),
        "link6" => frame.extend((0xfe80 << 112 | u128::from(bits >> 8 | 1 << 40)).to_be_bytes()),
        "far4" => frame.extend((30 << 24 | bits as u32 & 0xff_ffff).to_be_bytes()),
        "far6" => frame.extend((0x2001_0db8_0030_0000 << 64 | u128::from(bits)).to_be_bytes()),
        _ => match word.split_once(':') {
            Some(("any", count)) => frame.extend((0..count.parse()?).map(|_| random.bits() as u8)),
            Some(("zero", count)) => frame.resize(frame.len() + count.parse::<usize>()?, 0),
            _ => {
                for at in (0..word.len()).step_by(2) {
                    frame.push(u8::from_str_radix(word.get(at..at + 2).context("an odd number of digits")?, 16)?);
                }
            }
        },
    }
    Ok(())
}

impl Fix {
    fn apply(self, frame: &mut [u8]) {
        match self {
            V4(at) => {
                let length = (frame.len() - at) as u16;
                frame[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
                Sum4(at).apply(frame);
            }
            Sum4(at) => {
                let sum = checksum(&frame[at..at + ipv4::HEADER_LEN]);
                frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
            }
            V6 => {
                let length = (frame.len() - AT6) as u16;
                frame[18..20].copy_from_slice(&length.to_be_bytes());
            }
            Plain(at, place) => {
                let sum = checksum(&frame[at..]);
                frame[at + place..at + place + 2].copy_from_slice(&sum.to_be_bytes());
            }
            Pseudo4(at, place, protocol) => {
                let Ok(packet) = Ipv4::new(&frame[ethernet::HEADER_LEN..]) else { return };
                let pseudo = pseudo_v4(packet.source(), packet.destination(), protocol, (frame.len() - at) as u16);
                fill(frame, at, place, pseudo);
            }
            Pseudo6(at, place, protocol) => {
                let Ok(packet) = Ipv6::new(&frame[ethernet::HEADER_LEN..]) else { return };
                let length = frame.len() - at;
                let pseudo = pseudo_v6(&packet.source(), &packet.destination(), protocol, length as u32);
                fill(frame, at, place, pseudo);
            }
        }
    }
}

/// Puts a checksum in its place.
fn fill(frame: &mut [u8], at: usize, place: usize, pseudo: u32) {
    let folded = super::kinds::fold(pseudo + sum(&frame[at..]));
    frame[at + place..at + place + 2].copy_from_slice(&(!folded).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::ethernet::ethertype;
    use perigee_packet::wire::{icmp4, icmp6, protocol};

    /// Garbage that is dropped for another reason than the one it is made for proves nothing.
    #[test]
    fn what_recipes_compute_is_right() {
        let (mut random, mut buffer) = (Random::new(1), [0; LONGEST]);
        for recipe in RECIPES {
            for _ in 0..20 {
                let length = recipe.frame(&mut random, MacAddr([2, 0, 0, 0, 0, 1]), &mut buffer).unwrap();
                let frame = ethernet::Ethernet::new(&buffer[..length]).unwrap();
                let computes = |which: fn(&Fix) -> bool| recipe.fixes.iter().any(which);
                if frame.ethertype() == ethertype::IPV4 && computes(|fix| matches!(fix, V4(14) | Sum4(14))) {
                    let packet = Ipv4::new_truncated(frame.payload()).unwrap();
                    assert!(packet.verify_checksum(), "{}", recipe.name);
                    if packet.protocol() == protocol::ICMP && computes(|fix| matches!(fix, Plain(..))) {
                        let icmp = icmp4::Icmp4::new(&frame.payload()[20..packet.total_len()]).unwrap();
                        assert!(icmp.verify_checksum(), "{}", recipe.name);
                    }
                }
                if frame.ethertype() == ethertype::IPV6 && computes(|fix| matches!(fix, Pseudo6(AT6, 2, 58))) {
                    let packet = Ipv6::new(frame.payload()).unwrap();
                    let icmp = icmp6::Icmp6::new(&frame.payload()[40..40 + packet.payload_len()]).unwrap();
                    assert!(icmp.verify_checksum(&packet.source(), &packet.destination()), "{}", recipe.name);
                }
            }
        }
    }

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<&str> = super::super::kinds::Kind::all().iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
