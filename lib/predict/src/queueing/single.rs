// SPDX-License-Identifier: MIT
//! One packet at a time, no limit to the queue.

use super::poisson::{poisson, tails};

/// Mean wait of M/G/1 (Pollaczek 1930, Khinchine 1932): `rate E[x^2] / (2 (1 - rate E[x]))`, in nanoseconds.
///
/// `rate` in packets per nanosecond; `packets` are service times in nanoseconds with their probabilities. None where
/// the load is 1 or more: the queue grows for ever.
pub fn mean_wait(rate: f64, packets: &[(f64, f64)]) -> Option<f64> {
    let (mut mean, mut square) = (0.0, 0.0);
    for (probability, time) in packets {
        mean += probability * time;
        square += probability * time * time;
    }
    let idle = 1.0 - rate * mean;
    (idle > 0.0).then(|| rate * square / (2.0 * idle))
}

/// M/D/1: Poisson arrivals, constant service time.
#[derive(Clone, Debug)]
pub struct Md1 {
    rate: f64,
    service: f64,
    /// At index m the probability that at most m packets wait, as far as that is not 1.
    waiting: Vec<f64>,
}

/// Where the rest of the queue's distribution is cut.
const NEGLIGIBLE: f64 = 1e-13;
/// Most packets that a queue is followed to; at a load of 0.999 it takes about 15,000.
const MAX_QUEUE: usize = 100_000;

impl Md1 {
    /// Queue with `rate` packets per nanosecond and a service time in nanoseconds. None where the load is 1 or more, or
    /// so near that the queue has no end within 100,000 packets.
    pub fn new(rate: f64, service: f64) -> Option<Self> {
        let load = rate * service;
        if !(rate > 0.0 && service > 0.0 && load < 1.0) {
            return None;
        }
        let arrivals = poisson(load);
        let above = tails(&arrivals);
        // Probabilities of n packets in the system. As often as it falls from n + 1 to n it rises from at most n to
        // above: p[n+1] a[0] = p[0] P(A > n) + sum over k = 1..n of p[k] P(A > n - k + 1).
        let mut system = vec![1.0 - load];
        let mut known = 1.0 - load;
        while 1.0 - known > NEGLIGIBLE {
            let n = system.len() - 1;
            if n == MAX_QUEUE {
                return None;
            }
            let tail = |j: usize| above.get(j).copied().unwrap_or(0.0);
            let first = n.saturating_sub(above.len()).max(1);
            let up: f64 = (first..=n).map(|k| system[k] * tail(n - k + 1)).sum();
            let next = (system[0] * tail(n) + up) / arrivals[0];
            known += next;
            system.push(next);
            if next < NEGLIGIBLE * 1e-3 && n > 2 {
                break;
            }
        }
        let mut sum = system[0];
        let waiting = system[1..].iter().map(|p| {
            sum += p;
            sum.min(1.0)
        });
        Some(Self { rate, service, waiting: waiting.collect() })
    }

    /// Probability of a wait of at most `time` nanoseconds.
    ///
    /// G. J. Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29 (2001),
    /// with c = 1: for `(k-1) D <= t < k D`, `P(W <= t) = exp(-y) sum over j = 0..k-1 of Q[k-1-j] y^j / j!`, `y =
    /// rate (k D - t)`, Q\[m\] the probability that at most m wait. No term is negative, unlike in Erlang's series.
    pub fn wait_at_most(&self, time: f64) -> f64 {
        if time < 0.0 {
            return 0.0;
        }
        let k = (time / self.service).floor() as usize + 1;
        let y = (self.rate * (k as f64 * self.service - time)).clamp(0.0, self.rate * self.service);
        let at_most = |m: usize| self.waiting.get(m).copied().unwrap_or(1.0);
        let mut term = (-y).exp();
        let mut sum = 0.0;
        for j in 0..k {
            sum += at_most(k - 1 - j) * term;
            term *= y / (j + 1) as f64;
            if term < 1e-18 {
                break;
            }
        }
        sum
    }

    /// Probability of a sojourn, wait and service, of at most `time` nanoseconds.
    pub fn sojourn_at_most(&self, time: f64) -> f64 {
        self.wait_at_most(time - self.service)
    }

    /// Mean sojourn time in nanoseconds.
    pub fn mean_sojourn(&self) -> f64 {
        mean_wait(self.rate, &[(1.0, self.service)]).map_or(f64::INFINITY, |wait| wait + self.service)
    }

    /// A time in nanoseconds that practically no sojourn exceeds.
    pub fn longest(&self) -> f64 {
        (self.waiting.len() + 2) as f64 * self.service
    }
}

#[cfg(test)]
mod tests {
    use super::super::brute;
    use super::*;

    #[test]
    fn the_wait_has_its_known_values() {
        // At a load of 0.5 the mean wait is half a service time; nobody waits with probability 0.5.
        let queue = Md1::new(0.005, 100.0).unwrap();
        assert!((queue.mean_sojourn() - 150.0).abs() < 1e-9);
        assert!((queue.wait_at_most(0.0) - 0.5).abs() < 1e-12);
        // Erlang's series, two terms, exact below two service times: (1 - r) (e^(r t) - r (t - 1) e^(r (t - 1))), t in
        // services.
        let erlang =
            |t: f64| 0.5 * ((0.5 * t).exp() - if t > 1.0 { 0.5 * (t - 1.0) * (0.5 * (t - 1.0)).exp() } else { 0.0 });
        for t in [0.1, 0.5, 0.99, 1.0, 1.3, 1.99] {
            assert!((queue.wait_at_most(100.0 * t) - erlang(t)).abs() < 1e-12, "{t}");
        }
        assert_eq!(queue.wait_at_most(-1.0), 0.0);
        assert!((queue.wait_at_most(queue.longest()) - 1.0).abs() < 1e-9);
    }

    /// The mean is the integral of what is not below, at all loads: it finds any term that is wrong.
    #[test]
    fn distribution_and_mean_agree() {
        for load in [0.05, 0.3, 0.7, 0.9, 0.98, 0.995] {
            let queue = Md1::new(load, 1.0).unwrap();
            let (mut sum, steps) = (0.0, 50);
            for i in 0..(queue.longest() as usize + 1) * steps {
                sum += (1.0 - queue.wait_at_most((i as f64 + 0.5) / steps as f64)) / steps as f64;
            }
            let wait = queue.mean_sojourn() - 1.0;
            assert!((sum - wait).abs() < 1e-3 * wait + 1e-5, "load {load}: {sum}, {wait}");
        }
    }

    #[test]
    fn no_queue_at_full_load() {
        assert!(Md1::new(0.01, 100.0).is_none() && Md1::new(0.02, 100.0).is_none() && Md1::new(0.0, 1.0).is_none());
        assert!(Md1::new(0.999_999, 1.0).is_none(), "beyond the longest queue");
        assert_eq!(mean_wait(1.0, &[(1.0, 1.0)]), None);
    }

    #[test]
    fn events_agree() {
        let queue = Md1::new(0.8 / 500.0, 500.0).unwrap();
        let server = brute::Server {
            burst: 1,
            ring: usize::MAX,
            burst_ns: 0.0,
            packets: vec![(1.0, 500.0)],
            sleep: None,
            other: 0.0,
        };
        let times = [0.5, 0.9, 0.99, 0.999].map(|share| quantile(&queue, share));
        let seen = server.measure(0.8 / 500.0, 100_000, |seen| times.map(|time| seen.at_most(time)));
        for (time, seen) in times.iter().zip(&seen) {
            let ours = queue.sojourn_at_most(*time);
            println!("{time} ns: {ours} events {} +- {}", seen.mean, seen.error);
            assert!(seen.agrees_with(ours));
        }
        let packets = vec![(0.75, 200.0), (0.25, 600.0)];
        let wait = mean_wait(0.002, &packets).unwrap();
        let [mean] = brute::Server { packets, ..server }.measure(0.002, 100_000, |seen| [seen.mean()]);
        assert!(mean.agrees_with(wait + 300.0), "{mean:?}, {wait}");
    }

    /// A time that this share of sojourns does not exceed, somewhat above it: no time where many sojourns end at once.
    fn quantile(queue: &Md1, share: f64) -> f64 {
        let steps = (0..).map(|i| 503.0 + 7.0 * f64::from(i));
        steps.into_iter().find(|time| queue.sojourn_at_most(*time) > share).unwrap()
    }
}
