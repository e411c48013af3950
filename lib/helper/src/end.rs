// SPDX-License-Identifier: MIT
//! What a helper removes at its end: files and folders.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often the lock of a folder is tried for, and the pause in between. DPDK keeps it until the router's last table
/// is dropped or its process is gone, and that is soon behind the router's word to the helper.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Removes a folder, if it is empty, nobody has locked it, and this process may.
pub fn remove_empty_folder(path: &Path) {
    let identity = std::fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()));
    remove(path, identity);
}

/// Removes a file, or an empty folder that nobody has locked, if it is the one that was meant.
pub(super) fn remove(path: &Path, identity: Option<(u64, u64)>) {
    let Ok(there) = std::fs::symlink_metadata(path) else { return };
    let Some(identity) = identity.filter(|identity| *identity == (there.dev(), there.ino())) else { return };
    // A folder may have files of others, too.
    let _ = match there.is_dir() {
        true => remove_folder(path, identity, || thread::sleep(LOCK_PAUSE), |path| std::fs::remove_dir(path)),
        false => std::fs::remove_file(path),
    };
}

/// Removes a folder by `remove`, locked until it is gone: whoever gets the lock afterwards sees that. While it is
/// another one's, it `pause`s.
fn remove_folder(
    path: &Path,
    identity: (u64, u64),
    mut pause: impl FnMut(),
    remove: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let folder = std::fs::File::open(path)?;
    let mut tries = LOCK_TRIES;
    while let Err(error) = flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        tries = tries.checked_sub(1).filter(|_| error == Errno::WOULDBLOCK).ok_or(error)?;
        pause();
    }
    // Another process may have removed it, and a third one made it again, which has locked that one.
    let is_meant = |there: &std::fs::Metadata| identity == (there.dev(), there.ino());
    match is_meant(&folder.metadata()?) && is_meant(&std::fs::symlink_metadata(path)?) {
        true => remove(path),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lock was given back before the folder was removed, and a router that had got it in between started in a
    /// folder that was gone.
    #[test]
    fn a_folder_is_locked_until_it_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (path, other) = (parent.path().join("router"), parent.path().join("other"));
        [&path, &other].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let there = path.metadata().unwrap();
        let identity = (there.dev(), there.ino());
        let lock = || flock(std::fs::File::open(&path).unwrap(), FlockOperation::NonBlockingLockShared);
        let remove = |path: &Path| {
            assert!(lock().is_err(), "another router may have it");
            std::fs::remove_dir(path)
        };
        lock().unwrap();
        remove_folder(&path, identity, || panic!("it is nobody's"), remove).unwrap();
        assert!(!path.exists());
        // Made again by somebody else.
        std::fs::rename(&other, &path).unwrap();
        remove_folder(&path, identity, || (), |_| panic!("it is another one")).unwrap();
        super::remove(&path, Some(identity));
        assert!(path.exists());
    }

    /// A router with filters had its tables, and DPDK with them, until its process was gone, and the helper gave DPDK's
    /// folder up.
    #[test]
    fn a_folder_that_its_router_still_holds_is_removed_soon() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("router");
        std::fs::create_dir(&path).unwrap();
        let there = path.metadata().unwrap();
        let identity = (there.dev(), there.ino());
        let hold = || {
            let folder = std::fs::File::open(&path).unwrap();
            flock(&folder, FlockOperation::NonBlockingLockShared).unwrap();
            folder
        };
        let mut held = vec![hold(), hold()];
        remove_folder(&path, identity, || drop(held.pop()), |path| std::fs::remove_dir(path)).unwrap();
        assert!(!path.exists());
        // One that another router keeps stays.
        std::fs::create_dir(&path).unwrap();
        let _held = hold();
        assert!(remove_folder(&path, identity, || (), |_| panic!("it is locked")).is_err());
    }
}
