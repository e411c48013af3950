// SPDX-License-Identifier: MIT
//! Fragments to this router, kept until their datagram is whole (RFC 791 3.2, RFC 8200 4.5), within limits.
//!
//! ```text
//! fragment ─► malformed by itself ──────────────────────────────► it alone is refused
//!          ├► an exact duplicate ─────────────────────────────────► it alone is refused
//!          ├► overlaps, contradicts the end, one too many ────────► its datagram is refused, and all that follows of it
//!          ├► no room ─► the oldest datagram of the source that has most of them is evicted
//!          └► kept ─► all there ─► the whole datagram
//!                  └► time is up ─► the first fragment, to be quoted in an error
//! ```
//!
//! Overlaps are refused in both families: RFC 5722 and RFC 8200 demand it for IPv6, RFC 791 lets the last copy win,
//! which lets a sender replace what a filter has seen (RFC 1858, RFC 3128, RFC 8900 3.7). A refused datagram is
//! remembered until its time is up, so that its later constituents are refused as well (RFC 5722 4). An exact
//! duplicate, the same bytes at the same place, is ignored, as RFC 8200 permits: networks duplicate packets, and since
//! nothing changes there is nothing to gain for an attacker.
//!
//! The pieces are kept in the order of their offsets; what lies between them are the holes of RFC 815.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::InterfaceId;

use crate::counters::Drops;
use crate::{Config, Counters, Time};

/// No datagram is longer: the total length of IPv4 (RFC 791 3.1), the payload length of IPv6 (RFC 8200 3).
const LONGEST: usize = u16::MAX as usize;
/// What a fragment takes besides its bytes: its place in the list, and what the allocator adds. Rounded up.
const FRAGMENT_COST: usize = 64;
/// What a datagram takes besides its fragments: its entry, its places in three indices, a source. Rounded up.
const DATAGRAM_COST: usize = 1024;
/// Sources with no more datagrams than this are not told apart when room is made: a host that sends several at once is
/// not a flood.
const FEW: usize = 8;
/// The code point of ECN for congestion, and a set of code points that has only "not ECN-capable" (RFC 3168 5).
const CONGESTION: u8 = 3;
const NOT_CAPABLE: u8 = 1;

/// What the fragments of one datagram have in common (RFC 791 3.2, RFC 8200 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// 0 for IPv6, where the fragments' next headers may differ.
    pub protocol: u8,
    pub identification: u32,
    /// The link, for addresses that mean something only there (RFC 4007 6).
    pub link: Option<InterfaceId>,
}

/// A fragment, as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    pub key: Key,
    /// Where it came in.
    pub interface: InterfaceId,
    /// The frame up to `data`. The first fragment's is the whole datagram's.
    pub head: &'a [u8],
    /// Bytes of `head` that count in the datagram's length.
    pub header_len: usize,
    /// Where `data` lies in the datagram, in bytes.
    pub offset: usize,
    /// Others follow behind it.
    pub more: bool,
    pub data: &'a [u8],
    /// Explicit congestion notification, 2 bits.
    pub ecn: u8,
}

impl Fragment<'_> {
    fn end(&self) -> usize {
        self.offset + self.data.len()
    }

    /// What is wrong with it whatever the others are.
    fn check(&self) -> Result<(), Refusal> {
        if self.data.is_empty() {
            Err(Refusal::Empty)
        } else if self.more && !self.data.len().is_multiple_of(8) {
            Err(Refusal::Uneven)
        } else if self.header_len + self.end() > LONGEST {
            Err(Refusal::TooLong)
        } else {
            Ok(())
        }
    }
}

/// Why a fragment was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has no bytes.
    Empty,
    /// Others follow, but its length is not a multiple of 8.
    Uneven,
    /// The datagram would be longer than any can be.
    TooLong,
    /// It is there already.
    Duplicate,
    /// It overlaps another, or contradicts it about the datagram's end.
    Overlap,
    /// Its datagram has as many as are allowed.
    TooMany,
    /// Some fragments were marked by congestion, others are not ECN-capable.
    Ecn,
    /// Its datagram had to make room.
    NoRoom,
}

impl Refusal {
    /// Counts frames that ended for this reason.
    fn count(self, frames: u64, drops: &mut Drops) {
        *match self {
            Refusal::Empty | Refusal::Uneven => &mut drops.fragment_malformed,
            Refusal::TooLong => &mut drops.fragment_too_long,
            Refusal::Duplicate => &mut drops.fragment_duplicate,
            Refusal::Overlap => &mut drops.fragment_overlap,
            Refusal::TooMany => &mut drops.fragment_too_many,
            Refusal::Ecn => &mut drops.fragment_ecn,
            Refusal::NoRoom => &mut drops.fragment_evicted,
        } += frames;
    }

    /// The rest of the datagram is refused as well.
    fn of_the_datagram(self) -> bool {
        matches!(self, Refusal::Overlap | Refusal::TooMany)
    }
}

/// A whole datagram: the first fragment's frame, with all the data behind it. Its headers are still a fragment's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Where the first fragment came in.
    pub interface: InterfaceId,
    pub frame: Vec<u8>,
    /// A fragment was marked by congestion, so the datagram is (RFC 3168 5.3).
    pub congestion: bool,
}

/// The first fragment of a datagram whose time is up, as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub interface: InterfaceId,
    pub frame: Vec<u8>,
}

/// What reassembly holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reassembling {
    /// Datagrams under way, and refused ones that are remembered.
    pub datagrams: usize,
    /// Memory, bookkeeping included.
    pub bytes: usize,
}

#[derive(Debug)]
struct Piece {
    offset: usize,
    data: Vec<u8>,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.data.len()
    }
}

/// What is kept of the first fragment besides its data.
#[derive(Debug)]
struct First {
    interface: InterfaceId,
    head: Vec<u8>,
    header_len: usize,
}

#[derive(Debug)]
struct Datagram {
    /// Its number, in the order of arrival.
    age: u64,
    deadline: Time,
    /// By offset; none overlap.
    pieces: Vec<Piece>,
    /// Data bytes in them.
    filled: usize,
    /// Where the datagram ends, once its last fragment is here.
    end: Option<usize>,
    first: Option<First>,
    /// The set of ECN code points seen, one bit each.
    ecn: u8,
    /// Memory, bookkeeping included.
    cost: usize,
    refused: Option<Refusal>,
}

impl Datagram {
    /// Whether a fragment fits those that are here.
    fn takes(&self, fragment: &Fragment<'_>, most: usize) -> Result<(), Refusal> {
        if let Some(refusal) = self.refused {
            return Err(refusal);
        }
        let at = self.pieces.partition_point(|piece| piece.offset < fragment.offset);
        let (before, after) = (at.checked_sub(1).map(|at| &self.pieces[at]), self.pieces.get(at));
        let last = self.end == Some(fragment.end());
        let same = |piece: &Piece| piece.offset == fragment.offset && piece.data == fragment.data;
        if after.is_some_and(same) && fragment.more != last {
            return Err(Refusal::Duplicate);
        }
        let overlaps = before.is_some_and(|piece| piece.end() > fragment.offset)
            || after.is_some_and(|piece| piece.offset < fragment.end());
        // Nothing lies behind the end, and there is one end.
        let contradicts = match (fragment.more, self.end) {
            (true, Some(end)) => fragment.end() >= end,
            (false, Some(end)) => fragment.end() != end,
            (false, None) => after.is_some(),
            (true, None) => false,
        };
        if overlaps || contradicts {
            Err(Refusal::Overlap)
        } else if self.pieces.len() >= most {
            Err(Refusal::TooMany)
        } else {
            Ok(())
        }
    }

    fn keep(&mut self, fragment: &Fragment<'_>) {
        let at = self.pieces.partition_point(|piece| piece.offset < fragment.offset);
        self.pieces.insert(at, Piece { offset: fragment.offset, data: fragment.data.to_vec() });
        self.filled += fragment.data.len();
        self.ecn |= 1 << (fragment.ecn & 3);
        if !fragment.more {
            self.end = Some(fragment.end());
        }
        if fragment.offset == 0 {
            let (interface, header_len) = (fragment.interface, fragment.header_len);
            self.first = Some(First { interface, head: fragment.head.to_vec(), header_len });
        }
    }

    fn is_whole(&self) -> bool {
        self.end == Some(self.filled)
    }

    /// The whole of it, when it is all here.
    fn put_together(self) -> Result<Whole, Refusal> {
        let congestion = self.ecn & 1 << CONGESTION != 0;
        let Some(first) = self.first.filter(|first| first.header_len + self.filled <= LONGEST) else {
            return Err(Refusal::TooLong);
        };
        if congestion && self.ecn & NOT_CAPABLE != 0 {
            return Err(Refusal::Ecn);
        }
        let mut frame = first.head;
        frame.reserve(self.filled);
        self.pieces.iter().for_each(|piece| frame.extend_from_slice(&piece.data));
        Ok(Whole { interface: first.interface, frame, congestion })
    }
}

/// Whom datagrams are counted for: the addresses that one site may have are one source.
type Source = (IpAddr, Option<InterfaceId>);

/// /24 and /64: hosts with addresses of their own choice are rarely spread wider.
fn source_of(key: &Key) -> Source {
    let prefix = match key.source {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & !0xff)),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    };
    (prefix, key.link)
}

/// What a source has here.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// Its datagrams' numbers.
    ages: BTreeSet<u64>,
}

impl Share {
    /// The greater, the sooner it has to make room: by datagrams, then by the age of the oldest. Bytes do not count:
    /// one honest datagram of 64 kB is heavier than a forged fragment of 8 bytes.
    fn rank(&self) -> Option<Rank> {
        Some((self.ages.len().max(FEW), Reverse(*self.ages.first()?)))
    }
}

type Rank = (usize, Reverse<u64>);

/// All datagrams under way.
#[derive(Debug)]
pub(crate) struct Reassembly {
    config: Config,
    datagrams: BTreeMap<Key, Datagram>,
    /// By their numbers, and so by their deadlines.
    ages: BTreeMap<u64, Key>,
    sources: BTreeMap<Source, Share>,
    ranks: BTreeSet<(Rank, Source)>,
    bytes: usize,
    next_age: u64,
}

impl Reassembly {
    pub(crate) fn new(config: Config) -> Self {
        Reassembly {
            config,
            datagrams: BTreeMap::new(),
            ages: BTreeMap::new(),
            sources: BTreeMap::new(),
            ranks: BTreeSet::new(),
            bytes: 0,
            next_age: 0,
        }
    }

    pub(crate) fn holds(&self) -> Reassembling {
        Reassembling { datagrams: self.datagrams.len(), bytes: self.bytes }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let (_, oldest) = self.ages.first_key_value()?;
        self.datagrams.get(oldest).map(|datagram| datagram.deadline)
    }

    /// Takes a fragment in. `Some`: it was the last that was missing. Every frame that ends here is counted, this one
    /// included.
    pub(crate) fn add(
        &mut self,
        now: Time,
        fragment: &Fragment<'_>,
        counters: &mut Counters,
    ) -> Result<Option<Whole>, Refusal> {
        let fits = |datagram: &Datagram| datagram.takes(fragment, self.config.reassembly_fragments);
        let verdict = fragment.check().and_then(|()| self.datagrams.get(&fragment.key).map_or(Ok(()), fits));
        if let Err(refusal) = verdict {
            let others = if refusal.of_the_datagram() { self.refuse(&fragment.key, refusal) } else { 0 };
            refusal.count(1 + others, &mut counters.drops);
            return Err(refusal);
        }
        let kept = if fragment.offset == 0 { fragment.head.len() } else { 0 };
        let cost = fragment.data.len() + kept + FRAGMENT_COST;
        if !self.make_room(&fragment.key, cost, &mut counters.drops) {
            Refusal::NoRoom.count(1, &mut counters.drops);
            return Err(Refusal::NoRoom);
        }
        self.keep(now, fragment, cost);
        let whole = self.datagrams.get(&fragment.key).is_some_and(Datagram::is_whole);
        let Some(datagram) = whole.then(|| self.remove(&fragment.key)).flatten() else {
            counters.fragments_kept += 1;
            return Ok(None);
        };
        let frames = datagram.pieces.len() as u64;
        let result = datagram.put_together();
        match &result {
            Ok(_) => counters.reassembled += 1,
            Err(refusal) => refusal.count(frames, &mut counters.drops),
        }
        result.map(Some)
    }

    /// Removes the datagrams whose time is up by now, up to and with the next one whose first fragment is here.
    pub(crate) fn expire(&mut self, now: Time, counters: &mut Counters) -> Option<Expired> {
        while self.next_timeout().is_some_and(|due| due <= now) {
            let key = self.ages.first_key_value().map(|(_, key)| *key)?;
            let datagram = self.remove(&key)?;
            counters.drops.fragment_timeout += datagram.pieces.len() as u64;
            if let (Some(first), Some(piece)) = (datagram.first, datagram.pieces.first()) {
                return Some(Expired { interface: first.interface, frame: [first.head, piece.data.clone()].concat() });
            }
        }
        None
    }

    /// Puts a fragment that was found to fit where it belongs.
    fn keep(&mut self, now: Time, fragment: &Fragment<'_>, cost: usize) {
        let (key, age) = (fragment.key, self.next_age);
        let mut cost = cost;
        let datagram = self.datagrams.entry(key).or_insert_with(|| {
            cost += DATAGRAM_COST;
            Datagram {
                age,
                deadline: now.after_millis(self.config.reassembly_ms),
                pieces: Vec::new(),
                filled: 0,
                end: None,
                first: None,
                ecn: 0,
                cost: 0,
                refused: None,
            }
        });
        datagram.keep(fragment);
        datagram.cost += cost;
        let age = datagram.age;
        self.next_age = self.next_age.max(age + 1);
        self.ages.insert(age, key);
        self.bytes += cost;
        self.change(source_of(&key), |share| {
            share.bytes += cost;
            share.ages.insert(age);
        });
    }

    /// Drops what is here of a datagram, but remembers that it is refused; returns how many fragments that were.
    fn refuse(&mut self, key: &Key, refusal: Refusal) -> u64 {
        let Some(datagram) = self.datagrams.get_mut(key) else { return 0 };
        let pieces = std::mem::take(&mut datagram.pieces);
        let freed = datagram.cost - DATAGRAM_COST;
        datagram.cost = DATAGRAM_COST;
        datagram.filled = 0;
        datagram.first = None;
        datagram.end = None;
        datagram.refused = Some(refusal);
        self.bytes -= freed;
        self.change(source_of(key), |share| share.bytes -= freed);
        pieces.len() as u64
    }

    /// Evicts datagrams until a fragment of this cost fits. False: the fragment's own was among them, or it never fits.
    fn make_room(&mut self, key: &Key, cost: usize, drops: &mut Drops) -> bool {
        let source = source_of(key);
        let (cost, new) = if self.datagrams.contains_key(key) { (cost, 0) } else { (cost + DATAGRAM_COST, 1) };
        if cost > self.config.reassembly_source_bytes.min(self.config.reassembly_bytes) {
            return false;
        }
        loop {
            let own = self.sources.get(&source);
            let (bytes, count) = own.map_or((0, 0), |own| (own.bytes, own.ages.len()));
            let oldest = if bytes + cost > self.config.reassembly_source_bytes
                || count + new > self.config.reassembly_source_datagrams
            {
                own.and_then(|own| own.ages.first().copied())
            } else if self.bytes + cost > self.config.reassembly_bytes
                || self.datagrams.len() + new > self.config.reassembly_datagrams
            {
                self.ranks.last().map(|((_, Reverse(oldest)), _)| *oldest)
            } else {
                return true;
            };
            let Some(victim) = oldest.and_then(|age| self.ages.get(&age).copied()) else { return false };
            let evicted = self.remove(&victim).map_or(0, |datagram| datagram.pieces.len());
            Refusal::NoRoom.count(evicted as u64, drops);
            if victim == *key {
                return false;
            }
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Datagram> {
        let datagram = self.datagrams.remove(key)?;
        self.ages.remove(&datagram.age);
        self.bytes -= datagram.cost;
        self.change(source_of(key), |share| {
            share.bytes -= datagram.cost;
            share.ages.remove(&datagram.age);
        });
        Some(datagram)
    }

    /// Changes what a source has, and its rank with it.
    fn change(&mut self, source: Source, change: impl FnOnce(&mut Share)) {
        let share = self.sources.entry(source).or_default();
        let before = share.rank();
        change(share);
        let after = share.rank();
        if share.ages.is_empty() {
            self.sources.remove(&source);
        }
        if before != after {
            before.map(|rank| self.ranks.remove(&(rank, source)));
            after.map(|rank| self.ranks.insert((rank, source)));
        }
    }
}

#[cfg(test)]
mod tests;
