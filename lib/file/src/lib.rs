// SPDX-License-Identifier: MIT
//! Files that an operator names, read so that none of them stops the router: only regular ones, up to a size, for a
//! time.
//!
//! ```text
//!  read ──► a thread of its own: stat, open without waiting, fstat, read up to the limit
//!    └───── waits for it two seconds, and then for nothing: a file system that does not answer keeps that thread alone
//! ```
#![forbid(unsafe_code)]

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest text that is read: a configuration, a script.
pub const LONGEST_TEXT: u64 = 16 << 20;
/// The longest list of routes, and the longest C module.
pub const LONGEST: u64 = 1 << 30;

/// How long a file is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many files may be waited for in vain.
const MOST_HUNG: usize = 8;

/// Threads that read.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// The bytes of a file, `longest` at most.
///
/// # Errors
/// The system's, or a sentence: it is no regular file, it is longer than that, or it could not be read in time.
pub fn read(path: &Path, longest: u64) -> Result<Vec<u8>> {
    read_within(PATIENCE, path, longest)
}

/// As [`read`], for who can wait no longer than this.
///
/// # Errors
/// Those of [`read`].
pub fn read_within(patience: Duration, path: &Path, longest: u64) -> Result<Vec<u8>> {
    let path = path.to_owned();
    in_time(patience, move || read_here(&path, longest))
}

/// The bytes of a file that somebody else has opened.
///
/// # Errors
/// Those of [`read`].
pub fn read_opened(file: File, longest: u64) -> Result<Vec<u8>> {
    in_time(PATIENCE, move || {
        accept(&file.metadata()?, longest)?;
        contents(file, longest)
    })
}

/// What `work` with files returns, done by a thread of its own, which is waited for no longer than a file is.
///
/// # Errors
/// Those of `work`, or a sentence: it was not done in time, or earlier work that was not is still under way.
pub fn within_patience<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    in_time(PATIENCE, work)
}

/// What `work` returns, done by a thread of its own, which is waited for no longer than `patience`.
fn in_time<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    struct Reader;
    impl Drop for Reader {
        fn drop(&mut self) {
            READERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let before = READERS.fetch_add(1, Ordering::Relaxed);
    let reader = Reader;
    if before >= MOST_HUNG {
        let text = format!("{before} files before it are still being read; does their file system answer?");
        return Err(Error::new(ErrorKind::ResourceBusy, text));
    }
    let (result, answer) = channel();
    let body = move || {
        let _reader = reader;
        // Who asked may have gone.
        let _ = result.send(work());
    };
    std::thread::Builder::new().name("file".to_owned()).spawn(body)?;
    answer.recv_timeout(patience).unwrap_or_else(|error| {
        let text = match error {
            RecvTimeoutError::Timeout => {
                format!("it could not be read within {patience:?}; does its file system answer?")
            }
            RecvTimeoutError::Disconnected => "the thread that read it has ended".to_owned(),
        };
        Err(Error::new(ErrorKind::TimedOut, text))
    })
}

fn read_here(path: &Path, longest: u64) -> Result<Vec<u8>> {
    // First by its name: opening a device may do something.
    accept(&std::fs::metadata(path)?, longest)?;
    let without_waiting = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(without_waiting.cast_signed()).open(path)?;
    // Then what was opened, which may be another one.
    accept(&file.metadata()?, longest)?;
    contents(file, longest)
}

/// Whether it is a regular file of no more than `longest` bytes.
fn accept(metadata: &Metadata, longest: u64) -> Result<()> {
    if !metadata.is_file() {
        let text = format!("it is {}, expected a regular file", kind(metadata.file_type()));
        return Err(Error::new(ErrorKind::InvalidInput, text));
    }
    if metadata.len() > longest { Err(too_long(longest)) } else { Ok(()) }
}

fn kind(found: FileType) -> &'static str {
    match found {
        found if found.is_dir() => "a folder",
        found if found.is_fifo() => "a FIFO",
        found if found.is_socket() => "a socket",
        _ => "a device",
    }
}

/// What it holds now, whatever its size was said to be: files of /proc have none, and another program may go on
/// writing.
fn contents(file: File, longest: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest { Err(too_long(longest)) } else { Ok(bytes) }
}

fn too_long(longest: u64) -> Error {
    Error::new(ErrorKind::FileTooLarge, format!("it is longer than {longest} bytes; is the path right?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, PoisonError};

    /// One test at a time: they share the number of threads that may read.
    static ALONE: Mutex<()> = Mutex::new(());

    fn refused(path: &Path, longest: u64) -> String {
        read(path, longest).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_regular_file_is_read_and_one_that_is_too_long_is_not() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"text");
        assert_eq!(refused(&path, 3), "it is longer than 3 bytes; is the path right?");
        assert!(!read(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty(), "a file without a size");
        assert_eq!(read(&folder.path().join("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_before_it_is_read() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let cases = [
            (fifo, "a FIFO"),
            (folder.path().to_owned(), "a folder"),
            (folder.path().join("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
        ];
        for (path, kind) in cases {
            assert_eq!(refused(&path, 1 << 20), format!("it is {kind}, expected a regular file"));
        }
    }

    /// A network file that does not answer kept the thread that read it, and with it the slow path. After some of them
    /// no more is tried.
    #[test]
    fn a_file_that_does_not_answer_is_waited_for_no_longer_than_the_limit() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, hangs) = channel::<()>();
        let hangs = std::sync::Arc::new(std::sync::Mutex::new(hangs));
        let mut said = Vec::new();
        for _ in 0..MOST_HUNG + 1 {
            let hangs = hangs.clone();
            let work = move || {
                let _ = hangs.lock().map(|hangs| hangs.recv());
                Ok(())
            };
            said.push(in_time(Duration::from_millis(10), work).unwrap_err().to_string());
        }
        assert!(said[0].starts_with("it could not be read within 10ms"), "{}", said[0]);
        assert!(said[MOST_HUNG].contains("are still being read"), "{}", said[MOST_HUNG]);
        drop(answer);
        let path = std::env::current_exe().unwrap();
        // They end at last, and files are read again.
        while let Err(error) = read(&path, LONGEST) {
            assert!(error.to_string().contains("are still being read"), "{error}");
            std::thread::yield_now();
        }
    }
}
