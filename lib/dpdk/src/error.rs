// SPDX-License-Identifier: MIT
//! Errors, each of which is a sentence.

use crate::ffi;
use std::ffi::{CStr, CString, c_char, c_int};

/// A sentence: what was tried, what happened, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

/// DPDK's text for an errno, of either sign.
pub(crate) fn errno_text(error: c_int) -> String {
    // SAFETY: rte_strerror returns a NUL-terminated text of this thread for any number.
    unsafe { text(ffi::rte_strerror(error.abs())) }
}

/// The calling thread's last DPDK error.
pub(crate) fn last_errno() -> c_int {
    // SAFETY: reads a thread-local number.
    unsafe { ffi::perigee_errno() }
}

/// A copy of a C string.
///
/// # Safety
/// `c` must be NUL-terminated.
pub(crate) unsafe fn text(c: *const c_char) -> String {
    // SAFETY: the caller's contract.
    unsafe { CStr::from_ptr(c) }.to_string_lossy().into_owned()
}

/// A C string of ours; an error where there is a NUL inside.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("{text:?} has a NUL byte in it: remove it")))
}
