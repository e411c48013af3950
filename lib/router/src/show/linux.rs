// SPDX-License-Identifier: MIT
//! `perigee show linux`.

use super::{View, states};
use perigee_api::Answers;
use perigee_api::answers::{LeftOutRoute, LinuxOnlyRoute, LinuxStatus};
use perigee_api::queries::ShowLinux;
use perigee_config::table_name;
use perigee_linux::{LeftOut, Skip};
use perigee_net::{LinuxOnly, Prefix, RouteProtocol, RouteSource};

/// Routes that Linux alone can forward by, of those that are listed.
const LISTED: usize = 100;

impl Answers<ShowLinux> for View<'_> {
    fn answer(&self, _: ShowLinux) -> LinuxStatus {
        let (status, counters, config) = (self.linux.follower.status(), self.linux.counters(), &self.config.linux);
        LinuxStatus {
            feed: states::feed(config.feed),
            state: states::linux(status.state),
            helper: states::helper(self.linux.health()),
            helper_deaths: self.linux.health().map_or(0, |health| health.deaths),
            namespace: self.config.router.namespace.clone(),
            tables: config.tables.iter().map(|table| table_name(*table)).collect(),
            routes: self.forwarding.rib().count(RouteSource::Linux),
            links: status.links,
            addresses: status.addresses,
            neighbors_by_hand: status.permanent_neighbors,
            group_neighbors: status.group_neighbors,
            proxied: status.proxied,
            next_hops: status.next_hops,
            changes: status.changes,
            refused: status.refused,
            left_out: status.left_out.iter().map(|(skip, n)| (skip.name().to_owned(), *n)).collect(),
            left_out_routes: self.linux.follower.left_out_routes().map(left_out_route).collect(),
            linux_only: status.linux_only,
            linux_only_routes: self.linux.follower.linux_only().take(LISTED).map(linux_only_route).collect(),
            rules: status.rules,
            dumps: counters.dumps,
            overruns: counters.overruns,
            malformed: counters.malformed,
            skipped: counters.skipped,
            resyncs: status.resyncs,
            repaired: status.repaired,
            resync_seconds: status.resync_seconds,
            audits: status.audits,
            audit_differences: status.audit_differences,
            differences: status.differences,
        }
    }
}

fn linux_only_route((prefix, metric, why): (Prefix, u32, LinuxOnly)) -> LinuxOnlyRoute {
    LinuxOnlyRoute { prefix, metric, why: why.explanation().to_owned() }
}

fn left_out_route((route, why): (LeftOut, Skip)) -> LeftOutRoute {
    LeftOutRoute {
        prefix: route.prefix,
        table: table_name(route.table),
        protocol: RouteProtocol(route.protocol).to_string(),
        why: why.explanation().to_owned(),
    }
}
