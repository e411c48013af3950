// SPDX-License-Identifier: MIT
//! Who owns a packet: nothing is leaked or freed twice, and bytes and metadata follow the packet, whatever is done to
//! batches. A seeded run of random operations compares two batches with a plain model of them.
//!
//! `PERIGEE_FUZZ` multiplies the number of operations (100,000), `PERIGEE_FUZZ_SEED` is the seed (default: a new one
//! each time).

use perigee_packet::batch::heap::{HeapPool, HeapQueue, ROOM};
use perigee_packet::{BATCH_SIZE, Batch, Mask, Memory, NoRoom, Packet, Pool, ReceiveQueue, TransmitQueue};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A batch of packets with these frames, and the pool they are of.
fn batch_of(frames: &[&[u8]]) -> (&'static HeapPool, Box<Batch>) {
    let pool = HeapPool::leak(1024);
    let mut batch = Batch::new(pool);
    for frame in frames {
        batch.push(pool.packet(frame).unwrap(), 0).unwrap();
    }
    (pool, batch)
}

#[test]
fn what_is_taken_is_the_takers() {
    let (pool, mut batch) = batch_of(&[b"a", b"bb", b"ccc"]);
    assert_eq!((batch.live(), batch.count(), pool.in_use()), (Mask::first(3), 3, 3));
    let packet = batch.take(1).unwrap();
    assert_eq!((packet.bytes(), batch.frame(1), batch.live().count()), (&b"bb"[..], None, 2));
    assert!(batch.take(1).is_none() && batch.take_handle(1).is_none() && batch.slot(1).is_none());
    assert!(batch.copy(1).is_none() && batch.take(200).is_none());
    drop(packet);
    assert_eq!(pool.in_use(), 2);
    drop(batch);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn discard_and_refill_free_each_packet_once() {
    let (pool, mut batch) = batch_of(&[b"a", b"b", b"c", b"d"]);
    let middle: Mask = [1, 2, 77].into_iter().collect();
    assert_eq!((batch.discard(middle), pool.in_use()), (2, 2));
    assert_eq!((batch.discard(middle), pool.in_use()), (0, 2), "the mask's packets are gone already");
    assert_eq!((batch.count(), batch.live()), (4, [0, 3].into_iter().collect()));
    assert_eq!((batch.refill(), pool.in_use(), batch.count()), (2, 0, 0));
    assert_eq!(batch.refill(), 0);
}

#[test]
fn a_full_batch_and_a_foreign_memory_give_the_packet_back() {
    let (pool, mut batch) = batch_of(&[&b"7"[..]; BATCH_SIZE]);
    assert_eq!(batch.room(), 0);
    let refused = batch.push(pool.packet(b"one more").unwrap(), 0).unwrap_err();
    assert_eq!(refused.bytes(), b"one more");
    drop(refused);
    batch.refill();
    let other = HeapPool::leak(1);
    let refused = batch.push(other.packet(b"foreign").unwrap(), 0).unwrap_err();
    assert!(other.packet(b"the pool is empty").is_none());
    drop(refused);
    assert_eq!((pool.in_use(), other.in_use()), (0, 0));
}

/// The count is what the tests, and a router's shutdown, rely on: it must show a packet that nobody owns any more.
#[test]
fn a_queue_takes_from_the_front_what_it_has_room_for() {
    let (pool, mut batch) = batch_of(&[b"a", b"b", b"c", b"d", b"e"]);
    let mut queue = HeapQueue::new(pool, 0, 3);
    let _ = batch.take(1);
    batch.slot(2).unwrap().push(1).unwrap();
    batch.slot(2).unwrap().frame_mut()[0] = b'-';
    assert_eq!([1, 9, 9].map(|most| queue.send(&mut batch, most)), [1, 2, 0]);
    assert_eq!(batch.live(), [4].into_iter().collect());
    let sent: Vec<_> = std::iter::from_fn(|| queue.collect()).collect();
    assert_eq!(sent, [&b"a"[..], b"-c", b"d"]);
    assert_eq!((queue.send(&mut batch, 9), pool.in_use()), (1, 1));
    drop((batch, queue));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn new_packets_are_all_there_or_none() {
    let pool = HeapPool::leak(5);
    let mut batch = Batch::new(pool);
    assert_eq!((pool.fill(&mut batch, &[60, 1514, 0]), batch.live()), (3, Mask::first(3)));
    assert_eq!([0, 1, 2].map(|slot| batch.frame(slot).unwrap().len()), [60, 1514, 0]);
    let mut other = Batch::new(pool);
    assert_eq!((pool.fill(&mut other, &[1; 3]), other.live(), pool.in_use()), (0, Mask::EMPTY, 3));
    assert_eq!((pool.fill(&mut other, &[1; 2]), pool.in_use()), (2, 5));
    drop((batch, other));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_deliberate_leak_is_seen() {
    let (pool, mut batch) = batch_of(&[b"kept", b"lost"]);
    let lost = batch.take_handle(1).unwrap();
    drop(batch);
    assert_eq!(pool.in_use(), 1);
    pool.free(&mut vec![lost]);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_slot_grows_and_shrinks_within_its_buffer() {
    let (pool, mut batch) = batch_of(&[b"0123456789"]);
    let mut slot = batch.slot(0).unwrap();
    assert_eq!(slot.pull(11), Err(NoRoom::Short));
    assert_eq!(slot.pull(4), Ok(()));
    assert_eq!(slot.frame(), b"456789");
    assert_eq!(slot.push(ROOM + 5), Err(NoRoom::Head));
    assert_eq!(slot.push(usize::MAX), Err(NoRoom::Head));
    assert_eq!(slot.push(ROOM + 4), Ok(()));
    assert_eq!((slot.frame().len(), &slot.frame()[ROOM..]), (ROOM + 10, &b"0123456789"[..]));
    assert_eq!(slot.push(1), Err(NoRoom::Head));
    slot.pull(ROOM).unwrap();
    assert_eq!(slot.resize(10 + ROOM + 1), Err(NoRoom::Tail));
    assert_eq!(slot.resize(usize::MAX), Err(NoRoom::Tail));
    slot.resize(3).unwrap();
    slot.resize(10 + ROOM).unwrap();
    assert_eq!(&slot.frame()[..6], b"012\0\0\0", "what comes back is zero, not what stood there");
    slot.frame_mut().fill(0xff);
    assert_eq!(slot.pull(10 + ROOM), Ok(()));
    assert_eq!((slot.frame().len(), slot.resize(1)), (0, Err(NoRoom::Tail)));
    drop(batch);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn the_network_header_is_there_or_not() {
    let (_, mut batch) = batch_of(&[b"ethernetVLANipv4"]);
    let mut slot = batch.slot(0).unwrap();
    slot.set_l3(12);
    assert_eq!(slot.network::<4>(), Some(b"ipv4"));
    assert_eq!(slot.network::<5>(), None);
    slot.network_mut::<4>().unwrap()[3] = b'6';
    assert_eq!(slot.frame(), b"ethernetVLANipv6");
    slot.set_l3(255);
    assert_eq!(slot.network::<1>(), None);
    assert_eq!(slot.network_mut::<0>(), None);
}

#[test]
fn a_changed_place_is_written_back_when_the_packet_leaves() {
    let pool = HeapPool::leak(8);
    let (mut rx, mut tx) = (HeapQueue::new(pool, 3, 8), HeapQueue::new(pool, 0, 8));
    for frame in [b"xxone", b"xxtwo", b"three"] {
        assert!(rx.inject(frame));
    }
    let mut batch = Batch::new(pool);
    assert_eq!((rx.receive(&mut batch, 2), batch.count(), batch.received_bytes()), (2, 2, 10));
    assert_eq!((batch.port(0), batch.length(1)), (3, 5));
    batch.slot(0).unwrap().pull(2).unwrap();
    let mut slot = batch.slot(1).unwrap();
    slot.push(1).unwrap();
    slot.frame_mut()[0] = b'>';
    slot.resize(3).unwrap();
    let mut handles: Vec<_> = batch.live().iter().filter_map(|slot| batch.take_handle(slot)).collect();
    assert!(batch.live().is_empty() && pool.in_use() == 3);
    tx.transmit(&mut handles);
    assert_eq!(tx.collect().as_deref(), Some(&b"one"[..]));
    // A peer that receives it, instead of the test, sees the same bytes.
    batch.refill();
    assert_eq!(tx.receive(&mut batch, 256), 1);
    assert_eq!(batch.frame(0), Some(&b">xx"[..]));
    drop((batch, rx, tx));
    assert_eq!(pool.in_use(), 0, "queues free what is left in them");
}

/// Each change of size alone, once and twice.
#[test]
fn a_changed_size_is_written_back_when_the_packet_leaves() {
    let pool = HeapPool::leak(8);
    let (mut rx, mut tx) = (HeapQueue::new(pool, 3, 8), HeapQueue::new(pool, 0, 8));
    (0..5).for_each(|_| assert!(rx.inject(b"abcde")));
    let mut batch = Batch::new(pool);
    assert_eq!(rx.receive(&mut batch, 8), 5);
    let mut sizes = |slot, sizes: &[usize]| {
        for size in sizes {
            batch.slot(slot).unwrap().resize(*size).unwrap();
        }
    };
    sizes(0, &[3]);
    sizes(1, &[4, 2]);
    sizes(2, &[6]);
    sizes(3, &[9, 5]);
    let mut handles: Vec<_> = batch.live().iter().filter_map(|slot| batch.take_handle(slot)).collect();
    tx.transmit(&mut handles);
    let sent: Vec<_> = std::iter::from_fn(|| tx.collect()).collect();
    assert_eq!(sent, [&b"abc"[..], b"ab", b"abcde\0", b"abcde", b"abcde"]);
}

#[test]
fn a_received_packet_knows_no_next_hop_of_an_earlier_one() {
    let (pool, mut batch) = batch_of(&[b"a"]);
    batch.slot(0).unwrap().set_next_hop(99);
    batch.refill();
    batch.push(pool.packet(b"b").unwrap(), 0).unwrap();
    assert_eq!(batch.next_hop(0), 0);
}

#[test]
fn packets_come_in_order_and_each_once() {
    let (_, mut batch) = batch_of(&[&[0; 4][..]; 200]);
    batch.discard([0, 63, 64, 199].into_iter().collect());
    let mut slots: Vec<_> = batch.packets(Mask::ALL - Mask::only(5)).collect();
    for slot in &mut slots {
        let index = slot.index();
        slot.frame_mut().fill(index);
    }
    let seen: Vec<u8> = slots.iter().map(|slot| slot.index()).collect();
    assert_eq!(seen, (0..200).filter(|slot| ![0, 5, 63, 64, 199].contains(slot)).collect::<Vec<_>>());
    for slot in 0..200u8 {
        let expected = seen.contains(&slot).then_some(slot).or((slot == 5).then_some(0));
        assert_eq!(batch.frame(slot), expected.map(|byte| [byte; 4]).as_ref().map(|frame| &frame[..]));
    }
}

#[test]
fn a_copy_is_deep() {
    let (pool, mut batch) = batch_of(&[b"original"]);
    let mut copy = batch.copy(0).unwrap();
    copy.bytes_mut()[0] = b'O';
    batch.slot(0).unwrap().frame_mut()[7] = b'L';
    assert_eq!((copy.bytes(), batch.frame(0)), (&b"Original"[..], Some(&b"originaL"[..])));
    drop(batch);
    assert_eq!((copy.bytes(), pool.in_use()), (&b"Original"[..], 1));
    drop(copy);
    assert_eq!(pool.in_use(), 0);
}

#[test]
#[should_panic(expected = "same memory")]
fn packets_do_not_move_to_a_batch_of_another_memory() {
    let ((_, mut from), (_, mut to)) = (batch_of(&[b"a"]), batch_of(&[]));
    from.move_to(Mask::ALL, &mut to);
}

/// What the model knows of a packet.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    bytes: Vec<u8>,
    head: usize,
    tail: usize,
    tag: u32,
}

/// Two batches, two queues, and what should be in them.
struct World {
    pool: &'static HeapPool,
    queue: HeapQueue,
    queued: Vec<Model>,
    batches: [Box<Batch>; 2],
    models: [Vec<Option<Model>>; 2],
    next_tag: u32,
    rng: SmallRng,
}

impl World {
    fn new(seed: u64) -> World {
        let pool = HeapPool::leak(400);
        World {
            pool,
            queue: HeapQueue::new(pool, 0, 64),
            queued: Vec::new(),
            batches: [Batch::new(pool), Batch::new(pool)],
            models: [Vec::new(), Vec::new()],
            next_tag: 0,
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.rng.random_range(0..100)];
        self.rng.fill(&mut bytes[..]);
        bytes
    }

    fn mask(&mut self) -> Mask {
        let chance = [0.02, 0.3, 1.0][self.rng.random_range(0..3)];
        (0..=255).filter(|_| self.rng.random_bool(chance)).collect()
    }

    /// Numbers the packet of a slot, so that moved metadata can be told apart.
    fn tag(&mut self, side: usize, slot: usize) -> u32 {
        self.next_tag += 1;
        self.batches[side].slot(slot as u8).unwrap().set_hash(self.next_tag);
        self.next_tag
    }

    fn step(&mut self) {
        let side = self.rng.random_range(0..2);
        let slot: u8 = self.rng.random();
        match self.rng.random_range(0..10) {
            0 => self.receive(side),
            1 | 2 => self.push(side),
            3 => self.transmit(side),
            4 => {
                let taken = self.batches[side].take(slot).map(|packet| packet.bytes().to_vec());
                let expected = self.models[side].get_mut(usize::from(slot)).and_then(Option::take);
                assert_eq!(taken, expected.map(|model| model.bytes));
            }
            5 => {
                let mask = self.mask();
                let before = self.batches[side].live();
                assert_eq!(self.batches[side].discard(mask), (mask & before).count());
                mask.iter().for_each(|slot| drop(self.models[side].get_mut(usize::from(slot)).map(Option::take)));
            }
            6 => self.move_to(side),
            7 => self.copy(side, slot),
            8 => self.edit(side, slot),
            _ if self.rng.random_bool(0.1) => {
                let live = self.models[side].iter().flatten().count();
                assert_eq!(self.batches[side].refill(), live);
                self.models[side].clear();
            }
            _ => self.edit(side, slot % 16),
        }
    }

    fn receive(&mut self, side: usize) {
        while self.queued.len() < 20 {
            let bytes = self.bytes();
            if !self.queue.inject(&bytes) {
                break;
            }
            self.queued.push(Model { bytes, head: ROOM, tail: ROOM, tag: 0 });
        }
        self.batches[side].refill();
        let burst = self.rng.random_range(0..40);
        let n = self.queue.receive(&mut self.batches[side], burst);
        assert_eq!(n, burst.min(self.queued.len()));
        self.models[side] = self.queued.drain(..n).map(Some).collect();
        for slot in 0..n {
            let tag = self.tag(side, slot);
            self.models[side][slot].as_mut().unwrap().tag = tag;
        }
    }

    fn push(&mut self, side: usize) {
        let bytes = self.bytes();
        let Some(packet) = self.pool.packet(&bytes) else { return };
        self.adopt(side, packet, Model { bytes, head: ROOM, tail: ROOM, tag: 0 });
    }

    fn adopt(&mut self, side: usize, packet: Packet, model: Model) {
        let slot = self.models[side].len();
        match self.batches[side].push(packet, 0) {
            Ok(got) => {
                assert_eq!(usize::from(got), slot);
                let tag = self.tag(side, slot);
                self.models[side].push(Some(Model { tag, ..model }));
            }
            Err(packet) => assert!(slot == BATCH_SIZE && packet.bytes() == model.bytes),
        }
    }

    fn transmit(&mut self, side: usize) {
        let mask = self.mask();
        let mut handles = Vec::new();
        for slot in mask {
            let model = self.models[side].get_mut(usize::from(slot)).and_then(Option::take);
            let handle = self.batches[side].take_handle(slot);
            assert_eq!(handle.is_some(), model.is_some());
            handles.extend(handle);
            if self.queued.len() < 64 {
                self.queued.extend(model);
            }
        }
        self.queue.transmit(&mut handles);
        self.queue.discard(&mut handles);
    }

    fn move_to(&mut self, side: usize) {
        let mask = self.mask();
        let [a, b] = &mut self.batches;
        let (from, to) = if side == 0 { (a, b) } else { (b, a) };
        let moved = from.move_to(mask, to);
        let mut expected = 0;
        for slot in 0..self.models[side].len() {
            if mask.contains(slot as u8)
                && self.models[1 - side].len() < BATCH_SIZE
                && let Some(model) = self.models[side][slot].take()
            {
                self.models[1 - side].push(Some(model));
                expected += 1;
            }
        }
        assert_eq!(moved, expected);
    }

    fn copy(&mut self, side: usize, slot: u8) {
        let model = self.models[side].get(usize::from(slot)).cloned().flatten();
        let copy = self.batches[side].copy(slot);
        let Some(copy) = copy else {
            assert!(model.is_none() || self.pool.in_use() == self.pool.size());
            return;
        };
        let model = Model { head: ROOM, tail: ROOM, ..model.unwrap() };
        self.adopt(1 - side, copy, model);
    }

    fn edit(&mut self, side: usize, slot: u8) {
        let Some(mut packet) = self.batches[side].slot(slot) else { return };
        let model = self.models[side][usize::from(slot)].as_mut().unwrap();
        let n = self.rng.random_range(0..200);
        let length = model.bytes.len();
        match self.rng.random_range(0..4) {
            0 => {
                assert_eq!(packet.push(n).is_ok(), n <= model.head);
                if n <= model.head {
                    model.head -= n;
                    model.bytes.splice(..0, packet.frame()[..n].to_vec());
                }
            }
            1 => {
                assert_eq!(packet.pull(n).is_ok(), n <= length);
                if n <= length {
                    model.head += n;
                    model.bytes.drain(..n);
                }
            }
            2 => {
                assert_eq!(packet.resize(n).is_ok(), n <= length + model.tail);
                if n <= length + model.tail {
                    model.tail = length + model.tail - n;
                    model.bytes.resize(n, 0);
                }
            }
            _ => {
                packet.frame_mut().fill(n as u8);
                model.bytes.fill(n as u8);
            }
        }
    }

    fn check(&mut self) {
        let mut live = self.queued.len();
        for (batch, models) in self.batches.iter_mut().zip(&self.models) {
            assert_eq!(batch.count(), models.len());
            assert_eq!(batch.live().count(), models.iter().flatten().count());
            for (slot, model) in models.iter().enumerate() {
                let frame = batch.frame(slot as u8);
                assert_eq!(frame, model.as_ref().map(|model| &model.bytes[..]), "slot {slot}");
                let tag = batch.slot(slot as u8).map(|packet| packet.hash());
                assert_eq!(tag, model.as_ref().map(|model| model.tag), "slot {slot}");
            }
            live += batch.live().count();
        }
        assert_eq!(self.pool.in_use(), live);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

#[test]
fn random_operations_agree_with_a_plain_model() {
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    let count = 100_000 * times;
    let mut world = World::new(seed);
    for step in 0..count {
        world.step();
        if step % 8 == 0 {
            world.check();
        }
    }
    world.check();
    let pool = world.pool;
    drop(world);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn packets_of_two_memories_are_freed_together() {
    let pools = [HeapPool::leak(100), HeapPool::leak(100)];
    let packet = |n: usize| pools[n / 3 % 2].packet(&[n as u8; 60]).unwrap();
    let packets: Vec<_> = (0..20).map(packet).collect();
    assert_eq!(pools.map(|pool| (&pool).in_use()), [11, 9]);
    Packet::free_all(packets);
    assert_eq!(pools.map(|pool| (&pool).in_use()), [0, 0]);
    Packet::free_all([]);
}
