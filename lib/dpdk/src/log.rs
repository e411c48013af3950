// SPDX-License-Identifier: MIT
//! DPDK's log: held back, so that the terminal stays quiet, and quoted when something fails.

use crate::error::errno_text;
use crate::ffi;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// How many lines are kept.
const KEPT: usize = 128;

struct Log {
    lines: VecDeque<String>,
    /// Lines ever written.
    total: u64,
    partial: String,
}

static LOG: Mutex<Log> = Mutex::new(Log { lines: VecDeque::new(), total: 0, partial: String::new() });
static ECHO: AtomicBool = AtomicBool::new(false);

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Log {
    fn write(&mut self, text: &str) {
        self.partial.push_str(text);
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            // The process ends with this and the next line.
            if line.contains("PANIC in ") {
                ECHO.store(true, Ordering::Relaxed);
            }
            if ECHO.load(Ordering::Relaxed) {
                eprintln!("{line}");
            }
            if self.lines.len() == KEPT {
                self.lines.pop_front();
            }
            self.lines.push_back(line.to_owned());
            self.total += 1;
        }
    }
}

extern "C" fn write(_cookie: *mut c_void, text: *const c_char, size: usize) -> isize {
    // SAFETY: stdio hands over a buffer of `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size) };
    log().write(&String::from_utf8_lossy(bytes));
    size as isize
}

/// Takes over DPDK's log; with `echo`, lines go to standard error as well.
pub(crate) fn capture(echo: bool) {
    ECHO.store(echo, Ordering::Relaxed);
    // SAFETY: the stream is made once and never closed, as DPDK keeps writing to it.
    unsafe {
        let stream = ffi::perigee_log_stream(write);
        if !stream.is_null() {
            ffi::rte_openlog_stream(stream);
        }
    }
}

/// A place in the log, for [`cause`].
pub(crate) fn mark() -> u64 {
    log().total
}

/// Lines that only repeat what the line before them said.
const ECHOES: &[&str] = &["EAL: Failed to attach device on primary process", "EAL: Driver cannot attach the device"];

/// Why something failed: what was logged since a mark, or else DPDK's text for an errno, of either sign.
pub(crate) fn cause(mark: u64, errno: c_int) -> String {
    let log = log();
    let n = usize::try_from(log.total - mark).unwrap_or(KEPT).min(log.lines.len());
    let new = log.lines.range(log.lines.len() - n..).map(String::as_str);
    let lines: Vec<&str> = new.filter(|line| !ECHOES.iter().any(|echo| line.starts_with(echo))).collect();
    if lines.is_empty() { errno_text(errno) } else { lines.join("; ") }
}

/// The last lines that DPDK has logged (at most 128), oldest first.
pub fn log_lines() -> Vec<String> {
    log().lines.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_together_from_pieces() {
        let mut log = Log { lines: VecDeque::new(), total: 0, partial: String::new() };
        log.write("EAL: one");
        assert!(log.lines.is_empty());
        log.write(" line\n\nPMD: two\nrest");
        assert_eq!(log.lines, ["EAL: one line", "PMD: two"]);
        for i in 0..300 {
            log.write(&format!("{i}\n"));
        }
        assert_eq!((log.lines.len(), log.total), (KEPT, 302));
        assert_eq!(log.lines.back().unwrap(), "299");
    }

    #[test]
    fn the_last_words_of_dpdk_are_printed() {
        let mut log = Log { lines: VecDeque::new(), total: 0, partial: String::new() };
        log.write("EAL: PANIC in tailqinitfn():\n");
        assert!(ECHO.swap(false, Ordering::Relaxed));
    }
}
