// SPDX-License-Identifier: MIT
//! The helper's side: serves one request after the other until the router is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
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
/// # Errors
/// The standard input is not a socket of [`super::Helper`], or the router sent something that is not a request.
pub fn serve_stdin() -> io::Result<()> {
    // Not stdin itself, whose buffer does not keep messages and descriptors apart.
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let needed = [Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE];
    privileges::keep_only(&needed)?;
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

#[derive(Default)]
struct Server {
    /// How to restore the interfaces that were prepared.
    undo: Vec<Undo>,
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

    fn answer(&mut self, request: Request) -> Result<(Answer, Option<OwnedFd>), Failure> {
        match request {
            Request::MakeTwin(wanted) => {
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

    /// Restores the prepared interfaces, the last one first.
    fn restore(&mut self) {
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
