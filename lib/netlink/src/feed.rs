// SPDX-License-Identifier: MIT
//! The thread that listens to Linux.
//!
//! It hears the news from the start, dumps everything, and then passes on the news, also those that came meanwhile: what a
//! dump says is overtaken by them, never the other way round. Where the kernel had no room for news (ENOBUFS), it says so and
//! dumps everything again. Whoever takes the updates has to compare a dump with what he has: a dump says what is, not what is
//! gone.
//!
//! Memory is bounded: updates wait in a channel of [`DEPTH`] places, after which news wait in the kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, recvfrom, send};

use super::decode::{ENOBUFS, Tally, decode};
use super::message::Message;
use super::wire::{AF_INET, AF_INET6, AF_UNSPEC, dump_request, kind};
use perigee_helper::NetlinkSockets;
use perigee_helper::privileges;

/// Updates on their way.
const DEPTH: usize = 64;
/// Messages in one update, about.
const BATCH: usize = 1024;
/// News that came during a dump, at most; beyond, they are lost and the dump is repeated.
const DEFERRED: usize = 1 << 20;
/// Larger than any datagram of the kernel: 32 KB in dumps.
const BUFFER: usize = 256 * 1024;
/// How long the kernel may take to go on with a dump.
const PATIENCE: Duration = Duration::from_secs(10);
/// At least so much time between two dumps, and as much as the last one took: what is lost again and again costs no more than
/// half of the thread's time.
const PAUSE: Duration = Duration::from_millis(50);

/// What is dumped, in this order: kind, family, length of the fixed part. Links before what is on them, next-hop objects before
/// the routes that name them.
const DUMPS: [(u16, u8, usize); 6] = [
    (kind::GET_LINK, AF_UNSPEC, 16),
    (kind::GET_ADDRESS, AF_UNSPEC, 8),
    (kind::GET_NEXT_HOP, AF_UNSPEC, 8),
    (kind::GET_NEIGHBOR, AF_UNSPEC, 12),
    (kind::GET_ROUTE, AF_INET, 12),
    (kind::GET_ROUTE, AF_INET6, 12),
];

/// What a feed is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
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

/// Where updates come from: a [`Feed`], or what else knows Linux' routes.
pub trait Source: Send {
    /// The next update, if there is one now.
    fn next(&mut self) -> Option<Update>;
    /// Asks for a dump.
    fn dump(&mut self);
    /// Numbers to show.
    fn counters(&self) -> SourceCounters;
}

/// Numbers of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// Dumps begun.
    pub dumps: u64,
    /// How often news were lost for want of room.
    pub overruns: u64,
    /// Messages that contradict themselves.
    pub malformed: u64,
    /// Messages of no concern here.
    pub skipped: u64,
}

/// What is passed on.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// A dump begins.
    DumpBegins,
    /// A part of it.
    Dumped(Vec<Message>),
    /// All of it has been passed on.
    DumpEnds {
        /// Whether nothing is missing. If not, another dump follows.
        complete: bool,
    },
    /// What has changed, in order.
    News(Vec<Message>),
    /// News were lost; a dump follows.
    Lost,
    /// Nothing more comes: why.
    Broken(String),
}

/// Numbers of the thread.
#[derive(Debug, Default)]
struct FeedCounters {
    dumps: AtomicU64,
    overruns: AtomicU64,
    malformed: AtomicU64,
    skipped: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    dump: AtomicBool,
    wake: OwnedFd,
    counters: FeedCounters,
}

impl Shared {
    fn wake(&self) {
        // A full eventfd wakes as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A running feed. When dropped, its thread ends.
#[derive(Debug)]
pub struct Feed {
    updates: Option<Receiver<Update>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts to listen. `bell` is rung after each update.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(sockets: NetlinkSockets, scope: Scope, bell: impl Fn() + Send + 'static) -> io::Result<Feed> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let counters = FeedCounters::default();
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), dump: AtomicBool::new(true), wake, counters });
        let (sender, updates) = sync_channel(DEPTH);
        let mut listener = Listener {
            sockets,
            scope,
            shared: shared.clone(),
            sender,
            bell: Box::new(bell),
            buffer: vec![0; BUFFER],
            deferred: Vec::new(),
            sequence: 0,
        };
        let body = move || {
            let _ = privileges::drop_all();
            listener.run();
        };
        let thread = std::thread::Builder::new().name("netlink".to_owned()).spawn(body)?;
        Ok(Feed { updates: Some(updates), shared, thread: Some(thread) })
    }
}

impl Source for Feed {
    fn next(&mut self) -> Option<Update> {
        self.updates.as_ref()?.try_recv().ok()
    }

    fn dump(&mut self) {
        self.shared.dump.store(true, Ordering::Release);
        self.shared.wake();
    }

    fn counters(&self) -> SourceCounters {
        let FeedCounters { dumps, overruns, malformed, skipped } = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceCounters { dumps: get(dumps), overruns: get(overruns), malformed: get(malformed), skipped: get(skipped) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // Without its other end the thread cannot wait for room in the channel.
        self.updates = None;
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there was reported there.
        }
    }
}

/// Why the thread ends.
enum End {
    /// It was asked to, or nobody listens.
    Stopped,
    /// The sockets do not work.
    Broken(io::Error),
}

impl From<Errno> for End {
    fn from(error: Errno) -> End {
        End::Broken(error.into())
    }
}

struct Listener {
    sockets: NetlinkSockets,
    scope: Scope,
    shared: Arc<Shared>,
    sender: SyncSender<Update>,
    bell: Box<dyn Fn() + Send>,
    buffer: Vec<u8>,
    /// News that came during a dump.
    deferred: Vec<Message>,
    sequence: u32,
}

impl Listener {
    fn run(&mut self) {
        if let Err(End::Broken(error)) = self.listen() {
            let _ = self.pass(Update::Broken(error.to_string()));
        }
    }

    fn listen(&mut self) -> Result<(), End> {
        // The first dump is due at once.
        let mut not_before = Instant::now();
        loop {
            self.sleep(not_before)?;
            let mut news = Vec::new();
            loop {
                let lost = self.hear(&mut news, BATCH)?;
                let quiet = news.len() < BATCH;
                if !news.is_empty() {
                    self.pass(Update::News(std::mem::take(&mut news)))?;
                }
                if lost {
                    self.lost()?;
                }
                if quiet {
                    break;
                }
                self.stopped()?;
            }
            if Instant::now() >= not_before && self.shared.dump.swap(false, Ordering::AcqRel) {
                let start = Instant::now();
                self.dump()?;
                not_before = Instant::now() + PAUSE.max(start.elapsed());
            }
        }
    }

    fn stopped(&self) -> Result<(), End> {
        if self.shared.stop.load(Ordering::Acquire) { Err(End::Stopped) } else { Ok(()) }
    }

    /// Until there are news or something is asked for.
    fn sleep(&mut self, not_before: Instant) -> Result<(), End> {
        self.stopped()?;
        let due = self.shared.dump.load(Ordering::Acquire);
        let left = not_before.saturating_duration_since(Instant::now());
        let timeout = due.then_some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        let mut fds = [
            PollFd::from_borrowed_fd(self.sockets.monitor.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // It may hold nothing: news have woken us.
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        self.stopped()
    }

    fn pass(&mut self, update: Update) -> Result<(), End> {
        self.sender.send(update).map_err(|_| End::Stopped)?;
        (self.bell)();
        Ok(())
    }

    fn lost(&mut self) -> Result<(), End> {
        self.shared.counters.overruns.fetch_add(1, Ordering::Relaxed);
        self.shared.dump.store(true, Ordering::Release);
        self.pass(Update::Lost)
    }

    /// Takes the news that are there, up to `limit` or a few more; whether some were lost.
    fn hear(&mut self, news: &mut Vec<Message>, limit: usize) -> Result<bool, End> {
        let mut lost = false;
        while news.len() < limit {
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
                Some(datagram) => lost |= decode(datagram, None, news, &mut tally).error == Some(ENOBUFS),
                // Longer than anything the kernel sends.
                None => tally.malformed += 1,
            }
            self.count(tally);
        }
        Ok(lost)
    }

    fn count(&self, tally: Tally) {
        let counters = &self.shared.counters;
        if tally != Tally::default() {
            counters.malformed.fetch_add(tally.malformed, Ordering::Relaxed);
            counters.skipped.fetch_add(tally.skipped, Ordering::Relaxed);
        }
    }

    /// Passes on all there is.
    fn dump(&mut self) -> Result<(), End> {
        self.shared.counters.dumps.fetch_add(1, Ordering::Relaxed);
        self.pass(Update::DumpBegins)?;
        let (mut complete, mut lost) = (true, false);
        for &(kind, family, length) in self.scope.dumps() {
            self.sequence += 1;
            let request = dump_request(kind, family, length, self.sequence);
            send(&self.sockets.dumps, &request, SendFlags::empty())?;
            let (whole, overrun) = self.dump_one(kind, self.sequence)?;
            complete &= whole;
            lost |= overrun;
        }
        if !complete {
            self.shared.dump.store(true, Ordering::Release);
        }
        self.pass(Update::DumpEnds { complete })?;
        for news in self.deferred.chunks(BATCH).map(<[Message]>::to_vec).collect::<Vec<_>>() {
            self.pass(Update::News(news))?;
        }
        self.deferred = Vec::new();
        if lost { self.lost() } else { Ok(()) }
    }

    /// The answer to one request: whether it is whole, and whether news were lost meanwhile.
    fn dump_one(&mut self, kind: u16, sequence: u32) -> Result<(bool, bool), End> {
        let (mut whole, mut lost, mut batch) = (true, false, Vec::with_capacity(BATCH));
        let mut heard = Instant::now();
        loop {
            self.stopped()?;
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
                    self.count(tally);
                    whole &= !dump.interrupted && tally.malformed == 0;
                    if batch.len() >= BATCH || dump.done && !batch.is_empty() {
                        self.pass(Update::Dumped(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))))?;
                    }
                    if dump.done {
                        // A kernel without next-hop objects refuses to list them.
                        whole &= dump.error.is_none() || kind == super::wire::kind::GET_NEXT_HOP;
                        return Ok((whole, lost));
                    }
                }
                Err(Errno::NOBUFS) => whole = false,
                Err(error) => return Err(error.into()),
            }
            lost |= self.defer()?;
        }
    }

    /// Sets news aside that come during a dump, so that the kernel has room for more; whether some were lost.
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

/// One datagram of the kernel; its length, which may be more than there was room for. `None` if there is none now.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        return match recvfrom(socket, &mut *buffer, RecvFlags::TRUNC) {
            // Nobody but the kernel has anything to say here.
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
