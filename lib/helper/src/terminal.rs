// SPDX-License-Identifier: MIT
//! Giving up terminals. Whoever holds a terminal can push characters into it (`TIOCSTI`), which root's shell runs as
//! soon as it reads them, and can read what root types. So a router that was started from a terminal is a process of
//! its own session, and the process that the shell started stays in front of it, with the terminal and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

/// Whether the process has a terminal: as its input or output, or as what its session is controlled by.
#[must_use]
pub fn is_there() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal() || open("/dev/tty").is_ok()
}

/// Gives up the terminals of a process that has none as its output: its session, its input, and descriptors that it
/// inherited. To be called before anything is opened.
///
/// # Errors
/// The process leads a group, and so cannot leave its session; or the kernel refuses.
pub fn give_up() -> io::Result<()> {
    if open("/dev/tty").is_ok() {
        setsid()?;
    }
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number > 2)
            && std::fs::metadata(entry.path()).is_ok_and(|file| file.file_type().is_char_device())
            && open(entry.path()).is_ok_and(|file| file.is_terminal())
        {
            nix::unistd::close(number)?;
        }
    }
    Ok(())
}

/// Has the router asked to end when the process in front of it is gone, however that comes. The kernel forgets it when
/// the process becomes another user.
///
/// # Errors
/// It is gone already.
pub fn end_with(front: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    match getppid() == Some(front) {
        true => Ok(()),
        false => Err(io::Error::other("the process that the router was started by has ended")),
    }
}

/// Opens a file that may be a terminal, without making it the session's.
fn open(path: impl AsRef<std::path::Path>) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(path)
}
