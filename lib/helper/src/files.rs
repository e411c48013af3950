// SPDX-License-Identifier: MIT
//! Files that the helper opens for a router which may not: that of its configuration, and those that this one names. A
//! thread of its own opens them, as a file system may not answer.
//!
//! Root has named the configuration when it started the router, and whoever may write it decides what else is in it. So
//! a router that somebody has taken over gets no file by this that it could choose.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::failure::Failure;

/// Which files a configuration names: its path, and its text.
pub type Named = fn(&Path, &str) -> Vec<PathBuf>;

/// The longest configuration, in bytes. Routes may be millions, in a file of their own.
const LONGEST: u64 = 64 << 20;

/// Opens a file of the configuration for reading.
pub(super) fn open(path: &Path, configuration: Option<&Path>, named: Named) -> Result<File, Failure> {
    let Some(configuration) = configuration.map(Path::to_owned) else {
        return Err("the helper knows of no configuration".to_owned().into());
    };
    let (path, wanted) = (path.to_owned(), path.display());
    let opened = perigee_file::within_patience(move || Ok(open_here(&path, &configuration, named)));
    opened.map_err(|error| Failure::from(format!("cannot open {wanted}: {error}")))?
}

fn open_here(path: &Path, configuration: &Path, named: Named) -> Result<File, Failure> {
    if path != configuration {
        let mut text = String::new();
        let read = regular(configuration)?.take(LONGEST).read_to_string(&mut text);
        read.map_err(|error| format!("cannot read {}: {error}", configuration.display()))?;
        if !named(configuration, &text).iter().any(|file| file == path) {
            return Err(format!("{} is no file that {} names", path.display(), configuration.display()).into());
        }
    }
    regular(path)
}

/// A regular file: nothing that another process could keep the helper waiting with.
fn regular(path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| format!("cannot open {}: {error}", path.display());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok(file),
        false => Err(format!("{} is no regular file; expected one", path.display()).into()),
    }
}
