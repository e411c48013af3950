// SPDX-License-Identifier: MIT
//! Which script a worker runs, compared with the current one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker's generation, and the router's, which counts every change of the script.
pub(crate) struct Generation {
    current: Arc<AtomicU64>,
    mine: u64,
}

impl Generation {
    /// That of a worker which runs no script yet.
    pub(crate) fn none(current: Arc<AtomicU64>) -> Generation {
        Generation { current, mine: 0 }
    }

    /// The worker runs the script of this generation now.
    pub(crate) fn set(&mut self, generation: u64) {
        self.mine = generation;
    }

    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.current.load(Ordering::Acquire) == self.mine
    }
}
