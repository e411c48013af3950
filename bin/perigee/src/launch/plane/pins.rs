// SPDX-License-Identifier: MIT
//! What keeps the in-kernel plane at its interfaces when the router is killed: a file for each port in a BPF file system.
//!
//! ```text
//!  /sys/fs/bpf/perigee/NAME/driver/PORT    the program is in the interface's driver
//!                          /behind/PORT    it is behind the driver
//! ```
//!
//! Files that a killed router has left are taken over by the next one of its name, whatever that one is configured to
//! leave.

use anyhow::{Context as _, Result, anyhow, bail};
use perigee_config::Config;
use perigee_socket::{pin, pinned};
use rustix::fs::statfs;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where BPF file systems are, and BPF_FS_MAGIC of linux/magic.h.
const ROOT: &str = "/sys/fs/bpf";
const MAGIC: i64 = 0xcafe_4a11;

/// The files of a router.
pub(super) struct Pins {
    folder: PathBuf,
    /// Whether ports that have none get one.
    keeps: bool,
}

/// The two folders of a router's.
const PLACES: [&str; 2] = ["driver", "behind"];

impl Pins {
    /// Those of the configuration's router, if it keeps some or one of its name has left some. What is left of ports
    /// that are not the plane's any more is removed.
    ///
    /// # Errors
    /// They cannot be made there.
    pub(super) fn new(config: &Config) -> Result<Option<Pins>> {
        let folder = Path::new(ROOT).join("perigee").join(&config.router.name);
        let keeps = config.router.plane_persist;
        if !keeps && !folder.exists() {
            return Ok(None);
        }
        if keeps {
            make(&folder)?;
        }
        let pins = Pins { folder, keeps };
        let in_plane =
            |name: &OsString| config.ports.iter().any(|port| *name == *port.name && super::asks_for_plane(port));
        for file in pins.left() {
            if !file.file_name().is_some_and(|name| in_plane(&name.to_owned())) {
                tracing::info!(
                    "{} was left by a router that was killed, and is no port of this one: removed",
                    file.display()
                );
                std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(Some(pins))
    }

    fn file(&self, port: &str, in_driver: bool) -> PathBuf {
        self.folder.join(PLACES[usize::from(!in_driver)]).join(port)
    }

    /// All files that there are.
    fn left(&self) -> impl Iterator<Item = PathBuf> {
        let entries = PLACES.into_iter().filter_map(|place| std::fs::read_dir(self.folder.join(place)).ok()).flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    }

    /// The program that a router has left at an interface, by its port; its file goes if this router leaves none.
    ///
    /// # Errors
    /// The file is something else. If the program is at the other place of the interface, the error is that the driver
    /// cannot do it.
    pub(super) fn take(&self, port: &str, link: u32, in_driver: bool) -> io::Result<Option<OwnedFd>> {
        for place in [in_driver, !in_driver] {
            let file = self.file(port, place);
            match pinned(&file)? {
                None => {}
                Some((attached, index)) if index == link => {
                    if place != in_driver {
                        return Err(io::ErrorKind::Unsupported.into());
                    }
                    if !self.keeps {
                        std::fs::remove_file(file)?;
                    }
                    return Ok(Some(attached));
                }
                // Of an interface that is gone.
                Some(_) => std::fs::remove_file(file)?,
            }
        }
        Ok(None)
    }

    /// Keeps a program at its interface.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(super) fn keep(&self, port: &str, attached: &OwnedFd, in_driver: bool) -> io::Result<()> {
        if self.keeps { pin(attached, &self.file(port, in_driver)) } else { Ok(()) }
    }

    /// What is to be removed by a router that ends in order: files, then folders.
    pub(super) fn all(&self) -> Vec<PathBuf> {
        let folders = PLACES.iter().map(|place| self.folder.join(place)).chain([self.folder.clone()]);
        let shared = self.folder.parent().map(Path::to_owned);
        self.left().chain(folders).chain(shared).collect()
    }
}

/// Makes the folders, which are root's alone.
fn make(folder: &Path) -> Result<()> {
    let mounted = statfs(ROOT).map(|found| found.f_type);
    match mounted {
        Ok(MAGIC) => {}
        Ok(_) => bail!(
            "plane_persist = true: {ROOT} is no BPF file system: `mount -t bpf bpf {ROOT}`. `ip netns exec` hides it: start \
             by `nsenter --net=/run/netns/NAME`"
        ),
        Err(error) => return Err(anyhow!(error)).context("plane_persist = true: there is no /sys/fs/bpf"),
    }
    for place in PLACES {
        let place = folder.join(place);
        std::fs::create_dir_all(&place)
            .with_context(|| format!("plane_persist = true: cannot make {}", place.display()))?;
    }
    Ok(())
}
