// SPDX-License-Identifier: MIT
//! Packets that are sent, and frames that come back.

mod caught;
mod packet4;
mod packet6;

pub use caught::{Caught, IcmpError, is_sound4, reassemble4, reassemble6, target};
pub use packet4::{Packet4, RESERVED, options, seal};
pub use packet6::{Extension, Packet6, destination_options, fragment_header, hop_by_hop, pad, routing};

use perigee_net::MacAddr;
use perigee_packet::wire::ethernet;
use std::borrow::Cow;

/// Something to send, which is recognized in what comes back.
pub trait Probe {
    /// The packet, from the IP header on.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Its Ethernet type.
    fn ethertype(&self) -> u16;

    /// Whether a frame is this packet, or a piece of it, forwarded.
    fn is_in(&self, caught: &Caught) -> bool;

    /// The error about this packet that is in a frame.
    fn error_in(&self, caught: &Caught) -> Option<IcmpError>;
}

/// A probe whose bytes were changed after it was made; it is recognized as before.
pub struct Changed<'a, P> {
    like: &'a P,
    bytes: Vec<u8>,
}

impl<'a, P: Probe> Changed<'a, P> {
    /// The probe with `change` applied to its bytes.
    pub fn new(like: &'a P, change: impl FnOnce(&mut Vec<u8>)) -> Changed<'a, P> {
        let mut bytes = like.bytes().into_owned();
        change(&mut bytes);
        Changed { like, bytes }
    }
}

impl<P: Probe> Probe for Changed<'_, P> {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn ethertype(&self) -> u16 {
        self.like.ethertype()
    }

    fn is_in(&self, caught: &Caught) -> bool {
        self.like.is_in(caught)
    }

    fn error_in(&self, caught: &Caught) -> Option<IcmpError> {
        self.like.error_in(caught)
    }
}

/// A packet in a frame.
pub fn framed(from: MacAddr, to: MacAddr, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::emit(&mut frame, to, from, ethertype).expect("there is room for the header");
    frame.extend(packet);
    frame
}

/// The Internet checksum of bytes whose own field is zero (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// `length` bytes in which every piece of 15 bytes has the mark.
pub fn filling(mark: u64, length: usize) -> Vec<u8> {
    mark.to_be_bytes().into_iter().cycle().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::checksum::checksum as other;

    #[test]
    fn checksums_are_those_of_the_router_but_for_the_code() {
        for length in [0, 1, 2, 19, 20, 1500] {
            let bytes = filling(0x0123_4567_89ab_cdef, length);
            assert_eq!(checksum(&bytes), other(&bytes));
        }
    }

    #[test]
    fn a_mark_is_in_every_piece() {
        let (mark, bytes) = (0xc0ff_ee00_0102_0304_u64, filling(0xc0ff_ee00_0102_0304, 100));
        for piece in bytes.windows(15) {
            assert!(piece.windows(8).any(|eight| eight == mark.to_be_bytes()));
        }
    }
}
