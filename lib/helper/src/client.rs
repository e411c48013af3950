// SPDX-License-Identifier: MIT
//! The router's side of the helper.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::message::{
    Answer, LinkChange, LinkPreparation, NeighborChange, Request, SocketWanted, TwinStatus, TwinWanted, receive, send,
};
use crate::NetlinkSockets;
use crate::server::Reach;
use crate::twin::Twin;
use perigee_net::{MacAddr, Namespace};

/// Most neighbors in one request: far below the longest message.
const MOST_NEIGHBORS: usize = 500;

/// Why the helper did not carry out a request: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HelperError(String);

/// A running helper. When dropped, the helper restores what it changed and ends; this waits for it.
#[derive(Debug)]
pub struct Helper {
    /// Closed first, which is what ends the process. One request at a time.
    socket: Mutex<Option<OwnedFd>>,
    process: Child,
}

impl Helper {
    /// Starts `program helper`. The caller must still have its capabilities, as the helper inherits them.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn start(program: &Path, reach: Reach) -> Result<Self, HelperError> {
        Self::start_with(Command::new(program).args(["helper", reach.word()]))
    }

    /// Like [`Helper::start`] with another command that ends in [`super::serve_stdin`].
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn start_with(command: &mut Command) -> Result<Self, HelperError> {
        let failed = |error: std::io::Error| HelperError(format!("cannot start the helper process: {error}"));
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        // A process group of its own keeps Ctrl-C from it: it must outlive the router to clean up.
        let process =
            command.stdin(Stdio::from(other)).stdout(Stdio::null()).process_group(0).spawn().map_err(failed)?;
        Ok(Self { socket: Mutex::new(Some(own)), process })
    }

    /// Makes a twin.
    ///
    /// # Errors
    /// It cannot be made; nothing of it is left.
    pub fn make_twin(&self, wanted: &TwinWanted) -> Result<(Twin, TwinStatus), HelperError> {
        match self.ask(&Request::MakeTwin(wanted.clone()))? {
            (Answer::Twin(status), Some(fd)) => {
                let failed = |error| HelperError(format!("cannot use the twin `{}`: {error}", wanted.name));
                Ok((Twin::new(fd).map_err(failed)?, status))
            }
            _ => Err(confused()),
        }
    }

    /// Changes a twin's state or MTU.
    ///
    /// # Errors
    /// The kernel refuses it, or there is no such interface.
    pub fn change_link(&self, change: &LinkChange) -> Result<(), HelperError> {
        self.done(&Request::ChangeLink(change.clone()))
    }

    /// Makes a Linux interface ready to carry a port. It is restored when the helper ends.
    ///
    /// # Errors
    /// The kernel refuses it, or there is no such interface.
    pub fn prepare_link(&self, preparation: &LinkPreparation) -> Result<(), HelperError> {
        self.done(&Request::PrepareLink(preparation.clone()))
    }

    /// The MAC address of an interface in the router's namespace.
    ///
    /// # Errors
    /// There is none of that name, or the helper is gone.
    pub fn link_mac(&self, name: &str) -> Result<MacAddr, HelperError> {
        match self.ask(&Request::LinkMac(name.to_owned()))? {
            (Answer::Mac(mac), _) => Ok(mac),
            _ => Err(confused()),
        }
    }

    /// Opens a socket in a namespace.
    ///
    /// # Errors
    /// The system refuses it, or the namespace cannot be entered.
    pub fn open_socket(&self, socket: SocketWanted, namespace: Option<&Namespace>) -> Result<OwnedFd, HelperError> {
        match self.ask(&Request::OpenSocket { socket, namespace: namespace.cloned() })? {
            (Answer::Socket, Some(fd)) => Ok(fd),
            _ => Err(confused()),
        }
    }

    /// Opens the sockets by which a namespace's network is followed, with `buffer` bytes for notifications.
    ///
    /// # Errors
    /// The system refuses it, or the namespace cannot be entered.
    pub fn netlink(&self, buffer: usize, namespace: Option<&Namespace>) -> Result<NetlinkSockets, HelperError> {
        let monitor = self.open_socket(SocketWanted::Monitor(buffer), namespace)?;
        let dumps = self.open_socket(SocketWanted::Dumps, namespace)?;
        Ok(NetlinkSockets { monitor, dumps })
    }

    /// Sets and removes neighbors in Linux. Those on a twin that is gone are left out.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the kernel refuses one; the others are still sent.
    pub fn change_neighbors(
        &self,
        neighbors: &[NeighborChange],
        namespace: Option<&Namespace>,
    ) -> Result<(), HelperError> {
        let mut result = Ok(());
        for neighbors in neighbors.chunks(MOST_NEIGHBORS) {
            let (neighbors, namespace) = (neighbors.to_vec(), namespace.cloned());
            result = result.and(self.done(&Request::ChangeNeighbors { neighbors, namespace }));
        }
        result
    }

    /// Makes a VLAN interface on a twin, so that Linux sees the port's VLAN as the router does. It vanishes with the twin.
    ///
    /// # Errors
    /// The kernel has no VLAN interfaces, or refuses this one.
    pub fn make_vlan(&self, on: &str, vlan: u16, wanted: &TwinWanted) -> Result<(), HelperError> {
        self.done(&Request::MakeVlan { on: on.to_owned(), vlan, wanted: wanted.clone() })
    }

    /// Removes files and empty folders when the router has ended, which is another user then.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn remove_at_end(&self, paths: Vec<PathBuf>) -> Result<(), HelperError> {
        self.done(&Request::RemoveAtEnd(paths))
    }

    /// The router has started: the helper makes no twin, prepares no interface and removes no file that it has not heard of.
    ///
    /// # Errors
    /// The helper is gone.
    pub fn started(&self) -> Result<(), HelperError> {
        self.done(&Request::Started)
    }

    fn done(&self, request: &Request) -> Result<(), HelperError> {
        match self.ask(request)? {
            (Answer::Done, _) => Ok(()),
            _ => Err(confused()),
        }
    }

    fn ask(&self, request: &Request) -> Result<(Answer, Option<OwnedFd>), HelperError> {
        let gone = |error: std::io::Error| {
            HelperError(format!("the helper process does not answer: {error}; its last words may be in the log"))
        };
        let guard = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = || gone(std::io::Error::other("it has ended"));
        let socket = guard.as_ref().ok_or_else(ended)?;
        send(socket, request, None).map_err(gone)?;
        match receive(socket).map_err(gone)? {
            Some((Answer::Failed(why), _)) => Err(HelperError(why)),
            Some(answer) => Ok(answer),
            None => Err(ended()),
        }
    }
}

fn confused() -> HelperError {
    HelperError("the helper process answered another request: is it of another version than the router?".into())
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(error) = self.process.wait() {
            tracing::warn!("the helper process cannot be waited for: {error}");
        }
    }
}
