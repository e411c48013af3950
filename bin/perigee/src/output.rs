// SPDX-License-Identifier: MIT
//! Output that nobody reads any more is no error: `perigee show routes | head`, a log whose reader has died.

use anyhow::{Context as _, Result};
use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

/// Prints to standard output; it is not an error if the reader has seen enough (`| head`).
pub fn print(text: &str) -> Result<ExitCode> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("the standard output cannot be written to")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// For `print!`.
///
/// # Panics
/// The output cannot be written, as to a file where no space is left.
pub fn out(text: Arguments) {
    if let Err(error) = std::io::stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
    {
        panic!("the standard output cannot be written to: {error}");
    }
}

/// For `eprint!`: whoever does not read this misses it.
pub fn note(text: Arguments) {
    let _ = std::io::stderr().write_fmt(text);
}

// Those of std panic where nobody reads.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::out(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => { $crate::output::out(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::note(format_args!($($text)*)) };
}
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::note(format_args!("{}\n", format_args!($($text)*))) };
}
