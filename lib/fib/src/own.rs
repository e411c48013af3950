// SPDX-License-Identifier: MIT
//! The router's own addresses, and the broadcast addresses of its networks, as sources of packets: nobody else may send
//! from them (RFC 1812 5.3.7).
//!
//! Every packet is asked about, so the answer for nearly all of them is one bit of a small table, found by a hash of
//! the source; only what a mark does not rule out is looked for in the sets themselves. The table has 64 bits for each
//! address, and 1 KB at least, which stays in the L1 cache: at most 1.6 % of the other sources are looked for in vain.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use perigee_net::{HostAddress, Interface, is_link_local};

/// Knuth's multiplicative constant, 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Marks in a word, and at least.
const PER_WORD: usize = 32;
const SMALLEST: usize = 8192;
const PER_ADDRESS: usize = 64;

/// Addresses that only this router may send from.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses {
    own: BTreeSet<IpAddr>,
    broadcasts: BTreeSet<Ipv4Addr>,
    marks4: Marks,
    marks6: Marks,
}

/// What an address is to this router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnAddress {
    /// One of its own.
    Own,
    /// The broadcast address of one of its networks.
    Broadcast,
}

impl OwnAddresses {
    /// The addresses of these interfaces, whether they are up or not, and those on none. Link-local IPv6 addresses are
    /// left out: each link has its own (RFC 4007 5), and they are never forwarded. So are anycast addresses: other
    /// routers have them, too.
    pub(crate) fn new(interfaces: &[Interface], host_addresses: &[HostAddress]) -> Self {
        let addresses = || interfaces.iter().flat_map(|interface| interface.addresses.iter().copied());
        let is_scoped = |address: IpAddr| address.is_ipv6() && is_link_local(address);
        let all = addresses().map(|own| own.address).chain(host_addresses.iter().map(|host| host.address.address));
        let own: BTreeSet<_> = all.filter(|address| !is_scoped(*address)).collect();
        let broadcasts: BTreeSet<_> = addresses().flat_map(|own| own.broadcasts()).collect();
        let (mut marks4, mut marks6) = (Marks::new(own.len() + broadcasts.len()), Marks::new(own.len()));
        for address in own.iter().copied().chain(broadcasts.iter().copied().map(IpAddr::V4)) {
            match address {
                IpAddr::V4(v4) => marks4.mark(hash4(v4.octets())),
                IpAddr::V6(v6) => marks6.mark(hash6(v6.octets())),
            }
        }
        OwnAddresses { own, broadcasts, marks4, marks6 }
    }

    /// The marks of IPv4 addresses, for a loop over packets.
    #[inline]
    pub fn marks4(&self) -> &Marks {
        &self.marks4
    }

    /// The marks of IPv6 addresses, for a loop over packets.
    #[inline]
    pub fn marks6(&self) -> &Marks {
        &self.marks6
    }

    /// What the address is to this router, if anything.
    pub fn find(&self, address: IpAddr) -> Option<OwnAddress> {
        match address {
            _ if self.own.contains(&address) => Some(OwnAddress::Own),
            IpAddr::V4(v4) if self.broadcasts.contains(&v4) => Some(OwnAddress::Broadcast),
            _ => None,
        }
    }
}

/// Marks at the hashes of some addresses: bits, whose number is a power of two.
#[derive(Clone, Debug)]
pub struct Marks {
    words: Box<[u32]>,
    /// By how much to shift a hash to get a bit's number.
    shift: u32,
}

impl Default for Marks {
    fn default() -> Self {
        Marks::new(0)
    }
}

impl Marks {
    /// What an IPv4 address, as a number in the machine's own order of the bytes in a packet, is multiplied by to be
    /// hashed.
    pub const SPREAD4: u32 = 0x9e37_79b1;

    fn new(addresses: usize) -> Self {
        let bits = (addresses * PER_ADDRESS).next_power_of_two().clamp(SMALLEST, 1 << 31);
        Marks { words: vec![0; bits / PER_WORD].into(), shift: 32 - bits.trailing_zeros() }
    }

    fn mark(&mut self, hash: u32) {
        let bit = hash >> self.shift;
        self.words[bit as usize / PER_WORD] |= 1 << (bit as usize % PER_WORD);
    }

    /// Whether an IPv4 address, as it stands in a packet, may be one of them. `false` is certain.
    #[inline(always)]
    pub fn may_have4(&self, address: [u8; 4]) -> bool {
        self.is_marked(hash4(address))
    }

    /// Whether an IPv6 address, as it stands in a packet, may be one of them. `false` is certain.
    #[inline(always)]
    pub fn may_have6(&self, address: [u8; 16]) -> bool {
        self.is_marked(hash6(address))
    }

    /// The marks, 32 in a word, and by how much to shift a hash to get a mark's number: for who asks about several
    /// addresses at once.
    #[inline(always)]
    pub fn words(&self) -> (&[u32], u32) {
        (&self.words, self.shift)
    }

    #[inline(always)]
    fn is_marked(&self, hash: u32) -> bool {
        let bit = hash >> self.shift;
        self.words.get(bit as usize / PER_WORD).is_none_or(|word| word >> (bit as usize % PER_WORD) & 1 != 0)
    }
}

#[inline(always)]
fn hash4(address: [u8; 4]) -> u32 {
    u32::from_ne_bytes(address).wrapping_mul(Marks::SPREAD4)
}

#[inline(always)]
fn hash6(address: [u8; 16]) -> u32 {
    let (words, _) = address.as_chunks::<8>();
    let [high, low] = [words[0], words[1]].map(u64::from_ne_bytes);
    // A multiplication carries upwards only: what hosts differ by, which is at the top, is folded down first.
    let both = high.rotate_left(32) ^ low;
    ((both ^ both >> 32).wrapping_mul(SPREAD) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Random;
    use perigee_net::{MacAddr, Policy};
    use std::net::Ipv6Addr;

    fn interface(addresses: &[&str], up: bool) -> Interface {
        Interface {
            name: "a".to_owned(),
            port: 0,
            vlan: None,
            mtu: 1500,
            mac: MacAddr::ZERO,
            up,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            attributes: Default::default(),
            policy: Policy::default(),
        }
    }

    #[test]
    fn own_addresses_and_broadcasts_are_found() {
        let own = OwnAddresses::new(
            &[
                interface(&["10.0.1.1/24", "2001:db8::1/64", "fe80::1/64"], true),
                interface(&["192.0.2.4/31", "169.254.1.1/16"], false),
            ],
            &[HostAddress { address: "10.255.0.1/24".parse().unwrap(), attributes: Default::default(), station: None }],
        );
        for (text, expected) in [
            ("10.0.1.1", Some(OwnAddress::Own)),
            ("192.0.2.4", Some(OwnAddress::Own)),
            ("169.254.1.1", Some(OwnAddress::Own)),
            ("2001:db8::1", Some(OwnAddress::Own)),
            ("10.255.0.1", Some(OwnAddress::Own)),
            ("10.255.0.255", None),
            ("10.0.1.255", Some(OwnAddress::Broadcast)),
            ("10.0.1.0", Some(OwnAddress::Broadcast)),
            ("10.0.1.2", None),
            ("192.0.2.5", None),
            ("2001:db8::", None),
            ("fe80::1", None),
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(own.find(address), expected, "{text}");
            let marked = match address {
                IpAddr::V4(v4) => own.marks4().may_have4(v4.octets()),
                IpAddr::V6(v6) => own.marks6().may_have6(v6.octets()),
            };
            assert!(marked || expected.is_none(), "{text}: no mark may be missing");
        }
        let nothing = OwnAddresses::default();
        assert!(!nothing.marks4().may_have4([10, 0, 1, 1]) && nothing.find("10.0.1.1".parse().unwrap()).is_none());
    }

    /// However many addresses: none is missed, and few others are looked for in vain, near ones and far ones.
    #[test]
    fn few_sources_are_looked_for_in_vain() {
        for networks in [1u32, 20, 4000] {
            let texts: Vec<String> = (0..networks)
                .flat_map(|n| [format!("10.{}.{}.1/24", n / 256, n % 256), format!("2001:db8:{n:x}::1/64")])
                .collect();
            let own = OwnAddresses::new(&[interface(&texts.iter().map(String::as_str).collect::<Vec<_>>(), true)], &[]);
            for text in &texts {
                let address = text.split('/').next().unwrap().parse().unwrap();
                assert_eq!(own.find(address), Some(OwnAddress::Own));
            }
            let mut random = Random::new(7);
            let mut in_vain = [0; 4];
            for i in 0..100_000u32 {
                let host = 2 + i % 250;
                let network = random.below(networks);
                let near = [10, (network / 256) as u8, network as u8, host as u8];
                let far = (random.bits() as u32).to_be_bytes();
                let near6 = Ipv6Addr::new(0x2001, 0xdb8, network as u16, 0, 0, 0, 0, host as u16).octets();
                let far6 = (u128::from(random.bits()) << 64 | u128::from(random.bits())).to_be_bytes();
                in_vain[0] += u32::from(own.marks4().may_have4(near));
                in_vain[1] += u32::from(own.marks4().may_have4(far));
                in_vain[2] += u32::from(own.marks6().may_have6(near6));
                in_vain[3] += u32::from(own.marks6().may_have6(far6));
            }
            assert!(in_vain.iter().all(|n| *n < 6_000), "{networks} networks: {in_vain:?} of 100000");
        }
    }
}
