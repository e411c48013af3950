// SPDX-License-Identifier: MIT
//! What differs in the heads of a burst, field by field: each field of all frames is computed in one short loop, which
//! the compiler turns into vector instructions or at least overlaps, and the frames are written from the results.

use std::ops::Range;

use perigee_packet::BATCH_SIZE;
use perigee_packet::wire::checksum;

use super::prototype::{Fitted, Prototype, Spot, Sums};

/// A field of `N` bytes of each frame of a burst.
#[derive(Debug)]
struct Column<const N: usize> {
    at: usize,
    bytes: Box<[[u8; N]; BATCH_SIZE]>,
}

impl<const N: usize> Column<N> {
    fn new(at: usize) -> Column<N> {
        Column { at, bytes: Box::new([[0; N]; BATCH_SIZE]) }
    }

    #[inline(always)]
    fn write(&self, frame: usize, head: &mut [u8]) {
        head[self.at..][..N].copy_from_slice(&self.bytes[frame]);
    }
}

/// Which column a field is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnId {
    spot: Spot,
    index: usize,
}

/// The fields that differ from frame to frame, and the checksums.
#[derive(Debug)]
pub(crate) struct Columns {
    two: Vec<Column<2>>,
    four: Vec<Column<4>>,
    six: Vec<Column<6>>,
    sixteen: Vec<Column<16>>,
    /// The lengths of IP and of UDP, and the checksums; indices into `two`. A field that the headers lack is `None`.
    ip_length: Option<usize>,
    upper_length: Option<usize>,
    ip_checksum: Option<usize>,
    upper_checksum: usize,
    /// UDP's checksum is not 0 (RFC 768).
    udp: bool,
    /// The sums of the frames of a burst.
    ip: Box<[u32; BATCH_SIZE]>,
    upper: Box<[u32; BATCH_SIZE]>,
    /// Room for a field's values.
    pub narrow: Box<[u32; BATCH_SIZE]>,
    /// The same for those of more than 32 bits; empty if there are none.
    pub wide: Vec<u128>,
}

impl Columns {
    /// The columns of lengths and checksums; those of lengths only if there are several sizes.
    pub fn new(prototype: &Prototype, sizes: usize) -> Columns {
        let places = prototype.computed();
        let mut columns = Columns {
            two: Vec::new(),
            four: Vec::new(),
            six: Vec::new(),
            sixteen: Vec::new(),
            ip_length: None,
            upper_length: None,
            ip_checksum: None,
            upper_checksum: 0,
            udp: places.upper_length.is_some(),
            ip: Box::new([0; BATCH_SIZE]),
            upper: Box::new([0; BATCH_SIZE]),
            narrow: Box::new([0; BATCH_SIZE]),
            wide: Vec::new(),
        };
        let mut add = |at: usize| {
            columns.two.push(Column::new(at));
            columns.two.len() - 1
        };
        if sizes > 1 {
            columns.ip_length = Some(add(places.ip_length));
            columns.upper_length = places.upper_length.map(&mut add);
        }
        columns.ip_checksum = places.ip_checksum.map(&mut add);
        columns.upper_checksum = add(places.upper_checksum);
        columns
    }

    /// Adds the column of a field.
    pub fn add(&mut self, spot: Spot) -> ColumnId {
        let at = spot.bytes().start;
        if spot.is_wide() {
            self.wide.resize(BATCH_SIZE, 0);
        }
        let index = match spot.bytes().len() {
            2 => push(&mut self.two, at),
            4 => push(&mut self.four, at),
            6 => push(&mut self.six, at),
            _ => push(&mut self.sixteen, at),
        };
        ColumnId { spot, index }
    }

    /// Starts a burst of `count` frames, all with these sums.
    pub fn begin(&mut self, count: usize, sums: Sums) {
        self.ip[..count].fill(sums.ip);
        self.upper[..count].fill(sums.upper);
    }

    /// Starts a burst of flows that have these sums.
    pub fn begin_with(&mut self, flows: &[u32], sums: &[[u16; 2]]) {
        for ((flow, ip), upper) in flows.iter().zip(self.ip.iter_mut()).zip(self.upper.iter_mut()) {
            [*ip, *upper] = sums[*flow as usize].map(u32::from);
        }
    }

    /// Takes a field's values of some frames from `narrow`, or from `wide`.
    pub fn take(&mut self, id: ColumnId, frames: Range<usize>) {
        let (index, from) = (id.index, &self.narrow[frames.clone()]);
        match id.spot.bytes().len() {
            2 => {
                let to = self.two[index].bytes[frames.clone()].iter_mut();
                to.zip(from).for_each(|(to, value)| *to = (*value as u16).to_be_bytes());
                self.count(id.spot, frames, |value| value & 0xffff);
            }
            4 => {
                let to = self.four[index].bytes[frames.clone()].iter_mut();
                to.zip(from).for_each(|(to, value)| *to = value.to_be_bytes());
                self.count(id.spot, frames, |value| (value >> 16) + (value & 0xffff));
            }
            6 => {
                let to = self.six[index].bytes[frames.clone()].iter_mut();
                to.zip(&self.wide[frames]).for_each(|(to, value)| {
                    let [_, _, octets @ ..] = (*value as u64).to_be_bytes();
                    *to = octets;
                });
            }
            _ => {
                let to = self.sixteen[index].bytes[frames.clone()].iter_mut();
                for ((to, value), sum) in to.zip(&self.wide[frames.clone()]).zip(&mut self.narrow[frames.clone()]) {
                    *to = value.to_be_bytes();
                    *sum = checksum::sum(to);
                }
                self.count(id.spot, frames, |sum| sum);
            }
        }
    }

    /// Adds the values in `narrow` to the sums that their field counts for.
    #[inline(always)]
    fn count(&mut self, spot: Spot, frames: Range<usize>, sum: impl Fn(u32) -> u32) {
        let values = &self.narrow[frames.clone()];
        if spot.in_ip {
            self.ip[frames.clone()].iter_mut().zip(values).for_each(|(ip, value)| *ip += sum(*value));
        }
        if spot.in_upper {
            self.upper[frames].iter_mut().zip(values).for_each(|(upper, value)| *upper += sum(*value));
        }
    }

    /// Ends a burst: lengths and checksums. `sizes` has an entry per frame, an index into `fitted`.
    pub fn end(&mut self, fitted: &[Fitted], sizes: &[u16]) {
        let mut added = fitted.first().map_or(Sums::default(), |fitted| fitted.sums);
        if let Some(length) = self.ip_length {
            for (frame, size) in sizes.iter().enumerate() {
                let fitted = &fitted[usize::from(*size)];
                self.ip[frame] += fitted.sums.ip;
                self.upper[frame] += fitted.sums.upper;
                self.two[length].bytes[frame] = fitted.ip_length.to_be_bytes();
                if let Some(length) = self.upper_length {
                    self.two[length].bytes[frame] = fitted.upper_length.to_be_bytes();
                }
            }
            added = Sums::default();
        }
        if let Some(column) = self.ip_checksum {
            for (to, sum) in self.two[column].bytes.iter_mut().zip(&self.ip[..sizes.len()]) {
                *to = checksum::finish(sum + added.ip).to_be_bytes();
            }
        }
        let zero = if self.udp { 0xffff } else { 0 };
        for (to, sum) in self.two[self.upper_checksum].bytes.iter_mut().zip(&self.upper[..sizes.len()]) {
            let checksum = checksum::finish(sum + added.upper);
            *to = if checksum == 0 { zero } else { checksum }.to_be_bytes();
        }
    }

    /// Writes what differs into a frame's head.
    #[inline(always)]
    pub fn write(&self, frame: usize, head: &mut [u8]) {
        self.two.iter().for_each(|column| column.write(frame, head));
        self.four.iter().for_each(|column| column.write(frame, head));
        self.six.iter().for_each(|column| column.write(frame, head));
        self.sixteen.iter().for_each(|column| column.write(frame, head));
    }
}

fn push<const N: usize>(columns: &mut Vec<Column<N>>, at: usize) -> usize {
    columns.push(Column::new(at));
    columns.len() - 1
}
