// SPDX-License-Identifier: MIT
//! How long a core takes for packets, when the number of cores, the direction of traffic and the tables are settled.

/// Bytes that a frame takes on the wire besides itself: preamble 7, start of frame 1, gap 12 (IEEE 802.3).
pub const WIRE_OVERHEAD: u32 = 20;

/// A frame on the wire, in bits, its overhead included; `size` in bytes from Ethernet header to frame check sequence.
pub fn wire_bits(size: u32) -> f64 {
    f64::from(size + WIRE_OVERHEAD) * 8.0
}

/// A core's time for packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// A rate on the wire that grows with the frame (Eq. 7): `x = (S + 20) 8 / (byte_gbps S + gbps)` nanoseconds.
    Rate {
        /// Gbit/s per byte of the frame.
        byte_gbps: f64,
        /// Gbit/s.
        gbps: f64,
    },
    /// A time that grows with packets and bytes.
    Linear {
        /// Nanoseconds per burst.
        burst_ns: f64,
        /// Nanoseconds per packet.
        packet_ns: f64,
        /// Nanoseconds per byte.
        byte_ns: f64,
    },
}

impl Service {
    /// What a burst costs besides its packets, in nanoseconds.
    pub fn burst_ns(&self) -> f64 {
        match *self {
            Self::Rate { .. } => 0.0,
            Self::Linear { burst_ns, .. } => burst_ns,
        }
    }

    /// What a packet of `size` bytes costs besides its part of the burst, in nanoseconds.
    pub fn packet_ns(&self, size: u32) -> f64 {
        match *self {
            Self::Rate { byte_gbps, gbps } => wire_bits(size) / (byte_gbps * f64::from(size) + gbps),
            Self::Linear { packet_ns, byte_ns, .. } => packet_ns + byte_ns * f64::from(size),
        }
    }

    /// What a burst of packets of these sizes costs, in nanoseconds. No packets are no burst and cost nothing.
    pub fn total_ns(&self, sizes: &[u32]) -> f64 {
        if sizes.is_empty() {
            return 0.0;
        }
        self.burst_ns() + sizes.iter().map(|&size| self.packet_ns(size)).sum::<f64>()
    }

    /// A packet's time in full bursts of `burst` packets of `size` bytes, in nanoseconds: what a saturated core takes.
    pub fn saturated_ns(&self, size: u32, burst: u32) -> f64 {
        self.burst_ns() / f64::from(burst.max(1)) + self.packet_ns(size)
    }

    /// What a saturated core forwards, in Gbit/s on the wire.
    pub fn saturated_gbps(&self, size: u32, burst: u32) -> f64 {
        wire_bits(size) / self.saturated_ns(size, burst)
    }
}
