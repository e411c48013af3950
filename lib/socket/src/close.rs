// SPDX-License-Identifier: MIT
//! The end of many sockets. The kernel waits for all cores whenever it closes a packet socket, 10 to 30 ms and longer
//! on a busy machine. A port of a router with many workers has hundreds of sockets. Several threads
//! close them, so that these waits overlap.

/// Most threads that wait.
const THREADS: usize = 64;

/// Drops all of these, several at a time.
pub(crate) fn drop_together<T: Send>(mut items: Vec<T>) {
    let each = items.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        while !items.is_empty() {
            let share = items.split_off(items.len().saturating_sub(each));
            // Where no thread can be started, they are dropped here.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || drop(share));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::ThreadId;

    /// A router with eight workers took longer to close its 100 sockets, one after the other, than its end may take.
    #[test]
    fn many_are_dropped_by_several_threads_and_each_once() {
        struct Dropped<'a>(&'a Mutex<Vec<ThreadId>>);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.lock().unwrap().push(std::thread::current().id());
            }
        }
        for count in [0, 1, 2, 63, 64, 65, 1000] {
            let dropped = Mutex::default();
            drop_together((0..count).map(|_| Dropped(&dropped)).collect());
            let by = dropped.into_inner().unwrap();
            assert_eq!(by.len(), count);
            let threads = by.iter().collect::<HashSet<_>>().len();
            assert!((count.min(THREADS) / 2..=THREADS).contains(&threads), "{count} by {threads} threads");
        }
    }
}
