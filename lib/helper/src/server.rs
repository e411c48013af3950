// SPDX-License-Identifier: MIT
//! The helper's side: serves one request after the other until the router is gone.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread;

use caps::Capability;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::signal::unix::{SignalKind, signal};

use super::failure::Failure;
use super::links::{self, Undo};
use super::message::{Answer, Request, SocketWanted, receive, send};
use super::neighbors;
use crate::privileges;
use crate::sockets;
use perigee_net::Namespace;

/// Serves the router at the other end of the standard input until it closes; then restores what was changed.
///
/// Of its capabilities it keeps `CAP_NET_ADMIN`, for interfaces and neighbors, and those of `reach`.
///
/// # Errors
/// The standard input is not a socket of [`super::Helper`], or the router sent something that is not a request.
pub fn serve_stdin(reach: Reach) -> io::Result<()> {
    // Not stdin itself, whose buffer does not keep messages and descriptors apart.
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let needed: &[Capability] = match reach {
        Reach::Own => &[Capability::CAP_NET_ADMIN],
        Reach::Namespaces => &[Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN],
        Reach::Processes => &[Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE],
    };
    privileges::keep_only(needed)?;
    ignore_signals()?;
    let mut server = Server::default();
    let result = server.serve(&socket);
    server.restore();
    result
}

/// The router decides when the helper ends, by closing the socket. Once a handler is there, a signal does not kill.
fn ignore_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        drop(signal(kind)?);
    }
    Ok(())
}

/// Which network namespaces a helper has to do with; each takes a capability more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The router's own.
    Own,
    /// Those with a name or a path: to enter one takes `CAP_SYS_ADMIN`.
    Namespaces,
    /// Those of processes: to look into `/proc/PID/ns` of others takes `CAP_SYS_PTRACE`.
    Processes,
}

impl Reach {
    /// What a namespace asks for.
    pub fn to(namespace: Option<&Namespace>) -> Reach {
        match namespace {
            None => Reach::Own,
            Some(Namespace::Name(_) | Namespace::Path(_)) => Reach::Namespaces,
            Some(Namespace::Pid(_)) => Reach::Processes,
        }
    }

    /// Its word on the helper's command line.
    pub fn word(self) -> &'static str {
        match self {
            Reach::Own => "own",
            Reach::Namespaces => "namespaces",
            Reach::Processes => "processes",
        }
    }
}

impl std::str::FromStr for Reach {
    type Err = String;

    fn from_str(word: &str) -> Result<Reach, String> {
        let all = [Reach::Own, Reach::Namespaces, Reach::Processes];
        all.into_iter()
            .find(|reach| reach.word() == word)
            .ok_or_else(|| format!("found {word:?}, expected own, namespaces or processes"))
    }
}

#[derive(Default)]
struct Server {
    /// How to restore the interfaces that were prepared.
    undo: Vec<Undo>,
    /// What to remove at the end.
    remove: Vec<PathBuf>,
    /// The interfaces that were named, twins among them.
    names: BTreeSet<String>,
    /// Whether the router has started: it knows all interfaces and files by then.
    started: bool,
}

impl Server {
    fn serve(&mut self, socket: &OwnedFd) -> io::Result<()> {
        while let Some((request, _)) = receive::<Request>(socket)? {
            let (answer, fd) = match self.answer(request) {
                Ok(answer) => answer,
                Err(failure) => (Answer::Failed(failure.to_string()), None),
            };
            send(socket, &answer, fd.as_ref().map(AsFd::as_fd))?;
            // Dropping `fd` leaves the router's copy the only one: the twin ends with the router.
        }
        Ok(())
    }

    /// Notes an interface; a router that has started names no new ones, whoever has taken it over.
    fn name(&mut self, name: &str) -> Result<(), Failure> {
        if self.started && !self.names.contains(name) {
            return Err(format!("{name} was not one of the router's interfaces when it started").into());
        }
        self.names.insert(name.to_owned());
        Ok(())
    }

    fn answer(&mut self, request: Request) -> Result<(Answer, Option<OwnedFd>), Failure> {
        match request {
            Request::RemoveAtEnd(_) if self.started => {
                Err("files to remove are named before the start".to_owned().into())
            }
            Request::RemoveAtEnd(paths) => {
                self.remove.extend(paths);
                Ok((Answer::Done, None))
            }
            Request::Started => {
                self.started = true;
                Ok((Answer::Done, None))
            }
            Request::MakeTwin(wanted) => {
                self.name(&wanted.name)?;
                let namespace = wanted.namespace.clone();
                let (fd, status) = inside(namespace.as_ref(), move || links::make_twin(&wanted))?;
                Ok((Answer::Twin(status), Some(fd)))
            }
            Request::ChangeLink(change) => {
                let namespace = change.namespace.clone();
                inside(namespace.as_ref(), move || links::change(&change))?;
                Ok((Answer::Done, None))
            }
            Request::LinkMac(name) => {
                let mac = inside(None, move || links::mac(&name))?;
                Ok((Answer::Mac(mac), None))
            }
            Request::PrepareLink(preparation) => {
                self.name(&preparation.name)?;
                let undo = inside(None, move || links::prepare(&preparation))?;
                self.undo.retain(|older| !older.is_outdated_by(&undo));
                self.undo.push(undo);
                Ok((Answer::Done, None))
            }
            Request::OpenSocket { socket, namespace } => {
                let fd = inside(namespace.as_ref(), move || open_socket(socket))?;
                Ok((Answer::Socket, Some(fd)))
            }
            Request::ChangeNeighbors { neighbors, namespace } => {
                inside(namespace.as_ref(), move || neighbors::change(&neighbors))?;
                Ok((Answer::Done, None))
            }
            Request::MakeVlan { on, vlan, wanted } => {
                let namespace = wanted.namespace.clone();
                inside(namespace.as_ref(), move || neighbors::make_vlan(&on, vlan, &wanted))?;
                Ok((Answer::Done, None))
            }
        }
    }

    /// Restores the prepared interfaces, the last one first, and removes what the router could not.
    fn restore(&mut self) {
        for path in self.remove.drain(..) {
            // Gone already, or a folder that others use, too.
            let _ = if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) };
        }
        for undo in self.undo.drain(..).rev() {
            if let Err(error) = inside(None, move || links::restore(&undo)) {
                tracing::warn!("{error}");
            }
        }
    }
}

/// A socket of this thread's namespace.
fn open_socket(wanted: SocketWanted) -> Result<OwnedFd, Failure> {
    match wanted {
        SocketWanted::Monitor(buffer) => {
            sockets::open_monitor(buffer).map_err(|error| Failure::from(error).of("netlink"))
        }
        SocketWanted::Dumps => sockets::open_plain().map_err(|error| Failure::from(error).of("netlink")),
        SocketWanted::Listener(address) => {
            let listener = std::net::TcpListener::bind(address);
            let refused = |error| format!("cannot listen on {address}: {error}; is it in use?").into();
            listener.map(OwnedFd::from).map_err(refused)
        }
    }
}

/// Runs `work` on a thread of its own inside `namespace`, so that this thread never leaves its own.
fn inside<T: Send + 'static>(
    namespace: Option<&Namespace>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let namespace = namespace.cloned();
    let thread = thread::spawn(move || {
        if let Some(namespace) = namespace {
            enter(&namespace)?;
        }
        work()
    });
    thread.join().unwrap_or_else(|_| Err("the helper made a mistake of its own".to_owned().into()))
}

fn enter(namespace: &Namespace) -> Result<(), Failure> {
    let path = namespace.path();
    let failed = |error: io::Error| {
        let absent = error.kind() == io::ErrorKind::NotFound;
        let attempt = format!("cannot enter the network namespace {namespace}: {}", path.display());
        match namespace {
            Namespace::Name(name) if absent => format!("{attempt}: {error}; make it with `ip netns add {name}`").into(),
            _ if absent => format!("{attempt}: {error}; does it still exist?").into(),
            _ => Failure::from(error).of(attempt),
        }
    };
    let file = std::fs::File::open(&path).map_err(failed)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| failed(error.into()))
}
