// SPDX-License-Identifier: MIT
//! IPv4 options of forwarded packets (RFC 791 3.1, RFC 1812 5.3.13, RFC 7126). Unknown ones pass unchanged.

use std::net::Ipv4Addr;

use perigee_packet::wire::ipv4::HEADER_LEN;
use perigee_packet::wire::ipv4_options::{
    END, Ipv4Option, LOOSE_SOURCE_ROUTE, NOP, RECORD_ROUTE, STRICT_SOURCE_ROUTE, TIMESTAMP,
};
use perigee_packet::{Ipv4, Ipv4Options};

use crate::Time;

/// A source route that is not used up yet has a `next` address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceRoute {
    /// Where the option starts, in bytes from the first option byte.
    offset: usize,
    pointer: usize,
    pub strict: bool,
    pub next: Option<Ipv4Addr>,
}

/// Checks all options and finds the source route. `Err`: the wrong byte's offset in the header, for a parameter
/// problem.
pub(crate) fn scan(packet: &Ipv4<&[u8]>) -> Result<Option<SourceRoute>, u8> {
    let mut found = None;
    let mut options = packet.options();
    while let Some(option) = options.next() {
        let (route, strict) = match option {
            Err(_) => return Err(fault(&packet.header()[HEADER_LEN..], &options)),
            Ok(Ipv4Option::LooseSourceRoute(route)) => (route, false),
            Ok(Ipv4Option::StrictSourceRoute(route)) => (route, true),
            Ok(_) => continue,
        };
        let offset = options.offset();
        if found.is_some() {
            return Err((HEADER_LEN + offset) as u8); // RFC 1812 5.2.4.1: at most one.
        }
        let pointer = usize::from(route.pointer);
        let next = route.data.get(pointer - 4..).and_then(|rest| rest.first_chunk::<4>());
        found = Some(SourceRoute { offset, pointer, strict, next: next.map(|a| Ipv4Addr::from(*a)) });
    }
    Ok(found)
}

/// Which byte of the option the iterator stopped at is wrong: its pointer, its length, or (without one) its type.
fn fault(bytes: &[u8], options: &Ipv4Options) -> u8 {
    let at = options.offset();
    let option = &bytes[at..];
    let pointer_wrong = match *option {
        [RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, len, pointer, ..] => {
            pointer < 4 && (3..=option.len()).contains(&usize::from(len))
        }
        [TIMESTAMP, len, pointer, ..] => pointer < 5 && (4..=option.len()).contains(&usize::from(len)),
        _ => false,
    };
    let inside = if pointer_wrong { 2 } else { usize::from(option.len() > 1) };
    (HEADER_LEN + at + inside) as u8
}

/// Replaces the next address of a source route by the address of the interface the packet leaves by.
pub(crate) fn advance(options: &mut [u8], route: &SourceRoute, ours: Ipv4Addr) {
    let at = route.offset + route.pointer - 1;
    if let Some(slot) = options.get_mut(at..at + 4) {
        slot.copy_from_slice(&ours.octets());
        options[route.offset + 2] = (route.pointer + 4) as u8;
    }
}

/// A timestamp without a clock: milliseconds of the caller's time, marked as not being universal time (RFC 791 3.1).
fn stamp_of(now: Time) -> [u8; 4] {
    ((now.0 / 1_000_000 % 86_400_000) as u32 | 0x8000_0000).to_be_bytes()
}

/// Adds this router to record route and timestamp, with `ours`, the address of the interface the packet leaves by.
/// `Err`: the wrong byte's offset in the header. The options have passed [`scan`].
pub(crate) fn record(
    options: &mut [u8],
    ours: Ipv4Addr,
    is_own: impl Fn(Ipv4Addr) -> bool,
    now: Time,
) -> Result<(), u8> {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            END => break,
            NOP => 1,
            _ => usize::from(*options.get(at + 1).unwrap_or(&0)),
        };
        let Some(option) = options.get_mut(at..at + len).filter(|option| !option.is_empty()) else { break };
        let fault = |inside: usize| (HEADER_LEN + at + inside) as u8;
        match kind {
            RECORD_ROUTE => record_route(option, ours).map_err(|()| fault(2))?,
            TIMESTAMP => timestamp(option, ours, &is_own, now).map_err(fault)?,
            _ => {}
        }
        at += len;
    }
    Ok(())
}

fn record_route(option: &mut [u8], ours: Ipv4Addr) -> Result<(), ()> {
    let at = usize::from(option[2]) - 1;
    if at >= option.len() {
        return Ok(()); // Full: goes on as it is.
    }
    option.get_mut(at..at + 4).ok_or(())?.copy_from_slice(&ours.octets());
    option[2] += 4;
    Ok(())
}

/// `Err`: the wrong byte's offset in the option.
fn timestamp(option: &mut [u8], ours: Ipv4Addr, is_own: &impl Fn(Ipv4Addr) -> bool, now: Time) -> Result<(), usize> {
    let at = usize::from(option[2]) - 1;
    let flag = option[3] & 15;
    if at >= option.len() {
        // RFC 791: count routers that found no room; an overflow is an error. Prespecified addresses need no room.
        return match (flag, option[3] >> 4) {
            (3, _) => Ok(()),
            (_, 15) => Err(3),
            _ => {
                option[3] += 16;
                Ok(())
            }
        };
    }
    let stamp = stamp_of(now);
    match flag {
        0 => option.get_mut(at..at + 4).ok_or(2usize)?.copy_from_slice(&stamp),
        1 | 3 => {
            let slot = option.get_mut(at..at + 8).ok_or(2usize)?;
            let (address, time) = slot.split_at_mut(4);
            if flag == 1 {
                address.copy_from_slice(&ours.octets());
            } else if !is_own(Ipv4Addr::new(address[0], address[1], address[2], address[3])) {
                return Ok(()); // It waits for another router.
            }
            time.copy_from_slice(&stamp);
        }
        _ => return Err(3),
    }
    option[2] += if flag == 0 { 4 } else { 8 };
    Ok(())
}

/// The record route and timestamp options of an echo request, for its reply (RFC 1812 4.3.3.6); padded to four bytes.
pub(crate) fn for_reply(packet: &Ipv4<&[u8]>) -> Vec<u8> {
    let bytes = &packet.header()[HEADER_LEN..];
    let mut kept = Vec::new();
    let mut options = packet.options();
    while let Some(Ok(option)) = options.next() {
        if matches!(option, Ipv4Option::RecordRoute(_) | Ipv4Option::Timestamp { .. }) {
            let at = options.offset();
            kept.extend_from_slice(&bytes[at..at + usize::from(bytes[at + 1])]);
        }
    }
    kept.resize(kept.len().next_multiple_of(4), END);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::ipv4;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

    fn with(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        let len = ipv4::Repr::new(Ipv4Addr::LOCALHOST, OURS, 17, 0).emit_with_options(&mut bytes, options).unwrap();
        bytes.truncate(len);
        bytes
    }

    fn scanned(options: &[u8]) -> Result<Option<SourceRoute>, u8> {
        scan(&Ipv4::new(&with(options)[..]).unwrap())
    }

    fn recorded(mut options: Vec<u8>) -> Result<Vec<u8>, u8> {
        record(&mut options, OURS, |a| a == OURS, Time(5_000_000)).map(|()| options)
    }

    // RFC 1812 4.3.3.5.
    #[test]
    fn pointers_name_the_wrong_byte() {
        assert_eq!(scanned(&[7, 7, 4, 0, 0, 0, 0, 0]), Ok(None));
        assert_eq!(scanned(&[7, 7, 3, 0, 0, 0, 0, 0]), Err(22));
        assert_eq!(scanned(&[1, 7, 9, 4, 0, 0, 0, 0]), Err(22));
        assert_eq!(scanned(&[1, 7, 1, 4]), Err(22));
        assert_eq!(scanned(&[1, 1, 1, 77]), Err(23));
        assert_eq!(scanned(&[68, 8, 4, 0, 0, 0, 0, 0]), Err(22));
        assert_eq!(scanned(&[131, 3, 4, 131, 3, 4, 0, 0]), Err(23));
    }

    #[test]
    fn source_route_has_a_next_address_until_used_up() {
        let route = scanned(&[137, 7, 4, 10, 9, 9, 9, 0]).unwrap().unwrap();
        assert!(route.strict && route.next == Some(Ipv4Addr::new(10, 9, 9, 9)));
        let route = scanned(&[131, 7, 8, 10, 9, 9, 9, 0]).unwrap().unwrap();
        assert!(!route.strict && route.next.is_none());
    }

    #[test]
    fn record_route_until_full() {
        let full = recorded(vec![7, 7, 4, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(full, [7, 7, 8, 10, 1, 0, 1, 0]);
        assert_eq!(recorded(full.clone()), Ok(full));
        assert_eq!(recorded(vec![7, 7, 6, 0, 0, 0, 0, 0]), Err(22));
    }

    #[test]
    fn timestamps_of_all_three_kinds() {
        let stamp = [0x80, 0, 0, 5];
        assert_eq!(
            recorded([68, 8, 5, 0, 0, 0, 0, 0].into()).unwrap()[2..],
            [[9, 0, 0x80, 0], [0, 5, 0, 0]].concat()[..6]
        );
        let both = recorded([68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0].into()).unwrap();
        assert_eq!((both[2], &both[4..8], &both[8..]), (13, &OURS.octets()[..], &stamp[..]));
        let ours = recorded([68, 12, 5, 3, 10, 1, 0, 1, 0, 0, 0, 0].into()).unwrap();
        assert_eq!((ours[2], &ours[8..]), (13, &stamp[..]));
        let other = vec![68, 12, 5, 3, 10, 1, 0, 2, 0, 0, 0, 0];
        assert_eq!(recorded(other.clone()), Ok(other));
    }

    #[test]
    fn timestamp_overflow_is_counted_to_fifteen() {
        assert_eq!(recorded(vec![68, 4, 5, 0x00]), Ok(vec![68, 4, 5, 0x10]));
        assert_eq!(recorded(vec![68, 4, 5, 0xf0]), Err(23));
        assert_eq!(recorded(vec![68, 8, 5, 1, 0, 0, 0, 0]), Err(22));
        assert_eq!(recorded(vec![68, 8, 5, 2, 0, 0, 0, 0]), Err(23));
    }
}
