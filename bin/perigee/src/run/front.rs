// SPDX-License-Identifier: MIT
//! The process in front of a router that was started from a terminal: the one that the shell knows. It keeps the
//! terminal, passes on signals, and ends as the router ends; the router itself has no terminal, so nobody who takes it
//! over can type into one.
//!
//! ```text
//!  shell ──signals──► front ──signals──► router, in a session of its own, its input from nowhere
//!  terminal ◄──text── front ◄──a pipe── router's output, where that would be the terminal
//! ```

use anyhow::{Context as _, Result};
use perigee_helper::{confine, privileges};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long the output is waited for when the router has ended: a helper that hangs still holds it.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Runs the router behind this process, until it ends; returns how it ended.
///
/// # Errors
/// It cannot be started.
pub(super) fn stay() -> Result<ExitCode> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg(format!("--behind={}", getpid().as_raw_nonzero()));
    command.stdin(Stdio::null());
    if std::io::stderr().is_terminal() {
        command.arg("--colors").stderr(Stdio::piped());
    }
    if std::io::stdout().is_terminal() {
        command.stdout(Stdio::piped());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    // Before the router is started, so that none is missed.
    let mut signals = Signals::new()?;
    let mut router = command.spawn().context("the router cannot be started behind the terminal")?;
    drop(guard);
    privileges::keep_for_signals().context("the process at the terminal cannot give up its capabilities")?;
    // All that it does from here on needs no file. A kernel without Landlock has one barrier less.
    let _ = confine::files(&[]);
    let copied = copy_output(&mut router);
    let status = runtime.block_on(signals.pass_on_to(&mut router))?;
    // Each copy ends with its sender.
    while copied.recv_timeout(LAST_WORDS).is_ok() {}
    Ok(code(status))
}

/// The exit code, as a shell gives it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Copies what the router prints to the terminal. Each copy sends when it is through.
fn copy_output(router: &mut Child) -> std::sync::mpsc::Receiver<()> {
    let (through, copied) = channel();
    if let Some(pipe) = router.stdout.take() {
        spawn_copy(pipe, std::io::stdout(), through.clone());
    }
    if let Some(pipe) = router.stderr.take() {
        spawn_copy(pipe, std::io::stderr(), through);
    }
    copied
}

fn spawn_copy(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static, through: Sender<()>) {
    std::thread::spawn(move || {
        let (mut plain, mut buffer) = (Plain::default(), [0; 4096]);
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            // A terminal that is gone takes nothing more; the router goes on.
            let _ = to.write_all(plain.text(&buffer[..length]).as_bytes()).and_then(|()| to.flush());
        }
        let _ = through.send(());
    });
}

/// Signals that are meant for the router.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    stop: tokio::signal::unix::Signal,
    ended: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        // SIGTSTP has no name there.
        let stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stop,
            ended: signal(SignalKind::child())?,
        })
    }

    /// Passes them on until the router has ended.
    async fn pass_on_to(&mut self, router: &mut Child) -> Result<ExitStatus> {
        let pid = i32::try_from(router.id()).ok().and_then(Pid::from_raw).context("a process without a number")?;
        loop {
            // Not waited for yet, so the number is the router's.
            if let Some(status) = router.try_wait()? {
                return Ok(status);
            }
            tokio::select! {
                // Both the same way: one that `killall` sends to the router as well comes there by another name, and is
                // no second one.
                _ = self.terminate.recv() => pass(pid, Signal::INT),
                _ = self.interrupt.recv() => pass(pid, Signal::INT),
                _ = self.hangup.recv() => pass(pid, Signal::HUP),
                _ = self.quit.recv() => pass(pid, Signal::QUIT),
                _ = self.stop.recv() => {
                    // Ctrl-Z stops both, and `fg` lets both go on.
                    pass(pid, Signal::STOP);
                    pass(getpid(), Signal::STOP);
                    pass(pid, Signal::CONT);
                }
                _ = self.ended.recv() => {}
            }
        }
    }
}

fn pass(to: Pid, signal: Signal) {
    if let Err(error) = kill_process(to, signal) {
        eprintln!("perigee: the router does not get {signal:?}: {error}");
    }
}

/// What may reach a terminal of what the router prints: text, lines and colors. Other control characters would let it
/// move the cursor, change what keys send, or have the terminal answer as if somebody typed.
#[derive(Default)]
struct Plain {
    /// The beginning of a character or a color whose end has not come yet.
    rest: Vec<u8>,
}

/// The longest color: `ESC [ 1 ; 38 ; 2 ; 255 ; 255 ; 255 m`.
const COLOR: usize = 24;

impl Plain {
    fn text(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = whole(&self.rest);
        let bytes: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8_lossy(&bytes);
        let (mut plain, mut left) = (String::new(), &*text);
        while let Some(next) = left.chars().next() {
            let length = color(left.as_bytes()).unwrap_or(next.len_utf8());
            match next {
                '\u{1b}' if length > 1 => plain.push_str(&left[..length]),
                '\n' | '\t' => plain.push(next),
                _ if next.is_control() => plain.extend(next.escape_default()),
                _ => plain.push(next),
            }
            left = &left[length..];
        }
        plain
    }
}

/// How many of the bytes make whole characters and colors.
fn whole(bytes: &[u8]) -> usize {
    let begun = bytes.iter().rposition(|byte| *byte == 0x1b).filter(|at| {
        let begun = &bytes[*at + 1..];
        let parameters = begun.strip_prefix(b"[").unwrap_or(begun);
        begun.len() < COLOR
            && begun.len() - parameters.len() == usize::from(!begun.is_empty())
            && parameters.iter().all(is_parameter)
    });
    if let Some(at) = begun {
        return at;
    }
    match std::str::from_utf8(bytes) {
        // Nothing says yet whether it is a character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ if bytes.last().is_some_and(|last| *last >= 0xc0) => bytes.len() - 1,
        _ => bytes.len(),
    }
}

/// The length of a color at the beginning: `ESC [ numbers m`.
fn color(bytes: &[u8]) -> Option<usize> {
    let parameters = bytes.strip_prefix(b"\x1b[")?;
    let end = parameters.iter().position(|byte| !is_parameter(byte))?;
    (parameters[end] == b'm').then_some(end + 3)
}

fn is_parameter(byte: &u8) -> bool {
    byte.is_ascii_digit() || *byte == b';'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&[u8]]) -> String {
        let mut plain = Plain::default();
        pieces.iter().map(|piece| plain.text(piece)).collect()
    }

    #[test]
    fn text_lines_and_colors_reach_the_terminal() {
        let line = "\u{1b}[2m2026\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m Grüße → 日本\tx\n".as_bytes();
        let expected = String::from_utf8(line.to_vec()).unwrap();
        for cut in 0..line.len() {
            assert_eq!(of(&[&line[..cut], &line[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = line.chunks(1).collect();
        assert_eq!(of(&bytes), expected);
    }

    /// `ESC [ c` has the terminal type an answer, which the shell reads; `ESC ] 0 ;` sets a title, which another
    /// sequence types.
    #[test]
    fn nothing_that_a_terminal_answers_reaches_it() {
        for sequence in [
            "\x1b[c",
            "\x1b[6n",
            "\x1b]0;title\x07",
            "\x1b[21t",
            "\x1bZ",
            "\x05",
            "\u{9b}6n",
            "\x1b[?1000h",
            "\r",
            "\x1b",
        ] {
            for cut in 0..=sequence.len() {
                let (first, second) = sequence.as_bytes().split_at(cut);
                let shown = of(&[first, second, b"end\n"]);
                let controls: Vec<_> = shown.chars().filter(|c| c.is_control() && *c != '\n').collect();
                assert!(controls.is_empty(), "{sequence:?} becomes {shown:?}");
                assert!(shown.ends_with("end\n"), "{shown:?}");
            }
        }
        // In Latin-1, 0x9b alone is what ESC [ is.
        assert!(!of(&[b"\x9b6n\xff\n"]).contains('\u{9b}'));
        // A color that never ends holds nothing back for ever.
        assert!(of(&[b"\x1b[", &[b'1'; 100], b"\n"]).ends_with("1\n"));
    }
}
