// SPDX-License-Identifier: MIT
//! The router's side of the helper.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::message::{
    Answer, LinkChange, LinkPreparation, NeighborChange, Request, SocketWanted, TwinStatus, TwinWanted, receive, send,
};
use crate::NetlinkSockets;
use crate::reach::Reach;
use crate::twin::Twin;
use perigee_net::{MacAddr, Namespace};

/// Most neighbors in one request: far below the longest message.
const MOST_NEIGHBORS: usize = 500;

/// Why the helper did not carry out a request: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HelperError(String);

/// A running helper, and its standby. When dropped, the helper restores what it changed and ends; this waits for it.
#[derive(Debug)]
pub struct Helper {
    /// One request at a time.
    sockets: Mutex<Sockets>,
    /// The first one; the others are their predecessors' children.
    process: Child,
}

#[derive(Debug)]
struct Sockets {
    /// Closed first, which is what ends the process.
    helper: Option<OwnedFd>,
    standby: Option<OwnedFd>,
    deaths: u64,
    standby_deaths: u64,
}

/// How the helper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperHealth {
    /// Whether there is one to ask.
    pub alive: bool,
    /// Whether another one stands by.
    pub standby: bool,
    /// How many helpers have died.
    pub deaths: u64,
    /// How many have died while they stood by.
    pub standby_deaths: u64,
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
        let sockets = Sockets { helper: Some(own), standby: None, deaths: 0, standby_deaths: 0 };
        Ok(Self { sockets: Mutex::new(sockets), process })
    }

    /// How the helper is, and puts the standby in its place if it has died. Never waits: `None` while a request is under way.
    pub fn look(&self) -> Option<HelperHealth> {
        let mut sockets = self.sockets.try_lock().ok()?;
        if sockets.helper.as_ref().is_some_and(is_closed) {
            sockets.replace();
        }
        let gone = sockets.standby.take_if(|standby| is_closed(standby)).is_some();
        sockets.standby_deaths += u64::from(gone);
        Some(sockets.health())
    }

    /// Has a standby started, if there is none: it takes over when the helper dies, and knows how to restore everything.
    ///
    /// # Errors
    /// The helper is gone, or it cannot be started.
    pub fn stand_by(&self) -> Result<(), HelperError> {
        let mut sockets = self.sockets();
        if sockets.standby.is_some() {
            return Ok(());
        }
        match sockets.ask(&Request::Standby)? {
            (Answer::Socket, Some(fd)) => {
                // Under the same lock as the request: a helper that died in between would have nobody to take its place.
                sockets.standby = Some(fd);
                Ok(())
            }
            _ => Err(confused()),
        }
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

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &Request) -> Result<(Answer, Option<OwnedFd>), HelperError> {
        self.sockets().ask(request)
    }
}

impl Sockets {
    fn ask(&mut self, request: &Request) -> Result<(Answer, Option<OwnedFd>), HelperError> {
        loop {
            let ended = || HelperError("the helper process has ended: Linux is not changed any more".to_owned());
            let socket = self.helper.as_ref().ok_or_else(ended)?;
            match exchange(socket, request) {
                Ok(Some((Answer::Failed(why), _))) => return Err(HelperError(why)),
                Ok(Some(answer)) => return Ok(answer),
                // The standby carries out what this one has not, or not wholly.
                Ok(None) => self.replace(),
                Err(error) => return Err(HelperError(format!("the helper process does not answer: {error}"))),
            }
        }
    }

    /// The helper has died: the standby takes its place.
    fn replace(&mut self) {
        self.helper = self.standby.take();
        self.deaths += 1;
    }

    fn health(&self) -> HelperHealth {
        let (alive, standby) = (self.helper.is_some(), self.standby.is_some());
        HelperHealth { alive, standby, deaths: self.deaths, standby_deaths: self.standby_deaths }
    }
}

/// A request and its answer; `None` if the helper is dead.
fn exchange(socket: &OwnedFd, request: &Request) -> std::io::Result<Option<(Answer, Option<OwnedFd>)>> {
    let dead = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset)
    };
    match send(socket, request, None).and_then(|()| receive(socket)) {
        Err(error) if dead(&error) => Ok(None),
        result => result,
    }
}

/// Whether nobody is at the other end any more.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn confused() -> HelperError {
    HelperError("the helper process answered another request: is it of another version than the router?".into())
}

impl Drop for Helper {
    fn drop(&mut self) {
        let sockets = self.sockets.get_mut().unwrap_or_else(PoisonError::into_inner);
        if sockets.helper.as_ref().is_some_and(is_closed) {
            sockets.replace();
        }
        // It ends when it hears no more, and its end of the socket is closed when everything is restored.
        if let Some(helper) = sockets.helper.take()
            && rustix::net::shutdown(&helper, rustix::net::Shutdown::Write).is_ok()
        {
            while let Ok(Some(_)) = receive::<Answer>(&helper) {}
        }
        sockets.standby = None;
        if let Err(error) = self.process.wait() {
            tracing::warn!("the helper process cannot be waited for: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The slow path saw that the helper was dead before the helper thread had kept the standby's socket: there was a standby, and
    /// nobody to ask.
    #[test]
    fn a_standby_takes_the_place_of_a_helper_that_dies_as_soon_as_it_has_answered() {
        for _ in 0..200 {
            let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
            let ((own, other), (standby, end_of_standby)) = (pair(), pair());
            let sockets = Sockets { helper: Some(own), standby: None, deaths: 0, standby_deaths: 0 };
            let mut process = Command::new("true").spawn().unwrap();
            // A program's copies of the sockets are closed a moment after it was started.
            process.wait().unwrap();
            let helper = Helper { sockets: Mutex::new(sockets), process };
            let asked = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    receive::<Request>(&other).unwrap();
                    send(&other, &Answer::Socket, Some(standby.as_fd())).unwrap();
                });
                scope.spawn(|| {
                    while !asked.load(Ordering::Relaxed) {
                        helper.look();
                    }
                });
                let answer = helper.stand_by();
                asked.store(true, Ordering::Relaxed);
                answer.unwrap();
            });
            let health = HelperHealth { alive: true, standby: false, deaths: 1, standby_deaths: 0 };
            assert_eq!(helper.look(), Some(health));
            // Else the helper waits for it to restore everything.
            drop(end_of_standby);
        }
    }
}
