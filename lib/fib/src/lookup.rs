// SPDX-License-Identifier: MIT
//! What every longest-prefix-match structure can do: readers look up while one writer patches in place.

pub(crate) mod blocks;
pub(crate) mod bm19;
pub(crate) mod dir24;
pub(crate) mod dirb;
pub(crate) mod double;
pub(crate) mod dxr;
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

/// The readers' half: shared by all workers, never locked.
///
/// While the writer changes a prefix, a reader sees the prefix's old or its new next hop, and never another's,
/// provided that it keeps nothing it looked up beyond its next batch boundary (see [`Grace`]).
pub trait Lookup<A: Address>: Send + Sync {
    /// The structure's name, as in the configuration.
    fn name(&self) -> &'static str;

    /// The next hop of the longest prefix that contains `address`.
    fn lookup(&self, address: A) -> NextHopId;

    /// `ids[i]` becomes the [`NextHopId`] of `addresses[i]`. A structure that can overlap the cache misses of several
    /// addresses does it here.
    ///
    /// # Panics
    /// If the slices differ in length.
    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]);
}

/// The control thread's half: knows every prefix.
///
/// There are two ways to publish a change. A structure that is patched in place stores into what the readers read, and
/// [`reader`](Self::reader) stays the same. One that rebuilds (or that grows) makes a new readers' half, and
/// [`reader`](Self::reader) is another one from then on: whoever publishes tables compares, and publishes it.
pub trait LookupWriter<A: Address>: Send {
    /// The readers' half as it is now.
    fn reader(&self) -> Arc<dyn Lookup<A>>;

    /// Replaces everything by these routes, with a new readers' half; of several with one prefix the last counts. Much
    /// faster than to insert them one by one. After an error nothing has changed, and the old table stays in use.
    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError>;

    /// Sets the next hop of `prefix` and returns its previous one. After an error nothing has changed. What readers see is
    /// written even if the prefix is believed to have this next hop already: so a table that is wrong can be mended.
    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError>;

    /// Forgets `prefix` and returns its next hop: its addresses fall back to the next shorter prefix. After an error
    /// nothing has changed.
    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError>;

    /// Makes the changes so far visible in [`reader`](Self::reader), for structures that collect them. To be called after
    /// one change or after a run of them. What it costs is in [`commit_is_cheap`](Self::commit_is_cheap).
    fn commit(&mut self) -> Result<(), LookupError> {
        Ok(())
    }

    /// Whether a [`commit`](Self::commit) costs next to nothing, so that it may follow every burst of changes: so it is where
    /// each change is stored at once. Otherwise it costs as much as the table is large, as it is rebuilt (DXR), or as the changes did, which are made a second time (two copies): then the caller
    /// does well to let changes gather.
    fn commit_is_cheap(&self) -> bool {
        true
    }

    /// Whether a change is not visible in [`reader`](Self::reader) even after [`commit`](Self::commit), as a reader is in
    /// the way or memory is short: commit again later. Until then the next hops of the old state must keep their meaning.
    fn uncommitted(&self) -> bool {
        false
    }

    /// Why it is what it is, in a few words, if it chooses by its routes.
    fn choice_reason(&self) -> Option<String> {
        None
    }

    /// Makes memory that was unlinked earlier usable again, as far as no reader can hold it.
    fn reclaim(&mut self, grace: Grace);

    /// How many pieces of unlinked memory wait for [`reclaim`](Self::reclaim).
    fn retired(&self) -> usize;

    /// Bytes of the readers' half that are or were in use, the memory that waits for readers included.
    fn memory(&self) -> usize;
}

/// How a structure is named, and how an empty one is made.
#[derive(Clone, Copy)]
pub struct Structure<A: Address> {
    /// Its name in the configuration, on the command line and in results.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Makes an empty one.
    pub new: fn() -> Result<Box<dyn LookupWriter<A>>, LookupError>,
}

/// Why a lookup structure refused a change; it is as it was.
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
    /// The next hop's id is too large to be stored.
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
    /// A structure that must not change under its readers has one.
    #[error("{structure} changes in place, and a reader is in it; let go of the reader first")]
    Busy {
        /// The structure's name.
        structure: &'static str,
    },
    /// What the structure is made of is not there.
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
    /// The error of the change that made a table be built anew: `prefix` is what does not fit, not the table.
    pub(crate) fn because_of(self, prefix: Prefix) -> Self {
        match self {
            Self::TableFull { structure, what, limit, .. } => Self::Full { prefix, structure, what, limit },
            other => other,
        }
    }
}
