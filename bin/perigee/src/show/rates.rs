// SPDX-License-Identifier: MIT
//! `perigee show ports --rate`: what goes through the ports now, as the difference of two answers.

use super::ports;
use crate::table::Columns;
use comfy_table::Table;
use perigee_api::answers::PortStatus;
use serde::Serialize;

/// A port in between.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortRate {
    pub port: String,
    pub received_packets_per_s: f64,
    /// Of frames without their FCS, as the counters of bytes.
    pub received_bits_per_s: f64,
    /// Frames that a queue had no room for, or that were damaged or too long.
    pub not_received_per_s: f64,
    pub sent_packets_per_s: f64,
    pub sent_bits_per_s: f64,
    pub not_sent_per_s: f64,
}

/// What `show ports` counts of a port, in the order of [`PortRate`].
type Counts = [u64; 6];

fn counts(port: &PortStatus) -> Counts {
    let c = &port.counters;
    [
        c.receive_packets,
        c.receive_bytes,
        ports::missed(port) + ports::damaged(port),
        c.transmit_packets,
        c.transmit_bytes,
        ports::not_sent(port),
    ]
}

/// Of two answers `seconds` apart, what lies between.
pub fn between(before: &[PortStatus], after: &[PortStatus], seconds: f64) -> Vec<PortRate> {
    let rate = |port: &PortStatus| {
        let first = before.iter().find(|other| other.name == port.name);
        of_counts(&port.name, first.map_or([0; 6], counts), counts(port), seconds)
    };
    after.iter().map(rate).collect()
}

fn of_counts(port: &str, before: Counts, after: Counts, seconds: f64) -> PortRate {
    // A router that was started again counts from 0.
    let rate = |at: usize| after[at].saturating_sub(before[at]) as f64 / seconds;
    PortRate {
        port: port.to_owned(),
        received_packets_per_s: rate(0),
        received_bits_per_s: rate(1) * 8.0,
        not_received_per_s: rate(2),
        sent_packets_per_s: rate(3),
        sent_bits_per_s: rate(4) * 8.0,
        not_sent_per_s: rate(5),
    }
}

/// As a table.
pub fn table(rates: &[PortRate]) -> Table {
    let whole = |value: f64| format!("{value:.0}");
    let megabits = |value: f64| format!("{:.3}", value / 1e6);
    Columns::<PortRate>::new()
        .text("port", |rate| rate.port.clone())
        .number("received/s", |rate| whole(rate.received_packets_per_s))
        .number("Mbit/s", |rate| megabits(rate.received_bits_per_s))
        .number("not received/s", |rate| whole(rate.not_received_per_s))
        .number("sent/s", |rate| whole(rate.sent_packets_per_s))
        .number("Mbit/s", |rate| megabits(rate.sent_bits_per_s))
        .number("not sent/s", |rate| whole(rate.not_sent_per_s))
        .table(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `show ports` had totals alone: whoever wanted a rate had to ask twice, and to divide.
    #[test]
    fn rates_of_ports_are_what_lies_between_two_answers() {
        let (before, after) = ([100, 10_000, 0, 0, 0, 0], [600, 60_000, 4, 50, 5_000, 2]);
        let rate = of_counts("wan", before, after, 2.0);
        assert_eq!((rate.received_packets_per_s, rate.received_bits_per_s), (250.0, 200_000.0));
        assert_eq!((rate.sent_packets_per_s, rate.sent_bits_per_s), (25.0, 20_000.0));
        assert_eq!((rate.not_received_per_s, rate.not_sent_per_s), (2.0, 1.0));
        let again = of_counts("wan", after, before, 2.0);
        assert_eq!(again.received_packets_per_s, 0.0, "a router that was started again");
        let text = table(&[rate]).trim_fmt();
        assert!(text.contains("250") && text.contains("0.200"), "{text}");
    }
}
