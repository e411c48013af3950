// SPDX-License-Identifier: MIT
//! A structure in several copies, one for each NUMA node that has workers, so that a lookup reads no other node's
//! memory.
//!
//! ```text
//!  writer ──every change──► copy 0   (decides: what it refuses is refused)
//!                         ► copy 1   memory of its node        readers on node 1 ──[`read_copy`]──► copy 1
//! ```
//!
//! The first copy is the table; the others follow it. One that cannot (it finds no memory) is given up: its readers
//! read the first copy from then on, so no reader ever sees what the first copy has not. Next hops and neighbors are
//! not copied: they are a few cache lines that change rarely, so that each core has them in its own cache. On one node
//! none of this is used.

use std::cell::Cell;
use std::sync::Arc;

use crate::lookup::{Lookup, LookupError, LookupWriter};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::{Address, PrefixOf};

thread_local! {
    static COPY: Cell<usize> = const { Cell::new(0) };
}

/// The calling thread reads copy `copy` from now on, counted from 0; the first one where there are not as many.
pub fn read_copy(copy: usize) {
    COPY.set(copy);
}

/// Calls a function that allocates so that its memory is on the node of copy `copy`.
pub type Place = Arc<dyn Fn(usize, &mut dyn FnMut()) + Send + Sync>;

/// How to make an empty copy.
pub type MakeCopy<A> = fn() -> Result<Box<dyn LookupWriter<A>>, LookupError>;

/// The writer's half of all copies.
pub struct PerNode<A> {
    first: Box<dyn LookupWriter<A>>,
    /// Copy 1 and so on; `None` if it was given up.
    others: Vec<Option<Box<dyn LookupWriter<A>>>>,
    place: Place,
    reader: Arc<Readers<A>>,
}

/// The readers' halves, by copy.
struct Readers<A> {
    copies: Vec<Arc<dyn Lookup<A>>>,
}

impl<A: Address> Readers<A> {
    #[inline]
    fn mine(&self) -> &dyn Lookup<A> {
        &**self.copies.get(COPY.get()).unwrap_or(&self.copies[0])
    }
}

impl<A: Address> Lookup<A> for Readers<A> {
    fn name(&self) -> &'static str {
        self.copies[0].name()
    }

    fn lookup(&self, address: A) -> NextHopId {
        self.mine().lookup(address)
    }

    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]) {
        self.mine().lookup_batch(addresses, ids);
    }

    fn prefetch_batch(&self, addresses: &[A]) {
        self.mine().prefetch_batch(addresses);
    }

    fn lookup_prefetched(&self, addresses: &[A], ids: &mut [u32]) {
        self.mine().lookup_prefetched(addresses, ids);
    }
}

impl<A: Address> PerNode<A> {
    /// `copies` empty ones, at least one.
    ///
    /// # Errors
    /// The first one cannot be made.
    pub fn new(copies: usize, place: Place, make: MakeCopy<A>) -> Result<Self, LookupError> {
        let made = |copy| {
            let mut made = None;
            place(copy, &mut || made = Some(make()));
            made.unwrap_or_else(make)
        };
        let first = made(0)?;
        let others: Vec<_> = (1..copies).map(|copy| made(copy).ok()).collect();
        let reader = Arc::new(Readers { copies: vec![first.reader()] });
        let mut all = Self { first, others, place, reader };
        all.renew();
        Ok(all)
    }

    /// Copies that follow the first one.
    pub fn following(&self) -> usize {
        self.others.iter().flatten().count()
    }

    /// The copies' current readers' halves: the first one's in the place of those that were given up.
    fn current(&self) -> impl Iterator<Item = &dyn LookupWriter<A>> {
        let others = self.others.iter().map(|other| other.as_deref().unwrap_or(&*self.first));
        std::iter::once(&*self.first).chain(others)
    }

    /// Makes a new readers' half if a copy has got one.
    fn renew(&mut self) {
        let is_old = self.reader.copies.len() == 1 + self.others.len()
            && self
                .current()
                .zip(&self.reader.copies)
                .all(|(copy, old)| std::ptr::addr_eq(copy.view(), &raw const **old));
        if !is_old {
            self.reader = Arc::new(Readers { copies: self.current().map(LookupWriter::reader).collect() });
        }
    }

    /// Changes the first copy, and if it takes that, the others: those that do not are given up.
    fn change<T>(
        &mut self,
        mut change: impl FnMut(&mut dyn LookupWriter<A>) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let mut result = None;
        (self.place)(0, &mut || result = Some(change(&mut *self.first)));
        let result = result.unwrap_or_else(|| change(&mut *self.first))?;
        for (copy, other) in (1..).zip(&mut self.others) {
            let Some(writer) = other else { continue };
            let mut follows = false;
            (self.place)(copy, &mut || follows = change(&mut **writer).is_ok());
            if !follows {
                *other = None;
            }
        }
        self.renew();
        Ok(result)
    }

    fn sum(&self, of: fn(&dyn LookupWriter<A>) -> usize) -> usize {
        of(&*self.first) + self.others.iter().flatten().map(|other| of(&**other)).sum::<usize>()
    }
}

impl<A: Address> LookupWriter<A> for PerNode<A> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.reader.clone()
    }

    fn view(&self) -> &dyn Lookup<A> {
        &*self.reader
    }

    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        self.change(|copy| copy.load(routes))
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.change(|copy| copy.insert(prefix, id))
    }

    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        self.change(|copy| copy.remove(prefix))
    }

    fn change_all(&mut self, changes: &[(PrefixOf<A>, Option<NextHopId>)]) -> Result<(), (usize, LookupError)> {
        let mut made = None;
        (self.place)(0, &mut || made = Some(self.first.change_all(changes)));
        let first = made.unwrap_or_else(|| self.first.change_all(changes));
        let made = &changes[..first.as_ref().err().map_or(changes.len(), |(made, _)| *made)];
        for (copy, other) in (1..).zip(&mut self.others) {
            let Some(writer) = other else { continue };
            let mut follows = false;
            (self.place)(copy, &mut || follows = writer.change_all(made).is_ok());
            if !follows {
                *other = None;
            }
        }
        self.renew();
        first
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        let mut done = None;
        (self.place)(0, &mut || done = Some(self.first.commit()));
        let first = done.unwrap_or_else(|| self.first.commit());
        for (copy, other) in (1..).zip(&mut self.others) {
            if let Some(other) = other {
                // What it could not commit it tries again, and says so: see `uncommitted`.
                (self.place)(copy, &mut || drop(other.commit()));
            }
        }
        self.renew();
        first
    }

    fn commit_is_cheap(&self) -> bool {
        self.first.commit_is_cheap()
    }

    fn uncommitted(&self) -> bool {
        self.first.uncommitted() || self.others.iter().flatten().any(|other| other.uncommitted())
    }

    fn choice_reason(&self) -> Option<String> {
        self.first.choice_reason()
    }

    fn reclaim(&mut self, grace: Grace) {
        self.first.reclaim(grace);
        self.others.iter_mut().flatten().for_each(|other| other.reclaim(grace));
    }

    fn retired(&self) -> usize {
        self.sum(|copy| copy.retired())
    }

    fn memory(&self) -> usize {
        self.sum(|copy| copy.memory())
    }
}
