// SPDX-License-Identifier: MIT
//! The C functions that are called: DPDK's exported ones, and the shim (`shim.h`) over its inlines. Not generated, so
//! that no libclang is needed: the C compiler checks each item against the headers (`build/check.rs`), where it has the
//! name of its `alias`.

use perigee_packet::batch::ReceiveArrays;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::AtomicU64;

/// Packet buffers.
#[doc(alias = "struct rte_mempool")]
#[repr(C)]
pub struct Mempool([u8; 0]);

/// Pointers on their way between threads.
#[doc(alias = "struct rte_ring")]
#[repr(C)]
pub struct Ring([u8; 0]);

/// A hardware filter.
#[doc(alias = "struct rte_flow")]
#[repr(C)]
pub struct Flow([u8; 0]);

/// A filter list.
#[doc(alias = "struct rte_acl_ctx")]
#[repr(C)]
pub struct Acl([u8; 0]);

/// An IPv4 routing table.
#[doc(alias = "struct rte_lpm")]
#[repr(C)]
pub struct Lpm([u8; 0]);

/// Another one.
#[doc(alias = "struct rte_fib")]
#[repr(C)]
pub struct Fib([u8; 0]);

/// An IPv6 routing table.
#[doc(alias = "struct rte_lpm6")]
#[repr(C)]
pub struct Lpm6([u8; 0]);

/// Another one.
#[doc(alias = "struct rte_fib6")]
#[repr(C)]
pub struct Fib6([u8; 0]);

/// A device, also one without a port.
#[doc(alias = "struct rte_device")]
#[repr(C)]
pub struct Device([u8; 0]);

/// A stream of stdio's.
#[doc(alias = "FILE")]
#[repr(C)]
pub struct File([u8; 0]);

/// A packet in Snabb's layout: its length, and its bytes.
#[doc(alias = "struct packet")]
#[repr(C)]
pub struct SnabbPacket([u8; 0]);

/// A [`Mempool`] of Snabb's packets, as Lua knows it.
#[doc(alias = "struct perigee_snabb_pool")]
#[repr(C)]
pub struct SnabbPackets([u8; 0]);

/// A [`Ring`] of Snabb's packets, as Lua knows it.
#[doc(alias = "struct perigee_snabb_ring")]
#[repr(C)]
pub struct SnabbRing([u8; 0]);

/// The calling thread is unknown to EAL.
#[doc(alias = "LCORE_ID_ANY")]
pub const LCORE_ANY: c_uint = c_uint::MAX;

#[doc(alias = "PERIGEE_IPV4_CHECKSUM")]
pub const IPV4_CHECKSUM: u16 = 1;
#[doc(alias = "PERIGEE_RSS")]
pub const RSS: u16 = 2;
#[doc(alias = "PERIGEE_RSS_HASH")]
pub const RSS_HASH: u16 = 4;
#[doc(alias = "PERIGEE_FAST_FREE")]
pub const FAST_FREE: u16 = 8;
#[doc(alias = "PERIGEE_INTERRUPTS")]
pub const INTERRUPTS: u16 = 16;

/// Bytes of the name of a driver's function.
#[doc(alias = "RTE_ETH_BURST_MODE_INFO_SIZE")]
pub const PATH: usize = 1024;

/// Free bytes before a received packet.
#[doc(alias = "RTE_PKTMBUF_HEADROOM")]
pub const HEADROOM: u16 = 128;

/// The first part of a packet buffer.
#[doc(alias = "struct rte_mbuf")]
#[repr(C)]
pub struct Mbuf {
    pub buf_addr: *mut c_void,
    _iova: u64,
    pub data_off: u16,
    pub refcnt: u16,
    pub nb_segs: u16,
    pub port: u16,
    pub ol_flags: u64,
    pub packet_type: u32,
    pub pkt_len: u32,
    pub data_len: u16,
    pub vlan_tci: u16,
    _hash: [u32; 2],
    pub vlan_tci_outer: u16,
    pub buf_len: u16,
    pub pool: *mut Mempool,
    _next: u64,
    pub tx_offload: u64,
    _rest: [u8; 0],
}

/// Several frames that became one; `tx_offload` says how long each was.
#[doc(alias = "RTE_MBUF_F_RX_LRO")]
pub const MBUF_LRO: u64 = 1 << 16;
/// Where `tso_segsz` is in `tx_offload`, and its bits.
#[doc(alias = "RTE_MBUF_TSO_SEGSZ_OFS")]
pub const MBUF_SEGMENT_SHIFT: u32 = 24;
#[doc(alias = "RTE_MBUF_TSO_SEGSZ_BITS")]
pub const MBUF_SEGMENT_BITS: u32 = 16;

/// Received packets that were not plain; written with relaxed atomics on both sides.
#[doc(alias = "struct perigee_non_plain")]
#[repr(C)]
#[derive(Debug, Default)]
pub struct NonPlain {
    pub made_whole: AtomicU64,
    pub dropped_chained: AtomicU64,
    pub dropped_shared: AtomicU64,
}

/// What a device is and can do.
#[doc(alias = "struct perigee_device")]
#[repr(C)]
pub struct DeviceInfo {
    pub name: [c_char; 64],
    pub driver: [c_char; 64],
    pub mac: [u8; 6],
    pub max_rx_queues: u16,
    pub max_tx_queues: u16,
    pub max_mtu: u16,
    pub reta_size: u16,
    pub features: u16,
    pub socket: i32,
    pub device: *mut Device,
}

/// How a port is set up.
#[doc(alias = "struct perigee_setup")]
#[repr(C)]
pub struct Setup {
    pub pool: *mut Mempool,
    pub port: u16,
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub rx_descriptors: u16,
    pub tx_descriptors: u16,
    pub mtu: u16,
    pub features: u16,
}

/// The state of a port's link.
#[doc(alias = "struct perigee_link")]
#[repr(C)]
#[derive(Default)]
pub struct LinkState {
    pub mbps: u32,
    pub up: u8,
    pub full_duplex: u8,
    pub speed_known: u8,
}

/// A counter by its driver's name.
#[doc(alias = "struct perigee_counter")]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceCounter {
    pub name: [c_char; 64],
    pub value: u64,
}

/// What a hardware filter matches; numbers in network order.
#[doc(alias = "struct perigee_flow")]
#[repr(C)]
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FlowPattern {
    pub source: [u8; 16],
    pub source_mask: [u8; 16],
    pub destination: [u8; 16],
    pub destination_mask: [u8; 16],
    pub ether_type: u16,
    pub source_port: u16,
    pub source_port_mask: u16,
    pub destination_port: u16,
    pub destination_port_mask: u16,
    pub family: u8,
    pub protocol: u8,
    pub protocol_mask: u8,
}

/// A line of a filter list; ports in host order.
#[doc(alias = "struct perigee_acl_rule")]
#[repr(C)]
pub struct AclRule {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub source_bits: u8,
    pub destination_bits: u8,
    pub protocol: u8,
    pub protocol_mask: u8,
    pub source_port_low: u16,
    pub source_port_high: u16,
    pub destination_port_low: u16,
    pub destination_port_high: u16,
    /// What a match results in; not 0.
    pub verdict: u32,
}

/// Most bytes of a Snabb packet.
#[doc(alias = "PACKET_PAYLOAD_SIZE")]
pub const SNABB_PAYLOAD: u16 = 10_240;
/// Bytes from one of them to the next, where they are made.
#[doc(alias = "PERIGEE_SNABB_STRIDE")]
pub const SNABB_STRIDE: usize = 23 * SNABB_WINDOW;
/// Bytes of the window that a packet starts in, behind what DPDK has of it.
#[doc(alias = "PERIGEE_SNABB_WINDOW")]
pub const SNABB_WINDOW: usize = 512;
/// Slots of a link.
#[doc(alias = "LINK_RING_SIZE")]
pub const SNABB_LINK: usize = 1024;

/// A pair of queues as the shim sees it, and what it counts.
#[doc(alias = "struct perigee_snabb_port")]
#[repr(C)]
pub struct SnabbQueues {
    pub port: u16,
    pub queue: u16,
    pub copies: u16,
    pub kick: u16,
    pub packets: *mut Mempool,
    pub device: *mut Mempool,
    pub received: u64,
    pub transmitted: u64,
    pub copied_in: u64,
    pub copied_out: u64,
    pub rx_long: u64,
    pub rx_no_buffer: u64,
    pub tx_long: u64,
    pub tx_no_buffer: u64,
    pub max_frame: u64,
}

/// A link of Snabb's.
#[doc(alias = "struct link")]
#[repr(C)]
pub struct SnabbLink {
    pub read: i32,
    pub counted: i32,
    pub id: i32,
    pub unused: i32,
    pub write: i64,
    pub bytes: i64,
    pub drops: i64,
    pub packets: [*mut SnabbPacket; SNABB_LINK],
}

/// Free packets of one thread.
#[doc(alias = "struct perigee_snabb_freelist")]
#[repr(C)]
pub struct SnabbFreelist {
    pub nfree: i64,
    pub max: i64,
    pub frees: i64,
    pub bytes: i64,
    pub padded: i64,
    pub list: [*mut SnabbPacket; 1 << 20],
}

/// What went between links and batches: Lua reads it, and the shim writes it.
#[doc(alias = "struct perigee_snabb_handed")]
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SnabbHanded {
    pub packets: u64,
    pub bytes: u64,
    pub copied: u64,
    pub too_long: u64,
    pub no_buffer: u64,
}

/// Writes what DPDK logs: cookie, text, length; returns the number of bytes taken.
pub type LogWrite = extern "C" fn(*mut c_void, *const c_char, usize) -> isize;

unsafe extern "C" {
    pub fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn rte_eal_cleanup() -> c_int;
    pub fn rte_openlog_stream(stream: *mut File) -> c_int;
    pub fn rte_strerror(error: c_int) -> *const c_char;
    pub fn rte_version() -> *const c_char;
    pub fn rte_thread_register() -> c_int;
    pub fn rte_thread_unregister();
    pub fn rte_eal_get_runtime_dir() -> *const c_char;

    pub fn rte_mempool_free(pool: *mut Mempool);
    pub fn rte_pktmbuf_free_bulk(mbufs: *mut *mut Mbuf, n: c_uint);
    #[cfg(test)]
    pub fn rte_pktmbuf_copy(m: *const Mbuf, pool: *mut Mempool, offset: u32, length: u32) -> *mut Mbuf;
    #[cfg(test)]
    pub fn rte_pktmbuf_clone(m: *mut Mbuf, pool: *mut Mempool) -> *mut Mbuf;

    pub fn rte_dev_probe(devargs: *const c_char) -> c_int;
    pub fn rte_dev_remove(device: *mut Device) -> c_int;
    pub fn rte_eth_dev_start(port: u16) -> c_int;
    pub fn rte_eth_dev_stop(port: u16) -> c_int;
    pub fn rte_eth_dev_close(port: u16) -> c_int;
    pub fn rte_eth_dev_set_mtu(port: u16, mtu: u16) -> c_int;
    pub fn rte_eth_promiscuous_enable(port: u16) -> c_int;
    pub fn rte_eth_promiscuous_disable(port: u16) -> c_int;
    pub fn rte_eth_allmulticast_disable(port: u16) -> c_int;
    pub fn rte_eth_allmulticast_enable(port: u16) -> c_int;
    pub fn rte_eth_stats_reset(port: u16) -> c_int;
    pub fn rte_ring_free(ring: *mut Ring);
    pub fn rte_acl_free(acl: *mut Acl);

    pub fn rte_lpm_add(lpm: *mut Lpm, ip: u32, length: u8, id: u32) -> c_int;
    pub fn rte_lpm_delete(lpm: *mut Lpm, ip: u32, length: u8) -> c_int;
    pub fn rte_lpm_free(lpm: *mut Lpm);
    pub fn rte_fib_add(fib: *mut Fib, ip: u32, length: u8, id: u64) -> c_int;
    pub fn rte_fib_delete(fib: *mut Fib, ip: u32, length: u8) -> c_int;
    pub fn rte_fib_free(fib: *mut Fib);
    pub fn rte_lpm6_free(lpm: *mut Lpm6);
    pub fn rte_fib6_free(fib: *mut Fib6);

    pub fn perigee_give_memory_back();
    pub fn perigee_pool_in_use(pool: *const Mempool) -> c_uint;
    pub fn perigee_snabb_pool_create(name: *const c_char, most: u32, socket: c_int) -> *mut Mempool;
    pub fn perigee_snabb_pool_grow(pool: *mut Mempool, zone: *const c_char, n: u32, socket: c_int) -> c_int;
    pub fn perigee_snabb_pool_join(pool: *mut Mempool, known: *mut Mempool);
    pub fn perigee_snabb_memory(bytes: usize, node: c_int) -> *mut c_void;
    pub fn perigee_snabb_free_memory(at: *mut c_void, bytes: usize);
    pub fn perigee_snabb_pool_size(pool: *const Mempool) -> u32;
    pub fn perigee_snabb_pool_available(pool: *const Mempool) -> u32;
    pub fn perigee_snabb_pool_know(pool: *mut Mempool, first: *const c_void, bytes: usize);
    pub fn perigee_snabb_pool_gone(pool: *const Mempool) -> u32;
    pub fn perigee_snabb_ring_create(name: *const c_char, capacity: c_uint, socket: c_int) -> *mut Ring;
    pub fn perigee_snabb_take(pool: *mut SnabbPackets, to: *mut *mut SnabbPacket, n: u32) -> u32;
    pub fn perigee_snabb_give(pool: *mut SnabbPackets, from: *mut *mut SnabbPacket, n: u32);
    pub fn perigee_snabb_sweep(pool: *mut SnabbPackets, list: *mut SnabbFreelist, n: u32) -> u32;
    pub fn perigee_snabb_receive(port: *mut SnabbQueues, to: *mut SnabbLink, n: u32) -> u32;
    pub fn perigee_snabb_transmit(port: *mut SnabbQueues, from: *mut SnabbLink, counts: *mut SnabbFreelist) -> u32;
    pub fn perigee_snabb_put(to: *mut SnabbRing, from: *mut SnabbLink) -> u32;
    pub fn perigee_snabb_get(from: *mut SnabbRing, to: *mut SnabbLink, n: u32) -> u32;
    pub fn perigee_snabb_lend(
        from: *mut SnabbLink,
        to: *const ReceiveArrays,
        n: u16,
        pool: *mut Mempool,
        counts: *mut SnabbFreelist,
        handed: *mut SnabbHanded,
    ) -> u16;
    pub fn perigee_snabb_accept(
        from: *mut *mut Mbuf,
        n: u16,
        to: *mut SnabbLink,
        pool: *mut Mempool,
        handed: *mut SnabbHanded,
    ) -> u16;
    pub fn perigee_snabb_load(flag: *const i32) -> i32;
    pub fn perigee_snabb_compare_exchange_u32(at: *mut u32, old: u32, new: u32) -> c_int;
    pub fn get_monotonic_time() -> f64;
    pub fn get_unix_time() -> f64;
    pub fn get_time_ns() -> u64;
    pub fn full_memory_barrier();

    pub fn perigee_rx_burst(
        port: u16,
        queue: u16,
        to: *const ReceiveArrays,
        burst: u16,
        pool: *mut Mempool,
        non_plain: *mut NonPlain,
    ) -> u16;
    pub fn perigee_ring_receive(ring: *mut Ring, to: *const ReceiveArrays, burst: u16, non_plain: *mut NonPlain)
    -> u16;
    pub fn perigee_tx_burst(port: u16, queue: u16, packets: *mut *mut Mbuf, n: u16) -> u16;
    pub fn perigee_ring_create(name: *const c_char, capacity: c_uint, socket: c_int) -> *mut Ring;
    pub fn perigee_ring_enqueue(ring: *mut Ring, packets: *const *mut c_void, n: c_uint) -> c_uint;
    pub fn perigee_ring_dequeue(ring: *mut Ring, packets: *mut *mut c_void, n: c_uint) -> c_uint;
    pub fn perigee_ring_count(ring: *const Ring) -> c_uint;
    pub fn perigee_mbuf_new(pool: *mut Mempool, bytes: *const u8, length: u16) -> *mut Mbuf;

    pub fn perigee_port_find(devargs: *const c_char, port: *mut u16) -> c_int;
    pub fn perigee_port_describe(port: u16, to: *mut DeviceInfo) -> c_int;
    pub fn perigee_port_setup(setup: *const Setup, step: *mut *const c_char) -> c_int;
    pub fn perigee_port_spread(port: u16, reta_size: u16, queues: u16) -> c_int;
    pub fn perigee_packet_sockets(interface: *const c_char, to: *mut c_int, most: c_int) -> c_int;
    pub fn perigee_packet_drops(fd: c_int) -> u64;
    pub fn perigee_port_pause(port: u16) -> c_int;
    pub fn perigee_port_paths(port: u16, receive: *mut [c_char; PATH], transmit: *mut [c_char; PATH]);
    pub fn perigee_port_link(port: u16, to: *mut LinkState) -> c_int;
    pub fn perigee_port_stats(port: u16, to: *mut [u64; 8]) -> c_int;
    pub fn perigee_port_counters(port: u16, to: *mut DeviceCounter, most: c_int) -> c_int;
    pub fn perigee_port_set_mac(port: u16, mac: *const [u8; 6]) -> c_int;
    pub fn perigee_interface_mtu(name: *const c_char) -> c_int;
    pub fn perigee_interface_running(name: *const c_char) -> c_int;
    pub fn perigee_interface_promiscuous(name: *const c_char) -> c_int;
    pub fn perigee_interface_queues(name: *const c_char) -> c_int;
    pub fn perigee_flow_create(
        port: u16,
        flow: *const FlowPattern,
        queue: u16,
        message: *mut c_char,
        size: usize,
    ) -> *mut Flow;
    pub fn perigee_flow_destroy(port: u16, flow: *mut Flow) -> c_int;
    pub fn perigee_acl_build(
        name: *const c_char,
        socket: c_int,
        family: c_int,
        rules: *const AclRule,
        n: u32,
        error: *mut c_int,
    ) -> *mut Acl;
    pub fn perigee_acl_classify(acl: *const Acl, keys: *const u8, stride: usize, n: u32, to: *mut u32) -> c_int;

    pub fn perigee_lpm_create(name: *const c_char, routes: u32, groups: u32) -> *mut Lpm;
    pub fn perigee_lpm_lookup(lpm: *const Lpm, ips: *const u32, ids: *mut u32, n: usize, none: u32);
    pub fn perigee_fib_create(
        name: *const c_char,
        log2_size: c_int,
        routes: u32,
        groups: u32,
        vector: *mut c_int,
    ) -> *mut Fib;
    pub fn perigee_fib_lookup(fib: *mut Fib, ips: *const u32, ids: *mut u32, n: usize);
    pub fn perigee_lpm6_create(name: *const c_char, routes: u32, groups: u32) -> *mut Lpm6;
    pub fn perigee_lpm6_add(lpm: *mut Lpm6, ip: *const [u8; 16], length: u8, id: u32) -> c_int;
    pub fn perigee_lpm6_delete(lpm: *mut Lpm6, ip: *const [u8; 16], length: u8) -> c_int;
    pub fn perigee_lpm6_lookup(lpm: *const Lpm6, ips: *const [u8; 16], turn: c_int, ids: *mut u32, n: usize, none: u32);
    pub fn perigee_fib6_create(
        name: *const c_char,
        log2_size: c_int,
        routes: u32,
        groups: u32,
        vector: *mut c_int,
    ) -> *mut Fib6;
    pub fn perigee_fib6_add(fib: *mut Fib6, ip: *const [u8; 16], length: u8, id: u64) -> c_int;
    pub fn perigee_fib6_delete(fib: *mut Fib6, ip: *const [u8; 16], length: u8) -> c_int;
    pub fn perigee_fib6_lookup(fib: *mut Fib6, ips: *const [u8; 16], turn: c_int, ids: *mut u32, n: usize);
    pub fn perigee_heap_used() -> usize;

    pub fn perigee_wake_open(port: u16, queue: u16) -> c_int;
    pub fn perigee_wake_close(port: u16, queue: u16, descriptor: c_int);
    pub fn perigee_wake_arm(port: u16, queue: u16) -> c_int;
    pub fn perigee_wake_disarm(port: u16, queue: u16, descriptor: c_int) -> c_int;
    pub fn perigee_can_pause() -> c_int;
    pub fn perigee_can_monitor(port: u16, queue: u16) -> c_int;
    pub fn perigee_pause(ns: u32) -> c_int;
    pub fn perigee_monitor(port: u16, queue: u16, ns: u32) -> c_int;

    pub fn perigee_prefer_node(node: c_int) -> c_int;
    pub fn perigee_errno() -> c_int;
    pub fn perigee_flush();
    pub fn perigee_lcore() -> c_uint;
    pub fn perigee_max_ports() -> c_uint;
    pub fn perigee_max_lcores() -> c_uint;
    pub fn perigee_tsc() -> u64;
    pub fn perigee_pool_create(
        name: *const c_char,
        buffers: u32,
        cache: u32,
        room: u16,
        socket: c_int,
        packed: c_int,
    ) -> *mut Mempool;
    pub fn perigee_pool_fill(
        pool: *mut Mempool,
        handle: *mut *mut Mbuf,
        data: *mut *mut u8,
        length: *const u16,
        n: u16,
    ) -> c_int;
    pub fn perigee_log_stream(write: LogWrite) -> *mut File;
}
