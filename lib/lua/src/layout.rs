// SPDX-License-Identifier: MIT
//! The Rust side of the layout that `perigee.h` asserts on the C side: neither can change alone.

use crate::host::ScriptWorker;
use perigee_packet::Mask;
use perigee_packet::batch::{BATCH_LAYOUT, flags};

/// Offsets in `perigee.h`, in its order.
const HEADER: &[(&str, usize)] = &[
    ("live", 0),
    ("moved", 32),
    ("count", 64),
    ("data", 72),
    ("handle", 2120),
    ("length", 4168),
    ("port", 4680),
    ("out_port", 5192),
    ("interface", 5704),
    ("l3", 6216),
    ("flags", 6472),
    ("next_hop", 6728),
    ("hash", 7752),
];

const _: () = {
    assert!(BATCH_LAYOUT.len() == HEADER.len());
    let mut i = 0;
    while i < HEADER.len() {
        assert!(BATCH_LAYOUT[i].1 == HEADER[i].1, "perigee_batch in perigee.h and Batch differ");
        i += 1;
    }
    assert!(size_of::<Mask>() == 32);
    assert!(std::mem::offset_of!(ScriptWorker, id) == 0 && std::mem::offset_of!(ScriptWorker, queues) == 4);
    assert!(flags::IPV4_CHECKSUM_GOOD == 1 && flags::IPV4_CHECKSUM_BAD == 2 && flags::HASH == 4);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_order_are_those_of_the_header() {
        for ((rust, _), (header, offset)) in BATCH_LAYOUT.iter().zip(HEADER) {
            assert_eq!(rust, header);
            assert!(crate::HEADER.contains(&format!("PERIGEE_AT({header}, {offset});")), "{header}");
        }
    }
}
