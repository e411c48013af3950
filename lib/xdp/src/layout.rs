// SPDX-License-Identifier: MIT
//! What the in-kernel plane and the router share: the values of the maps, as in `bpf/plane.h`. A test compares the two
//! by the object's type information.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Ports, of which 0 is none.
pub const PORTS: usize = 256;
pub(crate) const LINK_SLOTS: usize = 1024;
pub(crate) const LINK_PROBES: usize = 16;
/// Interfaces of the router.
pub const INTERFACES: usize = 4096;
/// Receive queues of a port.
pub const QUEUES: usize = 128;
pub(crate) const VLAN_SLOTS: usize = 8192;
pub(crate) const VLAN_PROBES: usize = 8;
pub(crate) const MARK_WORDS: usize = 2048;
/// Rules of a family, filters and what is steered together.
pub const RULES: usize = 256;
pub(crate) const REASONS: usize = 512;
/// Bytes of a line of the arena.
pub const LINE: usize = 64;

pub(crate) const PORT_UNTAGGED: u8 = 1;
pub(crate) const PORT_STATIONS: u8 = 2;
pub(crate) const PORT_VLANS: u8 = 4;
pub(crate) const PORT_ALL_UP: u8 = 8;
pub(crate) const PORT_GENERIC: u8 = 16;

/// `struct port`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Port {
    pub mac: u64,
    pub untagged: u16,
    pub flags: u8,
    pub up: u8,
    pub zero: u32,
}

pub(crate) const INTERFACE_HERE: u16 = 1;
pub(crate) const INTERFACE_REDIRECTS: u16 = 2;
pub(crate) const INTERFACE_LOOSE: u16 = 4;
pub(crate) const INTERFACE_STRICT: u16 = 8;
pub(crate) const INTERFACE_SENDS: u16 = 16;
pub(crate) const INTERFACE_NO_ADDRESS: u16 = 32;

/// `struct interface`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Interface {
    pub mac: u64,
    pub port: u16,
    pub mtu: u16,
    pub vlan: u16,
    pub flags: u16,
}

pub(crate) const RULE_PORTS: u16 = 1;
pub(crate) const RULE_PROTOCOL: u16 = 2;
pub(crate) const RULE_DENY: u16 = 4;

/// `struct rule_tail`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RuleTail {
    pub source_first: u16,
    pub source_last: u16,
    pub destination_first: u16,
    pub destination_last: u16,
    pub protocol_first: u8,
    pub protocol_last: u8,
    pub flags: u16,
    pub number: u16,
    pub zero: u16,
}

/// `struct rule4`; addresses as they are in a packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Rule4 {
    pub source: [u8; 4],
    pub source_mask: [u8; 4],
    pub destination: [u8; 4],
    pub destination_mask: [u8; 4],
    pub tail: RuleTail,
}

/// `struct rule6`; addresses as they are in a packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Rule6 {
    pub source: [u8; 16],
    pub source_mask: [u8; 16],
    pub destination: [u8; 16],
    pub destination_mask: [u8; 16],
    pub tail: RuleTail,
}

pub(crate) const LEAVES_WIDE: u32 = 1;

/// `struct settings`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Settings {
    pub flags: u32,
    pub nodes: u32,
    pub leaves: u32,
    pub groups: u32,
    pub bytes: u32,
    pub codes: u32,
    pub words6: u32,
    pub default6: u32,
    pub next_hops: u32,
    pub next_hop_count: u32,
    pub buckets: u32,
    pub bucket_count: u32,
    pub seed: u32,
    pub neighbors: u32,
    pub neighbor_mask: u32,
    pub rules4: u32,
    pub rules6: u32,
    pub all_rules4: u32,
    pub all_rules6: u32,
    pub mark_shift4: u32,
    pub mark_shift6: u32,
    pub zero: u32,
    pub secret: [u64; 3],
    pub links: [u64; LINK_SLOTS],
    pub ports: [Port; PORTS],
    pub interfaces: [Interface; INTERFACES],
    pub vlans: [u64; VLAN_SLOTS],
    pub marks4: [u32; MARK_WORDS],
    pub marks6: [u32; MARK_WORDS],
    pub list4: [Rule4; RULES],
    pub list6: [Rule6; RULES],
}

/// `struct port_counters`, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PortCounters {
    /// Frames that the plane finished or gave to Linux, by the port they came in on.
    pub received: u64,
    /// Bytes of these, as they came.
    pub received_bytes: u64,
    /// Frames given to the port's AF_XDP socket, which are in no other counter.
    pub handed_on: u64,
    /// Frames sent, by the port they left by.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
}

/// `struct counters`: of one processor, or of all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counters {
    /// Packets dropped, and those given to Linux, by number of reason.
    pub reasons: [u64; REASONS],
    /// Forwarded packets of IPv4 and of IPv6.
    pub forwarded: [u64; 2],
    /// Packets that each rule decided about, by its number.
    pub hits: [u64; 2 * RULES],
    /// By port.
    pub ports: [PortCounters; PORTS],
    pub(crate) next_redirect: u64,
    pub(crate) zero: u64,
}

impl Counters {
    /// How many words it has.
    pub(crate) const WORDS: usize = size_of::<Counters>() / 8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct, StructMember};
    use std::mem::offset_of;

    /// The offsets of a structure's fields, by name, and its size, as the object has them.
    fn layout(btf: &Btf<'_>, name: &str) -> (usize, Vec<(String, usize)>) {
        let found: Struct<'_> = btf.type_by_name(name).unwrap_or_else(|| panic!("the object has no struct {name}"));
        let field = |member: StructMember<'_>| {
            let MemberAttr::Normal { offset } = member.attr else { panic!("a bit field") };
            (member.name.expect("a name").to_string_lossy().into_owned(), offset as usize / 8)
        };
        (HasSize::size(&found), found.iter().map(field).collect())
    }

    macro_rules! check {
        ($btf:ident, $name:literal, $structure:ty, $($field:ident)*) => {
            let fields = vec![$((stringify!($field).to_owned(), offset_of!($structure, $field)),)*];
            assert_eq!(layout(&$btf, $name), (size_of::<$structure>(), fields), "struct {}", $name);
        };
    }

    #[test]
    fn the_object_has_the_same_structures() {
        let btf = Btf::from_raw("plane", crate::load::OBJECT).expect("the object").expect("its type information");
        check!(btf, "port", Port, mac untagged flags up zero);
        check!(btf, "interface", Interface, mac port mtu vlan flags);
        check!(btf, "rule_tail", RuleTail, source_first source_last destination_first destination_last
            protocol_first protocol_last flags number zero);
        check!(btf, "rule4", Rule4, source source_mask destination destination_mask tail);
        check!(btf, "rule6", Rule6, source source_mask destination destination_mask tail);
        check!(btf, "settings", Settings, flags nodes leaves groups bytes codes words6 default6 next_hops next_hop_count
            buckets bucket_count seed neighbors neighbor_mask rules4 rules6 all_rules4 all_rules6 mark_shift4
            mark_shift6 zero secret links ports interfaces vlans marks4 marks6 list4 list6);
        check!(btf, "port_counters", PortCounters, received received_bytes handed_on sent sent_bytes);
        check!(btf, "counters", Counters, reasons forwarded hits ports next_redirect zero);
    }
}
