// SPDX-License-Identifier: MIT
//! A map over all processors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of each item, in their order; as many at a time as there are processors.
///
/// # Errors
/// The first one, by the items' order, of those that happened: after one, no further item is begun.
pub fn map<T: Sync, R: Send, E: Send>(items: &[T], work: impl Fn(&T) -> Result<R, E> + Sync) -> Result<Vec<R>, E> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { break };
            let result = work(item);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            done.push((place, result));
        }
        done
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let done =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.flatten().collect()
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        let twice = |item: &u32| Ok::<_, ()>(item * 2);
        assert_eq!(map(&items, twice), Ok(items.iter().map(|item| item * 2).collect()));
        assert_eq!(map(&[], twice), Ok(vec![]));
    }

    #[test]
    fn after_an_error_nothing_is_begun() {
        let items: Vec<usize> = (0..100_000).collect();
        let begun = AtomicUsize::new(0);
        let result = map(&items, |&item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 7 { Err(item) } else { Ok(item) }
        });
        assert_eq!(result, Err(7));
        assert!(begun.into_inner() < items.len(), "all were begun");
    }
}
