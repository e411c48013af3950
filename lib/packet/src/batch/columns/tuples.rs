// SPDX-License-Identifier: MIT
//! The 5-tuples of packets, as the matchers of filters take them: side by side, without a gap.
//!
//! Addresses and protocol of IPv4 are in the [columns](super), and so is where the ports are; only these are read from the frame.
//! Of IPv6 a header is copied as it is where TCP or UDP follows at once, else its extension headers are followed.

use super::{Column, Columns, View};
use crate::batch::lanes::{Kernel, Lanes};
use crate::batch::{BATCH_SIZE, Batch, Mask};
use crate::wire::ExtensionHeaders;
use crate::wire::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use perigee_net::{Key, Key4, Key6};

/// Keys, and what is found out about a burst before they are made.
pub(super) struct Tuples {
    keys4: [Key4; BATCH_SIZE],
    keys6: [Key6; BATCH_SIZE],
    protocols: Column,
    /// Offset of the ports in each frame, in bytes; [`NONE`] where there are none.
    ports: Column,
}

/// Beyond any frame.
const NONE: u32 = u32::MAX;

impl Tuples {
    pub(super) const EMPTY: Tuples = Tuples {
        keys4: [Key::ZERO; BATCH_SIZE],
        keys6: [Key::ZERO; BATCH_SIZE],
        protocols: [0; BATCH_SIZE],
        ports: [NONE; BATCH_SIZE],
    };
}

/// Protocols whose headers begin with two ports.
const WITH_PORTS: [u8; 5] = [TCP, UDP, DCCP, SCTP, UDP_LITE];

/// Finds the protocols and the ports of IPv4 packets.
struct Find<'a> {
    columns: View<'a>,
    protocols: &'a mut Column,
    ports: &'a mut Column,
}

impl Kernel<0> for Find<'_> {
    #[inline(always)]
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; 0] {
        let View { words, l3, .. } = self.columns;
        let [first, second, third] = [0, 1, 2].map(|i| L::load(&words[i], at));
        // The second byte of the third word. Of the second word the last 13 bits are the fragment's offset.
        let protocol = L::and(L::shr::<8>(third), L::splat(0xff));
        let is_first = L::equal(L::and(second, L::splat(0xff1f_0000)), L::splat(0));
        let mut has_ports = L::equal(protocol, L::splat(WITH_PORTS[0].into()));
        for other in &WITH_PORTS[1..] {
            has_ports = L::either(has_ports, L::equal(protocol, L::splat((*other).into())));
        }
        let header = L::shl::<2>(L::and(first, L::splat(0xf)));
        let behind = L::add(L::load8(l3, at), header);
        // One less than 0 is NONE.
        let ports = L::sub(L::only(L::both(is_first, has_ports), L::add(behind, L::splat(1))), L::splat(1));
        L::store(self.protocols, at, protocol);
        L::store(self.ports, at, ports);
        []
    }
}

impl Batch {
    /// The 5-tuples of the live IPv4 packets of `mask`, in their order. A packet without 20 bytes of a header has an empty one.
    #[inline(never)]
    pub fn keys4(&mut self, mask: Mask) -> &[Key4] {
        let mask = mask & self.live;
        let loaded = self.load(mask);
        let count = self.count();
        let Batch { data, length, l3, flags, interface, columns, isa, .. } = self;
        let Columns { words, tuples: Tuples { keys4, protocols, ports, .. }, .. } = columns;
        let words = &*words;
        let [_, _, _, sources, destinations] = words;
        let columns = View { words, length, l3, flags, interface };
        let [] = isa.sort(count, &mut Find { columns, protocols, ports });
        let mut n = 0;
        mask.for_each(|slot| {
            let i = usize::from(slot);
            let at = ports[i];
            let [a, b, c, d] = if u64::from(at) + 4 <= length[i].into() {
                // SAFETY: the slot is live, and its frame has the bytes. We hold the batch alone.
                unsafe { data[i].add(at as usize).cast::<[u8; 4]>().read() }
            } else {
                [0; 4]
            };
            keys4[n % BATCH_SIZE] = Key {
                protocol: protocols[i] as u8,
                zero: [0; 3],
                source: sources[i].to_ne_bytes(),
                destination: destinations[i].to_ne_bytes(),
                source_port: [a, b],
                destination_port: [c, d],
            };
            n += 1;
        });
        for slot in mask - loaded {
            keys4[(mask & Mask::first(slot.into())).count()] = Key::ZERO;
        }
        &keys4[..n]
    }

    /// The same of IPv6 packets, whose headers have 40 bytes. The protocol is that of the upper layer, unless the chain of extension
    /// headers is broken, or longer than any sender needs: then it is that of the first header.
    #[inline(never)]
    pub fn keys6(&mut self, mask: Mask) -> &[Key6] {
        let Batch { data, length, l3, columns, live, .. } = self;
        let keys6 = &mut columns.tuples.keys6;
        let mut n = 0;
        (mask & *live).for_each(|slot| {
            let i = usize::from(slot);
            // SAFETY: the slot is live: its frame has that many bytes. We hold the batch alone.
            let frame = unsafe { std::slice::from_raw_parts(data[i], length[i].into()) };
            keys6[n % BATCH_SIZE] = key6(frame.get(l3[i].into()..).unwrap_or_default());
            n += 1;
        });
        &keys6[..n]
    }
}

/// The key of an IPv6 packet; an empty one without a header.
#[inline(always)]
fn key6(packet: &[u8]) -> Key6 {
    let Some((header, payload)) = packet.split_first_chunk::<40>() else { return Key::ZERO };
    if let (protocol @ (TCP | UDP), Some(ports)) = (header[6], payload.first_chunk::<4>()) {
        return plain6(header, protocol, *ports);
    }
    followed(header, payload)
}

/// The same, along the extension headers.
#[inline(never)]
fn followed(header: &[u8; 40], payload: &[u8]) -> Key6 {
    let Ok(upper) = ExtensionHeaders::new(header[6], payload).upper_layer() else {
        return plain6(header, header[6], [0; 4]);
    };
    let has_ports = upper.has_header() && WITH_PORTS.contains(&upper.protocol);
    let ports = upper.payload.first_chunk().filter(|_| has_ports);
    plain6(header, upper.protocol, ports.copied().unwrap_or_default())
}

#[inline(always)]
fn plain6(header: &[u8; 40], protocol: u8, [a, b, c, d]: [u8; 4]) -> Key6 {
    Key {
        protocol,
        zero: [0; 3],
        source: std::array::from_fn(|i| header[8 + i]),
        destination: std::array::from_fn(|i| header[24 + i]),
        source_port: [a, b],
        destination_port: [c, d],
    }
}
