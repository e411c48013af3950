// SPDX-License-Identifier: MIT
//! Lists of rules about 5-tuples, as the tables hold them for the module `filter`: what is behind the trait [`Filter`].
//!
//! A running router's list is compiled for DPDK's `rte_acl`; [`LinearFilter`] goes through its rules one by one, which
//! is what tests compare with.

pub use perigee_net::{Filter, Rule};
use perigee_net::{FiveTuple, Key, Key4, Key6, Missing, Verdict};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Three lists made of one: for packets that show their whole 5-tuple, and for those that do not. To these the
/// strictest rule applies that could match. `F` takes a key's missing fields for what they hold, 0.
pub struct Strict<F> {
    rules: Vec<Rule>,
    whole: F,
    /// By [`Missing`], from its second value on; `None` where the list is the same.
    others: [Option<F>; 2],
}

impl<F> Strict<F> {
    /// Compiles the lists by `compile`; what that fails with is handed on.
    pub fn new<E>(rules: &[Rule], compile: impl Fn(&[Rule]) -> Result<F, E>) -> Result<Strict<F>, E> {
        let other = |missing| {
            let list = strictest(rules, missing);
            (list != rules).then(|| compile(&list)).transpose()
        };
        Ok(Strict {
            rules: rules.to_vec(),
            whole: compile(rules)?,
            others: [other(Missing::Ports)?, other(Missing::Protocol)?],
        })
    }

    fn judge<const N: usize>(&self, keys: &[Key<N>], to: &mut [Verdict], list: fn(&F, &[Key<N>], &mut [Verdict])) {
        list(&self.whole, keys, to);
        // Without a branch for each key: of few packets anything is missing.
        let missing = keys.iter().fold(0, |any, key| any | key.missing as u8);
        if missing != Missing::Nothing as u8 {
            for (key, to) in keys.iter().zip(to) {
                let other = (key.missing as usize).checked_sub(1).and_then(|at| self.others[at].as_ref());
                if let Some(other) = other {
                    list(other, std::slice::from_ref(key), std::slice::from_mut(to));
                }
            }
        }
    }
}

impl<F: Filter> Filter for Strict<F> {
    fn judge4(&self, keys: &[Key4], to: &mut [Verdict]) {
        self.judge(keys, to, F::judge4);
    }

    fn judge6(&self, keys: &[Key6], to: &mut [Verdict]) {
        self.judge(keys, to, F::judge6);
    }

    fn rules(&self) -> Option<&[Rule]> {
        Some(&self.rules)
    }
}

/// The list for packets that do not show everything, in whose first rule that matches is the verdict: a rule that
/// denies matches whatever the missing fields may hold; one that accepts and asks for them may be about another packet,
/// and is left out.
fn strictest(rules: &[Rule], missing: Missing) -> Vec<Rule> {
    let open = |tuple: FiveTuple| match missing {
        Missing::Nothing => tuple,
        Missing::Ports => FiveTuple { sport: None, dport: None, ..tuple },
        Missing::Protocol => FiveTuple { proto: None, sport: None, dport: None, ..tuple },
    };
    let opened = rules.iter().map(|rule| (rule, Rule { tuple: open(rule.tuple), ..*rule }));
    let kept = opened.filter(|(rule, opened)| rule.deny || rule == &opened).map(|(_, opened)| opened);
    // Of rules that differ in their ports alone one is left.
    let mut seen = HashSet::new();
    kept.filter(|rule| seen.insert(rule.tuple)).collect()
}

/// The plain list, first match wins: slow and obviously right.
#[derive(Debug, Clone, Default)]
pub struct LinearFilter(pub Vec<Rule>);

/// Whether a rule is about a packet.
#[derive(Clone, Copy, PartialEq)]
enum About {
    No,
    /// What the packet does not show decides.
    Maybe,
    Yes,
}

impl LinearFilter {
    /// The first rule that is about the packet decides; one before it that may be is enough to deny.
    fn verdict<const N: usize>(&self, key: &Key<N>, address: fn([u8; N]) -> IpAddr) -> Verdict {
        let (source, destination) = (address(key.source), address(key.destination));
        let decides = |rule: &&Rule| match about(&rule.tuple, key, source, destination) {
            About::Yes => true,
            About::Maybe => rule.deny,
            About::No => false,
        };
        self.0.iter().find(decides).map_or(Verdict::NONE, Rule::verdict)
    }

    /// The verdict about one IPv4 key.
    pub fn verdict4(&self, key: &Key4) -> Verdict {
        self.verdict(key, |address| IpAddr::V4(Ipv4Addr::from(address)))
    }

    /// The verdict about one IPv6 key.
    pub fn verdict6(&self, key: &Key6) -> Verdict {
        self.verdict(key, |address| IpAddr::V6(Ipv6Addr::from(address)))
    }
}

fn about<const N: usize>(tuple: &FiveTuple, key: &Key<N>, source: IpAddr, destination: IpAddr) -> About {
    let [sport, dport] = [key.source_port, key.destination_port].map(u16::from_be_bytes);
    let field = |missing: bool, asked: bool, fits: bool| match (asked, missing) {
        (false, _) => About::Yes,
        (true, true) => About::Maybe,
        (true, false) if fits => About::Yes,
        _ => About::No,
    };
    let addresses = tuple.src.is_none_or(|prefix| prefix.contains(source))
        && tuple.dst.is_none_or(|prefix| prefix.contains(destination));
    let fields = [
        if addresses { About::Yes } else { About::No },
        field(key.missing >= Missing::Protocol, tuple.proto.is_some(), tuple.proto == Some(key.protocol)),
        field(key.missing >= Missing::Ports, tuple.sport.is_some(), tuple.sport.is_some_and(|r| r.contains(sport))),
        field(key.missing >= Missing::Ports, tuple.dport.is_some(), tuple.dport.is_some_and(|r| r.contains(dport))),
    ];
    match fields {
        fields if fields.contains(&About::No) => About::No,
        fields if fields.contains(&About::Maybe) => About::Maybe,
        _ => About::Yes,
    }
}

impl Filter for LinearFilter {
    fn judge4(&self, keys: &[Key4], to: &mut [Verdict]) {
        keys.iter().zip(to).for_each(|(key, to)| *to = self.verdict4(key));
    }

    fn judge6(&self, keys: &[Key6], to: &mut [Verdict]) {
        keys.iter().zip(to).for_each(|(key, to)| *to = self.verdict6(key));
    }

    fn rules(&self) -> Option<&[Rule]> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fuzz;
    use perigee_fib::synth::Random;
    use perigee_net::{PortRange, Prefix};

    /// Takes every key for whole, as a matcher of plain 5-tuples does.
    struct Plain(LinearFilter);

    impl Filter for Plain {
        fn judge4(&self, keys: &[Key4], to: &mut [Verdict]) {
            self.0.judge4(&keys.iter().map(|key| Key { missing: Missing::Nothing, ..*key }).collect::<Vec<_>>(), to);
        }

        fn judge6(&self, keys: &[Key6], to: &mut [Verdict]) {
            self.0.judge6(&keys.iter().map(|key| Key { missing: Missing::Nothing, ..*key }).collect::<Vec<_>>(), to);
        }
    }

    fn random_rule(random: &mut Random, number: u32) -> Rule {
        let mut some = |of: u32| random.below(of) > 0;
        let (with_proto, with_sport, with_dport, with_dst, deny) = (some(3), some(2), some(2), some(2), some(2));
        let dst = Prefix::truncated(Ipv4Addr::new(10, 0, 0, random.below(4) as u8).into(), 30 + random.below(3) as u8);
        let ports = |random: &mut Random| PortRange::new(random.below(2) as u16, 1 + random.below(3) as u16).ok();
        let tuple = FiveTuple {
            src: None,
            dst: dst.ok().filter(|_| with_dst),
            proto: with_proto.then(|| [6, 17][random.below(2) as usize]),
            sport: ports(random).filter(|_| with_sport),
            dport: ports(random).filter(|_| with_dport),
        };
        Rule { tuple, deny, number }
    }

    fn random_key(random: &mut Random) -> Key4 {
        let missing = [Missing::Nothing, Missing::Ports, Missing::Protocol][random.below(3) as usize];
        let mut port = |known: bool| if known { [0, random.below(4) as u8] } else { [0; 2] };
        let [source_port, destination_port] = [port(missing < Missing::Ports), port(missing < Missing::Ports)];
        let protocol = if missing < Missing::Protocol { [6, 17][random.below(2) as usize] } else { 0 };
        Key {
            protocol,
            missing,
            destination: [10, 0, 0, random.below(4) as u8],
            source_port,
            destination_port,
            ..Key::ZERO
        }
    }

    /// A packet that does not show everything is dropped if a packet that it may be of is.
    #[test]
    fn three_lists_are_the_strictest_reading_of_one() {
        let (mut random, count) = fuzz();
        let (mut denied, mut hidden) = (0, 0);
        for _ in 0..count / 300 {
            let rules: Vec<_> = (0..random.below(8)).map(|number| random_rule(&mut random, number)).collect();
            let linear = LinearFilter(rules.clone());
            let plain = |rules: &[Rule]| Ok::<_, ()>(Plain(LinearFilter(rules.to_vec())));
            let strict = Strict::new(&rules, plain).expect("a list");
            let keys: Vec<_> = (0..100).map(|_| random_key(&mut random)).collect();
            let mut found = vec![Verdict::NONE; keys.len()];
            strict.judge4(&keys, &mut found);
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found, linear.verdict4(key), "{rules:?}: the same rule decides about {key:?}");
                let any = completions(key).iter().any(|whole| linear.verdict4(whole).denies());
                assert!(!any || found.denies(), "{rules:?}: {key:?} may be denied");
                hidden += u64::from(key.missing != Missing::Nothing);
                denied += u64::from(found.denies());
            }
        }
        println!("{denied} denied, {hidden} with something missing");
        assert!(denied > count / 20 && hidden > count / 20);
    }

    /// All packets that a key may be of.
    fn completions(key: &Key4) -> Vec<Key4> {
        let ports = if key.missing >= Missing::Ports { 0..5 } else { 0..1 };
        let protocols = if key.missing >= Missing::Protocol { vec![6, 17, 1] } else { vec![key.protocol] };
        let fill = |known: [u8; 2], port| if key.missing >= Missing::Ports { [0, port] } else { known };
        let all = protocols.into_iter().flat_map(|protocol| {
            let ports = ports.clone();
            ports.clone().flat_map(move |a| ports.clone().map(move |b| (protocol, a, b)))
        });
        let whole = |(protocol, a, b)| Key {
            protocol,
            missing: Missing::Nothing,
            source_port: fill(key.source_port, a),
            destination_port: fill(key.destination_port, b),
            ..*key
        };
        all.map(whole).collect()
    }
}
