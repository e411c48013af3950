// SPDX-License-Identifier: MIT
//! A live line per second: counters read now and a second ago, and what happened between them.

use super::Counters;
use super::latency::LatencySummary;
use crate::pace::rate::OVERHEAD;
use serde::{Deserialize, Serialize};

/// Cumulative counters of a trial at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// ns of the tester's clock.
    pub time: u64,
    /// Frames that the device took.
    pub sent: u64,
    /// Their bytes, with FCS.
    pub sent_bytes: u64,
    /// Frames that were given up (see [`crate::pace`]).
    pub unsent: u64,
    pub received: Counters,
}

/// What happened between two snapshots. Flat, so that it is a line of a table, too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Seconds since the trial's start.
    pub from_s: f64,
    pub to_s: f64,
    pub sent: u64,
    pub received: u64,
    pub sent_pps: f64,
    pub received_pps: f64,
    /// On the wire: with FCS, preamble and gap.
    pub sent_bits_per_s: f64,
    pub received_bits_per_s: f64,
    /// Frames given up by the tester in this interval.
    pub unsent: u64,
    /// Frames missing so far, since the trial's start: a higher one of their flow has come. Late frames lower it.
    pub missing: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub corrupted: u64,
    /// Latencies of this interval, as [`LatencySummary`] has them; `None` if none was recorded.
    pub latency_min_ns: Option<u64>,
    pub latency_p50_ns: Option<u64>,
    pub latency_p99_ns: Option<u64>,
    pub latency_p99_9_ns: Option<u64>,
    pub latency_max_ns: Option<u64>,
}

impl Interval {
    /// From `earlier` to `later`, of a trial that began at `start` (ns); `latency` is that of the frames between them.
    pub fn new(start: u64, earlier: &Snapshot, later: &Snapshot, latency: Option<&LatencySummary>) -> Interval {
        let seconds = |time: u64| time.saturating_sub(start) as f64 / 1e9;
        let (from_s, to_s) = (seconds(earlier.time), seconds(later.time));
        let lasted = later.time.saturating_sub(earlier.time) as f64 / 1e9;
        let per_second = |what: f64| if lasted > 0.0 { what / lasted } else { 0.0 };
        let bits = |frames: u64, bytes: u64| (bytes as f64 + frames as f64 * OVERHEAD) * 8.0;
        let (was, is) = (&earlier.received, &later.received);
        let (sent, received) = (later.sent.saturating_sub(earlier.sent), is.frames.saturating_sub(was.frames));
        let latency = latency.filter(|latency| latency.count > 0);
        Interval {
            from_s,
            to_s,
            sent,
            received,
            sent_pps: per_second(sent as f64),
            received_pps: per_second(received as f64),
            sent_bits_per_s: per_second(bits(sent, later.sent_bytes.saturating_sub(earlier.sent_bytes))),
            received_bits_per_s: per_second(bits(received, is.bytes.saturating_sub(was.bytes))),
            unsent: later.unsent.saturating_sub(earlier.unsent),
            missing: is.missing,
            duplicates: is.duplicates.saturating_sub(was.duplicates),
            reordered: is.reordered.saturating_sub(was.reordered),
            corrupted: is.corrupted.saturating_sub(was.corrupted),
            latency_min_ns: latency.map(|latency| latency.min_ns),
            latency_p50_ns: latency.map(|latency| latency.p50_ns),
            latency_p99_ns: latency.map(|latency| latency.p99_ns),
            latency_p99_9_ns: latency.map(|latency| latency.p99_9_ns),
            latency_max_ns: latency.map(|latency| latency.max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::Latencies;

    #[test]
    fn rates_on_the_wire() {
        let received = Counters { frames: 900, bytes: 900 * 64, missing: 7, duplicates: 2, ..Counters::default() };
        let earlier = Snapshot { time: 1_000_000_000, sent: 100, sent_bytes: 6400, ..Snapshot::default() };
        let later = Snapshot { time: 1_500_000_000, sent: 1100, sent_bytes: 1100 * 64, unsent: 3, received };
        let mut latencies = Latencies::new(1, None);
        latencies.record(Some(1000));
        let interval = Interval::new(0, &earlier, &later, latencies.summary().as_ref());
        assert_eq!((interval.from_s, interval.to_s, interval.sent, interval.received), (1.0, 1.5, 1000, 900));
        assert_eq!((interval.sent_pps, interval.received_pps), (2000.0, 1800.0));
        assert_eq!((interval.sent_bits_per_s, interval.received_bits_per_s), (2000.0 * 672.0, 1800.0 * 672.0));
        assert_eq!((interval.unsent, interval.missing, interval.duplicates), (3, 7, 2));
        assert_eq!((interval.latency_p50_ns, interval.latency_max_ns), (Some(1000), Some(1000)));
        let text = serde_json::to_string(&interval).unwrap();
        assert_eq!(serde_json::from_str::<Interval>(&text).unwrap(), interval);
        // And as a line of a table.
        let mut table = csv::Writer::from_writer(vec![]);
        table.serialize(interval).unwrap();
        let table = String::from_utf8(table.into_inner().unwrap()).unwrap();
        assert!(table.starts_with("from_s,to_s,sent,") && table.lines().count() == 2, "{table}");
        let read: Vec<Interval> =
            csv::Reader::from_reader(table.as_bytes()).deserialize().map(Result::unwrap).collect();
        assert_eq!(read, [interval]);
        // Nothing received, no time gone by.
        let nothing = Interval::new(2_000_000_000, &later, &later, None);
        assert_eq!((nothing.from_s, nothing.sent_pps, nothing.latency_p50_ns), (0.0, 0.0, None));
    }
}
