// SPDX-License-Identifier: MIT
//! Giving up the capabilities that only start-up needs.
//!
//! Linux keeps capabilities per thread, and a new thread inherits its creator's. So the router calls [`drop_all`] at
//! the beginning of each of its threads, and then asks [`still_privileged`] whether one (of a library, say) was
//! forgotten.

use std::{fs, io};

use caps::{CapSet, Capability, CapsHashSet};

/// Drops every capability of the calling thread for good: not even a setuid program brings one back.
///
/// # Errors
/// The kernel's refusal; then some may be left.
pub fn drop_all() -> io::Result<()> {
    keep_only(&[])
}

/// Drops every capability of the calling thread except those of `kept` that it has.
///
/// # Errors
/// The kernel's refusal; then some may be left.
pub fn keep_only(kept: &[Capability]) -> io::Result<()> {
    // Without this a root process would gain everything again by running any program.
    rustix::thread::set_no_new_privs(true)?;
    let has = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    let kept: CapsHashSet = kept.iter().copied().filter(|cap| has.contains(cap)).collect();
    // From the outermost set inwards: each may only hold what the next one has.
    caps::clear(None, CapSet::Ambient).map_err(io::Error::other)?;
    caps::clear(None, CapSet::Inheritable).map_err(io::Error::other)?;
    caps::set(None, CapSet::Effective, &kept).map_err(io::Error::other)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(io::Error::other)
}

/// The threads of this process that could still use a capability: name and number of each.
///
/// # Errors
/// `/proc` cannot be read.
pub fn still_privileged() -> io::Result<Vec<String>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let path = entry?.path();
        // A thread that ended meanwhile has no privileges either.
        let Ok(status) = fs::read_to_string(path.join("status")) else {
            continue;
        };
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let permitted = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if permitted != Some(0) {
            let (name, number) = (field("Name:").unwrap_or("?"), field("Pid:").unwrap_or("?"));
            threads.push(format!("{name} ({number})"));
        }
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dropped_everything_is_not_listed() {
        let listed = || -> usize {
            let own = format!("({})", rustix::thread::gettid().as_raw_nonzero());
            still_privileged().unwrap().iter().filter(|t| t.ends_with(&own)).count()
        };
        let (before, after) = std::thread::spawn(move || {
            let before = listed();
            drop_all().unwrap();
            drop_all().unwrap(); // a second time is no error
            (before, listed())
        })
        .join()
        .unwrap();
        let privileged = !caps::read(None, CapSet::Permitted).unwrap().is_empty();
        assert_eq!(before, usize::from(privileged));
        assert_eq!(after, 0);
    }
}
