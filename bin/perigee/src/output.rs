// SPDX-License-Identifier: MIT
//! Output that nobody reads any more is no error: `perigee show routes | head`, a log whose reader has died.

use anyhow::{Context as _, Result};
use std::fmt::{Arguments, Display};
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

/// For `print!`. If the output cannot be written, such as to a full disk, the program prints a sentence and ends in
/// order.
///
/// # Panics
/// The stack is unwound without a panic message if the output cannot be written.
pub fn out(text: Arguments) {
    if let Err(error) = std::io::stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
    {
        note(format_args!("perigee: the standard output cannot be written to: {error}\n"));
        std::panic::resume_unwind(Box::new(Unwritable));
    }
}

/// The payload of that unwinding.
struct Unwritable;

/// For `eprint!`: text that cannot be written is dropped.
pub fn note(text: Arguments) {
    let _ = std::io::stderr().write_fmt(text);
}

/// A word as a shell reads it, for commands to copy: in quotes if it has blanks or the like.
pub fn word(text: impl Display) -> String {
    let text = text.to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:,=@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

// The macros of std panic where the reader is gone.
#[cfg(feature = "measure")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_in_quotes_where_they_need_them() {
        assert_eq!(word("/tmp/a-b_c.sock"), "/tmp/a-b_c.sock");
        assert_eq!(word("/tmp/a b/perigee"), "'/tmp/a b/perigee'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
    }
}
