// SPDX-License-Identifier: MIT
//! The end of the process where nothing else is sure to work: any thread may hold any lock for ever, that of the
//! dynamic loader, of `malloc` or of the log. So a line is put together on the stack, written by one system call, and
//! the kernel does the rest. What runs here may run in a signal handler.

use std::ffi::c_int;
use std::fmt::{self, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Says in a line why, and ends the process at once. The helper restores the interfaces when its socket closes.
pub fn end_by_force(why: fmt::Arguments<'_>) -> ! {
    say(format_args!("{why}: it ends by force, and the helper restores the interfaces"));
    // SAFETY: neither has requirements. The first process of a container does not die of SIGKILL.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(128 + libc::SIGKILL);
    }
}

/// Sees to it that the process ends within a time from now on, by this code: destructors of C modules run in `exit`,
/// and one may not return.
pub fn end_within(longest: Duration, code: u8) {
    let (started, waiting) = sync_channel(1);
    let body = move || {
        let _ = started.send(());
        std::thread::sleep(longest);
        say(format_args!("a destructor of a C module did not return within {longest:?}: the process ends without it"));
        // SAFETY: has no requirements.
        unsafe { libc::_exit(code.into()) }
    };
    // Without the thread, the process may end later. It has to run before `exit` keeps the dynamic loader locked.
    if std::thread::Builder::new().name("end".to_owned()).spawn(body).is_ok() {
        let _ = waiting.recv();
    }
}

/// Writes a line to the log, at once or not at all.
pub(super) fn say(text: fmt::Arguments<'_>) {
    write_line(libc::STDERR_FILENO, text);
}

fn write_line(to: c_int, text: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 1024], length: 0 };
    let _ = line.write_str("ERROR ").and_then(|()| line.write_fmt(text));
    let (length, mut room) = (line.length, libc::pollfd { fd: to, events: libc::POLLOUT, revents: 0 });
    line.text[length] = b'\n';
    // SAFETY: `room` and `text` are valid; a line that is shorter than PIPE_BUF fits where poll says that something
    // does, so that nothing is waited for.
    unsafe {
        if libc::poll(&raw mut room, 1, 100) == 1 {
            libc::write(to, line.text.as_ptr().cast(), length + 1);
        }
    }
}

/// A line without memory of its own.
struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is for the end of the line.
        let room = self.text.len() - 1 - self.length;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.text[self.length..][..taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_line_is_written_at_once_or_not_at_all() {
        let (mut read, mut write) = std::io::pipe().unwrap();
        write_line(write.as_raw_fd(), format_args!("one {}", 1));
        write_line(write.as_raw_fd(), format_args!("{}", "x".repeat(5000)));
        let mut text = [0; 12 + 1024];
        read.read_exact(&mut text).unwrap();
        assert!(text.starts_with(b"ERROR one 1\nERROR xxx") && text.ends_with(b"x\n"));
        // Nobody reads any more, and the pipe is full: the line is lost, and this returns.
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        while write.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
        assert_eq!(write.write(&[0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        rustix::io::ioctl_fionbio(&write, false).unwrap();
        write_line(write.as_raw_fd(), format_args!("two"));
    }
}
