// SPDX-License-Identifier: MIT
//! A dump and the RIB side by side: both are in order of addresses, so what the RIB holds next is known before it is
//! asked for.

use perigee_fib::Rib;
use perigee_net::{Prefix, Route, RouteSource};

/// Routes of the RIB that are looked at together.
const WINDOW: usize = 64;
/// A dump of several tables begins anew with each of them. One that begins anew more often is not in order.
const PATIENCE: u32 = 16;

/// Where a walk through the RIB's routes of Linux is, of one family.
#[derive(Default)]
pub(crate) struct Merge {
    /// The next routes of the RIB.
    window: Vec<(Prefix, Route)>,
    /// The first of them whose address the dump has not passed.
    at: usize,
    /// Whether the RIB has no routes behind them.
    is_last: bool,
    /// The last prefix of the RIB whose address the dump has passed.
    passed: Option<Prefix>,
    /// See [`has`](Self::has).
    version: u64,
    /// The prefix that the dump named last.
    named: Option<Prefix>,
    restarts: u32,
}

impl Merge {
    /// Whether the RIB is known to have exactly this route, which the dump names next. If not, it has to be asked.
    /// `version` differs when routes of Linux have changed otherwise than by this dump.
    pub fn has(&mut self, version: u64, rib: Rib<'_>, prefix: Prefix, route: &Route) -> bool {
        if std::mem::replace(&mut self.version, version) != version {
            self.forget();
        }
        if self.named.replace(prefix).is_some_and(|before| prefix.addr() < before.addr()) {
            self.restarts += 1;
            self.passed = None;
            self.forget();
        }
        if self.restarts > PATIENCE {
            return false;
        }
        let address = prefix.addr();
        loop {
            let behind = self.window[self.at..].iter().take_while(|(other, _)| other.addr() < address).count();
            self.at += behind;
            if let Some(passed) = self.at.checked_sub(1).filter(|_| behind > 0) {
                self.passed = Some(self.window[passed].0);
            }
            if self.at < self.window.len() || self.is_last {
                break;
            }
            self.refill(rib, prefix);
        }
        // Linux has the longest prefix of an address first, the RIB the shortest.
        let mut here = self.window[self.at..].iter().take_while(|(other, _)| other.addr() == address);
        here.any(|(other, present)| *other == prefix && present == route)
    }

    /// The dump itself has changed a route: what it has named, it does not name again.
    pub fn changed(&mut self, version: u64) {
        self.version = version;
    }

    fn forget(&mut self) {
        self.window.clear();
        (self.at, self.is_last) = (0, false);
    }

    fn refill(&mut self, rib: Rib<'_>, prefix: Prefix) {
        let is_v6 = matches!(prefix, Prefix::V6(_));
        let next = rib.routes_of_source(RouteSource::Linux, is_v6, self.passed).take(WINDOW);
        self.window.clear();
        self.window.extend(next.map(|(prefix, route)| (prefix, route.clone())));
        (self.at, self.is_last) = (0, self.window.len() < WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::synth::Random;
    use perigee_fib::{FibWriter, structures};
    use perigee_net::RouteTarget;
    use std::collections::BTreeMap;

    fn route(metric: u32) -> Route {
        Route::new(RouteSource::Linux, RouteTarget::Blackhole).with_metric(metric)
    }

    fn prefix(random: &mut Random) -> Prefix {
        // Addresses with several prefixes, and some far apart.
        let address = 0x0a00_0000 | random.below(40) << 16 | random.below(4) << 14;
        Prefix::truncated(std::net::Ipv4Addr::from_bits(address).into(), 12 + random.below(10) as u8).unwrap()
    }

    /// In Linux's order every route is known without a question, and none that the RIB lacks or has otherwise.
    #[test]
    fn what_it_says_is_what_the_rib_has() {
        for seed in 0..40 {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            let soonest = structures::IPV4.iter().find(|structure| structure.name == "dxr16").unwrap();
            let mut fib = FibWriter::with(16, (soonest.new)().unwrap(), (structures::DEFAULT6.new)().unwrap()).unwrap();
            let mut rib = BTreeMap::new();
            for _ in 0..random.below(400) {
                let (prefix, metric) = (prefix(&mut random), random.below(2));
                rib.insert((prefix, metric), route(metric));
                fib.insert(prefix, route(metric)).unwrap();
                // Those of others are not asked for.
                let other = Route::new(RouteSource::Static, RouteTarget::Blackhole);
                fib.insert(prefix, other).unwrap();
            }
            let mut dump: Vec<(Prefix, u32)> = rib.keys().copied().collect();
            (0..random.below(40)).for_each(|_| dump.push((prefix(&mut random), 7)));
            dump.sort_by_key(|(prefix, metric)| (prefix.addr(), std::cmp::Reverse(prefix.len()), *metric));
            let is_shuffled = seed % 4 == 3;
            if is_shuffled {
                (1..dump.len()).for_each(|at| dump.swap(at, random.below(at as u32 + 1) as usize));
            }
            let (mut merge, mut version, mut unknown) = (Merge::default(), 0, 0);
            for (prefix, metric) in dump {
                if random.below(16) == 0
                    && let Some(&(gone, metric)) = rib.keys().nth(random.below(rib.len() as u32) as usize)
                {
                    rib.remove(&(gone, metric));
                    fib.remove(gone, route(metric).key()).unwrap();
                    version += 1;
                }
                let has = merge.has(version, fib.rib(), prefix, &route(metric));
                let expected = rib.contains_key(&(prefix, metric));
                assert!(!has || expected, "seed {seed}: {prefix} metric {metric} is not there");
                unknown += u32::from(expected && !has);
            }
            // Those of one address may lie in two windows.
            assert!(is_shuffled || unknown <= 40, "seed {seed}: {unknown} had to be asked for");
        }
    }
}
