// SPDX-License-Identifier: MIT
//! What [`punt::Bell`](crate::punt::Bell) and [`pipe::Pipe`](crate::pipe::Pipe) share between threads: the standard
//! library's, or loom's when the models are checked.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
pub(crate) use std::sync::PoisonError;
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
