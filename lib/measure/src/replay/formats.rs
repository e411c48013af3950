// SPDX-License-Identifier: MIT
//! The file formats of captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).
//!
//! Read as a stream: a record is in memory only while it is read, and one that is too long for a frame is refused
//! before it is. Blocks that are no packets are skipped.

use std::io::{self, Read};

use super::{Keeper, LONGEST, ReplayError};

/// Ethernet, from the registry of link types.
const ETHERNET: u32 = 1;
/// The longest packet record: its frame, headers and options.
const LONGEST_RECORD: u64 = 1 << 20;
/// The most interfaces of a section; each is kept.
const MOST_INTERFACES: usize = 65_536;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const INTERFACE_BLOCK: u32 = 1;
const OLD_PACKET_BLOCK: u32 = 2;
const SIMPLE_PACKET_BLOCK: u32 = 3;
const PACKET_BLOCK: u32 = 6;

/// Options of an interface.
const RESOLUTION: u16 = 9;
const FCS_LENGTH: u16 = 13;
const OFFSET: u16 = 14;

/// The order of the bytes in a file's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = *bytes.first_chunk()?;
        Some(if self == Order::Little { i64::from_le_bytes(bytes) } else { i64::from_be_bytes(bytes) })
    }
}

/// The file, and how far it has been read.
struct Input<R> {
    from: R,
    at: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Input<R> {
    /// Reads `count` bytes into the buffer; false if the file ends before the first one.
    fn fill(&mut self, count: usize, keeper: &Keeper) -> Result<bool, ReplayError> {
        self.buffer.clear();
        let read = (&mut self.from).take(count as u64).read_to_end(&mut self.buffer);
        let read = read.map_err(|error| ReplayError::Io(error.to_string()))?;
        self.at += read as u64;
        match read {
            0 if count > 0 => Ok(false),
            _ if read < count => Err(self.cut(keeper)),
            _ => Ok(true),
        }
    }

    /// Reads `count` bytes, which must be there.
    fn need(&mut self, count: usize, keeper: &Keeper) -> Result<&[u8], ReplayError> {
        if self.fill(count, keeper)? { Ok(&self.buffer) } else { Err(self.cut(keeper)) }
    }

    /// Skips `count` bytes.
    fn skip(&mut self, count: u64, keeper: &Keeper) -> Result<(), ReplayError> {
        let skipped = io::copy(&mut (&mut self.from).take(count), &mut io::sink());
        let skipped = skipped.map_err(|error| ReplayError::Io(error.to_string()))?;
        self.at += skipped;
        if skipped < count { Err(self.cut(keeper)) } else { Ok(()) }
    }

    fn cut(&self, keeper: &Keeper) -> ReplayError {
        ReplayError::Cut { at: self.at, frames: keeper.frames() }
    }
}

fn damaged(at: u64, found: impl Into<String>, expected: &'static str) -> ReplayError {
    ReplayError::Damaged { at, found: found.into(), expected }
}

/// Gives all frames of a file to the keeper.
pub(super) fn read(from: impl Read, keeper: &mut Keeper) -> Result<(), ReplayError> {
    let mut input = Input { from: io::BufReader::with_capacity(1 << 16, from), at: 0, buffer: Vec::new() };
    if !input.fill(4, keeper)? {
        return Err(ReplayError::Empty);
    }
    for order in [Order::Little, Order::Big] {
        match order.u32(&input.buffer, 0) {
            Some(MICROSECONDS) => return pcap(&mut input, order, 1_000, keeper),
            Some(NANOSECONDS) => return pcap(&mut input, order, 1, keeper),
            _ => {}
        }
    }
    if input.buffer == SECTION.to_be_bytes() {
        return pcapng(&mut input, keeper);
    }
    let found = input.buffer.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Err(ReplayError::Unknown { found })
}

/// What follows the magic number of a pcap file; a fraction of a second counts units of `unit` ns.
fn pcap<R: Read>(input: &mut Input<R>, order: Order, unit: i128, keeper: &mut Keeper) -> Result<(), ReplayError> {
    let header = input.need(20, keeper)?;
    let kind = order.u32(header, 16).unwrap_or_default();
    // The upper bits may say that frames end with an FCS, and how many 16-bit words it has.
    let (link, has_fcs, fcs_words) = (kind & 0xffff, kind & 0x0400_0000 != 0, kind >> 28);
    if link != ETHERNET {
        return Err(ReplayError::LinkType { found: link });
    }
    let fcs = if has_fcs { 2 * fcs_words } else { 0 };
    loop {
        let at = input.at;
        if !input.fill(16, keeper)? {
            return Ok(());
        }
        let word = |at: usize| order.u32(&input.buffer, at).unwrap_or_default();
        let (seconds, fraction, captured, length) = (word(0), word(4), word(8), word(12));
        if u64::from(captured) > LONGEST_RECORD {
            return Err(damaged(at, format!("a frame of {captured} bytes"), "at most 65535"));
        }
        let time = i128::from(seconds) * 1_000_000_000 + i128::from(fraction) * unit;
        let bytes = input.need(captured as usize, keeper)?;
        let (bytes, length) = without_fcs(bytes, length, fcs);
        keeper.frame(bytes, length, time)?;
    }
}

/// A frame without its FCS of `fcs` bytes, as far as that was captured.
fn without_fcs(bytes: &[u8], length: u32, fcs: u32) -> (&[u8], u32) {
    let wire = length.max(bytes.len() as u32).saturating_sub(fcs);
    (&bytes[..bytes.len().min(wire as usize)], wire)
}

/// What is known of an interface of a pcapng section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u32,
    /// Most bytes of a frame; 0 is no limit.
    snap: u32,
    /// Units of time per second.
    units: u128,
    /// Added to all times, in ns.
    offset: i128,
    /// Bytes of the FCS.
    fcs: u32,
}

/// What follows the first block's type of a pcapng file.
fn pcapng<R: Read>(input: &mut Input<R>, keeper: &mut Keeper) -> Result<(), ReplayError> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut order = section(input, keeper)?;
    loop {
        let at = input.at;
        if !input.fill(4, keeper)? {
            return Ok(());
        }
        if input.buffer == SECTION.to_be_bytes() {
            order = section(input, keeper)?;
            interfaces.clear();
            continue;
        }
        let kind = order.u32(&input.buffer, 0).unwrap_or_default();
        let length = order.u32(input.need(4, keeper)?, 0).unwrap_or_default();
        let body = body_length(at, length)?;
        let interesting = [INTERFACE_BLOCK, OLD_PACKET_BLOCK, SIMPLE_PACKET_BLOCK, PACKET_BLOCK].contains(&kind);
        if !interesting {
            input.skip(body, keeper)?;
        } else if body > LONGEST_RECORD {
            return Err(damaged(
                at,
                format!("a block of {length} bytes"),
                "at most 1048576 for a packet or an interface",
            ));
        } else {
            let body = input.need(body as usize, keeper)?;
            match kind {
                INTERFACE_BLOCK if interfaces.len() >= MOST_INTERFACES => {
                    return Err(damaged(at, "over 65536 interfaces", "at most 65536"));
                }
                INTERFACE_BLOCK => interfaces.push(interface(at, order, body)?),
                _ => packet(at, kind, order, body, &interfaces, keeper)?,
            }
        }
        end_of_block(input, at, order, length, keeper)?;
    }
}

/// Bytes between a block's length at its start and that at its end.
fn body_length(at: u64, length: u32) -> Result<u64, ReplayError> {
    if length < 12 || !length.is_multiple_of(4) {
        return Err(damaged(at, format!("a block of {length} bytes"), "at least 12, a multiple of 4"));
    }
    Ok(u64::from(length) - 12)
}

fn end_of_block<R: Read>(
    input: &mut Input<R>,
    at: u64,
    order: Order,
    length: u32,
    keeper: &Keeper,
) -> Result<(), ReplayError> {
    let again = order.u32(input.need(4, keeper)?, 0).unwrap_or_default();
    match again == length {
        true => Ok(()),
        false => {
            Err(damaged(at, format!("a block of {length} bytes that ends with {again}"), "its length again at its end"))
        }
    }
}

/// Reads a section's header, its type excepted; returns the byte order.
fn section<R: Read>(input: &mut Input<R>, keeper: &Keeper) -> Result<Order, ReplayError> {
    let at = input.at - 4;
    let head = input.need(8, keeper)?;
    let is = |order: &Order| order.u32(head, 4) == Some(BYTE_ORDER);
    let order = [Order::Little, Order::Big].into_iter().find(is);
    let order = order.ok_or_else(|| damaged(at, format!("{:02x?}", &head[4..]), "a byte-order magic number"))?;
    let length = order.u32(head, 0).unwrap_or_default();
    let body = body_length(at, length)?;
    let rest = body.checked_sub(4).ok_or_else(|| damaged(at, "a section header of 12 bytes", "at least 28"))?;
    input.skip(rest, keeper)?;
    end_of_block(input, at, order, length, keeper)?;
    Ok(order)
}

/// Reads an interface's block.
fn interface(at: u64, order: Order, body: &[u8]) -> Result<Interface, ReplayError> {
    let (Some(link), Some(snap)) = (order.u16(body, 0), order.u32(body, 4)) else {
        return Err(damaged(at, "an interface's block of under 20 bytes", "at least 20"));
    };
    let mut interface = Interface { link: link.into(), snap, units: 1_000_000, offset: 0, fcs: 0 };
    for (code, value) in options(order, &body[8..]) {
        match (code, value) {
            (RESOLUTION, [exponent, ..]) => {
                let power = u32::from(exponent & 0x7f);
                let base: u128 = if exponent & 0x80 == 0 { 10 } else { 2 };
                let units = base.checked_pow(power).filter(|units| *units <= 1 << 96);
                interface.units = units
                    .ok_or_else(|| damaged(at, format!("{base}^-{power} s as the unit of time"), "at least 2^-96 s"))?;
            }
            (OFFSET, value) => interface.offset = order.i64(value).map_or(0, |s| i128::from(s) * 1_000_000_000),
            (FCS_LENGTH, [bits, ..]) => interface.fcs = u32::from(*bits) / 8,
            _ => {}
        }
    }
    Ok(interface)
}

/// Code and value of each option, until they end or make no sense.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, length) = (order.u16(bytes, 0)?, order.u16(bytes, 2)?);
        let value = bytes.get(4..4 + usize::from(length)).filter(|_| code != 0)?;
        bytes = bytes.get(4 + value.len().next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

/// Reads a packet's block of any of the three kinds.
fn packet(
    at: u64,
    kind: u32,
    order: Order,
    body: &[u8],
    interfaces: &[Interface],
    keeper: &mut Keeper,
) -> Result<(), ReplayError> {
    let word = |at: usize| order.u32(body, at);
    let short = || damaged(at, format!("a packet's block with {} bytes in it", body.len()), "more of them");
    let number = match kind {
        SIMPLE_PACKET_BLOCK => 0,
        OLD_PACKET_BLOCK => order.u16(body, 0).ok_or_else(short)?.into(),
        _ => word(0).ok_or_else(short)?,
    };
    let unknown = || damaged(at, format!("a packet of interface {number}"), "an interface that the file has described");
    let interface = interfaces.get(number as usize).ok_or_else(unknown)?;
    if interface.link != ETHERNET {
        return Err(ReplayError::LinkType { found: interface.link });
    }
    let (length, captured, bytes, time) = if kind == SIMPLE_PACKET_BLOCK {
        let length = word(0).ok_or_else(short)?;
        let most = if interface.snap == 0 { u32::MAX } else { interface.snap };
        // It has no time: as late as the frame ahead of it.
        (length, length.min(most), body.get(4..), keeper.latest())
    } else {
        let [high, low, captured, length] = [4, 8, 12, 16].map(|at| word(at).ok_or_else(short));
        let units = u128::from(high?) << 32 | u128::from(low?);
        // Whole seconds apart, so that nothing overflows.
        let (seconds, rest) = (units / interface.units, units % interface.units);
        let fraction = rest * 1_000_000_000 / interface.units;
        let time = (seconds * 1_000_000_000 + fraction) as i128 + interface.offset;
        (length?, captured?, body.get(20..), time)
    };
    let bytes = bytes.and_then(|bytes| bytes.get(..captured as usize));
    let whole =
        || damaged(at, format!("{captured} captured bytes in a block of {}", body.len() + 12), "a longer block");
    let (bytes, length) = without_fcs(bytes.ok_or_else(whole)?, length, interface.fcs);
    keeper.frame(bytes, length, time)
}

impl Keeper {
    /// The last frame's time in ns, as the file counts.
    fn latest(&self) -> i128 {
        self.start.unwrap_or(0) + self.entries.last().map_or(0, |entry| i128::from(entry.time))
    }
}

const _: () = assert!(LONGEST as u64 + 1024 < LONGEST_RECORD);
