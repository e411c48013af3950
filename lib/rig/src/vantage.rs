// SPDX-License-Identifier: MIT
//! The fast path up to a vantage point: the steps behind it are skipped, and packets leave by one port as if they had
//! been routed. The differences between points are what the steps cost, the caches that they warm for each other
//! included.

use perigee_dpdk::MBUF;
use perigee_modules::{
    apply, classify, distribute, filter, hop_limit, ipv4_lookup, ipv4_valid, ipv6_lookup, ipv6_valid, mtu, multicast,
    redirect, ttl, urpf,
};
use perigee_packet::{BATCH_SIZE, Batch, Handle, Mask, Memory as _};
use perigee_worker::Worker;
use serde::{Deserialize, Serialize};

/// Where packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vantage {
    /// After receive, and nothing leaves: packets are freed at once.
    Taken,
    /// The same, and packets are sent: what every row below pays, too.
    Receive,
    /// After classify: headers are read, types known.
    Classify,
    /// After the checks of headers, filters and sources.
    Valid,
    /// After the lookup.
    Lookup,
    /// After MTU, redirect and TTL.
    Ttl,
    /// After the next hop's addresses are written: all but the choice of the port.
    Apply,
    /// All of it.
    Distribute,
}

impl Vantage {
    /// All of them, in the order of a packet's way.
    pub const ALL: [Vantage; 8] = [
        Vantage::Taken,
        Vantage::Receive,
        Vantage::Classify,
        Vantage::Valid,
        Vantage::Lookup,
        Vantage::Ttl,
        Vantage::Apply,
        Vantage::Distribute,
    ];

    /// The step that it has more than the point before.
    pub fn step(self) -> &'static str {
        match self {
            Vantage::Taken => "receive",
            Vantage::Receive => "transmit",
            Vantage::Classify => "classify",
            Vantage::Valid => "validity",
            Vantage::Lookup => "lookup",
            Vantage::Ttl => "MTU, TTL",
            Vantage::Apply => "apply",
            Vantage::Distribute => "distribute",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Vantage::Taken => "taken",
            Vantage::Receive => "receive",
            Vantage::Classify => "classify",
            Vantage::Valid => "valid",
            Vantage::Lookup => "lookup",
            Vantage::Ttl => "ttl",
            Vantage::Apply => "apply",
            Vantage::Distribute => "distribute",
        }
    }
}

/// Runs until it is to stop.
pub(crate) fn run(worker: &mut Worker, until: Vantage) {
    let mut burst = worker.new_batch();
    let mut freed = Vec::with_capacity(BATCH_SIZE);
    while worker.running() {
        for queue in 0..worker.queues() {
            if worker.receive(queue, &mut burst) > 0 {
                round(worker, &mut burst, &mut freed, until);
            }
        }
        worker.housekeeping();
    }
    worker.finish();
}

fn round(worker: &mut Worker, burst: &mut Batch, freed: &mut Vec<Handle>, until: Vantage) {
    let ctx = worker.context();
    if until == Vantage::Taken {
        // As a sink does it: the next receive would find them unclaimed.
        burst.append_to(burst.live(), freed);
        MBUF.free(freed);
        return;
    }
    let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
    if until >= Vantage::Classify {
        classify::classify(ctx, burst, &mut ip4, &mut ip6);
    }
    if until >= Vantage::Valid {
        ipv4_valid::ipv4_valid(ctx, burst, &mut ip4);
        ipv6_valid::ipv6_valid(ctx, burst, &mut ip6);
        filter::filter(ctx, burst, &mut ip4, &mut ip6);
        urpf::urpf(ctx, burst, &mut ip4, &mut ip6);
        multicast::multicast(ctx, burst, &mut ip4, &mut ip6);
    }
    if until >= Vantage::Lookup {
        ipv4_lookup::ipv4_lookup(ctx, burst, &mut ip4);
        ipv6_lookup::ipv6_lookup(ctx, burst, &mut ip6);
    }
    if until >= Vantage::Ttl {
        mtu::mtu(ctx, burst, &mut ip4, &mut ip6);
        redirect::redirect(ctx, burst, &mut ip4, &mut ip6);
        ttl::ttl(ctx, burst, &mut ip4);
        hop_limit::hop_limit(ctx, burst, &mut ip6);
    }
    if until >= Vantage::Apply {
        apply::apply(ctx, burst, &mut ip4, &mut ip6);
    }
    if until < Vantage::Distribute {
        // As if they had been routed there.
        burst.for_each(Mask::ALL, |packet| packet.set_out_port(1));
    }
    distribute::distribute(ctx, burst, &mut Mask::ALL.clone(), &mut Mask::default());
}
