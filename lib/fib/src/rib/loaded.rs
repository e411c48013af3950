// SPDX-License-Identifier: MIT
//! A whole table that takes the place of another.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::next_hop::NextHopId;
use crate::next_hop::writer::{NextHopError, NextHopWriter};
use crate::rib::entries::Table;
use crate::rib::family::acquire;
use crate::rib::recursion::{Family, Gateways, recursive};
use perigee_net::{InterfaceId, PrefixOf, Route};

/// A whole table with its next hops, not in use yet.
pub(crate) struct Loaded<A: Family> {
    pub(super) table: Table<A>,
    pub(super) gateways: Gateways<A>,
    pub(super) routes: usize,
    /// What the lookup structure should hold.
    pub list: Vec<(PrefixOf<A>, NextHopId)>,
}

impl<A: Family> Loaded<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    /// Without routes; with these links down.
    pub fn new(via_default: bool, down: Arc<BTreeSet<InterfaceId>>) -> Self {
        let mut gateways = Gateways::new(via_default);
        gateways.set_down(down);
        Self { table: Table::default(), gateways, routes: 0, list: Vec::new() }
    }

    /// Adds a route; nothing follows from it before [`settle`](Self::settle).
    pub fn insert(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        route: Route,
    ) -> Result<(), NextHopError> {
        for gateway in recursive(&route) {
            if self.gateways.id(gateway).is_none() {
                self.gateways.track(gateway, next_hops.recursive(gateway.ip())?);
            }
            self.gateways.add_user(gateway, prefix);
        }
        let replaced = self.table.insert(prefix, route);
        self.routes += usize::from(replaced.is_none());
        if let Some(replaced) = replaced {
            for gateway in recursive::<A>(&replaced) {
                let others = self.table.routes(prefix).iter().flat_map(recursive).any(|other: A| other == gateway);
                if let Some(id) = (!others).then(|| self.gateways.remove_user(gateway, prefix)).flatten() {
                    next_hops.release(id);
                }
            }
        }
        Ok(())
    }

    /// Resolves all gateways, and finds the next hop of every prefix.
    pub fn settle(&mut self, next_hops: &mut NextHopWriter) -> Result<(), NextHopError> {
        let all: Vec<A> = self.gateways.iter().map(|(gateway, _)| gateway).collect();
        let settled = self.gateways.settle(&self.table, &all);
        let mut ids = Vec::with_capacity(settled.0.len());
        for (gateway, _) in &settled.0 {
            let (state, id) = (self.gateways.state(*gateway), self.gateways.id(*gateway));
            let (Some(way), Some(id)) = (state.and_then(|state| state.way.as_ref()), id) else { continue };
            let target = acquire(next_hops, &self.gateways, &way.next)?;
            next_hops.set_target(id, Some(target));
            ids.push(id);
        }
        next_hops.refresh(&ids);
        let (gateways, list) = (&self.gateways, &mut self.list);
        list.reserve(self.table.tree.len());
        self.table.choose_all(|prefix, routes| {
            let Some((at, way)) = gateways.choose(prefix, routes) else { return Ok(None) };
            let id = acquire(next_hops, gateways, &way.next)?;
            list.push((prefix, id));
            Ok(Some((at, id)))
        })
    }

    /// Every use of a next hop that this table holds, for the caller to release: the table is not to be used any more.
    pub fn uses(&self, next_hops: &mut NextHopWriter) -> Vec<NextHopId> {
        let mut ids: Vec<NextHopId> = self.table.tree.iter().filter_map(|(_, entry)| entry.next_hop()).collect();
        for (_, id) in self.gateways.iter() {
            ids.extend(next_hops.set_target(id, None));
            ids.push(id);
        }
        ids
    }
}
