// SPDX-License-Identifier: MIT
//! `lua/fastpath.lua` in Rust, line by line: what the script is measured against, and what runs it without LuaJIT in tests.

use crate::worker::Worker;
use perigee_modules::{
    apply, classify, distribute, filter, hop_limit, ipv4_lookup, ipv4_valid, ipv6_lookup, ipv6_valid,
};
use perigee_modules::{mtu, ttl};
use perigee_packet::{Batch, Mask};

/// Runs until the router stops.
pub fn run(worker: &mut Worker) {
    let mut burst = worker.new_batch();
    while worker.running() {
        round(worker, &mut burst);
    }
    worker.finish();
}

/// One round: each queue once, then housekeeping.
pub fn round(worker: &mut Worker, burst: &mut Batch) {
    let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
    for queue in 0..worker.queues() {
        if worker.receive(queue, burst) > 0 {
            let ctx = worker.context();
            classify::classify(ctx, burst, &mut ip4, &mut ip6);
            ipv4_valid::ipv4_valid(ctx, burst, &mut ip4);
            ipv6_valid::ipv6_valid(ctx, burst, &mut ip6);
            filter::filter(ctx, burst, &mut ip4, &mut ip6);
            ipv4_lookup::ipv4_lookup(ctx, burst, &mut ip4);
            ipv6_lookup::ipv6_lookup(ctx, burst, &mut ip6);
            mtu::mtu(ctx, burst, &mut ip4, &mut ip6);
            ttl::ttl(ctx, burst, &mut ip4);
            hop_limit::hop_limit(ctx, burst, &mut ip6);
            apply::apply(ctx, burst, &mut ip4, &mut ip6);
            distribute::distribute(ctx, burst, &mut ip4, &mut ip6);
        }
    }
    worker.housekeeping();
}
