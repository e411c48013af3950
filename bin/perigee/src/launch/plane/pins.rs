// SPDX-License-Identifier: MIT
//! What keeps the in-kernel plane at its interfaces when the router is killed: a file for each port in a BPF file
//! system.
//!
//! ```text
//!  /sys/fs/bpf/perigee/NAME/driver/PORT    the program is in the interface's driver
//!                          /behind/PORT    it is behind the driver
//! ```
//!
//! Files that a killed router has left are taken over by the next one of its name, whatever that one is configured to
//! leave. They stay until a router ends in order: a start that fails changes nothing of what forwards on.

use anyhow::{Context as _, Result, bail, ensure};
use perigee_config::Config;
use perigee_socket::{pin, pinned};
use rustix::fs::statfs;
use rustix::io::Errno;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where BPF file systems are, and BPF_FS_MAGIC of linux/magic.h.
const ROOT: &str = "/sys/fs/bpf";
const MAGIC: i64 = 0xcafe_4a11;

/// The two folders of a router's.
const PLACES: [&str; 2] = ["driver", "behind"];

/// The files of a router.
pub(super) struct Pins {
    folder: PathBuf,
    /// Whether ports that have none get one.
    keeps: bool,
    /// Files that this start has made: until somebody else removes them at the end, they go with it.
    made: Mutex<Vec<PathBuf>>,
}

impl Pins {
    /// The files of the configuration's router: it keeps some, or a killed router of its name has left some. Removes
    /// those of ports that are not in the plane any more.
    ///
    /// # Errors
    /// They cannot be made there, or others than root can write there.
    pub(super) fn new(config: &Config) -> Result<Option<Pins>> {
        let folder = Path::new(ROOT).join("perigee").join(&config.router.name);
        let in_plane = |name: &str| config.ports.iter().any(|port| name == port.name && super::asks_for_plane(port));
        let keeps = config.router.plane_persist && config.ports.iter().any(super::asks_for_plane);
        if !keeps && fs::symlink_metadata(&folder).is_err() {
            return Ok(None);
        }
        if keeps {
            check_system()?;
        }
        for folder in folders(&folder) {
            if keeps {
                make(&folder)?;
            }
            check(&folder)?;
        }
        let pins = Pins { folder, keeps, made: Mutex::default() };
        for file in pins.left() {
            if !file.file_name().and_then(|name| name.to_str()).is_some_and(in_plane) {
                tracing::info!("{} is no port's of this router: what a killed one has left is removed", file.display());
                fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(Some(pins))
    }

    fn file(&self, port: &str, in_driver: bool) -> PathBuf {
        self.folder.join(PLACES[usize::from(!in_driver)]).join(port)
    }

    /// All files that there are.
    fn left(&self) -> impl Iterator<Item = PathBuf> {
        let entries = PLACES.into_iter().filter_map(|place| fs::read_dir(self.folder.join(place)).ok()).flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    }

    /// The program that a router has left at an interface, by its port.
    ///
    /// # Errors
    /// The file is something else, or there is no privilege to open it. EOPNOTSUPP, as of a driver that cannot do it:
    /// the program is at the other place of the interface.
    pub(super) fn take(&self, port: &str, link: u32, in_driver: bool) -> io::Result<Option<OwnedFd>> {
        for place in [in_driver, !in_driver] {
            let file = self.file(port, place);
            match pinned(&file)? {
                None => {}
                Some((attached, index)) if index == link => {
                    return match place == in_driver {
                        true => Ok(Some(attached)),
                        false => Err(Errno::OPNOTSUPP.into()),
                    };
                }
                // Of an interface that is gone, or of another one of this port.
                Some(_) => fs::remove_file(file)?,
            }
        }
        Ok(None)
    }

    /// Keeps a program at its interface.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(super) fn keep(&self, port: &str, attached: &OwnedFd, in_driver: bool) -> io::Result<()> {
        if !self.keeps {
            return Ok(());
        }
        let file = self.file(port, in_driver);
        pin(attached, &file)?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(())
    }

    /// The paths to remove when the router ends in order: files, then folders. From now on the caller removes them.
    pub(super) fn hand_over(&self) -> Vec<PathBuf> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.left().chain(folders(&self.folder).into_iter().rev()).collect()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        for file in self.made.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = fs::remove_file(file); // The start has failed, and says why.
        }
    }
}

/// The folders, those that others are in first.
fn folders(own: &Path) -> Vec<PathBuf> {
    let shared = own.parent().map(Path::to_owned);
    shared.into_iter().chain([own.to_owned()]).chain(PLACES.iter().map(|place| own.join(place))).collect()
}

fn check_system() -> Result<()> {
    let found = statfs(ROOT).with_context(|| format!("plane_persist = true: there is no {ROOT}"))?;
    if found.f_type != MAGIC {
        bail!(
            "plane_persist = true: {ROOT} is no BPF file system: `mount -t bpf -o mode=0700 bpf {ROOT}`. `ip netns exec` hides it: \
             start by `nsenter --net=/run/netns/NAME`"
        );
    }
    Ok(())
}

/// Makes a folder that is root's alone, unless there is one.
fn make(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("plane_persist = true: cannot make {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Files are removed there, and programs taken over: whoever else can write there decided which.
fn check(folder: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(folder) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0,
        "{} is not root's alone, so that what is in it counts for nothing: remove it",
        folder.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// In a BPF file system of mode 1777 anybody could have had root remove files of any folder.
    #[test]
    fn folders_that_others_can_write_to_count_for_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let (own, link, open) = (parent.path().join("own"), parent.path().join("link"), parent.path().join("open"));
        make(&own).unwrap();
        make(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        symlink(&own, &link).unwrap();
        make(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(check(&own).is_ok() && check(&parent.path().join("none")).is_ok());
        assert!(check(&link).is_err() && check(&open).is_err());
    }

    #[test]
    fn what_a_start_has_made_goes_with_it_until_it_is_handed_over() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("perigee").join("r");
        fs::create_dir_all(folder.join("driver")).unwrap();
        let pins = |handed_over: bool| {
            let file = folder.join("driver/wan");
            fs::write(&file, "").unwrap();
            let pins = Pins { folder: folder.clone(), keeps: true, made: Mutex::new(vec![file.clone()]) };
            let all = if handed_over { pins.hand_over() } else { Vec::new() };
            drop(pins);
            (file.exists(), all)
        };
        assert_eq!(pins(false), (false, vec![]));
        let (there, all) = pins(true);
        assert!(
            there
                && all.first() == Some(&folder.join("driver/wan"))
                && all.last() == folder.parent().map(Path::to_owned).as_ref()
        );
    }
}
