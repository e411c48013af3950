// SPDX-License-Identifier: MIT
//! Receive side scaling: which core a flow's packets go to, and so what share of the traffic each core has.
//!
//! Microsoft's "RSS hashing functions": Toeplitz with the default 40-byte key over addresses and ports, the hash's
//! lowest seven bits into an indirection table of 128 entries; entry i leads to core `i % cores`. Flows are those of
//! the simulation (`ns3/softrouter`), so closed forms and simulation see the same imbalance.

use std::net::Ipv4Addr;

/// Microsoft's default key.
pub const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// Entries of the indirection table.
pub const TABLE: u32 = 128;

/// Most flows: they are numbered by 16 bits of the addresses.
pub const MAX_FLOWS: u32 = 65_535;

/// The Toeplitz hash of `input` (at most 36 bytes): for each bit of it that is set, the 32 bits of the key from there
/// on.
pub fn toeplitz(input: &[u8]) -> u32 {
    let mut hash = 0;
    let mut window = u32::from_be_bytes([KEY[0], KEY[1], KEY[2], KEY[3]]);
    for (i, &byte) in input.iter().enumerate() {
        let next = KEY.get(i + 4).copied().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

/// A flow of UDP over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source and destination address.
    pub addresses: [Ipv4Addr; 2],
    /// Source and destination port.
    pub ports: [u16; 2],
}

impl Flow {
    /// The flow with this number: 198.18.x.y to 198.19.x.y (RFC 2544's networks for measurements), x and y from the
    /// number.
    pub fn numbered(number: u32) -> Self {
        let [_, _, high, low] = number.to_be_bytes();
        Self {
            addresses: [Ipv4Addr::new(198, 18, high, low), Ipv4Addr::new(198, 19, high, low)],
            ports: [(1024 + number % 60_000) as u16, 9],
        }
    }

    /// Its hash over addresses and ports, as on the wire.
    pub fn hash(&self) -> u32 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&self.addresses[0].octets());
        input[4..8].copy_from_slice(&self.addresses[1].octets());
        input[8..10].copy_from_slice(&self.ports[0].to_be_bytes());
        input[10..].copy_from_slice(&self.ports[1].to_be_bytes());
        toeplitz(&input)
    }

    /// The core that its packets go to.
    pub fn core(&self, cores: u32) -> usize {
        (self.hash() % TABLE % cores.max(1)) as usize
    }
}

/// Which ports packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// 1 or 2: packets come at one port of a pair, or at both.
    pub directions: u32,
    /// Pairs of ports.
    pub pairs: u32,
}

/// The share of all packets that each core gets from each receiving port. Flow f has direction `f % directions` over
/// pair `f / directions % pairs`; each direction has the same rate, spread evenly over its flows.
pub fn shares(flows: u32, ports: Ports, cores: u32) -> Vec<Vec<f64>> {
    let directions = ports.directions.clamp(1, flows.clamp(1, 2));
    let pairs = ports.pairs.max(1);
    let mut shares = vec![vec![0.0; (directions * pairs) as usize]; cores.max(1) as usize];
    for number in 0..flows {
        let direction = number % directions;
        let of_direction = (flows - direction).div_ceil(directions);
        let port = number / directions % pairs * directions + direction;
        let share = 1.0 / f64::from(directions) / f64::from(of_direction);
        shares[Flow::numbered(number).core(cores)][port as usize] += share;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Verifying the RSS Hash Calculation", Microsoft: destination, source, hash with ports, hash of addresses alone.
    #[test]
    fn hashes_are_microsofts() {
        let vectors = [
            ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x51cc_c178, 0x323e_8fc2),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xc626_b0ea, 0xd718_262a),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0x5c2b_394a, 0xd2d0_a5de),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0xafc7_327f, 0x8298_9176),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x10e8_28a2, 0x5d18_09c5),
        ];
        for (destination, to, source, from, with_ports, addresses) in vectors {
            let flow = Flow { addresses: [source.parse().unwrap(), destination.parse().unwrap()], ports: [from, to] };
            assert_eq!(flow.hash(), with_ports, "{flow:?}");
            let input = flow.addresses.map(|a| a.octets()).concat();
            assert_eq!(toeplitz(&input), addresses, "{flow:?}");
        }
    }

    #[test]
    fn flows_are_numbered() {
        let flow = Flow::numbered(60_001);
        assert_eq!(flow.addresses[0].to_string(), "198.18.234.97");
        assert_eq!(flow.addresses[1].to_string(), "198.19.234.97");
        assert_eq!(flow.ports, [1025, 9]);
    }

    #[test]
    fn shares_add_up() {
        for (flows, directions, pairs, cores) in
            [(1, 1, 1, 1), (1, 2, 1, 4), (3, 2, 1, 4), (1000, 2, 4, 16), (65_535, 1, 3, 64)]
        {
            let shares = shares(flows, Ports { directions, pairs }, cores);
            assert_eq!(shares.len(), cores as usize);
            let all: f64 = shares.iter().flatten().sum();
            assert!((all - 1.0).abs() < 1e-9, "{flows} flows, {directions} ways, {pairs} pairs, {cores} cores: {all}");
        }
    }

    /// Of three flows, two go one way and have a quarter of the traffic each; the third has half.
    #[test]
    fn each_direction_has_its_rate() {
        let mut expected = vec![vec![0.0; 2]; 4];
        for (number, direction, share) in [(0, 0, 0.25), (1, 1, 0.5), (2, 0, 0.25)] {
            expected[Flow::numbered(number).core(4)][direction] += share;
        }
        assert_eq!(shares(3, Ports { directions: 2, pairs: 1 }, 4), expected);
    }

    /// Eight flows over two pairs: 0 and 4 come at the first port, 1 and 5 at its opposite, 2 and 6 at the second pair.
    #[test]
    fn pairs_take_turns() {
        let shares = shares(8, Ports { directions: 2, pairs: 2 }, 1);
        assert_eq!(shares, [[0.25; 4]]);
        let uneven = super::shares(3, Ports { directions: 1, pairs: 2 }, 1);
        assert!((uneven[0][0] - 2.0 / 3.0).abs() < 1e-12 && (uneven[0][1] - 1.0 / 3.0).abs() < 1e-12);
    }
}
