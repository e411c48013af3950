// SPDX-License-Identifier: MIT
//! How to restore interfaces that stay prepared when a router is killed whose in-kernel plane forwards on: a file, which
//! the helper of the next router of that name takes over.
//!
//! Its contents say what is written below /proc/sys: a file counts only if root alone can have written it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::underlay::Undo;

/// Where files are that keep programs at interfaces: those of a router that was killed stay.
pub(super) const PROGRAMS: &str = "/sys/fs/bpf";

/// The longest file that is read, in bytes: 256 interfaces take 100 KB.
const LONGEST: u64 = 1 << 20;

/// Writes the file, in place of one that is there.
pub(super) fn write(file: &Path, undo: &[Undo]) -> io::Result<()> {
    let text = serde_json::to_vec(undo)?;
    let next = file.with_extension("new");
    let _ = fs::remove_file(&next); // there may be none
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    opened.write_all(&text)?;
    fs::rename(next, file)
}

/// Reads and removes the file; `None` if there is none. One that is not root's alone is left, and counts for nothing.
pub(super) fn take(file: &Path) -> Option<Vec<Undo>> {
    let read = || -> io::Result<Vec<Undo>> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(nofollow.bits() as i32).open(file)?;
        let found = opened.metadata()?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_file() || found.uid() != own || found.mode() & 0o022 != 0 || found.len() > LONGEST {
            return Err(io::Error::other("it is not root's alone, or too long"));
        }
        let undo = serde_json::from_reader(io::BufReader::new(opened))?;
        fs::remove_file(file)?;
        Ok(undo)
    };
    let told = |error: &io::Error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!("{} does not say how to restore interfaces: {error}", file.display());
        }
    };
    read().inspect_err(told).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn what_was_kept_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("router.kept");
        assert!(take(&file).is_none(), "there is none");
        write(&file, &[Undo::of_nothing("eth0", 3)]).unwrap();
        write(&file, &[Undo::of_nothing("eth0", 3), Undo::of_nothing("eth1", 4)]).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(take(&file).unwrap().iter().map(Undo::index).collect::<Vec<_>>(), [3, 4]);
        assert!(take(&file).is_none() && !file.exists());
    }

    #[test]
    fn a_file_that_others_can_have_written_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("router.kept");
        write(&file, &[Undo::of_nothing("eth0", 3)]).unwrap();
        let link = folder.path().join("link.kept");
        symlink(&file, &link).unwrap();
        assert!(take(&link).is_none(), "a link may lead anywhere");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(take(&file).is_none() && file.exists());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "[{}]").unwrap();
        assert!(take(&file).is_none(), "it is no such file");
    }
}
