// SPDX-License-Identifier: MIT
//! The sockets to the helper and its standby: requests, their answers, and what follows when there are none.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use rustix::event::PollFlags;

use super::{HelperError, HelperHealth, confused};
use crate::message::{Answer, PATIENCE, Request, is_closed, ready, receive, send};

#[derive(Debug)]
pub(super) struct Sockets {
    /// Closed first, which is what ends the process.
    pub(super) helper: Option<Line>,
    pub(super) standby: Option<Line>,
    /// Those of helpers that did not answer, and that were not seen to end: with the socket closed, they would take
    /// the router for dead.
    pub(super) silent: Vec<Line>,
    /// The first one, while it lives; the others are their predecessors' children.
    pub(super) process: Option<Child>,
    pub(super) deaths: u64,
    pub(super) standby_deaths: u64,
}

/// A socket to a helper.
#[derive(Debug)]
pub(super) struct Line {
    socket: OwnedFd,
    /// Answers that may still come, to a request that was given up or is under way.
    owed: usize,
    /// How long one request may take.
    pub(super) patience: Duration,
}

pub(super) type Answers = Vec<(Answer, Option<OwnedFd>)>;

/// What came of a request.
enum Exchange {
    /// All answers, or those up to a refusal.
    Answered,
    Dead,
    /// There was no answer in time.
    Silent,
}

impl Sockets {
    pub(super) fn new(helper: OwnedFd, process: Option<Child>) -> Sockets {
        let helper = Some(Line::new(helper));
        Sockets { helper, standby: None, silent: Vec::new(), process, deaths: 0, standby_deaths: 0 }
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<(Answer, Option<OwnedFd>), HelperError> {
        self.ask_for(request, 1)?.pop().ok_or_else(confused)
    }

    /// Asks for `count` answers, and waits for each of them: it gets at least one, and fewer where the last one is a
    /// refusal, or came before the helper's end.
    pub(super) fn ask_for(&mut self, request: &Request, count: usize) -> Result<Answers, HelperError> {
        let mut answers = Vec::new();
        if self.helper.as_ref().is_some_and(Line::is_closed) {
            self.replace();
        }
        loop {
            let ended = || HelperError("the helper process has ended: Linux is not changed any more".to_owned());
            let helper = self.helper.as_mut().ok_or_else(ended)?;
            let patience = helper.patience;
            match helper.exchange(request, count, &mut answers) {
                Ok(Exchange::Answered) => {
                    self.silent.retain(|line| !line.is_closed());
                    return match answers.pop() {
                        Some((Answer::Failed(why), _)) => Err(HelperError(why)),
                        last => Ok(answers.into_iter().chain(last).collect()),
                    };
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
            if !answers.is_empty() {
                return Ok(answers);
            }
        }
    }

    /// The helper has died: the standby takes its place.
    pub(super) fn replace(&mut self) {
        self.helper = self.standby.take();
        self.deaths += 1;
    }

    pub(super) fn health(&self) -> HelperHealth {
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
    pub(super) fn new(socket: OwnedFd) -> Line {
        Line { socket, owed: 0, patience: PATIENCE }
    }

    /// A request and its answers, each of which has its time. Where an earlier one is still open, this one is not
    /// waited for.
    fn exchange(&mut self, request: &Request, count: usize, answers: &mut Answers) -> std::io::Result<Exchange> {
        let dead = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset)
        };
        match self.try_exchange(request, count, answers) {
            Err(error) if dead(&error) => Ok(Exchange::Dead),
            result => result,
        }
    }

    fn try_exchange(&mut self, request: &Request, count: usize, answers: &mut Answers) -> std::io::Result<Exchange> {
        if !self.catch_up()? || !ready(&self.socket, PollFlags::OUT, self.patience)? {
            return Ok(if self.is_closed() { Exchange::Dead } else { Exchange::Silent });
        }
        send(&self.socket, request, None)?;
        self.owed = count;
        while self.owed > 0 {
            if !ready(&self.socket, PollFlags::IN, self.patience)? {
                return Ok(Exchange::Silent);
            }
            match self.answer()? {
                Some(answer) => answers.push(answer),
                None => return Ok(Exchange::Dead),
            }
        }
        Ok(Exchange::Answered)
    }

    /// Takes answers that have come late; returns whether none is owed.
    pub(super) fn catch_up(&mut self) -> std::io::Result<bool> {
        while self.owed > 0 && ready(&self.socket, PollFlags::IN, Duration::ZERO)? {
            if self.answer()?.is_none() {
                return Ok(false);
            }
        }
        Ok(self.owed == 0)
    }

    /// The next answer, one of those that are owed; `None` at the helper's end.
    fn answer(&mut self) -> std::io::Result<Option<(Answer, Option<OwnedFd>)>> {
        let answer = receive::<Answer>(&self.socket);
        self.owed = match &answer {
            Ok(Some((Answer::Failed(_) | Answer::Refused(..), _))) => 0,
            Ok(None) => self.owed,
            // One without its descriptor has come, too.
            Ok(Some(_)) | Err(_) => self.owed.saturating_sub(1),
        };
        answer
    }

    /// Whether nobody is at the other end any more.
    pub(super) fn is_closed(&self) -> bool {
        is_closed(&self.socket)
    }

    /// Tells the helper that it hears no more, and waits until it has restored everything, however long that takes
    /// while it shows that it goes on within some `times` its patience; returns whether it has.
    pub(super) fn finish(&self, times: u32) -> bool {
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
