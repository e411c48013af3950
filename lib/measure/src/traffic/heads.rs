// SPDX-License-Identifier: MIT
//! The heads of the frames of each flow: made once and kept, or made again for each frame where there are too many flows.

use super::combinations::{Combinations, Steps};
use super::prototype::{Fitted, Prototype, ROOM, Spot, Sums};
use super::random::Shuffle;

/// Up to so many flows their heads are kept: 4 MiB for UDP over IPv4.
pub(crate) const KEPT: u64 = 65_536;

/// The values of a field, by their place in it.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub set: Set,
    /// Which value has which place, if not the n-th the place n.
    pub shuffle: Option<Shuffle>,
}

/// A set of values, each with a number.
#[derive(Debug, Clone)]
pub(crate) enum Set {
    /// All from this one on.
    From(u128),
    /// A list of values of at most 32 bits.
    Narrow(Vec<u32>),
    /// A list of values of more bits.
    Wide(Vec<u128>),
}

impl Values {
    #[inline(always)]
    fn wide(&self, place: u64) -> u128 {
        let number = self.shuffle.as_ref().map_or(place.into(), |shuffle| shuffle.at(place));
        match &self.set {
            Set::From(first) => first + number,
            Set::Narrow(list) => list[number as usize].into(),
            Set::Wide(list) => list[number as usize],
        }
    }

    /// A value of at most 64 bits.
    #[inline(always)]
    fn narrow(&self, place: u64) -> u64 {
        let number = match &self.shuffle {
            None => place,
            Some(shuffle) => shuffle.at(place) as u64,
        };
        match &self.set {
            Set::From(first) => *first as u64 + number,
            Set::Narrow(list) => list[number as usize].into(),
            Set::Wide(list) => list[number as usize] as u64,
        }
    }
}

/// A field and its values.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub spot: Spot,
    pub values: Values,
}

impl Field {
    /// Writes the value at a place.
    #[inline(always)]
    pub fn put(&self, place: u64, head: &mut [u8], sums: &mut Sums) {
        if self.spot.is_wide() {
            self.spot.put_wide(head, self.values.wide(place), sums);
        } else {
            self.spot.put(head, self.values.narrow(place), sums);
        }
    }
}

/// Which fields differ from flow to flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Varying {
    /// Those that move on from flow to flow, ...
    pub fields: Vec<Field>,
    /// ... by these combinations.
    pub combinations: Combinations,
    /// The one that each frame draws by Zipf's law, and its number of values.
    pub drawn: Option<(Field, u32)>,
}

impl Varying {
    /// The head of a flow: flow j * n + z has the j-th combination and the z-th of n drawn values.
    pub fn head(&self, prototype: &Prototype, flow: u64) -> ([u8; ROOM], Sums) {
        let (mut head, mut sums) = (prototype.bytes, prototype.sums);
        let ranks = self.drawn.as_ref().map_or(1, |(_, ranks)| u64::from(*ranks));
        let mut places = vec![0; self.fields.len()];
        self.combinations.at(flow / ranks, &mut places);
        for (field, place) in self.fields.iter().zip(places) {
            field.put(place, &mut head, &mut sums);
        }
        if let Some((field, _)) = &self.drawn {
            field.put(flow % ranks, &mut head, &mut sums);
        }
        (head, sums)
    }
}

/// The heads of all flows.
#[derive(Debug)]
pub(crate) enum Heads {
    /// Kept, with lengths and checksums.
    Finished { bytes: Vec<u8>, stride: usize },
    /// Kept, for frames of several sizes: each with its sums.
    Unfinished { bytes: Vec<u8>, stride: usize, sums: Vec<[u16; 2]> },
    /// Made for each frame; the flows come in turn but for the drawn field.
    Made { varying: Box<Varying>, steps: Steps },
}

impl Heads {
    /// Keeps the heads of flows that have these combinations; `only` is the one size that there is.
    pub fn keep(
        prototype: &Prototype,
        varying: &Varying,
        flows: impl Iterator<Item = u64>,
        only: Option<&Fitted>,
    ) -> Heads {
        // A cache line each where that is enough.
        let stride = prototype.length.next_multiple_of(if prototype.length <= 64 { 64 } else { 16 });
        let (mut bytes, mut kept) = (Vec::new(), Vec::new());
        for flow in flows {
            let (mut head, sums) = varying.head(prototype, flow);
            match only {
                Some(fitted) => prototype.finish(&mut head, fitted, sums),
                None => kept.push([sums.ip, sums.upper].map(perigee_packet::wire::checksum::fold)),
            }
            bytes.extend_from_slice(&head[..stride]);
        }
        if only.is_some() { Heads::Finished { bytes, stride } } else { Heads::Unfinished { bytes, stride, sums: kept } }
    }
}
