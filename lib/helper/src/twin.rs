// SPDX-License-Identifier: MIT
//! A twin: the TAP interface through which Linux sees a port.
//!
//! Frames that are written to it arrive in Linux as if from the wire; frames that Linux sends over it are read here.
//! The helper makes it; the interface vanishes with the last copy of its descriptor.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One end of a TAP interface. Never blocks.
#[derive(Debug)]
pub struct Twin {
    file: File,
}

impl Twin {
    /// Takes over the descriptor of a TAP without packet information.
    ///
    /// # Errors
    /// The descriptor cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self { file: File::from(fd) })
    }

    /// Reads one Ethernet frame that Linux sent, cut off at the end of `buffer`; returns its length, or `None` if none
    /// is waiting.
    ///
    /// # Errors
    /// The interface was deleted (`EBADFD`) or set down (`EIO`).
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives one Ethernet frame to Linux; returns `false` if Linux has no room for it now.
    ///
    /// # Errors
    /// The interface was deleted (`EBADFD`) or is down (`EIO`), or the frame is shorter than its header (`EINVAL`).
    pub fn write(&self, frame: &[u8]) -> io::Result<bool> {
        loop {
            match (&self.file).write(frame) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Most threads that wait for the kernel.
const THREADS: usize = 256;

/// Drops twins, several at a time: with each interface that vanishes the kernel waits for all cores, 23 ms and longer
/// on a busy machine.
pub fn close_together(twins: Vec<Twin>) {
    let each = twins.len().div_ceil(THREADS).max(1);
    let mut twins = twins.into_iter();
    std::thread::scope(|scope| {
        while twins.len() > 0 {
            let share: Vec<Twin> = twins.by_ref().take(each).collect();
            // Where no thread can be started, they are dropped here.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || drop(share));
        }
    });
}

impl AsFd for Twin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
