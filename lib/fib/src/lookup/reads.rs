// SPDX-License-Identifier: MIT
//! The machine's limit, for benchmarks: random reads of four bytes from a table of a given size, and no other work.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::lookup::table::Table;

/// A table to be read at random places, in huge pages as the lookup structures are.
pub struct RandomReads(Table<[AtomicU32]>);

impl RandomReads {
    /// A table of `bytes` bytes, rounded up to a power of two. `None` if memory is short.
    pub fn new(bytes: usize) -> Option<Self> {
        let words = bytes.div_ceil(size_of::<u32>()).next_power_of_two();
        let table = Table::<[AtomicU32]>::zeroed_slice(words).ok()?;
        // Written once, so that every page has memory of its own.
        for (index, word) in table.iter().enumerate() {
            word.store(index as u32, Ordering::Relaxed);
        }
        Some(Self(table))
    }

    /// Sets `out[i]` to the word at `indices[i]`, modulo the size. The reads do not depend on one another.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline(never)]
    pub fn read(&self, indices: &[u32], out: &mut [u32]) {
        assert_eq!(indices.len(), out.len(), "one word per index");
        let table: &[AtomicU32] = &self.0;
        let mask = table.len() - 1;
        for (to, index) in out.iter_mut().zip(indices) {
            *to = table[*index as usize & mask].load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let reads = RandomReads::new(1000).expect("1 KB");
        let mut out = [0; 4];
        reads.read(&[0, 255, 256, u32::MAX], &mut out);
        assert_eq!(out, [0, 255, 0, 255]);
    }
}
