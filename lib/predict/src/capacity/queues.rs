// SPDX-License-Identifier: MIT
//! The solved queues of a router's cores at a rate: their losses, and the distributions of their times.

use super::{Capacity, NEGLIGIBLE_LOSS};
use crate::queueing::{BatchServer, Distribution, Md1, Steady, TooLarge};
use crate::service::Service;
use crate::traffic::Sizes;
use rayon::prelude::*;

/// Rings count as equal if their unequal shares cost a core no more than this, as a share.
const EQUAL_SHARES: f64 = 1e-6;

impl Capacity {
    /// The queues of the cores that have packets; cores with the same rates are solved once.
    pub(super) fn queues(&self, pps: f64) -> Result<Vec<Queue>, TooLarge> {
        let mut different: Vec<(Vec<f64>, usize)> = Vec::new();
        for rates in self.rates(pps).into_iter().filter(|rates| !rates.is_empty()) {
            match different.iter_mut().find(|(known, _)| *known == rates) {
                Some((_, cores)) => *cores += 1,
                None => different.push((rates, 1)),
            }
        }
        let solved = different.par_iter().map(|(rates, cores)| {
            let server = BatchServer { ring: rates.len() * self.server.ring, ..self.server.clone() };
            let load = self.load(rates);
            let steady = server.solve(load * server.capacity())?;
            let losses = if rates.len() == 1 { [steady.loss; 2] } else { self.losses(rates, &server, load)? };
            let [loss, loss_at_least] = losses.map(|loss| if loss < NEGLIGIBLE_LOSS { 0.0 } else { loss });
            Ok(Queue { rates: rates.clone(), cores: *cores, loss, loss_at_least, steady })
        });
        solved.collect()
    }

    /// A core's rates over those at its limit. Bursts from rings that get less than others are smaller and cost more
    /// for each packet, so this may be more than the packets over what the core can do in full bursts.
    pub(super) fn load(&self, rates: &[f64]) -> f64 {
        match rates {
            [only] => only / 1e9 / self.server.capacity(),
            _ => 1.0 / self.core_pps(rates),
        }
    }

    /// What a core's rings lose, at most and at least, as shares. A ring that is full loses packets while others have
    /// room: more than one ring with all places would, less than one with the places of a single ring, which is
    /// full whenever one of them is.
    ///
    /// If one of them gets more than the others, the latter is not all: each has to wait for the bursts of the others,
    /// and loses about as much as one whose every burst takes as long as all of theirs.
    fn losses(&self, rates: &[f64], merged: &BatchServer, load: f64) -> Result<[f64; 2], TooLarge> {
        let rate: f64 = rates.iter().sum();
        // A ring that gets more than the others may be full all the time.
        let at_least = merged.solve(rate / 1e9)?.loss.max(self.lost(rates) / rate);
        let mut at_most = self.server.solve(rate / 1e9)?.loss.max(at_least);
        if load > rate / 1e9 / self.server.capacity() * (1.0 + EQUAL_SHARES) {
            let burst = self.server.burst as f64;
            let most = rates.iter().copied().fold(0.0, f64::max);
            let round: f64 = rates.iter().map(|rate| self.burst_time(burst * rate / most)).sum();
            let alone = BatchServer { burst_ns: round - burst * self.server.packet_time(), ..self.server.clone() };
            let mut lost = 0.0;
            for rate in rates {
                lost += rate * alone.solve(rate / 1e9)?.loss;
            }
            at_most = at_most.max(lost / rate);
        }
        Ok([at_most, at_least])
    }
}

/// Service times with their probabilities; sizes that take the same time are one.
pub(super) fn packet_times(sizes: &Sizes, service: Service) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = Vec::new();
    for &(size, share) in sizes.entries() {
        let time = service.packet_ns(size);
        match times.iter_mut().find(|(_, known)| *known == time) {
            Some((sum, _)) => *sum += share,
            None => times.push((share, time)),
        }
    }
    times
}

/// Cores with the same rates.
pub(super) struct Queue {
    /// Packets per second of each ring of one of them.
    pub(super) rates: Vec<f64>,
    pub(super) cores: usize,
    /// Share of the packets that rings lose, at most.
    pub(super) loss: f64,
    /// A lower bound of the loss.
    pub(super) loss_at_least: f64,
    pub(super) steady: Steady,
}

impl Queue {
    /// Packets per second that come to all of them together.
    pub(super) fn pps(&self) -> f64 {
        self.rates.iter().sum::<f64>() * self.cores as f64
    }
}

/// The distribution of a sojourn time.
pub(super) enum Times {
    Md1(Md1),
    Grid(Distribution),
}

impl Times {
    pub(super) fn of(queue: &Queue, server: &BatchServer) -> Result<Self, TooLarge> {
        let single = server.burst == 1 && server.packets.len() == 1 && server.sleep.is_none();
        let endless = single && queue.loss < NEGLIGIBLE_LOSS;
        let md1 = if endless { Md1::new(queue.steady.rate, server.burst_time(1)) } else { None };
        md1.map_or_else(|| Ok(Self::Grid(queue.steady.sojourn()?)), |md1| Ok(Self::Md1(md1)))
    }

    pub(super) fn at_most(&self, time: f64) -> f64 {
        match self {
            Self::Md1(queue) => queue.sojourn_at_most(time),
            Self::Grid(times) => times.at_most(time),
        }
    }

    pub(super) fn longest(&self) -> f64 {
        match self {
            Self::Md1(queue) => queue.longest(),
            Self::Grid(times) => times.longest(),
        }
    }
}
