// SPDX-License-Identifier: MIT
//! All counters of `/metrics` at one moment.

use super::{View, routes, states};
use perigee_api::Answers;
use perigee_api::answers::Snapshot;
use perigee_api::queries::{
    ShowCounters, ShowDrops, ShowFib, ShowFilters, ShowLinux, ShowModules, ShowNextHops, ShowPorts, ShowScripts,
    ShowSlowPath, ShowVersion, ShowWorkers,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

pub(crate) fn snapshot(view: &View<'_>) -> Snapshot {
    Snapshot {
        version: view.answer(ShowVersion {}),
        ports: view.answer(ShowPorts {}),
        workers: view.answer(ShowWorkers {}),
        modules: view.answer(ShowModules {}),
        drops: view.answer(ShowDrops {}),
        filters: view.answer(ShowFilters {}),
        slow_path: view.answer(ShowSlowPath {}),
        scripts: view.answer(ShowScripts {}),
        values: view.answer(ShowCounters {}),
        routes: routes::by_source(view),
        linux: view.answer(ShowLinux {}),
        fib: view.answer(ShowFib {}),
        next_hops: tally(view.answer(ShowNextHops {}).into_iter().map(|hop| hop.kind)),
        neighbors: tally(view.slow.neighbors().map(|neighbor| states::neighbor(neighbor.state))),
        buffers: buffers(view),
    }
}

/// Packet buffers in use and all of them, each pool counted once.
fn buffers(view: &View<'_>) -> Option<(u64, u64)> {
    let mut pools = BTreeMap::new();
    for port in view.ports.iter() {
        let pool = (port.pool.in_use() as u64, port.pool.size() as u64);
        pools.insert(Arc::as_ptr(&port.pool).cast::<()>() as usize, pool);
    }
    pools.values().copied().reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// How often each state occurs, in the order of their names.
fn tally<T: Ord + Display>(states: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    states.for_each(|state| *counts.entry(state).or_default() += 1);
    let mut counts: Vec<(T, u64)> = counts.into_iter().collect();
    counts.sort_by_cached_key(|(state, _)| state.to_string());
    counts
}
