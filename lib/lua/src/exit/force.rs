// SPDX-License-Identifier: MIT
//! The end of the process where nothing else is sure to work: any thread may hold any lock for ever, that of the dynamic loader, of `malloc` or of
//! the log. So a line is put together on the stack, written by one system call, and the kernel does the rest. What runs here may run in
//! a signal handler.

use std::fmt::{self, Write};

/// Says in a line why, and ends the process at once. The helper restores the interfaces when its socket closes.
pub fn end_by_force(why: fmt::Arguments<'_>) -> ! {
    say(format_args!("{why}: it ends by force, and the helper restores the interfaces"));
    loop {
        // SAFETY: neither has requirements. The first process of a container does not die of SIGKILL.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
            libc::_exit(128 + libc::SIGKILL);
        }
    }
}

/// Writes a line to the log, at once or not at all.
pub(super) fn say(text: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 1024], length: 0 };
    let _ = line.write_str("ERROR ").and_then(|()| line.write_fmt(text));
    let (length, mut stderr) =
        (line.length, libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 });
    line.text[length] = b'\n';
    // SAFETY: `stderr` and `text` are valid; a line that is shorter than PIPE_BUF fits where poll says that something does, so that nothing
    // is waited for.
    unsafe {
        if libc::poll(&raw mut stderr, 1, 100) == 1 {
            libc::write(libc::STDERR_FILENO, line.text.as_ptr().cast(), length + 1);
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
