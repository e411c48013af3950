// SPDX-License-Identifier: MIT
//! The C functions that are called: DPDK's exported ones, and the shim (`shim.h`) over its inlines. Not generated, so that no
//! libclang is needed; `shim.c` asserts the layouts.

use perigee_packet::batch::ReceiveArrays;
use std::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// `struct rte_mempool`
    Mempool
    /// `struct rte_ring`
    Ring
    /// `struct rte_flow`
    Flow
    /// `struct rte_acl_ctx`
    Acl
    /// `struct rte_lpm`
    Lpm
    /// `struct rte_fib`
    Fib
    /// `struct rte_lpm6`
    Lpm6
    /// `struct rte_fib6`
    Fib6
    /// `struct rte_device`
    Device
    /// `FILE`
    File
}

/// `RTE_MAX_LCORE`-independent `LCORE_ID_ANY`: the calling thread is unknown to EAL.
pub const LCORE_ANY: c_uint = c_uint::MAX;

pub const IPV4_CHECKSUM: u16 = 1;
pub const RSS: u16 = 2;
pub const RSS_HASH: u16 = 4;
pub const FAST_FREE: u16 = 8;
/// Bytes of the name of a driver's function.
pub const PATH: usize = 1024;
pub const INTERRUPTS: u16 = 16;

/// The first cache line of `struct rte_mbuf`, as far as it is used from Rust.
#[repr(C)]
pub struct Mbuf {
    pub buf_addr: *mut u8,
    pub iova: u64,
    pub data_off: u16,
    pub refcnt: u16,
    pub nb_segs: u16,
    pub port: u16,
    pub ol_flags: u64,
    pub packet_type: u32,
    pub pkt_len: u32,
    pub data_len: u16,
    pub vlan_tci: u16,
    pub hash: [u32; 2],
    pub vlan_tci_outer: u16,
    pub buf_len: u16,
    pub pool: *mut Mempool,
    pub second_line: u64,
    pub tx_offload: u64,
}

/// `RTE_MBUF_F_RX_LRO`: several frames that became one; `tx_offload` says how long each was.
pub const MBUF_LRO: u64 = 1 << 16;
/// Where `tso_segsz`, of 16 bits, is in `tx_offload`.
pub const MBUF_SEGMENT_SHIFT: u32 = 24;

const _: () = {
    use std::mem::offset_of;
    // shim.c asserts the same numbers against DPDK's own declaration.
    assert!(offset_of!(Mbuf, buf_addr) == 0 && offset_of!(Mbuf, data_off) == 16 && offset_of!(Mbuf, refcnt) == 18);
    assert!(offset_of!(Mbuf, nb_segs) == 20 && offset_of!(Mbuf, port) == 22 && offset_of!(Mbuf, ol_flags) == 24);
    assert!(offset_of!(Mbuf, pkt_len) == 36 && offset_of!(Mbuf, data_len) == 40 && offset_of!(Mbuf, buf_len) == 54);
    assert!(offset_of!(Mbuf, pool) == 56 && offset_of!(Mbuf, tx_offload) == 72);
};

/// `struct perigee_non_plain`, written with relaxed atomics on both sides.
#[repr(C)]
#[derive(Debug, Default)]
pub struct NonPlain {
    pub made_whole: std::sync::atomic::AtomicU64,
    pub dropped_chained: std::sync::atomic::AtomicU64,
    pub dropped_shared: std::sync::atomic::AtomicU64,
}

/// `struct perigee_device`
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

/// `struct perigee_setup`
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

/// `struct perigee_link`
#[repr(C)]
#[derive(Default)]
pub struct LinkState {
    pub mbps: u32,
    pub up: u8,
    pub full_duplex: u8,
    pub speed_known: u8,
}

/// `struct perigee_counter`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceCounter {
    pub name: [c_char; 64],
    pub value: u64,
}

/// `struct perigee_flow`; numbers in network order.
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

/// `struct perigee_acl_rule`; ports in host order.
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
}

/// `struct perigee_snabb_port`: a pair of queues as the shim sees it, and what it counts.
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

/// `struct link`
#[repr(C)]
pub struct SnabbLink {
    pub read: i32,
    pub counted: i32,
    pub id: i32,
    pub unused: i32,
    pub write: i64,
    pub bytes: i64,
    pub drops: i64,
    pub packets: [*mut c_void; 1024],
}

/// `struct perigee_snabb_freelist`
#[repr(C)]
pub struct SnabbFreelist {
    pub nfree: i64,
    pub max: i64,
    pub frees: i64,
    pub bytes: i64,
    pub padded: i64,
    pub list: [*mut c_void; 1 << 20],
}

/// `struct perigee_snabb_handed`, which Lua reads and the shim writes.
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
    pub fn rte_pktmbuf_free_bulk(mbufs: *mut *mut c_void, n: c_uint);
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
    pub fn perigee_snabb_take(pool: *mut Mempool, to: *mut *mut c_void, n: u32) -> u32;
    pub fn perigee_snabb_give(pool: *mut Mempool, from: *mut *mut c_void, n: u32);
    pub fn perigee_snabb_sweep(pool: *mut Mempool, list: *mut SnabbFreelist, n: u32) -> u32;
    pub fn perigee_snabb_receive(port: *mut SnabbQueues, to: *mut SnabbLink, n: u32) -> u32;
    pub fn perigee_snabb_transmit(port: *mut SnabbQueues, from: *mut SnabbLink, counts: *mut SnabbFreelist) -> u32;
    pub fn perigee_snabb_put(to: *mut Ring, from: *mut SnabbLink) -> u32;
    pub fn perigee_snabb_get(from: *mut Ring, to: *mut SnabbLink, n: u32) -> u32;
    pub fn perigee_snabb_lend(
        from: *mut SnabbLink,
        to: *const ReceiveArrays,
        n: u16,
        pool: *mut Mempool,
        counts: *mut SnabbFreelist,
        handed: *mut SnabbHanded,
    ) -> u16;
    pub fn perigee_snabb_accept(
        from: *mut *mut c_void,
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
        non_plain: *const NonPlain,
    ) -> u16;
    pub fn perigee_ring_receive(
        ring: *mut Ring,
        to: *const ReceiveArrays,
        burst: u16,
        non_plain: *const NonPlain,
    ) -> u16;
    pub fn perigee_tx_burst(port: u16, queue: u16, packets: *mut *mut c_void, n: u16) -> u16;
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
    pub fn perigee_port_paths(port: u16, receive: *mut c_char, transmit: *mut c_char);
    pub fn perigee_port_link(port: u16, to: *mut LinkState) -> c_int;
    pub fn perigee_port_stats(port: u16, to: *mut u64) -> c_int;
    pub fn perigee_port_counters(port: u16, to: *mut DeviceCounter, most: c_int) -> c_int;
    pub fn perigee_port_set_mac(port: u16, mac: *const u8) -> c_int;
    pub fn perigee_interface_mtu(name: *const c_char) -> c_int;
    pub fn perigee_interface_running(name: *const c_char) -> c_int;
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
    pub fn perigee_lpm6_lookup(lpm: *const Lpm6, ips: *const u8, turn: c_int, ids: *mut u32, n: usize, none: u32);
    pub fn perigee_fib6_create(
        name: *const c_char,
        log2_size: c_int,
        routes: u32,
        groups: u32,
        vector: *mut c_int,
    ) -> *mut Fib6;
    pub fn perigee_fib6_add(fib: *mut Fib6, ip: *const [u8; 16], length: u8, id: u64) -> c_int;
    pub fn perigee_fib6_delete(fib: *mut Fib6, ip: *const [u8; 16], length: u8) -> c_int;
    pub fn perigee_fib6_lookup(fib: *mut Fib6, ips: *const u8, turn: c_int, ids: *mut u32, n: usize);
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
    pub fn perigee_lcore() -> c_uint;
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
        handle: *mut *mut c_void,
        data: *mut *mut u8,
        length: *const u16,
        n: u16,
    ) -> c_int;
    pub fn perigee_log_stream(write: LogWrite) -> *mut File;
}
