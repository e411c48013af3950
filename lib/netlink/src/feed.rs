// SPDX-License-Identifier: MIT
//! The thread that listens to Linux.
//!
//! It subscribes to notifications first, then dumps everything, and passes on each notification that came meanwhile or
//! comes later: a notification is always newer than the dump, never the other way round. When the kernel had no room
//! for one (ENOBUFS), the thread reports the loss and dumps everything again. The reader has to compare a dump with
//! what it knows: a dump says what is there, not what is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, recvfrom, send};

use super::background::{Background, Reporter, Stopped};
use super::decode::{ENOBUFS, Tally, decode};
use super::message::{Message, ProxyNeighbor};
use super::wire::{
    AF_INET, AF_INET6, AF_UNSPEC, FAMILY_MULTICAST4, FAMILY_MULTICAST6, dump_request, kind, proxies_request,
};
use perigee_helper::NetlinkSockets;

/// Messages in one update, approximately.
const BATCH: usize = 1024;
/// Most notifications that are kept during a dump. When there are more, all are discarded and the dump is repeated.
const DEFERRED: usize = 1 << 20;
/// Larger than any datagram of the kernel: 32 KB in dumps.
const BUFFER: usize = 256 * 1024;
/// How long the kernel may take to continue a dump.
const PATIENCE: Duration = Duration::from_secs(10);
/// Shortest pause between two dumps; after a long dump, the pause is as long as the dump was. However often
/// notifications are lost, dumps take at most half of the thread's time.
const PAUSE: Duration = Duration::from_millis(50);

/// The dumps, in this order: kind, family, length of the fixed part. Links come before what is on them, next-hop
/// objects before the routes that name them, and policy rules before the tables that they name. Routes come after links
/// for a second reason: Linux reports that a link is down before it removes the routes over it. It does not report
/// these removals, and a dump in between still shows the routes (6.18: a quarter of 20,000). Dumps of links and
/// next-hop objects take the lock that a change holds, so they wait for its end.
const DUMPS: [(u16, u8, usize); 12] = [
    (kind::GET_LINK, AF_UNSPEC, 16),
    (kind::GET_ADDRESS, AF_UNSPEC, 8),
    (kind::GET_NETWORK_SETTINGS, AF_INET, 4),
    (kind::GET_NETWORK_SETTINGS, AF_INET6, 4),
    (kind::GET_NEXT_HOP, AF_UNSPEC, 8),
    (kind::GET_NEIGHBOR, AF_UNSPEC, 12),
    (kind::GET_RULE, AF_INET, 12),
    (kind::GET_RULE, AF_INET6, 12),
    (kind::GET_ROUTE, AF_INET, 12),
    (kind::GET_ROUTE, AF_INET6, 12),
    (kind::GET_ROUTE, FAMILY_MULTICAST4, 12),
    (kind::GET_ROUTE, FAMILY_MULTICAST6, 12),
];

/// How often the machine is asked which addresses of other stations it answers for, of which it reports nothing itself.
const PROXIES: Duration = Duration::from_secs(1);

/// What a feed covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Links, addresses, their settings, next-hop objects, neighbors, policy rules, routes and multicast routes.
    Everything,
    /// Links alone.
    Links,
}

impl Scope {
    fn dumps(self) -> &'static [(u16, u8, usize)] {
        match self {
            Scope::Everything => &DUMPS,
            Scope::Links => &DUMPS[..1],
        }
    }
}

/// Where updates come from: the kernel ([`follow`]), zebra ([`fpm::listen`](crate::fpm::listen)), or a test.
pub trait Source: Send {
    /// The next update, if one is waiting.
    fn next(&mut self) -> Option<Update>;
    /// Asks for a dump.
    fn dump(&mut self);
    /// What has been counted so far.
    fn counters(&self) -> SourceCounters;
}

/// Counters of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// Dumps that were begun.
    pub dumps: u64,
    /// Times that the kernel lost notifications for want of room.
    pub overruns: u64,
    /// Messages that were cut off or contradicted themselves.
    pub malformed: u64,
    /// Messages that do not concern a router.
    pub skipped: u64,
}

/// One report of a source.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// A dump begins.
    DumpBegins,
    /// A part of the dump.
    Dumped(Vec<Message>),
    /// The dump has been passed on.
    DumpEnds {
        /// Whether nothing is missing. If something is, another dump follows.
        complete: bool,
    },
    /// What has changed, in order.
    Notifications(Vec<Message>),
    /// Notifications were lost; a dump follows.
    Lost,
    /// No more updates will come; the text says why.
    Broken(String),
}

/// Starts to listen. `bell` is rung after each update; when the source is dropped, its thread ends.
///
/// # Errors
/// The system refuses an eventfd or a thread.
pub fn follow(sockets: NetlinkSockets, scope: Scope, bell: impl Fn() + Send + 'static) -> io::Result<impl Source> {
    Background::start("netlink", bell, move |reporter| {
        let (buffer, deferred) = (vec![0; BUFFER], Vec::new());
        let (unknown, proxies, proxies_due) = (Vec::new(), None, Instant::now());
        Listener { sockets, scope, reporter, buffer, deferred, unknown, proxies, proxies_due, sequence: 0 }.run();
    })
}

/// Why the thread ends.
enum End {
    Stopped,
    /// The sockets do not work.
    Broken(io::Error),
}

impl From<Stopped> for End {
    fn from(Stopped: Stopped) -> End {
        End::Stopped
    }
}

impl From<Errno> for End {
    fn from(error: Errno) -> End {
        End::Broken(error.into())
    }
}

struct Listener {
    sockets: NetlinkSockets,
    scope: Scope,
    reporter: Reporter,
    buffer: Vec<u8>,
    /// Notifications that came during a dump.
    deferred: Vec<Message>,
    /// Families that the kernel does not know.
    unknown: Vec<u8>,
    /// The addresses of other stations that the machine answered for when it was asked last.
    proxies: Option<Vec<ProxyNeighbor>>,
    /// When it is asked again.
    proxies_due: Instant,
    sequence: u32,
}

/// Takes a part of an answer.
type Take<'a> = dyn FnMut(&Reporter, &mut Vec<Message>) -> Result<(), End> + 'a;

/// Takes out what is no multicast route; returns whether all were.
fn leave_multicast(messages: &mut Vec<Message>) -> bool {
    let all = messages.len();
    messages.retain(|message| matches!(message, Message::MulticastRoute(_)));
    messages.len() == all
}

impl Listener {
    fn run(&mut self) {
        if let Err(End::Broken(error)) = self.listen() {
            let _ = self.reporter.pass(Update::Broken(error.to_string()));
        }
    }

    fn listen(&mut self) -> Result<(), End> {
        // The first dump is due immediately.
        self.reporter.request_dump();
        let mut not_before = Instant::now();
        loop {
            self.sleep(not_before)?;
            let mut heard = Vec::new();
            loop {
                let lost = self.hear(&mut heard, BATCH)?;
                let quiet = heard.len() < BATCH;
                if !heard.is_empty() {
                    self.reporter.pass(Update::Notifications(std::mem::take(&mut heard)))?;
                }
                if lost {
                    self.lost()?;
                }
                if quiet {
                    break;
                }
                self.reporter.stopped()?;
            }
            if Instant::now() >= not_before && self.reporter.take_dump_request() {
                let start = Instant::now();
                self.dump()?;
                not_before = Instant::now() + PAUSE.max(start.elapsed());
            }
            if self.scope == Scope::Everything && Instant::now() >= self.proxies_due {
                self.look_for_proxies(false)?;
                self.pass_deferred()?;
            }
        }
    }

    /// Sleeps until there is a notification, a request of the reader, or a dump that is due.
    fn sleep(&mut self, not_before: Instant) -> Result<(), End> {
        self.reporter.stopped()?;
        let left = not_before.saturating_duration_since(Instant::now());
        let dump = self.reporter.dump_requested().then_some(left);
        let proxies = self.proxies_due.saturating_duration_since(Instant::now());
        let proxies = (self.scope == Scope::Everything).then_some(proxies);
        let timeout = dump.into_iter().chain(proxies).min();
        self.reporter.sleep(&[self.sockets.monitor.as_fd()], timeout)?;
        Ok(self.reporter.stopped()?)
    }

    fn lost(&mut self) -> Result<(), End> {
        self.reporter.count_overrun();
        self.reporter.request_dump();
        Ok(self.reporter.pass(Update::Lost)?)
    }

    /// Takes the notifications that are waiting, until `into` has `limit` or a few more; returns whether any were lost.
    fn hear(&mut self, into: &mut Vec<Message>, limit: usize) -> Result<bool, End> {
        let mut lost = false;
        while into.len() < limit {
            let length = match receive(&self.sockets.monitor, &mut self.buffer) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(Errno::NOBUFS) => {
                    lost = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut tally = Tally::default();
            match self.buffer.get(..length) {
                Some(datagram) => lost |= decode(datagram, None, into, &mut tally).error == Some(ENOBUFS),
                // Longer than anything the kernel sends.
                None => tally.malformed += 1,
            }
            self.reporter.count(tally);
        }
        Ok(lost)
    }

    /// Passes on everything in scope.
    fn dump(&mut self) -> Result<(), End> {
        self.reporter.count_dump();
        self.reporter.pass(Update::DumpBegins)?;
        let (mut complete, mut lost) = (true, false);
        for &(kind, family, length) in self.scope.dumps() {
            if self.unknown.contains(&family) {
                continue;
            }
            self.sequence += 1;
            let request = dump_request(kind, family, length, self.sequence);
            send(&self.sockets.dumps, &request, SendFlags::empty())?;
            let (whole, overrun) = self.dump_one(kind, family, self.sequence)?;
            complete &= whole;
            lost |= overrun;
        }
        if self.scope == Scope::Everything {
            lost |= self.look_for_proxies(true)?;
        }
        if !complete {
            self.reporter.request_dump();
        }
        self.reporter.pass(Update::DumpEnds { complete })?;
        self.pass_deferred()?;
        if lost { self.lost() } else { Ok(()) }
    }

    /// Passes on the notifications that came during a dump.
    fn pass_deferred(&mut self) -> Result<(), End> {
        for batch in std::mem::take(&mut self.deferred).chunks(BATCH) {
            self.reporter.pass(Update::Notifications(batch.to_vec()))?;
        }
        Ok(())
    }

    /// Asks which addresses of other stations the machine answers for, and passes them on if they have changed, or as
    /// part of a dump; returns whether notifications were lost meanwhile.
    fn look_for_proxies(&mut self, dumped: bool) -> Result<bool, End> {
        self.sequence += 1;
        send(&self.sockets.dumps, &proxies_request(self.sequence), SendFlags::empty())?;
        let mut found = Vec::new();
        let (whole, lost) = self.collect(kind::GET_NEIGHBOR, AF_UNSPEC, self.sequence, &mut |_, batch| {
            found.extend(batch.iter().filter_map(|message| match message {
                Message::ProxyNeighbor(proxy) => Some(*proxy),
                _ => None,
            }));
            Ok(())
        })?;
        self.proxies_due = Instant::now() + PROXIES;
        found.sort_unstable();
        found.dedup();
        // Cut short by a change: the next answer is the whole one.
        if whole && (dumped || self.proxies.as_ref() != Some(&found)) {
            self.proxies = Some(found.clone());
            let message = vec![Message::ProxyNeighbors(found)];
            self.reporter.pass(if dumped { Update::Dumped(message) } else { Update::Notifications(message) })?;
        }
        if lost && !dumped {
            self.lost()?;
        }
        Ok(lost)
    }

    /// Passes on the answer to one request; returns whether it is complete, and whether notifications were lost
    /// meanwhile.
    fn dump_one(&mut self, kind: u16, family: u8, sequence: u32) -> Result<(bool, bool), End> {
        self.collect(kind, family, sequence, &mut |reporter, batch| {
            Ok(reporter.pass(Update::Dumped(std::mem::replace(batch, Vec::with_capacity(BATCH))))?)
        })
    }

    /// Hands the answer to one request to `take`, part by part; returns whether it is complete, and whether
    /// notifications were lost meanwhile.
    fn collect(&mut self, kind: u16, family: u8, sequence: u32, take: &mut Take<'_>) -> Result<(bool, bool), End> {
        // A kernel may know neither next-hop objects, policy rules, multicast routes nor IPv6.
        let optional = matches!(kind, kind::GET_NEXT_HOP | kind::GET_RULE | kind::GET_NETWORK_SETTINGS)
            || family >= FAMILY_MULTICAST4;
        let (mut whole, mut lost, mut batch) = (true, false, Vec::with_capacity(BATCH));
        let mut heard = Instant::now();
        loop {
            self.reporter.stopped()?;
            match receive(&self.sockets.dumps, &mut self.buffer) {
                Ok(None) if heard.elapsed() > PATIENCE => {
                    let error = "the kernel does not answer a request for its tables";
                    return Err(End::Broken(io::Error::new(io::ErrorKind::TimedOut, error)));
                }
                Ok(None) => {
                    let mut fds = [PollFd::from_borrowed_fd(self.sockets.dumps.as_fd(), PollFlags::IN)];
                    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
                }
                Ok(Some(length)) => {
                    heard = Instant::now();
                    let mut tally = Tally::default();
                    let Some(datagram) = self.buffer.get(..length) else {
                        whole = false;
                        continue;
                    };
                    let dump = decode(datagram, Some(sequence), &mut batch, &mut tally);
                    self.reporter.count(tally);
                    // Asked for a family that it does not know, it dumps the routes of all others once more.
                    if family >= FAMILY_MULTICAST4 && !leave_multicast(&mut batch) && !self.unknown.contains(&family) {
                        self.unknown.push(family);
                    }
                    whole &= !dump.interrupted && tally.malformed == 0;
                    if batch.len() >= BATCH || dump.done && !batch.is_empty() {
                        take(&self.reporter, &mut batch)?;
                        batch.clear();
                    }
                    if dump.done {
                        whole &= dump.error.is_none() || optional;
                        return Ok((whole, lost));
                    }
                }
                Err(Errno::NOBUFS) => whole = false,
                Err(error) => return Err(error.into()),
            }
            lost |= self.defer()?;
        }
    }

    /// Sets aside the notifications that come during a dump, so that the kernel has room for more; returns whether any
    /// were lost.
    fn defer(&mut self) -> Result<bool, End> {
        let mut deferred = std::mem::take(&mut self.deferred);
        let limit = deferred.len() + BATCH;
        let mut lost = self.hear(&mut deferred, limit)?;
        if deferred.len() > DEFERRED {
            deferred.clear();
            lost = true;
        }
        self.deferred = deferred;
        Ok(lost)
    }
}

/// Reads one datagram of the kernel; returns its length, which may exceed the buffer's. `None` if none is waiting.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        return match recvfrom(socket, &mut *buffer, RecvFlags::TRUNC) {
            // Only the kernel's own messages count.
            Ok((_, _, Some(sender))) if SocketAddrNetlink::try_from(sender.clone()).is_ok_and(|s| s.pid() != 0) => {
                continue;
            }
            Ok((_, length, _)) => Ok(Some(length)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error),
        };
    }
}
