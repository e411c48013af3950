// SPDX-License-Identifier: MIT
//! What every longest-prefix-match structure offers: lookups by many readers while one writer changes it.

pub(crate) mod blocks;
pub(crate) mod bm19;
pub(crate) mod compaction;
pub(crate) mod dir24;
pub(crate) mod dirb;
pub(crate) mod double;
pub(crate) mod dxr;
pub mod nodes;
pub(crate) mod poptrie;
pub(crate) mod range6;
pub(crate) mod reads;
pub(crate) mod runs;
pub(crate) mod simd;
pub(crate) mod slots;
pub mod structures;
pub(crate) mod table;
pub(crate) mod trie6;

use std::sync::Arc;

use thiserror::Error;

use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::{Address, Prefix, PrefixOf};

pub use table::Arena;

/// The lines of an arena at which the parts of an IPv4 structure begin: BM19's, and what DIRB has in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts4 {
    /// BM19's nodes.
    pub nodes: u32,
    /// BM19's leaves.
    pub leaves: u32,
    /// BM19's groups.
    pub groups: u32,
    /// Whether leaves and groups are words of 32 bits, not of 16.
    pub wide: bool,
    /// DIRB's bytes, if there are any.
    pub bytes: Option<u32>,
    /// The next hops of their codes, if codes are no ids.
    pub codes: Option<u32>,
}

/// The lines of an arena at which the parts of an IPv6 structure begin: range6's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts6 {
    /// Its words.
    pub words: u32,
    /// The default route's next hop.
    pub default: u32,
}

/// Where a structure is in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Of IPv4.
    V4(Parts4),
    /// Of IPv6.
    V6(Parts6),
}

/// The readers' half: shared by all workers, never locked.
///
/// While the writer changes a prefix, a reader sees its old or its new next hop and never that of another prefix,
/// provided that the reader keeps nothing it looked up beyond its next batch boundary (see [`Grace`]).
pub trait Lookup<A: Address>: Send + Sync {
    /// The structure's name, as in the configuration.
    fn name(&self) -> &'static str;

    /// Where it is in an arena; `None` if it is in memory that this process alone reads.
    fn parts(&self) -> Option<Parts> {
        None
    }

    /// The next hop of the longest prefix that contains `address`.
    fn lookup(&self, address: A) -> NextHopId;

    /// Sets `ids[i]` to the [`NextHopId`] of `addresses[i]`. This is where a structure overlaps the cache misses of
    /// several addresses, if it can.
    ///
    /// # Panics
    /// If the slices differ in length.
    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]);

    /// Starts to load into the cache what a lookup of these addresses reads first, so that its misses pass while the
    /// caller does something else before [`lookup_prefetched`](Self::lookup_prefetched). A hint: no result depends
    /// on it.
    fn prefetch_batch(&self, _addresses: &[A]) {}

    /// As [`lookup_batch`](Self::lookup_batch), for addresses that [`prefetch_batch`](Self::prefetch_batch) was called
    /// with.
    fn lookup_prefetched(&self, addresses: &[A], ids: &mut [u32]) {
        self.lookup_batch(addresses, ids);
    }
}

/// The control thread's half: knows every prefix.
///
/// There are two ways to publish a change. A structure that is patched in place stores into what the readers read, and
/// [`reader`](Self::reader) stays the same. One that is rebuilt (or has to grow) makes a new readers' half, which
/// [`reader`](Self::reader) returns from then on: the caller compares the two, and publishes the new one.
pub trait LookupWriter<A: Address>: Send {
    /// The current readers' half.
    fn reader(&self) -> Arc<dyn Lookup<A>>;

    /// The current readers' half, lent: for questions in between, which leave alone the count of its owners that lies
    /// beside what workers read.
    fn view(&self) -> &dyn Lookup<A>;

    /// Replaces all routes by these, and makes a new readers' half; of several routes with one prefix the last counts.
    /// Much faster than inserting them one by one. After an error nothing has changed, and the old table stays in
    /// use.
    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError>;

    /// Sets the next hop of `prefix` and returns its previous one. After an error nothing has changed. What readers see
    /// is written even if the prefix is believed to have this next hop already, so that a corrupted table can be
    /// repaired.
    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError>;

    /// Removes `prefix` and returns its next hop: its addresses fall back to the next shorter prefix. The only error is
    /// that it is not there (or [`LookupError::Busy`], of a single copy): what finds no room makes room. If there
    /// is no memory for that, the change is [`uncommitted`](Self::uncommitted), and every commit tries again.
    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError>;

    /// Makes several changes, each of another prefix, by prefix: sets a next hop, or removes the prefix, if it is
    /// there. The same as one after the other, but what they have in common is written once.
    ///
    /// # Errors
    /// How many have been made, and why the next one is refused. Nothing has changed by that one or those behind it.
    fn change_all(&mut self, changes: &[(PrefixOf<A>, Option<NextHopId>)]) -> Result<(), (usize, LookupError)> {
        one_by_one(self, changes, 0)
    }

    /// Makes all changes so far visible in [`reader`](Self::reader), for structures that collect them, and may replace
    /// a table with many gaps by one without, which gives memory back. To be called after one
    /// change or several. For its cost see [`commit_is_cheap`](Self::commit_is_cheap).
    fn commit(&mut self) -> Result<(), LookupError> {
        Ok(())
    }

    /// Whether a [`commit`](Self::commit) costs next to nothing, so that it may follow every burst of changes: true
    /// where each change is stored at once. Otherwise callers should let changes accumulate: the cost grows with
    /// the number of changes where they are made a second time (two copies).
    fn commit_is_cheap(&self) -> bool {
        true
    }

    /// Whether some change is not visible in [`reader`](Self::reader) yet. After a [`commit`](Self::commit) that means
    /// that a reader is in the way or memory is short: commit again later. Until then the old state's next hops
    /// must keep their meaning.
    fn uncommitted(&self) -> bool {
        false
    }

    /// If the structure chooses its form by its routes: which one it has chosen and the figures that decided, for
    /// people.
    fn choice_reason(&self) -> Option<String> {
        None
    }

    /// Makes retired memory usable again, except what a reader may still hold.
    fn reclaim(&mut self, grace: Grace);

    /// How much is retired, that is, unlinked and waiting for [`reclaim`](Self::reclaim): pieces of memory, or the
    /// prefixes in which a retired copy is out of date.
    fn retired(&self) -> usize;

    /// Bytes of the readers' half that are or were in use, retired memory included.
    fn memory(&self) -> usize;
}

/// Makes changes from the one at `from` on as [`LookupWriter::change_all`] does, one after the other.
pub(crate) fn one_by_one<A: Address>(
    writer: &mut (impl LookupWriter<A> + ?Sized),
    changes: &[(PrefixOf<A>, Option<NextHopId>)],
    from: usize,
) -> Result<(), (usize, LookupError)> {
    for (at, &(prefix, id)) in changes.iter().enumerate().skip(from) {
        let done = match id {
            Some(id) => writer.insert(prefix, id).map(drop),
            None => writer.remove(prefix).map(drop),
        };
        match done {
            Ok(()) | Err(LookupError::Missing { .. }) => {}
            Err(error) => return Err((at, error)),
        }
    }
    Ok(())
}

/// Whether all ids of these changes are ids.
pub(crate) fn fit<P>(changes: &[(P, Option<NextHopId>)]) -> bool {
    changes.iter().all(|(_, id)| id.is_none_or(|id| id.0 <= NextHopId::MAX))
}

/// A structure's name, and how to make an empty one.
#[derive(Clone, Copy)]
pub struct Structure<A: Address> {
    /// Its name in the configuration, on the command line and in results.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Makes an empty one.
    pub new: fn() -> Result<Box<dyn LookupWriter<A>>, LookupError>,
}

/// Why a lookup structure refused a change; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    /// No room for a prefix.
    #[error(
        "{prefix} does not fit: all {limit} {what} of {structure} are in use; remove routes, or use another structure"
    )]
    Full {
        /// The prefix to insert.
        prefix: Prefix,
        /// The structure's name.
        structure: &'static str,
        /// What ran out.
        what: &'static str,
        /// How many there are.
        limit: u32,
    },
    /// No room for a whole table.
    #[error(
        "a table of {prefixes} prefixes does not fit: all {limit} {what} of {structure} are in use; load fewer routes, or use another structure"
    )]
    TableFull {
        /// How many prefixes were to be loaded.
        prefixes: usize,
        /// The structure's name.
        structure: &'static str,
        /// What ran out.
        what: &'static str,
        /// How many there are.
        limit: u32,
    },
    /// The next hop's id does not fit.
    #[error("next hop {id} does not fit in {structure}; expected an id up to {max}")]
    NextHop {
        /// The id given.
        id: u32,
        /// The structure's name.
        structure: &'static str,
        /// The largest id that fits.
        max: u32,
    },
    /// Nothing to remove.
    #[error("there is no route to {prefix} to remove")]
    Missing {
        /// The prefix given.
        prefix: Prefix,
    },
    /// The structure must not change under its readers, and has one.
    #[error("a reader holds {structure}, which is changed in place; drop the reader first")]
    Busy {
        /// The structure's name.
        structure: &'static str,
    },
    /// Something that the structure needs is missing.
    #[error("{structure} cannot be used: {reason}")]
    Unavailable {
        /// The structure's name.
        structure: &'static str,
        /// What is missing, and what to do.
        reason: &'static str,
    },
    /// The allocator refused.
    #[error("not enough memory for {structure}")]
    Memory {
        /// The structure's name.
        structure: &'static str,
    },
}

impl LookupError {
    /// Whether it stays as it is until other prefixes leave; else the next commit may do better.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::TableFull { .. } | Self::NextHop { .. })
    }

    /// For a rebuild that a change of `prefix` has caused: it is this prefix that does not fit, not the table.
    pub(crate) fn because_of(self, prefix: Prefix) -> Self {
        match self {
            Self::TableFull { structure, what, limit, .. } => Self::Full { prefix, structure, what, limit },
            other => other,
        }
    }
}

/// Refuses ids over `max`.
pub(crate) fn check_id(structure: &'static str, id: NextHopId, max: u32) -> Result<(), LookupError> {
    if id.0 > max {
        return Err(LookupError::NextHop { id: id.0, structure, max });
    }
    Ok(())
}
