// SPDX-License-Identifier: MIT
//! Snabb's packets: the pool's layout, and that whatever a thread had goes back. What Lua does with them is tested by
//! the selftests of `snabb/`.

mod common;

use ffi::{SnabbFreelist, SnabbHanded, SnabbLink, SnabbPacket};
use perigee_dpdk::snabb::{self, Directions, EarlyPackets, MAX_PACKETS, SharedPort, SnabbPool, SnabbRing, ThreadState};
use perigee_dpdk::{Device, Eal, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_packet::{Batch, Mask, Pool};

// As the crate declares it, and the C compiler checks it.
#[allow(dead_code)]
#[path = "../src/ffi.rs"]
mod ffi;

fn main() {
    common::run_with(600, &[("packets_lie_in_windows_and_come_back", everything)]);
}

fn take(pool: &SnabbPool, n: usize) -> Vec<*mut SnabbPacket> {
    let mut packets = vec![std::ptr::null_mut(); n];
    // SAFETY: there is room for n pointers.
    let taken = unsafe { ffi::perigee_snabb_take(pool.as_ptr().cast(), packets.as_mut_ptr(), n as u32) };
    packets.truncate(taken as usize);
    packets
}

fn link(state: &mut ThreadState) -> &'static mut SnabbLink {
    // SAFETY: a living link of the state, used by this thread alone until the state is dropped.
    unsafe { &mut *state.new_link().cast() }
}

/// One case, as a process has one such pool.
fn everything(eal: &Eal) {
    let pool = SnabbPool::new(eal).expect("a pool");
    assert_eq!((pool.size(), pool.available(), take(&pool, 3).len()), (0, 0, 0));
    assert_eq!(pool.grow(1000).expect("memory"), 1000);
    assert_eq!(pool.grow(500).expect("memory"), 500);
    assert!(pool.grow(MAX_PACKETS).expect_err("that is 12 GB").to_string().contains("--memory"));
    windows(&pool);
    early_packets_are_never_the_pools(&pool);
    thread_states_give_back(&pool);
    rings_keep_order(eal, &pool);
    ports_move_packets(eal, &pool);
    threads_pass_packets_on(eal, &pool);
    assert_eq!(pool.available(), pool.size());
    tasks_get_packets_and_give_them_back(eal, &pool);
    pools_of_nodes_get_their_own_back(eal, &pool);
}

/// What crosses to a task and back is the same packet, unless its memory is not the pool's; nothing is lost on the way.
fn tasks_get_packets_and_give_them_back(eal: &Eal, pool: &SnabbPool) {
    let mut state = ThreadState::new();
    state.use_pool(pool);
    let (from, to) = (link(&mut state), link(&mut state));
    let all = pool.available();
    let mut elsewhere = vec![0_u8; 12_000];
    let mut packets = take(pool, 9);
    packets.insert(4, elsewhere.as_mut_ptr().cast());
    for (i, &packet) in packets.iter().enumerate() {
        // SAFETY: ours: a length, then its bytes.
        unsafe {
            packet.cast::<u16>().write(60 + i as u16);
            packet.cast::<u8>().add(2).write_bytes(i as u8, 60 + i);
        }
        from.packets[i] = packet;
        from.write += 1;
    }
    let mut handed = SnabbHanded::default();
    let mut batch = Batch::new(&MBUF);
    let (from_at, to_at, handed_at) = ((&raw mut *from).cast(), (&raw mut *to).cast(), (&raw mut handed).cast());
    let (at, counts, pool_at) = (&raw mut *batch, state.freelist().cast(), pool.as_ptr().cast());
    // SAFETY: living objects of this thread.
    let lent = unsafe { snabb::perigee_snabb_to_batch(from_at, at, 64, pool_at, counts, handed_at) };
    assert_eq!((lent, from.read, pool.available()), (10, 10, all - 10));
    let bytes = (0..10).map(|i| 60 + i).sum();
    assert_eq!(handed, SnabbHanded { packets: 10, bytes, copied: 1, ..SnabbHanded::default() });
    for slot in 0..10_u8 {
        assert_eq!(batch.frame(slot).unwrap(), vec![slot; 60 + usize::from(slot)]);
    }
    // The task takes three bytes from the front of one, puts eight before another, and drops a third.
    batch.slot(1).unwrap().pull(3).unwrap();
    batch.slot(2).unwrap().push(8).unwrap();
    batch.discard(Mask::only(3));
    let own = MbufPool::new(eal, PoolConfig { buffers: 63, cache: 0, room: 2048, numa_node: None }).unwrap();
    assert!(batch.push(own.packet(&[7; 99]).unwrap(), 0).is_ok());
    handed = SnabbHanded::default();
    // SAFETY: as above.
    let taken = unsafe { snabb::perigee_snabb_from_batch(at, to_at, pool_at, handed_at) };
    assert_eq!((taken, to.write, own.in_use()), (10, 10, 0));
    // Copied: the one at an odd place, and the one of another pool.
    assert_eq!((handed.packets, handed.copied), (10, 2));
    // SAFETY: packets of the link.
    let lengths: Vec<u16> = (0..10).map(|i| unsafe { to.packets[i].cast::<u16>().read() }).collect();
    assert_eq!(lengths, [60, 58, 70, 64, 65, 66, 67, 68, 69, 99]);
    assert_eq!((to.packets[0], to.packets[8]), (packets[0], packets[9]));
    // SAFETY: a packet of the link.
    assert_eq!(unsafe { to.packets[9].cast::<u8>().add(2).read() }, 7);
    drop(state);
    assert_eq!(pool.available(), all);
}

/// Two nodes' pools, both on node 0: threads take from their own, and whoever frees what, each pool gets its own back.
/// A model says how many each has.
fn pools_of_nodes_get_their_own_back(eal: &Eal, pool: &SnabbPool) {
    let near = pool.on_node(eal, 0).expect("a pool");
    // A node without memory, as far as EAL knows: there is other memory.
    let far = pool.on_node(eal, 1).expect("a pool");
    assert!(pool.on_node(eal, 1).expect("the same").as_ptr() == far.as_ptr() && near.as_ptr() != far.as_ptr());
    let before = pool.all();
    assert_eq!((near.grow(700).unwrap(), far.grow(900).unwrap(), near.grow(100).unwrap()), (700, 900, 100));
    assert_eq!(pool.all(), (before.0 + 1700, before.1 + 1700, before.2));
    let pools = [&near, &far, pool];
    let sizes = pools.map(SnabbPool::available);
    let mut held: Vec<(usize, *mut SnabbPacket)> = Vec::new();
    let mut random = 12_345_u64;
    for step in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (which, n) = ((random >> 33) as usize % 3, (random >> 40) as usize % 40);
        if random >> 60 < 8 {
            held.extend(take(pools[which], n).into_iter().map(|packet| (which, packet)));
        } else {
            // Some of everybody's, given to one of them.
            let mut given: Vec<_> = held.drain(held.len() - n.min(held.len())..).map(|(_, packet)| packet).collect();
            // SAFETY: they are forgotten.
            unsafe { ffi::perigee_snabb_give(pools[which].as_ptr().cast(), given.as_mut_ptr(), given.len() as u32) };
        }
        if step % 97 == 0 {
            for (i, pool) in pools.iter().enumerate() {
                let out = held.iter().filter(|(of, _)| *of == i).count();
                assert_eq!(pool.available() as usize, sizes[i] as usize - out, "step {step}, pool {i}");
            }
        }
        let turn = n.min(held.len());
        held.rotate_left(turn);
    }
    sweeping(&near, &far);
    let mut given: Vec<_> = held.into_iter().map(|(_, packet)| packet).collect();
    // SAFETY: as above.
    unsafe { ffi::perigee_snabb_give(far.as_ptr().cast(), given.as_mut_ptr(), given.len() as u32) };
    assert_eq!(pools.map(SnabbPool::available), sizes);
    // A thread's state of that node gives back to both.
    let mut state = ThreadState::on(Some(0));
    state.use_pool(&near);
    let full = link(&mut state);
    for packet in take(&far, 20).into_iter().chain(take(&near, 20)) {
        full.packets[full.write as usize] = packet;
        full.write += 1;
    }
    drop(state);
    assert_eq!(pools.map(SnabbPool::available), sizes);
}

/// What a thread frees of another node's goes back, in between what is its own.
fn sweeping(near: &SnabbPool, far: &SnabbPool) {
    let (free, there) = (near.available(), far.available());
    let mut state = ThreadState::on(Some(0));
    state.use_pool(near);
    // SAFETY: the list of a living state.
    let list = unsafe { &mut *state.freelist().cast::<SnabbFreelist>() };
    let (own, others) = (take(near, 150), take(far, 150));
    let mixed = others[..10].iter().chain(own.iter().zip(&others[10..]).flat_map(|(a, b)| [a, b])).chain(&own[140..]);
    for (at, packet) in list.list.iter_mut().zip(mixed) {
        *at = *packet;
    }
    list.nfree = 300;
    // The oldest ten are not looked at.
    // SAFETY: living objects of this thread.
    assert_eq!(unsafe { ffi::perigee_snabb_sweep(near.as_ptr().cast(), state.freelist().cast(), 290) }, 140);
    assert_eq!((list.nfree, near.available(), far.available()), (160, free - 150, there - 10));
    assert_eq!(list.list[..10], others[..10]);
    assert_eq!(list.list[10..160], own[..]);
    drop(state);
    assert_eq!((near.available(), far.available()), (free, there));
}

/// Every packet starts 256 bytes into a window of its own; all of them are there once; what is no packet is left alone.
fn windows(pool: &SnabbPool) {
    let mut packets = take(pool, 2000);
    assert_eq!((packets.len(), pool.available()), (1500, 0));
    packets.sort_unstable();
    packets.dedup();
    assert_eq!(packets.len(), 1500);
    assert!(packets.iter().all(|packet| *packet as usize % 512 == 256));
    assert!(packets.windows(2).all(|pair| pair[1] as usize - pair[0] as usize >= 23 * 512));
    for &packet in &packets {
        // SAFETY: ours: a length, then 10,240 bytes; the farthest a packet can be moved is to the end of its window.
        unsafe {
            packet.cast::<u8>().add(254).write_bytes(0xee, 10_242);
        }
    }
    let mut elsewhere = vec![0_u8; 30_000];
    packets.push(elsewhere.as_mut_ptr().cast());
    // SAFETY: all but the last are the pool's, and are forgotten.
    unsafe { ffi::perigee_snabb_give(pool.as_ptr().cast(), packets.as_mut_ptr(), packets.len() as u32) };
    assert_eq!(pool.available(), 1500);
    let again = take(pool, 1500);
    assert_eq!(again.len(), 1500);
    let mut again = again;
    // SAFETY: as above.
    unsafe { ffi::perigee_snabb_give(pool.as_ptr().cast(), again.as_mut_ptr(), 1500) };
}

fn early_packets_are_never_the_pools(pool: &SnabbPool) {
    let mut early = EarlyPackets::default();
    let most = 3_000 * 11_776;
    let first = [early.grow(1000, most), early.grow(2000, most)].map(|first| first.expect("memory"));
    assert!(early.grow(1, most).expect_err("too much").to_string().contains("--memory"));
    assert!(early.grow(MAX_PACKETS, usize::MAX).expect_err("too many").to_string().contains("are the most"));
    assert_eq!(early.made(), 3000);
    pool.know(&early);
    let mut packets: Vec<*mut SnabbPacket> = Vec::new();
    for (first, n) in first.into_iter().zip([1000, 2000]) {
        assert_eq!(first as usize % 512, 0);
        // SAFETY: within the memory of so many packets.
        packets.extend((0..n).map(|i| unsafe { first.cast::<u8>().add(i * 11_776 + 256).cast() }));
    }
    for packet in &packets {
        // SAFETY: ours: as far as the farthest place of a packet in its window.
        unsafe { packet.cast::<u8>().add(254).write_bytes(0xee, 10_242) };
    }
    let (free, gone) = (pool.available(), pool.gone());
    // SAFETY: they are forgotten.
    unsafe { ffi::perigee_snabb_give(pool.as_ptr().cast(), packets.as_mut_ptr(), 2999) };
    assert_eq!((pool.available(), pool.gone() - gone), (free, 2999));
}

fn thread_states_give_back(pool: &SnabbPool) {
    let mut state = ThreadState::new();
    state.use_pool(pool);
    let (full, half) = (link(&mut state), link(&mut state));
    for (link, n) in [(&mut *full, 1023), (&mut *half, 10)] {
        for packet in take(pool, n) {
            link.packets[(link.write & 1023) as usize] = packet;
            link.write += 1;
        }
    }
    assert_eq!(pool.available(), 1500 - 1033);
    let at = (&raw mut *half).cast();
    assert!(state.free_link(at) && !state.free_link(at));
    assert_eq!(pool.available(), 1500 - 1023);
    drop(state);
    assert_eq!(pool.available(), 1500);
}

fn rings_keep_order(eal: &Eal, pool: &SnabbPool) {
    let (mut here, mut there) = (ThreadState::new(), ThreadState::new());
    here.use_pool(pool);
    there.use_pool(pool);
    let ring = SnabbRing::new(eal, pool, 100).expect("a ring");
    let (from, to) = (link(&mut here), link(&mut there));
    // Over the end of the links' rings, too.
    (from.read, from.write, to.read, to.write) = (1000, 1000, 1010, 1010);
    let packets = take(pool, 150);
    for &packet in &packets {
        from.packets[(from.write & 1023) as usize] = packet;
        from.write += 1;
    }
    // SAFETY: living links and a living ring, on one thread.
    unsafe {
        assert_eq!(ffi::perigee_snabb_put(ring.as_ptr().cast(), from), 100);
        assert_eq!(ffi::perigee_snabb_put(ring.as_ptr().cast(), from), 0);
        assert_eq!(ffi::perigee_snabb_get(ring.as_ptr().cast(), to, 70), 70);
        assert_eq!(ffi::perigee_snabb_put(ring.as_ptr().cast(), from), 50);
        assert_eq!(ffi::perigee_snabb_get(ring.as_ptr().cast(), to, 60), 60);
    }
    let got: Vec<_> = (1010..to.write).map(|at| to.packets[(at & 1023) as usize]).collect();
    assert_eq!(got, packets[..130]);
    drop((ring, here, there));
    assert_eq!(pool.available(), 1500);
}

/// One thread takes packets, numbers them and passes them on, another gives them back; meanwhile the pool grows.
/// ThreadSanitizer says whether that is in order.
fn threads_pass_packets_on(eal: &Eal, pool: &SnabbPool) {
    const PACKETS: u32 = 20_000;
    let ring = SnabbRing::new(eal, pool, 64).expect("a ring");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _registered = eal.register_thread().unwrap();
            let mut state = ThreadState::new();
            state.use_pool(pool);
            let link = link(&mut state);
            for number in 0..PACKETS {
                let packet = take(pool, 1)[0];
                // SAFETY: a packet of ours, until it is in the ring; this thread's link; the ring's only producer.
                unsafe {
                    packet.cast::<u16>().write(4);
                    packet.cast::<u8>().add(2).cast::<u32>().write_unaligned(number);
                    link.packets[(link.write & 1023) as usize] = packet;
                    link.write += 1;
                    while ffi::perigee_snabb_put(ring.as_ptr().cast(), link) == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        scope.spawn(|| {
            let _registered = eal.register_thread().unwrap();
            let mut state = ThreadState::new();
            state.use_pool(pool);
            let link = link(&mut state);
            for number in 0..PACKETS {
                // SAFETY: this thread's link; the ring's only consumer; a packet of ours, until it is given back.
                unsafe {
                    while ffi::perigee_snabb_get(ring.as_ptr().cast(), link, 1) == 0 {
                        std::thread::yield_now();
                    }
                    let at = (link.read & 1023) as usize;
                    link.read += 1;
                    assert_eq!(link.packets[at].cast::<u8>().add(2).cast::<u32>().read_unaligned(), number);
                    ffi::perigee_snabb_give(pool.as_ptr().cast(), &raw mut link.packets[at], 1);
                }
            }
        });
        for _ in 0..5 {
            assert_eq!(pool.grow(100).expect("memory"), 100);
        }
    });
}

fn ports_move_packets(eal: &Eal, pool: &SnabbPool) {
    let mut state = ThreadState::new();
    state.use_pool(pool);
    let config = PortConfig { one_pool: true, ..PortConfig::new(Device::Dpdk("net_null7,size=60".into())) };
    for copy in [false, true] {
        let shared = SharedPort::open(eal, &config, pool, copy).expect("a port");
        let port = shared.queues(0, Directions::BOTH, pool).expect("its queues");
        assert!(shared.queues(0, Directions::BOTH, pool).is_err(), "the queues are given out once");
        let link = link(&mut state);
        // SAFETY: a living port, link and list of free packets, on one thread.
        let (received, sent) = unsafe {
            let received = ffi::perigee_snabb_receive(port.as_ptr().cast(), link, 2000);
            (received, ffi::perigee_snabb_transmit(port.as_ptr().cast(), link, state.freelist().cast()))
        };
        assert_eq!((received, sent), (1023, 1023), "a link holds 1023");
        let counts = port.counts();
        assert_eq!((counts.received, counts.transmitted), (1023, 1023));
        assert_eq!((counts.copied_in, counts.copied_out), if copy { (1023, 1023) } else { (0, 0) });
        assert!(!copy || port.info().notes.iter().any(|note| note.contains("every packet is copied")));
    }
    drop(state);
    assert_eq!(pool.available(), pool.size());
}
