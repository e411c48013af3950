// SPDX-License-Identifier: MIT
//! The heads of the frames of each flow: made once and kept, or made again for each frame where there are too many
//! flows.

use perigee_packet::wire::checksum;

use super::columns::{ColumnId, Columns};
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
    fn wide(&self, place: u64) -> u128 {
        let number = self.shuffle.as_ref().map_or(place.into(), |shuffle| shuffle.at(place));
        match &self.set {
            Set::From(first) => first + number,
            Set::Narrow(list) => list[number as usize].into(),
            Set::Wide(list) => list[number as usize],
        }
    }

    /// Values of at most 32 bits, by their places.
    #[inline(always)]
    fn narrow(&self, places: impl Iterator<Item = u64>, to: &mut [u32]) {
        fn fill(places: impl Iterator<Item = u64>, to: &mut [u32], value: impl Fn(u64) -> u32) {
            to.iter_mut().zip(places).for_each(|(to, place)| *to = value(place));
        }
        match (&self.set, &self.shuffle) {
            (Set::From(first), None) => fill(places, to, |place| *first as u32 + place as u32),
            (Set::From(first), Some(shuffle)) => fill(places, to, |place| *first as u32 + shuffle.at(place) as u32),
            (Set::Narrow(list), None) => fill(places, to, |place| list[place as usize]),
            _ => fill(places, to, |place| self.wide(place) as u32),
        }
    }

    /// The same values without a shuffle where that is faster: their list is read from its start to its end, and no
    /// permutation has to be followed until it leads below a limit.
    pub fn listed(self, length: u64, is_wide: bool) -> Values {
        let Some(shuffle) = &self.shuffle else { return self };
        let fits = !is_wide && matches!(self.set, Set::From(first) if first + u128::from(length) <= 1 << 32);
        let set = match &self.set {
            Set::Wide(list) => Set::Wide((0..length).map(|place| list[shuffle.at(place) as usize]).collect()),
            Set::Narrow(list) => Set::Narrow((0..length).map(|place| list[shuffle.at(place) as usize]).collect()),
            Set::From(_) if length > LISTED || !fits => return self,
            Set::From(first) => Set::Narrow((0..length).map(|place| (first + shuffle.at(place)) as u32).collect()),
        };
        Values { set, shuffle: None }
    }
}

/// Up to so many values a shuffled range becomes a list: 4 MiB.
const LISTED: u64 = 1 << 20;

/// A field and its values.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub spot: Spot,
    pub values: Values,
}

impl Field {
    /// Writes the value at a place.
    pub fn put(&self, place: u64, head: &mut [u8], sums: &mut Sums) {
        self.spot.put(head, self.values.wide(place), sums);
    }

    /// Makes the column of frames from `start` on, with the values at these places.
    #[inline(always)]
    fn fill(&self, columns: &mut Columns, start: usize, count: usize, places: impl Iterator<Item = u64>) {
        if self.spot.is_wide() {
            let to = columns.wide[start..start + count].iter_mut();
            to.zip(places).for_each(|(to, place)| *to = self.values.wide(place));
        } else {
            self.values.narrow(places, &mut columns.narrow[start..start + count]);
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
    Unfinished { bytes: Vec<u8>, stride: usize, sums: Vec<[u16; 2]>, columns: Box<Columns> },
    /// Made for each frame.
    Made(Box<Made>),
}

/// Heads that are made for each frame; the flows come in turn but for the drawn field.
#[derive(Debug)]
pub(crate) struct Made {
    fields: Vec<(Field, ColumnId)>,
    drawn: Option<(Field, ColumnId)>,
    steps: Steps,
    columns: Columns,
}

impl Heads {
    /// Keeps the heads of flows that have these combinations.
    pub fn keep(
        prototype: &Prototype,
        varying: &Varying,
        flows: impl Iterator<Item = u64>,
        fitted: &[Fitted],
    ) -> Heads {
        // A cache line each where that is enough.
        let stride = prototype.length.next_multiple_of(if prototype.length <= 64 { 64 } else { 16 });
        let (mut bytes, mut kept) = (Vec::new(), Vec::new());
        for flow in flows {
            let (mut head, sums) = varying.head(prototype, flow);
            match fitted {
                [only] => prototype.finish(&mut head, only, sums),
                _ => kept.push([sums.ip, sums.upper].map(checksum::fold)),
            }
            bytes.extend_from_slice(&head[..stride]);
        }
        if fitted.len() == 1 {
            return Heads::Finished { bytes, stride };
        }
        let columns = Box::new(Columns::new(prototype, fitted.len()));
        Heads::Unfinished { bytes, stride, sums: kept, columns }
    }

    /// Makes the heads of `flows` flows when they are needed.
    pub fn make(prototype: &mut Prototype, varying: Varying, flows: u64, fitted: &[Fitted]) -> Heads {
        if let [only] = fitted {
            let mut head = prototype.bytes;
            prototype.put_lengths(&mut head, only);
            prototype.bytes = head;
        }
        let mut columns = Columns::new(prototype, fitted.len());
        let lengths = varying.combinations.lengths().to_vec();
        let listed = |(Field { spot, values }, length): (Field, &u64)| {
            let field = Field { spot, values: values.listed(*length, spot.is_wide()) };
            (field, columns.add(spot))
        };
        let fields = varying.fields.into_iter().zip(&lengths).map(listed).collect();
        let ranks = varying.drawn.as_ref().map_or(1, |(_, ranks)| u64::from(*ranks));
        let drawn = varying.drawn.map(|(Field { spot, values }, ranks)| {
            // To compute a value is faster than to look for it in a list, but not if it is from one.
            let from_list = !matches!(values.set, Set::From(_));
            let values = if from_list { values.listed(ranks.into(), spot.is_wide()) } else { values };
            (Field { spot, values }, columns.add(spot))
        });
        Heads::Made(Box::new(Made { fields, drawn, steps: Steps::new(&lengths, flows / ranks), columns }))
    }

    /// The bytes of all heads, from the head of one flow to the next, and what differs in the frames that were
    /// prepared. Of heads that are made there is one, which is all flows'.
    #[inline(always)]
    pub fn view<'a>(&'a self, prototype: &'a Prototype) -> (&'a [u8], usize, Option<&'a Columns>) {
        match self {
            Heads::Finished { bytes, stride } => (bytes, *stride, None),
            Heads::Unfinished { bytes, stride, columns, .. } => (bytes, *stride, Some(columns)),
            Heads::Made(made) => (&prototype.bytes, 0, Some(&made.columns)),
        }
    }

    /// Back to the first flow.
    pub fn restart(&mut self) {
        if let Heads::Made(made) = self {
            made.steps.seek(0);
        }
    }

    /// Makes what is to be made for the next frames; `sizes`, `flows` and `ranks` have an entry each.
    #[inline(always)]
    pub fn prepare(&mut self, prototype: &Prototype, fitted: &[Fitted], sizes: &[u16], flows: &[u32], ranks: &[u32]) {
        match self {
            Heads::Finished { .. } => {}
            Heads::Unfinished { sums, columns, .. } => {
                columns.begin_with(flows, sums);
                columns.end(fitted, sizes);
            }
            Heads::Made(made) => {
                made.columns.begin(sizes.len(), prototype.sums);
                made.prepare(ranks);
                made.columns.end(fitted, sizes);
            }
        }
    }

    /// Only the first of those frames were written; the others come next.
    #[cold]
    pub fn return_frames(&mut self, count: usize) {
        if let Heads::Made(made) = self {
            made.steps.go_back(count as u64);
        }
    }
}

impl Made {
    /// Makes the columns of the next frames.
    #[inline(always)]
    fn prepare(&mut self, ranks: &[u32]) {
        let count = ranks.len();
        let mut start = 0;
        while start < count {
            let straight = self.steps.straight().min((count - start) as u64) as usize;
            for (number, (field, _)) in self.fields.iter().enumerate() {
                let (mut place, length) = self.steps.place(number);
                let places = std::iter::repeat_with(|| {
                    let now = place;
                    place = if place + 1 == length { 0 } else { place + 1 };
                    now
                });
                // All fields' values go through the same room: each is taken before the next is filled in.
                field.fill(&mut self.columns, start, straight, places);
                self.columns.take(self.fields[number].1, start..start + straight);
            }
            self.steps.advance(straight as u64);
            start += straight;
        }
        if let Some((field, id)) = &self.drawn {
            field.fill(&mut self.columns, 0, count, ranks.iter().map(|rank| u64::from(*rank)));
            self.columns.take(*id, 0..count);
        }
    }
}
