// SPDX-License-Identifier: MIT
//! The program that gives all frames of an interface to AF_XDP sockets: bpf/frames.c.

use super::{Below, FrameProgram};
use crate::sys::attach;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object, ObjectBuilder};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The compiled program.
const OBJECT: &[u8] = include_bytes!("../../bpf/frames.o");
/// Its map of sockets.
const SOCKETS: &str = "sockets";

/// The program, in the kernel.
pub(super) struct AllFrames(Object);

impl AllFrames {
    /// Loads it, for so many receive queues.
    pub fn load(queues: u32) -> io::Result<AllFrames> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(reason)?;
        let mut sockets = open.maps_mut().find(|map| map.name() == SOCKETS).ok_or_else(damaged)?;
        sockets.set_max_entries(queues).map_err(reason)?;
        Ok(AllFrames(open.load().map_err(reason)?))
    }
}

impl FrameProgram for AllFrames {
    fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let sockets = self.0.maps().find(|map| map.name() == SOCKETS).ok_or_else(damaged)?;
        let socket = socket.as_raw_fd().to_ne_bytes();
        sockets.update(&queue.to_ne_bytes(), &socket, MapFlags::ANY).map_err(reason)
    }

    fn attach(&self, below: &Below<'_>, in_driver: bool) -> io::Result<OwnedFd> {
        let program = self.0.progs_mut().next().ok_or_else(damaged)?;
        attach(&program, below.index.unsigned_abs(), in_driver)
    }
}

fn damaged() -> io::Error {
    io::Error::other("the object of the program is damaged: build perigee again")
}

/// The kernel's error, by which sentences are chosen.
fn reason(error: libbpf_rs::Error) -> io::Error {
    let number = match error.kind() {
        ErrorKind::PermissionDenied => libc::EPERM,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::InvalidInput => libc::EINVAL,
        _ => return io::Error::other(error),
    };
    io::Error::from_raw_os_error(number)
}
