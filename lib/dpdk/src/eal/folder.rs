// SPDX-License-Identifier: MIT
//! The folder of EAL's run-time files: where it is, and that nothing of it stays.

use crate::error::{Error, Result, text};
use crate::ffi;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Name of DPDK's telemetry socket.
pub(super) const TELEMETRY: &str = "dpdk_telemetry.v2";

/// This process's folder for run-time files.
pub(super) fn runtime_dir() -> PathBuf {
    // SAFETY: the text is static; it is empty until EAL has chosen the folder.
    PathBuf::from(unsafe { text(ffi::rte_eal_get_runtime_dir()) })
}

/// This process's telemetry socket in a folder. Of processes with one file prefix, the first has the usual name, the
/// others one with a number behind it.
pub(super) fn telemetry_socket(folder: &Path) -> Option<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    let inode = |fd: std::fs::DirEntry| {
        let text = std::fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok()?;
        Some(text.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    let own: Vec<String> = descriptors.filter_map(inode).collect();
    let start = folder.join(TELEMETRY).into_os_string().into_string().ok()?;
    let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
    // Num, RefCount, Protocol, Flags, Type, St, Inode, Path; there may be blanks in the last one.
    let ours = |line: &str| {
        let mut rest = line;
        for _ in 0..6 {
            rest = rest.trim_start().split_once(' ')?.1;
        }
        let (inode, path) = rest.trim_start().split_once(' ')?;
        (own.iter().any(|own| own == inode) && path.starts_with(&start)).then(|| PathBuf::from(path))
    };
    sockets.lines().find_map(ours)
}

/// The folder that EAL will choose: `rte_eal_get_runtime_dir` knows it only afterwards.
fn expected_dir(prefix: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = rustix::process::getuid().is_root();
    let of_user =
        || if root { PathBuf::from("/var/run") } else { set("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into()) };
    set("RUNTIME_DIRECTORY").unwrap_or_else(of_user).join("dpdk").join(prefix)
}

/// How often the folder is tried to be made and held: each time, a process that ends may have removed it meanwhile.
const ATTEMPTS: usize = 100;

/// A run-time folder that nobody removes while it is held. Processes with one file prefix share it.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    folder: File,
}

impl Held {
    /// Makes the folder, and holds it: a process of the same prefix that ends removed it while EAL started here.
    /// `None`: the system lets nobody make or hold it here; EAL says why, if it needs it.
    ///
    /// # Errors
    /// It is there neither before nor after it was made, each time.
    pub(super) fn new(prefix: &str) -> Result<Option<Held>> {
        Held::at(expected_dir(prefix))
    }

    fn at(path: PathBuf) -> Result<Option<Held>> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Held::attempt(&path) {
                Ok(Some(folder)) => return Ok(Some(Held { path, folder })),
                // Meanwhile.
                Ok(None) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                    last = Some(error);
                }
                Err(_) => return Ok(None),
            }
        }
        let why = last.map_or_else(|| "another process removes it each time".to_owned(), |error| error.to_string());
        Err(Error::new(format!(
            "DPDK's run-time folder {} cannot be made: {why}; is it, or a folder above it, a link that leads nowhere?",
            path.display()
        )))
    }

    /// Makes the folder, unless it is there, and holds it; `None` if it was removed before it was held.
    fn attempt(path: &Path) -> std::io::Result<Option<File>> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let folder = File::open(path)?;
        flock(&folder, FlockOperation::LockShared)?;
        let identity = |file: &Metadata| (file.dev(), file.ino());
        let own = identity(&folder.metadata()?);
        Ok(path.metadata().is_ok_and(|there| identity(&there) == own).then_some(folder))
    }

    /// Whether it is the folder that EAL has chosen.
    pub(super) fn is(&self, folder: &Path) -> bool {
        self.path == folder
    }

    /// Leaves it as it is.
    pub(super) fn leave(self) -> PathBuf {
        self.path
    }

    /// Removes it, if nobody else holds it and nothing is in it.
    pub(super) fn remove(self) {
        if flock(&self.folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// EAL leaves its folder behind. If there is more in it than the socket, it is somebody else's too, and stays.
pub(super) fn remove_runtime_dir(folder: &Path, telemetry: Option<&Path>, held: Option<Held>) {
    if !folder.is_absolute() {
        return held.into_iter().for_each(Held::remove);
    }
    if let Some(telemetry) = telemetry {
        let _ = std::fs::remove_file(telemetry);
    }
    match held {
        Some(held) => held.remove(),
        None => drop(std::fs::remove_dir(folder)),
    }
}

/// Removes the run-time folders of processes of ours that were killed: older than a minute, with nothing in them but
/// sockets without a listener.
pub(super) fn remove_left_behind(parent: &Path, now: std::time::SystemTime) {
    let left = |folder: &Path| -> std::io::Result<Vec<PathBuf>> {
        let age = now.duration_since(folder.metadata()?.modified()?).unwrap_or_default();
        let entries: Vec<_> = std::fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
        let is_left = |entry: &std::fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with(TELEMETRY) && !is_listened_on(&entry.path())
        };
        match age.as_secs() >= 60 && entries.iter().all(is_left) {
            true => Ok(entries.iter().map(std::fs::DirEntry::path).collect()),
            false => Err(std::io::ErrorKind::ResourceBusy.into()),
        }
    };
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("perigee-"));
        if ours && let Ok(sockets) = left(&entry.path()) {
            sockets.iter().for_each(|socket| drop(std::fs::remove_file(socket)));
            if let Ok(Some(held)) = Held::at(entry.path()) {
                held.remove();
            }
        }
    }
}

/// Whether a process has this unix socket, as far as one can say.
fn is_listened_on(socket: &Path) -> bool {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(probe) = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) else { return true };
    let Ok(address) = SocketAddrUnix::new(socket) else { return true };
    !matches!(connect(&probe, &address), Err(Errno::CONNREFUSED | Errno::NOENT))
}

/// Where EAL should put its run-time files if it cannot put them where it likes: root in a user namespace may not write
/// to `/var/run`. To be called before the first thread is started, and passed on as
/// [`EalConfig::runtime_dir`](super::EalConfig::runtime_dir).
pub fn fallback_runtime_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let writable = rustix::fs::access("/var/run", rustix::fs::Access::WRITE_OK).is_ok();
    if set("RUNTIME_DIRECTORY").is_some() || writable || !rustix::process::geteuid().is_root() {
        return None;
    }
    Some(set("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from))
}

/// Makes EAL use this folder for its run-time files. Only possible while there is a single thread.
pub fn set_runtime_dir(folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    if std::env::var_os("RUNTIME_DIRECTORY").is_some_and(|set| set == folder) {
        return Ok(());
    }
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads != 1 {
        return Err(Error::new(format!(
            "DPDK's run-time folder can only be chosen before the first thread is started; set RUNTIME_DIRECTORY={} \
             instead",
            folder.display()
        )));
    }
    // SAFETY: this is the only thread, so nobody reads the environment at the same time.
    unsafe { std::env::set_var("RUNTIME_DIRECTORY", folder) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| parent.path().join(name);
        for name in ["perigee-1", "perigee-2", "perigee-3", "perigee-4", "other"] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        let socket = |name: &str| {
            let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
            bind(&socket, &SocketAddrUnix::new(folder(name)).unwrap()).unwrap();
            listen(&socket, 1).unwrap();
            socket
        };
        drop(socket("perigee-1/dpdk_telemetry.v2"));
        drop(socket("perigee-1/dpdk_telemetry.v2:1"));
        drop(socket("perigee-2/dpdk_telemetry.v2"));
        let _alive = socket("perigee-2/dpdk_telemetry.v2:1");
        std::fs::write(folder("perigee-3").join("config"), "").unwrap();
        let now = std::time::SystemTime::now();
        let there = || {
            let mut names: Vec<String> = std::fs::read_dir(parent.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names.join(" ")
        };
        remove_left_behind(parent.path(), now);
        assert_eq!(there(), "other perigee-1 perigee-2 perigee-3 perigee-4", "they are young");
        remove_left_behind(parent.path(), now + std::time::Duration::from_secs(61));
        assert_eq!(there(), "other perigee-2 perigee-3");
    }

    fn hold(path: &Path) -> Held {
        Held::at(path.to_owned()).unwrap().expect("a folder")
    }

    /// A start looped for ever, with a core of its own, where `/var/run/dpdk` was a link to a folder that was not
    /// there.
    #[test]
    fn a_folder_behind_a_link_that_leads_nowhere_is_refused_in_a_sentence() {
        let parent = tempfile::tempdir().unwrap();
        let link = parent.path().join("dpdk");
        std::os::unix::fs::symlink(parent.path().join("nowhere"), &link).unwrap();
        for path in [link.join("router"), link.clone()] {
            let refused = Held::at(path.clone()).unwrap_err().to_string();
            let expected = format!("DPDK's run-time folder {} cannot be made: ", path.display());
            assert!(refused.starts_with(&expected) && refused.ends_with("a link that leads nowhere?"), "{refused}");
        }
        // What the system refuses is EAL's to say.
        std::fs::write(parent.path().join("file"), "").unwrap();
        assert!(Held::at(parent.path().join("file").join("router")).unwrap().is_none());
    }

    /// `kill PID; perigee run FILE`: the one that ended removed the folder while DPDK started in it, which then could
    /// not access it.
    #[test]
    fn a_folder_that_another_process_holds_stays() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("dpdk").join("router");
        let (first, second) = (hold(&path), hold(&path));
        assert!(first.is(&path));
        remove_runtime_dir(&path, None, Some(first));
        assert!(path.exists(), "the second one holds it");
        remove_runtime_dir(&path, None, Some(second));
        assert!(!path.exists());
        // Many that come and go: whoever holds it finds it there.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let held = hold(&path);
                        assert!(path.exists());
                        held.remove();
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    /// Of two routers of one name, the second one's socket stayed behind, and the folder with it.
    #[test]
    fn of_two_telemetry_sockets_the_own_one_is_found() {
        let folder = tempfile::Builder::new().prefix("with a blank ").tempdir().unwrap();
        let socket = |name: &str| std::os::unix::net::UnixListener::bind(folder.path().join(name)).unwrap();
        assert_eq!(telemetry_socket(folder.path()), None);
        // As that of a process that has ended.
        drop(socket(TELEMETRY));
        assert_eq!(telemetry_socket(folder.path()), None);
        let _second = socket("dpdk_telemetry.v2:1");
        assert_eq!(telemetry_socket(folder.path()), Some(folder.path().join("dpdk_telemetry.v2:1")));
    }
}
