// SPDX-License-Identifier: MIT
//! `lua/fastpath.lua` in Rust, line by line: what the script is measured against, and what tests run without LuaJIT.

use crate::worker::Worker;
use perigee_modules::{
    Context, ModuleId, apply, classify, distribute, filter, hop_limit, ipv4_lookup, ipv4_valid, ipv6_lookup, ipv6_valid,
};
use perigee_modules::{mtu, multicast, redirect, ttl, urpf, watch};
use perigee_packet::{Batch, Mask};

/// Runs until the router stops.
pub fn run(worker: &mut Worker) {
    let mut burst = worker.new_batch();
    while worker.running() {
        round(worker, &mut burst);
    }
    worker.finish();
}

/// The modules in their order, each called by `$one` or `$two` as it has one mask or two.
macro_rules! modules {
    ($one:ident, $two:ident, $ctx:ident, $burst:ident, $ip4:expr, $ip6:expr) => {
        $two!(classify, $ctx, $burst, $ip4, $ip6);
        $one!(ipv4_valid, $ctx, $burst, $ip4);
        $one!(ipv6_valid, $ctx, $burst, $ip6);
        $two!(filter, $ctx, $burst, $ip4, $ip6);
        $two!(urpf, $ctx, $burst, $ip4, $ip6);
        $two!(multicast, $ctx, $burst, $ip4, $ip6);
        $one!(ipv4_lookup, $ctx, $burst, $ip4);
        $one!(ipv6_lookup, $ctx, $burst, $ip6);
        $two!(mtu, $ctx, $burst, $ip4, $ip6);
        $two!(redirect, $ctx, $burst, $ip4, $ip6);
        $one!(ttl, $ctx, $burst, $ip4);
        $one!(hop_limit, $ctx, $burst, $ip6);
        $two!(apply, $ctx, $burst, $ip4, $ip6);
        $two!(distribute, $ctx, $burst, $ip4, $ip6);
    };
}

macro_rules! plain {
    ($name:ident, $ctx:ident, $burst:ident, $($mask:expr),*) => {
        $name::$name($ctx, $burst, $($mask),*)
    };
}

macro_rules! watched_one {
    ($name:ident, $ctx:ident, $burst:ident, $mask:expr) => {
        watch::one($ctx, $burst, $mask, ModuleId::$name, $name::$name)
    };
}

macro_rules! watched_two {
    ($name:ident, $ctx:ident, $burst:ident, $ip4:expr, $ip6:expr) => {
        watch::two($ctx, $burst, $ip4, $ip6, ModuleId::$name, $name::$name)
    };
}

/// One round: each queue once, then housekeeping.
pub fn round(worker: &mut Worker, burst: &mut Batch) {
    let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
    for queue in 0..worker.queues() {
        if worker.receive(queue, burst) > 0 {
            let ctx = worker.context();
            if ctx.watched {
                watched(ctx, burst);
                continue;
            }
            modules!(plain, plain, ctx, burst, &mut ip4, &mut ip6);
        }
    }
    worker.housekeeping();
}

/// A burst of which a packet is followed, or which is timed.
#[cold]
#[inline(never)]
fn watched(ctx: &mut Context, burst: &mut Batch) {
    let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
    modules!(watched_one, watched_two, ctx, burst, &mut ip4, &mut ip6);
}
