// SPDX-License-Identifier: MIT
//! Figures at a rate event by event: of routers whose idle cores send what waits, take their time to look, or are taken
//! away.

use super::Capacity;
use crate::figures::{Figures, Method, Methods, Percentiles};
use crate::queueing::events::{Buffer, Core, Pauses, Seen};
use crate::traffic::Arrivals;
use rayon::prelude::*;

/// Packets of each different core: of 1 % the slowest, four thousand.
const PACKETS: u64 = 400_000;
/// Packets that come before.
const WARM_UP: u64 = 50_000;

impl Capacity {
    /// Are there things in the router that the closed forms do not know?
    pub(super) fn is_for_events(&self) -> bool {
        let router = &self.router;
        let slow = router.punt_share * router.slow_path_ns > 0.0;
        let sent_when_idle = router.transmit_buffer > 1 && router.transmit_when_idle;
        !slow && (sent_when_idle || router.poll_ns > 0.0 || router.pauses.is_some())
    }

    fn core(&self) -> Core {
        let router = &self.router;
        let pauses = |pauses: &crate::profile::Pauses| Pauses {
            every_ns: 1e9 / pauses.per_second.max(1e-3),
            lengths_ns: pauses.lengths_ns.clone(),
        };
        Core {
            burst: self.server.burst,
            ring: self.server.ring,
            burst_ns: self.server.burst_ns,
            packets: self.server.packets.clone(),
            poll_ns: router.poll_ns,
            sleep: self.server.sleep,
            buffer: (router.transmit_buffer > 1).then_some(Buffer {
                size: router.transmit_buffer as usize,
                timeout_ns: router.transmit_timeout_us * 1e3,
                idle: router.transmit_when_idle,
            }),
            pauses: router.pauses.as_ref().map(pauses),
        }
    }

    /// The figures when `pps` packets per second are offered.
    pub(super) fn by_events(&self, pps: f64) -> Figures {
        let core = self.core();
        let all = self.rates(pps);
        let mut different: Vec<(Vec<f64>, f64)> = Vec::new();
        for rates in all.iter().filter(|rates| !rates.is_empty()) {
            match different.iter_mut().find(|(known, _)| known == rates) {
                Some((_, cores)) => *cores += 1.0,
                None => different.push((rates.clone(), 1.0)),
            }
        }
        let run = |(rates, cores): &(Vec<f64>, f64)| {
            let per_ns: Vec<f64> = rates.iter().map(|rate| rate / 1e9).collect();
            let seen = core.run(&per_ns, self.arrivals == Arrivals::Poisson, WARM_UP, PACKETS);
            // Packets per second of all such cores.
            (rates.clone(), rates.iter().sum::<f64>() * cores, seen)
        };
        let seen: Vec<(Vec<f64>, f64, Seen)> = different.par_iter().map(run).collect();
        let arriving: f64 = seen.iter().map(|(_, pps, _)| pps).sum();
        let loss = |seen: &Seen| seen.lost as f64 / seen.offered.max(1) as f64;
        let served = |pps: f64, seen: &Seen| pps * (1.0 - loss(seen));
        let accepted: f64 = seen.iter().map(|(_, pps, seen)| served(*pps, seen)).sum();
        let mean = seen.iter().map(|(_, pps, seen)| served(*pps, seen) * seen.mean()).sum::<f64>() / accepted;
        let bursts: f64 = seen.iter().map(|(_, pps, seen)| served(*pps, seen) / seen.mean_batch).sum();
        let quantile = |share: f64| mixed(&seen, share);
        let utilisation = all
            .iter()
            .map(|rates| seen.iter().find(|(known, ..)| known == rates).map_or(0.0, |(.., seen)| seen.utilisation));
        // Rounding is no loss.
        let on_links = if arriving < pps * (1.0 - 1e-12) { pps - arriving } else { 0.0 };
        Figures {
            offered_pps: pps,
            accepted_pps: Some(accepted),
            loss: Some((arriving - accepted + on_links) / pps),
            loss_at_least: None,
            mean_ns: Some(mean),
            sojourn_ns: Some(Percentiles {
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                p999: quantile(0.999),
            }),
            utilisation: Some(utilisation.collect()),
            batch: Some(accepted / bursts),
            methods: Methods::all(Method::Events { packets: PACKETS }),
        }
    }
}

/// The time that a share of the packets of all cores does not exceed.
fn mixed(seen: &[(Vec<f64>, f64, Seen)], share: f64) -> f64 {
    if let [(_, _, only)] = seen {
        return only.quantile(share);
    }
    let all: f64 = seen.iter().map(|(_, pps, _)| pps).sum();
    let at_most = |time: f64| {
        let below = |seen: &Seen| {
            seen.sojourns.partition_point(|sojourn| *sojourn <= time) as f64 / seen.sojourns.len().max(1) as f64
        };
        seen.iter().map(|(_, pps, seen)| pps * below(seen)).sum::<f64>() / all
    };
    let longest = seen.iter().filter_map(|(_, _, seen)| seen.sojourns.last()).fold(0.0, |a: f64, b| a.max(*b));
    crate::queueing::sojourn::quantile(share, longest, at_most)
}
