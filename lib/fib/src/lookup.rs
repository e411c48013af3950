// SPDX-License-Identifier: MIT
//! What every longest-prefix-match structure can do: readers look up while one writer patches in place.

use std::sync::Arc;

use thiserror::Error;

use crate::grace::Grace;
use crate::next_hop::NextHopId;
use crate::prefix::{Address, PrefixOf};

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

/// The control thread's half: knows every prefix, and stores into what the readers read.
pub trait LookupWriter<A: Address> {
    /// The readers' half.
    type Reader: Lookup<A>;

    /// The readers' half, to be handed to them once.
    fn reader(&self) -> &Arc<Self::Reader>;

    /// Sets the next hop of `prefix` and returns its previous one. After an error nothing has changed.
    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError>;

    /// Forgets `prefix` and returns its next hop: its addresses fall back to the next shorter prefix.
    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError>;

    /// Makes memory that was unlinked earlier usable again, as far as no reader can hold it.
    fn reclaim(&mut self, grace: Grace);

    /// How many pieces of unlinked memory wait for [`reclaim`](Self::reclaim).
    fn waiting(&self) -> usize;

    /// Bytes of the readers' half that are or were in use, the memory that waits for readers included.
    fn memory(&self) -> usize;
}

/// Why a lookup structure refused a change; it is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    /// No room.
    #[error(
        "{prefix} does not fit: all {limit} {what} of {structure} are in use; remove routes, or use another structure"
    )]
    Full {
        /// The prefix to insert.
        prefix: String,
        /// The structure's name.
        structure: &'static str,
        /// What ran out.
        what: &'static str,
        /// How many there are.
        limit: u32,
    },
    /// The next hop's id is too large to be stored.
    #[error("next hop {id} does not fit in {structure}; expected an id up to {max}", max = NextHopId::MAX)]
    NextHop {
        /// The id given.
        id: u32,
        /// The structure's name.
        structure: &'static str,
    },
    /// Nothing to remove.
    #[error("there is no route to {prefix} to remove")]
    Missing {
        /// The prefix given.
        prefix: String,
    },
    /// The allocator refused.
    #[error("not enough memory for {structure}")]
    Memory {
        /// The structure's name.
        structure: &'static str,
    },
}
