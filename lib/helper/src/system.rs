// SPDX-License-Identifier: MIT
//! What a helper does outside its process, apart from what it decides: a fuzz target has it decide about a system that
//! is pretended.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use perigee_net::{MacAddr, Namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::failure::{Failure, Refusal};
use super::message::{LinkChange, LinkPreparation, NeighborChange, SocketWanted, TwinStatus, TwinWanted};
use super::underlay::{self, Undo};
use super::{kept, links, neighbors, twins};
use crate::files::{self, Named};
use crate::{privileges, sockets};

/// The interfaces that a router may change once it has started, by their numbers; `None`: it has not started yet.
pub type Changeable = Option<BTreeSet<u32>>;

/// Gets what came of each of many, as soon as it is done; returns whether to go on.
pub type Each<'a, T> = &'a mut dyn FnMut(T) -> bool;

/// What a helper does to the system. What is done with many is done with one after the other, until one is refused.
pub trait System {
    /// Makes twins, all of them in one namespace.
    fn make_twins(
        &mut self,
        namespace: Option<&Namespace>,
        wanted: &[TwinWanted],
        done: Each<(OwnedFd, TwinStatus)>,
    ) -> Result<(), Refusal>;
    /// Changes an interface; returns the number of one that was to be deleted, and is not there any more.
    fn change(&mut self, change: LinkChange, changeable: Changeable) -> Result<Option<u32>, Failure>;
    /// The MAC addresses of interfaces.
    fn macs(&mut self, names: &[String], done: Each<MacAddr>) -> Result<(), Refusal>;
    /// How to restore interfaces after they were prepared. Nothing is changed.
    fn look(&mut self, wanted: &[LinkPreparation], done: Each<Undo>) -> Result<(), Refusal>;
    /// Prepares interfaces for ports. One that is refused is as it was.
    fn prepare(&mut self, wanted: &[(LinkPreparation, Undo)], done: Each<()>) -> Result<(), Refusal>;
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
    /// Has Linux ask neighbors, on interfaces of these names and VLANs on them.
    fn confirm_neighbors(&mut self, neighbors: Vec<(u32, IpAddr)>, on: BTreeSet<String>) -> Result<(), Failure>;
    /// Makes a VLAN interface on a twin; returns its number.
    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, changeable: Changeable) -> Result<u32, Failure>;
    /// How to restore interfaces that were left prepared, from a file, which is removed; `None` if there is none.
    fn take_kept(&mut self, file: &Path) -> Option<Vec<Undo>>;
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
    fn make_twins(
        &mut self,
        namespace: Option<&Namespace>,
        wanted: &[TwinWanted],
        done: Each<(OwnedFd, TwinStatus)>,
    ) -> Result<(), Refusal> {
        inside_each(namespace, |made| twins::make(wanted, made), done)
    }

    fn change(&mut self, change: LinkChange, changeable: Changeable) -> Result<Option<u32>, Failure> {
        inside(change.namespace.clone().as_ref(), move || links::change(&change, changeable.as_ref()))
    }

    fn macs(&mut self, names: &[String], done: Each<MacAddr>) -> Result<(), Refusal> {
        inside_each(None, |found| underlay::macs(names, found), done)
    }

    fn look(&mut self, wanted: &[LinkPreparation], done: Each<Undo>) -> Result<(), Refusal> {
        inside_each(None, |found| underlay::look(wanted, found), done)
    }

    fn prepare(&mut self, wanted: &[(LinkPreparation, Undo)], done: Each<()>) -> Result<(), Refusal> {
        inside_each(None, |prepared| underlay::prepare(wanted, prepared), done)
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

    fn confirm_neighbors(&mut self, neighbors: Vec<(u32, IpAddr)>, on: BTreeSet<String>) -> Result<(), Failure> {
        inside(None, move || neighbors::confirm(&neighbors, &on))
    }

    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, changeable: Changeable) -> Result<u32, Failure> {
        let make = move |wanted: TwinWanted| neighbors::make_vlan(&on, vlan, &wanted, changeable.as_ref());
        inside(wanted.namespace.clone().as_ref(), move || make(wanted))
    }

    fn take_kept(&mut self, file: &Path) -> Option<Vec<Undo>> {
        let left = kept::take(file)?;
        Some(inside(None, move || underlay::still_there(left)).unwrap_or_default())
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
        None => std::panic::catch_unwind(AssertUnwindSafe(work)),
        Some(namespace) => thread::spawn(move || enter(&namespace).and_then(|()| work())).join(),
    };
    done.unwrap_or_else(|_| Err(mistake()))
}

/// Runs `work` inside `namespace`, on a thread that ends with it. What it makes is `done` by this thread as soon as it
/// is there. It ends when that says no; what it has made by then is `done`, too.
fn inside_each<T: Send>(
    namespace: Option<&Namespace>,
    work: impl FnOnce(Each<T>) -> Result<(), Refusal> + Send,
    done: Each<T>,
) -> Result<(), Refusal> {
    let (sender, made) = channel();
    let goes_on = AtomicBool::new(true);
    let is_wanted = &goes_on;
    let work = move || {
        namespace.map_or(Ok(()), enter)?;
        work(&mut |item| sender.send(item).is_ok() && is_wanted.load(Ordering::Relaxed))
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work).map_err(Failure::from)?;
        for item in made {
            if !done(item) {
                goes_on.store(false, Ordering::Relaxed);
            }
        }
        thread.join().unwrap_or_else(|_| Err(mistake().into()))
    })
}

pub(super) fn mistake() -> Failure {
    "the helper made a mistake: this is a bug in perigee".to_owned().into()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The router died among many interfaces: those that were prepared by the time the helper saw it were taken for
    /// untouched, and stayed as they were.
    #[test]
    fn what_is_made_after_the_last_that_was_wanted_is_heard_of() {
        let mut heard = Vec::new();
        let work = |made: Each<u32>| {
            for number in 1..=3 {
                made(number);
            }
            Ok(())
        };
        let done = &mut |number| {
            heard.push(number);
            false
        };
        inside_each(None, work, done).unwrap();
        assert_eq!(heard, [1, 2, 3]);
    }

    #[test]
    fn work_among_many_ends_when_no_more_is_wanted() {
        let work = |made: Each<u32>| {
            while made(0) {
                thread::yield_now();
            }
            Ok(())
        };
        let mut left = 3;
        let done = &mut |_| {
            left -= 1;
            left > 0
        };
        inside_each(None, work, done).unwrap();
        assert!(left <= 0);
        let refused = inside_each(None, |_: Each<u32>| panic!("a mistake"), &mut |_| true).unwrap_err();
        assert_eq!(refused.failure.to_string(), mistake().to_string());
    }
}
