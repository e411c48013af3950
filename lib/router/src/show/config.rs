// SPDX-License-Identifier: MIT
//! `perigee show config` and `filters`.

use super::View;
use crate::forwarding::with_links;
use perigee_api::answers::{ConfigText, FilterStatus};
use perigee_config::{Action, SteerMatch};
use perigee_net::FiveTuple;

/// The configuration with the routes that were added or deleted since.
pub(crate) fn config_text(view: &View<'_>) -> ConfigText {
    let mut config = view.config.clone();
    let routing = view.forwarding.routing();
    config.routes.retain(|(prefix, route)| routing.rib().route(*prefix, route.key()).is_some());
    config.routes.extend(routing.operator_routes().map(|(prefix, route)| (prefix, with_links(routing, route))));
    ConfigText { toml: config.to_toml() }
}

pub(crate) fn filters(view: &View<'_>) -> Vec<FilterStatus> {
    let filters = (1..).zip(&view.config.filters).map(|(number, filter)| FilterStatus {
        kind: "filter".to_owned(),
        number,
        rule: describe(&filter.tuple),
        action: if filter.action == Action::Drop { "drop" } else { "accept" }.to_owned(),
        done_in: "software".to_owned(),
        packets: None,
    });
    let steers = (1..).zip(&view.config.steers).map(|(number, steer)| FilterStatus {
        kind: "steer".to_owned(),
        number,
        rule: match &steer.what {
            SteerMatch::EtherType(kind) => format!("ethertype {kind:#06x}"),
            SteerMatch::FiveTuple(tuple) => describe(tuple),
        },
        action: "slow path".to_owned(),
        done_in: if view.ports.receivers() == 0 { "software" } else { "hardware" }.to_owned(),
        packets: None,
    });
    filters.chain(steers).collect()
}

/// A rule for people: `src 10.0.0.0/8 proto 17 dport 53`.
fn describe(tuple: &FiveTuple) -> String {
    let parts = [
        tuple.src.map(|net| format!("src {net}")),
        tuple.dst.map(|net| format!("dst {net}")),
        tuple.proto.map(|number| format!("proto {number}")),
        tuple.sport.map(|ports| format!("sport {ports}")),
        tuple.dport.map(|ports| format!("dport {ports}")),
    ];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    if words.is_empty() { "everything".to_owned() } else { words.join(" ") }
}
