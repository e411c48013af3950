// SPDX-License-Identifier: MIT
//! FRR's forwarding plane manager protocol: zebra (`-M dplane_fpm_nl`) connects over TCP and says each route as a netlink
//! message behind a header of four bytes: version 1, type 1 (netlink), length with the header in network byte order
//! (FRR's fpm/fpm.h).
//!
//! zebra says everything anew after it has connected, and then what changes; there is no word for "that was all", and none to
//! ask for it again but to hang up. So what it does not name again counts as gone when [`hold`](Fpm::start) is over: a
//! zebra that was restarted needs its time to learn the routes again, and meanwhile the old ones stay (graceful restart).

use std::io::{self, ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::decode::{Tally, decode};
use crate::message::Message;
use crate::{Source, SourceCounters, Update};
use perigee_helper::privileges;

/// Updates on their way.
const DEPTH: usize = 64;
/// Bytes read at once; a message has 64 KB at most.
const BUFFER: usize = 256 * 1024;
/// Bytes of the header.
const HEADER: usize = 4;
/// zebra says nothing for so long when it has said everything.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    hang_up: AtomicBool,
    wake: OwnedFd,
    dumps: AtomicU64,
    malformed: AtomicU64,
    skipped: AtomicU64,
}

impl Shared {
    fn wake(&self) {
        // A full eventfd wakes as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A listener for zebra. When dropped, its thread ends.
#[derive(Debug)]
pub struct Fpm {
    updates: Option<Receiver<Update>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Fpm {
    /// Waits for zebra on `listener`. When it connects for the second time, routes that it does not name within `hold` are gone.
    /// `bell` is rung after each update.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(listener: OwnedFd, hold: Duration, bell: impl Fn() + Send + 'static) -> io::Result<Fpm> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            hang_up: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            dumps: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        });
        let (sender, updates) = sync_channel(DEPTH);
        let reader = Reader { shared: shared.clone(), sender, bell: Box::new(bell), hold, state: State::default() };
        let body = move || {
            let _ = privileges::drop_all();
            reader.run(&listener);
        };
        let thread = std::thread::Builder::new().name("fpm".to_owned()).spawn(body)?;
        Ok(Fpm { updates: Some(updates), shared, thread: Some(thread) })
    }
}

impl Source for Fpm {
    fn next(&mut self) -> Option<Update> {
        self.updates.as_ref()?.try_recv().ok()
    }

    /// Hangs up: zebra calls again, and says everything.
    fn dump(&mut self) {
        self.shared.hang_up.store(true, Ordering::Release);
        self.shared.wake();
    }

    fn counters(&self) -> SourceCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { dumps, malformed, skipped, .. } = &*self.shared;
        SourceCounters { dumps: get(dumps), overruns: 0, malformed: get(malformed), skipped: get(skipped) }
    }
}

impl Drop for Fpm {
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

/// What of a conversation is remembered.
#[derive(Default)]
struct State {
    /// Until when what is said belongs to a dump.
    dump_until: Option<Instant>,
    /// When something was said last.
    heard: Option<Instant>,
    /// Whether there was a conversation before.
    before: bool,
    /// Bytes of a message that has not come whole.
    rest: Vec<u8>,
}

struct Reader {
    shared: Arc<Shared>,
    sender: SyncSender<Update>,
    bell: Box<dyn Fn() + Send>,
    hold: Duration,
    state: State,
}

impl Reader {
    fn run(mut self, listener: &TcpListener) {
        let mut stream: Option<TcpStream> = None;
        let mut buffer = vec![0; BUFFER];
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.shared.hang_up.swap(false, Ordering::AcqRel) {
                stream = None;
                if self.broken_off().is_none() {
                    return;
                }
            }
            if let Ok((fresh, peer)) = listener.accept()
                && fresh.set_nonblocking(true).is_ok()
            {
                // Whoever comes last is the zebra that lives.
                tracing::info!("zebra has connected from {peer}");
                stream = Some(fresh);
                if self.begin().is_none() {
                    return;
                }
            }
            let passed = match &mut stream {
                Some(open) => match open.read(&mut buffer) {
                    Ok(0) => {
                        tracing::info!("zebra has hung up; its routes stay until it is back");
                        stream = None;
                        self.broken_off()
                    }
                    Ok(length) => {
                        let passed = self.take(&buffer[..length]);
                        // What does not begin with the protocol's version is no zebra.
                        if self.state.rest.first().is_some_and(|version| *version != 1) {
                            stream = None;
                            passed.and_then(|()| self.broken_off())
                        } else {
                            passed
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        self.sleep(listener, Some(open))
                    }
                    Err(_) => {
                        stream = None;
                        self.broken_off()
                    }
                },
                None => self.sleep(listener, None),
            };
            if passed.and_then(|()| self.end_of_dump()).is_none() {
                return; // Nobody listens.
            }
        }
    }

    fn sleep(&mut self, listener: &TcpListener, stream: Option<&TcpStream>) -> Option<()> {
        let wait = if self.state.dump_until.is_some() { 100_000_000 } else { 900_000_000 };
        let fds = [Some(listener.as_fd()), Some(self.shared.wake.as_fd()), stream.map(AsFd::as_fd)];
        let mut fds: Vec<PollFd> =
            fds.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: wait }));
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        Some(())
    }

    fn pass(&mut self, update: Update) -> Option<()> {
        self.sender.send(update).ok()?;
        (self.bell)();
        Some(())
    }

    fn begin(&mut self) -> Option<()> {
        let hold = if self.state.before { self.hold } else { Duration::ZERO };
        let now = Instant::now();
        self.state = State { dump_until: Some(now + hold), heard: Some(now), before: true, rest: Vec::new() };
        self.shared.dumps.fetch_add(1, Ordering::Relaxed);
        self.pass(Update::DumpBegins)
    }

    /// The conversation is over: what was not named in it is not gone.
    fn broken_off(&mut self) -> Option<()> {
        match self.state.dump_until.take() {
            Some(_) => self.pass(Update::DumpEnds { complete: false }),
            None => Some(()),
        }
    }

    /// A dump ends when the time for it is over and nothing comes any more.
    fn end_of_dump(&mut self) -> Option<()> {
        let now = Instant::now();
        let quiet = self.state.heard.is_none_or(|heard| now.duration_since(heard) >= QUIET);
        if quiet && self.state.dump_until.is_some_and(|until| until <= now) {
            self.state.dump_until = None;
            return self.pass(Update::DumpEnds { complete: true });
        }
        Some(())
    }

    fn take(&mut self, bytes: &[u8]) -> Option<()> {
        self.state.heard = Some(Instant::now());
        self.state.rest.extend_from_slice(bytes);
        let (messages, used, tally) = unpack(&self.state.rest);
        self.state.rest.drain(..used);
        self.shared.malformed.fetch_add(tally.malformed, Ordering::Relaxed);
        self.shared.skipped.fetch_add(tally.skipped, Ordering::Relaxed);
        if messages.is_empty() {
            return Some(());
        }
        let dumped = self.state.dump_until.is_some();
        self.pass(if dumped { Update::Dumped(messages) } else { Update::News(messages) })
    }
}

/// The whole messages at the start of `bytes`, and how many bytes they take. What does not begin with version 1 is left.
pub fn unpack(bytes: &[u8]) -> (Vec<Message>, usize, Tally) {
    let (mut messages, mut used, mut tally) = (Vec::new(), 0, Tally::default());
    while let Some(&[1, kind, high, low]) = bytes.get(used..used + HEADER) {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < HEADER {
            // Where the next one begins is not known; byte by byte it is found, or the end of the protocol is.
            tally.malformed += 1;
            used += 1;
            continue;
        }
        let Some(message) = bytes.get(used + HEADER..used + length) else { break };
        match kind {
            1 => drop(decode(message, None, &mut messages, &mut tally)),
            _ => tally.skipped += 1,
        }
        used += length;
    }
    (messages, used, tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::io::Write;

    /// An IPv4 blackhole route to 10.0.`third`.0/24.
    fn route(third: u8) -> Vec<u8> {
        let head = [2, 24, 0, 0, 254, 186, 0, 6, 0, 0, 0, 0];
        let attribute = [8u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat();
        let body = [&head[..], &attribute, &[10, 0, third, 0]].concat();
        let header = [&((body.len() + 16) as u32).to_ne_bytes()[..], &24u16.to_ne_bytes(), &[0; 10]].concat();
        [header, body].concat()
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[1, 1][..], &((message.len() + HEADER) as u16).to_be_bytes(), message].concat()
    }

    #[test]
    fn messages_come_in_pieces() {
        let bytes: Vec<u8> = (0..10).flat_map(|third| framed(&route(third))).collect();
        let (messages, used, tally) = unpack(&bytes);
        assert_eq!((messages.len(), used, tally), (10, bytes.len(), Tally::default()));
        for cut in 0..bytes.len() {
            let (first, used, _) = unpack(&bytes[..cut]);
            let (second, rest, _) = unpack(&bytes[used..]);
            assert_eq!((first.len() + second.len(), used + rest), (10, bytes.len()), "cut at {cut}");
        }
        assert_eq!(unpack(b"GET / HTTP/1.1").1, 0);
    }

    #[test]
    fn whatever_the_bytes_are() {
        let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random);
        println!("PERIGEE_FUZZ_SEED={seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..50_000 {
            let mut bytes: Vec<u8> = (0..random.random_range(0..4)).flat_map(|n| framed(&route(n))).collect();
            for _ in 0..random.random_range(0..6) {
                if let Some(at) = (!bytes.is_empty()).then(|| random.random_range(0..bytes.len())) {
                    bytes[at] = random.random();
                }
            }
            bytes.truncate(random.random_range(0..=bytes.len()));
            assert!(unpack(&bytes).1 <= bytes.len());
        }
    }

    fn wait(fpm: &mut Fpm) -> Update {
        for _ in 0..2000 {
            if let Some(update) = fpm.next() {
                return update;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no update");
    }

    #[test]
    fn zebra_calls_hangs_up_and_calls_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut fpm = Fpm::start(listener.into(), Duration::ZERO, || {}).unwrap();
        for call in 0..2 {
            let mut zebra = TcpStream::connect(address).unwrap();
            assert_eq!(wait(&mut fpm), Update::DumpBegins);
            zebra.write_all(&framed(&route(call))).unwrap();
            assert!(matches!(wait(&mut fpm), Update::Dumped(messages) if messages.len() == 1));
            assert_eq!(wait(&mut fpm), Update::DumpEnds { complete: true });
            zebra.write_all(&framed(&route(9))).unwrap();
            assert!(matches!(wait(&mut fpm), Update::News(messages) if messages.len() == 1));
        }
        let mut stranger = TcpStream::connect(address).unwrap();
        assert_eq!(wait(&mut fpm), Update::DumpBegins);
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(stranger.read(&mut [0; 8]).ok().filter(|n| *n > 0), None, "no answer but the end");
        assert_eq!(wait(&mut fpm), Update::DumpEnds { complete: false }, "what it did not name is not gone");
    }
}
