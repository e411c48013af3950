// SPDX-License-Identifier: MIT
//! A reader on a thread of its own, while the test changes things on this one.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use perigee_fib::{Grace, Published};

/// Runs `read` again and again on a thread of its own, with a batch boundary after each, while `change` changes things
/// on this one and reclaims what the reader has let go of. Goes on until there have been `changes` changes, and `read`
/// has returned `sightings` times that it found something.
pub fn race(
    changes: u32,
    sightings: u32,
    mut read: impl FnMut() -> bool + Send,
    mut change: impl FnMut(Grace) -> bool,
) {
    let mut published = Published::new(());
    let mut subscriber = published.subscribe();
    let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let (done, seen) = (&done, &seen);
        let worker = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    seen.fetch_add(read().into(), Ordering::Relaxed);
                    subscriber.refresh();
                }
                // The writer may be waiting for this core.
                thread::yield_now();
            }
        });
        let mut made = 0;
        // The reader may not be scheduled for a while; the limit is for the case that it never finds anything.
        let enough = |made| made >= changes && seen.load(Ordering::Relaxed) >= sightings || made > 1000 * changes;
        while !enough(made) && !worker.is_finished() {
            if change(published.grace()) {
                made += 1;
            } else {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        worker.join().expect("the reader found nothing wrong");
        println!("{made} changes, {seen:?} batches in which the reader found something");
    });
    assert!(seen.into_inner() >= sightings, "the reader found next to nothing: the test tested nothing");
}
