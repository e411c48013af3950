// SPDX-License-Identifier: MIT
//! Routes of Linux that are left out: some of each reason are remembered, to name them.

use crate::Skip;
use perigee_net::Prefix;
use perigee_netlink::message::Route;
use std::collections::{BTreeMap, BTreeSet};

/// How many of a reason are remembered. What nobody follows may be a million.
const NAMED: usize = 25;

/// A route of Linux that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// Its destinations.
    pub prefix: Prefix,
    /// Its table in Linux.
    pub table: u32,
    /// Who made it.
    pub protocol: u8,
}

impl From<&Route> for LeftOut {
    fn from(route: &Route) -> Self {
        Self { prefix: route.prefix, table: route.table, protocol: route.protocol }
    }
}

/// Those that are remembered.
#[derive(Default)]
pub(crate) struct Named(BTreeMap<Skip, BTreeSet<LeftOut>>);

impl Named {
    pub fn is_there(&mut self, route: &Route, why: Skip) {
        let named = self.0.entry(why).or_default();
        if named.len() < NAMED {
            named.insert(route.into());
        }
    }

    pub fn is_gone(&mut self, route: &Route) {
        let gone = route.into();
        for named in self.0.values_mut() {
            named.remove(&gone);
        }
    }

    /// A dump names those that there are.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (LeftOut, Skip)> {
        self.0.iter().flat_map(|(why, named)| named.iter().map(|route| (*route, *why)))
    }
}
