// SPDX-License-Identifier: MIT
//! The atomics of [`punt::Bell`](crate::punt::Bell): those of the standard library, or loom's when the model is checked.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
