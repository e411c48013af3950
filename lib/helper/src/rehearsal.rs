// SPDX-License-Identifier: MIT
//! A helper whose system is pretended: what it decides, without what it does. For the target `helper` of tests/fuzz,
//! and for tests of what asks a helper: there it is a thread, whose router has a [`Helper`] as any other.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, shutdown, socketpair};
use serde_json::Value;

use super::message::{receive, together};
use super::server::Server;
use super::state::{Change, State};
use crate::client::Helper;
use crate::files::Named;

pub use super::failure::{Failure, Refusal};
pub use super::system::{Changeable, Each, System};
pub use super::underlay::Undo;

/// A helper.
pub struct Rehearsal<S>(Server<S>);

/// The router's side of a helper that [serves](serve) the other end of this socket.
pub fn helper(socket: OwnedFd) -> Helper {
    Helper::at(socket)
}

/// A helper or a standby that is a thread: it ends with its socket to the router. Nothing is restored.
pub fn serve<S: System + Send + 'static>(system: S, named: Named, router: OwnedFd) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let served = Server::new(system, None, named).serve(&router);
        // As the end of a process does, whoever has a copy of it.
        shutdown(&router, Shutdown::Both)?;
        served
    })
}

/// What came of a message.
#[derive(Debug)]
pub enum Heard {
    /// Its answers, one for each of many, and the descriptors with them.
    Answers(Vec<(Value, Option<OwnedFd>)>),
    /// It was no request: the helper ends.
    NoRequest(io::Error),
}

impl<S: System> Rehearsal<S> {
    /// A helper that knows of nothing.
    pub fn new(system: S, named: Named) -> Rehearsal<S> {
        Rehearsal(Server::new(system, None, named))
    }

    /// Its system.
    pub fn system(&mut self) -> &mut S {
        &mut self.0.system
    }

    /// Sends it one message, as the router does.
    ///
    /// # Errors
    /// The helper has ended without a reason that is in the message, or the system has no socket.
    pub fn hear(&mut self, message: &[u8]) -> io::Result<Heard> {
        let (router, helper) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        send(&router, message, SendFlags::NOSIGNAL)?;
        shutdown(&router, Shutdown::Write)?;
        // More answers may come than the socket has room for.
        let (served, answers) = thread::scope(|scope| {
            let answers = scope.spawn(move || {
                let next = || receive::<Value>(&router).transpose();
                std::iter::from_fn(next).collect::<io::Result<Vec<_>>>()
            });
            let served = self.0.serve(&helper);
            drop(helper);
            (served, answers.join())
        });
        match served {
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                return Ok(Heard::NoRequest(error));
            }
            result => result?,
        }
        Ok(Heard::Answers(answers.map_err(|_| io::Error::other("the answers were not read"))??))
    }

    /// The interfaces that are restored at its end, by their numbers.
    pub fn prepared(&self) -> BTreeSet<u32> {
        self.0.state.undo.iter().map(Undo::index).collect()
    }

    /// What it knows, and what a standby knows that has heard of all changes that lead there.
    ///
    /// # Errors
    /// A change cannot be sent.
    pub fn known(&self) -> io::Result<[String; 2]> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut copy = State::default();
        let changes = self.0.state.changes();
        let mut left = &changes[..];
        while !left.is_empty() {
            let part = together(left);
            left = &left[part.len()..];
            super::message::send(&one, &part, None)?;
            let (heard, _) =
                receive::<Vec<Change>>(&other)?.ok_or_else(|| io::Error::other("a change has not come"))?;
            heard.into_iter().for_each(|change| copy.apply(change));
        }
        Ok([format!("{:?}", self.0.state), format!("{copy:?}")])
    }
}
