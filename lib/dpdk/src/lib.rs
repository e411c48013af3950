// SPDX-License-Identifier: MIT
//! DPDK for perigee: the only crate that calls it. Safe Rust outside, `unsafe` and a small C shim inside.
//!
//! ```text
//! start    eal (once per process, with or without hugepages; threads)   log (what DPDK says)   clock (nanoseconds)
//! packets  pool (buffers on a NUMA node)   memory (a buffer as perigee_packet sees it)   left (how much memory there is)
//! ports    device (which one)   port (open, configure, start)   plan (what it can do)   queue (receive, transmit)
//! hand-over ring (from one to another)
//! power    power (waking by interrupts, resting by the processor's instructions)
//! filters  rule (5-tuples)   flow (in the device)   acl (lists in software)
//! snabb    snabb (packets in the layout of Snabb programs: pool, ports, rings between threads)
//! routes   fib (rte_lpm, rte_fib and their IPv6 counterparts as perigee_fib's lookup structures)
//! C        ffi (declarations)   shim.h, shim.c (what DPDK has inline; the receive loop), shim_filters.c, shim_fib.c, shim_power.c,
//!          shim_snabb.c
//! ```
//!
//! Lifetimes keep order: queues and rules hold their port, ports hold their pool, and everything holds EAL. A port is
//! closed when the last of its queues is gone; a pool that still has packets out is never freed; EAL is cleaned up
//! last.

mod acl;
mod capture;
mod clock;
mod device;
mod eal;
mod error;
mod ffi;
pub mod fib;
mod flow;
mod left;
mod log;
mod memory;
pub mod numa;
mod open_port;
mod plan;
mod pool;
mod port;
mod power;
mod queue;
mod ring;
mod rule;
pub mod snabb;

pub use acl::{AclFilter, MAX_RULES};
pub use capture::check_captures;
pub use clock::Clock;
pub use device::{Device, socket_frames};
pub use eal::{
    Eal, EalConfig, Hugepages, LogLevel, RegisteredThread, bind_current_thread, fallback_runtime_dir, max_ports,
    max_threads, pin_current_thread, set_runtime_dir, usable_cores, version,
};
pub use error::{Error, Result};
pub use flow::{FlowRule, Steer};
pub use log::log_lines;
pub use memory::{MBUF, MbufMemory};
pub use plan::PortConfig;
pub use pool::{FRAME_OVERHEAD, HEADROOM, MbufPool, PoolConfig};
pub use port::DpdkPort;
pub use queue::{RxNonPlain, RxQueue, TxQueue};
pub use ring::{RingReceiver, RingSender, RingToTx, ring};
