// SPDX-License-Identifier: MIT
//! Helpers of Snabb's binary that programs may call in C, and that the C library has under no name.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

/// Sleeps for that many nanoseconds; not at all for a negative number.
#[unsafe(no_mangle)]
pub extern "C" fn sleep_ns(nanoseconds: c_int) {
    std::thread::sleep(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)));
}

/// When a file was last changed, in seconds since 1970; 0 if it cannot be looked at.
///
/// # Safety
/// `path` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat_mtime(path: *const c_char) -> c_uint {
    if path.is_null() {
        return 0;
    }
    // SAFETY: the caller's.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    std::fs::metadata(path).map_or(0, |found| c_uint::try_from(found.mtime()).unwrap_or(0))
}

#[repr(transparent)]
struct Kept([*const c_void; 2]);
// SAFETY: addresses, which never change.
unsafe impl Sync for Kept {}
/// Keeps the linker from leaving out what only Lua calls.
#[used]
static KEPT: Kept = Kept([sleep_ns as *const c_void, stat_mtime as *const c_void]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_time_and_nothing_has_none() {
        // SAFETY: texts that end with a zero byte, and null.
        unsafe {
            assert!(stat_mtime(c"/proc/self/exe".as_ptr()) > 1_000_000_000);
            assert_eq!(stat_mtime(c"/nowhere/at/all".as_ptr()), 0);
            assert_eq!(stat_mtime(std::ptr::null()), 0);
        }
        sleep_ns(1);
        sleep_ns(-1);
    }
}
