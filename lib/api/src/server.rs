// SPDX-License-Identifier: MIT
//! The socket and the thread behind it.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use crate::{Backend, doors, endpoints};
use perigee_helper::{NoSocket, SocketFile, confine, privileges, remove_empty_folder};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long pending requests may still take once the router stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why the API could not start: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

/// A running API. When dropped, it stops and its socket is removed, and the folders that were made for it, if nobody
/// else uses them.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    file: Option<SocketFile>,
    /// The folders that were made for it, the innermost first.
    folders: Vec<PathBuf>,
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
        let mut folders = Vec::new();
        let listening = listen_privately(path, group, &mut folders);
        let (listener, file) = listening.inspect_err(|_| remove_folders(&folders))?;
        let (stop, stopped) = watch::channel(false);
        // From here on, dropping the server removes the socket.
        let mut server = Self { path: path.to_owned(), file: Some(file), folders, metrics: None, stop, thread: None };
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

    /// What was made for it and is removed at the end, in this order: where this process may not, somebody else has to.
    pub fn made(&self) -> Vec<PathBuf> {
        std::iter::once(&self.path).chain(&self.folders).cloned().collect()
    }

    /// Where metrics are served to the network, with the port that the system chose if it was 0.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Removed first, so that nobody finds a server that is about to end.
        drop(self.file.take());
        remove_folders(&self.folders);
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

/// How often a socket is tried for whose folder a router that ends removes at that moment.
const FOLDER_TRIES: u32 = 10;

/// A listening socket at `path` that others can never connect to, not even for a moment, except members of `group`.
/// `made` are the folders that were made for it, the innermost first.
fn listen_privately(
    path: &Path,
    group: Option<&str>,
    made: &mut Vec<PathBuf>,
) -> Result<(UnixListener, SocketFile), StartError> {
    let group = group.map(number_of).transpose()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut listen = || {
        if let Some(folder) = folder {
            made.extend(make_folder(folder, group.is_some())?);
        }
        Ok(SocketFile::listen(path, group, BACKLOG))
    };
    let mut listening = listen()?;
    for _ in 1..FOLDER_TRIES {
        if !matches!(&listening, Err(NoSocket::System(error)) if error.kind() == ErrorKind::NotFound) {
            break;
        }
        listening = listen()?;
    }
    let shown = path.display();
    let listening = listening.map_err(|error| match error {
        NoSocket::OtherFile => {
            StartError(format!("{shown} is there already and is no socket; choose another `socket` in [router]"))
        }
        NoSocket::InUse => StartError(format!(
            "a running router uses {shown} already; stop it, or give this one another `name` or `socket` in [router]"
        )),
        NoSocket::Group(..) => StartError(format!("{shown}: {error}; only root, or a member of it, can do that")),
        NoSocket::System(error) => refused(path, &error),
    })?;
    Ok((listening.0.into(), listening.1))
}

/// The number of a group that the configuration names, or gives by its number.
fn number_of(group: &str) -> Result<u32, StartError> {
    let known = group.parse().ok().or_else(|| privileges::group(group));
    known.ok_or_else(|| {
        StartError(format!("there is no group {group}; expected one that `getent group` knows in `socket_group`"))
    })
}

/// Removes what was made and is empty. One that only root can remove is left to the helper.
fn remove_folders(made: &[PathBuf]) {
    made.iter().for_each(|folder| remove_empty_folder(folder));
}

/// Makes the folder of the socket, if there is none; returns those that were missing, the innermost first. Members of a
/// group have to enter it: names of sockets are no secret. A folder that somebody else has made stays as it is.
fn make_folder(folder: &Path, for_a_group: bool) -> Result<Vec<PathBuf>, StartError> {
    let fail = |error: io::Error| {
        StartError(format!(
            "cannot make the folder {} for the API's socket: {error}; choose another `socket` in [router], or set XDG_RUNTIME_DIR to a folder of yours",
            folder.display()
        ))
    };
    let is_new = !folder.exists();
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    if for_a_group && is_new {
        let may_enter = |folder| fs::set_permissions(folder, Permissions::from_mode(0o755));
        missing.iter().try_for_each(may_enter).map_err(fail)?;
    } else if for_a_group && fs::metadata(folder).is_ok_and(|folder| folder.mode() & 0o011 == 0) {
        tracing::warn!(
            "{} can be entered by its user alone, so the members of `socket_group` cannot use the API; `chmod a+x` it",
            folder.display()
        );
    }
    Ok(missing)
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
