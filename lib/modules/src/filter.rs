// SPDX-License-Identifier: MIT
//! Drops packets that the configured filters deny: the first rule that matches a packet's 5-tuple decides.
//!
//! The rules are in the tables, behind a trait: lib/dpdk matches with `rte_acl`; [`LinearFilter`] goes through the list,
//! which is what the tests compare with. Without rules the module costs one branch.
//!
//! Cost: one read of addresses and ports per packet, and one batch lookup. A fragment that has no ports matches rules for
//! port 0 or for all ports. A packet without a rule that matches goes on.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use perigee_packet::{BATCH_SIZE, Batch, ExtensionHeaders, Mask, Slot};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// What it does, for the documentation.
pub const SUMMARY: &str = "Drops what the configured 5-tuple filters deny.";

reasons! { filter:
    drop DENIED4 = "ipv4_denied", "", "a filter of the configuration denies it";
    drop DENIED6 = "ipv6_denied", "", "a filter of the configuration denies it";
}

/// A packet's 5-tuple with addresses of `N` bytes, all in network byte order; no padding between the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<const N: usize> {
    /// Upper-layer protocol, extension headers skipped.
    pub protocol: u8,
    /// Zero, so that the addresses are aligned.
    pub zero: [u8; 3],
    /// Source address.
    pub source: [u8; N],
    /// Destination address.
    pub destination: [u8; N],
    /// Source port of TCP, UDP, UDP-Lite, DCCP and SCTP, else 0.
    pub source_port: [u8; 2],
    /// Destination port, likewise.
    pub destination_port: [u8; 2],
}

/// The 5-tuple of an IPv4 packet: 16 bytes.
pub type Key4 = Key<4>;
/// The 5-tuple of an IPv6 packet: 40 bytes.
pub type Key6 = Key<16>;

impl<const N: usize> Key<N> {
    /// An empty key.
    pub const ZERO: Key<N> = Key {
        protocol: 0,
        zero: [0; 3],
        source: [0; N],
        destination: [0; N],
        source_port: [0; 2],
        destination_port: [0; 2],
    };
}

/// A compiled list of rules; `denied[i]` is set for each key that is to be dropped and cleared for the others. Both
/// slices have the same length, at most [`BATCH_SIZE`].
pub trait Filter: Send + Sync {
    /// For IPv4.
    fn match4(&self, keys: &[Key4], denied: &mut [bool]);
    /// For IPv6.
    fn match6(&self, keys: &[Key6], denied: &mut [bool]);
}

/// A rule of a filter list. Source and destination are of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Source prefix: address and length.
    pub source: (IpAddr, u8),
    /// Destination prefix: address and length.
    pub destination: (IpAddr, u8),
    /// Protocol; `None` for all.
    pub protocol: Option<u8>,
    /// Source ports.
    pub source_ports: RangeInclusive<u16>,
    /// Destination ports.
    pub destination_ports: RangeInclusive<u16>,
    /// Drop what matches? Else it goes on.
    pub deny: bool,
}

/// The plain list, first match wins: slow and obviously right.
#[derive(Debug, Clone, Default)]
pub struct LinearFilter(pub Vec<Rule>);

impl LinearFilter {
    fn denies<const N: usize>(&self, key: &Key<N>, address: impl Fn([u8; N]) -> IpAddr) -> bool {
        let matches = |rule: &&Rule| {
            in_prefix(address(key.source), rule.source)
                && in_prefix(address(key.destination), rule.destination)
                && rule.protocol.is_none_or(|protocol| protocol == key.protocol)
                && rule.source_ports.contains(&u16::from_be_bytes(key.source_port))
                && rule.destination_ports.contains(&u16::from_be_bytes(key.destination_port))
        };
        self.0.iter().find(matches).is_some_and(|rule| rule.deny)
    }
}

impl Filter for LinearFilter {
    fn match4(&self, keys: &[Key4], denied: &mut [bool]) {
        for (key, denied) in keys.iter().zip(denied) {
            *denied = self.denies(key, |a| IpAddr::V4(Ipv4Addr::from(a)));
        }
    }

    fn match6(&self, keys: &[Key6], denied: &mut [bool]) {
        for (key, denied) in keys.iter().zip(denied) {
            *denied = self.denies(key, |a| IpAddr::V6(Ipv6Addr::from(a)));
        }
    }
}

fn in_prefix(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => u64::from(u32::from(a) ^ u32::from(n)) >> (32 - length.min(32)) == 0,
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            length == 0 || (u128::from(a) ^ u128::from(n)) >> (128 - length.min(128)) == 0
        }
        _ => false,
    }
}

/// The module.
pub fn filter(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let Some(filter) = ctx.tables.filter.clone() else { return };
    ctx.counters.module(ModuleId::filter, ip4.count() + ip6.count());
    let denied4 = denied(batch, *ip4, key4, |keys, denied| filter.match4(keys, denied));
    let denied6 = denied(batch, *ip6, key6, |keys, denied| filter.match6(keys, denied));
    ctx.drop(batch, denied4, DENIED4);
    ctx.drop(batch, denied6, DENIED6);
    *ip4 -= denied4;
    *ip6 -= denied6;
}

fn denied<const N: usize>(
    batch: &mut Batch,
    mask: Mask,
    key: impl Fn(&Slot<'_>) -> Option<Key<N>>,
    matcher: impl FnOnce(&[Key<N>], &mut [bool]),
) -> Mask {
    let mut keys = [Key::ZERO; BATCH_SIZE];
    let mut verdicts = [false; BATCH_SIZE];
    let mut n = 0;
    for packet in batch.packets(mask) {
        // A packet whose ports lie beyond its end has an empty key but for its addresses; it is never unchecked.
        keys[n] = key(&packet).unwrap_or(Key::ZERO);
        n += 1;
    }
    matcher(&keys[..n], &mut verdicts[..n]);
    (mask & batch.live()).iter().zip(verdicts).filter_map(|(slot, denied)| denied.then_some(slot)).collect()
}

fn key4(packet: &Slot<'_>) -> Option<Key4> {
    let header = packet.network::<20>()?;
    let mut key = Key::ZERO;
    key.protocol = header[9];
    key.source.copy_from_slice(&header[12..16]);
    key.destination.copy_from_slice(&header[16..20]);
    let first_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    if first_fragment {
        let at = usize::from(packet.l3()) + usize::from(header[0] & 0x0f) * 4;
        set_ports(&mut key, packet.frame().get(at..).unwrap_or(&[]));
    }
    Some(key)
}

fn key6(packet: &Slot<'_>) -> Option<Key6> {
    let header = packet.network::<40>()?;
    let mut key = Key::ZERO;
    key.source.copy_from_slice(&header[8..24]);
    key.destination.copy_from_slice(&header[24..40]);
    key.protocol = header[6];
    let payload = packet.frame().get(usize::from(packet.l3()) + 40..).unwrap_or(&[]);
    // Where the chain is broken, or longer than any sender has a use for, the protocol stays the first header's.
    if let Ok(upper) = ExtensionHeaders::new(key.protocol, payload).upper_layer() {
        key.protocol = upper.protocol;
        if upper.has_header() {
            set_ports(&mut key, upper.payload);
        }
    }
    Some(key)
}

/// The ports of a protocol that has them, from its header's first bytes.
fn set_ports<const N: usize>(key: &mut Key<N>, upper: &[u8]) {
    if let (TCP | UDP | DCCP | SCTP | UDP_LITE, &[a, b, c, d, ..]) = (key.protocol, upper) {
        key.source_port = [a, b];
        key.destination_port = [c, d];
    }
}
