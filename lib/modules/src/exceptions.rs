// SPDX-License-Identifier: MIT
//! The packets that a route or a policy rule of Linux treats otherwise than the plain route to their destination, found
//! by a worker and by the slow path.
//!
//! Workers ask for addresses, protocol and ports ([`Filter`]) and give the slow path what may be such a packet. The
//! slow path also looks at the type of service and the interface, and knows how long the prefix of the plain route is:
//! [`Exceptions::treatment`].

use crate::rules::{Filter, LinearFilter, Rule};
use perigee_net::{Exception, ExceptionCause, FiveTuple, InterfaceId, Key, Key4, Key6, Prefix, Verdict};
use perigee_packet::wire::tuple;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a packet's exceptions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing.
    Plain,
    /// Linux decides about it.
    Linux,
    /// It has to be as short as the route says.
    Short,
}

/// Exceptions to the plain routes, by their destinations.
#[derive(Default)]
pub struct Exceptions {
    by_destination: HashMap<Prefix, Bucket>,
    /// The lengths of the destinations, the longest first: of IPv4, of IPv6.
    lengths: [Vec<u8>; 2],
    /// What workers look at, as a list that "denies" such packets.
    coarse: Vec<Rule>,
}

/// The exceptions of one destination.
#[derive(Default)]
struct Bucket {
    list: Vec<Exception>,
    /// The same, without what workers do not look at.
    coarse: LinearFilter,
}

impl Exceptions {
    /// These exceptions; `None` if there are none.
    pub fn new(list: Vec<Exception>) -> Option<Exceptions> {
        if list.is_empty() {
            return None;
        }
        let mut by_destination: HashMap<Prefix, Bucket> = HashMap::new();
        let mut lengths = [BTreeSet::new(), BTreeSet::new()];
        for exception in &list {
            for destination in destinations(&exception.tuple) {
                lengths[usize::from(matches!(destination, Prefix::V6(_)))].insert(destination.len());
                let bucket = by_destination.entry(destination).or_default();
                bucket.list.push(exception.clone());
                bucket.coarse.0.push(Rule::deny(exception.tuple));
            }
        }
        let lengths = lengths.map(|lengths| lengths.into_iter().rev().collect());
        let coarse = list.iter().map(|exception| Rule::deny(exception.tuple)).collect();
        Some(Exceptions { by_destination, lengths, coarse })
    }

    fn buckets(&self, destination: IpAddr) -> impl Iterator<Item = (u8, &Bucket)> {
        self.lengths[usize::from(destination.is_ipv6())].iter().filter_map(move |length| {
            let prefix = Prefix::truncated(destination, *length).ok()?;
            Some((*length, self.by_destination.get(&prefix)?))
        })
    }

    fn may_be_about<const N: usize>(&self, key: &Key<N>, destination: IpAddr) -> bool
    where
        LinearFilter: Ask<N>,
    {
        self.buckets(destination).any(|(_, bucket)| bucket.coarse.ask(key))
    }

    fn may_be_about4(&self, key: &Key4) -> bool {
        self.may_be_about(key, Ipv4Addr::from(key.destination).into())
    }

    fn may_be_about6(&self, key: &Key6) -> bool {
        self.may_be_about(key, Ipv6Addr::from(key.destination).into())
    }

    /// Whether a packet, given from its IP header on, may be such a packet, as workers would find.
    pub fn may_match(&self, packet: &[u8]) -> bool {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => tuple::key4(packet).is_some_and(|key| self.may_be_about4(&key)),
            Some(6) => tuple::key6(packet).is_some_and(|key| self.may_be_about6(&key)),
            _ => false,
        }
    }

    /// The treatment of a packet, given from its IP header on, that came in on `input`; `plain` finds the length of the
    /// prefix of the plain route to its destination.
    pub fn treatment(&self, input: InterfaceId, packet: &[u8], plain: impl FnOnce(IpAddr) -> Option<u8>) -> Treatment {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => tuple::key4(packet).map(|key| {
                let destination = Ipv4Addr::from(key.destination).into();
                self.judge(&key, destination, (input, packet[1]), plain)
            }),
            Some(6) => tuple::key6(packet).map(|key| {
                let destination = Ipv6Addr::from(key.destination).into();
                self.judge(&key, destination, (input, packet[0] << 4 | packet[1] >> 4), plain)
            }),
            _ => None,
        }
        .unwrap_or(Treatment::Plain)
    }

    fn judge<const N: usize>(
        &self,
        key: &Key<N>,
        destination: IpAddr,
        (input, tos): (InterfaceId, u8),
        plain: impl FnOnce(IpAddr) -> Option<u8>,
    ) -> Treatment
    where
        LinearFilter: Ask<N>,
    {
        let (mut plain, mut length) = (Some(plain), None);
        let mut treatment = Treatment::Plain;
        for (at, bucket) in self.buckets(destination) {
            for exception in &bucket.list {
                let about = exception.tos.is_none_or(|values| values.contains(tos))
                    && exception.input.is_none_or(|interface| interface == input)
                    && LinearFilter(vec![Rule::deny(exception.tuple)]).ask(key);
                if !about {
                    continue;
                }
                match exception.cause {
                    ExceptionCause::Rule => return Treatment::Linux,
                    ExceptionCause::Mtu => treatment = Treatment::Short,
                    ExceptionCause::Route => {
                        if let Some(plain) = plain.take() {
                            length = plain(destination);
                        }
                        if length.is_none_or(|length| length <= at) {
                            return Treatment::Linux;
                        }
                    }
                }
            }
        }
        treatment
    }
}

/// The destinations of a rule: those of both families if it names neither addresses nor a family.
fn destinations(tuple: &FiveTuple) -> Vec<Prefix> {
    let all = [(tuple.ipv4(), IpAddr::V4(Ipv4Addr::UNSPECIFIED)), (tuple.ipv6(), IpAddr::V6(Ipv6Addr::UNSPECIFIED))];
    match tuple.dst {
        Some(destination) => vec![destination],
        None => all.into_iter().filter(|(is, _)| *is).filter_map(|(_, any)| Prefix::truncated(any, 0).ok()).collect(),
    }
}

/// A list that can be asked about a key of a family.
trait Ask<const N: usize> {
    /// Whether a rule is, or may be, about it.
    fn ask(&self, key: &Key<N>) -> bool;
}

impl Ask<4> for LinearFilter {
    fn ask(&self, key: &Key4) -> bool {
        self.verdict4(key).denies()
    }
}

impl Ask<16> for LinearFilter {
    fn ask(&self, key: &Key6) -> bool {
        self.verdict6(key).denies()
    }
}

/// Of packets that the slow path looks at, nothing else is asked.
fn verdict(may_be: bool) -> Verdict {
    if may_be { Rule::deny(FiveTuple::default()).verdict() } else { Verdict::NONE }
}

impl Filter for Exceptions {
    fn judge4(&self, keys: &[Key4], to: &mut [Verdict]) {
        keys.iter().zip(to).for_each(|(key, to)| *to = verdict(self.may_be_about4(key)));
    }

    fn judge6(&self, keys: &[Key6], to: &mut [Verdict]) {
        keys.iter().zip(to).for_each(|(key, to)| *to = verdict(self.may_be_about6(key)));
    }

    fn rules(&self) -> Option<&[Rule]> {
        Some(&self.coarse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed4, fuzz, udp4, udp6};
    use perigee_fib::synth::Random;
    use perigee_net::Tos;

    fn random(random: &mut Random) -> Exception {
        let some = |random: &mut Random| random.below(2) == 0;
        let v6 = some(random);
        let address = |random: &mut Random| -> IpAddr {
            let low = random.below(8) as u16;
            if v6 {
                Ipv6Addr::new(0x2001, 0xdb8, low, 0, 0, 0, 0, 9).into()
            } else {
                Ipv4Addr::new(10, low as u8, 0, 9).into()
            }
        };
        let lengths = if v6 { [0, 45, 46, 48] } else { [0, 13, 14, 16] };
        let prefix = |random: &mut Random| {
            let length = lengths[random.below(4) as usize];
            some(random).then(|| Prefix::truncated(address(random), length).unwrap())
        };
        let (src, dst) = (prefix(random), prefix(random));
        let proto = (random.below(4) == 0).then_some(17);
        let value = (random.below(4) as u8) << 2;
        Exception {
            tuple: FiveTuple { src, dst, proto, ..FiveTuple::default() },
            tos: (random.below(3) == 0).then_some(Tos { value, mask: 0x1c }),
            input: (random.below(4) == 0).then(|| InterfaceId(random.below(3) as u16)),
            cause: [ExceptionCause::Rule, ExceptionCause::Route, ExceptionCause::Mtu][random.below(3) as usize],
        }
    }

    /// The obvious way: every exception is compared with the packet.
    fn expected(list: &[Exception], packet: &[u8], input: InterfaceId, plain: Option<u8>) -> Treatment {
        let v6 = packet[0] >> 4 == 6;
        let tos = if v6 { packet[0] << 4 | packet[1] >> 4 } else { packet[1] };
        let address = |at: usize| -> IpAddr {
            if v6 {
                Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap()).into()
            } else {
                Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap()).into()
            }
        };
        let (source, destination) = if v6 { (address(8), address(24)) } else { (address(12), address(16)) };
        let protocol = if v6 { packet[6] } else { packet[9] };
        let family = |tuple: &FiveTuple| if v6 { tuple.ipv6() } else { tuple.ipv4() };
        let about = |e: &&Exception| {
            family(&e.tuple)
                && e.tuple.src.is_none_or(|prefix| prefix.contains(source))
                && e.tuple.dst.is_none_or(|prefix| prefix.contains(destination))
                && e.tuple.proto.is_none_or(|proto| proto == protocol)
                && e.tos.is_none_or(|values| tos & values.mask == values.value)
                && e.input.is_none_or(|id| id == input)
        };
        let found: Vec<_> = list.iter().filter(about).collect();
        let shorter = |e: &Exception| plain.is_some_and(|plain| plain > e.tuple.dst.map_or(0, Prefix::len));
        let is_linux = |e: &&&Exception| match e.cause {
            ExceptionCause::Rule => true,
            ExceptionCause::Route => !shorter(e),
            ExceptionCause::Mtu => false,
        };
        match () {
            () if found.iter().any(|e| is_linux(&e)) => Treatment::Linux,
            () if found.iter().any(|e| e.cause == ExceptionCause::Mtu) => Treatment::Short,
            () => Treatment::Plain,
        }
    }

    #[test]
    fn exceptions_are_those_that_a_plain_list_has() {
        let (mut rng, count) = fuzz();
        let mut linux = 0;
        for _ in 0..count / 100 {
            let list: Vec<_> = (0..1 + rng.below(6)).map(|_| random(&mut rng)).collect();
            let exceptions = Exceptions::new(list.clone()).expect("some");
            for _ in 0..20 {
                let (to, from, tos) = (rng.below(8) as u8, rng.below(8) as u8, (rng.below(8) as u8) << 2);
                let mut packet = if rng.below(2) == 0 {
                    changed4(udp4(to, 8), |frame| (frame[15], frame[27]) = (tos, from))[14..].to_vec()
                } else {
                    let mut packet = udp6(to, 8)[14..].to_vec();
                    (packet[0], packet[1]) = (0x60 | tos >> 4, tos << 4);
                    packet
                };
                if packet[0] >> 4 == 6 {
                    packet[13] = from;
                } else {
                    packet[12] = 10;
                }
                let (input, plain) = (InterfaceId(rng.below(3) as u16), [None, Some(0), Some(14), Some(16), Some(48)]);
                let plain = plain[rng.below(5) as usize];
                let wanted = expected(&list, &packet, input, plain);
                let found = exceptions.treatment(input, &packet, |_| plain);
                assert_eq!(found, wanted, "{list:?} {packet:?} plain {plain:?}");
                assert!(
                    found == Treatment::Plain || exceptions.may_match(&packet),
                    "{list:?} {packet:?}: workers miss it"
                );
                linux += u32::from(found == Treatment::Linux);
            }
        }
        assert!(linux > 0);
    }
}
