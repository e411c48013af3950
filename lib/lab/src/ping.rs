// SPDX-License-Identifier: MIT
//! ping, and how many of its requests were answered.
//!
//! Without a deadline, ping of iputils waits two round trips for the last reply, whatever `-W` says, and a host without
//! a core can take longer. With one (`-w`) it sends until there are as many replies as `-c` says. So it gets a
//! deadline, and only the requests that were wanted count: by their numbers.

use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// Some requests, at a pace.
#[derive(Clone, Copy, Debug)]
pub struct Pings {
    /// Requests that are wanted.
    pub count: u64,
    /// Between two of them.
    pub interval: Duration,
    /// How long the last replies may take.
    pub patience: Duration,
}

/// What became of them.
#[derive(Debug, PartialEq, Serialize)]
pub struct Replies {
    /// Percent of the requests that were not answered, rounded up.
    pub loss: u64,
    /// Requests, without those that ping sent while it waited.
    pub sent: u64,
    /// Requests that were answered, however often.
    pub received: u64,
    /// Null if nothing came back.
    pub rtt_ms: Option<RoundTrip>,
}

/// Milliseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct RoundTrip {
    pub min: f64,
    pub avg: f64,
    pub max: f64,
}

impl Pings {
    /// The command line that sends them to an address.
    pub fn command(&self, address: &str) -> String {
        let Pings { count, interval, patience } = self;
        let whole = interval.mul_f64(*count as f64) + *patience;
        format!("ping -n -c {count} -i {} -w {} {address}", interval.as_secs_f64(), whole.as_secs() + 1)
    }

    /// What its output says; `None` if that is not understood.
    pub fn replies(&self, output: &str) -> Option<Replies> {
        let counts = output.lines().find(|line| line.contains("packets transmitted"))?;
        let sent = counts.split_whitespace().next()?.parse::<u64>().ok()?.min(self.count);
        let mut last = 0;
        let numbers = output.lines().filter_map(number).map(|number| {
            // ping prints 16 bits of it.
            last += i64::from(number.wrapping_sub(last as u16) as i16);
            last
        });
        let numbers: BTreeSet<i64> = numbers.collect();
        let received = numbers.range(0..sent.cast_signed()).count() as u64;
        let loss = (100 * (sent - received)).div_ceil(sent.max(1));
        Some(Replies { loss, sent, received, rtt_ms: output.lines().find_map(round_trip) })
    }
}

/// The last 16 bits of the number of the request that a line is the reply to, from 0.
fn number(line: &str) -> Option<u16> {
    // An ICMP error has a number, too.
    let (_, reply) = line.split_once(" bytes from ")?;
    let number = |name: &str| reply.split_once(name)?.1.split_whitespace().next()?.parse::<u16>().ok();
    // Busybox counts from 0.
    number(" icmp_seq=").map(|number| number.wrapping_sub(1)).or_else(|| number(" seq="))
}

fn round_trip(line: &str) -> Option<RoundTrip> {
    let (_, numbers) = line.split_once("min/avg/max")?;
    let mut numbers =
        numbers.split_once('=')?.1.split('/').map(|number| number.split_whitespace().next()?.parse().ok());
    Some(RoundTrip { min: numbers.next()??, avg: numbers.next()??, max: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pings(count: u64) -> Pings {
        Pings { count, interval: Duration::from_millis(100), patience: Duration::from_secs(20) }
    }

    fn replies(loss: u64, sent: u64, received: u64, [min, avg, max]: [f64; 3]) -> Option<Replies> {
        Some(Replies { loss, sent, received, rtt_ms: Some(RoundTrip { min, avg, max }) })
    }

    #[test]
    fn the_deadline_has_room_for_all_requests() {
        assert_eq!(pings(5).command("10.0.2.2"), "ping -n -c 5 -i 0.1 -w 21 10.0.2.2");
        let fast = Pings { count: 5000, interval: Duration::from_millis(2), patience: Duration::from_secs(2) };
        assert_eq!(fast.command("::1"), "ping -n -c 5000 -i 0.002 -w 13 ::1");
    }

    #[test]
    fn ping_of_iputils() {
        let text = "PING 10.0.2.2 (10.0.2.2) 56(84) bytes of data.\n\
            64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=0.186 ms\n64 bytes from 10.0.2.2: icmp_seq=2 ttl=63 time=0.044 ms\n\n\
            --- 10.0.2.2 ping statistics ---\n2 packets transmitted, 2 received, 0% packet loss, time 206ms\n\
            rtt min/avg/max/mdev = 0.044/0.091/0.186/0.066 ms\n";
        assert_eq!(pings(2).replies(text), replies(0, 2, 2, [0.044, 0.091, 0.186]));
    }

    /// ping gave up two round trips after the last request, and a reply that came later counted as lost.
    #[test]
    fn requests_that_are_sent_while_replies_are_late_do_not_count() {
        let late = "64 bytes from 2001:db8::2: icmp_seq=1 ttl=63 time=1 ms\n64 bytes from 2001:db8::2: icmp_seq=2 ttl=63 time=270 ms\n\
            3 packets transmitted, 2 received, 33.3333% packet loss, time 206ms\nrtt min/avg/max/mdev = 1/2/270.5/0.066 ms\n";
        assert_eq!(pings(2).replies(late), replies(0, 2, 2, [1.0, 2.0, 270.5]));
        // A reply to one of those replaces none that is missing.
        let lost = "64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=1 ms\n64 bytes from 10.0.2.2: icmp_seq=3 ttl=63 time=1 ms\n\
            3 packets transmitted, 2 received, 33.3333% packet loss, time 206ms\nrtt min/avg/max/mdev = 1/1/1/0.0 ms, pipe 2\n";
        assert_eq!(pings(2).replies(lost), replies(50, 2, 1, [1.0, 1.0, 1.0]));
    }

    #[test]
    fn duplicates_and_errors_are_no_more_replies() {
        let text = "64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=1 ms\n64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=1 ms (DUP!)\n\
            From 10.0.1.1 icmp_seq=2 Destination Net Unreachable\n\
            3 packets transmitted, 1 received, +1 duplicates, +1 errors, 66.6667% packet loss, time 2ms\nrtt min/avg/max/mdev = 1/1/1/0.0 ms\n";
        assert_eq!(pings(3).replies(text), replies(67, 3, 1, [1.0, 1.0, 1.0]));
        let nothing = "\n--- 10.0.0.1 ping statistics ---\n2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 102ms\n\n";
        assert_eq!(pings(2).replies(nothing), Some(Replies { loss: 100, sent: 2, received: 0, rtt_ms: None }));
    }

    #[test]
    fn ping_of_busybox() {
        let text = "64 bytes from 10.0.2.2: seq=0 ttl=63 time=0.186 ms\n64 bytes from 10.0.2.2: seq=2 ttl=63 time=0.044 ms\n\
            3 packets transmitted, 2 packets received, 33% packet loss\nround-trip min/avg/max = 0.044/0.091/0.186 ms\n";
        assert_eq!(pings(3).replies(text), replies(34, 3, 2, [0.044, 0.091, 0.186]));
        assert_eq!(pings(3).replies("ping: bad address"), None);
    }

    /// Replies to the 65,537th request and those behind it counted as duplicates, so the rest was lost.
    #[test]
    fn numbers_begin_again_after_65536_requests() {
        let line = |number: u32| format!("64 bytes from 10.0.2.2: icmp_seq={} ttl=63 time=1 ms\n", number as u16);
        // One is late, around the first number that is printed again.
        let order = (1..=65_535).chain([65_537, 65_536]).chain(65_538..=70_000);
        let text: String = order.map(line).collect();
        let text = text
            + "70000 packets transmitted, 70000 received, 0% packet loss, time 1ms\nrtt min/avg/max/mdev = 1/1/1/0 ms\n";
        assert_eq!(pings(70_000).replies(&text), replies(0, 70_000, 70_000, [1.0, 1.0, 1.0]));
    }

    /// A loss is never rounded to none.
    #[test]
    fn one_of_a_thousand_is_a_loss() {
        let lines: String =
            (2..=1000).map(|number| format!("64 bytes from 10.0.2.2: icmp_seq={number} ttl=63 time=1 ms\n")).collect();
        let text = lines
            + "1000 packets transmitted, 999 received, 0.1% packet loss, time 1ms\nrtt min/avg/max/mdev = 1.5/2/3/0 ms, pipe 2\n";
        assert_eq!(pings(1000).replies(&text), replies(1, 1000, 999, [1.5, 2.0, 3.0]));
    }
}
