// SPDX-License-Identifier: MIT
//! What measurements have in common and takes long to make: tables, and the packets of each worker's sources.
//! Measurements take turns, so it is kept from one to the next.

use crate::request::{Lookups, Request, Routes};
use crate::tables;
use crate::traffic::{Entry, Traffic};
use anyhow::Result;
use perigee_fib::{Published, Subscriber};
use perigee_modules::Tables;
use perigee_net::Prefix4;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of lookup structures that are kept at most, and bytes of packets.
const MOST_TABLES: usize = 512 << 20;
const MOST_TRAFFIC: usize = 512 << 20;

/// Networks, ways, structure, seed, ports, routes, lookups.
type Key = (u32, bool, String, u64, u16, Routes, Lookups);
/// Networks, ways, seed, routes; frame size, share for the slow path as bits, worker, port.
type Source = (u32, bool, u64, Routes, u16, u64, usize, u16);

/// Tables that every worker subscribes to.
pub(crate) type SharedTables = Arc<Mutex<Published<Tables>>>;

/// A worker's subscription.
pub(crate) fn subscribe(tables: &SharedTables) -> Subscriber<Tables> {
    tables.lock().unwrap_or_else(PoisonError::into_inner).subscribe()
}

/// Where packets are for, the tables with routes there, and the bytes of the lookup structure.
#[derive(Clone)]
pub(crate) struct Made {
    pub destinations: Arc<Vec<Prefix4>>,
    pub tables: SharedTables,
    pub bytes: usize,
}

/// Tables and packets that are kept.
#[derive(Default)]
pub(crate) struct Kept {
    tables: HashMap<Key, Made>,
    traffic: HashMap<Source, Arc<Traffic>>,
    /// The prefixes of [`Routes::Given`], and of [`Routes::Internet`], once they are asked for.
    given: Vec<Prefix4>,
    internet: Vec<Prefix4>,
}

impl Kept {
    /// Takes the prefixes of [`Routes::Given`].
    pub fn give(&mut self, prefixes: Vec<Prefix4>) {
        *self = Kept { given: prefixes, ..Kept::default() };
    }

    /// The networks and tables that are asked for, made or kept.
    pub fn tables(&mut self, request: &Request) -> Result<Made> {
        let Request { networks, two_way, structure, seed, ports, routes, lookups, .. } = request;
        let key = (*networks, *two_way, structure.clone(), *seed, *ports, *routes, *lookups);
        if let Some(made) = self.tables.get(&key) {
            return Ok(made.clone());
        }
        if request.routes == Routes::Internet && self.internet.is_empty() {
            self.internet = tables::internet();
        }
        let full = if request.routes == Routes::Given { &self.given } else { &self.internet };
        let tables::Made { destinations, tables, bytes } = tables::make(request, full)?;
        let tables = Arc::new(Mutex::new(Published::new(tables)));
        let made = Made { destinations: Arc::new(destinations), tables, bytes };
        if self.tables.values().map(|made| made.bytes).sum::<usize>() + bytes > MOST_TABLES {
            self.tables.clear();
        }
        self.tables.insert(key, made.clone());
        Ok(made)
    }

    /// The packets that come to a worker by a port, for some of `destinations` (two ways: for those behind the other
    /// port), made or kept; and the seed that they are drawn with. A worker of that number has the same ones with any
    /// number of others.
    pub fn traffic(
        &mut self,
        request: &Request,
        (worker, port): (usize, u16),
        destinations: &[Prefix4],
    ) -> Result<(Arc<Traffic>, u64)> {
        let Request { networks, two_way, seed, routes, frame_size, punted, .. } = request;
        let drawn = seed.wrapping_mul(1000) + 2 * worker as u64 + u64::from(port);
        let key = (*networks, *two_way, *seed, *routes, *frame_size, punted.to_bits(), worker, port);
        if let Some(traffic) = self.traffic.get(&key) {
            return Ok((traffic.clone(), drawn));
        }
        // Two ways: those that come in by this port.
        let step = if *two_way { 2 } else { 1 };
        let behind: Vec<Prefix4> = destinations.iter().skip(port.into()).step_by(step).copied().collect();
        let traffic = Arc::new(Traffic::new(*frame_size, tables::mac(port), &behind, *punted, drawn)?);
        let bytes = |traffic: &Traffic| size_of::<Entry>() * traffic.entries.len();
        if self.traffic.values().map(|kept| bytes(kept)).sum::<usize>() + bytes(&traffic) > MOST_TRAFFIC {
            self.traffic.clear();
        }
        self.traffic.insert(key, traffic.clone());
        Ok((traffic, drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of 16 workers drew 65,536 packets again for each of some hundred references.
    #[test]
    fn packets_are_drawn_once_for_a_worker() {
        let (mut kept, two) = (Kept::default(), Request::new(vec![0, 1]));
        let destinations = kept.tables(&two).unwrap().destinations;
        let (first, seed) = kept.traffic(&two, (1, 0), &destinations).unwrap();
        let four = Request { burst: 8, ..Request::new(vec![0, 1, 2, 3]) };
        let (again, same) = kept.traffic(&four, (1, 0), &destinations).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && seed == same);
        let others = [
            (Request { frame_size: 512, ..two.clone() }, (1, 0)),
            (Request { punted: 0.5, ..two.clone() }, (1, 0)),
            (Request { seed: 2, ..two.clone() }, (1, 0)),
            (two.clone(), (0, 0)),
        ];
        for (request, place) in others {
            let (other, _) = kept.traffic(&request, place, &destinations).unwrap();
            assert!(!Arc::ptr_eq(&first, &other), "{request:?}");
        }
        assert_eq!(kept.traffic.len(), 5);
        kept.give(Vec::new());
        assert!(kept.traffic.is_empty() && kept.tables.is_empty());
    }
}
