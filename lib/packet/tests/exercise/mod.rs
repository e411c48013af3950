// SPDX-License-Identifier: MIT
//! Calls everything that a view has, on any bytes: one function per view, shared by `cargo test` and by the fuzz target
//! `views`.
//!
//! Each returns whether the view accepted the bytes. If it did, what it reports must be consistent, and what the
//! setters write must read back. Setters may leave wrong lengths behind; reading must survive these as well.

use std::fmt::Debug;
use std::hint::black_box as keep;

use perigee_net::MacAddr;
use perigee_packet::wire::arp::Arp;
use perigee_packet::wire::{flow, icmp4, ipv4, vlan};
use perigee_packet::{Ethernet, Icmp4, Icmp6, Ipv4, Ipv4Options, Ipv6, Ipv6Options, Malformed, NdOptions, Udp, Vlan};

/// A source of values to write: splitmix64, from the bytes themselves, so that a failing input fails again.
struct Values(u64);

impl Values {
    fn of(bytes: &[u8]) -> Self {
        Values(
            bytes.iter().fold(bytes.len() as u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ word >> 27
    }

    fn bits<V: TryFrom<u64, Error: Debug>>(&mut self, bits: u32) -> V {
        V::try_from(self.next() >> (64 - bits)).unwrap()
    }

    fn mac(&mut self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.next().to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    fn address_6(&mut self) -> std::net::Ipv6Addr {
        (u128::from(self.next()) << 64 | u128::from(self.next())).into()
    }
}

/// Writes a value and expects to read it back.
macro_rules! round_trip {
    ($view:expr, $($set:ident => $get:ident: $value:expr),+ $(,)?) => {
        $(
            let value = $value;
            $view.$set(value);
            assert_eq!($view.$get(), value, stringify!($set));
        )+
    };
}

/// Reads every item; after an error there is none.
fn drain<I: Debug>(mut items: impl Iterator<Item = Result<I, Malformed>>, most: usize) {
    let mut count = 0;
    while let Some(item) = items.next() {
        count += 1;
        assert!(count <= most, "more items than bytes");
        if keep(item).is_err() {
            assert!(items.next().is_none(), "an item after an error");
        }
    }
}

/// [`Ethernet`], [`vlan::innermost`] and the flow hash.
pub fn ethernet(bytes: &[u8]) -> bool {
    let found = vlan::innermost(bytes);
    if let Ok(found) = found {
        assert!(found.offset <= bytes.len() && found.offset == 14 + 4 * usize::from(found.tags));
        keep(flow::symmetric_hash(bytes, found.offset, found.ethertype));
    }
    keep(flow::symmetric_hash(bytes, 14, 0x0800));
    keep(flow::symmetric_hash(bytes, bytes.len() + 1, 0x86dd));
    let Ok(frame) = Ethernet::new(bytes) else {
        assert!(bytes.len() < 14 && found.is_err());
        return false;
    };
    assert_eq!(frame.payload().len() + 14, bytes.len());
    drain(vlan::Tags::new(frame.ethertype(), frame.payload()), bytes.len());
    let mut values = Values::of(bytes);
    let mut copy = bytes.to_vec();
    let mut frame = Ethernet::new(&mut copy[..]).unwrap();
    round_trip!(frame,
        set_destination => destination: values.mac(),
        set_source => source: values.mac(),
        set_ethertype => ethertype: values.bits(16),
    );
    assert_eq!(frame.payload_mut(), &bytes[14..]);
    true
}

/// [`Vlan`].
pub fn vlan(bytes: &[u8]) -> bool {
    let Ok(tag) = Vlan::new(bytes) else { return false };
    assert_eq!(tag.payload().len() + 4, bytes.len());
    let mut values = Values::of(bytes);
    let mut copy = bytes.to_vec();
    let mut tag = Vlan::new(&mut copy[..]).unwrap();
    let (pcp, dei, vid) = (values.bits(3), values.bits::<u8>(1) == 1, values.bits(12));
    tag.set_pcp(pcp);
    tag.set_dei(dei);
    tag.set_vid(vid);
    tag.set_ethertype(0x0800);
    assert_eq!((tag.pcp(), tag.dei(), tag.vid(), tag.ethertype()), (pcp, dei, vid, 0x0800));
    true
}

/// [`Arp`].
pub fn arp(bytes: &[u8]) -> bool {
    let Ok(packet) = Arp::new(bytes) else { return false };
    let mut buf = [0; 28];
    assert_eq!(packet.repr().emit(&mut buf), Ok(28));
    assert_eq!(buf, bytes[..28]);
    let mut values = Values::of(bytes);
    let mut copy = bytes.to_vec();
    let mut packet = Arp::new(&mut copy[..]).unwrap();
    round_trip!(packet,
        set_operation => operation: values.bits(16),
        set_sender_mac => sender_mac: values.mac(),
        set_sender_ip => sender_ip: values.bits::<u32>(32).into(),
        set_target_mac => target_mac: values.mac(),
        set_target_ip => target_ip: values.bits::<u32>(32).into(),
    );
    true
}

fn read_ipv4(packet: &Ipv4<impl AsRef<[u8]>>) {
    assert!((20..=60).contains(&packet.header_len()) && packet.header().len() == packet.header_len());
    keep((packet.tos(), packet.dscp(), packet.ecn(), packet.identification(), packet.ttl(), packet.protocol()));
    keep((packet.checksum(), packet.verify_checksum(), packet.source(), packet.destination(), packet.has_options()));
    assert_eq!(packet.is_fragment(), packet.more_fragments() || packet.fragment_offset() > 0);
    keep((packet.dont_fragment(), packet.payload()));
    drain(packet.options(), 40);
    let mut options = packet.options();
    while options.next().is_some() {
        assert!(options.offset() < packet.header_len() - 20);
    }
}

/// [`Ipv4`], its validation and its options.
pub fn ipv4(bytes: &[u8]) -> bool {
    drain(Ipv4Options::new(bytes), bytes.len());
    if let Ok(packet) = Ipv4::new_truncated(bytes) {
        read_ipv4(&packet);
        assert!(packet.total_len() >= packet.header_len());
    }
    let Ok(packet) = Ipv4::new(bytes) else {
        assert!(ipv4::validate(bytes).is_err(), "validate must be stricter than new");
        return false;
    };
    read_ipv4(&packet);
    assert_eq!(packet.payload().len(), packet.total_len() - packet.header_len());
    assert_eq!(ipv4::validate(bytes).is_ok(), packet.verify_checksum());
    let mut copy = bytes.to_vec();
    let mut packet = Ipv4::new(&mut copy[..]).unwrap();
    packet.fill_checksum();
    assert!(packet.verify_checksum());
    packet.decrement_ttl();
    assert!(packet.verify_checksum());
    write_ipv4(&mut packet, &mut Values::of(bytes));
    true
}

fn write_ipv4(packet: &mut Ipv4<&mut [u8]>, values: &mut Values) {
    round_trip!(packet,
        set_tos => tos: values.bits(8),
        set_identification => identification: values.bits(16),
        set_ttl => ttl: values.bits(8),
        set_protocol => protocol: values.bits(8),
        set_checksum => checksum: values.bits(16),
        set_source => source: values.bits::<u32>(32).into(),
        set_destination => destination: values.bits::<u32>(32).into(),
    );
    let (dont, more, offset) = (values.bits::<u8>(1) == 1, values.bits::<u8>(1) == 1, values.bits::<usize>(13) * 8);
    packet.set_fragment(dont, more, offset);
    assert_eq!((packet.dont_fragment(), packet.more_fragments(), packet.fragment_offset()), (dont, more, offset));
    packet.options_mut().fill(values.bits(8));
    packet.set_total_len(values.bits(16));
    assert_eq!(packet.payload().to_vec(), packet.payload_mut());
    read_ipv4(packet);
}

/// [`Icmp4`] and its messages.
pub fn icmp4(bytes: &[u8]) -> bool {
    let Ok(view) = Icmp4::new(bytes) else { return false };
    keep((view.kind(), view.code(), view.checksum(), view.verify_checksum(), icmp4::is_error(view.kind())));
    let message = view.message();
    let mut copy = vec![0; message.len()];
    assert_eq!(message.emit(&mut copy), Ok(bytes.len()));
    let mut view = Icmp4::new(&mut copy[..]).unwrap();
    assert!(view.verify_checksum());
    assert_eq!(view.message(), message);
    let mut values = Values::of(bytes);
    round_trip!(view,
        set_kind => kind: values.bits(8),
        set_code => code: values.bits(8),
        set_checksum => checksum: values.bits(16),
    );
    view.set_rest(values.bits(32));
    view.body_mut().fill(1);
    view.fill_checksum();
    assert!(view.verify_checksum());
    keep(view.message());
    true
}

fn read_ipv6(packet: &Ipv6<impl AsRef<[u8]>>) {
    keep((packet.traffic_class(), packet.flow_label(), packet.next_header(), packet.hop_limit()));
    keep((packet.source(), packet.destination()));
    let end = 40 + packet.payload().len();
    drain(packet.extension_headers(), 9);
    for header in packet.extension_headers().flatten() {
        assert!(header.offset + header.bytes.len() <= end);
        keep((header.fragment(), header.routing()));
        drain(header.options(), header.bytes.len());
    }
    if let Ok(upper) = packet.upper_layer() {
        assert_eq!(upper.offset + upper.payload.len(), end);
        assert!(upper.has_header() || upper.is_fragment());
    }
}

/// [`Ipv6`], its extension headers and their options.
pub fn ipv6(bytes: &[u8]) -> bool {
    drain(Ipv6Options::new(bytes), bytes.len());
    if let Ok(packet) = Ipv6::new_truncated(bytes) {
        read_ipv6(&packet);
    }
    let Ok(packet) = Ipv6::new(bytes) else { return false };
    assert_eq!(packet.payload().len(), packet.payload_len());
    let mut values = Values::of(bytes);
    let mut copy = bytes.to_vec();
    let mut packet = Ipv6::new(&mut copy[..]).unwrap();
    // They share a byte: neither may touch the other.
    let (class, label) = (values.bits(8), values.bits(20));
    packet.set_flow_label(label);
    packet.set_traffic_class(class);
    assert_eq!((packet.traffic_class(), packet.flow_label()), (class, label));
    packet.set_flow_label(!label & 0xf_ffff);
    assert_eq!((packet.traffic_class(), packet.flow_label()), (class, !label & 0xf_ffff));
    round_trip!(packet,
        set_next_header => next_header: values.bits(8),
        set_hop_limit => hop_limit: values.bits(8),
        set_source => source: values.address_6(),
        set_destination => destination: values.address_6(),
    );
    packet.decrement_hop_limit();
    packet.set_payload_len(values.bits(16));
    assert_eq!(packet.payload().to_vec(), packet.payload_mut());
    read_ipv6(&packet);
    assert!(Ipv6::new_truncated(&copy[..]).is_ok(), "the version is untouched");
    true
}

fn read_icmp6(view: &Icmp6<impl AsRef<[u8]>>) {
    use perigee_packet::wire::icmp6::Message::*;
    keep((view.kind(), view.code(), view.checksum()));
    match view.message() {
        RouterSolicitation { options }
        | RouterAdvertisement { options, .. }
        | NeighborSolicitation { options, .. }
        | NeighborAdvertisement { options, .. }
        | Redirect { options, .. } => {
            let well_formed = options.clone().all(|option| option.is_ok());
            assert_eq!(options.source_link_layer().is_ok(), well_formed);
            assert_eq!(options.target_link_layer().is_ok(), well_formed);
            drain(options, view.body().len());
        }
        other => drop(keep(other)),
    }
}

/// [`Icmp6`], its messages and the options of neighbor discovery.
pub fn icmp6(bytes: &[u8]) -> bool {
    drain(NdOptions::new(bytes), bytes.len());
    let Ok(view) = Icmp6::new(bytes) else { return false };
    read_icmp6(&view);
    let mut values = Values::of(bytes);
    let (source, destination) = (values.address_6(), values.address_6());
    let mut copy = bytes.to_vec();
    let mut view = Icmp6::new(&mut copy[..]).unwrap();
    view.fill_checksum(&source, &destination);
    assert!(view.verify_checksum(&source, &destination));
    round_trip!(view,
        set_code => code: values.bits(8),
        set_checksum => checksum: values.bits(16),
        // Among the types with fixed fields, which may now be missing.
        set_kind => kind: 130 + values.bits::<u8>(3),
    );
    read_icmp6(&view);
    view.body_mut().fill(1);
    read_icmp6(&view);
    true
}

/// [`Udp`].
pub fn udp(bytes: &[u8]) -> bool {
    let Ok(view) = Udp::new(bytes) else { return false };
    assert_eq!(view.payload().len() + 8, view.length());
    let mut values = Values::of(bytes);
    let (a4, b4) = (values.bits::<u32>(32).into(), values.bits::<u32>(32).into());
    let (a6, b6) = (values.address_6(), values.address_6());
    let mut copy = bytes.to_vec();
    let mut view = Udp::new(&mut copy[..]).unwrap();
    view.fill_checksum_v4(a4, b4);
    assert!(view.verify_checksum_v4(a4, b4) && view.checksum() != 0);
    view.fill_checksum_v6(&a6, &b6);
    assert!(view.verify_checksum_v6(&a6, &b6) && view.checksum() != 0);
    round_trip!(view,
        set_source_port => source_port: values.bits(16),
        set_destination_port => destination_port: values.bits(16),
        set_checksum => checksum: values.bits(16),
    );
    view.set_length(values.bits(16));
    assert_eq!(view.payload().to_vec(), view.payload_mut());
    keep((view.verify_checksum_v4(a4, b4), view.verify_checksum_v6(&a6, &b6)));
    view.set_length(values.bits(3));
    assert!(view.payload().is_empty() && view.payload_mut().is_empty());
    view.fill_checksum_v4(a4, b4);
    true
}
