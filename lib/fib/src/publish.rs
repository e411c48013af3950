// SPDX-License-Identifier: MIT
//! Publication of immutable values to workers, and the epochs by which the publisher knows how far each worker is.
//!
//! The publisher swaps an `Arc` and bumps a version. A worker checks the version at its batch boundary (one
//! load), takes the new value if it gets the lock at once (else at its next boundary: it never waits), and
//! acknowledges. The publisher keeps an old value until all workers have acknowledged a later version, so that the
//! value is dropped on the publisher's thread. The version doubles as the epoch: for tables that are patched in place
//! it is bumped without a new value, to learn when every worker has passed a batch boundary.

pub(crate) mod grace;
pub(crate) mod sync;

use std::collections::VecDeque;
use std::ops::Deref;

use crate::publish::grace::Grace;
use crate::publish::sync::atomic::{AtomicU64, Ordering};
use crate::publish::sync::{Arc, Mutex};

/// Acknowledged by a subscriber that is gone: it holds up nobody.
const GONE: u64 = u64::MAX;

struct Shared<T> {
    /// Bumped after every change of `current`, and by every call of [`Published::grace`].
    version: AtomicU64,
    current: Mutex<Arc<T>>,
}

/// The publisher's end, on the control thread.
pub struct Published<T> {
    shared: Arc<Shared<T>>,
    subscribers: Vec<Registration>,
    next_index: usize,
    /// Replaced values, each with the version that replaced it; oldest first.
    retired: VecDeque<(u64, Arc<T>)>,
    /// Called at every new version.
    wake: Option<Box<dyn Fn() + Send>>,
}

struct Registration {
    index: usize,
    acknowledged: Arc<AtomicU64>,
}

impl<T> Published<T> {
    /// Publishes `value` as version 0.
    pub fn new(value: T) -> Self {
        let shared = Shared { version: AtomicU64::new(0), current: Mutex::new(Arc::new(value)) };
        Self { shared: Arc::new(shared), subscribers: Vec::new(), next_index: 0, retired: VecDeque::new(), wake: None }
    }

    /// Calls this at every new version from now on: for a subscriber that sleeps.
    pub fn wake_by(&mut self, wake: Box<dyn Fn() + Send>) {
        self.wake = Some(wake);
    }

    /// A new subscriber, which holds the current value; to be moved to its worker.
    pub fn subscribe(&mut self) -> Subscriber<T> {
        let seen = self.version();
        let acknowledged = Arc::new(AtomicU64::new(seen));
        let index = self.next_index;
        self.next_index += 1;
        self.subscribers.retain(|registration| registration.epoch() != GONE);
        self.subscribers.push(Registration { index, acknowledged: Arc::clone(&acknowledged) });
        Subscriber {
            value: self.current(),
            shared: Arc::clone(&self.shared),
            seen,
            index,
            acknowledge: Acknowledge(acknowledged),
        }
    }

    /// Makes `value` the current one and returns its version. Never waits for a worker.
    pub fn publish(&mut self, value: T) -> u64 {
        let value = Arc::new(value);
        let old = std::mem::replace(&mut *self.shared.current.lock().expect("no holder of this lock panics"), value);
        let version = self.bump();
        self.retired.push_back((version, old));
        version
    }

    /// The current value.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.shared.current.lock().expect("no holder of this lock panics"))
    }

    /// The latest version.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Relaxed)
    }

    /// Release: a worker that sees the new version also sees every store made before it.
    fn bump(&self) -> u64 {
        let version = self.shared.version.fetch_add(1, Ordering::Release) + 1;
        self.wake.iter().for_each(|wake| wake());
        version
    }

    /// Whether every subscriber has passed a batch boundary since `version` was published, and holds it or a later one.
    pub fn acknowledged(&self, version: u64) -> bool {
        self.passed() >= version
    }

    /// The subscriber that is furthest behind, if any is: its index, and the version it acknowledged last.
    pub fn slowest(&self) -> Option<(usize, u64)> {
        let ends = self.subscribers.iter().map(|registration| (registration.epoch(), registration.index));
        ends.min().filter(|(epoch, _)| *epoch < self.version()).map(|(epoch, index)| (index, epoch))
    }

    fn passed(&self) -> u64 {
        self.slowest().map_or(self.version(), |(_, epoch)| epoch)
    }

    /// Starts an epoch, and returns it with the one that every subscriber has reached: for memory that is reused in
    /// place.
    pub fn grace(&self) -> Grace {
        Grace { epoch: self.bump(), passed: self.passed() }
    }

    /// Drops the replaced values that no subscriber holds any more; returns their number.
    pub fn reclaim(&mut self) -> usize {
        let passed = self.passed();
        let ripe = self.retired.partition_point(|(version, _)| *version <= passed);
        self.retired.drain(..ripe).count()
    }

    /// How many replaced values some subscriber may still hold.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }
}

impl Registration {
    /// Acquire: all that the subscriber read before it acknowledged has been read.
    fn epoch(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// A worker's end: the value is fixed between two calls of [`refresh`](Self::refresh). Dropping it unsubscribes.
pub struct Subscriber<T> {
    // Dropped before `acknowledge`, after which the publisher may drop its own reference.
    value: Arc<T>,
    shared: Arc<Shared<T>>,
    seen: u64,
    index: usize,
    acknowledge: Acknowledge,
}

struct Acknowledge(Arc<AtomicU64>);

impl Drop for Acknowledge {
    fn drop(&mut self) {
        self.0.store(GONE, Ordering::Release);
    }
}

impl<T> Subscriber<T> {
    /// To be called at a batch boundary, when nothing read from a table is held any more: takes the latest value
    /// if there is a new one, and acknowledges. Returns whether the value has changed. Never waits.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        let version = self.shared.version.load(Ordering::Acquire);
        version != self.seen && self.catch_up(version)
    }

    #[cold]
    fn catch_up(&mut self, version: u64) -> bool {
        let Some(changed) = self.fetch(version) else { return false };
        self.acknowledge(version);
        changed
    }

    /// As [`refresh`](Self::refresh), for whoever shows the value to readers that it has to wait for: takes the latest
    /// value, but does not acknowledge it. Returns its version, and whether the value has changed; `None` if there is
    /// no new version.
    pub fn begin_refresh(&mut self) -> Option<(u64, bool)> {
        let version = self.shared.version.load(Ordering::Acquire);
        (version != self.seen).then(|| self.fetch(version)).flatten().map(|changed| (version, changed))
    }

    /// Says that no reader holds anything from before a version that [`begin_refresh`](Self::begin_refresh) has
    /// returned.
    pub fn acknowledge(&mut self, version: u64) {
        self.acknowledge.0.store(version, Ordering::Release);
    }

    fn fetch(&mut self, version: u64) -> Option<bool> {
        // The publisher or another worker holds the lock for a few nanoseconds: the next batch boundary will do.
        let current = self.shared.current.try_lock().ok()?;
        let changed = !Arc::ptr_eq(&current, &self.value);
        let latest = Arc::clone(&current);
        drop(current);
        // The old value is dropped before the acknowledgement: its last owner must be the publisher.
        self.value = latest;
        self.seen = version;
        Some(changed)
    }

    /// The publisher's index of this subscriber, as in [`Published::slowest`].
    pub fn index(&self) -> usize {
        self.index
    }
}

impl<T> Deref for Subscriber<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_until_all_have_acknowledged() {
        let mut published = Published::new("zero");
        let (mut a, mut b) = (published.subscribe(), published.subscribe());
        assert_eq!(published.slowest(), None);
        let version = published.publish("one");
        assert_eq!((*a, *b), ("zero", "zero"), "fixed until the batch boundary");
        assert!(!published.acknowledged(version));
        assert!(a.refresh());
        assert_eq!(*a, "one");
        assert!(!a.refresh(), "nothing new");
        assert_eq!(published.slowest(), Some((b.index(), 0)));
        assert_eq!((published.reclaim(), published.retired()), (0, 1));
        assert!(b.refresh());
        assert!(published.acknowledged(version));
        assert_eq!((published.reclaim(), published.retired()), (1, 0));
    }

    #[test]
    fn a_dropped_subscriber_holds_up_nobody() {
        let mut published = Published::new(0);
        let (mut a, b) = (published.subscribe(), published.subscribe());
        let version = published.publish(1);
        a.refresh();
        drop(b);
        assert!(published.acknowledged(version));
        assert_eq!(published.reclaim(), 1);
        drop(a);
        let version = published.publish(2);
        assert!(published.acknowledged(version), "no subscriber at all");
        let late = published.subscribe();
        assert_eq!((*late, late.index()), (2, 2));
        assert_eq!(published.subscribers.len(), 1);
    }

    #[test]
    fn grace_without_a_new_value() {
        let mut published = Published::new(0);
        let mut a = published.subscribe();
        let first = published.grace();
        assert_eq!(first, Grace { epoch: 1, passed: 0 });
        assert!(!a.refresh(), "the value is the same");
        assert_eq!(published.grace(), Grace { epoch: 2, passed: 1 });
    }

    #[test]
    fn what_was_fetched_is_held_until_it_is_acknowledged() {
        let mut published = Published::new("zero");
        let mut a = published.subscribe();
        assert_eq!(a.begin_refresh(), None);
        let version = published.publish("one");
        assert_eq!(a.begin_refresh(), Some((version, true)));
        assert_eq!((*a, a.begin_refresh()), ("one", None));
        assert!(!published.acknowledged(version), "readers behind it may still hold the old one");
        assert_eq!((published.reclaim(), published.grace().passed), (0, 0));
        a.acknowledge(version);
        assert_eq!((published.reclaim(), published.grace()), (1, Grace { epoch: 3, passed: 1 }));
        assert_eq!(a.begin_refresh(), Some((3, false)), "a new epoch alone");
        a.acknowledge(3);
        assert!(published.acknowledged(3));
    }

    #[test]
    fn several_versions_at_once() {
        let mut published = Published::new(0);
        let mut a = published.subscribe();
        for value in 1..=5 {
            published.publish(value);
        }
        assert_eq!(published.retired(), 5);
        assert!(a.refresh());
        assert_eq!(*a, 5);
        assert_eq!(published.reclaim(), 5);
    }
}
