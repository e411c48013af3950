// SPDX-License-Identifier: MIT
//! The socket and the thread behind it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::sync::watch;

use crate::{Backend, doors, endpoints};
use perigee_helper::{confine, privileges};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long pending requests may still take once the router stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often, and at which intervals, the lock of the socket's folder is tried for: others have it for less than a millisecond.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why the API could not start: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

/// A running API. When dropped, it stops and its socket is removed.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// The socket's device and inode, so that only the socket that was made is removed at the end.
    identity: (u64, u64),
    metrics: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the unix socket `path`, which only the same user may use, and, if `metrics` is given, for
    /// `GET /metrics` on that address of the network. The folder is made if there is none, the socket of a router that
    /// was killed is replaced.
    ///
    /// # Errors
    /// A running router uses `path`, or there is something that is not a socket, or the system refuses it.
    pub fn start(path: &Path, metrics: Option<SocketAddr>, backend: Arc<dyn Backend>) -> Result<Self, StartError> {
        Self::start_for(None, path, metrics, backend)
    }

    /// Like [`Server::start`]; the members of a group, by its name or number, may use the socket as well.
    ///
    /// # Errors
    /// As there; there is no such group, or the socket cannot be given to it.
    pub fn start_for(
        group: Option<&str>,
        path: &Path,
        metrics: Option<SocketAddr>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, StartError> {
        let listener = listen_privately(path)?;
        if let Some(group) = group {
            give_to(group, path)?;
        }
        let identity = fs::symlink_metadata(path).map(|m| (m.dev(), m.ino())).map_err(|e| refused(path, &e))?;
        let (stop, stopped) = watch::channel(false);
        // From here on, dropping the server removes the socket.
        let mut server = Self { path: path.to_owned(), identity, metrics: None, stop, thread: None };
        let network = metrics.map(listen_to_network).transpose()?;
        server.metrics = network.as_ref().and_then(|listener| listener.local_addr().ok());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(path, &error))?;
        let serve = move || {
            if let Err(error) = privileges::drop_all() {
                tracing::warn!("the API thread keeps its capabilities: {error}");
            }
            // It has its listeners; whether the kernel can is said by others.
            let _ = confine::files(&[]);
            if let Err(error) = runtime.block_on(serve(listener, network, backend, stopped)) {
                tracing::error!("the API has ended: {error}");
            }
        };
        let thread = thread::Builder::new().name("api".into()).spawn(serve);
        server.thread = Some(thread.map_err(|error| refused(path, &error))?);
        Ok(server)
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where metrics are served to the network, with the port that the system chose if it was 0.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Removed first, so that nobody finds a server that is about to end.
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was printed there
        }
    }
}

async fn serve(
    unix: UnixListener,
    network: Option<TcpListener>,
    backend: Arc<dyn Backend>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    if let Some(network) = network {
        let listener = tokio::net::TcpListener::from_std(network)?;
        let app = endpoints::only_metrics(backend.clone());
        tasks.spawn(doors::keep(listener, "metrics", app, doors::NETWORK, stopped.clone()));
    }
    let listener = tokio::net::UnixListener::from_std(unix)?;
    tasks.spawn(doors::keep(listener, "api", endpoints::everything(backend), doors::PRIVATE, stopped.clone()));
    let _ = stopped.wait_for(|stop| *stop).await;
    let _ = tokio::time::timeout(FAREWELL, tasks.join_all()).await; // the rest is cut off
    Ok(())
}

/// A listening socket at `path` that others can never connect to, not even for a moment.
fn listen_privately(path: &Path) -> Result<UnixListener, StartError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| StartError(format!("cannot make the folder {} for the API's socket: {error}; choose another `socket` in [router], or set XDG_RUNTIME_DIR to a folder of yours", folder.display())))?;
    }
    let _lock = lock_folder(path);
    make_way(path)?;
    let bound = || -> io::Result<UnixListener> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux gives the new file the mode of the socket, so there is no moment with another one.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(socket.into())
    };
    bound().map_err(|error| refused(path, &error))
}

/// Keeps other routers from making way in this folder until the socket listens: of two that start at once, the second one would take
/// the first one's new socket for that of a killed router. A folder that cannot be locked has one user.
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

/// Lets a group's members use the socket.
fn give_to(group: &str, path: &Path) -> Result<(), StartError> {
    let unknown =
        || StartError(format!("there is no group {group}; expected one that `getent group` knows in `socket_group`"));
    let id = match group.parse() {
        Ok(id) => id,
        Err(_) => privileges::group(group).ok_or_else(unknown)?,
    };
    let given = || -> io::Result<()> {
        std::os::unix::fs::chown(path, None, Some(id))?;
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
        // Names of sockets are no secret.
        match path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "perigee")) {
            Some(folder) => fs::set_permissions(folder, Permissions::from_mode(0o755)),
            None => Ok(()),
        }
    };
    given().map_err(|error| {
        StartError(format!(
            "{} cannot be given to the group {group}: {error}; only root, or a member of it, can do that",
            path.display()
        ))
    })
}

/// Removes the socket of a router that was killed; refuses to remove that of a running one, or anything else.
fn make_way(path: &Path) -> Result<(), StartError> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(path, &error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(StartError(format!(
                "{shown} is there already and is no socket; choose another `socket` in [router]"
            )));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(StartError(format!(
            "a running router uses {shown} already; stop it, or give this one another `name` or `socket` in [router]"
        ))),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| refused(path, &error))
        }
        Err(error) => Err(refused(path, &error)),
    }
}

fn listen_to_network(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        StartError(format!("cannot serve metrics on {address}: {error}; choose another `metrics` in [router]"))
    })
}

fn refused(path: &Path, error: &io::Error) -> StartError {
    let or = match error.kind() {
        // /run/perigee is root's.
        ErrorKind::PermissionDenied => ", or set XDG_RUNTIME_DIR to a folder of yours",
        _ => "",
    };
    StartError(format!("cannot listen on {}: {error}; choose another `socket` in [router]{or}", path.display()))
}
