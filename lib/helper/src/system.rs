// SPDX-License-Identifier: MIT
//! What a helper does outside its process, apart from what it decides: a fuzz target has it decide about a system that
//! is pretended.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use perigee_net::{MacAddr, Namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::failure::Failure;
use super::links::{self, Undo};
use super::message::{LinkChange, LinkPreparation, NeighborChange, SocketWanted, TwinStatus, TwinWanted};
use super::neighbors;
use crate::files::{self, Named};
use crate::{privileges, sockets};

/// The interfaces that a router may change once it has started, by their numbers; `None`: it has not started yet.
pub type Changeable = Option<BTreeSet<u32>>;

/// What a helper does to the system.
pub trait System {
    /// Makes a twin.
    fn make_twin(&mut self, wanted: TwinWanted) -> Result<(OwnedFd, TwinStatus), Failure>;
    /// Changes an interface; returns the number of one that was to be deleted, and is not there any more.
    fn change(&mut self, change: LinkChange, changeable: Changeable) -> Result<Option<u32>, Failure>;
    /// The MAC address of an interface.
    fn mac(&mut self, name: String) -> Result<MacAddr, Failure>;
    /// How to restore an interface after it was prepared.
    fn look(&mut self, wanted: &LinkPreparation) -> Result<Undo, Failure>;
    /// Prepares an interface for a port.
    fn prepare(&mut self, wanted: LinkPreparation, undo: Undo) -> Result<(), Failure>;
    /// Those of the interfaces of these numbers that are gone.
    fn gone(&mut self, links: Vec<u32>) -> Result<Vec<u32>, Failure>;
    /// Opens a socket.
    fn open_socket(&mut self, wanted: SocketWanted, namespace: Option<&Namespace>) -> Result<OwnedFd, Failure>;
    /// Sets and removes neighbors.
    fn change_neighbors(
        &mut self,
        neighbors: Vec<NeighborChange>,
        namespace: Option<&Namespace>,
        changeable: Changeable,
    ) -> Result<(), Failure>;
    /// Makes a VLAN interface on a twin; returns its number.
    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, changeable: Changeable) -> Result<u32, Failure>;
    /// Which file or folder a path leads to: device and inode.
    fn identity(&mut self, path: &Path) -> Option<(u64, u64)>;
    /// Opens a file of a configuration.
    fn open_file(&mut self, path: &Path, configuration: Option<&Path>, named: Named) -> Result<OwnedFd, Failure>;
    /// Starts a standby whose standard input this is.
    fn start_standby(&mut self, input: OwnedFd) -> io::Result<Child>;
}

/// The real one.
pub(super) struct Linux;

impl System for Linux {
    fn make_twin(&mut self, wanted: TwinWanted) -> Result<(OwnedFd, TwinStatus), Failure> {
        inside(wanted.namespace.clone().as_ref(), move || links::make_twin(&wanted))
    }

    fn change(&mut self, change: LinkChange, changeable: Changeable) -> Result<Option<u32>, Failure> {
        inside(change.namespace.clone().as_ref(), move || links::change(&change, changeable.as_ref()))
    }

    fn mac(&mut self, name: String) -> Result<MacAddr, Failure> {
        inside(None, move || links::mac(&name))
    }

    fn look(&mut self, wanted: &LinkPreparation) -> Result<Undo, Failure> {
        let wanted = wanted.clone();
        inside(None, move || links::look(&wanted))
    }

    fn prepare(&mut self, wanted: LinkPreparation, undo: Undo) -> Result<(), Failure> {
        inside(None, move || links::prepare(&wanted, &undo))
    }

    fn gone(&mut self, links: Vec<u32>) -> Result<Vec<u32>, Failure> {
        inside(None, move || links::gone(&links))
    }

    fn open_socket(&mut self, wanted: SocketWanted, namespace: Option<&Namespace>) -> Result<OwnedFd, Failure> {
        inside(namespace, move || open_socket(wanted))
    }

    fn change_neighbors(
        &mut self,
        neighbors: Vec<NeighborChange>,
        namespace: Option<&Namespace>,
        changeable: Changeable,
    ) -> Result<(), Failure> {
        inside(namespace, move || neighbors::change(&neighbors, changeable.as_ref()))
    }

    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, changeable: Changeable) -> Result<u32, Failure> {
        let make = move |wanted: TwinWanted| neighbors::make_vlan(&on, vlan, &wanted, changeable.as_ref());
        inside(wanted.namespace.clone().as_ref(), move || make(wanted))
    }

    fn identity(&mut self, path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }

    fn open_file(&mut self, path: &Path, configuration: Option<&Path>, named: Named) -> Result<OwnedFd, Failure> {
        files::open(path, configuration, named).map(Into::into)
    }

    fn start_standby(&mut self, input: OwnedFd) -> io::Result<Child> {
        let process = thread::spawn(move || {
            privileges::pass_on()?;
            let mut command = Command::new("/proc/self/exe");
            command.args(std::env::args_os().skip(1)).stdin(Stdio::from(input)).stdout(Stdio::null());
            std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn()
        });
        process.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended")))
    }
}

/// A socket of this thread's namespace.
fn open_socket(wanted: SocketWanted) -> Result<OwnedFd, Failure> {
    match wanted {
        SocketWanted::Monitor(buffer) => {
            sockets::open_monitor(buffer).map_err(|error| Failure::from(error).of("netlink"))
        }
        SocketWanted::Dumps => sockets::open_plain().map_err(|error| Failure::from(error).of("netlink")),
        SocketWanted::Diagnosis => sockets::open_diagnosis().map_err(|error| Failure::from(error).of("netlink")),
        SocketWanted::Listener(address) => {
            let listener = std::net::TcpListener::bind(address);
            let refused = |error| format!("cannot listen on {address}: {error}; is it in use?").into();
            listener.map(OwnedFd::from).map_err(refused)
        }
    }
}

/// Runs `work` inside `namespace`: on a thread of its own, if there is one, so that this thread never leaves its own.
pub(super) fn inside<T: Send + 'static>(
    namespace: Option<&Namespace>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = match namespace.cloned() {
        // A router with many ports makes thousands of these requests while it starts.
        None => std::panic::catch_unwind(AssertUnwindSafe(work)),
        Some(namespace) => thread::spawn(move || enter(&namespace).and_then(|()| work())).join(),
    };
    done.unwrap_or_else(|_| Err("the helper made a mistake of its own".to_owned().into()))
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
