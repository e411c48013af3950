// SPDX-License-Identifier: MIT
//! A token bucket, which limits ICMP errors and redirects (RFC 1812 4.3.2.8, RFC 4443 2.4(f), RFC 4861 8.2).

use crate::Time;

/// `rate` tokens per second, at most `burst` saved up. Counts in nanoseconds of earned time, so that no fraction is lost.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// Time one token costs; `None`: never a token.
    cost: Option<u64>,
    /// Most time that can be saved up.
    full: u64,
    /// Time saved up.
    level: u64,
    last: Time,
}

impl TokenBucket {
    /// A full bucket. A rate of 0 gives no token at all; a burst of 0 is taken as 1, else nothing could ever pass.
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        let cost = (rate > 0).then(|| (1_000_000_000 / u64::from(rate)).max(1));
        let full = cost.unwrap_or(0).saturating_mul(u64::from(burst.max(1)));
        TokenBucket { cost, full, level: full, last: Time(0) }
    }

    /// Takes a token if there is one. A `now` before the last one earns nothing.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let Some(cost) = self.cost else { return false };
        self.level = self.level.saturating_add(now.0.saturating_sub(self.last.0)).min(self.full);
        self.last = self.last.max(now);
        let has = self.level >= cost;
        if has {
            self.level -= cost;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut bucket = TokenBucket::new(10, 3);
        let at = Time::from_secs(5);
        assert_eq!((0..9).filter(|_| bucket.take(at)).count(), 3);
        // 10 per second, offered every millisecond for two seconds.
        let passed = (1..=2000).filter(|&ms| bucket.take(at.after_millis(ms))).count();
        assert_eq!(passed, 20);
        // A long silence saves up the burst and no more.
        let at = Time::from_secs(1000);
        assert_eq!((0..9).filter(|_| bucket.take(at)).count(), 3);
    }

    #[test]
    fn zero_rate_and_time_going_back() {
        let mut never = TokenBucket::new(0, 100);
        assert!(!never.take(Time::from_secs(9)));
        let mut bucket = TokenBucket::new(1, 0);
        assert!(bucket.take(Time::from_secs(9)));
        assert!(!bucket.take(Time::from_secs(1)));
        assert!(!bucket.take(Time::from_secs(9)));
        assert!(bucket.take(Time::from_secs(10)));
    }
}
