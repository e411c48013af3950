// SPDX-License-Identifier: MIT
//! The router's side of the helper.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Serialize;

use super::message::{
    Answer, LinkChange, LinkPreparation, NeighborChange, Request, SocketWanted, TwinStatus, TwinWanted, together,
};
use crate::NetlinkSockets;
use crate::reach::Reach;
use crate::twin::Twin;
use perigee_net::{MacAddr, Namespace};

mod sockets;

use sockets::{Line, Sockets};

/// Most neighbors in one request: far below the longest message.
const MOST_NEIGHBORS: usize = 500;

/// Why the helper did not carry out a request: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HelperError(pub(crate) String);

/// Why the helper did not do something with one of many: its place among them. What it did with those before is undone
/// at its end.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// The place, from 0.
    pub at: usize,
    /// Why.
    pub error: HelperError,
}

/// A running helper, and its standby. When dropped, the helper restores what it changed and ends; this waits for it.
#[derive(Debug)]
pub struct Helper {
    /// One request at a time.
    sockets: Mutex<Sockets>,
}

/// How the helper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperHealth {
    /// Whether there is one to ask.
    pub alive: bool,
    /// Whether it answers: it has not left a request open.
    pub answers: bool,
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
        Ok(Self { sockets: Mutex::new(Sockets::new(own, Some(process))) })
    }

    /// A helper at the other end of a socket that is no child of this process.
    pub(super) fn at(socket: OwnedFd) -> Self {
        Self { sockets: Mutex::new(Sockets::new(socket, None)) }
    }

    /// How the helper is, and puts the standby in its place if it has died. Never waits: `None` while a request is
    /// under way.
    pub fn look(&self) -> Option<HelperHealth> {
        let mut sockets = self.sockets.try_lock().ok()?;
        if sockets.helper.as_ref().is_some_and(Line::is_closed) {
            sockets.replace();
        }
        let gone = sockets.standby.take_if(|standby| standby.is_closed()).is_some();
        sockets.standby_deaths += u64::from(gone);
        sockets.silent.retain(|line| !line.is_closed());
        // A child that has died stays in the list of processes until it is asked for.
        if sockets.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(Some(_)))) {
            sockets.process = None;
        }
        if let Some(helper) = &mut sockets.helper {
            let _ = helper.catch_up();
        }
        Some(sockets.health())
    }

    /// Has a standby started, if there is none: it takes over when the helper dies, and knows how to restore
    /// everything.
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
                // Under the same lock as the request: a helper that died in between would have nobody to take its
                // place.
                sockets.standby = Some(Line::new(fd));
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
        let mut made = self.make_twins(std::slice::from_ref(wanted)).map_err(|refused| refused.error)?;
        made.pop().ok_or_else(confused)
    }

    /// Makes twins.
    ///
    /// # Errors
    /// One cannot be made; nothing of any is left.
    pub fn make_twins(&self, wanted: &[TwinWanted]) -> Result<Vec<(Twin, TwinStatus)>, Refused> {
        self.each(wanted, Request::MakeTwins, |wanted, answer| match answer {
            (Answer::Twin(status), Some(fd)) => {
                let failed = |error| HelperError(format!("cannot use the twin `{}`: {error}", wanted.name));
                Ok((Twin::new(fd).map_err(failed)?, status))
            }
            _ => Err(confused()),
        })
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
        self.prepare_links(std::slice::from_ref(preparation)).map_err(|refused| refused.error)
    }

    /// Makes Linux interfaces ready to carry ports. They are restored when the helper ends.
    ///
    /// # Errors
    /// The kernel refuses one, or there is no such interface.
    pub fn prepare_links(&self, preparations: &[LinkPreparation]) -> Result<(), Refused> {
        let done = |_: &LinkPreparation, answer| match answer {
            (Answer::Done, _) => Ok(()),
            _ => Err(confused()),
        };
        self.each(preparations, Request::PrepareLinks, done).map(drop)
    }

    /// The MAC addresses of interfaces in the router's namespace.
    ///
    /// # Errors
    /// There is none of a name, or the helper is gone.
    pub fn link_macs(&self, names: &[String]) -> Result<Vec<MacAddr>, Refused> {
        self.each(names, Request::LinkMacs, |_, answer| match answer {
            (Answer::Mac(mac), _) => Ok(mac),
            _ => Err(confused()),
        })
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

    /// Names interfaces of Linux that are ports and stay Linux's.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn follow(&self, interfaces: Vec<String>) -> Result<(), HelperError> {
        self.done(&Request::Follow(interfaces))
    }

    /// Has Linux ask neighbors whether they are still there, as it does before it sends to them: on interfaces that it
    /// was told to [follow](Self::follow), and VLANs on them.
    ///
    /// # Errors
    /// One is on another interface, or the kernel refuses it; the others are still asked.
    pub fn confirm_neighbors(&self, neighbors: &[(u32, IpAddr)]) -> Result<(), HelperError> {
        let mut result = Ok(());
        for neighbors in neighbors.chunks(MOST_NEIGHBORS) {
            result = result.and(self.done(&Request::ConfirmNeighbors(neighbors.to_vec())));
        }
        result
    }

    /// Makes a VLAN interface on a twin, so that Linux sees the port's VLAN as the router does. It vanishes with the
    /// twin.
    ///
    /// # Errors
    /// The kernel has no VLAN interfaces, or refuses this one.
    pub fn make_vlan(&self, on: &str, vlan: u16, wanted: &TwinWanted) -> Result<(), HelperError> {
        self.done(&Request::MakeVlan { on: on.to_owned(), vlan, wanted: wanted.clone() })
    }

    /// Takes over how to restore interfaces that a router has left prepared when it was killed, from a file, which is
    /// removed. With `keep`, a kill of this router leaves its interfaces prepared, and such a file.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn inherit(&self, file: &Path, keep: bool) -> Result<(), HelperError> {
        self.done(&Request::Inherit { file: file.to_owned(), keep })
    }

    /// Removes files and empty folders when the router has ended, which is another user then.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn remove_at_end(&self, paths: Vec<PathBuf>) -> Result<(), HelperError> {
        self.done(&Request::RemoveAtEnd(paths))
    }

    /// Names the router's configuration: this file, and those that it names whenever it is asked, are opened for the
    /// router.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn configuration(&self, path: &Path) -> Result<(), HelperError> {
        self.done(&Request::Configuration(path.to_owned()))
    }

    /// Opens a file of the router's configuration, to be read.
    ///
    /// # Errors
    /// It is none of the configuration's, it is no regular file, the system refuses it or does not answer, or the
    /// helper is gone.
    pub fn open_file(&self, path: &Path) -> Result<File, HelperError> {
        match self.ask(&Request::OpenFile(path.to_owned()))? {
            (Answer::File, Some(fd)) => Ok(fd.into()),
            _ => Err(confused()),
        }
    }

    /// The router has started: the helper makes no twin, prepares no interface and removes no file that it has not
    /// heard of.
    ///
    /// # Errors
    /// The helper is gone.
    pub fn started(&self) -> Result<(), HelperError> {
        self.done(&Request::Started)
    }

    /// Asks for many, as many at a time as fit into a request. What one helper has not answered is asked for at the
    /// next one.
    fn each<T: Clone + Serialize, R>(
        &self,
        all: &[T],
        request: impl Fn(Vec<T>) -> Request,
        take: impl Fn(&T, (Answer, Option<OwnedFd>)) -> Result<R, HelperError>,
    ) -> Result<Vec<R>, Refused> {
        let mut done = Vec::with_capacity(all.len());
        while done.len() < all.len() {
            let from = done.len();
            let part = together(&all[from..]);
            let answers = self.sockets().ask_for(&request(part.to_vec()), part.len());
            for answer in answers.map_err(|error| Refused { at: from, error })? {
                let at = done.len();
                if let (Answer::Refused(of_part, why), _) = answer {
                    return Err(Refused { at: from + of_part, error: HelperError(why) });
                }
                let item = all.get(at).ok_or_else(|| Refused { at: from, error: confused() })?;
                done.push(take(item, answer).map_err(|error| Refused { at, error })?);
            }
        }
        Ok(done)
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

fn confused() -> HelperError {
    HelperError("the helper process answered another request: is it of another version than the router?".into())
}

impl Drop for Helper {
    fn drop(&mut self) {
        let sockets = self.sockets.get_mut().unwrap_or_else(PoisonError::into_inner);
        if sockets.helper.as_ref().is_some_and(Line::is_closed) {
            sockets.replace();
        }
        // The standby restores everything if the helper does not.
        let mut lines = [sockets.helper.take(), sockets.standby.take()].into_iter().flatten().peekable();
        let is_any = lines.peek().is_some();
        // It waits for the helper's word as long as this does.
        let restored = lines.zip([1, 3]).any(|(line, patience)| line.finish(patience));
        if is_any && !restored {
            tracing::error!(
                "neither the helper process nor a standby answers: the interfaces under the ports are not restored"
            );
        }
        let Some(process) = &mut sockets.process else { return };
        let ended = match restored {
            true => process.wait().map(drop),
            false => process.try_wait().map(drop),
        };
        if let Err(error) = ended {
            tracing::warn!("the helper process cannot be waited for: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ready, receive, send};
    use rustix::event::PollFlags;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// A file system that did not answer took the helper, and then the standby, which was asked the same.
    #[test]
    fn a_file_that_a_helper_does_not_open_is_not_asked_for_at_the_standby() {
        for dies in [false, true] {
            let ((own, other), (standby, end_of_standby)) = (pair(), pair());
            let mut process = Command::new("true").spawn().unwrap();
            process.wait().unwrap();
            let mut sockets = Sockets::new(own, Some(process));
            sockets.standby = Some(Line::new(standby));
            sockets.helper.iter_mut().for_each(|line| line.patience = Duration::from_millis(10));
            let helper = Helper { sockets: Mutex::new(sockets) };
            let silent = std::thread::scope(|scope| {
                let silent = scope.spawn(move || {
                    receive::<Request>(&other).unwrap();
                    (!dies).then_some(other)
                });
                let refused = helper.open_file(Path::new("/net/file")).unwrap_err().to_string();
                assert!(refused.ends_with("; try again"), "{refused}");
                silent.join().unwrap()
            });
            assert!(!ready(&end_of_standby, PollFlags::IN, Duration::ZERO).unwrap(), "the standby was asked");
            assert_eq!(helper.look().unwrap().deaths, u64::from(dies));
            drop((silent, end_of_standby));
        }
    }

    /// The slow path saw that the helper was dead before the helper thread had kept the standby's socket: there was a
    /// standby, and nobody to ask.
    #[test]
    fn a_standby_takes_the_place_of_a_helper_that_dies_as_soon_as_it_has_answered() {
        for _ in 0..200 {
            let ((own, other), (standby, end_of_standby)) = (pair(), pair());
            let mut process = Command::new("true").spawn().unwrap();
            // A program's copies of the sockets are closed a moment after it was started.
            process.wait().unwrap();
            let helper = Helper { sockets: Mutex::new(Sockets::new(own, Some(process))) };
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
            // The end of the helper's socket is seen once programs that other tests start have closed their copies.
            let start = Instant::now();
            while helper.look().unwrap().deaths == 0 {
                assert!(start.elapsed() < Duration::from_secs(60), "the helper has died");
            }
            let health = HelperHealth { alive: true, answers: true, standby: false, deaths: 1, standby_deaths: 0 };
            assert_eq!(helper.look(), Some(health));
            // Else the helper waits for it to restore everything.
            drop(end_of_standby);
        }
    }
}
