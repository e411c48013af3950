// SPDX-License-Identifier: MIT
//! A helper whose system is pretended: what it decides, without what it does. For the target `helper` of tests/fuzz.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, shutdown, socketpair};
use serde_json::Value;

use super::message::receive;
use super::server::Server;
use super::state::{Change, State};
use crate::files::Named;

pub use super::failure::Failure;
pub use super::links::Undo;
pub use super::system::{Changeable, System};

/// A helper.
pub struct Rehearsal<S>(Server<S>);

/// What came of a message.
#[derive(Debug)]
pub enum Heard {
    /// An answer, and the descriptor with it.
    Answer(Value, Option<OwnedFd>),
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
        match self.0.serve(&helper) {
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                return Ok(Heard::NoRequest(error));
            }
            result => result?,
        }
        drop(helper);
        let answer = receive::<Value>(&router)?;
        let (answer, fd) = answer.ok_or_else(|| io::Error::other("the helper has not answered"))?;
        Ok(Heard::Answer(answer, fd))
    }

    /// What it knows, and what a standby knows that has heard of all changes that lead there.
    ///
    /// # Errors
    /// A change cannot be sent.
    pub fn known(&self) -> io::Result<[String; 2]> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut copy = State::default();
        for change in self.0.state.changes() {
            super::message::send(&one, &change, None)?;
            let heard = receive::<Change>(&other)?;
            copy.apply(heard.ok_or_else(|| io::Error::other("a change has not arrived"))?.0);
        }
        Ok([format!("{:?}", self.0.state), format!("{copy:?}")])
    }
}
