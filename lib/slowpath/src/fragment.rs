// SPDX-License-Identifier: MIT
//! Fragmentation: of any IPv4 packet (RFC 791 3.2, RFC 1812 5.2.6), of this router's own IPv6 packets (RFC 8200 4.5).

use perigee_packet::Ipv6;
use perigee_packet::wire::ipv4::{HEADER_LEN, Ipv4};
use perigee_packet::wire::ipv4_options::{END, NOP, is_copied};
use perigee_packet::wire::{ipv6, protocol};

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const FRAGMENT_HEADER_LEN: usize = 8;

/// Cuts a packet into pieces of at most `mtu` bytes. A fragment is cut further; the other flags stay as they are (the
/// reserved one too, RFC 1812 5.2.5). `None` if not even eight bytes of payload fit.
pub(crate) fn fragment(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let view = Ipv4::new(packet).ok()?;
    let later = later_header(&view);
    let flags = u16::from_be_bytes([packet[6], packet[7]]);
    let mut pieces = Vec::new();
    let mut rest = view.payload();
    let mut offset = view.fragment_offset();
    while !rest.is_empty() || pieces.is_empty() {
        let header = if pieces.is_empty() { view.header() } else { &later };
        let room = mtu.checked_sub(header.len())?;
        let len = if rest.len() <= room { rest.len() } else { room & !7 };
        if len == 0 && !rest.is_empty() {
            return None;
        }
        let (payload, left) = rest.split_at(len);
        let more = if left.is_empty() { flags & MORE_FRAGMENTS } else { MORE_FRAGMENTS };
        let bits = flags & !(MORE_FRAGMENTS | OFFSET) | more | (offset / 8) as u16;
        pieces.push(piece(header, payload, bits));
        offset += len;
        rest = left;
    }
    Some(pieces)
}

fn piece(header: &[u8], payload: &[u8], flags: u16) -> Vec<u8> {
    let mut bytes = [header, payload].concat();
    let total = bytes.len() as u16; // No longer than the packet it was cut from.
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[6..8].copy_from_slice(&flags.to_be_bytes());
    if let Ok(mut view) = Ipv4::new(&mut bytes[..]) {
        view.fill_checksum();
    }
    bytes
}

/// Cuts an IPv6 packet without extension headers into pieces of at most `mtu` bytes, which is at least 1280.
pub(crate) fn fragment6(packet: &Ipv6<&[u8]>, mtu: usize, identification: u32) -> Vec<Vec<u8>> {
    let room = (mtu.max(ipv6::MIN_MTU) - ipv6::HEADER_LEN - FRAGMENT_HEADER_LEN) & !7;
    let payload = packet.payload();
    let cut = |(index, data): (usize, &[u8])| {
        let offset = index * room;
        let more = offset + data.len() < payload.len();
        let mut piece = packet.into_inner()[..ipv6::HEADER_LEN].to_vec();
        piece.extend_from_slice(&[packet.next_header(), 0]);
        piece.extend_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes()); // `room` is a multiple of 8.
        piece.extend_from_slice(&identification.to_be_bytes());
        piece.extend_from_slice(data);
        if let Ok(mut view) = Ipv6::new_truncated(&mut piece[..]) {
            view.set_next_header(protocol::FRAGMENT);
            view.set_payload_len((FRAGMENT_HEADER_LEN + data.len()) as u16); // Less than `mtu`.
        }
        piece
    };
    payload.chunks(room).enumerate().map(cut).collect()
}

/// The header of all fragments but the first: only options with the copied flag (RFC 791 3.1).
fn later_header(view: &Ipv4<&[u8]>) -> Vec<u8> {
    let mut header = view.header()[..HEADER_LEN].to_vec();
    let mut options = &view.header()[HEADER_LEN..];
    while let Some(&kind) = options.first() {
        let len = match kind {
            END => break,
            NOP => 1,
            _ => options.get(1).map_or(0, |len| usize::from(*len)),
        };
        // A packet with malformed options was dropped long before.
        let Some((option, rest)) = options.split_at_checked(len.max(1)) else { break };
        if is_copied(kind) {
            header.extend_from_slice(option);
        }
        options = rest;
    }
    header.resize(header.len().next_multiple_of(4), END);
    header[0] = 0x40 | (header.len() / 4) as u8;
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::ipv4;

    fn packet(options: &[u8], len: usize) -> Vec<u8> {
        let (a, b) = ([10, 0, 0, 1].into(), [10, 1, 0, 1].into());
        let mut bytes = vec![0; HEADER_LEN + options.len()];
        ipv4::Repr { identification: 77, ..ipv4::Repr::new(a, b, protocol::UDP, len) }
            .emit_with_options(&mut bytes, options)
            .unwrap();
        bytes.extend((0..len).map(|i| i as u8));
        bytes
    }

    fn check(pieces: &[Vec<u8>], whole: &[u8], mtu: usize) {
        let mut next = Ipv4::new(whole).unwrap().fragment_offset();
        let mut payload = Vec::new();
        for (i, bytes) in pieces.iter().enumerate() {
            let view = ipv4::validate(bytes).unwrap();
            assert!(bytes.len() <= mtu && view.total_len() == bytes.len());
            assert_eq!((view.fragment_offset(), view.identification()), (next, 77));
            let last = i + 1 == pieces.len();
            assert_eq!(view.more_fragments(), !last || Ipv4::new(whole).unwrap().more_fragments());
            next += view.payload().len();
            payload.extend_from_slice(view.payload());
        }
        assert_eq!(payload, Ipv4::new(whole).unwrap().payload());
    }

    #[test]
    fn pieces_make_the_whole_at_every_size() {
        for len in [0, 1, 7, 8, 9, 100, 1480] {
            let whole = packet(&[], len);
            for mtu in 28..200 {
                check(&fragment(&whole, mtu).unwrap(), &whole, mtu);
            }
        }
        assert_eq!(fragment(&packet(&[], 100), 27), None);
        assert_eq!(fragment(&packet(&[], 100), 0), None);
    }

    // A fragment is cut like a whole packet (RFC 1812 5.2.6). Linux clears the reserved flag, we do not (5.2.5).
    #[test]
    fn fragments_a_fragment_and_keeps_the_reserved_flag() {
        let mut whole = packet(&[], 200);
        whole[6..8].copy_from_slice(&(0x8000u16 | MORE_FRAGMENTS | 25).to_be_bytes());
        Ipv4::new(&mut whole[..]).unwrap().fill_checksum();
        let pieces = fragment(&whole, 100).unwrap();
        check(&pieces, &whole, 100);
        assert!(pieces.iter().all(|p| p[6] & 0x80 != 0));
    }

    // The copied flag (RFC 791 3.1).
    #[test]
    fn only_copied_options_go_into_later_fragments() {
        // Record route (not copied), NOP, router alert (copied), end.
        let options = [7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0];
        let whole = packet(&options, 300);
        let pieces = fragment(&whole, 100).unwrap();
        check(&pieces, &whole, 100);
        assert_eq!(&pieces[0][20..32], &options);
        for later in &pieces[1..] {
            let view = Ipv4::new(&later[..]).unwrap();
            assert_eq!(&view.header()[20..], &[148, 4, 0, 0]);
        }
    }
}
