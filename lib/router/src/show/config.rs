// SPDX-License-Identifier: MIT
//! `perigee show config` and `filters`.

use super::View;
use crate::forwarding::with_links;
use perigee_api::Answers;
use perigee_api::answers::{ConfigText, DoneIn, FilterAction, FilterKind, FilterStatus, FilteredFrom};
use perigee_api::queries::{ShowConfig, ShowFilters};
use perigee_config::{Action, FilteredFrom as From, SteerMatch};
use perigee_net::{FiveTuple, is_link_local};

/// The configuration with the routes that were added or deleted since.
impl Answers<ShowConfig> for View<'_> {
    fn answer(&self, _: ShowConfig) -> ConfigText {
        let mut config = self.config.clone();
        let routing = self.forwarding.routing();
        config.routes.retain(|(prefix, route)| routing.rib().route(*prefix, route.key()).is_some());
        config.routes.extend(routing.operator_routes().map(|(prefix, route)| (prefix, with_links(routing, route))));
        ConfigText { toml: format!("{}{}", config.to_toml(), by_hand(self)) }
    }
}

/// Comments about addresses that interfaces have and the configuration does not, and the reverse: a restart loses the
/// former.
fn by_hand(view: &View<'_>) -> String {
    let mut lines = Vec::new();
    for (configured, (_, live)) in view.config.interfaces.iter().zip(view.forwarding.interfaces().iter()) {
        let name = &configured.name;
        let new = live.addresses.iter().filter(|own| !configured.addresses.contains(own));
        let new = new.filter(|own| !is_link_local(own.address));
        lines.extend(new.map(|own| format!("# {name} has the address {own} in Linux as well, which a restart loses")));
        let lost = configured.addresses.iter().filter(|own| !live.addresses.contains(own));
        lines.extend(lost.map(|own| format!("# {name} has lost the address {own} in Linux; a reload puts it back")));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

impl Answers<ShowFilters> for View<'_> {
    fn answer(&self, _: ShowFilters) -> Vec<FilterStatus> {
        let hits = &self.forwarding.filters().tally.hits;
        let filters = self.config.filters.iter().enumerate().map(|(index, filter)| FilterStatus {
            kind: FilterKind::Filter,
            number: index as u32 + 1,
            rule: describe(&filter.tuple),
            from: match filter.from {
                From::Ports => FilteredFrom::Ports,
                From::Linux => FilteredFrom::Linux,
                From::Both => FilteredFrom::Both,
            },
            action: if filter.action == Action::Drop { FilterAction::Drop } else { FilterAction::Accept },
            done_in: DoneIn::Software,
            hits: Some(hits.of(index) + self.workers.kernel_hits(index)),
        });
        let steers = (1..).zip(&self.config.steers).map(|(number, steer)| FilterStatus {
            kind: FilterKind::Steer,
            number,
            rule: match &steer.what {
                SteerMatch::EtherType(kind) => format!("ethertype {kind:#06x}"),
                SteerMatch::FiveTuple(tuple) => describe(tuple),
            },
            from: FilteredFrom::Ports,
            action: FilterAction::SlowPath,
            done_in: if self.rebuild.in_hardware(steer) { DoneIn::Hardware } else { DoneIn::Software },
            hits: None,
        });
        filters.chain(steers).collect()
    }
}

/// A readable form of a rule: `src 10.0.0.0/8 proto 17 dport 53`.
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
