// SPDX-License-Identifier: MIT
//! Policy rules.

use super::{ip, number, split, text};
use crate::message::{Rule, RuleAction};
use crate::wire::{AF_INET, AF_INET6, Malformed, u16_at};
use perigee_net::{PortRange, Prefix};

/// struct fib_rule_hdr, FRA_*.
pub(super) fn rule(body: &[u8]) -> Result<Option<Rule>, Malformed> {
    const DESTINATION: u16 = 1;
    const SOURCE: u16 = 2;
    const INPUT: u16 = 3;
    const GOTO: u16 = 4;
    const PRIORITY: u16 = 6;
    const MARK: u16 = 10;
    const FLOW: u16 = 11;
    const TUNNEL: u16 = 12;
    const SUPPRESS_GROUP: u16 = 13;
    const SUPPRESS_LENGTH: u16 = 14;
    const TABLE: u16 = 15;
    const MARK_MASK: u16 = 16;
    const OUTPUT: u16 = 17;
    const PAD: u16 = 18;
    const VRF: u16 = 19;
    const USERS: u16 = 20;
    const MADE_BY: u16 = 21;
    const PROTOCOL: u16 = 22;
    const SOURCE_PORTS: u16 = 23;
    const DESTINATION_PORTS: u16 = 24;
    const DSCP: u16 = 25;
    const INVERTED: u32 = 2;
    let (head, attributes) = split(body, 12)?;
    let (family, lengths) = (head[0], (head[1], head[2]));
    if family != AF_INET && family != AF_INET6 {
        return Ok(None);
    }
    let (mut table, mut target, mut mark, mut mask) = (u32::from(head[4]), 0, 0, u32::MAX);
    let mut rule = Rule {
        is_v6: family == AF_INET6,
        inverted: number(&head[8..])? & INVERTED != 0,
        tos: head[3],
        ..Rule::default()
    };
    let prefix = |value: &[u8], length| Prefix::truncated(ip(family, value)?, length).map_err(|_| Malformed);
    for attribute in attributes {
        match attribute? {
            (DESTINATION, value) => rule.destination = Some(prefix(value, lengths.0)?),
            (SOURCE, value) => rule.source = Some(prefix(value, lengths.1)?),
            (INPUT, value) => rule.input = Some(text(value)),
            (GOTO, value) => target = number(value)?,
            (PRIORITY, value) => rule.priority = number(value)?,
            (MARK, value) => mark = number(value)?,
            (TUNNEL, value) => rule.asks_for_more |= value.iter().any(|byte| *byte != 0),
            (SUPPRESS_LENGTH, value) => rule.suppressed = Some(number(value)?).filter(|length| *length != u32::MAX),
            (SUPPRESS_GROUP, value) if number(value)? != u32::MAX => rule.unknown = Some(SUPPRESS_GROUP),
            (TABLE, value) => table = number(value)?,
            (OUTPUT, _) => rule.asks_for_more = true,
            // Linux looks for what it forwards as user 0.
            (USERS, value) => rule.asks_for_more |= number(value)? > 0,
            (VRF, value) => rule.by_vrf = value.first().is_some_and(|byte| *byte != 0),
            (PROTOCOL, value) => rule.protocol = value.first().copied(),
            (SOURCE_PORTS, value) => rule.source_ports = Some(ports(value)?),
            (DESTINATION_PORTS, value) => rule.destination_ports = Some(ports(value)?),
            // A rule for the value 0 cannot be told from one for all.
            (DSCP, &[0]) => rule.unknown = Some(DSCP),
            (DSCP, value) => rule.tos = value.first().map_or(0, |dscp| dscp << 2),
            (MARK_MASK, value) => mask = number(value)?,
            (SUPPRESS_GROUP | FLOW | PAD | MADE_BY, _) => {}
            (other, _) => rule.unknown = rule.unknown.or(Some(other)),
        }
    }
    rule.asks_for_more |= mark & mask != 0;
    rule.action = match head[7] {
        1 => RuleAction::Table(table),
        2 => RuleAction::Jump(target),
        3 => RuleAction::Nothing,
        6..=8 => RuleAction::Refuse,
        other => RuleAction::Unknown(other),
    };
    Ok(Some(rule))
}

/// struct fib_rule_port_range.
fn ports(value: &[u8]) -> Result<PortRange, Malformed> {
    let (first, last) = (u16_at(value, 0).ok_or(Malformed)?, u16_at(value, 2).ok_or(Malformed)?);
    PortRange::new(first, last).map_err(|_| Malformed)
}
