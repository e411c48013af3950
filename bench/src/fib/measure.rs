// SPDX-License-Identifier: MIT
//! The loops that are timed: lookups, lookups with packets, changes; and the one that counts wrong answers.
//!
//! Everything goes through the trait objects, as the router's does. Time is the thread's CPU time, so that preemption
//! does not count.

use crate::machine::thread_time;
use crate::table::{Entry, Family};
use perigee_fib::synth::Random;
use perigee_fib::{Lookup, LookupError, LookupWriter, NextHopId, Published, RandomReads, Subscriber};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Batches between two looks at the clock.
const STRETCH: usize = 64;

/// The position of the next batch in an array of addresses: all structures of a round begin at the same one.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// Index of the first address.
    pub from: usize,
    /// Addresses per batch.
    pub batch: usize,
    /// Warm-up that is not counted, so that the caches hold this structure.
    pub warm: Duration,
    /// Time that is counted.
    pub time: Duration,
}

/// Calls `one` for batch after batch of `addresses`, around and around; returns million addresses per second.
fn rate<A>(addresses: &[A], stretch: Stretch, mut one: impl FnMut(&[A])) -> f64 {
    let mut at = stretch.from;
    let mut run = |time: Duration| {
        let (start, cpu) = (Instant::now(), thread_time());
        let mut done = 0;
        while done == 0 || start.elapsed() < time {
            for _ in 0..STRETCH {
                if at + stretch.batch > addresses.len() {
                    at = 0;
                }
                one(&addresses[at..at + stretch.batch]);
                at += stretch.batch;
            }
            done += STRETCH * stretch.batch;
        }
        done as f64 / (thread_time() - cpu).as_secs_f64() / 1e6
    };
    if !stretch.warm.is_zero() {
        run(stretch.warm);
    }
    run(stretch.time)
}

/// Million lookups per second. `addresses` hold at least one batch.
pub fn lookups<A: Family>(lookup: &dyn Lookup<A>, addresses: &[A], stretch: Stretch) -> f64 {
    let mut ids = vec![0; stretch.batch];
    rate(addresses, stretch, |batch| {
        lookup.lookup_batch(batch, &mut ids);
        black_box(&ids);
    })
}

/// Buffers like those in a pool of mbufs: 128 bytes of description, 128 of headroom, then the packet; 2,304 bytes from
/// one to the next.
pub struct Packets {
    buffers: Vec<[u64; 288]>,
    /// A pool that has been in use for a while hands out its buffers in random order.
    order: Vec<u32>,
    next: usize,
}

/// As many as are in flight in a router with two ports: a receive ring each, and bursts.
const PACKETS: usize = 1024;
/// Words of a buffer: the destination in the packet's header, and the next hop in the description.
const DESTINATION: usize = 34;
const NEXT_HOP: usize = 4;

impl Packets {
    /// New buffers.
    pub fn new(seed: u64) -> Packets {
        let mut random = Random::new(seed);
        let mut order: Vec<u32> = (0..PACKETS as u32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u32 + 1) as usize);
        }
        Packets { buffers: vec![[0; 288]; PACKETS], order, next: 0 }
    }

    /// The next `count` buffers' numbers, at most all.
    fn take(&mut self, count: usize) -> (&mut [[u64; 288]], &[u32]) {
        if self.next + count > PACKETS {
            self.next = 0;
        }
        let from = self.next;
        self.next += count;
        (&mut self.buffers, &self.order[from..from + count])
    }
}

/// Million lookups per second with packets: each destination is stored into a packet's header (as a device does), read
/// from there, looked up, and its next hop stored into the packet's description: two cache lines per packet.
pub fn lookups_with_packets<A: Family>(
    lookup: &dyn Lookup<A>,
    addresses: &[A],
    stretch: Stretch,
    packets: &mut Packets,
) -> f64 {
    let mut ids = vec![0; stretch.batch];
    let mut read = addresses[..stretch.batch].to_vec();
    rate(addresses, stretch, |batch| {
        let (buffers, taken) = packets.take(batch.len());
        for (&number, address) in taken.iter().zip(batch) {
            address.put(&mut buffers[number as usize % PACKETS][DESTINATION..]);
        }
        for (&number, address) in taken.iter().zip(&mut read) {
            *address = A::get(&black_box(&buffers[number as usize % PACKETS])[DESTINATION..]);
        }
        lookup.lookup_batch(&read, &mut ids);
        for (&number, id) in taken.iter().zip(&ids) {
            buffers[number as usize % PACKETS][NEXT_HOP] = u64::from(*id);
        }
    })
}

/// Million random reads per second.
pub fn random_reads(reads: &RandomReads, indices: &[u32], stretch: Stretch) -> f64 {
    let mut out = vec![0; stretch.batch];
    rate(indices, stretch, |batch| {
        reads.read(batch, &mut out);
        black_box(&out);
    })
}

/// A reader of a changing table, and the publisher's view of it: a structure only gets its memory back when readers
/// move on.
pub struct Reader<A> {
    published: Published<()>,
    subscriber: Subscriber<()>,
    /// None where a structure cannot change while it is read.
    held: Option<Arc<dyn Lookup<A>>>,
}

impl<A: Family> Reader<A> {
    /// The one reader of this structure. To see whether it may stay while there are changes, one route is withdrawn and
    /// announced.
    pub fn of(writer: &mut dyn LookupWriter<A>, (prefix, id): Entry<A>) -> Result<Reader<A>, LookupError> {
        let mut published = Published::new(());
        let mut reader = Reader { subscriber: published.subscribe(), published, held: Some(writer.reader()) };
        if let Err(error) = writer.remove(prefix) {
            if !matches!(error, LookupError::Busy { .. }) {
                return Err(error);
            }
            reader.held = None;
            writer.remove(prefix)?;
        }
        writer.insert(prefix, id)?;
        reader.settle(writer)?;
        Ok(reader)
    }

    /// Makes a change visible, as the router does: a new readers' half is taken where there is one.
    pub fn publish(&mut self, writer: &mut dyn LookupWriter<A>) -> Result<(), LookupError> {
        writer.commit()?;
        if let Some(held) = &mut self.held {
            let now = writer.reader();
            if !Arc::ptr_eq(&now, held) {
                *held = now;
            }
        }
        Ok(())
    }

    /// The reader passes a batch boundary, and the memory that it let go of is reused.
    pub fn boundary(&mut self, writer: &mut dyn LookupWriter<A>) {
        self.subscriber.refresh();
        if writer.retired() > 0 {
            writer.reclaim(self.published.grace());
        }
    }

    /// Until everything is visible and nothing waits.
    pub fn settle(&mut self, writer: &mut dyn LookupWriter<A>) -> Result<(), LookupError> {
        for _ in 0..4 {
            self.publish(writer)?;
            self.boundary(writer);
        }
        Ok(())
    }
}

/// Withdrawals and announcements between two batch boundaries of the reader, each.
const PAIRS: usize = 16;

/// Repeatedly withdraws and announces routes of the table, one at a time, making each change visible immediately;
/// returns changes per second, counting both. Afterwards the table is what it was.
pub fn changes<A: Family>(
    writer: &mut dyn LookupWriter<A>,
    reader: &mut Reader<A>,
    routes: &[Entry<A>],
    time: Duration,
) -> Result<f64, LookupError> {
    let (start, cpu) = (Instant::now(), thread_time());
    let mut pairs = 0;
    for (prefix, id) in routes.iter().cycle() {
        writer.remove(*prefix)?;
        reader.publish(writer)?;
        writer.insert(*prefix, *id)?;
        reader.publish(writer)?;
        pairs += 1;
        let boundary = pairs % PAIRS == 0;
        if boundary {
            reader.boundary(writer);
        }
        // Structures that are rebuilt take long for a single change.
        if (boundary || pairs < PAIRS) && start.elapsed() >= time {
            break;
        }
    }
    let spent = thread_time() - cpu;
    reader.settle(writer)?;
    Ok(2.0 * pairs as f64 / spent.as_secs_f64())
}

/// Withdraws or announces routes, all in one go.
pub fn change_all<A: Family>(
    writer: &mut dyn LookupWriter<A>,
    reader: &mut Reader<A>,
    routes: &[Entry<A>],
    announce: bool,
) -> Result<(), LookupError> {
    for (number, (prefix, id)) in routes.iter().enumerate() {
        match announce {
            true => drop(writer.insert(*prefix, *id)?),
            false => drop(writer.remove(*prefix)?),
        }
        if number % PAIRS == PAIRS - 1 {
            reader.boundary(writer);
        }
    }
    reader.settle(writer)
}

/// How many of these addresses get another next hop than `right`, in batches or one by one (every 16th is also looked
/// up alone).
pub fn wrong<A: Family>(lookup: &dyn Lookup<A>, addresses: &[A], right: &[u32], batch: usize) -> u64 {
    let mut ids = vec![0; batch];
    let mut wrong = 0;
    for (addresses, right) in addresses.chunks(batch).zip(right.chunks(batch)) {
        let ids = &mut ids[..addresses.len()];
        // No answer at all is wrong, too.
        ids.fill(u32::MAX);
        lookup.lookup_batch(addresses, ids);
        wrong += ids.iter().zip(right).filter(|(found, right)| found != right).count() as u64;
        for (address, right) in addresses.iter().zip(right).step_by(16) {
            wrong += u64::from(lookup.lookup(*address) != NextHopId(*right));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Ranges, edges};
    use perigee_fib::{structures, synth};
    use perigee_net::PrefixOf;

    /// Wrong for one address.
    struct Broken(Arc<dyn Lookup<u32>>, u32);

    impl Lookup<u32> for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn lookup(&self, address: u32) -> NextHopId {
            self.0.lookup(address)
        }

        fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
            self.0.lookup_batch(addresses, ids);
            for (address, id) in addresses.iter().zip(ids) {
                *id += u32::from(*address == self.1);
            }
        }
    }

    fn table() -> Vec<Entry<u32>> {
        synth::ipv4(3000, 5).into_iter().map(|(prefix, hop)| (prefix, NextHopId(15 + hop))).collect()
    }

    #[test]
    fn wrong_answers_are_counted() {
        let table = table();
        let mut writer = (structures::DEFAULT4.new)().unwrap();
        writer.load(&table).unwrap();
        let addresses = edges(table.iter().map(|(prefix, _)| *prefix));
        let right = Ranges::of(&table).ids(&addresses);
        assert_eq!(wrong(&*writer.reader(), &addresses, &right, 64), 0);
        let bad = addresses[1234];
        let times = addresses.iter().filter(|address| **address == bad).count() as u64;
        assert_eq!(wrong(&Broken(writer.reader(), bad), &addresses, &right, 64), times);
        assert!(wrong(&Broken(writer.reader(), bad), &addresses[1234..1235], &right[1234..1235], 64) == 1);
        // One route less than the oracle has.
        let (prefix, id) = table[17];
        writer.remove(prefix).unwrap();
        assert!(wrong(&*writer.reader(), &addresses, &right, 64) > 0);
        writer.insert(prefix, id).unwrap();
        assert_eq!(wrong(&*writer.reader(), &addresses, &right, 64), 0);
    }

    #[test]
    fn after_changes_every_structure_is_as_before() {
        let table = table();
        let addresses = edges(table.iter().map(|(prefix, _)| *prefix));
        let right = Ranges::of(&table).ids(&addresses);
        for structure in structures::IPV4 {
            let mut writer = (structure.new)().unwrap();
            writer.load(&table).unwrap();
            let mut reader = Reader::of(&mut *writer, table[0]).unwrap();
            changes(&mut *writer, &mut reader, &table[..100], Duration::from_millis(5)).unwrap();
            assert_eq!(wrong(&*writer.reader(), &addresses, &right, 64), 0, "{}", structure.name);
            change_all(&mut *writer, &mut reader, &table[..100], false).unwrap();
            let fewer = Ranges::of(&table[100..]).ids(&addresses);
            assert_eq!(wrong(&*writer.reader(), &addresses, &fewer, 64), 0, "{}, fewer", structure.name);
            change_all(&mut *writer, &mut reader, &table[..100], true).unwrap();
            assert_eq!(wrong(&*writer.reader(), &addresses, &right, 63), 0, "{}, again", structure.name);
        }
    }

    #[test]
    fn packets_carry_addresses_of_both_families() {
        let mut buffer = [0; 4];
        0xdead_beef_u32.put(&mut buffer);
        assert_eq!(u32::get(&buffer), 0xdead_beef);
        let address = 0x2001_0db8_0000_0001_0000_0002_0000_0003_u128;
        address.put(&mut buffer);
        assert_eq!(u128::get(&buffer), address);
        let prefix = PrefixOf::new(0u32, 0).unwrap();
        assert_eq!(u32::with_host_bits(prefix, u32::ONES), u32::MAX);
    }

    #[test]
    fn rates_are_counted_over_the_whole_array() {
        let mut seen = [0; 10];
        let stretch = Stretch { from: 0, batch: 5, warm: Duration::ZERO, time: Duration::ZERO };
        let rate =
            rate(&[0usize, 1, 2, 3, 4, 5, 6, 7, 8, 9], stretch, |batch| batch.iter().for_each(|n| seen[*n] += 1));
        assert_eq!(seen, [STRETCH / 2; 10]);
        assert!(rate > 0.0);
    }
}
