// SPDX-License-Identifier: MIT
//! Profiles: measurements of a router, as the parameters of a service-time model, in a JSON file.
//!
//! Here they are checked in full. The ns-3 module (`ns3/softrouter`) reads the same files, and only has the bounds of
//! its own attributes. Unknown keys are mistakes everywhere except inside `fit`, where the report of a fit is kept for
//! readers and for `perigee predict verify`.

mod read;

use crate::error::{Error, printable, shown_number, shown_outside};
use crate::service::Service;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The value of a profile's `format`.
pub const FORMAT: &str = "perigee-profile/1";

/// Bytes of a name, at most.
const MAX_NAME: usize = 200;

/// Bytes of a description, at most.
const MAX_DESCRIPTION: usize = 10_000;

// Bounds of values.
const MIN_NS: f64 = 1e-3;
const MAX_NS: f64 = 1e9;
const MIN_TIMEOUT_US: f64 = 1e-3;
const MAX_US: f64 = 1e9;
const MAX_BYTES: f64 = 1e15;
const MAX_RATE: f64 = 1e6;
const MAX_PAUSES: f64 = 1e6;
const MAX_LENGTHS: usize = 1000;
/// Share of a core's time.
const MAX_PAUSED: f64 = 0.5;
const MIN_GBPS: f64 = 1e-6;

/// Frame sizes that a model must be able to answer for, in bytes, from Ethernet header to frame check sequence.
pub const SIZES: [u32; 2] = [64, 9216];

/// Most cores that a model must be able to answer for.
pub const MAX_CORES: u32 = 64;

/// A measured router.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name, for tables and plots.
    pub name: String,
    /// What was measured, where, by whom.
    pub description: Option<String>,
    /// How long a core takes for packets.
    pub model: Model,
    /// Everything about the router except its cores' time.
    pub router: Router,
    /// The fit's report, if `perigee predict fit` wrote the profile.
    pub fit: Option<serde_json::Value>,
}

/// A service-time model: how long a core takes for a burst of packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", content = "parameters", rename_all = "lowercase", deny_unknown_fields)]
pub enum Model {
    /// Equations 5 to 7 of the published model: the rate of k cores on the wire, in Gbit/s, is
    /// `D(k, S) = (a k + a0) S + (b k + b0)`, S in bytes.
    Eq7 {
        /// Gbit/s per byte and core.
        a: f64,
        /// Gbit/s per byte.
        a0: f64,
        /// Gbit/s per core.
        b: f64,
        /// Gbit/s.
        b0: f64,
    },
    /// Linear contention: a packet costs `c0 + c_byte S + d (k - 1) + u [two-way]`.
    Contention {
        /// Nanoseconds per packet.
        c0_ns: f64,
        /// Nanoseconds per byte of the frame.
        c_byte_ns: f64,
        /// Nanoseconds per packet for each further core.
        d_ns: f64,
        /// Nanoseconds per packet where traffic goes both ways.
        u_ns: f64,
    },
    /// Batches, the cache and the slow path's packets: a burst costs `c_batch + sum over its packets (c_packet + c_byte
    /// S + m(W) miss + p punt)`, contention, and `(1 - (1 - p)^n) punt_burst`; p is the share of packets that are
    /// punted, n the packets of a full burst.
    Batch {
        /// Nanoseconds per burst.
        c_batch_ns: f64,
        /// Nanoseconds per packet.
        c_packet_ns: f64,
        /// Nanoseconds per byte of the frame.
        c_byte_ns: f64,
        /// Nanoseconds per lookup that misses the cache.
        miss_ns: f64,
        /// Bytes of tables that the cache holds: `m(W) = max(0, 1 - cache_bytes / W)` of the lookups miss.
        cache_bytes: f64,
        /// Nanoseconds for each further core, per burst or packet (`contention_per`).
        d_ns: f64,
        /// Nanoseconds where traffic goes both ways, per burst or packet.
        u_ns: f64,
        /// Nanoseconds that a packet for the slow path costs the core that gives it away, more than one that it
        /// forwards.
        #[serde(default, skip_serializing_if = "is_zero")]
        punt_ns: f64,
        /// Nanoseconds that a burst costs more if there are such packets in it.
        #[serde(default, skip_serializing_if = "is_zero")]
        punt_burst_ns: f64,
        /// Whether contention (d, u) is paid per burst or per packet.
        #[serde(default)]
        contention_per: Per,
    },
}

/// Packets for the slow path among all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Punted {
    /// Their share, 0 to 1.
    pub share: f64,
    /// Packets of a full burst.
    pub burst: u32,
}

impl Punted {
    /// The share of full bursts in which there is one.
    pub fn bursts(&self) -> f64 {
        1.0 - (1.0 - self.share).powf(f64::from(self.burst))
    }
}

/// Whether contention is paid per burst or per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Once in a burst.
    #[default]
    Burst,
    /// For each packet.
    Packet,
}

/// The parts of a router besides cores, and how it uses them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Router {
    /// Packets that a core takes at once, at most: 1 to 1024.
    pub burst: u32,
    /// Descriptors of a receive queue, in packets.
    pub receive_ring: u32,
    /// Descriptors of a transmit queue, in packets.
    pub transmit_ring: u32,
    /// Packets per transmit burst; 1: each is handed over by itself.
    pub transmit_buffer: u32,
    /// When a transmit buffer that is not full is sent, in microseconds; at least 1e-3 if there is one.
    pub transmit_timeout_us: f64,
    /// Whether it is also sent when a core has looked into its rings and found nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transmit_when_idle: bool,
    /// Time of such a look, in nanoseconds; 0: a core that is idle sees a packet when it comes.
    #[serde(skip_serializing_if = "is_zero")]
    pub poll_ns: f64,
    /// What takes its core away from a router now and then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pauses: Option<Pauses>,
    /// Ports, an even number: 2 to 64.
    pub ports: u32,
    /// Rate of each port's link and direction, in Gbit/s.
    pub link_gbps: f64,
    /// How long a core polls without finding a packet before it sleeps, in microseconds; none: it never sleeps.
    pub sleep_after_us: Option<f64>,
    /// How long it takes to wake, in microseconds.
    pub wake_up_us: f64,
    /// Share of the packets that go to the slow path, 0 to 1.
    pub punt_share: f64,
    /// The slow path's time for a packet, in nanoseconds; 0: there is no slow path, whatever the share.
    pub slow_path_ns: f64,
    /// Packets that wait for the slow path, at most.
    pub punt_ring: u32,
    /// Bytes of the tables that packets are looked up in: 64 per distinct destination, at most one per route.
    pub working_set_bytes: f64,
}

/// Something else has a core now and then: the system's timer, a hypervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// How often.
    pub per_second: f64,
    /// How long, each of these as often as the others, in nanoseconds.
    pub lengths_ns: Vec<f64>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            burst: 32,
            receive_ring: 512,
            transmit_ring: 512,
            transmit_buffer: 1,
            transmit_timeout_us: 0.0,
            transmit_when_idle: false,
            poll_ns: 0.0,
            pauses: None,
            ports: 2,
            link_gbps: 10.0,
            sleep_after_us: None,
            wake_up_us: 0.0,
            punt_share: 0.0,
            slow_path_ns: 0.0,
            punt_ring: 512,
            working_set_bytes: 0.0,
        }
    }
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// A file that cannot be read, or is not a profile: see [`Profile::parse`].
    pub fn load(file: &Path) -> Result<Self, Error> {
        let expected = "a profile that can be read: `perigee predict fit` writes them";
        let bytes = fs::read(file).map_err(|cause| Error::File { file: file.to_owned(), expected, cause })?;
        Self::from_json(&bytes, &file.display().to_string())
    }

    /// Reads a profile from its text; `name` is the file's name in errors.
    ///
    /// # Errors
    /// Text that is not JSON, keys that are missing or unknown, values of the wrong kind or out of bounds.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Self::from_json(text.as_bytes(), name)
    }

    fn from_json(json: &[u8], name: &str) -> Result<Self, Error> {
        let profile = read::profile(json, name)?;
        profile.check(name)?;
        Ok(profile)
    }

    /// The profile as [`Profile::parse`] reads it, indented, with a line feed at its end.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Written<'a> {
            format: &'static str,
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            description: &'a Option<String>,
            #[serde(flatten)]
            model: &'a Model,
            router: &'a Router,
            #[serde(skip_serializing_if = "Option::is_none")]
            fit: &'a Option<serde_json::Value>,
        }
        let Self { name, description, model, router, fit } = self;
        let written = Written { format: FORMAT, name, description, model, router, fit };
        serde_json::to_string_pretty(&written).expect("all keys are strings") + "\n"
    }

    /// The time that packets take on each of `cores` cores, if traffic goes one way or both, and packets are looked up
    /// in `working_set` bytes of tables, and this share of them goes to the slow path.
    pub fn service(&self, cores: u32, two_way: bool, working_set: f64, punted: f64) -> Service {
        self.model.service(cores, two_way, working_set, Punted { share: punted, burst: self.router.burst })
    }

    /// Are all values within their bounds, and do they fit together?
    ///
    /// # Errors
    /// The first one that is not; `name` is the file that errors speak of.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        if !(1..=MAX_NAME).contains(&self.name.len()) {
            let found = format!("{} bytes", self.name.len());
            return Err(key(name, "name", found, format!("a name of 1 to {MAX_NAME} bytes")));
        }
        if self.name.chars().any(char::is_control) {
            // It is printed on terminals.
            let found = format!("\"{}\" with a control character", printable(&self.name));
            return Err(key(name, "name", found, "a name without"));
        }
        let words = self.description.as_ref().map_or(0, String::len);
        if words > MAX_DESCRIPTION {
            return Err(key(name, "description", format!("{words} bytes"), format!("at most {MAX_DESCRIPTION} bytes")));
        }
        self.model.check(name)?;
        self.router.check(name)
    }
}

/// Whether traffic and its answers share the cores by default: from two cores on, as in the published measurements.
pub fn two_way_by_default(cores: u32) -> bool {
    cores >= 2
}

impl Model {
    /// Its name in profiles and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eq7 { .. } => "eq7",
            Self::Contention { .. } => "contention",
            Self::Batch { .. } => "batch",
        }
    }

    /// See [`Profile::service`].
    pub fn service(&self, cores: u32, two_way: bool, working_set: f64, punted: Punted) -> Service {
        let k = f64::from(cores.max(1));
        let contention = |d: f64, u: f64| d * (k - 1.0) + if two_way { u } else { 0.0 };
        match *self {
            Self::Eq7 { a, a0, b, b0 } => Service::Rate { byte_gbps: a + a0 / k, gbps: b + b0 / k },
            Self::Contention { c0_ns, c_byte_ns, d_ns, u_ns } => {
                Service::Linear { burst_ns: 0.0, packet_ns: c0_ns + contention(d_ns, u_ns), byte_ns: c_byte_ns }
            }
            Self::Batch {
                c_batch_ns,
                c_packet_ns,
                c_byte_ns,
                miss_ns,
                cache_bytes,
                d_ns,
                u_ns,
                punt_ns,
                punt_burst_ns,
                contention_per,
            } => {
                let missing = miss_share(working_set, cache_bytes) * miss_ns;
                let (per_burst, per_packet) = match contention_per {
                    Per::Burst => (contention(d_ns, u_ns), 0.0),
                    Per::Packet => (0.0, contention(d_ns, u_ns)),
                };
                Service::Linear {
                    burst_ns: c_batch_ns + per_burst + punted.bursts() * punt_burst_ns,
                    packet_ns: c_packet_ns + missing + punted.share * punt_ns + per_packet,
                    byte_ns: c_byte_ns,
                }
            }
        }
    }

    /// The parameters that are numbers, by their names in profiles.
    pub fn parameters(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Eq7 { a, a0, b, b0 } => vec![("a", a), ("a0", a0), ("b", b), ("b0", b0)],
            Self::Contention { c0_ns, c_byte_ns, d_ns, u_ns } => {
                vec![("c0_ns", c0_ns), ("c_byte_ns", c_byte_ns), ("d_ns", d_ns), ("u_ns", u_ns)]
            }
            Self::Batch {
                c_batch_ns,
                c_packet_ns,
                c_byte_ns,
                miss_ns,
                cache_bytes,
                d_ns,
                u_ns,
                punt_ns,
                punt_burst_ns,
                contention_per: _,
            } => {
                vec![
                    ("c_batch_ns", c_batch_ns),
                    ("c_packet_ns", c_packet_ns),
                    ("c_byte_ns", c_byte_ns),
                    ("miss_ns", miss_ns),
                    ("cache_bytes", cache_bytes),
                    ("d_ns", d_ns),
                    ("u_ns", u_ns),
                    ("punt_ns", punt_ns),
                    ("punt_burst_ns", punt_burst_ns),
                ]
            }
        }
    }

    fn check(&self, name: &str) -> Result<(), Error> {
        for (parameter, value) in self.parameters() {
            let may_be_negative = matches!(parameter, "a0" | "b0");
            let most = match parameter {
                "cache_bytes" => MAX_BYTES,
                _ if parameter.ends_with("_ns") => MAX_NS,
                _ => MAX_RATE,
            };
            let expected = match may_be_negative {
                true => format!("a number of at most {most:e}, with or without a sign"),
                false => format!("a number >= 0 (and at most {most:e})"),
            };
            let least = if may_be_negative { -most } else { 0.0 };
            if !(least..=most).contains(&value) {
                return Err(key(name, &format!("parameters.{parameter}"), shown_number(value), expected));
            }
        }
        // Linear in both, or a quotient of such, so the corners are the extremes.
        for (cores, size) in [1, MAX_CORES].into_iter().flat_map(|k| SIZES.map(|size| (k, size))) {
            if let Some((found, expected)) = self.unfit(cores, size) {
                let expected = format!("{expected}, for 1 to {MAX_CORES} cores and {} to {} bytes", SIZES[0], SIZES[1]);
                return Err(key(name, "parameters", found, expected));
            }
        }
        Ok(())
    }

    /// A burst of one packet must take 1e-3 to 1e9 ns: one-way and without misses not less, two-way and with nothing
    /// but misses not more. If it does not: what was found, and expected.
    fn unfit(&self, cores: u32, size: u32) -> Option<(String, String)> {
        let (k, s) = (f64::from(cores), f64::from(size));
        let (batch, packet, byte, d, u, miss) = match *self {
            Self::Eq7 { a, a0, b, b0 } => {
                let rate = (a * k + a0) * s + (b * k + b0);
                let bits = k * ((s + 20.0) * 8.0);
                let (least, most) = (bits / MAX_NS, bits / MIN_NS);
                return (!(least..=most).contains(&rate)).then(|| {
                    let found = format!("D({cores}, {size}) = {} Gbit/s", shown_outside(rate, least..=most));
                    let time = format!("a packet takes {MIN_NS:e} to {MAX_NS:e} ns of a core");
                    (found, format!("{} to {} there: {time}", shown_number(least), shown_number(most)))
                });
            }
            Self::Contention { c0_ns, c_byte_ns, d_ns, u_ns } => (0.0, c0_ns, c_byte_ns, d_ns, u_ns, 0.0),
            Self::Batch { c_batch_ns, c_packet_ns, c_byte_ns, miss_ns, d_ns, u_ns, punt_ns, punt_burst_ns, .. } => {
                (c_batch_ns, c_packet_ns, c_byte_ns, d_ns, u_ns, miss_ns + punt_ns + punt_burst_ns)
            }
        };
        let least = batch + packet + byte * s + d * (k - 1.0);
        let most = least + u + miss;
        let (time, way) = if least < MIN_NS {
            (least, "one-way, without misses")
        } else if most > MAX_NS {
            (most, "two-way, with nothing but misses and packets for the slow path")
        } else {
            return None;
        };
        let time = shown_outside(time, MIN_NS..=MAX_NS);
        let found = format!("{time} ns for a burst of one packet of {size} bytes, k = {cores}, {way}");
        Some((found, format!("{MIN_NS:e} to {MAX_NS:e} ns")))
    }
}

/// Not written: other programs need not know what is not there.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Share of lookups that miss a cache of `cache_bytes` in tables of `working_set` bytes.
pub fn miss_share(working_set: f64, cache_bytes: f64) -> f64 {
    if working_set > cache_bytes { 1.0 - cache_bytes / working_set } else { 0.0 }
}

impl Router {
    /// Are all values within their bounds, and do they fit together?
    ///
    /// # Errors
    /// The first one that is not; `name` is the file that errors speak of.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let counts = [
            ("burst", self.burst),
            ("receive_ring", self.receive_ring),
            ("transmit_ring", self.transmit_ring),
            ("transmit_buffer", self.transmit_buffer),
            ("ports", self.ports),
            ("punt_ring", self.punt_ring),
        ];
        if let Some((what, value)) = counts.into_iter().find(|&(what, value)| !is_count(what, value)) {
            return Err(key(name, &format!("router.{what}"), value, expected_count(what)));
        }
        let numbers = [
            ("transmit_timeout_us", self.transmit_timeout_us, MAX_US),
            ("poll_ns", self.poll_ns, MAX_NS),
            ("sleep_after_us", self.sleep_after_us.unwrap_or(0.0), MAX_US),
            ("wake_up_us", self.wake_up_us, MAX_US),
            ("slow_path_ns", self.slow_path_ns, MAX_NS),
            ("working_set_bytes", self.working_set_bytes, MAX_BYTES),
        ];
        for (what, value, most) in numbers {
            if !(0.0..=most).contains(&value) {
                let expected = format!("a number >= 0 (and at most {most:e})");
                return Err(key(name, &format!("router.{what}"), shown_number(value), expected));
            }
        }
        if !(MIN_GBPS..=MAX_RATE).contains(&self.link_gbps) {
            let expected = format!("a number >= {MIN_GBPS:e} (and at most {MAX_RATE:e})");
            return Err(key(name, "router.link_gbps", shown_number(self.link_gbps), expected));
        }
        if !(0.0..=1.0).contains(&self.punt_share) {
            return Err(key(name, "router.punt_share", shown_number(self.punt_share), "a number, 0 to 1"));
        }
        self.pauses.as_ref().map_or(Ok(()), |pauses| pauses.check(name))?;
        if self.receive_ring < self.burst {
            let expected = format!("at least router.burst, {}: a burst comes from one ring", self.burst);
            return Err(key(name, "router.receive_ring", self.receive_ring, expected));
        }
        if self.transmit_ring < self.transmit_buffer {
            let expected = format!("at least router.transmit_buffer, {}: a burst must fit", self.transmit_buffer);
            return Err(key(name, "router.transmit_ring", self.transmit_ring, expected));
        }
        // Less than this may be nothing in the simulator's picoseconds, and nothing is for ever.
        if self.transmit_buffer > 1 && self.transmit_timeout_us < MIN_TIMEOUT_US {
            let expected = format!(
                "a number >= {MIN_TIMEOUT_US:e}, as router.transmit_buffer is more than 1: else packets would wait for ever"
            );
            return Err(key(name, "router.transmit_timeout_us", shown_number(self.transmit_timeout_us), expected));
        }
        Ok(())
    }
}

impl Pauses {
    /// Do they leave a core any time?
    fn check(&self, name: &str) -> Result<(), Error> {
        let Self { per_second, lengths_ns } = self;
        if !(0.0..=MAX_PAUSES).contains(per_second) {
            let expected = format!("a number >= 0 (and at most {MAX_PAUSES:e})");
            return Err(key(name, "router.pauses.per_second", shown_number(*per_second), expected));
        }
        if !(1..=MAX_LENGTHS).contains(&lengths_ns.len()) {
            let found = format!("{} lengths", lengths_ns.len());
            return Err(key(name, "router.pauses.lengths_ns", found, format!("1 to {MAX_LENGTHS}")));
        }
        if let Some(length) = lengths_ns.iter().find(|length| !(0.0..=MAX_NS).contains(*length)) {
            let expected = format!("numbers >= 0 (and at most {MAX_NS:e})");
            return Err(key(name, "router.pauses.lengths_ns", shown_number(*length), expected));
        }
        let share = per_second * lengths_ns.iter().sum::<f64>() / lengths_ns.len() as f64 / 1e9;
        if share > MAX_PAUSED {
            let found = format!("pauses of {share:.3} of a core's time");
            return Err(key(name, "router.pauses", found, format!("at most {MAX_PAUSED}")));
        }
        Ok(())
    }
}

/// The largest value that a whole number of a router may have.
fn most_of(count: &str) -> u32 {
    match count {
        "burst" | "transmit_buffer" => 1024,
        "ports" => 64,
        _ => 65_536,
    }
}

/// Whether a whole number of a router may have this value. Ports come in pairs, as traffic goes from one to its
/// opposite.
fn is_count(count: &str, value: u32) -> bool {
    (1..=most_of(count)).contains(&value) && (count != "ports" || value.is_multiple_of(2))
}

/// The allowed values, for messages.
fn expected_count(count: &str) -> String {
    let most = most_of(count);
    if count == "ports" { format!("an even whole number, 2 to {most}") } else { format!("a whole number, 1 to {most}") }
}

fn key(file: &str, path: &str, found: impl ToString, expected: impl Into<String>) -> Error {
    Error::Key { file: file.to_owned(), path: path.to_owned(), found: found.to_string(), expected: expected.into() }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;
