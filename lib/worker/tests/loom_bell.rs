// SPDX-License-Identifier: MIT
//! The bell under the model checker, which tries every interleaving and every legal reordering:
//! `cargo test -p perigee-worker --features loom --test loom_bell`
#![cfg(feature = "loom")]

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use perigee_worker::Bell;
use std::sync::Arc;

/// `writers` threads put something on a ring of their own and ring the bell, while the reader dozes off. Checks that
/// the reader finds everything or is woken, and that a reader that was woken already is not called.
fn dozing_off(writers: usize) {
    loom::model(move || {
        let woken = Arc::new(AtomicUsize::new(0));
        let wake = Arc::clone(&woken);
        let bell = Arc::new(Bell::new(move || {
            wake.fetch_add(1, Ordering::Relaxed);
        }));
        let rings: Vec<_> = (0..writers).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let threads: Vec<_> = rings
            .iter()
            .map(|ring| {
                let (ring, bell) = (Arc::clone(ring), Arc::clone(&bell));
                thread::spawn(move || {
                    ring.store(true, Ordering::Release);
                    bell.ring();
                })
            })
            .collect();
        bell.doze();
        let all_seen = rings.iter().all(|ring| ring.load(Ordering::Acquire));
        for thread in threads {
            thread.join().expect("writer");
        }
        let woken = woken.load(Ordering::Relaxed);
        assert!(all_seen || woken > 0, "a packet lies on a ring and the reader sleeps");
        assert!(woken <= 1, "woken {woken} times");
    });
}

#[test]
fn no_wake_up_is_lost() {
    dozing_off(1);
}

#[test]
fn two_writers_wake_once() {
    dozing_off(2);
}

/// A reader that found something and did not sleep after all is not called later.
#[test]
fn an_awake_reader_is_left_alone() {
    loom::model(|| {
        let woken = Arc::new(AtomicUsize::new(0));
        let wake = Arc::clone(&woken);
        let bell = Bell::new(move || {
            wake.fetch_add(1, Ordering::Relaxed);
        });
        bell.doze();
        bell.awake();
        bell.ring();
        assert_eq!(woken.load(Ordering::Relaxed), 0);
    });
}
