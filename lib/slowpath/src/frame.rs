// SPDX-License-Identifier: MIT
//! A received frame, parsed once.

use std::borrow::Cow;

use perigee_net::{InterfaceId, MacAddr};
use perigee_packet::wire::ethernet::{self, Ethernet, ethertype};
use perigee_packet::wire::vlan;
use perigee_packet::{Malformed, Vlan};

/// A frame without the interface's own tag.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub interface: InterfaceId,
    /// From the destination MAC on. The caller's bytes, where nothing had to be taken out.
    pub frame: Cow<'a, [u8]>,
    pub destination: MacAddr,
    pub source: MacAddr,
    pub ethertype: u16,
}

impl<'a> Received<'a> {
    /// The frame as it came in on an interface of this VLAN.
    pub(crate) fn new(interface: InterfaceId, vlan: Option<u16>, frame: &'a [u8]) -> Result<Self, Malformed> {
        Self::untagged(interface, strip(vlan, frame)?)
    }

    /// A frame whose tag is already off.
    pub(crate) fn untagged(interface: InterfaceId, frame: impl Into<Cow<'a, [u8]>>) -> Result<Self, Malformed> {
        let frame = frame.into();
        let view = Ethernet::new(&frame[..])?;
        let (destination, source, ethertype) = (view.destination(), view.source(), view.ethertype());
        Ok(Received { interface, frame, destination, source, ethertype })
    }

    /// What follows the Ethernet header.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.frame[ethernet::HEADER_LEN..]
    }

    /// Sent to all stations or a group of them.
    pub(crate) fn is_group(&self) -> bool {
        self.destination.is_multicast()
    }
}

/// Takes off the interface's own tag, if the frame still has it. VLAN 0 only carries a priority (IEEE 802.1Q 6.9.1).
pub(crate) fn strip(vlan: Option<u16>, frame: &[u8]) -> Result<Cow<'_, [u8]>, Malformed> {
    let outer = Ethernet::new(frame)?;
    if !vlan::is_tag(outer.ethertype()) {
        return Ok(frame.into());
    }
    let tag = Vlan::new(outer.payload())?;
    if tag.vid() != vlan.unwrap_or(0) {
        return Ok(frame.into());
    }
    let mut bare = frame[..12].to_vec();
    bare.extend_from_slice(&frame[12 + vlan::HEADER_LEN..]);
    Ok(bare.into())
}

/// How long the packet in an untagged frame is, if it is one of IP.
pub(crate) fn ip_len(frame: &[u8]) -> Option<usize> {
    let view = Ethernet::new(frame).ok()?;
    matches!(view.ethertype(), ethertype::IPV4 | ethertype::IPV6).then(|| view.payload().len())
}

/// A whole frame.
pub(crate) fn build(destination: MacAddr, source: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ethernet::HEADER_LEN + payload.len());
    frame.extend_from_slice(&destination.octets());
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: &[u8] = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x81\0\x20\x64\x08\x06abc";

    #[test]
    fn own_tag_goes_others_stay() {
        let bare = Received::new(InterfaceId(1), Some(100), TAGGED).unwrap();
        assert_eq!((bare.ethertype, bare.payload()), (0x0806, &b"abc"[..]));
        assert!(bare.is_group());
        let other = Received::new(InterfaceId(1), Some(101), TAGGED).unwrap();
        assert_eq!((other.ethertype, &other.frame[..]), (0x8100, TAGGED));
        assert_eq!(Received::new(InterfaceId(1), None, TAGGED).unwrap().ethertype, 0x8100);
        assert!(Received::new(InterfaceId(1), None, &TAGGED[..13]).is_err());
        assert!(Received::new(InterfaceId(1), Some(100), &TAGGED[..16]).is_err());
    }

    #[test]
    fn priority_tag_goes() {
        let mut frame = TAGGED.to_vec();
        frame[14..16].copy_from_slice(&[0xe0, 0]);
        assert_eq!(Received::new(InterfaceId(1), None, &frame).unwrap().ethertype, 0x0806);
    }
}
