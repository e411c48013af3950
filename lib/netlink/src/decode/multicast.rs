// SPDX-License-Identifier: MIT
//! Multicast routes.

use super::{ip, number, split};
use crate::message::MulticastRoute;
use crate::wire::{AF_INET, AF_INET6, FAMILY_MULTICAST4, FAMILY_MULTICAST6, Malformed, u16_at};

pub(super) fn is_multicast(body: &[u8]) -> bool {
    matches!(body.first(), Some(&(FAMILY_MULTICAST4 | FAMILY_MULTICAST6)))
}

/// struct rtmsg, RTA_*, of a multicast route. Those that the kernel keeps while it waits for a daemon are none yet, and
/// what it says of other tables and of all groups at once is left to it.
pub(super) fn multicast_route(body: &[u8]) -> Result<Option<MulticastRoute>, Malformed> {
    const DESTINATION: u16 = 1;
    const SOURCE: u16 = 2;
    const INPUT: u16 = 3;
    const MULTIPATH: u16 = 9;
    const TABLE: u16 = 15;
    const UNRESOLVED: u32 = 0x20;
    let (head, attributes) = split(body, 12)?;
    // RT_TABLE_DEFAULT and, for IPv6, RT6_TABLE_DFLT, which is the main one.
    let (family, default_table) = if head[0] == FAMILY_MULTICAST4 { (AF_INET, 253) } else { (AF_INET6, 254) };
    let (mut table, unresolved) = (u32::from(head[4]), number(&head[8..])? & UNRESOLVED != 0);
    let (mut group, mut source, mut input, mut outputs) = (None, None, None, Vec::new());
    for attribute in attributes {
        match attribute? {
            (DESTINATION, value) => group = Some(ip(family, value)?),
            (SOURCE, value) => source = Some(ip(family, value)?),
            (INPUT, value) => input = Some(number(value)?),
            (MULTIPATH, value) => outputs = multicast_outputs(value)?,
            (TABLE, value) => table = number(value)?,
            _ => {}
        }
    }
    let group = group.ok_or(Malformed)?;
    if unresolved || table != default_table || !group.is_multicast() {
        return Ok(None);
    }
    let source = source.filter(|source| !source.is_unspecified());
    Ok(Some(MulticastRoute { key: (group, source), input, outputs }))
}

/// An array of struct rtnexthop, in which the hops are a TTL threshold.
fn multicast_outputs(mut value: &[u8]) -> Result<Vec<(u32, u8)>, Malformed> {
    let mut outputs = Vec::new();
    while value.len() >= 8 {
        let length = usize::from(u16_at(value, 0).ok_or(Malformed)?);
        if length < 8 || length > value.len() {
            return Err(Malformed);
        }
        outputs.push((number(&value[4..])?, value[3]));
        value = value.get((length + 3) & !3..).unwrap_or_default();
    }
    Ok(outputs)
}
