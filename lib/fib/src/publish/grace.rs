// SPDX-License-Identifier: MIT
//! Grace periods: memory that a reader may still hold is reused only after every reader has passed a batch boundary.

use std::collections::VecDeque;

/// How far the readers are; from [`Published::grace`](crate::Published::grace).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// A reader that has reached this epoch holds nothing that was retired before this value was made.
    pub epoch: u64,
    /// The epoch that every reader has reached.
    pub passed: u64,
}

/// What has been unlinked and waits for its grace period, in order.
pub(crate) struct Deferred<T> {
    fresh: Vec<T>,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Deferred<T> {
    pub(crate) fn new() -> Self {
        Self { fresh: Vec::new(), waiting: VecDeque::new() }
    }

    /// `item` has just been unlinked: readers can no longer find it, but some may still hold it.
    pub(crate) fn retire(&mut self, item: T) {
        self.fresh.push(item);
    }

    /// The items that no reader holds any more.
    pub(crate) fn reclaim(&mut self, grace: Grace) -> impl Iterator<Item = T> + '_ {
        self.waiting.extend(self.fresh.drain(..).map(|item| (grace.epoch, item)));
        let ripe = self.waiting.partition_point(|(epoch, _)| *epoch <= grace.passed);
        self.waiting.drain(..ripe).map(|(_, item)| item)
    }

    /// How many items are waiting.
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_wait_for_the_epoch_after_their_retirement() {
        let mut deferred = Deferred::new();
        let reclaim = |deferred: &mut Deferred<char>, epoch, passed| -> String {
            deferred.reclaim(Grace { epoch, passed }).collect()
        };
        deferred.retire('a');
        assert_eq!(reclaim(&mut deferred, 5, 4), "", "a reader is still before epoch 5");
        deferred.retire('b');
        assert_eq!(reclaim(&mut deferred, 6, 5), "a");
        assert_eq!(deferred.len(), 1);
        assert_eq!(reclaim(&mut deferred, 7, 7), "b");
        deferred.retire('c');
        assert_eq!(reclaim(&mut deferred, 8, 8), "c", "no reader is behind");
    }
}
