// SPDX-License-Identifier: MIT
//! Rules as the plane compares them: masks and ranges, in the order in which they decide.

use crate::layout::{RULE_DENY, RULE_PORTS, RULE_PROTOCOL, RULES, Rule4, Rule6, RuleTail};
use perigee_net::{FiveTuple, PortRange, Prefix, Rule};
use zerocopy::FromZeros;

/// Filters that the plane has room for, of each family: what is steered up needs a place as well.
pub const FILTERS: usize = RULES - 1;

/// So many rules, which is more than there is room for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany(pub usize);

/// How many rules are filters, and how many there are in all.
type Counts = (u32, u32);

/// Counts, and whether every packet that passes the filters goes up, as what is steered does not fit.
type Filled = (Counts, bool);

fn tail(rule: &Rule, number: usize) -> RuleTail {
    let FiveTuple { proto, sport, dport, .. } = rule.tuple;
    let (source, destination) = (sport.unwrap_or(PortRange::ALL), dport.unwrap_or(PortRange::ALL));
    let asks_ports = if sport.is_some() || dport.is_some() { RULE_PORTS } else { 0 };
    let asks_protocol = if proto.is_some() { RULE_PROTOCOL } else { 0 };
    RuleTail {
        source_first: source.first(),
        source_last: source.last(),
        destination_first: destination.first(),
        destination_last: destination.last(),
        protocol_first: proto.unwrap_or(0),
        protocol_last: proto.unwrap_or(u8::MAX),
        flags: asks_ports | asks_protocol | if rule.deny { RULE_DENY } else { 0 },
        number: number.min(2 * RULES - 1) as u16,
        zero: 0,
    }
}

/// Address and mask of a prefix of IPv4; of everything if there is none.
fn masked4(prefix: Option<Prefix>) -> ([u8; 4], [u8; 4]) {
    match prefix {
        Some(Prefix::V4(v4)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4.len())).unwrap_or(0);
            (v4.addr().to_be_bytes(), mask.to_be_bytes())
        }
        _ => Default::default(),
    }
}

/// Likewise of IPv6.
fn masked6(prefix: Option<Prefix>) -> ([u8; 16], [u8; 16]) {
    match prefix {
        Some(Prefix::V6(v6)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.len())).unwrap_or(0);
            (v6.addr().to_be_bytes(), mask.to_be_bytes())
        }
        _ => Default::default(),
    }
}

fn rule4(rule: &Rule, number: usize) -> Rule4 {
    let (source, source_mask) = masked4(rule.tuple.src);
    let (destination, destination_mask) = masked4(rule.tuple.dst);
    Rule4 { source, source_mask, destination, destination_mask, tail: tail(rule, number) }
}

fn rule6(rule: &Rule, number: usize) -> Rule6 {
    let (source, source_mask) = masked6(rule.tuple.src);
    let (destination, destination_mask) = masked6(rule.tuple.dst);
    Rule6 { source, source_mask, destination, destination_mask, tail: tail(rule, number) }
}

fn fill<R>(
    to: &mut [R],
    [filters, steered]: [&[Rule]; 2],
    is_of_family: fn(&FiveTuple) -> bool,
    make: fn(&Rule, usize) -> R,
) -> Result<Filled, TooMany> {
    let of_family = |(_, rule): &(usize, &Rule)| is_of_family(&rule.tuple);
    let filters: Vec<(usize, &Rule)> = filters.iter().enumerate().filter(of_family).collect();
    let steered: Vec<(usize, &Rule)> = steered.iter().enumerate().filter(of_family).collect();
    let all = filters.len() + steered.len();
    let everything = Rule::deny(FiveTuple::default());
    let (steered, too_many) = match all > to.len() {
        true if filters.len() < to.len() => (vec![(0, &everything)], true),
        true => return Err(TooMany(all)),
        false => (steered, false),
    };
    let counts = (filters.len() as u32, (filters.len() + steered.len()) as u32);
    for (to, (number, rule)) in to.iter_mut().zip(filters.into_iter().chain(steered)) {
        *to = make(rule, number);
    }
    Ok((counts, too_many))
}

pub(crate) fn fill4(to: &mut [Rule4; RULES], filters: &[Rule], steered: &[Rule]) -> Result<Filled, TooMany> {
    fill(to, [filters, steered], FiveTuple::ipv4, rule4)
}

pub(crate) fn fill6(to: &mut [Rule6; RULES], filters: &[Rule], steered: &[Rule]) -> Result<Filled, TooMany> {
    fill(to, [filters, steered], FiveTuple::ipv6, rule6)
}

/// A list by which every packet goes up.
pub(crate) fn everything_up4(to: &mut [Rule4; RULES]) -> Counts {
    to.zero();
    to[0] = rule4(&Rule::deny(FiveTuple::default()), 0);
    (0, 1)
}

/// A list by which every packet goes up.
pub(crate) fn everything_up6(to: &mut [Rule6; RULES]) -> Counts {
    to.zero();
    to[0] = rule6(&Rule::deny(FiveTuple::default()), 0);
    (0, 1)
}
