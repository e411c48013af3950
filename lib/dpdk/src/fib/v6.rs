// SPDX-License-Identifier: MIT
//! IPv6: rte_lpm6, and rte_fib6 with next hops of 2 or 4 bytes.

use super::MOST6;
use super::table::{Table, Top, added, check, room};
use crate::ffi;
use perigee_fib::{Buffer, Lookup, LookupError, NextHopId};
use perigee_net::Prefix6;
use std::ffi::CString;

const LEAST: usize = 1 << 12;
const ENTRIES: u64 = 1 << 24;
const GROUP: u64 = 256;
/// rte_lpm6 stores next hops and numbers of groups in 21 bits.
const LPM_MAX: u32 = (1 << 21) - 1;
/// Bytes of a route in rte_lpm6's hash table, and of what comes with a group.
const LPM_RULE: u64 = 128;
const LPM_GROUP: u64 = 16;
/// Bytes of a node in rte_rib6's pool, with the pool's own; there are two nodes per route.
const RIB_NODE: u64 = 256;

/// How many groups of 256 entries there is room for. The Internet's table needs less than one per route.
fn groups(room: usize) -> u32 {
    room.max(1 << 13) as u32
}

/// Bytes that rte_lpm6 takes from EAL's heap.
pub(super) fn lpm_bytes(routes: usize) -> u64 {
    let room = room(routes, LEAST, MOST6);
    ENTRIES * 4 + (GROUP * 4 + LPM_GROUP) * u64::from(groups(room)) + room as u64 * LPM_RULE
}

/// Bytes that rte_fib6 takes from EAL's heap.
pub(super) fn fib_bytes(log2_size: i32, routes: usize) -> u64 {
    let room = room(routes, LEAST, MOST6);
    let groups = u64::from(fib_groups(log2_size, room)) + 1;
    ((ENTRIES + GROUP * groups) << log2_size) + 4 * groups + 2 * room as u64 * RIB_NODE
}

fn single(look_up: impl FnOnce(&mut [u32])) -> NextHopId {
    let mut id = [0];
    look_up(&mut id);
    NextHopId(id[0])
}

/// rte_lpm6, once.
pub struct Lpm6 {
    lpm: Table<ffi::Lpm6>,
    /// rte_lpm6 has no prefix of length 0.
    default: u32,
    room: usize,
}

impl Lpm6 {
    /// An empty one with room for this many routes, at most [`MOST6`].
    pub fn new(routes: usize) -> Result<Self, LookupError> {
        let room = room(routes, LEAST, MOST6);
        // SAFETY: the name is copied.
        let create = |name: &CString| unsafe { ffi::perigee_lpm6_create(name.as_ptr(), room as u32, groups(room)) };
        let lpm = Table::new("rte_lpm6", ffi::rte_lpm6_free, create)?;
        Ok(Self { lpm, default: 0, room })
    }

    /// Bytes it took from EAL's heap, its hash table of routes included.
    pub fn heap(&self) -> usize {
        self.lpm.heap
    }

    /// What `lookup_batch` does, for addresses in network order, as DPDK has them.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup_batch_be(&self, addresses: &[[u8; 16]], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        self.look_up(addresses.as_ptr(), 0, ids);
    }

    /// `addresses` are as many as `ids`.
    fn look_up(&self, addresses: *const [u8; 16], turn: i32, ids: &mut [u32]) {
        // SAFETY: as the callers have checked; nobody changes the table, as that takes `&mut self`.
        unsafe { ffi::perigee_lpm6_lookup(self.lpm.get(), addresses, turn, ids.as_mut_ptr(), ids.len(), self.default) };
    }
}

impl Lookup<u128> for Lpm6 {
    fn name(&self) -> &'static str {
        "rte_lpm6"
    }

    fn lookup(&self, address: u128) -> NextHopId {
        single(|id| self.lookup_batch_be(&[address.to_be_bytes()], id))
    }

    fn lookup_batch(&self, addresses: &[u128], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        self.look_up(addresses.as_ptr().cast(), 1, ids);
    }
}

impl Buffer<u128> for Lpm6 {
    fn set(&mut self, prefix: Prefix6, id: NextHopId) -> Result<(), LookupError> {
        self.check(id)?;
        if prefix.len() == 0 {
            self.default = id.0;
            return Ok(());
        }
        // SAFETY: this is the only user of the table; the address is read during the call.
        let code = unsafe { ffi::perigee_lpm6_add(self.lpm.get(), &prefix.addr().to_be_bytes(), prefix.len(), id.0) };
        added(code, prefix, "rte_lpm6", groups(self.room))
    }

    fn unset(&mut self, prefix: Prefix6) -> Result<(), LookupError> {
        if prefix.len() == 0 {
            self.default = 0;
            return Ok(());
        }
        // SAFETY: this is the only user of the table. The one error possible is that the prefix is unknown.
        unsafe { ffi::perigee_lpm6_delete(self.lpm.get(), &prefix.addr().to_be_bytes(), prefix.len()) };
        Ok(())
    }

    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        check("rte_lpm6", id, LPM_MAX)
    }

    fn room(&self) -> usize {
        self.room
    }

    fn may_grow(&self) -> bool {
        self.room < MOST6
    }

    fn memory(&self) -> usize {
        ((ENTRIES + GROUP * u64::from(groups(self.room))) * 4) as usize
    }
}

/// Groups of rte_fib6: their index has to fit an entry, as a next hop does.
fn fib_groups(log2_size: i32, room: usize) -> u32 {
    groups(room).min(max_id(log2_size))
}

/// The largest next hop in an entry of this many bytes: one bit is DPDK's.
fn max_id(log2_size: i32) -> u32 {
    if log2_size == 1 { 32767 } else { i32::MAX as u32 }
}

/// rte_fib6 with a trie and next hops of 2^`LOG2_SIZE` bytes, once.
pub struct Fib6<const LOG2_SIZE: i32> {
    fib: Table<ffi::Fib6>,
    vector: bool,
    room: usize,
    top: Top,
    /// Whether prefixes were removed: DPDK's count of groups drifts with removals until it refuses what would fit, and
    /// a rebuilt table may have room.
    removals: bool,
}

impl<const LOG2_SIZE: i32> Fib6<LOG2_SIZE> {
    const NAME: &str = if LOG2_SIZE == 1 { "rte_fib6_2" } else { "rte_fib6" };

    /// An empty one with room for this many routes, at most [`MOST6`].
    pub fn new(routes: usize) -> Result<Self, LookupError> {
        let room = room(routes, LEAST, MOST6);
        let groups = fib_groups(LOG2_SIZE, room);
        let mut vector = 0;
        // SAFETY: the name is copied; `vector` is written before the call returns.
        let create = |name: &CString| unsafe {
            ffi::perigee_fib6_create(name.as_ptr(), LOG2_SIZE, room as u32, groups, &mut vector)
        };
        let fib = Table::new(Self::NAME, ffi::rte_fib6_free, create)?;
        Ok(Self { fib, vector: vector != 0, room, top: Top::new::<u128>(), removals: false })
    }

    /// Whether lookups use AVX-512.
    pub fn vector(&self) -> bool {
        self.vector
    }

    /// Bytes it took from EAL's heap, rte_rib6's copy of the routes included.
    pub fn heap(&self) -> usize {
        self.fib.heap
    }

    /// What `lookup_batch` does, for addresses in network order, as DPDK has them.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup_batch_be(&self, addresses: &[[u8; 16]], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        self.look_up(addresses.as_ptr(), 0, ids);
    }

    fn add(&mut self, prefix: Prefix6, id: u32) -> Result<(), LookupError> {
        // SAFETY: this is the only user of the table; the address is read during the call.
        let code =
            unsafe { ffi::perigee_fib6_add(self.fib.get(), &prefix.addr().to_be_bytes(), prefix.len(), id.into()) };
        added(code, prefix, Self::NAME, fib_groups(LOG2_SIZE, self.room))
    }

    fn delete(&mut self, prefix: Prefix6) -> Result<(), LookupError> {
        self.removals = true;
        // SAFETY: this is the only user of the table; the address is read during the call.
        let code = unsafe { ffi::perigee_fib6_delete(self.fib.get(), &prefix.addr().to_be_bytes(), prefix.len()) };
        // An unknown prefix is not an error; any other code means a shortage of groups.
        let code = if code == -rustix::io::Errno::NOENT.raw_os_error() { 0 } else { code };
        added(code, prefix, Self::NAME, fib_groups(LOG2_SIZE, self.room))
    }

    /// Sets or removes a prefix that DPDK gets.
    fn store(&mut self, prefix: Prefix6, id: Option<u32>) -> Result<(), LookupError> {
        match id {
            Some(id) => self.add(prefix, id),
            None => self.delete(prefix),
        }
    }

    /// Sets or removes any prefix, also one that DPDK does not get as it is.
    fn change(&mut self, prefix: Prefix6, id: Option<u32>) -> Result<(), LookupError> {
        if !Top::has(prefix) {
            return self.store(prefix, id);
        }
        let mut top = std::mem::take(&mut self.top);
        let done = top.change(prefix, id, |prefix, id| self.store(prefix, id));
        self.top = top;
        done
    }

    /// `addresses` are as many as `ids`.
    fn look_up(&self, addresses: *const [u8; 16], turn: i32, ids: &mut [u32]) {
        // SAFETY: as the callers have checked; nobody changes the table, as that takes `&mut self`.
        unsafe { ffi::perigee_fib6_lookup(self.fib.get(), addresses, turn, ids.as_mut_ptr(), ids.len()) };
    }
}

impl<const LOG2_SIZE: i32> Lookup<u128> for Fib6<LOG2_SIZE> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn lookup(&self, address: u128) -> NextHopId {
        single(|id| self.lookup_batch_be(&[address.to_be_bytes()], id))
    }

    fn lookup_batch(&self, addresses: &[u128], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        self.look_up(addresses.as_ptr().cast(), 1, ids);
    }
}

impl<const LOG2_SIZE: i32> Buffer<u128> for Fib6<LOG2_SIZE> {
    fn set(&mut self, prefix: Prefix6, id: NextHopId) -> Result<(), LookupError> {
        self.check(id)?;
        self.change(prefix, Some(id.0))
    }

    fn unset(&mut self, prefix: Prefix6) -> Result<(), LookupError> {
        self.change(prefix, None)
    }

    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        check(Self::NAME, id, max_id(LOG2_SIZE))
    }

    fn room(&self) -> usize {
        self.room
    }

    fn may_grow(&self) -> bool {
        self.room < MOST6 || self.removals
    }

    fn memory(&self) -> usize {
        ((ENTRIES + GROUP * (u64::from(fib_groups(LOG2_SIZE, self.room)) + 1)) << LOG2_SIZE) as usize
    }
}
