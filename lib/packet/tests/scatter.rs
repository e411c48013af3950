// SPDX-License-Identifier: MIT
//! The three scatterings against a naive sort of the same packets: which goes where, in which order, and when.

use perigee_packet::batch::heap::HeapPool;
use perigee_packet::batch::scatter::{DropOut, classify, split};
use perigee_packet::{BATCH_SIZE, Batch, Mask, Pool};
use proptest::prelude::*;

/// A batch whose packets are the numbers 0, 1, ... in one byte each.
fn numbered(pool: &'static HeapPool, n: usize) -> Box<Batch> {
    let mut batch = Batch::new(pool);
    for i in 0..n {
        batch.push(pool.packet(&[i as u8]).unwrap(), 0).unwrap();
    }
    batch
}

/// The bytes of a batch's live packets, in order.
fn contents(batch: &Batch) -> Vec<u8> {
    batch.live().iter().map(|slot| batch.frame(slot).unwrap()[0]).collect()
}

proptest! {
    /// `classes[i]` is packet i's class, `mask` the packets that take part, `gone` those that were consumed before.
    #[test]
    fn classes_are_those_of_a_naive_sort(
        classes in prop::collection::vec(0usize..4, 0..=BATCH_SIZE),
        mask: std::collections::BTreeSet<u8>,
        gone: std::collections::BTreeSet<u8>,
        used in 0usize..=BATCH_SIZE,
    ) {
        let pool = HeapPool::leak(4 * BATCH_SIZE);
        let mut batch = numbered(pool, classes.len());
        batch.discard(gone.iter().copied().collect());
        let mask: Mask = mask.into_iter().collect();
        let class = |byte: u8| classes[usize::from(byte)];
        let members = |wanted: usize| -> Vec<u8> {
            (0..classes.len()).map(|i| i as u8)
                .filter(|i| class(*i) == wanted && mask.contains(*i) && !gone.contains(i)).collect()
        };

        let masks: [Mask; 3] = classify(&mut batch, mask, |packet| class(packet.frame()[0]));
        for (wanted, found) in masks.iter().enumerate() {
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), members(wanted));
        }

        // Class 0's batch is partly full: who finds no room stays, and so does class 3, which has no batch.
        let mut into = [numbered(pool, used), numbered(pool, 0), numbered(pool, 0)];
        into[0].discard(Mask::ALL);
        let before = contents(&batch);
        let [a, b, c] = &mut into;
        let moved = split(&mut batch, mask, |packet| class(packet.frame()[0]), &mut [a, b, c]);
        let mut left = before;
        for (wanted, batch) in into.iter().enumerate() {
            let mut expected = members(wanted);
            expected.truncate(if wanted == 0 { BATCH_SIZE - used } else { BATCH_SIZE });
            left.retain(|packet| !expected.contains(packet));
            prop_assert_eq!(contents(batch), expected);
        }
        prop_assert_eq!(contents(&batch), left);
        prop_assert_eq!(moved, into.iter().map(|batch| batch.live().count()).sum::<usize>());
        drop((batch, into));
        prop_assert_eq!(pool.in_use(), 0);
    }

    /// Bursts with a few diverging packets, at random times: what comes out is what went in, in order, in bursts of
    /// `size` or when the first has waited.
    #[test]
    fn drop_out_gathers_by_size_and_timeout(
        size in 1usize..40,
        timeout in 0u64..100,
        bursts in prop::collection::vec((0u64..50, prop::collection::btree_set(0u8..32, 0..8)), 0..60),
    ) {
        let pool = HeapPool::leak(1024);
        let mut drop_out = DropOut::new(pool, size, timeout);
        // The oracle: what waits, and since when the first of it does.
        let (mut now, mut waiting, mut since) = (0, Vec::new(), 0);
        for (pause, diverging) in bursts {
            now += pause;
            let mut batch = numbered(pool, 32);
            if waiting.is_empty() {
                since = now;
            }
            let mask: Mask = diverging.iter().copied().collect();
            prop_assert!(drop_out.gather(&mut batch, mask, now).is_empty());
            prop_assert_eq!(batch.live(), Mask::first(32) - mask);
            waiting.extend(diverging);
            prop_assert_eq!(drop_out.len(), waiting.len());
            let due = !waiting.is_empty() && (waiting.len() >= size || now - since >= timeout);
            let ready = drop_out.ready(now);
            prop_assert_eq!(ready.is_some(), due);
            if let Some(gathered) = ready {
                prop_assert_eq!(contents(gathered), std::mem::take(&mut waiting));
                gathered.discard(Mask::ALL);
            }
            prop_assert_eq!(drop_out.is_empty(), waiting.is_empty());
        }
        drop(drop_out);
        prop_assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn drop_out_says_what_found_no_room() {
    let pool = HeapPool::leak(1024);
    let mut drop_out = DropOut::new(pool, 1000, 10);
    let mut batch = numbered(pool, 200);
    assert_eq!(drop_out.gather(&mut batch, Mask::ALL, 0), Mask::EMPTY);
    let mut batch = numbered(pool, 100);
    let left = drop_out.gather(&mut batch, Mask::ALL, 5);
    assert_eq!((drop_out.len(), left), (256, Mask::first(100) - Mask::first(56)));
    // A size beyond what a batch holds counts as a full batch. What the caller leaves stays, and is due still.
    drop_out.ready(5).unwrap().discard(Mask::first(250));
    assert_eq!(contents(drop_out.ready(5).unwrap()), [50, 51, 52, 53, 54, 55]);
    assert_eq!(drop_out.gather(&mut batch, left, 5), left, "its slots are used up until it is empty");
    drop_out.ready(5).unwrap().discard(Mask::ALL);
    assert!(drop_out.ready(1000).is_none());
    assert_eq!(drop_out.gather(&mut batch, left, 1000), Mask::EMPTY);
    assert_eq!((drop_out.ready(1009).is_some(), drop_out.ready(1010).is_some()), (false, true));
}
