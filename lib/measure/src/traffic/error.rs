// SPDX-License-Identifier: MIT
//! What is wrong with a description of traffic, or with a text that is one of its fields.

use std::path::PathBuf;

use thiserror::Error;

/// Why a text is no value of a field, or why a description describes no traffic.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TrafficError {
    /// A text that cannot be read.
    #[error("found {found:?}, expected {expected}")]
    Text {
        /// The text.
        found: String,
        /// What it should be, with an example.
        expected: String,
    },
    /// A range whose last value is before its first.
    #[error("the range {found:?} is empty, as its end is before its start; write the smaller value first")]
    Empty {
        /// The range.
        found: String,
    },
    /// A range from one address family to the other.
    #[error("the range {found:?} starts in one address family and ends in the other; use one family")]
    MixedRange {
        /// The range.
        found: String,
    },
    /// Two fields of two address families.
    #[error("{first} is {first_family} and {second} is not; use one family for all addresses of a description")]
    MixedFamilies {
        /// The field whose family was taken.
        first: &'static str,
        /// Its family.
        first_family: &'static str,
        /// The field that differs.
        second: &'static str,
    },
    /// A size that is out of bounds for any frame.
    #[error("found a frame size of {found} bytes, expected {smallest} to {largest} (with the FCS)")]
    Size {
        /// The size in bytes.
        found: u64,
        /// The smallest in bytes.
        smallest: u16,
        /// The largest in bytes.
        largest: u16,
    },
    /// A size that cannot hold the headers, or the headers and the stamp.
    #[error("a frame of {found} bytes is too short for {contents}, which need {needed} bytes; {advice}")]
    TooShort {
        /// The size in bytes, with the FCS.
        found: u16,
        /// What must be in it.
        contents: String,
        /// The smallest size in bytes that works, with the FCS.
        needed: u16,
        /// What to do.
        advice: String,
    },
    /// A mix of sizes whose period is too long.
    #[error("the weights of the sizes sum up to {found}, expected at most {most}; use smaller weights")]
    Weights {
        /// The sum, divided by the greatest common divisor.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// A number outside its bounds.
    #[error("found {field} = {found}, expected {expected}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it should be.
        expected: &'static str,
    },
    /// More flows than there are different ones.
    #[error(
        "found {found} flows, but the ranges make only {distinct} different ones; use fewer flows, or a wider range such as \
         source_port = \"1024-65535\""
    )]
    Duplicates {
        /// The flows asked for.
        found: u64,
        /// The combinations of all ranges.
        distinct: u64,
    },
    /// A range that is drawn by Zipf's law, and a number of flows that is not a multiple of its values.
    #[error(
        "found {found} flows with a Zipf range of {values} values, expected a multiple of {values}, as each value has the \
         same number of flows; leave flows out"
    )]
    ZipfFlows {
        /// The flows asked for.
        found: u64,
        /// The values of the range.
        values: u64,
    },
    /// A Zipf range that is too large.
    #[error("found a Zipf range of {found} values, expected at most {most}; use a shorter range")]
    ZipfValues {
        /// Its values.
        found: u128,
        /// The limit.
        most: u64,
    },
    /// Several Zipf ranges.
    #[error(
        "{first} and {second} are both drawn by Zipf's law, expected one such range at most; make the other random"
    )]
    TwoZipf {
        /// A field.
        first: &'static str,
        /// Another one.
        second: &'static str,
    },
    /// A field that the protocol lacks.
    #[error("found {field} with {protocol}, which has none; leave it out")]
    NoSuchField {
        /// The field.
        field: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// An outer tag without an inner one.
    #[error("found service_vlan without vlan, expected both or vlan alone; add vlan")]
    OuterTagAlone,
    /// A group address as the source of a frame.
    #[error(
        "found the group address {found} in {field}, from which frames are sent, expected addresses of single stations; use \
         one like 02:00:00:00:00:01"
    )]
    GroupSource {
        /// The field.
        field: &'static str,
        /// The address.
        found: String,
    },
    /// RSS queues for which the ranges have too few flows.
    #[error(
        "of {tried} flows that the ranges make, only {found} go to queue {queue}, and {needed} are needed; use fewer flows, or \
         widen a range, such as source_port = \"random:1024-65535\""
    )]
    NoSpread {
        /// How many combinations were looked at.
        tried: u64,
        /// How many of them suit.
        found: u64,
        /// The queue.
        queue: u16,
        /// How many were needed.
        needed: u64,
    },
    /// RSS and Zipf's law together.
    #[error("found rss and a Zipf range ({field}), expected one of them; the flows chosen for rss are sent in turn")]
    SpreadOfZipf {
        /// The Zipf range.
        field: &'static str,
    },
    /// A line of a route file.
    #[error("line {line} of the route file {}: found {found:?}, expected a prefix such as 10.0.0.0/8{why}", file.display())]
    Route {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text.
        found: String,
        /// What is wrong, in parentheses, or nothing.
        why: String,
    },
    /// A route that covers no address that can be sent to.
    #[error("the route {prefix} of {} has no address that a packet can be sent to; remove it from the file", file.display())]
    NoHost {
        /// The file.
        file: PathBuf,
        /// The route.
        prefix: String,
    },
    /// A route file without routes.
    #[error("the route file {} has no {family} route, expected one at least; use another file or family", file.display())]
    NoRoutes {
        /// The file.
        file: PathBuf,
        /// The family of the description.
        family: &'static str,
    },
    /// A route file that cannot be read.
    #[error("the route file {} cannot be read ({why}); check its path and rights", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
}

impl TrafficError {
    /// An unreadable text.
    pub(crate) fn text(found: &str, expected: impl Into<String>) -> TrafficError {
        TrafficError::Text { found: found.to_owned(), expected: expected.into() }
    }
}
