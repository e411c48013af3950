// SPDX-License-Identifier: MIT
//! `perigee show linux`.

use crate::slow::SlowThread;
use perigee_api::answers::LinuxStatus;
use perigee_api::{ApiError, Reply};
use perigee_config::table_name;
use perigee_net::RouteSource;

impl SlowThread {
    /// Reads everything from Linux again; answered when that is done.
    pub(crate) fn resync(&mut self, reply: Reply) {
        if self.linux.origins.is_empty() {
            return reply.send::<LinuxStatus>(Err(ApiError::conflict("no port has a twin, so Linux is not followed")));
        }
        // A dump that is on its way may have passed what this one is asked for.
        let under_way = self.linux.origins.iter().any(|origin| origin.dump.is_some());
        self.linux.waiting.push((self.linux.counters.resyncs + 1 + u64::from(under_way), reply));
        self.linux.dump();
    }

    /// Answers those who waited for a dump.
    pub(super) fn answer_resyncs(&mut self) {
        let done = self.linux.counters.resyncs;
        if self.linux.waiting.iter().any(|(wanted, _)| *wanted <= done) {
            let waiting = std::mem::take(&mut self.linux.waiting);
            let (ready, waiting) = waiting.into_iter().partition(|(wanted, _)| *wanted <= done);
            self.linux.waiting = waiting;
            let status = self.linux_status();
            ready.into_iter().for_each(|(_, reply)| reply.send(Ok(status.clone())));
        }
    }

    pub(crate) fn linux_status(&self) -> LinuxStatus {
        let side = &self.linux;
        let state = match &side.origins[..] {
            [] => "off",
            origins if side.namespace_gone || origins.iter().any(|origin| origin.lost) => "lost",
            origins if origins.iter().any(|origin| origin.dump.is_some() || !origin.complete) => "reading",
            _ => "following",
        };
        let counters: Vec<_> = side.origins.iter().map(|origin| origin.source.counters()).collect();
        let sum = |pick: fn(&perigee_netlink::SourceCounters) -> u64| counters.iter().map(pick).sum();
        LinuxStatus {
            feed: side.config.feed.name().to_owned(),
            state: state.to_owned(),
            namespace: self.parts.config.router.namespace.clone(),
            tables: side.config.tables.iter().map(|table| table_name(*table)).collect(),
            routes: self.parts.routing.rib().count(RouteSource::Linux),
            links: side.links.len() as u64,
            addresses: side.links.values().map(|known| known.addresses.len() as u64).sum(),
            neighbors_by_hand: side.permanent.len() as u64,
            next_hops: side.origins.iter().map(|origin| origin.next_hops.len() as u64).sum(),
            changes: side.counters.changes,
            refused: side.counters.refused,
            left_out: side.counters.skips.iter().map(|(skip, n)| (skip.name().to_owned(), *n)).collect(),
            dumps: sum(|counters| counters.dumps),
            overruns: sum(|counters| counters.overruns),
            malformed: sum(|counters| counters.malformed),
            skipped: sum(|counters| counters.skipped),
            resyncs: side.counters.resyncs,
            repaired: side.counters.repaired,
            resync_seconds: side.counters.resync_seconds,
            audits: side.counters.audits,
            audit_differences: side.counters.audit_differences,
        }
    }
}
