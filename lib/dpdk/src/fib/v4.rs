// SPDX-License-Identifier: MIT
//! IPv4: rte_lpm, and rte_fib with next hops of 1, 2 or 4 bytes.

use super::MOST4;
use super::table::{Table, Top, added, check, full, room};
use crate::ffi;
use perigee_fib::{Buffer, Lookup, LookupError, NextHopId};
use perigee_net::Prefix4;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;

const LEAST: usize = 1 << 12;
const ENTRIES: u64 = 1 << 24;
const GROUP: u64 = 256;
/// Bytes of a route in rte_lpm's list.
const LPM_RULE: u64 = 8;
/// Bytes of a node in rte_rib's pool, with the pool's own; there are two nodes per route.
const RIB_NODE: u64 = 224;

/// How many /24 may contain longer prefixes. The Internet has fewer than a thousand.
fn groups(room: usize) -> u32 {
    (room / 64).max(256) as u32
}

/// Bytes that rte_lpm takes from EAL's heap.
pub(super) fn lpm_bytes(routes: usize) -> u64 {
    let room = room(routes, LEAST, MOST4);
    (ENTRIES + GROUP * u64::from(groups(room))) * 4 + room as u64 * LPM_RULE
}

/// Bytes that rte_fib takes from EAL's heap.
pub(super) fn fib_bytes(log2_size: i32, routes: usize) -> u64 {
    let room = room(routes, LEAST, MOST4);
    let groups = u64::from(fib_groups(log2_size, room)) + 1;
    ((ENTRIES + GROUP * groups) << log2_size) + 2 * room as u64 * RIB_NODE
}

/// rte_lpm, once.
pub struct Lpm4 {
    lpm: Table<ffi::Lpm>,
    /// rte_lpm has no prefix of length 0.
    default: u32,
    room: usize,
}

impl Lpm4 {
    /// An empty one with room for this many routes, at most [`MOST4`].
    pub fn new(routes: usize) -> Result<Self, LookupError> {
        let room = room(routes, LEAST, MOST4);
        // SAFETY: the name is copied.
        let create = |name: &CString| unsafe { ffi::perigee_lpm_create(name.as_ptr(), room as u32, groups(room)) };
        let lpm = Table::new("rte_lpm", ffi::rte_lpm_free, create)?;
        Ok(Self { lpm, default: 0, room })
    }

    /// Bytes it took from EAL's heap, its list of routes included.
    pub fn heap(&self) -> usize {
        self.lpm.heap
    }
}

impl Lookup<u32> for Lpm4 {
    fn name(&self) -> &'static str {
        "rte_lpm"
    }

    fn lookup(&self, address: u32) -> NextHopId {
        let mut id = [0];
        self.lookup_batch(&[address], &mut id);
        NextHopId(id[0])
    }

    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        // SAFETY: the slices have that many addresses and ids; nobody changes the table, as that takes `&mut self`.
        unsafe {
            ffi::perigee_lpm_lookup(
                self.lpm.get(),
                addresses.as_ptr(),
                ids.as_mut_ptr(),
                addresses.len(),
                self.default,
            );
        }
    }
}

impl Buffer<u32> for Lpm4 {
    fn set(&mut self, prefix: Prefix4, id: NextHopId) -> Result<(), LookupError> {
        self.check(id)?;
        if prefix.len() == 0 {
            self.default = id.0;
            return Ok(());
        }
        // SAFETY: this is the only user of the table.
        let code = unsafe { ffi::rte_lpm_add(self.lpm.get(), prefix.addr(), prefix.len(), id.0) };
        added(code, prefix, "rte_lpm", groups(self.room))
    }

    fn unset(&mut self, prefix: Prefix4) -> Result<(), LookupError> {
        if prefix.len() == 0 {
            self.default = 0;
            return Ok(());
        }
        // SAFETY: this is the only user of the table. The one error possible is that the prefix is unknown.
        unsafe { ffi::rte_lpm_delete(self.lpm.get(), prefix.addr(), prefix.len()) };
        Ok(())
    }

    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        check("rte_lpm", id, NextHopId::MAX)
    }

    fn room(&self) -> usize {
        self.room
    }

    fn may_grow(&self) -> bool {
        self.room < MOST4
    }

    fn memory(&self) -> usize {
        ((ENTRIES + GROUP * u64::from(groups(self.room))) * 4) as usize
    }
}

/// Groups of rte_fib: their index has to fit an entry, as a next hop does. DPDK rounds up to 64.
fn fib_groups(log2_size: i32, room: usize) -> u32 {
    groups(room).min(max_id(log2_size)).next_multiple_of(64)
}

/// The largest next hop in an entry of this many bytes: one bit is DPDK's.
fn max_id(log2_size: i32) -> u32 {
    match log2_size {
        0 => 127,
        1 => 32767,
        _ => i32::MAX as u32,
    }
}

/// rte_fib with DIR-24-8 and next hops of 2^`LOG2_SIZE` bytes, once.
pub struct Fib4<const LOG2_SIZE: i32> {
    fib: Table<ffi::Fib>,
    vector: bool,
    room: usize,
    top: Top,
    /// Prefixes longer than /24, and how many there are in each /24: DPDK reports a shortage of groups only for new
    /// prefixes, so there is to be none.
    long: HashSet<Prefix4>,
    per_group: HashMap<u32, u32>,
}

impl<const LOG2_SIZE: i32> Fib4<LOG2_SIZE> {
    const NAME: &str = match LOG2_SIZE {
        0 => "rte_fib1",
        1 => "rte_fib",
        _ => "rte_fib4",
    };

    /// An empty one with room for this many routes, at most [`MOST4`].
    pub fn new(routes: usize) -> Result<Self, LookupError> {
        let room = room(routes, LEAST, MOST4);
        // Not rounded here: the largest number that DPDK takes is odd.
        let groups = groups(room).min(max_id(LOG2_SIZE));
        let mut vector = 0;
        // SAFETY: the name is copied; `vector` is written before the call returns.
        let create = |name: &CString| unsafe {
            ffi::perigee_fib_create(name.as_ptr(), LOG2_SIZE, room as u32, groups, &mut vector)
        };
        let fib = Table::new(Self::NAME, ffi::rte_fib_free, create)?;
        Ok(Self {
            fib,
            vector: vector != 0,
            room,
            top: Top::new::<u32>(),
            long: HashSet::new(),
            per_group: HashMap::new(),
        })
    }

    /// Whether lookups use AVX-512.
    pub fn vector(&self) -> bool {
        self.vector
    }

    /// Bytes it took from EAL's heap, rte_rib's copy of the routes included.
    pub fn heap(&self) -> usize {
        self.fib.heap
    }

    /// Groups that may be in use: DPDK wants two free ones for a range, whether it needs them or not.
    fn limit(&self) -> u32 {
        fib_groups(LOG2_SIZE, self.room) - 2
    }

    /// Adds to DPDK's table; a failure leaves no trace in it.
    fn add(&mut self, prefix: Prefix4, id: u32) -> Result<(), LookupError> {
        // SAFETY: this is the only user of the table.
        let code = unsafe { ffi::rte_fib_add(self.fib.get(), prefix.addr(), prefix.len(), id.into()) };
        added(code, prefix, Self::NAME, self.limit())
    }

    /// Sets or removes a prefix that DPDK gets.
    fn store(&mut self, prefix: Prefix4, id: Option<u32>) -> Result<(), LookupError> {
        match id {
            Some(id) if prefix.len() > 24 && !self.long.contains(&prefix) => self.add_long(prefix, id),
            Some(id) => self.add(prefix, id),
            None => {
                self.delete(prefix);
                Ok(())
            }
        }
    }

    /// Sets or removes any prefix, also one that DPDK does not get as it is.
    fn change(&mut self, prefix: Prefix4, id: Option<u32>) -> Result<(), LookupError> {
        if !Top::has(prefix) {
            return self.store(prefix, id);
        }
        let mut top = std::mem::take(&mut self.top);
        let done = top.change(prefix, id, |prefix, id| self.store(prefix, id));
        self.top = top;
        done
    }

    fn delete(&mut self, prefix: Prefix4) {
        // SAFETY: this is the only user of the table. An error means that the prefix is unknown.
        unsafe { ffi::rte_fib_delete(self.fib.get(), prefix.addr(), prefix.len()) };
        if self.long.remove(&prefix) {
            let group = prefix.addr() >> 8;
            match self.per_group.get_mut(&group) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.per_group.remove(&group)),
            }
        }
    }

    /// A new prefix longer than /24.
    fn add_long(&mut self, prefix: Prefix4, id: u32) -> Result<(), LookupError> {
        let group = prefix.addr() >> 8;
        if !self.per_group.contains_key(&group) && self.per_group.len() as u32 >= self.limit() {
            return Err(full(prefix, Self::NAME, "groups of long prefixes", self.limit()));
        }
        // DPDK forgets to count the group of a prefix whose next hop is its parent's, though it later subtracts it. So
        // the prefix is added with a next hop that no route has, and then changed.
        self.add(prefix, max_id(LOG2_SIZE))?;
        self.add(prefix, id)?;
        self.long.insert(prefix);
        *self.per_group.entry(group).or_default() += 1;
        Ok(())
    }
}

impl<const LOG2_SIZE: i32> Lookup<u32> for Fib4<LOG2_SIZE> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn lookup(&self, address: u32) -> NextHopId {
        let mut id = [0];
        self.lookup_batch(&[address], &mut id);
        NextHopId(id[0])
    }

    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        // SAFETY: the slices have that many addresses and ids; nobody changes the table, as that takes `&mut self`.
        unsafe { ffi::perigee_fib_lookup(self.fib.get(), addresses.as_ptr(), ids.as_mut_ptr(), addresses.len()) };
    }
}

impl<const LOG2_SIZE: i32> Buffer<u32> for Fib4<LOG2_SIZE> {
    fn set(&mut self, prefix: Prefix4, id: NextHopId) -> Result<(), LookupError> {
        self.check(id)?;
        self.change(prefix, Some(id.0))
    }

    fn unset(&mut self, prefix: Prefix4) -> Result<(), LookupError> {
        self.change(prefix, None)
    }

    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        check(Self::NAME, id, max_id(LOG2_SIZE))
    }

    fn room(&self) -> usize {
        self.room
    }

    fn may_grow(&self) -> bool {
        // More room for routes does not help when groups are short and there cannot be more of them.
        let more_groups = fib_groups(LOG2_SIZE, MOST4) > fib_groups(LOG2_SIZE, self.room);
        self.room < MOST4 && (more_groups || (self.per_group.len() as u32) < self.limit())
    }

    fn memory(&self) -> usize {
        ((ENTRIES + GROUP * u64::from(fib_groups(LOG2_SIZE, self.room) + 1)) << LOG2_SIZE) as usize
    }
}
