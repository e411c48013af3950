// SPDX-License-Identifier: MIT
//! The file of a unix socket that a router listens at: others can never connect to it, the one of a router that was
//! killed is replaced, and at the end only the one that was made is removed.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// How often, and at which intervals, the lock of the socket's folder is tried for: others have it for less than a
/// millisecond.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum NoSocket {
    /// A file is there that is no socket.
    #[error("there is a file that is no socket")]
    OtherFile,
    /// Somebody listens there.
    #[error("somebody listens there already")]
    InUse,
    /// It cannot be given to the group.
    #[error("it cannot be given to the group {0}: {1}")]
    Group(u32, io::Error),
    /// The system refuses it.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The file of a listening socket. When dropped, it is removed, if this process may: where only root can, the helper
/// does it.
pub struct SocketFile {
    path: PathBuf,
    /// The file itself, opened for nothing: while it is open, no other one has its inode.
    itself: File,
}

impl SocketFile {
    /// A socket that listens at `path`, without blocking, and its file. Its user alone can connect, and members of
    /// `group`, if there is one.
    ///
    /// # Errors
    /// Another one listens there, or there is a file that is no socket, or the system refuses it. Nothing is left then.
    pub fn listen(path: &Path, group: Option<u32>, backlog: i32) -> Result<(OwnedFd, SocketFile), NoSocket> {
        let _lock = lock_folder(path);
        make_way(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(io::Error::from)?;
        // Linux gives the new file the mode of the socket, so there is no moment with another one.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        bind(&socket, &address).map_err(io::Error::from)?;
        let opened = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        // From here on, an error removes it.
        let file = SocketFile { path: path.to_owned(), itself: opened.map_err(io::Error::from)?.into() };
        if let Some(group) = group {
            let given = chown(path, None, Some(group));
            let given = given.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o660)));
            given.map_err(|error| NoSocket::Group(group, error))?;
        }
        listen(&socket, backlog).map_err(io::Error::from)?;
        Ok((socket, file))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for SocketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another router may have made way for its own.
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        let there = fs::symlink_metadata(&self.path).map(identity).ok();
        let ours = there.is_some() && there == self.itself.metadata().map(identity).ok();
        match if ours { fs::remove_file(&self.path) } else { Ok(()) } {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                tracing::debug!("{} is left to the helper: {error}", self.path.display());
            }
            Err(error) => tracing::warn!("{} cannot be removed: {error}; remove it", self.path.display()),
        }
    }
}

/// Keeps other routers from making way in this folder until the socket listens: of two that start at once, the second
/// one would take the first one's new socket for that of a killed router. A folder that cannot be locked has one user.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    // In a folder like /tmp, others may have locked it for long.
    for _ in 0..LOCK_TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK) => thread::sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
    tracing::debug!("somebody keeps the folder of {} locked", path.display());
    None
}

/// Removes the socket of a router that was killed; refuses to remove that of a running one, or anything else.
fn make_way(path: &Path) -> Result<(), NoSocket> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(there) if !there.file_type().is_socket() => return Err(NoSocket::OtherFile),
        Ok(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(io::Error::from)?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(io::Error::from)?) {
        // Its queue may be full.
        Ok(()) | Err(Errno::AGAIN) => Err(NoSocket::InUse),
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Barrier;

    /// Nobody listens at it any more, even if another test has just started a program, which has a copy of it until it
    /// is the program.
    fn end(socket: impl AsFd) {
        shutdown(socket, Shutdown::Both).unwrap();
    }

    /// A router that ended removed the socket of the one that had taken its place.
    #[test]
    fn a_socket_that_another_router_has_made_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (socket, file) = SocketFile::listen(&path, None, 1).unwrap();
        end(&socket);
        let (_other, theirs) = SocketFile::listen(&path, None, 1).expect("the first one listens no more");
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
        drop(theirs);
        assert!(!path.exists());
    }

    /// Of two routers that started at once in place of a killed one, the second took the first one's socket for that of
    /// the killed one: both listened.
    #[test]
    fn of_routers_that_start_at_once_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..20 {
            end(UnixListener::bind(&path).unwrap());
            let all = Barrier::new(4);
            let start = || {
                all.wait();
                SocketFile::listen(&path, None, 1).ok()
            };
            let listening: Vec<_> = thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(start));
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(listening.len(), 1);
            drop(listening);
            assert!(!path.exists());
        }
    }
}
