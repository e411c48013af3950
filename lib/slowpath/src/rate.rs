// SPDX-License-Identifier: MIT
//! Limits of ICMP errors and redirects (RFC 1812 4.3.2.8, RFC 4443 2.4(f), RFC 4861 8.2): per interface that the packet
//! came in on, and per source prefix, so that one sender or link cannot use up what others need.
//!
//! A bucket is one number, the time until which its tokens are spent, changed by compare and swap: threads share limits
//! without a lock, and no rate is divided among them. There are as many buckets as memory is given for, whatever
//! addresses come; prefixes that share one, by a hash with a secret, share its tokens.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use perigee_net::InterfaceId;

use crate::{Config, Time};

/// Buckets for interfaces, and as many for source prefixes.
const BUCKETS: usize = 4096;
/// Bits of the address that make a source: the network of a host, or the smallest one that reaches the Internet.
const SOURCE_BITS: (u32, u32) = (24, 64);

/// `rate` tokens per second, at most `burst` saved up. Counts in nanoseconds, so that no fraction is lost.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Time one token costs; `None`: never a token.
    cost: Option<u64>,
    /// Most time that can be saved up.
    full: u64,
}

impl Rate {
    /// A rate of 0 gives no token at all; a burst of 0 is taken as 1, else nothing could ever pass.
    fn new(rate: u32, burst: u32) -> Rate {
        let cost = (rate > 0).then(|| (1_000_000_000 / u64::from(rate)).max(1));
        Rate { cost, full: cost.unwrap_or(0).saturating_mul(u64::from(burst.max(1))) }
    }
}

/// A token bucket, full at first.
#[derive(Debug, Default)]
struct Bucket {
    /// The time at which it will be full again, in ns.
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes a token if there is one. A `now` before an earlier one earns nothing.
    fn take(&self, now: Time, rate: Rate) -> bool {
        let Some(cost) = rate.cost else { return false };
        let spend = |full_at: u64| {
            let spent = full_at.max(now.0).saturating_add(cost);
            (spent - now.0 <= rate.full).then_some(spent)
        };
        // Nothing else is read by what the bucket says, so no order is needed.
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

/// A token bucket with its rate.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: Rate,
    bucket: Bucket,
}

impl TokenBucket {
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        TokenBucket { rate: Rate::new(rate, burst), bucket: Bucket::default() }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&self, now: Time) -> bool {
        self.bucket.take(now, self.rate)
    }
}

/// Which limit refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// That of the interface.
    Interface,
    /// That of the source's prefix.
    Source,
}

/// A limit of one kind of message in one family.
#[derive(Debug)]
pub(crate) struct Limit {
    interface: Rate,
    source: Rate,
    interfaces: Box<[Bucket]>,
    sources: Box<[Bucket]>,
    secret: u128,
}

impl Limit {
    fn new(interface: Rate, source: Rate, secret: u128) -> Limit {
        let buckets = || std::iter::repeat_with(Bucket::default).take(BUCKETS).collect();
        Limit { interface, source, interfaces: buckets(), sources: buckets(), secret }
    }

    /// Whether a message may be sent to `source` about a packet that came in on an interface. The source's own limit is
    /// asked first, so that what it refuses costs the others on the interface nothing.
    pub(crate) fn take(&self, now: Time, interface: InterfaceId, source: IpAddr) -> Result<(), Refused> {
        if !self.sources[self.bucket_of(source)].take(now, self.source) {
            return Err(Refused::Source);
        }
        let of_interface = &self.interfaces[usize::from(interface.0) % BUCKETS];
        if of_interface.take(now, self.interface) { Ok(()) } else { Err(Refused::Interface) }
    }

    /// SipHash of the secret and the prefix.
    fn bucket_of(&self, source: IpAddr) -> usize {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        match source {
            IpAddr::V4(v4) => (v4.to_bits() >> (32 - SOURCE_BITS.0)).hash(&mut hasher),
            IpAddr::V6(v6) => (v6.to_bits() >> (128 - SOURCE_BITS.1)).hash(&mut hasher),
        }
        hasher.finish() as usize % BUCKETS
    }
}

/// All limits of a router, which the threads of its slow path share.
#[derive(Debug)]
pub struct Limits {
    pub(crate) errors4: Limit,
    pub(crate) errors6: Limit,
    pub(crate) redirects4: Limit,
    pub(crate) redirects6: Limit,
}

impl Limits {
    /// The limits that a configuration asks for, with full buckets.
    pub fn new(config: &Config) -> Limits {
        let errors = Rate::new(config.icmp_errors_per_second, config.icmp_error_burst);
        let sources = Rate::new(config.icmp_errors_per_source, config.icmp_error_burst);
        let redirects = Rate::new(config.redirects_per_second, config.redirect_burst);
        let limit = |interface, source| Limit::new(interface, source, config.secret);
        Limits {
            errors4: limit(errors, sources),
            errors6: limit(errors, sources),
            // Whom a redirect goes to is on the link, so its prefix is the interface.
            redirects4: limit(redirects, redirects),
            redirects6: limit(redirects, redirects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn burst_then_rate() {
        let bucket = TokenBucket::new(10, 3);
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
        let never = TokenBucket::new(0, 100);
        assert!(!never.take(Time::from_secs(9)));
        let bucket = TokenBucket::new(1, 0);
        assert!(bucket.take(Time::from_secs(9)));
        assert!(!bucket.take(Time::from_secs(1)));
        assert!(!bucket.take(Time::from_secs(9)));
        assert!(bucket.take(Time::from_secs(10)));
    }

    fn limit(interface: u32, source: u32) -> Limit {
        Limit::new(Rate::new(interface, interface), Rate::new(source, source), 7)
    }

    fn host(network: u8, host: u8) -> IpAddr {
        IpAddr::from([10, 0, network, host])
    }

    #[test]
    fn a_flood_of_one_source_leaves_the_others_their_share() {
        let (limit, now) = (limit(10, 4), Time::from_secs(1));
        let (left, right) = (InterfaceId(1), InterfaceId(2));
        let flood: Vec<_> = (0..100).map(|n| limit.take(now, left, host(1, n))).collect();
        assert_eq!(flood.iter().filter(|taken| taken.is_ok()).count(), 4, "hosts of one network share a bucket");
        assert!(flood[4..].iter().all(|taken| *taken == Err(Refused::Source)));
        // What was refused for the source's sake cost the interface nothing.
        let others: Vec<_> = (2..10).map(|network| limit.take(now, left, host(network, 1))).collect();
        assert_eq!(others.iter().filter(|taken| taken.is_ok()).count(), 6);
        assert_eq!(others[7], Err(Refused::Interface));
        assert_eq!(limit.take(now, right, host(20, 1)), Ok(()), "another interface has a bucket of its own");
    }

    #[test]
    fn ipv6_sources_are_told_apart_by_64_bits() {
        let (limit, now) = (limit(100, 1), Time::from_secs(1));
        let source = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(limit.take(now, InterfaceId(0), source("2001:db8:0:1::1")), Ok(()));
        assert_eq!(limit.take(now, InterfaceId(0), source("2001:db8:0:1:ffff::9")), Err(Refused::Source));
        assert_eq!(limit.take(now, InterfaceId(0), source("2001:db8:0:2::1")), Ok(()));
    }

    /// Several threads at one bucket never take more than there is, nor less.
    #[test]
    fn threads_share_a_bucket_exactly() {
        let bucket = Arc::new(TokenBucket::new(1000, 1000));
        let take = |bucket: Arc<TokenBucket>| {
            move || (0..5000u64).filter(|n| bucket.take(Time::from_secs(1).after_millis(n / 10))).count()
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take(bucket.clone()))).collect();
        let taken: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        // The burst, and one for each of the 499 ms that pass for the threads, each at its own pace.
        assert!((1000..=1499).contains(&taken), "{taken}");
        let rest = (0..2000).filter(|_| bucket.take(Time::from_secs(1).after_millis(499))).count();
        assert_eq!(taken + rest, 1499);
    }
}
