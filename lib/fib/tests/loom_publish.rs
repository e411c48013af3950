// SPDX-License-Identifier: MIT
//! The publication type under the model checker, which tries every interleaving and every reordering that is allowed:
//! `cargo test -p perigee-fib --features loom --test loom_publish`
#![cfg(feature = "loom")]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;
use perigee_fib::{Published, Subscriber};

/// A value that checks that it is dropped on the thread that made it: the publisher's.
struct Home {
    number: usize,
    thread: thread::ThreadId,
}

impl Home {
    fn new(number: usize) -> Self {
        Self { number, thread: thread::current().id() }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        assert_eq!(self.thread, thread::current().id(), "value {} was dropped by a worker", self.number);
    }
}

/// A worker that passes this many batch boundaries; versions never go back.
fn watch(mut subscriber: Subscriber<Home>, boundaries: usize) -> Subscriber<Home> {
    for _ in 0..boundaries {
        let before = subscriber.number;
        let changed = subscriber.refresh();
        assert!(subscriber.number >= before);
        assert_eq!(changed, subscriber.number != before);
    }
    subscriber
}

#[test]
fn values_are_dropped_by_the_publisher() {
    loom::model(|| {
        let mut published = Published::new(Home::new(0));
        let subscriber = published.subscribe();
        let worker = thread::spawn(move || drop(watch(subscriber, 2)));
        for number in 1..=2 {
            published.publish(Home::new(number));
            published.reclaim();
        }
        worker.join().expect("worker");
        published.reclaim();
        assert_eq!(published.retired(), 0, "no subscriber is left");
    });
}

#[test]
fn an_acknowledged_version_is_the_one_in_use() {
    loom::model(|| {
        let mut published = Published::new(Home::new(0));
        let subscriber = published.subscribe();
        let worker = thread::spawn(move || watch(subscriber, 1));
        let version = published.publish(Home::new(1));
        let acknowledged = published.acknowledged(version);
        let mut subscriber = worker.join().expect("worker");
        if acknowledged {
            assert_eq!(subscriber.number, 1);
        }
        subscriber.refresh();
        assert_eq!(subscriber.number, 1, "a missed value is seen later");
        assert!(published.acknowledged(version));
        assert_eq!(published.reclaim(), 1);
    });
}

#[test]
fn two_workers_do_not_block_each_other() {
    loom::model(|| {
        let mut published = Published::new(Home::new(0));
        let workers = [published.subscribe(), published.subscribe()]
            .map(|subscriber| thread::spawn(move || watch(subscriber, 1)));
        published.publish(Home::new(1));
        published.reclaim();
        let mut subscribers = workers.map(|worker| worker.join().expect("worker"));
        for subscriber in &mut subscribers {
            subscriber.refresh();
            assert_eq!(subscriber.number, 1);
        }
        published.reclaim();
        assert_eq!(published.retired(), 0);
    });
}

/// A table that is patched in place: the index of a cell, and cells that are reused after their grace period.
struct Table {
    index: AtomicUsize,
    cells: [AtomicUsize; 2],
    /// Batches that the reader has finished.
    finished: AtomicUsize,
}

#[test]
fn memory_is_not_reused_under_a_reader() {
    loom::model(|| {
        let mut published = Published::new(());
        let mut subscriber = published.subscribe();
        let table = Arc::new(Table {
            index: AtomicUsize::new(0),
            cells: [AtomicUsize::new(10), AtomicUsize::new(11)],
            finished: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&table);
        let worker = thread::spawn(move || {
            for batch in 0..2 {
                let index = shared.index.load(Ordering::Acquire);
                let value = shared.cells[index].load(Ordering::Relaxed);
                assert_eq!(value, 10 + index, "a cell was reused while a reader held it");
                shared.finished.store(batch + 1, Ordering::Relaxed);
                subscriber.refresh();
            }
        });
        table.index.store(1, Ordering::Release);
        let retired_at = published.grace().epoch;
        if published.acknowledged(retired_at) {
            assert!(table.finished.load(Ordering::Relaxed) > 0, "acknowledged before the end of the batch");
            table.cells[0].store(99, Ordering::Relaxed);
        }
        worker.join().expect("worker");
    });
}

/// Batch lookups load the entries of many addresses with no order among them, and order what those lead to by one
/// fence.
#[test]
fn what_entries_lead_to_is_seen_whole_behind_one_fence() {
    loom::model(|| {
        let entries = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let groups = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let worker = {
            let (entries, groups) = (Arc::clone(&entries), Arc::clone(&groups));
            thread::spawn(move || {
                let found = [0, 1].map(|at: usize| entries[at].load(Ordering::Relaxed));
                fence(Ordering::Acquire);
                for (at, entry) in found.into_iter().enumerate().filter(|(_, entry)| *entry != 0) {
                    assert_eq!(groups[at].load(Ordering::Relaxed), entry, "an entry before what it leads to");
                }
            })
        };
        for at in 0..2 {
            groups[at].store(7 + at, Ordering::Relaxed);
            entries[at].store(7 + at, Ordering::Release);
        }
        worker.join().expect("worker");
    });
}
