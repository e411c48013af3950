// SPDX-License-Identifier: MIT
//! FRR's forwarding plane manager protocol: zebra (`-M dplane_fpm_nl`) connects over TCP and sends each route as a
//! netlink message behind a header of four bytes: version 1, type 1 (netlink), length including the header in network
//! byte order (FRR's fpm/fpm.h).
//!
//! Once connected, zebra sends its whole table, and afterwards what changes. No message marks the end of the table, and
//! the only way to ask for it again is to hang up. So a route that zebra does not name again counts as gone after the
//! time called [`hold`](listen): a zebra that was restarted takes a while to learn its routes, and meanwhile the old
//! ones stay (graceful restart).

mod door;
mod peer;

pub use door::{Door, Guests};

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::background::{Background, Reporter, Stopped};
use crate::decode::{Tally, decode};
use crate::message::Message;
use crate::{Source, Update};

/// Bytes read at once; a message has 64 KB at most.
const BUFFER: usize = 256 * 1024;
/// Bytes of the header.
const HEADER: usize = 4;
/// zebra has sent its whole table when nothing has come for this long.
const QUIET: Duration = Duration::from_secs(1);
/// A zebra whose routes change all the time is never quiet: behind `hold`, its table has been sent after this time.
const LONGEST: Duration = Duration::from_secs(300);

/// Waits for zebra at `door`. After zebra has connected for the second time, routes that it does not name within `hold`
/// are gone. A dump is asked for by hanging up: zebra connects again and sends everything. `bell` is rung after each
/// update; when the source is dropped, its thread ends.
///
/// # Errors
/// The system refuses an eventfd or a thread.
pub fn listen(mut door: Door, hold: Duration, bell: impl Fn() + Send + 'static) -> io::Result<impl Source> {
    Background::start("fpm", bell, move |reporter| {
        // It ends when nobody takes its updates any more.
        let _ = Reader { reporter, hold, state: State::default() }.run(&mut door);
    })
}

/// The state of the connection.
#[derive(Default)]
struct State {
    /// Until when messages belong to a dump.
    dump_until: Option<Instant>,
    /// When something last came.
    heard: Option<Instant>,
    /// Whether there was a connection before.
    before: bool,
    /// The beginning of a message whose end has not come yet.
    rest: Vec<u8>,
}

impl State {
    fn dump_is_over(&self, now: Instant) -> bool {
        let quiet = self.heard.is_none_or(|heard| now.saturating_duration_since(heard) >= QUIET);
        self.dump_until.is_some_and(|until| until <= now && (quiet || until + LONGEST <= now))
    }
}

struct Reader {
    reporter: Reporter,
    hold: Duration,
    state: State,
}

impl Reader {
    fn run(mut self, door: &mut Door) -> Result<(), Stopped> {
        let mut stream: Option<OwnedFd> = None;
        let mut buffer = vec![0; BUFFER];
        loop {
            self.reporter.stopped()?;
            if self.reporter.take_dump_request() {
                stream = None;
                self.broken_off()?;
            }
            if let Some((fresh, name)) = door.let_in(stream.as_ref()) {
                if stream.is_some() {
                    self.broken_off()?;
                }
                tracing::info!("zebra has connected, {name}");
                stream = Some(fresh);
                self.begin()?;
            }
            match &stream {
                Some(open) => match rustix::io::read(open, &mut buffer[..]) {
                    Ok(0) => {
                        tracing::info!("zebra has hung up; its routes stay until it is back");
                        stream = None;
                        self.broken_off()?;
                    }
                    Ok(length) => {
                        self.take(&buffer[..length])?;
                        // Anything that does not begin with the protocol's version is not zebra.
                        if self.state.rest.first().is_some_and(|version| *version != 1) {
                            stream = None;
                            self.broken_off()?;
                        }
                    }
                    Err(Errno::AGAIN | Errno::INTR) => self.sleep(&[door.fd(), open.as_fd()]),
                    Err(_) => {
                        stream = None;
                        self.broken_off()?;
                    }
                },
                None => self.sleep(&[door.fd()]),
            }
            self.end_of_dump()?;
        }
    }

    fn sleep(&self, fds: &[BorrowedFd]) {
        let wait = if self.state.dump_until.is_some() { 100 } else { 900 };
        // Without poll, the loop goes on by trying.
        let _ = self.reporter.sleep(fds, Some(Duration::from_millis(wait)));
    }

    fn begin(&mut self) -> Result<(), Stopped> {
        let hold = if self.state.before { self.hold } else { Duration::ZERO };
        let now = Instant::now();
        self.state = State { dump_until: Some(now + hold), heard: Some(now), before: true, rest: Vec::new() };
        self.reporter.count_dump();
        self.reporter.pass(Update::DumpBegins)
    }

    /// The connection is over: routes that were not named in it are not gone.
    fn broken_off(&mut self) -> Result<(), Stopped> {
        match self.state.dump_until.take() {
            Some(_) => self.reporter.pass(Update::DumpEnds { complete: false }),
            None => Ok(()),
        }
    }

    /// Ends the dump if its time is over and nothing comes any more.
    fn end_of_dump(&mut self) -> Result<(), Stopped> {
        if self.state.dump_is_over(Instant::now()) {
            self.state.dump_until = None;
            return self.reporter.pass(Update::DumpEnds { complete: true });
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.state.heard = Some(Instant::now());
        self.state.rest.extend_from_slice(bytes);
        let (messages, used, tally) = unpack(&self.state.rest);
        self.state.rest.drain(..used);
        self.reporter.count(tally);
        if messages.is_empty() {
            return Ok(());
        }
        let dumped = self.state.dump_until.is_some();
        self.reporter.pass(if dumped { Update::Dumped(messages) } else { Update::Notifications(messages) })
    }
}

/// Decodes the complete messages at the start of `bytes`; also returns the number of bytes that they take. It stops
/// where a header does not begin with version 1.
pub fn unpack(bytes: &[u8]) -> (Vec<Message>, usize, Tally) {
    let (mut messages, mut used, mut tally) = (Vec::new(), 0, Tally::default());
    while let Some(&[1, kind, high, low]) = bytes.get(used..used + HEADER) {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < HEADER {
            // Nothing says where the next message begins, so look for it byte by byte.
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
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

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

    /// Its stale routes were never withdrawn.
    #[test]
    fn a_zebra_that_is_never_quiet_has_sent_its_table_in_the_end() {
        let begin = Instant::now();
        let over = |heard: u64, now: u64| {
            let [heard, now] = [heard, now].map(|seconds| begin + Duration::from_secs(seconds));
            let until = begin + Duration::from_secs(60);
            State { dump_until: Some(until), heard: Some(heard), ..State::default() }.dump_is_over(now)
        };
        assert!(!over(10, 59) && over(10, 60) && over(59, 61), "quiet, before hold and behind it");
        assert!(!over(60, 60) && !over(359, 359) && over(360, 360), "never quiet");
        assert!(!State::default().dump_is_over(begin), "no dump");
    }

    fn wait(fpm: &mut impl Source) -> Update {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(180) {
            if let Some(update) = fpm.next() {
                return update;
            }
            // sleep: between two looks
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no update came in 180 s");
    }

    /// Those who may connect: our own user, or nobody.
    fn guests(own: bool) -> Guests {
        let users = own.then(|| rustix::process::geteuid().as_raw()).into_iter().collect();
        Guests { users, addresses: Vec::new() }
    }

    fn door(guests: Guests) -> (Door, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Door::tcp(listener.into(), perigee_helper::open_diagnosis().unwrap(), guests).unwrap(), address)
    }

    /// Waits until the other end has hung up, without having said anything.
    fn is_sent_away(mut stranger: impl Read) {
        assert_eq!(stranger.read(&mut [0; 8]).ok().filter(|n| *n > 0), None, "an answer");
    }

    #[test]
    fn zebra_calls_hangs_up_and_calls_again() {
        let (door, address) = door(guests(true));
        let mut fpm = listen(door, Duration::ZERO, || {}).unwrap();
        for call in 0..2 {
            let mut zebra = TcpStream::connect(address).unwrap();
            assert_eq!(wait(&mut fpm), Update::DumpBegins);
            zebra.write_all(&framed(&route(call))).unwrap();
            assert!(matches!(wait(&mut fpm), Update::Dumped(messages) if messages.len() == 1));
            assert_eq!(wait(&mut fpm), Update::DumpEnds { complete: true });
            zebra.write_all(&framed(&route(9))).unwrap();
            assert!(matches!(wait(&mut fpm), Update::Notifications(messages) if messages.len() == 1));
        }
        let mut stranger = TcpStream::connect(address).unwrap();
        assert_eq!(wait(&mut fpm), Update::DumpBegins);
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        is_sent_away(stranger);
        assert_eq!(wait(&mut fpm), Update::DumpEnds { complete: false }, "what it did not name is not gone");
    }

    /// The latest connection was taken for that of the zebra that is alive: any local process replaced it.
    #[test]
    fn a_second_zebra_never_replaces_the_first() {
        let (door, address) = door(guests(true));
        let mut fpm = listen(door, Duration::ZERO, || {}).unwrap();
        let mut zebra = TcpStream::connect(address).unwrap();
        assert_eq!(wait(&mut fpm), Update::DumpBegins);
        assert_eq!(wait(&mut fpm), Update::DumpEnds { complete: true });
        for _ in 0..20 {
            let mut second = TcpStream::connect(address).unwrap();
            let _ = second.write_all(&framed(&route(66)));
            is_sent_away(second);
        }
        zebra.write_all(&framed(&route(1))).unwrap();
        let first = |messages: &[Message]| matches!(messages, [Message::Route(change)] if format!("{change:?}").contains("10.0.1.0"));
        assert!(matches!(wait(&mut fpm), Update::Notifications(messages) if first(&messages)));
        // Started again, it gets in at once, even if what the first one sent last has not been read.
        zebra.write_all(&framed(&route(2))).unwrap();
        drop(zebra);
        let _again = TcpStream::connect(address).unwrap();
        while wait(&mut fpm) != Update::DumpBegins {}
    }

    /// A process of any user replaced zebra's routes.
    #[test]
    fn users_and_addresses_that_are_not_named_are_sent_away() {
        let (door, address) = door(Guests { addresses: vec!["127.0.0.1".parse().unwrap()], ..guests(false) });
        let mut fpm = listen(door, Duration::ZERO, || {}).unwrap();
        let mut stranger = TcpStream::connect(address).unwrap();
        let _ = stranger.write_all(&framed(&route(66)));
        is_sent_away(stranger);
        assert_eq!(fpm.next(), None, "its user is known, so its address is not enough");
        let folder = tempfile::tempdir().unwrap();
        for (own, name) in [(false, "strangers"), (true, "own")] {
            let path = folder.path().join(name);
            let (door, file) = Door::unix(&path, None, guests(own)).unwrap();
            let mut fpm = listen(door, Duration::ZERO, || {}).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let mut zebra = UnixStream::connect(&path).unwrap();
            match own {
                true => assert_eq!(wait(&mut fpm), Update::DumpBegins),
                false => {
                    let _ = zebra.write_all(&framed(&route(66)));
                    is_sent_away(zebra);
                    assert_eq!(fpm.next(), None);
                }
            }
            assert!(Door::unix(&path, None, guests(own)).is_err(), "another router listens there");
            drop((fpm, file));
            assert!(!path.exists(), "the file is removed with what `Door::unix` returns");
        }
    }

    #[test]
    fn the_socket_of_a_router_that_was_killed_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fpm");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(Door::unix(&path, None, guests(true)).unwrap());
        std::fs::write(&path, "text").unwrap();
        assert!(Door::unix(&path, None, guests(true)).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }
}
