// SPDX-License-Identifier: MIT
//! Whose a TCP connection is that comes from this machine: the kernel's socket diagnosis (sock_diag(7),
//! linux/inet_diag.h) knows the user of the socket at the other end.
//!
//! The answer is about two addresses with ports, not about a connection, so it might be about another one that has the
//! same: by a process that connected, hung up at once, and left its port to the next. Therefore our own end is looked
//! at afterwards. As long as it is established, nobody else can be connected from there.

use std::io::{self, Error, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use super::door::is_over;
use rustix::fs::fstat;
use rustix::net::{RecvFlags, SendFlags, recv, send};

const REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_msg`.
const ANSWER: usize = 72;
const TCP: u8 = 6;
/// `TCP_ESTABLISHED`: a socket that is about to end has no user any more, and the kernel says 0 for it, which is
/// root's.
const ESTABLISHED: u8 = 1;

/// What the kernel knows of a socket.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    established: bool,
    user: u32,
    inode: u32,
}

/// The user of the process at the other end, if that is a process in the network namespace of `diagnosis`, a socket by
/// [`perigee_helper::open_diagnosis`], and the kernel has the diagnosis of TCP's sockets.
///
/// # Errors
/// The connection is over, or the kernel does not answer.
pub(super) fn user(diagnosis: BorrowedFd, stream: &TcpStream) -> io::Result<Option<u32>> {
    let (own, peer) = (stream.local_addr()?, stream.peer_addr()?);
    let over = || Error::new(ErrorKind::NotConnected, "it is over already");
    let theirs = ask(diagnosis, peer, own)?;
    let inode = fstat(stream)?.st_ino;
    match ask(diagnosis, own, peer)? {
        Some(ours) if ours.established && u64::from(ours.inode) == inode => {}
        // A kernel without the diagnosis says the same of all sockets.
        None if !is_over(stream) => return Ok(None),
        _ => return Err(over()),
    }
    match theirs {
        None => Ok(None),
        Some(theirs) if theirs.established && theirs.inode != 0 => Ok(Some(theirs.user)),
        Some(_) => Err(over()),
    }
}

/// The socket that is bound to `own` and connected to `peer`.
fn ask(diagnosis: BorrowedFd, own: SocketAddr, peer: SocketAddr) -> io::Result<Option<Known>> {
    let request = request(own, peer);
    send(diagnosis, &request, SendFlags::empty())?;
    let mut answer = [0; 1024];
    loop {
        // The kernel has answered by the time that the request is sent.
        match recv(diagnosis.as_fd(), &mut answer, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            result => return read(&answer[..result?.0]),
        }
    }
}

/// `struct inet_diag_req_v2` behind a header.
fn request(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (from, to) = (own.ip().to_canonical(), peer.ip().to_canonical());
    // AF_INET, AF_INET6.
    let family = if from.is_ipv4() { 2 } else { 10 };
    let mut body = vec![family, TCP, 0, 0];
    // Whatever their states.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(own.port().to_be_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(octets(from));
    body.extend(octets(to));
    // Any interface, no cookie.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let length = (HEADER + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            octets
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// Reads an answer: `struct inet_diag_msg`, or an error. No socket is no error.
fn read(message: &[u8]) -> io::Result<Option<Known>> {
    let short = || Error::new(ErrorKind::InvalidData, "an answer of the kernel's is too short");
    let word = |at: usize| {
        let bytes = message.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(short)
    };
    let kind = (word(4)? & 0xffff).to_ne_bytes();
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        NLMSG_ERROR => {
            let error = Error::from_raw_os_error(word(HEADER)?.cast_signed().wrapping_neg());
            // ENOENT.
            if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }
        SOCK_DIAG_BY_FAMILY if message.len() >= HEADER + ANSWER => Ok(Some(Known {
            established: message[HEADER + 1] == ESTABLISHED,
            user: word(HEADER + 64)?,
            inode: word(HEADER + 68)?,
        })),
        _ => Err(short()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (theirs, listener.accept().unwrap().0)
    }

    fn own_user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_user_at_the_other_end_is_known_while_it_is_connected() {
        let diagnosis = perigee_helper::open_diagnosis().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (theirs, ours) = pair(address);
            assert_eq!(user(diagnosis.as_fd(), &ours).unwrap(), Some(own_user()), "{address}");
            // What has hung up has no user: the kernel would say root.
            drop(theirs);
            assert!(user(diagnosis.as_fd(), &ours).is_err(), "{address}");
        }
        // IPv4 at a listener for both families.
        let listener = TcpListener::bind("[::]:0").unwrap();
        let _theirs = TcpStream::connect(("127.0.0.1", listener.local_addr().unwrap().port())).unwrap();
        let ours = listener.accept().unwrap().0;
        assert_eq!(user(diagnosis.as_fd(), &ours).unwrap(), Some(own_user()));
    }

    /// A port that was left to another process must not lend its user to what the first one has sent.
    #[test]
    fn a_connection_that_was_reset_is_nobodys_even_if_its_port_is_used_again() {
        let diagnosis = perigee_helper::open_diagnosis().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let first = TcpStream::connect(address).unwrap();
        let ours = listener.accept().unwrap().0;
        // Unread data make its end a reset.
        rustix::io::write(&ours, b"x").unwrap();
        let from = first.local_addr().unwrap();
        while first.peek(&mut [0]).unwrap() == 0 {}
        drop(first);
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let again = listener.accept().unwrap().0;
        assert_eq!((again.peer_addr().unwrap(), user(diagnosis.as_fd(), &again).unwrap()), (from, Some(own_user())));
        assert!(user(diagnosis.as_fd(), &ours).is_err());
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let mut message = vec![0; HEADER + ANSWER];
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message[HEADER + 1] = ESTABLISHED;
        message[HEADER + 64..HEADER + 68].copy_from_slice(&1000_u32.to_ne_bytes());
        message[HEADER + 68..].copy_from_slice(&7_u32.to_ne_bytes());
        let known = Known { established: true, user: 1000, inode: 7 };
        assert_eq!(read(&message).unwrap(), Some(known));
        for length in 0..message.len() {
            assert!(read(&message[..length]).is_err(), "{length}");
        }
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        for (code, expected) in [(2_i32, Some(None)), (1, None)] {
            message[HEADER..HEADER + 4].copy_from_slice(&(-code).to_ne_bytes());
            assert_eq!(read(&message).ok(), expected, "{code}");
        }
    }
}
