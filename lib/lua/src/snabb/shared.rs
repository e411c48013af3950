// SPDX-License-Identifier: MIT
//! Files as shared memory, under the names that `lib.ipc.shmem` of a Snabb tree calls in C. Lua's files are the C
//! library's.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Maps `size` bytes of a file, shared with others.
fn map(file: *mut libc::FILE, size: usize) -> *mut c_void {
    if file.is_null() || size == 0 {
        return null_mut();
    }
    // SAFETY: an open file of the C library's; a new mapping touches no other memory.
    let at = unsafe {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        libc::mmap(null_mut(), size, access, shared, libc::fileno(file), 0)
    };
    if at == libc::MAP_FAILED { null_mut() } else { at }
}

/// Makes a file `new` bytes long and maps it; the mapping of `old` bytes at `base` is given up. Null if it cannot be.
///
/// # Safety
/// `file` is open; `base` is null or came from here or from [`shmem_attach`], with `old` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmem_grow(file: *mut libc::FILE, base: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: the caller's.
    if file.is_null() || unsafe { libc::ftruncate(libc::fileno(file), new as libc::off_t) } != 0 {
        return null_mut();
    }
    let at = map(file, new);
    if !at.is_null() {
        // SAFETY: the caller's.
        unsafe { shmem_unmap(base, old) };
    }
    at
}

/// Maps `size` bytes of a file. Null if it has fewer, or cannot be mapped.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmem_attach(file: *mut libc::FILE, size: usize) -> *mut c_void {
    // SAFETY: zeroes are a valid `stat`; the rest is the caller's.
    let long_enough = !file.is_null()
        && unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            libc::fstat(libc::fileno(file), &raw mut status) == 0 && status.st_size as u64 >= size as u64
        };
    // Beyond a file's end, memory that is mapped cannot be read.
    if long_enough { map(file, size) } else { null_mut() }
}

/// Gives a mapping up; returns whether that was possible.
///
/// # Safety
/// `base` is null or came from here, with `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmem_unmap(base: *mut c_void, size: usize) -> bool {
    // SAFETY: the caller's.
    base.is_null() || size == 0 || unsafe { libc::munmap(base, size) } == 0
}

#[repr(transparent)]
struct Kept([*const c_void; 3]);
// SAFETY: addresses, which never change.
unsafe impl Sync for Kept {}
/// Keeps the linker from leaving out what only Lua calls.
#[used]
static KEPT: Kept = Kept([shmem_grow as *const c_void, shmem_attach as *const c_void, shmem_unmap as *const c_void]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        // SAFETY: files are open, and mappings as long as is said.
        unsafe {
            let (one, size) = (libc::tmpfile(), 8192);
            assert!(shmem_attach(one, size).is_null(), "the file is empty");
            let small = shmem_grow(one, null_mut(), 0, 100);
            small.cast::<u8>().add(99).write(7);
            let large = shmem_grow(one, small, 100, size);
            assert_eq!(large.cast::<u8>().add(99).read(), 7);
            let other = shmem_attach(one, size);
            large.cast::<u8>().add(8191).write(9);
            assert_eq!(other.cast::<u8>().add(8191).read(), 9);
            assert!(shmem_unmap(large, size) && shmem_unmap(other, size) && shmem_unmap(null_mut(), size));
            assert!(shmem_grow(null_mut(), null_mut(), 0, 1).is_null());
            libc::fclose(one);
        }
    }
}
