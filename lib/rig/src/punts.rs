// SPDX-License-Identifier: MIT
//! The other end of punt rings: a thread that frees what comes, in place of a slow path. What the fast path pays for a
//! packet that it gives away is the same.

use perigee_worker::{Bell, PuntReader, PuntRings, punt_rings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Places in a worker's ring, as in a router by default.
const PLACES: usize = 1024;
/// How often a ring is emptied.
const EVERY: Duration = Duration::from_micros(50);

/// The thread.
pub(crate) struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Rings for so many workers, and the thread that empties them; `body` runs on it first.
pub(crate) fn drained(
    workers: usize,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<(Vec<PuntRings>, Drain)> {
    let bell = Arc::new(Bell::new(|| {}));
    let (rings, readers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| punt_rings(PLACES, std::slice::from_ref(&bell))).unzip();
    let mut readers: Vec<PuntReader> = readers.into_iter().flatten().collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::Builder::new().name("punts".to_owned()).spawn(move || {
        body();
        // Once more when it is to stop: workers have ended by then.
        let mut last = false;
        while !last {
            last = stopped.load(Ordering::Acquire);
            let mut some = false;
            for reader in &mut readers {
                while let Ok(punted) = reader.pop() {
                    drop(punted);
                    some = true;
                }
            }
            if !some && !last {
                std::thread::sleep(EVERY);
            }
        }
    })?;
    Ok((rings, Drain { stop, thread: Some(thread) }))
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic has been reported by the thread itself.
        }
    }
}
