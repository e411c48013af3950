// SPDX-License-Identifier: MIT
//! What [`publish`](crate::publish) synchronises with: the standard library's types, or the model checker's.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{Arc, Mutex, atomic};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{Arc, Mutex, atomic};
