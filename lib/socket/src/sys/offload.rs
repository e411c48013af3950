// SPDX-License-Identifier: MIT
//! What goes ahead of each frame with PACKET_VNET_HDR (`struct virtio_net_hdr`, virtio 1.2 5.1.6): which work on it is
//! left to a device.

use perigee_packet::SuperFrame;
use std::num::NonZeroU16;

/// Bytes of the header.
pub(crate) const OFFLOAD: usize = 10;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: a checksum is to be finished.
const NEEDS_CSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_...: TCP over IPv4 and IPv6, UDP; and the flag for TCP with CWR.
const TCPV4: u8 = 1;
const TCPV6: u8 = 4;
const UDP_L4: u8 = 5;
const ECN: u8 = 0x80;

/// What is left to a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    /// A checksum that covers the pseudo header alone so far: where what it covers starts, and where in that its field
    /// is, in bytes; the start counts from the frame's, without the tag that the kernel took out.
    pub(crate) checksum: Option<(usize, usize)>,
    /// The frame is a super-frame.
    pub(crate) gso_size: Option<NonZeroU16>,
    /// The frame is to be cut in a way that nobody here knows.
    pub(crate) unknown: bool,
}

impl Offload {
    /// Reads the header of a received frame; its fields are in the machine's order.
    pub(crate) fn read(header: [u8; OFFLOAD]) -> Offload {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let known = matches!(header[1] & !ECN, TCPV4 | TCPV6 | UDP_L4);
        let gso_size = NonZeroU16::new(word(4)).filter(|_| known);
        Offload {
            checksum: (header[0] & NEEDS_CSUM != 0).then_some((word(6).into(), word(8).into())),
            gso_size,
            unknown: header[1] != 0 && gso_size.is_none(),
        }
    }

    /// Writes the header of a super-frame that is to be sent.
    pub(crate) fn write(whole: &SuperFrame<'_>, gso_size: NonZeroU16) -> [u8; OFFLOAD] {
        let kind = match (whole.is_udp(), whole.is_v6()) {
            (true, _) => UDP_L4,
            (false, true) => TCPV6,
            (false, false) => TCPV4,
        };
        let mut header = [NEEDS_CSUM, kind | if whole.has_cwr() { ECN } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [whole.headers() as u16, gso_size.get(), whole.transport() as u16, whole.checksum_offset() as u16];
        for (to, word) in header[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes() {
        // As seen: plain UDP, and UDP to be cut.
        let header = |bytes: [u8; 2], words: [u16; 4]| {
            let mut header = [0; OFFLOAD];
            header[..2].copy_from_slice(&bytes);
            for (to, word) in header[2..].chunks_exact_mut(2).zip(words) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            header
        };
        let plain = Offload { checksum: Some((34, 6)), ..Offload::default() };
        assert_eq!(Offload::read(header([1, 0], [0, 0, 34, 6])), plain);
        let cut = Offload { gso_size: NonZeroU16::new(1000), ..plain };
        assert_eq!(Offload::read(header([1, UDP_L4], [42, 1000, 34, 6])), cut);
        assert_eq!(Offload::read([0; OFFLOAD]), Offload::default());
        // Fragments of UDP (VIRTIO_NET_HDR_GSO_UDP), and no size at all.
        assert!(Offload::read(header([1, 3], [42, 1000, 34, 6])).unknown);
        assert!(Offload::read(header([1, TCPV4], [54, 0, 34, 16])).unknown);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut frame =
            [&[2; 12][..], &[8, 0, 0x45, 0, 0x0f, 0xa0, 0, 1, 0x40, 0, 64, 6, 0, 0], &[10; 8], &[0; 3980]].concat();
        (frame[46], frame[47]) = (0x80, 0x90);
        let size = NonZeroU16::new(1448).unwrap();
        let header = Offload::write(&SuperFrame::new(&frame, size).unwrap(), size);
        assert_eq!((header[1], u16::from_ne_bytes([header[2], header[3]])), (TCPV4 | ECN, 66));
        assert_eq!(Offload::read(header), Offload { checksum: Some((34, 16)), gso_size: Some(size), unknown: false });
    }
}
