// SPDX-License-Identifier: MIT
//! The common part of DPDK's tables: a pointer with an owner, a name, memory, errors.

use crate::eal::{Started, running};
use crate::ffi;
use perigee_fib::{LookupError, NextHopId};
use perigee_net::{Address, PrefixOf};
use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Owns one of DPDK's tables and frees it when dropped.
pub(super) struct Table<T> {
    table: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
    /// Bytes it took from EAL's heap, by the heap's own statistics before and after.
    pub(super) heap: usize,
    _eal: Arc<Started>,
}

// SAFETY: DPDK's tables are bound to no thread; changing one takes `&mut`.
unsafe impl<T> Send for Table<T> {}
// SAFETY: lookups only read.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// Calls `create` with a name that no other table has.
    pub(super) fn new(
        structure: &'static str,
        free: unsafe extern "C" fn(*mut T),
        create: impl FnOnce(&CString) -> *mut T,
    ) -> Result<Self, LookupError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let eal =
            running().ok_or(LookupError::Unavailable { structure, reason: "DPDK is not started; start it first" })?;
        // Short, as DPDK puts it into longer names of limited length.
        let name = CString::new(format!("pf{}", NUMBER.fetch_add(1, Ordering::Relaxed))).expect("no NUL in digits");
        // SAFETY: EAL is started.
        let before = unsafe { ffi::perigee_heap_used() };
        let table = NonNull::new(create(&name)).ok_or(LookupError::Memory { structure })?;
        // SAFETY: as above.
        let heap = unsafe { ffi::perigee_heap_used() }.saturating_sub(before);
        Ok(Self { table, free, heap, _eal: eal })
    }

    pub(super) fn get(&self) -> *mut T {
        self.table.as_ptr()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: created by us, freed once.
        unsafe { (self.free)(self.table.as_ptr()) };
    }
}

/// Refuses an id that does not fit.
pub(super) fn check(structure: &'static str, id: NextHopId, max: u32) -> Result<(), LookupError> {
    let max = max.min(NextHopId::MAX);
    if id.0 > max { Err(LookupError::NextHop { id: id.0, structure, max }) } else { Ok(()) }
}

/// Interprets the return code of an addition: lengths and ids have been checked, so a failure means that there was no
/// room.
pub(super) fn added<A: Address>(
    code: c_int,
    prefix: PrefixOf<A>,
    structure: &'static str,
    limit: u32,
) -> Result<(), LookupError> {
    if code == 0 {
        return Ok(());
    }
    Err(full(prefix, structure, "groups of long prefixes", limit))
}

pub(super) fn full<A: Address>(
    prefix: PrefixOf<A>,
    structure: &'static str,
    what: &'static str,
    limit: u32,
) -> LookupError {
    LookupError::Full { prefix: prefix.into(), structure, what, limit }
}

/// The power of two that `routes` fit in, with some room to spare.
pub(super) fn room(routes: usize, least: usize, most: usize) -> usize {
    (routes + routes / 8).checked_next_power_of_two().unwrap_or(most).clamp(least, most)
}

/// Addresses as 128 bits, left-aligned.
pub(super) trait Bits: Address {
    fn bits(self) -> u128;
    fn of(bits: u128) -> Self;
}

impl Bits for u32 {
    fn bits(self) -> u128 {
        u128::from(self) << 96
    }
    fn of(bits: u128) -> u32 {
        (bits >> 96) as u32
    }
}

impl Bits for u128 {
    fn bits(self) -> u128 {
        self
    }
    fn of(bits: u128) -> u128 {
        bits
    }
}

/// Expresses the prefixes that reach the last address by others.
///
/// DPDK 22.11 loses a prefix of length 0, and overwrites the whole table when a prefix that reaches the last address is
/// changed while there is a longer one that does, too. So it gets none of them but the last address itself: a prefix of
/// `n` ones is replaced by prefixes of `k` ones and a zero, for each `k` from `n` on.
#[derive(Default)]
pub(super) struct Top {
    /// By length: the prefixes of nothing but ones.
    ones: Vec<Option<u32>>,
    /// By the number of ones before the zero that ends them: the real prefixes among those that DPDK gets.
    parts: Vec<Option<u32>>,
}

impl Top {
    pub(super) fn new<A: Bits>() -> Self {
        let bits = usize::from(A::BITS);
        Self { ones: vec![None; bits + 1], parts: vec![None; bits] }
    }

    /// Whether this prefix is expressed by others.
    pub(super) fn has<A: Bits>(prefix: PrefixOf<A>) -> bool {
        prefix.addr().bits().leading_ones() + 1 >= prefix.len().into()
    }

    /// What DPDK should hold: the prefixes by their number of ones, then the last address.
    fn shown(&self) -> Vec<Option<u32>> {
        let mut cover = None;
        let parts = self.parts.iter().chain([&None]);
        let shown = self.ones.iter().zip(parts).map(|(ones, part)| {
            cover = ones.or(cover);
            part.or(cover)
        });
        shown.collect()
    }

    /// The prefix that DPDK gets at this index.
    fn prefix<A: Bits>(ones: usize) -> PrefixOf<A> {
        let addr = !u128::MAX.checked_shr(ones as u32).unwrap_or(0);
        PrefixOf::truncated(A::of(addr), (ones as u8 + 1).min(A::BITS)).expect("at most the address's length")
    }

    /// Sets or removes one of the prefixes it [`has`](Self::has); `store` sets or removes a prefix in DPDK. After an
    /// error, everything is as it was before.
    pub(super) fn change<A: Bits>(
        &mut self,
        prefix: PrefixOf<A>,
        id: Option<u32>,
        mut store: impl FnMut(PrefixOf<A>, Option<u32>) -> Result<(), LookupError>,
    ) -> Result<(), LookupError> {
        let before = self.shown();
        let ones = prefix.addr().bits().leading_ones() >= prefix.len().into();
        let at = usize::from(prefix.len());
        let place = if ones { &mut self.ones[at] } else { &mut self.parts[at - 1] };
        let old = std::mem::replace(place, id);
        let after = self.shown();
        let changed: Vec<usize> = (0..after.len()).filter(|&at| before[at] != after[at]).collect();
        for (done, &at) in changed.iter().enumerate() {
            if let Err(error) = store(Self::prefix(at), after[at]) {
                // Going back needs no more room than there was.
                changed[..done].iter().for_each(|&at| drop(store(Self::prefix(at), before[at])));
                let at = usize::from(prefix.len());
                *if ones { &mut self.ones[at] } else { &mut self.parts[at - 1] } = old;
                return Err(error);
            }
        }
        Ok(())
    }
}
