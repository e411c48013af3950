// SPDX-License-Identifier: MIT
//! Whose a socket of an abstract name is, where no connection says it: the kernel's socket diagnosis (sock_diag(7),
//! linux/unix_diag.h) knows the user who made each unix socket of the network namespace.

use std::collections::BTreeSet;
use std::io::{self, Error, ErrorKind};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::sockets::open_diagnosis;

/// Linux's numbers: messages of netlink and their flags, the attributes of an answer, and what makes the kernel give
/// them.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
const SHOW_NAME_AND_UID: u32 = 0x41;
const AF_UNIX: u8 = 1;
const STREAM: u8 = 1;
/// Bytes of `struct nlmsghdr`, and of `struct unix_diag_msg`.
const HEADER: usize = 16;
const ANSWER: usize = 16;
/// The kernel makes no longer part of a dump.
const LONGEST: usize = 64 << 10;

/// The users of the sockets that have an abstract name; there is none if it was given back.
///
/// # Errors
/// The kernel has no diagnosis of unix sockets, or does not answer.
pub(super) fn users(name: &str) -> io::Result<BTreeSet<u32>> {
    let socket = open_diagnosis()?;
    send(&socket, &request(), SendFlags::empty())?;
    let (mut users, mut answer) = (BTreeSet::new(), vec![0; LONGEST]);
    loop {
        // The kernel has the next part ready whenever one is taken.
        let length = match recv(&socket, answer.as_mut_slice(), RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?.0,
        };
        if read(&answer[..length], name, &mut users)? {
            return Ok(users);
        }
    }
}

/// `struct unix_diag_req` behind a header: all sockets, whatever their states.
fn request() -> Vec<u8> {
    let mut body = vec![AF_UNIX, 0, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(0_u32.to_ne_bytes());
    body.extend(SHOW_NAME_AND_UID.to_ne_bytes());
    body.extend([0xff; 8]);
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Reads a part of the dump; returns whether it is the last one.
fn read(mut messages: &[u8], name: &str, users: &mut BTreeSet<u32>) -> io::Result<bool> {
    while !messages.is_empty() {
        let length = word(messages, 0)? as usize;
        let message = messages.get(..length).filter(|message| message.len() >= HEADER).ok_or_else(short)?;
        match half(message, 4)? {
            NLMSG_ERROR => return Err(error(message)?.unwrap_or_else(short)),
            NLMSG_DONE => return error(message)?.map_or(Ok(true), Err),
            SOCK_DIAG_BY_FAMILY => users.extend(user(message, name)?),
            _ => {}
        }
        messages = messages.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

/// The error that a message carries: its number, below zero, or none.
fn error(message: &[u8]) -> io::Result<Option<Error>> {
    let code = word(message, HEADER)?.cast_signed();
    Ok((code < 0).then(|| Error::from_raw_os_error(code.wrapping_neg())))
}

/// The user of the socket that a message is about, if it has the name. A connection that nobody has accepted has no
/// inode, and the kernel says root for it.
fn user(message: &[u8], name: &str) -> io::Result<Option<u32>> {
    let kind = *message.get(HEADER + 1).ok_or_else(short)?;
    let inode = word(message, HEADER + 4)?;
    let (mut is_named, mut user) = (false, None);
    let mut attributes = message.get(HEADER + ANSWER..).ok_or_else(short)?;
    while !attributes.is_empty() {
        let length = usize::from(half(attributes, 0)?);
        let value = attributes.get(4..length).ok_or_else(short)?;
        match half(attributes, 2)? {
            UNIX_DIAG_NAME => is_named = value.strip_prefix(&[0]) == Some(name.as_bytes()),
            UNIX_DIAG_UID => user = Some(word(value, 0)?),
            _ => {}
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    let is_it = is_named && kind == STREAM && inode != 0;
    if is_it && user.is_none() {
        // Linux before 5.3.
        return Err(Error::new(ErrorKind::Unsupported, "the kernel does not say whose a unix socket is"));
    }
    Ok(user.filter(|_| is_it))
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn short() -> Error {
    Error::new(ErrorKind::InvalidData, "an answer of the kernel's is too short")
}

fn half(bytes: &[u8], at: usize) -> io::Result<u16> {
    let bytes = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u16::from_ne_bytes).ok_or_else(short)
}

fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_ne_bytes).ok_or_else(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket of this type, with this inode, name and user.
    fn message(kind: u8, inode: u32, name: &str, user: u32) -> Vec<u8> {
        let mut message = vec![0; HEADER + ANSWER];
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message[HEADER..HEADER + 2].copy_from_slice(&[AF_UNIX, kind]);
        message[HEADER + 4..HEADER + 8].copy_from_slice(&inode.to_ne_bytes());
        let value = [&[0], name.as_bytes()].concat();
        for (number, value) in [(UNIX_DIAG_NAME, value), (UNIX_DIAG_UID, user.to_ne_bytes().to_vec())] {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(number.to_ne_bytes());
            message.extend(value);
            message.resize(aligned(message.len()), 0);
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn end(kind: u16, code: i32) -> Vec<u8> {
        let mut message = 20_u32.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(code.to_ne_bytes());
        message
    }

    #[test]
    fn the_user_of_a_name_is_that_of_its_socket() {
        let (mut users, datagram) = (BTreeSet::new(), 2);
        let messages = [
            message(STREAM, 7, "a", 1000),
            message(STREAM, 8, "ab", 1001),
            message(datagram, 9, "a", 1002),
            // Connected, and not accepted.
            message(STREAM, 0, "a", 0),
        ]
        .concat();
        assert!(!read(&messages, "a", &mut users).unwrap());
        assert_eq!(users, [1000].into());
        assert!(read(&end(NLMSG_DONE, 0), "a", &mut users).unwrap());
    }

    #[test]
    fn an_answer_that_is_an_error_or_too_short_is_refused() {
        let missing = rustix::io::Errno::NOENT.raw_os_error();
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            let error = read(&end(kind, -missing), "a", &mut BTreeSet::new()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(missing));
        }
        let whole = message(STREAM, 7, "abc", 1000);
        for length in 1..whole.len() {
            assert!(read(&whole[..length], "abc", &mut BTreeSet::new()).is_err(), "{length}");
            let mut cut = whole[..length].to_vec();
            if length >= 4 {
                cut[..4].copy_from_slice(&(length as u32).to_ne_bytes());
                // It has no such socket, or is refused.
                let mut users = BTreeSet::new();
                assert!(read(&cut, "abc", &mut users).is_err() || users.is_empty(), "{length}");
            }
        }
    }
}
