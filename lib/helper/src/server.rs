// SPDX-License-Identifier: MIT
//! The helper's side: serves one request after the other until the router is gone.
//!
//! ```text
//!  router ──requests──► helper ──changes of its state──► standby     if the helper dies: the router asks the standby, which
//!     └─────────────────────────────────────────────────────┘        knows how to restore everything, and has one made in turn
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};

use super::claims;
use super::end::remove;
use super::failure::Failure;
use super::kept;
use super::message::{AT_ONCE, Answer, PATIENCE, Request, SocketWanted, is_closed, ready, receive, send, together};
use super::reach::Reach;
use super::state::{Change, State};
use super::system::{Linux, System, inside, mistake};
use super::{twins, underlay};
use crate::files::Named;
use crate::privileges;
use perigee_net::Namespace;

mod many;

/// Serves the router at the other end of the standard input until it closes; then restores what was changed.
///
/// Of its capabilities it keeps those that `reach` takes; `named` knows which files a configuration names.
///
/// # Errors
/// The standard input is not a socket of [`super::Helper`], or the router sent something that is not a request.
pub fn serve_stdin(reach: Reach, named: Named) -> io::Result<()> {
    // Not stdin itself, whose buffer does not keep messages and descriptors apart.
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    privileges::keep_only(reach.capabilities())?;
    ignore_signals()?;
    let maker = claims::peer(&socket).ok().and_then(|(process, _)| Process::find(process));
    let mut server = Server::new(Linux, maker, named);
    let result = server.serve(&socket);
    server.restore(&socket);
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

/// A standby: its process, and the socket on which it hears of changes.
struct Standby {
    process: Child,
    socket: OwnedFd,
}

impl Standby {
    /// Ends it at once. It would take the end of its sockets for that of the router and of its helper, and restore
    /// everything.
    fn dismiss(mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}

/// A process, which no later one of its number is taken for.
pub(super) struct Process {
    number: u32,
    handle: OwnedFd,
}

impl Process {
    fn find(number: u32) -> Option<Process> {
        let handle = pidfd_open(Pid::from_raw(number.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
        Some(Process { number, handle })
    }
}

/// Tells a standby of changes.
fn send_all(standby: &OwnedFd, mut changes: &[Change]) -> io::Result<()> {
    while !changes.is_empty() {
        let part = together(changes);
        changes = &changes[part.len()..];
        send(standby, &part, None)?;
    }
    Ok(())
}

/// Changes the state, the standby's as well.
fn note_in(state: &mut State, standby: &mut Option<Standby>, changes: Vec<Change>) {
    if standby.as_ref().is_some_and(|standby| send_all(&standby.socket, &changes).is_err()) {
        // The router sees its end, too, and has another one made.
        standby.take().into_iter().for_each(Standby::dismiss);
    }
    changes.into_iter().for_each(|change| state.apply(change));
}

/// A helper. It is a standby while it has a predecessor.
pub(super) struct Server<S> {
    pub(super) system: S,
    pub(super) state: State,
    standby: Option<Standby>,
    predecessor: Option<OwnedFd>,
    /// Who made the socket to the router, until the first request: a standby's predecessor, else the router.
    maker: Option<Process>,
    router: Option<Process>,
    named: Named,
}

impl<S: System> Server<S> {
    pub(super) fn new(system: S, maker: Option<Process>, named: Named) -> Server<S> {
        Server { system, state: State::default(), standby: None, predecessor: None, maker, router: None, named }
    }

    /// Answers what comes until the other end is closed.
    pub(super) fn serve(&mut self, router: &OwnedFd) -> io::Result<()> {
        let mut first = true;
        loop {
            self.follow_predecessor(router)?;
            let Some((request, fd)) = receive::<Request>(router)? else { return Ok(()) };
            match (request, fd) {
                // From the helper that started this one; the router has not got its end of the socket yet.
                (Request::StandBy, Some(predecessor)) if first => self.predecessor = Some(predecessor),
                (request, _) => {
                    match first {
                        true => {
                            let maker = self.maker.take();
                            self.router_is(maker.map(|process| process.number));
                        }
                        false => self.take_over()?,
                    }
                    self.carry_out(request, router)?;
                }
            }
            first = false;
        }
    }

    /// Carries out a request, and answers it.
    fn carry_out(&mut self, request: Request, router: &OwnedFd) -> io::Result<()> {
        let answered = match (request.check(), request) {
            (Err(refusal), request) if request.is_for_many() => return many::say(router, Err(refusal)),
            (Err(refusal), _) => Err(refusal.failure),
            (Ok(()), Request::LinkMacs(names)) => return self.link_macs(&names, router),
            (Ok(()), Request::PrepareLinks(preparations)) => return self.prepare_links(preparations, router),
            (Ok(()), Request::MakeTwins(wanted)) => return self.make_twins(&wanted, router),
            (Ok(()), request) => self.answer(request),
        };
        let (answer, fd) = answered.unwrap_or_else(|failure| (Answer::Failed(failure.to_string()), None));
        // Dropping `fd` leaves the router's copy the only one.
        send(router, &answer, fd.as_ref().map(AsFd::as_fd))
    }

    /// Takes over the predecessor's changes until the router asks for something, or is gone.
    fn follow_predecessor(&mut self, router: &OwnedFd) -> io::Result<()> {
        while let Some(predecessor) = &self.predecessor {
            let mut fds = [predecessor, router].map(|fd| PollFd::new(fd, PollFlags::IN));
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            if fds[0].revents().is_empty() {
                return Ok(());
            }
            self.hear_predecessor()?;
        }
        Ok(())
    }

    /// Whoever asks a standby has nobody else to ask: the predecessor is dead, or does not answer, and must not wake up
    /// again. What it has still sent is taken over.
    fn take_over(&mut self) -> io::Result<()> {
        if self.predecessor.is_some() {
            self.end_predecessor();
        }
        while self.predecessor.is_some() {
            self.hear_predecessor()?;
        }
        // Its sockets are closed before the twins that it has not handed over: these are gone with the process.
        if let Some(predecessor) = self.maker.take() {
            ready(&predecessor.handle, PollFlags::IN, PATIENCE / 2)?;
        }
        Ok(())
    }

    fn end_predecessor(&self) {
        if let Some(predecessor) = &self.maker {
            let _ = pidfd_send_signal(&predecessor.handle, Signal::KILL); // it may have ended
        }
    }

    /// Hears the predecessor until its end; one that is silent for long is ended.
    fn hear_out_predecessor(&mut self) -> io::Result<()> {
        while let Some(predecessor) = &self.predecessor {
            if !ready(predecessor, PollFlags::IN, PATIENCE)? {
                tracing::warn!("the helper process has not restored anything for {PATIENCE:?}: its standby does it");
                return self.take_over();
            }
            self.hear_predecessor()?;
        }
        Ok(())
    }

    /// Waits for a change of the predecessor, or its end.
    fn hear_predecessor(&mut self) -> io::Result<()> {
        let Some(predecessor) = &self.predecessor else { return Ok(()) };
        let Some((changes, _)) = receive::<Vec<Change>>(predecessor)? else {
            self.predecessor = None;
            return Ok(());
        };
        for change in changes {
            match change {
                Change::Router(process) => self.router_is(Some(process)),
                change => self.state.apply(change),
            }
        }
        Ok(())
    }

    fn router_is(&mut self, process: Option<u32>) {
        self.router = process.and_then(Process::find);
        process.into_iter().for_each(|process| self.note(Change::Router(process)));
    }

    /// Changes the state, the standby's as well.
    fn note(&mut self, change: Change) {
        self.note_all(vec![change]);
    }

    /// Several changes, in as few messages as they fit into.
    fn note_all(&mut self, changes: Vec<Change>) {
        note_in(&mut self.state, &mut self.standby, changes);
    }

    /// Notes an interface's name, unless the router may not name it.
    fn name(&mut self, namespace: Option<&Namespace>, name: &str) -> Result<(), Failure> {
        let named = self.named(namespace, name)?;
        self.note(named);
        Ok(())
    }

    fn named(&self, namespace: Option<&Namespace>, name: &str) -> Result<Change, Failure> {
        match self.state.may_name(namespace, name) {
            true => Ok(Change::Named(namespace.cloned(), name.to_owned())),
            false => Err(format!("{name} was not one of the router's interfaces when it started").into()),
        }
    }

    /// Refuses what happens in a namespace that the router has had nothing to do with before it was started: whoever
    /// has taken it over must not have any file opened that it names.
    fn enters(&mut self, namespace: Option<&Namespace>) -> Result<(), Failure> {
        match namespace {
            Some(namespace) if !self.state.may_enter(namespace) => {
                Err(format!("{namespace} was not the router's network namespace when it started").into())
            }
            Some(namespace) if !self.state.started => {
                self.note(Change::Entered(namespace.clone()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, request: Request) -> Result<(Answer, Option<OwnedFd>), Failure> {
        let done = Ok((Answer::Done, None));
        let namespace = match &request {
            Request::MakeVlan { wanted, .. } => &wanted.namespace,
            Request::ChangeLink(change) => &change.namespace,
            Request::OpenSocket { namespace, .. } | Request::ChangeNeighbors { namespace, .. } => namespace,
            _ => &None,
        };
        self.enters(namespace.as_ref())?;
        match request {
            Request::RemoveAtEnd(_)
            | Request::Configuration(_)
            | Request::Follow(_)
            | Request::Inherit { .. }
            | Request::OpenSocket { socket: SocketWanted::Listener(_), .. }
                if self.state.started =>
            {
                Err("files, listeners and interfaces are named before the start".to_owned().into())
            }
            Request::Configuration(path) => {
                self.note(Change::Configuration(path));
                done
            }
            Request::OpenFile(path) => {
                let file = self.system.open_file(&path, self.state.configuration.as_deref(), self.named)?;
                Ok((Answer::File, Some(file)))
            }
            Request::RemoveAtEnd(paths) => {
                for path in paths {
                    // A router that comes later may make another one of this name.
                    let identity = self.system.identity(&path);
                    self.note(Change::Remove(path, identity));
                }
                done
            }
            Request::Started => {
                self.note(Change::Started);
                done
            }
            Request::Standby => Ok((Answer::Socket, Some(self.start_standby()?))),
            Request::StandBy => Err("this helper is no standby".to_owned().into()),
            Request::LinkMacs(_) | Request::PrepareLinks(_) | Request::MakeTwins(_) => {
                Err("each of many is answered by itself".to_owned().into())
            }
            Request::ChangeLink(change) => {
                let namespace = change.namespace.clone();
                let changeable = self.state.changeable(namespace.as_ref());
                let deleted = self.system.change(change, changeable)?;
                deleted.into_iter().for_each(|link| self.note(Change::Deleted(namespace.clone(), link)));
                done
            }
            Request::OpenSocket { socket, namespace } => {
                let fd = self.system.open_socket(socket, namespace.as_ref())?;
                Ok((Answer::Socket, Some(fd)))
            }
            Request::ChangeNeighbors { neighbors, namespace } => {
                let changeable = self.state.changeable(namespace.as_ref());
                self.system.change_neighbors(neighbors, namespace.as_ref(), changeable)?;
                done
            }
            Request::Inherit { file, keep } => {
                let left = self.system.take_kept(&file);
                let mut changes: Vec<_> = left.iter().flatten().cloned().map(Change::Preparing).collect();
                changes.extend(left.map(|_| Change::Inherited(file.clone())));
                changes.extend(keep.then_some(Change::Kept(file)));
                self.note_all(changes);
                done
            }
            Request::Follow(interfaces) => {
                interfaces.into_iter().for_each(|name| self.note(Change::Followed(name)));
                done
            }
            Request::ConfirmNeighbors(neighbors) => {
                self.system.confirm_neighbors(neighbors, self.state.followed.clone())?;
                done
            }
            Request::MakeVlan { on, vlan, wanted } => {
                let namespace = wanted.namespace.clone();
                if !self.state.may_name_vlan(namespace.as_ref(), &wanted.name, vlan) {
                    self.name(namespace.as_ref(), &wanted.name)?;
                }
                let name = wanted.name.clone();
                let changeable = self.state.changeable(namespace.as_ref());
                let link = self.system.make_vlan(on, vlan, wanted, changeable)?;
                self.note(Change::Link(namespace, name, link));
                done
            }
        }
    }

    /// Starts a standby that knows what this helper knows; returns the router's end of its socket.
    fn start_standby(&mut self) -> Result<OwnedFd, Failure> {
        let failed = |error: io::Error| Failure::from(error).of("cannot start a standby of the helper process");
        let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (routers, input) = pair().map_err(|error| failed(error.into()))?;
        let (socket, others) = pair().map_err(|error| failed(error.into()))?;
        // The one before is dead, or the router could not take its socket.
        self.standby.take().into_iter().for_each(Standby::dismiss);
        let process = self.system.start_standby(input).map_err(failed)?;
        let standby = Standby { process, socket };
        let told = send(&routers, &Request::StandBy, Some(others.as_fd()));
        if let Err(error) = told.and_then(|()| send_all(&standby.socket, &self.state.changes())) {
            standby.dismiss();
            return Err(failed(error));
        }
        self.standby = Some(standby);
        Ok(routers)
    }
}

impl Server<Linux> {
    /// Restores the prepared interfaces, the last one first, and removes what the router could not.
    fn restore(&mut self, router: &OwnedFd) {
        // A standby leaves it to its predecessor, if that one lives to do it.
        let heard = self.hear_out_predecessor();
        if let Err(error) = heard {
            tracing::warn!("the helper's standby does not understand the helper: {error}");
        }
        if self.state.restored {
            return;
        }
        let kept = if is_closed(router) { self.state.kept.clone() } else { None };
        // A start that fails leaves what forwards on as it was.
        let inherited = self.state.inherited.clone().filter(|_| !self.state.started);
        let stays = kept.or(inherited).is_some_and(|file| self.keep(&file));
        while !self.state.undo.is_empty() {
            self.restore_some(router);
        }
        // One that ends in order keeps its socket until everything is restored.
        let was_killed = is_closed(router);
        self.wait_for_the_routers_end(router);
        for (path, identity) in std::mem::take(&mut self.state.remove) {
            remove(&path, identity);
        }
        self.remove_twins(router);
        self.note(Change::Restored);
        if let Some(mut standby) = self.standby.take() {
            drop(standby.socket);
            let _ = standby.process.try_wait();
        }
        // The kernel kills a thread that has blocked the signal of its crash, and the router logs nothing. Last, because
        // the log may have no reader.
        if was_killed {
            match stays {
                true => tracing::warn!(
                    "the router was killed or has ended by force: the in-kernel plane forwards on by its last tables until a \
                     router of this name is started"
                ),
                false => tracing::warn!("the router was killed or has ended by force: its interfaces are restored"),
            }
        }
    }

    /// Leaves interfaces prepared for the in-kernel plane, which forwards there without its router. Returns whether the
    /// file could be written.
    fn keep(&mut self, file: &Path) -> bool {
        match kept::write(file, &self.state.undo) {
            Ok(()) => {
                self.state.undo.clear();
                self.state.remove.retain(|(path, _)| !path.starts_with(kept::PROGRAMS));
                true
            }
            Err(error) => {
                tracing::warn!("cannot write {}: {error}; the interfaces are restored", file.display());
                false
            }
        }
    }

    /// Restores the last interfaces that are still prepared.
    fn restore_some(&mut self, router: &OwnedFd) {
        let undo: Vec<_> = self.state.undo.iter().rev().take(AT_ONCE).cloned().collect();
        let mut left = undo.iter();
        let mut done = |result: Result<(), Failure>| {
            if let Err(error) = result {
                tracing::warn!("{error}");
            }
            left.next().into_iter().for_each(|undo| self.note(Change::NotPrepared(undo.index())));
            lives(router);
        };
        let all = std::panic::catch_unwind(AssertUnwindSafe(|| underlay::restore(&undo, &mut done)));
        // None of these is tried twice.
        match all {
            Ok(Ok(())) => {}
            Ok(Err(error)) => done(Err(error)),
            Err(_) => done(Err(mistake())),
        }
    }

    /// A router that was killed closes this socket before others, and what it had claimed is free only when it has none
    /// left. One that ends in order waits for the helper instead.
    fn wait_for_the_routers_end(&mut self, router: &OwnedFd) {
        let begin = Instant::now();
        while let Some(process) = self.router.as_ref().filter(|_| is_closed(router) && begin.elapsed() < LONGEST_END) {
            if ready(&process.handle, PollFlags::IN, Duration::from_secs(1)).unwrap_or(true) {
                return;
            }
            self.note(Change::Lives);
        }
    }
}

/// Twins that are removed at once, without a sign of life: it takes a second where one by one would take ten.
const TOGETHER: usize = 128;

/// How long a killed router may take to close its sockets: the kernel does it one after the other, 20 to 40 ms each.
const LONGEST_END: Duration = Duration::from_secs(120);

impl Server<Linux> {
    /// Removes the twins. Those of a router that was killed have vanished with it; one that ends in order keeps them
    /// until this is done.
    fn remove_twins(&mut self, router: &OwnedFd) {
        for (namespace, links) in self.state.links() {
            for links in links.chunks(TOGETHER).map(<[_]>::to_vec) {
                if let Err(error) = inside(namespace.as_ref(), move || twins::remove(&links)) {
                    // A namespace that is gone has taken them along.
                    tracing::debug!("{error}");
                }
                self.note(Change::Lives);
                lives(router);
            }
        }
    }
}

/// A sign of life for a router that waits for the end.
fn lives(router: &OwnedFd) {
    if ready(router, PollFlags::OUT, Duration::ZERO).is_ok_and(|ready| ready) {
        let _ = send(router, &Answer::Done, None); // it may be gone
    }
}
