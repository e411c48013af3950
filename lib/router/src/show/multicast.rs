// SPDX-License-Identifier: MIT
//! `perigee show multicast`.

use super::View;
use perigee_api::Answers;
use perigee_api::answers::{MulticastEntry, MulticastOutput, RouteOrigin};
use perigee_api::queries::ShowMulticast;
use perigee_fib::MulticastOrigin;

impl Answers<ShowMulticast> for View<'_> {
    fn answer(&self, _: ShowMulticast) -> Vec<MulticastEntry> {
        let routing = self.forwarding.routing();
        let entry = |entry: &perigee_fib::MulticastEntry| MulticastEntry {
            group: entry.route.group,
            source: entry.route.source,
            origin: match entry.origin {
                MulticastOrigin::Static => RouteOrigin::Static,
                MulticastOrigin::Linux | MulticastOrigin::LinuxAlone => RouteOrigin::Linux,
            },
            by_linux: entry.origin == MulticastOrigin::LinuxAlone,
            from: entry.route.from.map(|from| routing.name_of(from)),
            to: entry
                .outputs
                .iter()
                .map(|output| MulticastOutput { dev: routing.name_of(output.interface), ttl: output.ttl })
                .collect(),
            packets: entry.counters.packets(),
            bytes: entry.counters.bytes(),
            wrong_interface: entry.counters.wrong_interface(),
            last_use: entry.counters.last_use().map(|time| self.now.saturating_sub(time) as f64 / 1e9),
        };
        routing.multicast().table().entries().iter().map(entry).collect()
    }
}
