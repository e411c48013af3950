// SPDX-License-Identifier: MIT
//! The router's side of the helper.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::message::{
    Answer, LinkChange, LinkPreparation, NeighborChange, PATIENCE, Request, SocketWanted, TwinStatus, TwinWanted,
    is_closed, ready, receive, send,
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
pub struct HelperError(pub(crate) String);

/// A running helper, and its standby. When dropped, the helper restores what it changed and ends; this waits for it.
#[derive(Debug)]
pub struct Helper {
    /// One request at a time.
    sockets: Mutex<Sockets>,
}

#[derive(Debug)]
struct Sockets {
    /// Closed first, which is what ends the process.
    helper: Option<Line>,
    standby: Option<Line>,
    /// Those of helpers that did not answer, and that were not seen to end: with the socket closed, they would take the router for dead.
    silent: Vec<Line>,
    /// The first one, while it lives; the others are their predecessors' children.
    process: Option<Child>,
    deaths: u64,
    standby_deaths: u64,
}

/// A socket to a helper.
#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    /// Answers that may still come, to requests that were given up.
    owed: u32,
    /// How long one request may take.
    patience: Duration,
}

/// What came of a request.
enum Exchange {
    Answer(Answer, Option<OwnedFd>),
    Dead,
    /// There was no answer in time.
    Silent,
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
        Ok(Self { sockets: Mutex::new(Sockets::new(own, process)) })
    }

    /// How the helper is, and puts the standby in its place if it has died. Never waits: `None` while a request is under way.
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

    /// Names the router's configuration: this file, and those that it names whenever it is asked, are opened for the router.
    ///
    /// # Errors
    /// The helper is gone, or it was [told](Self::started) that the router has started.
    pub fn configuration(&self, path: &Path) -> Result<(), HelperError> {
        self.done(&Request::Configuration(path.to_owned()))
    }

    /// Opens a file of the router's configuration, to be read.
    ///
    /// # Errors
    /// It is none of the configuration's, it is no regular file, the system refuses it or does not answer, or the helper is gone.
    pub fn open_file(&self, path: &Path) -> Result<File, HelperError> {
        match self.ask(&Request::OpenFile(path.to_owned()))? {
            (Answer::File, Some(fd)) => Ok(fd.into()),
            _ => Err(confused()),
        }
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
    fn new(helper: OwnedFd, process: Child) -> Sockets {
        let (helper, process) = (Some(Line::new(helper)), Some(process));
        Sockets { helper, standby: None, silent: Vec::new(), process, deaths: 0, standby_deaths: 0 }
    }

    fn ask(&mut self, request: &Request) -> Result<(Answer, Option<OwnedFd>), HelperError> {
        if self.helper.as_ref().is_some_and(Line::is_closed) {
            self.replace();
        }
        loop {
            let ended = || HelperError("the helper process has ended: Linux is not changed any more".to_owned());
            let helper = self.helper.as_mut().ok_or_else(ended)?;
            let patience = helper.patience;
            match helper.exchange(request) {
                Ok(Exchange::Answer(Answer::Failed(why), _)) => return Err(HelperError(why)),
                Ok(Exchange::Answer(answer, fd)) => {
                    self.silent.retain(|line| !line.is_closed());
                    return Ok((answer, fd));
                }
                // What one helper has hung on, or died of, must not take the other one as well.
                Ok(Exchange::Dead) if is_hazardous(request) => {
                    self.replace();
                    return Err(HelperError("the helper process has ended meanwhile; try again".to_owned()));
                }
                Ok(Exchange::Silent) if is_hazardous(request) => {
                    return Err(HelperError(format!(
                        "the helper process has not answered for {patience:?}; try again"
                    )));
                }
                // The standby carries out what this one has not, or not wholly.
                Ok(Exchange::Dead) => self.replace(),
                Ok(Exchange::Silent) if self.standby.is_some() => {
                    tracing::warn!(
                        "the helper process has not answered for {patience:?}: it is ended by its standby, which takes its place"
                    );
                    // It is closed once the other one has ended.
                    self.silent.extend(self.helper.take());
                    self.replace();
                }
                Ok(Exchange::Silent) => {
                    return Err(HelperError(format!(
                        "the helper process has not answered for {patience:?}, and there is no standby: is it stopped? \
                         `pgrep -f 'perigee helper'` finds it, `kill -CONT` lets it go on"
                    )));
                }
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
        HelperHealth {
            alive: self.helper.is_some(),
            answers: self.helper.as_ref().is_some_and(|helper| helper.owed == 0),
            standby: self.standby.is_some(),
            deaths: self.deaths,
            standby_deaths: self.standby_deaths,
        }
    }
}

impl Line {
    fn new(socket: OwnedFd) -> Line {
        Line { socket, owed: 0, patience: PATIENCE }
    }

    /// A request and its answer. Where an earlier one is still open, this one is not waited for.
    fn exchange(&mut self, request: &Request) -> std::io::Result<Exchange> {
        let dead = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset)
        };
        match self.try_exchange(request) {
            Err(error) if dead(&error) => Ok(Exchange::Dead),
            result => result,
        }
    }

    fn try_exchange(&mut self, request: &Request) -> std::io::Result<Exchange> {
        if !self.catch_up()? || !ready(&self.socket, PollFlags::OUT, self.patience)? {
            return Ok(if self.is_closed() { Exchange::Dead } else { Exchange::Silent });
        }
        send(&self.socket, request, None)?;
        if !ready(&self.socket, PollFlags::IN, self.patience)? {
            self.owed += 1;
            return Ok(Exchange::Silent);
        }
        Ok(receive(&self.socket)?.map_or(Exchange::Dead, |(answer, fd)| Exchange::Answer(answer, fd)))
    }

    /// Takes answers that have come late; returns whether none is owed.
    fn catch_up(&mut self) -> std::io::Result<bool> {
        while self.owed > 0 && ready(&self.socket, PollFlags::IN, Duration::ZERO)? {
            if receive::<Answer>(&self.socket)?.is_none() {
                return Ok(false);
            }
            self.owed -= 1;
        }
        Ok(self.owed == 0)
    }

    /// Whether nobody is at the other end any more.
    fn is_closed(&self) -> bool {
        is_closed(&self.socket)
    }

    /// Tells the helper that it hears no more, and waits until it has restored everything, however long that takes while it shows that it
    /// goes on within some `times` its patience; returns whether it has.
    fn finish(&self, times: u32) -> bool {
        if rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).is_err() {
            return true;
        }
        while ready(&self.socket, PollFlags::IN, self.patience * times).unwrap_or(true) {
            if !matches!(receive::<Answer>(&self.socket), Ok(Some(_))) {
                return true;
            }
        }
        false
    }
}

/// Whether what is asked for depends on more than Linux and the helper: on a file system, which may not answer.
fn is_hazardous(request: &Request) -> bool {
    matches!(request, Request::OpenFile(_))
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
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

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
            let mut sockets = Sockets::new(own, process);
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

    /// The slow path saw that the helper was dead before the helper thread had kept the standby's socket: there was a standby, and
    /// nobody to ask.
    #[test]
    fn a_standby_takes_the_place_of_a_helper_that_dies_as_soon_as_it_has_answered() {
        for _ in 0..200 {
            let ((own, other), (standby, end_of_standby)) = (pair(), pair());
            let mut process = Command::new("true").spawn().unwrap();
            // A program's copies of the sockets are closed a moment after it was started.
            process.wait().unwrap();
            let helper = Helper { sockets: Mutex::new(Sockets::new(own, process)) };
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
            let health = HelperHealth { alive: true, answers: true, standby: false, deaths: 1, standby_deaths: 0 };
            assert_eq!(helper.look(), Some(health));
            // Else the helper waits for it to restore everything.
            drop(end_of_standby);
        }
    }
}
