// SPDX-License-Identifier: MIT
//! The 802.1Q tag (IEEE 802.1Q 9.6): what follows a type field of 0x8100 or 0x88a8.
//!
//! ```text
//!  0           2           4
//! +---+-+-----+-----------+--------
//! |pcp|d| vid | ethertype | payload      pcp 3 bits, dei 1 bit, vid 12 bits
//! +---+-+-----+-----------+--------
//! ```
//!
//! Tags stack: an inner type field may announce the next tag. [`Tags`] walks them, [`innermost`] finds what they wrap.

use crate::Malformed;
use crate::wire::bytes::{be16, put16};
use crate::wire::ethernet::{self, Ethernet, ethertype};

/// Bytes of a tag; the type field that announces it belongs to the header before.
pub const HEADER_LEN: usize = 4;

/// Does this type field announce a tag?
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ)
}

/// A view on a tag and what follows it; at least [`HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// Checks that the tag is there; else [`Malformed::Short`].
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        Ok(Vlan { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        self.bytes.as_ref()[0] >> 5
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.bytes.as_ref()[0] & 0x10 != 0
    }

    /// VLAN identifier, 0..=4095.
    #[inline]
    pub fn vid(&self) -> u16 {
        be16(self.bytes.as_ref(), 0) & 0x0fff
    }

    /// Type of what follows, host order; again a tag where tags are stacked.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes.as_ref(), 2)
    }

    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vlan<T> {
    /// Sets the priority code point; only the low 3 bits of `pcp` count.
    #[inline]
    pub fn set_pcp(&mut self, pcp: u8) {
        let bytes = self.bytes.as_mut();
        bytes[0] = bytes[0] & 0x1f | pcp << 5;
    }

    /// Sets the drop eligible indicator.
    #[inline]
    pub fn set_dei(&mut self, dei: bool) {
        let bytes = self.bytes.as_mut();
        bytes[0] = bytes[0] & 0xef | u8::from(dei) << 4;
    }

    /// Sets the VLAN identifier; only the low 12 bits of `vid` count.
    #[inline]
    pub fn set_vid(&mut self, vid: u16) {
        let bytes = self.bytes.as_mut();
        let control = be16(bytes, 0) & 0xf000 | vid & 0x0fff;
        put16(bytes, 0, control);
    }

    /// Sets the type of what follows, host order.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        put16(self.bytes.as_mut(), 2, ethertype);
    }
}

/// Writes a tag with priority 0 at the start of `buf` and returns its length, 4; [`Malformed::Short`] if it does not
/// fit.
pub fn emit(buf: &mut [u8], vid: u16, ethertype: u16) -> Result<usize, Malformed> {
    let mut tag = Vlan::new(buf)?;
    tag.set_pcp(0);
    tag.set_dei(false);
    tag.set_vid(vid);
    tag.set_ethertype(ethertype);
    Ok(HEADER_LEN)
}

/// The tags of a frame, from the outermost in; an announced tag that is cut off is one error item, and the last.
#[derive(Clone, Debug)]
pub struct Tags<'a> {
    ethertype: u16,
    rest: &'a [u8],
}

impl<'a> Tags<'a> {
    /// The tags behind a type field: `rest` starts right after it.
    pub fn new(ethertype: u16, rest: &'a [u8]) -> Self {
        Tags { ethertype, rest }
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Result<Vlan<&'a [u8]>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if !is_tag(self.ethertype) {
            return None;
        }
        let tag = Vlan::new(self.rest);
        match &tag {
            Ok(tag) => {
                self.ethertype = tag.ethertype();
                self.rest = &self.rest[HEADER_LEN..];
            }
            Err(_) => self.ethertype = 0,
        }
        Some(tag)
    }
}

/// What a frame carries once its tags are taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Innermost {
    /// The outermost tag's VLAN identifier, `None` for an untagged frame.
    pub outer_vid: Option<u16>,
    /// How many tags there were.
    pub tags: u8,
    /// Type of the payload, host order.
    pub ethertype: u16,
    /// Where the payload starts, in bytes from the frame's start: 14 + 4 per tag.
    pub offset: usize,
}

/// Walks the tags of a frame, at most 8; [`Malformed::Short`] if the frame or a tag is cut off, or tags do not end.
pub fn innermost(frame: &[u8]) -> Result<Innermost, Malformed> {
    let outer = Ethernet::new(frame)?;
    let mut found = Innermost { outer_vid: None, tags: 0, ethertype: outer.ethertype(), offset: ethernet::HEADER_LEN };
    for tag in Tags::new(outer.ethertype(), &frame[ethernet::HEADER_LEN..]).take(8) {
        let tag = tag?;
        found.outer_vid = found.outer_vid.or(Some(tag.vid()));
        found.tags += 1;
        found.ethertype = tag.ethertype();
        found.offset += HEADER_LEN;
    }
    if is_tag(found.ethertype) { Err(Malformed::Short) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKED: &[u8] = b"\xff\xff\xff\xff\xff\xff\x52\x54\x00\x12\x34\x56\x88\xa8\x00\x64\x81\x00\xb0\x0a\x08\x00E";

    #[test]
    fn walks_stacked_tags() {
        let frame = Ethernet::new(STACKED).unwrap();
        let tags: Vec<_> = Tags::new(frame.ethertype(), frame.payload()).map(Result::unwrap).collect();
        assert_eq!(tags.len(), 2);
        assert_eq!((tags[0].vid(), tags[0].pcp(), tags[0].dei(), tags[0].ethertype()), (100, 0, false, 0x8100));
        assert_eq!((tags[1].vid(), tags[1].pcp(), tags[1].dei(), tags[1].ethertype()), (10, 5, true, 0x0800));
        assert_eq!(tags[1].payload(), b"E");
        let found = Innermost { outer_vid: Some(100), tags: 2, ethertype: 0x0800, offset: 22 };
        assert_eq!(innermost(STACKED), Ok(found));
    }

    #[test]
    fn untagged_and_truncated() {
        let mut frame = STACKED.to_vec();
        for len in 0..22 {
            assert_eq!(innermost(&frame[..len]), Err(Malformed::Short), "{len} bytes");
        }
        frame[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(innermost(&frame), Ok(Innermost { outer_vid: None, tags: 0, ethertype: 0x0800, offset: 14 }));
    }

    #[test]
    fn endless_tags_end() {
        let frame = [0x81, 0x00].repeat(2000);
        assert_eq!(innermost(&frame), Err(Malformed::Short));
        assert!(Tags::new(0x8100, &frame).last().unwrap().is_err());
    }

    #[test]
    fn setters_keep_their_neighbours() {
        let mut buf = [0xff; 4];
        emit(&mut buf, 42, ethertype::IPV4).unwrap();
        let mut tag = Vlan::new(&mut buf).unwrap();
        tag.set_pcp(6);
        tag.set_dei(true);
        tag.set_vid(4094);
        assert_eq!((tag.pcp(), tag.dei(), tag.vid(), tag.ethertype()), (6, true, 4094, ethertype::IPV4));
        tag.set_dei(false);
        assert_eq!((tag.pcp(), tag.dei(), tag.vid()), (6, false, 4094));
    }
}
