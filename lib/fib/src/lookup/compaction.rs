// SPDX-License-Identifier: MIT
//! When a table that is patched in place is built again as a whole: to give back the memory that its changes have left
//! unused.
//!
//! A table that has held many prefixes for a while, or whose blocks have been replaced by ones of other lengths,
//! occupies more memory than its prefixes need. A fresh copy has no gaps; it replaces the old one as a reload does, and
//! the old one's memory goes back to the system once no reader holds it. This takes time in proportion to the prefixes,
//! so it waits for a share of that many changes: the larger the gaps, the smaller that share.

/// Changes after which even the smallest table may be copied.
const PATIENCE: usize = 64;
/// A copy is made if more than one part in so many of the memory is unused.
const UNUSED: usize = 16;
/// With gaps of just that size it waits for twice as many changes as there are prefixes; with twice the gaps for as
/// many. A copy costs as much as one or two changes of each prefix, so changes pay at most that again.
const SHARE: usize = UNUSED / 2;

/// How much a table has changed since it was built.
#[derive(Default)]
pub(crate) struct Compaction {
    changes: usize,
}

impl Compaction {
    /// The table has changed.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    /// Whether the table should be built again now: it has so many prefixes, and occupies `touched` bytes of which
    /// `used` are in use. If so, the count of changes begins anew, whether or not that succeeds.
    pub fn is_due(&mut self, prefixes: usize, touched: usize, used: usize) -> bool {
        let unused = touched - used;
        let due = self.changes >= PATIENCE
            && unused > touched / UNUSED
            && self.changes >= (prefixes as u128 * touched as u128 / (SHARE * unused) as u128) as usize;
        if due {
            self.changes = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_changes_and_for_gaps() {
        let mut compaction = Compaction::default();
        (0..100).for_each(|_| compaction.changed());
        assert!(!compaction.is_due(310, 1600, 1000), "too few changes for so many prefixes");
        assert!(!compaction.is_due(8, 1600, 1500), "no gaps");
        assert!(compaction.is_due(300, 1600, 1000));
        assert!(!compaction.is_due(8, 1600, 1000), "it has just been tried");
        (0..64).for_each(|_| compaction.changed());
        assert!(compaction.is_due(8, 1600, 1499));
    }
}
