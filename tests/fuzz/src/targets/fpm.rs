// SPDX-License-Identifier: MIT
//! zebra's routes over TCP: a stream means the same in whatever pieces it comes, and none of it is read twice or beyond its end.

use super::netlink::check;
use crate::input::Input;
use perigee_netlink::decode::Tally;
use perigee_netlink::fpm::unpack;

/// Runs one input: lengths of pieces up to a zero, then the stream.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let pieces: Vec<usize> = std::iter::from_fn(|| Some(usize::from(input.byte())).filter(|n| *n > 0)).take(16).collect();
    let stream = input.rest();
    let (messages, used, tally) = unpack(stream);
    assert!(used <= stream.len());
    messages.iter().for_each(check);
    let (mut again, mut rest, mut counted, mut taken) = (Vec::new(), Vec::new(), Tally::default(), 0);
    let mut at = 0_usize;
    for piece in pieces.into_iter().chain([usize::MAX]) {
        let end = at.saturating_add(piece).min(stream.len());
        rest.extend_from_slice(&stream[at..end]);
        at = end;
        let (messages, used, tally) = unpack(&rest);
        rest.drain(..used);
        taken += used;
        again.extend(messages);
        counted.malformed += tally.malformed;
        counted.skipped += tally.skipped;
    }
    assert_eq!((again, taken, counted), (messages, used, tally), "in pieces it means something else");
}
