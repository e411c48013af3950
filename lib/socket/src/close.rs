// SPDX-License-Identifier: MIT
//! The beginning and the end of many sockets. The kernel waits for all cores when a packet socket gets its ring, and
//! whenever one is closed, 10 to 30 ms and longer on a busy machine: a router with 256 ports has a thousand sockets.
//! Several threads open and close them, so that these waits overlap.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most threads that wait.
const THREADS: usize = 256;

/// Bytes of each one's stack.
const STACK: usize = 256 << 10;

/// Calls `work` with each of these, many at a time; what came of them is in their order.
pub fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = items.len();
    let (left, done) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(Vec::with_capacity(count)));
    let next = || locked(&left).next();
    let run = || {
        while let Some((index, item)) = next() {
            let result = work(item);
            locked(&done).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..count.min(THREADS) {
            // Where no thread can be started, those there are do it; the last one is this.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What is to be dropped, and how many calls of [`close_together`] gather it.
struct Gathered {
    calls: usize,
    items: Vec<Box<dyn Send>>,
}

static GATHERED: Mutex<Gathered> = Mutex::new(Gathered { calls: 0, items: Vec::new() });

/// Calls `close`, and drops the sockets of all ports that it drops at its end, together.
pub fn close_together(close: impl FnOnce()) {
    locked(&GATHERED).calls += 1;
    close();
    let items = {
        let mut gathered = locked(&GATHERED);
        gathered.calls -= 1;
        if gathered.calls > 0 { Vec::new() } else { std::mem::take(&mut gathered.items) }
    };
    side_by_side(items, drop);
}

/// Drops all of these, several at a time; inside [`close_together`] at its end.
pub(crate) fn drop_together(items: Vec<Box<dyn Send>>) {
    {
        let mut gathered = locked(&GATHERED);
        if gathered.calls > 0 {
            return gathered.items.extend(items);
        }
    }
    side_by_side(items, drop);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};

    /// A router with 256 ports took 23 s to close a thousand sockets, one port after the other.
    #[test]
    fn many_are_worked_on_by_several_threads_and_each_once() {
        for count in [0, 1, 2, 63, THREADS, THREADS + 1, 1000] {
            // Nobody passes before as many threads have come.
            let barrier = Barrier::new(count.clamp(1, THREADS));
            let work = |item: usize| {
                if item < THREADS {
                    barrier.wait();
                }
                (item, std::thread::current().id())
            };
            let done = side_by_side((0..count).collect(), work);
            assert!(done.iter().map(|(item, _)| *item).eq(0..count), "in order");
            let threads = done.iter().map(|(_, thread)| thread).collect::<HashSet<_>>().len();
            assert_eq!(threads, count.min(THREADS));
        }
    }

    #[test]
    fn what_is_closed_together_is_dropped_at_the_end() {
        let item = Arc::new(());
        let boxed = || -> Vec<Box<dyn Send>> { vec![Box::new(item.clone()), Box::new(item.clone())] };
        close_together(|| {
            close_together(|| drop_together(boxed()));
            drop_together(boxed());
            assert_eq!(Arc::strong_count(&item), 5);
        });
        assert_eq!(Arc::strong_count(&item), 1);
        drop_together(boxed());
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
