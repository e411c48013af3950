// SPDX-License-Identifier: MIT
//! Requests for many twins or interfaces: each is answered as soon as it is done, which is a sign of life, too.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use perigee_net::{MacAddr, Namespace};

use super::{Server, note_in};
use crate::failure::{Failure, Refusal};
use crate::message::{Answer, LinkPreparation, TwinStatus, TwinWanted, send};
use crate::state::Change;
use crate::system::System;
use crate::underlay::Undo;

/// Interfaces that may be prepared, as the standby knows how to restore them.
struct Ready {
    links: Vec<(LinkPreparation, Undo)>,
    /// Which of them have been prepared before.
    again: Vec<bool>,
}

impl<S: System> Server<S> {
    pub(super) fn link_macs(&mut self, names: &[String], router: &OwnedFd) -> io::Result<()> {
        let mut sent = Ok(());
        let mut answer = |mac: MacAddr| {
            if sent.is_ok() {
                sent = send(router, &Answer::Mac(mac), None);
            }
            sent.is_ok()
        };
        let result = self.system.macs(names, &mut answer);
        sent.and_then(|()| say(router, result))
    }

    /// All that is to be restored is known to the standby before the first interface is changed.
    pub(super) fn prepare_links(&mut self, wanted: Vec<LinkPreparation>, router: &OwnedFd) -> io::Result<()> {
        let Ready { links, again } = match self.ready(wanted) {
            Ok(ready) => ready,
            Err(refusal) => return say(router, Err(refusal)),
        };
        let (mut sent, mut count) = (Ok(()), 0);
        let mut answer = |()| {
            count += 1;
            if sent.is_ok() {
                sent = send(router, &Answer::Done, None);
            }
            sent.is_ok()
        };
        let result = self.system.prepare(&links, &mut answer);
        // What was refused has been restored, and those behind it are as they were. One that was prepared before still
        // is.
        let prepared: BTreeSet<u32> = links.iter().take(count).map(|(_, undo)| undo.index()).collect();
        let rest = links.iter().zip(again).skip(count).filter(|(_, again)| !again).map(|((_, undo), _)| undo.index());
        let untouched = rest.filter(|link| !prepared.contains(link));
        self.note_all(untouched.map(Change::NotPrepared).collect());
        sent.and_then(|()| say(router, result))
    }

    fn ready(&mut self, wanted: Vec<LinkPreparation>) -> Result<Ready, Refusal> {
        let named =
            |(at, wanted): (usize, &LinkPreparation)| self.named(None, &wanted.name).map_err(|failure| failure.at(at));
        let named = wanted.iter().enumerate().map(named).collect::<Result<_, Refusal>>()?;
        self.note_all(named);
        let mut found = Vec::with_capacity(wanted.len());
        let mut keep = |undo: Undo| {
            found.push(undo);
            true
        };
        self.system.look(&wanted, &mut keep)?;
        self.forget_gone(&found)?;
        let again = found.iter().map(|undo| self.state.undo_of(undo).is_some()).collect();
        let to_restore = |undo: &Undo| match self.state.undo_of(undo) {
            Some(before) => before.and(undo),
            None => undo.clone(),
        };
        let notes = found.iter().map(to_restore).map(Change::Preparing).collect();
        self.note_all(notes);
        Ok(Ready { links: wanted.into_iter().zip(found).collect(), again })
    }

    /// Forgets interfaces that had one of these names and are gone: it may be made again any number of times. One that
    /// was renamed is restored.
    fn forget_gone(&mut self, found: &[Undo]) -> Result<(), Failure> {
        let had_a_name = |older: &&Undo| found.iter().any(|undo| older.had_the_name_of(undo));
        let others: Vec<u32> = self.state.undo.iter().filter(had_a_name).map(Undo::index).collect();
        if !others.is_empty() {
            let gone = self.system.gone(others)?;
            self.note_all(gone.into_iter().map(Change::NotPrepared).collect());
        }
        Ok(())
    }

    pub(super) fn make_twins(&mut self, wanted: &[TwinWanted], router: &OwnedFd) -> io::Result<()> {
        let mut from = 0;
        // One namespace after the other; a router has one.
        for part in wanted.chunk_by(|one, other| one.namespace == other.namespace) {
            let part = from..from + part.len();
            from = part.end;
            if let Err(refusal) = self.make_twins_of(wanted, part, router)? {
                return say(router, Err(refusal));
            }
        }
        Ok(())
    }

    /// Makes those that are in one namespace. The first result is about the router's socket.
    fn make_twins_of(
        &mut self,
        all: &[TwinWanted],
        part: Range<usize>,
        router: &OwnedFd,
    ) -> io::Result<Result<(), Refusal>> {
        let (first, wanted) = (part.start, &all[part]);
        let namespace = wanted.first().and_then(|wanted| wanted.namespace.clone());
        if let Err(refusal) = self.name_twins(namespace.as_ref(), wanted) {
            return Ok(Err(Refusal { at: first + refusal.at, ..refusal }));
        }
        let mut sent = Ok(());
        let Server { system, state, standby, .. } = self;
        let mut answer = |(fd, status): (OwnedFd, TwinStatus)| {
            let made = Change::Link(status.namespace.clone(), status.name.clone(), status.index);
            note_in(state, standby, vec![made]);
            if sent.is_ok() {
                sent = send(router, &Answer::Twin(status), Some(fd.as_fd()));
            }
            // Dropping `fd` leaves the router's copy the only one: the twin ends with the router.
            sent.is_ok()
        };
        let result = system.make_twins(namespace.as_ref(), wanted, &mut answer);
        sent.map(|()| result.map_err(|refusal| Refusal { at: first + refusal.at, ..refusal }))
    }

    fn name_twins(&mut self, namespace: Option<&Namespace>, wanted: &[TwinWanted]) -> Result<(), Refusal> {
        self.enters(namespace)?;
        let named =
            |(at, wanted): (usize, &TwinWanted)| self.named(namespace, &wanted.name).map_err(|failure| failure.at(at));
        let named = wanted.iter().enumerate().map(named).collect::<Result<_, Refusal>>()?;
        self.note_all(named);
        Ok(())
    }
}

/// Says what was refused, if anything was: no further answer comes.
pub(super) fn say(router: &OwnedFd, result: Result<(), Refusal>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(Refusal { at, failure }) => send(router, &Answer::Refused(at, failure.to_string()), None),
    }
}
