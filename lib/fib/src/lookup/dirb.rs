// SPDX-License-Identifier: MIT
//! DIRB for IPv4: one byte per /24 in front of [BM19](crate::lookup::bm19), which is asked only if the byte says so.
//!
//! A byte is the code of a next hop, or 255: the /24 has longer prefixes inside, or a next hop without a code. While
//! all next hops in use have ids below 255 the codes are the ids; otherwise the most popular ones (those with most /24)
//! get the codes, and one more small table turns codes into ids. Codes are assigned when the table is built, and
//! [again](DirbWriter::recode) when too many /24 have none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::lookup::bm19::{Bm19, Bm19Writer, PLACES};
use crate::lookup::simd::ipv4::{self, Bytes};
use crate::lookup::simd::{Isa, prefetch};
use crate::lookup::table::{Memory, Table};
use crate::lookup::{Arena, Lookup, LookupError, LookupWriter, Parts, Parts4, check_id, fit, one_by_one};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::Prefix4;

const NAME: &str = "dirb";
/// The byte that means: ask BM19.
const ASK: u32 = 255;
/// Slots of BM19.
const SLOTS: usize = 1 << 19;
/// Addresses per pass: one bit each in a mask.
const PASS: usize = 64;
/// Words of four bytes in a slot of BM19.
const WORDS: usize = PLACES / 4;
/// How many /24 there are.
const ALL: usize = 1 << 24;
/// `auto` takes BM19 alone when more than a fiftieth of the routed /24 have no code: at about that share the two tables
/// together are as fast as BM19 alone (bench/RESULTS.md), as nearly every batch then asks BM19 too, for varying lanes.
const TOO_MANY: usize = 50;
/// Codes are assigned again when this many more /24 have none: 1/64 of all.
const STALE: usize = ALL / 64;

/// The readers' half.
pub struct Dirb {
    bytes: Arc<Table<Bytes>>,
    codes: Codes,
    bm19: Arc<Bm19>,
    isa: Isa,
}

/// Which next hops have codes.
#[derive(Clone)]
enum Codes {
    /// A code is an id.
    Ids,
    /// Ids by code, and codes by id. The code [`ASK`] has no id.
    Table(Arc<ByCode>),
}

/// Ids by code, and codes by id.
struct ByCode {
    ids: Table<[AtomicU32; 256]>,
    codes: HashMap<u32, u8>,
}

impl ByCode {
    #[inline(always)]
    fn id(&self, code: u32) -> u32 {
        self.ids[code as usize & 255].load(Ordering::Relaxed)
    }
}

impl Codes {
    /// The code of a leaf of BM19.
    fn code(&self, leaf: u32) -> u8 {
        match self {
            Self::Ids => leaf.min(ASK) as u8,
            Self::Table(table) => table.codes.get(&leaf).copied().unwrap_or(ASK as u8),
        }
    }
}

/// In the table of ids by code: no id.
const NO_ID: u32 = u32::MAX;

impl Dirb {
    /// Finishes the lookups that have found no code.
    #[inline(never)]
    fn ask(&self, mut mask: u64, addresses: &[u32], ids: &mut [u32]) {
        let mut places = [0u8; PASS];
        let (mut asked, mut found) = ([0u32; PASS], [0u32; PASS]);
        let mut count = 0;
        while mask != 0 {
            let place = mask.trailing_zeros() as usize;
            places[count % PASS] = place as u8;
            asked[count % PASS] = addresses[place];
            count += 1;
            mask &= mask - 1;
        }
        self.bm19.lookup_batch(&asked[..count], &mut found[..count]);
        for (place, id) in places[..count].iter().zip(found) {
            ids[usize::from(*place)] = id;
        }
    }
}

impl Lookup<u32> for Dirb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> Option<Parts> {
        let codes = match &self.codes {
            Codes::Ids => None,
            Codes::Table(table) => Some(table.ids.line()?),
        };
        Some(Parts::V4(Parts4 { bytes: Some(self.bytes.line()?), codes, ..self.bm19.parts4()? }))
    }

    #[inline]
    fn lookup(&self, address: u32) -> NextHopId {
        let code = ipv4::byte(&self.bytes, address);
        // A next hop is stored before its code becomes visible.
        fence(Ordering::Acquire);
        match (code, &self.codes) {
            (ASK, _) => self.bm19.lookup(address),
            (code, Codes::Ids) => NextHopId(code),
            (code, Codes::Table(table)) => NextHopId(table.id(code)),
        }
    }

    #[inline]
    fn prefetch_batch(&self, addresses: &[u32]) {
        if self.isa != Isa::Scalar {
            ipv4::prefetch_bytes(&self.bytes, addresses);
        }
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        self.prefetch_batch(addresses);
        self.lookup_prefetched(addresses, ids);
    }

    #[inline]
    fn lookup_prefetched(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        for (addresses, ids) in addresses.chunks(PASS).zip(ids.chunks_mut(PASS)) {
            let mask = ipv4::bytes(self.isa, &self.bytes, addresses, ids);
            // A next hop is stored before its code becomes visible.
            fence(Ordering::Acquire);
            if let Codes::Table(table) = &self.codes {
                ids.iter_mut().for_each(|id| *id = table.id(*id));
            }
            if mask != 0 {
                self.ask(mask, addresses, ids);
            }
        }
    }
}

/// The control thread's half; with `auto` it takes BM19 alone where too many /24 have no code.
pub struct DirbWriter {
    bm19: Bm19Writer,
    /// The bytes in front of BM19; none while `auto` does without.
    front: Option<Front>,
    shared: Arc<dyn Lookup<u32>>,
    auto: bool,
    isa: Isa,
    counted: Counted,
    /// Whether readers do not see a removal yet, for want of memory.
    behind: bool,
}

/// What was counted when codes were assigned.
#[derive(Clone, Copy, Default)]
struct Counted {
    /// The /24 with a route.
    routed: usize,
    /// Those of them whose next hop got a code.
    coded: usize,
    next_hops: usize,
}

struct Front {
    bytes: Arc<Table<Bytes>>,
    codes: Codes,
    /// How many bytes are [`ASK`].
    asking: usize,
    /// How many of them were when the codes were assigned, or the fewest since.
    asking_at_first: usize,
}

impl Front {
    /// Stores the bytes of a slot.
    fn paint(&mut self, slot: usize, places: &[u32; PLACES]) {
        let (mut last, mut code) = (places[0], self.codes.code(places[0]));
        let bytes: [u8; PLACES] = std::array::from_fn(|place| {
            if places[place] != last {
                (last, code) = (places[place], self.codes.code(places[place]));
            }
            code
        });
        for (word, bytes) in self.bytes[slot * WORDS..][..WORDS].iter().zip(bytes.as_chunks::<4>().0) {
            let old = word.load(Ordering::Relaxed).to_le_bytes();
            if old != *bytes {
                self.asking += asking(bytes);
                self.asking -= asking(&old);
                word.store(u32::from_le_bytes(*bytes), Ordering::Release);
            }
        }
    }
}

/// How many of these bytes are [`ASK`].
fn asking(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| u32::from(**byte) == ASK).count()
}

impl DirbWriter {
    /// An empty table; with `auto` it may take BM19 alone.
    pub fn new(auto: bool) -> Result<Self, LookupError> {
        Self::with(auto, Isa::detect(), u32::MAX)
    }

    /// An empty table in memory that others read, too.
    pub fn in_arena(auto: bool, arena: &Arc<Arena>) -> Result<Self, LookupError> {
        Self::within(Memory::Arena(arena.clone()), auto, Isa::detect(), u32::MAX)
    }

    /// As [`new`](Self::new), with at most `max_leaves` leaves in BM19, looked up by the instructions of `isa`, which
    /// must be available.
    pub fn with(auto: bool, isa: Isa, max_leaves: u32) -> Result<Self, LookupError> {
        Self::within(Memory::Own, auto, isa, max_leaves)
    }

    fn within(memory: Memory, auto: bool, isa: Isa, max_leaves: u32) -> Result<Self, LookupError> {
        let front = Front {
            bytes: Arc::new(memory.table().map_err(|_| MEMORY)?),
            codes: Codes::Ids,
            asking: 0,
            asking_at_first: 0,
        };
        let bm19 = Bm19Writer::within(memory, isa, max_leaves)?;
        let shared = bm19.shared().clone();
        let mut writer =
            Self { bm19, front: Some(front), shared, auto, isa, counted: Counted::default(), behind: false };
        writer.share();
        Ok(writer)
    }

    /// Makes a new readers' half from the current parts.
    fn share(&mut self) {
        let bm19 = self.bm19.shared().clone();
        self.shared = match &self.front {
            Some(Front { bytes, codes, .. }) => {
                Arc::new(Dirb { bytes: bytes.clone(), codes: codes.clone(), bm19, isa: self.isa })
            }
            None => bm19,
        };
    }

    /// Counts the /24 of every next hop, and assigns codes to the most popular ones. With `auto` it decides whether the
    /// bytes pay at all.
    fn recode(&mut self) -> Result<(), LookupError> {
        let popularity = self.popularity();
        let codes = match popularity.iter().all(|(_, leaf)| *leaf < ASK || is_group(*leaf)) {
            true => Codes::Ids,
            false => assign(&popularity, self.bm19.table_memory())?,
        };
        let (mut routed, mut coded) = (0, 0);
        for &(count, leaf) in popularity.iter().filter(|(_, leaf)| *leaf != NextHopId::NO_ROUTE.0) {
            routed += count;
            coded += if u32::from(codes.code(leaf)) == ASK { 0 } else { count };
        }
        // All bytes are painted before anything is replaced, so that an error leaves everything as it was.
        let front = if !self.auto || (routed - coded) * TOO_MANY <= routed {
            let bytes = Arc::new(self.bm19.table_memory().table().map_err(|_| MEMORY)?);
            let mut front = Front { bytes, codes, asking: 0, asking_at_first: 0 };
            for slot in 0..SLOTS {
                // Fresh bytes are 0.
                if self.bm19.alike(slot).is_none_or(|leaf| front.codes.code(leaf) != 0) {
                    front.paint(slot, &self.bm19.places(slot));
                }
            }
            front.asking_at_first = front.asking;
            Some(front)
        } else {
            None
        };
        let next_hops = popularity.iter().filter(|(_, leaf)| !is_group(*leaf) && *leaf != NextHopId::NO_ROUTE.0);
        self.counted = Counted { routed, coded, next_hops: next_hops.count() };
        self.front = front;
        self.share();
        Ok(())
    }

    /// Every leaf in use with the number of its /24, the most popular first.
    fn popularity(&self) -> Vec<(usize, u32)> {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let (mut last, mut count) = (0, 0);
        for slot in 0..SLOTS {
            if self.bm19.alike(slot) == Some(last) {
                count += PLACES;
                continue;
            }
            for leaf in self.bm19.places(slot) {
                if leaf != last {
                    *counts.entry(last).or_default() += std::mem::take(&mut count);
                    last = leaf;
                }
                count += 1;
            }
        }
        *counts.entry(last).or_default() += count;
        let mut popularity: Vec<(usize, u32)> = counts.into_iter().map(|(leaf, count)| (count, leaf)).collect();
        popularity.sort_unstable_by(|a, b| b.cmp(a));
        popularity
    }

    fn change(&mut self, prefix: Prefix4, id: Option<NextHopId>) -> Result<Option<NextHopId>, LookupError> {
        let front = &mut self.front;
        if let Some(front) = front {
            prefetch(&front.bytes[(prefix.addr() >> 13) as usize * WORDS]);
        }
        let before = Arc::as_ptr(self.bm19.shared());
        let old = self.bm19.change(prefix, id, |bm19, slot| {
            if let Some(front) = front {
                front.paint(slot, &bm19.places(slot));
            }
        })?;
        self.follow(before);
        Ok(old)
    }

    /// BM19 has changed; before, its readers' half was this one.
    fn follow(&mut self, before: *const Bm19) {
        self.behind |= self.bm19.is_behind();
        if Arc::as_ptr(self.bm19.shared()) != before {
            self.share();
        }
    }
}

/// Assigns the codes to the most popular next hops.
fn assign(popularity: &[(usize, u32)], memory: &Memory) -> Result<Codes, LookupError> {
    let ids: Table<[AtomicU32; 256]> = memory.table().map_err(|_| MEMORY)?;
    ids.iter().for_each(|id| id.store(NO_ID, Ordering::Relaxed));
    let mut table = ByCode { ids, codes: HashMap::new() };
    let popular = popularity.iter().map(|(_, leaf)| *leaf).filter(|leaf| !is_group(*leaf));
    for (code, id) in (0..ASK as u8).zip(popular) {
        table.ids[usize::from(code)].store(id, Ordering::Relaxed);
        table.codes.insert(id, code);
    }
    Ok(Codes::Table(Arc::new(table)))
}

/// Whether a /24 with this leaf has longer prefixes inside.
fn is_group(leaf: u32) -> bool {
    leaf > NextHopId::MAX
}

const MEMORY: LookupError = LookupError::Memory { structure: NAME };

impl LookupWriter<u32> for DirbWriter {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        let memory = self.bm19.table_memory().clone();
        let mut fresh = Self::within(memory, self.auto, self.isa, self.bm19.max_leaves())?;
        fresh.bm19.load(routes)?;
        fresh.recode()?;
        *self = fresh;
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        self.change(prefix, Some(id))
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        self.bm19.check_present(prefix)?;
        Ok(self.change(prefix, None)?.unwrap_or(NextHopId::NO_ROUTE))
    }

    fn change_all(&mut self, changes: &[(Prefix4, Option<NextHopId>)]) -> Result<(), (usize, LookupError)> {
        if !fit(changes) {
            return one_by_one(self, changes, 0);
        }
        let before = Arc::as_ptr(self.bm19.shared());
        let bytes = self.front.as_ref().map(|front| front.bytes.clone());
        let ahead = |slot: usize| bytes.iter().for_each(|bytes| prefetch(&bytes[slot * WORDS]));
        let front = &mut self.front;
        let done = self.bm19.change_all(changes, ahead, |bm19, slot| {
            if let Some(front) = front {
                front.paint(slot, &bm19.places(slot));
            }
        });
        self.follow(before);
        done
    }

    /// Assigns codes again if too many /24 have lost theirs to new next hops. Once `auto` has gone over to BM19, only
    /// [`load`](Self::load) brings DIRB back.
    fn commit(&mut self) -> Result<(), LookupError> {
        let before = Arc::as_ptr(self.bm19.shared());
        self.bm19.tidy()?;
        if self.behind {
            self.recode()?;
            self.behind = false;
        }
        if Arc::as_ptr(self.bm19.shared()) != before {
            self.share();
        }
        let Some(front) = &mut self.front else { return Ok(()) };
        front.asking_at_first = front.asking_at_first.min(front.asking);
        // How many are too many depends on the table; in a small one it does not matter.
        let stale = if self.auto { (self.counted.routed / TOO_MANY).clamp(STALE / 64, STALE) } else { STALE };
        if front.asking <= front.asking_at_first + stale {
            return Ok(());
        }
        front.asking_at_first = front.asking;
        // If memory is short the old codes stay: correct, only slower.
        match self.recode() {
            Err(LookupError::Memory { .. }) => Ok(()),
            other => other,
        }
    }

    fn uncommitted(&self) -> bool {
        self.behind
    }

    /// What `auto` has chosen, and on which figures.
    fn choice_reason(&self) -> Option<String> {
        let Counted { routed, coded, next_hops } = self.counted;
        let share = (100 * coded).checked_div(routed).unwrap_or(100);
        let choice = if self.front.is_some() { "dirb" } else { "bm19" };
        self.auto.then(|| {
            format!("{choice}: the most popular of {next_hops} next hops, up to 255, have {share} % of the routed /24")
        })
    }

    fn reclaim(&mut self, grace: Grace) {
        self.bm19.reclaim(grace);
    }

    fn retired(&self) -> usize {
        self.bm19.retired()
    }

    fn memory(&self) -> usize {
        self.bm19.memory() + if self.front.is_some() { size_of::<Bytes>() } else { 0 }
    }
}
