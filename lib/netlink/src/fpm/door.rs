// SPDX-License-Identifier: MIT
//! Where zebra connects to, and who else may: whoever does decides where packets go.

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perigee_helper::{NoSocket, SocketFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with, sockopt};

use super::peer;

/// A zebra whose machine is gone is noticed after half a minute: when its connection has been silent for this long, it
/// is asked,
const IDLE: Duration = Duration::from_secs(15);
/// this often, until it has not answered [`TRIES`] times.
const INTERVAL: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Connections that are looked at before zebra's is read again.
const MOST_AT_ONCE: usize = 16;
/// What is refused is said this often at most.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// Who may send routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guests {
    /// Processes of these users, on this machine.
    pub users: Vec<u32>,
    /// Other machines, and other network namespaces.
    pub addresses: Vec<IpAddr>,
}

/// Where connections come in.
#[derive(Debug)]
pub struct Door {
    socket: Socket,
    guests: Guests,
    strangers: Refused,
    seconds: Refused,
}

#[derive(Debug)]
enum Socket {
    Tcp { listener: TcpListener, diagnosis: OwnedFd },
    Unix { listener: OwnedFd, path: PathBuf },
}

/// What was refused of one kind, and not said.
#[derive(Debug, Default)]
struct Refused {
    said: Option<Instant>,
    since: u64,
}

impl Refused {
    fn say(&mut self, why: &str) {
        if self.said.is_some_and(|said| said.elapsed() < SAY_AGAIN) {
            self.since += 1;
            return;
        }
        let more = match self.since {
            0 => String::new(),
            since => format!(" ({since} more were refused before)"),
        };
        tracing::warn!("{why}{more}");
        *self = Refused { said: Some(Instant::now()), since: 0 };
    }
}

impl Door {
    /// By TCP. `diagnosis`: a socket by [`perigee_helper::open_diagnosis`], in the namespace of the listener.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn tcp(listener: OwnedFd, diagnosis: OwnedFd, guests: Guests) -> io::Result<Door> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Door {
            socket: Socket::Tcp { listener, diagnosis },
            guests,
            strangers: Refused::default(),
            seconds: Refused::default(),
        })
    }

    /// By a unix socket, which its user alone can connect to, and members of `group`, if there is one. Its file is the
    /// caller's, as the door's thread may remove nothing.
    ///
    /// # Errors
    /// There is a file, or another router listens there; or the system refuses it.
    pub fn unix(path: &Path, group: Option<u32>, guests: Guests) -> io::Result<(Door, SocketFile)> {
        let (listener, file) = SocketFile::listen(path, group, BACKLOG).map_err(|error| match error {
            NoSocket::System(error) => error,
            other => io::Error::other(other),
        })?;
        let door = Door {
            socket: Socket::Unix { listener, path: path.to_owned() },
            guests,
            strangers: Refused::default(),
            seconds: Refused::default(),
        };
        Ok((door, file))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp { listener, .. } => listener.as_fd(),
            Socket::Unix { listener, .. } => listener.as_fd(),
        }
    }

    /// The connection of a guest, if one waits, with its name, and `open` is not that of a zebra that is alive: a
    /// second one never replaces the first. Whoever else waits is sent away.
    pub(super) fn let_in(&mut self, open: Option<&OwnedFd>) -> Option<(OwnedFd, String)> {
        for _ in 0..MOST_AT_ONCE {
            let (stream, name) = match self.accept()? {
                Ok(guest) => guest,
                Err(why) => {
                    self.strangers.say(&why);
                    continue;
                }
            };
            if open.is_none_or(is_over) {
                return Some((stream, name));
            }
            self.seconds.say(&format!(
                "a second connection for routes, {name}, is refused: the first one is alive; end that zebra first"
            ));
        }
        None
    }

    /// The next connection, or why it is refused; `None`: there is none.
    fn accept(&self) -> Option<Result<(OwnedFd, String), String>> {
        let refused = |who: String, why: String| Err(format!("a connection for routes {who} is refused: {why}"));
        let stranger = |who: &str| {
            let why =
                format!("{who} is not one of those who may send routes; add it to `fpm_from` in [linux] if it may");
            move |from: String| refused(from, why)
        };
        Some(match &self.socket {
            Socket::Unix { listener, path } => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let stream = accept_with(listener, flags).ok()?;
                let at = format!("at {}", path.display());
                match sockopt::socket_peercred(&stream) {
                    Err(error) => refused(at, format!("its user is not known: {error}")),
                    Ok(who) if self.guests.users.contains(&who.uid.as_raw()) => {
                        Ok((stream, format!("of user {}, {at}", who.uid.as_raw())))
                    }
                    Ok(who) => stranger(&format!("user {}", who.uid.as_raw()))(at),
                }
            }
            Socket::Tcp { listener, diagnosis } => {
                let (stream, from) = listener.accept().ok()?;
                let prepared = stream.set_nonblocking(true).and_then(|()| keep_alive(&stream));
                let user = prepared.and_then(|()| peer::user(diagnosis.as_fd(), &stream));
                let address = from.ip().to_canonical();
                match user {
                    Err(error) => refused(format!("from {from}"), format!("whose it is cannot be found out: {error}")),
                    Ok(Some(user)) if self.guests.users.contains(&user) => {
                        Ok((stream.into(), format!("of user {user}, from {from}")))
                    }
                    Ok(Some(user)) => stranger(&format!("user {user}"))(format!("from {from}")),
                    Ok(None) if self.guests.addresses.contains(&address) => Ok((stream.into(), format!("from {from}"))),
                    Ok(None) => stranger(&address.to_string())(format!("from {from}")),
                }
            }
        })
    }
}

/// Whether the other end has hung up, with what it sent before still to be read or not.
pub(super) fn is_over(stream: impl AsFd) -> bool {
    let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut fds = [PollFd::new(&stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(over))
}

/// Has the kernel notice that the other end is gone without having hung up.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, TRIES)?;
    Ok(())
}
