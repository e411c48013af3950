// SPDX-License-Identifier: MIT
//! Everything that `/metrics` counts, at one moment.

use super::{View, drops, fib, linux, modules, next_hops, ports, routes, version, workers};
use perigee_api::answers::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn snapshot(view: &View<'_>) -> Snapshot {
    Snapshot {
        version: version(view),
        ports: ports(view),
        workers: workers(view),
        modules: modules(view),
        drops: drops(view),
        scripts: view.scripts.status(),
        routes: routes::by_source(view),
        linux: linux(view),
        fib: fib(view),
        next_hops: tally(next_hops(view).into_iter().map(|hop| hop.kind)),
        neighbors: tally(view.slow.neighbors().map(|neighbor| neighbor.state.name().to_owned())),
        buffers: buffers(view),
    }
}

/// Packet buffers in use and in all, each pool counted once.
fn buffers(view: &View<'_>) -> Option<(u64, u64)> {
    let mut pools = BTreeMap::new();
    for port in view.ports.iter() {
        let pool = (port.pool.in_use() as u64, port.pool.size() as u64);
        pools.insert(Arc::as_ptr(&port.pool).cast::<()>() as usize, pool);
    }
    pools.values().copied().reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// How often each name occurs.
fn tally(names: impl Iterator<Item = String>) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_insert(0u64) += 1);
    counts.into_iter().collect()
}
