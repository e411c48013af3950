// SPDX-License-Identifier: MIT
//! Shared libraries of scripts, loaded under names that change with their contents.
//!
//! The loader of the C library takes a path that it has loaded before for the library it knows, whatever the file holds
//! now; a module that was rebuilt would never be seen. So each file's contents get a copy in memory (`memfd_create`) of
//! their own, and the copy's path is what is loaded: the same contents are loaded once, for all VMs, as before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The copies, by path and by the hash of what is in them. They stay open, as their names are their descriptors'
/// numbers.
static COPIES: Mutex<Option<HashMap<(String, u64), OwnedFd>>> = Mutex::new(None);

/// How long a file is waited for: less than the watchdog lets a script load, which would end the process for a slow
/// file system.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The path to load instead of a library's own.
///
/// # Errors
/// It cannot be read or copied: a sentence.
pub(crate) fn copy(path: &str) -> Result<String, String> {
    let fail = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    let contents = perigee_file::read_within(PATIENCE, path.as_ref(), perigee_file::LONGEST);
    let contents = contents.map_err(|error| fail(&error))?;
    let mut hash = DefaultHasher::new();
    contents.hash(&mut hash);
    let key = (path.to_owned(), hash.finish());
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let copies = copies.get_or_insert_default();
    if !copies.contains_key(&key) {
        let name = path.rsplit('/').next().unwrap_or("library");
        let copy = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).map_err(|error| fail(&error))?;
        let mut file = std::fs::File::from(copy);
        file.write_all(&contents).map_err(|error| fail(&error))?;
        copies.insert(key.clone(), file.into());
    }
    Ok(format!("/proc/self/fd/{}", copies[&key].as_raw_fd()))
}

/// The path of the library that was loaded as a copy of this name, for who wants to know it; `None` for others.
pub(crate) fn original(name: &str) -> Option<String> {
    let descriptor: i32 = name.strip_prefix("/proc/self/fd/")?.parse().ok()?;
    let copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = copies.as_ref()?.iter();
    all.find(|(_, copy)| copy.as_raw_fd() == descriptor).map(|((path, _), _)| path.clone())
}
