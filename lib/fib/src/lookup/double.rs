// SPDX-License-Identifier: MIT
//! Two copies of a structure that must not change under its readers (left-right, also called double buffering).
//!
//! ```text
//!            readers                 the writer
//!   front    look up here            leaves it alone
//!   back     none once the last      changes it; commit() makes it the front, which reader() then returns
//!            has let go of it
//! ```
//!
//! After a commit the old front is the back. While readers still hold it (its `Arc` is shared), changes are only noted;
//! once it is free, it catches up with what it lacks. Nothing ever waits for a reader.
//!
//! What is noted are prefixes, not changes: the writer has the whole table in a map, and a copy catches up by giving
//! each noted prefix its state in that map. So notes are bounded by the number of prefixes, retries do no harm, and a
//! change that does not fit stays noted until it does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::lookup::{Lookup, LookupError, LookupWriter};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::{Address, PrefixOf};

/// A structure that may be changed only while nobody reads it. After an error nothing has changed.
pub trait Buffer<A: Address>: Lookup<A> + Sized + 'static {
    /// Sets the next hop of `prefix`, which may already have one.
    fn set(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<(), LookupError>;

    /// Removes `prefix`; it is no error if it is not there.
    fn unset(&mut self, prefix: PrefixOf<A>) -> Result<(), LookupError>;

    /// Refuses an id that does not fit.
    fn check(&self, id: NextHopId) -> Result<(), LookupError>;

    /// The number of routes it was made for. One that is [`LookupError::Full`] is replaced by a larger one, if it
    /// [`may_grow`](Self::may_grow).
    fn room(&self) -> usize;

    /// Whether a larger one can be made.
    fn may_grow(&self) -> bool;

    /// Bytes that lookups may read.
    fn memory(&self) -> usize;
}

/// Makes an empty copy for this many routes, or for the most possible.
pub type Make<B> = fn(usize) -> Result<B, LookupError>;

/// The whole table by prefix. Every next hop in it has passed [`Buffer::check`].
type Routes<A> = HashMap<PrefixOf<A>, NextHopId>;

/// A copy, and the prefixes in which it may differ from the writer's map.
struct Copy<A, B> {
    buffer: Arc<B>,
    lacks: HashSet<PrefixOf<A>>,
}

impl<A: Address + std::hash::Hash, B: Buffer<A>> Copy<A, B> {
    fn new(make: Make<B>, room: usize, routes: &Routes<A>) -> Result<Self, LookupError> {
        Ok(Self { buffer: Arc::new(filled(make, room, routes)?), lacks: HashSet::new() })
    }

    /// The copy to be changed, if no reader holds it.
    fn free(&mut self) -> Option<&mut B> {
        Arc::get_mut(&mut self.buffer)
    }

    /// Brings a free copy up to date as far as that fits; returns the first error, if any. The prefixes in `last`,
    /// which the other copy lacks too, come last.
    fn catch_up(&mut self, make: Make<B>, routes: &Routes<A>, last: &HashSet<PrefixOf<A>>) -> Result<(), LookupError> {
        let Some(buffer) = Arc::get_mut(&mut self.buffer) else { return Ok(()) };
        let (mut first, mut stuck) = (Ok(()), false);
        // Removals make room for insertions. Then come the prefixes that readers have already, as these must not be
        // lost.
        for turn in [Turn::Gone, Turn::Shown, Turn::New] {
            self.lacks.retain(|prefix| {
                let done = match routes.get(prefix) {
                    None if turn == Turn::Gone => buffer.unset(*prefix),
                    Some(id) if turn == Turn::Shown && !last.contains(prefix) => buffer.set(*prefix, *id),
                    Some(id) if turn == Turn::New => buffer.set(*prefix, *id),
                    _ => return true,
                };
                let failed = done.is_err();
                stuck |= failed && turn == Turn::Gone;
                if first.is_ok() {
                    first = done;
                }
                failed
            });
        }
        // A removal that finds no room is made by building the copy again, if it cannot grow in its old size: that has
        // no gaps.
        if matches!(first, Err(LookupError::Full { .. })) && (buffer.may_grow() || stuck) {
            // If not all of `routes` fit then, the first error is returned.
            let more = buffer.room().saturating_mul(if buffer.may_grow() { GROWTH } else { 1 });
            *self = Self::new(make, more, routes).map_err(|_| first.clone().expect_err("matched"))?;
            return Ok(());
        }
        first
    }
}

/// The order in which a copy catches up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Gone,
    Shown,
    New,
}

/// A full copy is replaced by one for this many times as many routes.
const GROWTH: usize = 4;

/// A new buffer holding these routes, with room for at least `room`, or for more if they need it.
fn filled<A: Address, B: Buffer<A>>(make: Make<B>, room: usize, routes: &Routes<A>) -> Result<B, LookupError> {
    let mut buffer = make(room.max(routes.len()))?;
    loop {
        match routes.iter().try_for_each(|(prefix, id)| buffer.set(*prefix, *id)) {
            Ok(()) => return Ok(buffer),
            Err(LookupError::Full { .. }) if buffer.may_grow() => {
                let before = buffer.room();
                drop(buffer);
                buffer = make(before.saturating_mul(GROWTH))?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The routes by prefix, with their next hops checked; of several with one prefix the last counts.
fn checked<A: Address + std::hash::Hash, B: Buffer<A>>(
    buffer: &B,
    routes: &[(PrefixOf<A>, NextHopId)],
) -> Result<Routes<A>, LookupError> {
    routes.iter().try_for_each(|(_, id)| buffer.check(*id))?;
    Ok(routes.iter().copied().collect())
}

fn missing<A: Address>(prefix: PrefixOf<A>) -> LookupError {
    LookupError::Missing { prefix: prefix.into() }
}

/// The writer of two copies.
///
/// An id that does not fit is always refused by `insert`. That a copy is full is reported by `insert` if the back is
/// free, and nothing has changed then; otherwise by `commit`: readers do not see the change, it stays noted, and every
/// later `commit` tries again.
pub struct DoubleBuffered<A, B> {
    make: Make<B>,
    routes: Routes<A>,
    front: Copy<A, B>,
    back: Copy<A, B>,
}

impl<A: Address + std::hash::Hash, B: Buffer<A>> DoubleBuffered<A, B> {
    /// Two empty copies.
    pub fn new(make: Make<B>) -> Result<Self, LookupError> {
        let routes = Routes::new();
        let (front, back) = (Copy::new(make, 0, &routes)?, Copy::new(make, 0, &routes)?);
        Ok(Self { make, routes, front, back })
    }

    /// Sets or (without an id) removes `prefix` in the back, if that is free, else notes it. The map is changed
    /// already.
    fn change(&mut self, prefix: PrefixOf<A>, id: Option<NextHopId>) -> Result<(), LookupError> {
        let Some(buffer) = self.back.free() else {
            self.back.lacks.insert(prefix);
            self.front.lacks.insert(prefix);
            return Ok(());
        };
        let done = match id {
            Some(id) => buffer.set(prefix, id),
            None => buffer.unset(prefix),
        };
        match done {
            Ok(()) => drop(self.back.lacks.remove(&prefix)),
            Err(LookupError::Full { .. }) => {
                let noted = !self.back.lacks.insert(prefix);
                let result = self.back.catch_up(self.make, &self.routes, &self.front.lacks);
                if self.back.lacks.contains(&prefix) {
                    if !noted {
                        self.back.lacks.remove(&prefix);
                    }
                    return result;
                }
            }
            Err(error) => return Err(error),
        }
        self.front.lacks.insert(prefix);
        Ok(())
    }
}

impl<A: Address + std::hash::Hash, B: Buffer<A>> LookupWriter<A> for DoubleBuffered<A, B> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.front.buffer.clone()
    }

    fn view(&self) -> &dyn Lookup<A> {
        &*self.front.buffer
    }

    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        let routes = checked(&*self.front.buffer, routes)?;
        let front = Copy::new(self.make, 0, &routes)?;
        let back = Copy::new(self.make, 0, &routes)?;
        *self = Self { make: self.make, routes, front, back };
        Ok(())
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.front.buffer.check(id)?;
        let before = self.routes.insert(prefix, id);
        if let Err(error) = self.change(prefix, Some(id)) {
            match before {
                Some(before) => drop(self.routes.insert(prefix, before)),
                None => drop(self.routes.remove(&prefix)),
            }
            return Err(error);
        }
        Ok(before)
    }

    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        let id = self.routes.remove(&prefix).ok_or_else(|| missing(prefix))?;
        if self.change(prefix, None).is_err() {
            // Both copies lack it until there is room; every commit tries again.
            self.back.lacks.insert(prefix);
            self.front.lacks.insert(prefix);
        }
        Ok(id)
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        if self.front.lacks.is_empty() || self.back.free().is_none() {
            return Ok(());
        }
        let done = self.back.catch_up(self.make, &self.routes, &self.front.lacks);
        // The swap must bring readers something, and take nothing away.
        let (front, back) = (&self.front.lacks, &self.back.lacks);
        if back.len() < front.len() && back.is_subset(front) {
            std::mem::swap(&mut self.front, &mut self.back);
        }
        done
    }

    fn commit_is_cheap(&self) -> bool {
        false
    }

    fn uncommitted(&self) -> bool {
        !self.front.lacks.is_empty()
    }

    fn reclaim(&mut self, _: Grace) {
        // What does not fit stays noted, and commit reports it.
        let _ = self.back.catch_up(self.make, &self.routes, &self.front.lacks);
    }

    fn retired(&self) -> usize {
        self.back.lacks.len()
    }

    fn memory(&self) -> usize {
        self.front.buffer.memory() + self.back.buffer.memory()
    }
}

/// The writer of a single copy, for measurements of a structure's own size and rate of changes. A change is refused
/// while anything holds the [`reader`](LookupWriter::reader).
pub struct SingleBuffered<A, B> {
    make: Make<B>,
    routes: Routes<A>,
    only: Copy<A, B>,
}

impl<A: Address + std::hash::Hash, B: Buffer<A>> SingleBuffered<A, B> {
    /// An empty copy.
    pub fn new(make: Make<B>) -> Result<Self, LookupError> {
        let routes = Routes::new();
        Ok(Self { make, only: Copy::new(make, 0, &routes)?, routes })
    }

    fn free(&mut self) -> Result<&mut B, LookupError> {
        let structure = self.only.buffer.name();
        self.only.free().ok_or(LookupError::Busy { structure })
    }
}

impl<A: Address + std::hash::Hash, B: Buffer<A>> LookupWriter<A> for SingleBuffered<A, B> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.only.buffer.clone()
    }

    fn view(&self) -> &dyn Lookup<A> {
        &*self.only.buffer
    }

    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        let routes = checked(&*self.only.buffer, routes)?;
        self.only = Copy::new(self.make, 0, &routes)?;
        self.routes = routes;
        Ok(())
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.only.buffer.check(id)?;
        let done = self.free()?.set(prefix, id);
        if let (Err(error @ LookupError::Full { .. }), true) = (&done, self.only.buffer.may_grow()) {
            let mut routes = self.routes.clone();
            routes.insert(prefix, id);
            let more = self.only.buffer.room().saturating_mul(GROWTH);
            self.only = Copy::new(self.make, more, &routes).map_err(|_| error.clone())?;
        } else {
            done?;
        }
        Ok(self.routes.insert(prefix, id))
    }

    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        let id = *self.routes.get(&prefix).ok_or_else(|| missing(prefix))?;
        self.free()?.unset(prefix)?;
        self.routes.remove(&prefix);
        Ok(id)
    }

    fn reclaim(&mut self, _: Grace) {}

    fn retired(&self) -> usize {
        0
    }

    fn memory(&self) -> usize {
        self.only.buffer.memory()
    }
}
