// SPDX-License-Identifier: MIT
//! The allocator of the table of buckets: blocks of a power of two, one per group of next hops.

use crate::next_hop::group::LOG2;

/// A run of `1 << log2` buckets from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub first: u32,
    pub log2: u8,
}

impl Block {
    pub fn len(self) -> usize {
        1 << self.log2
    }
}

/// The free blocks. If none of a size is left, a larger one is halved; halves are never joined again.
pub(crate) struct Buckets {
    free: [Vec<u32>; *LOG2.end() as usize + 1],
    untouched: usize,
    len: usize,
}

impl Buckets {
    pub fn new(len: usize) -> Self {
        Self { free: Default::default(), untouched: 0, len }
    }

    /// A free block of this size, if there is one.
    pub fn take(&mut self, log2: u8) -> Option<Block> {
        let size = usize::from(log2);
        if let Some(first) = self.free[size].pop() {
            return Some(Block { first, log2 });
        }
        let first = self.untouched;
        if first + (1 << size) <= self.len {
            self.untouched += 1 << size;
            return Some(Block { first: first as u32, log2 });
        }
        let larger = (size + 1..self.free.len()).find(|size| !self.free[*size].is_empty())?;
        let first = self.free[larger].pop()?;
        // Halved again and again: each upper half becomes free, and the lowest is taken.
        (size..larger).for_each(|half| self.free[half].push(first + (1 << half)));
        Some(Block { first, log2 })
    }

    pub fn give_back(&mut self, block: Block) {
        self.free[usize::from(block.log2)].push(block.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_and_come_back() {
        let mut buckets = Buckets::new(1 << 10);
        let large = buckets.take(9).expect("room");
        let small: Vec<Block> = std::iter::from_fn(|| buckets.take(7)).collect();
        assert_eq!(small.len(), 4);
        assert_eq!(buckets.take(9), None);
        buckets.give_back(large);
        let halves: Vec<Block> = [8, 7, 7].iter().filter_map(|log2| buckets.take(*log2)).collect();
        assert_eq!(halves.len(), 3, "the large one in parts");
        assert_eq!(buckets.take(7), None);
        let mut used = vec![false; 1 << 10];
        for block in small.into_iter().chain(halves) {
            for at in &mut used[block.first as usize..][..block.len()] {
                assert!(!std::mem::replace(at, true));
            }
        }
        assert!(used.into_iter().all(|used| used));
    }
}
