// SPDX-License-Identifier: MIT
//! pcapng (draft-ietf-opsawg-pcapng), as far as a capture needs it: section header, interfaces with names, packets with
//! direction and comment, statistics. Times are in ns.
//!
//! Written by the router's API, read by `perigee capture`, Wireshark and tcpdump. Blocks are little-endian; the reader
//! accepts nothing else, as it only reads what this writer wrote, and skips blocks and options that it does not know.
//! Blocks are made and parsed in memory, as they travel in the chunks of an HTTP body.

/// Ethernet, from the list of link types.
const ETHERNET: u16 = 1;
const SECTION: u32 = 0x0a0d_0d0a;
const MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// A block longer than this is not one of ours.
const LONGEST_BLOCK: usize = 1 << 20;
/// The longest comment in bytes; longer ones are cut.
const LONGEST_COMMENT: usize = 1000;

/// The direction of a frame, as in the last bits of `epb_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of its interface among those written before it.
    pub interface: u32,
    /// In ns since 1970.
    pub time: u64,
    /// Its length on the wire.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
    pub direction: Option<Direction>,
    /// A remark about it.
    pub comment: Option<String>,
}

/// A block that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A file begins.
    Section,
    /// An interface, in the order of their numbers.
    Interface {
        /// Its name; empty if it has none.
        name: String,
    },
    /// A frame.
    Packet(Packet),
    /// The counters so far.
    Statistics {
        interface: u32,
        /// Packets that were lost.
        lost: u64,
    },
    /// Something else.
    Other(u32),
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_le_bytes());
    to.extend((value.len() as u16).to_le_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Writes a block: type, length, body, length again.
fn block(to: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (body.len() as u32 + 12).to_le_bytes();
    to.extend(kind.to_le_bytes());
    to.extend(length);
    to.extend(body);
    to.extend(length);
}

/// Writes the beginning of a file: who wrote it, and its interfaces.
pub fn begin(to: &mut Vec<u8>, application: &str, interfaces: &[String], snaplen: u32) {
    let mut body = [MAGIC.to_le_bytes(), [1, 0, 0, 0], [0xff; 4], [0xff; 4]].concat();
    option(&mut body, 4, application.as_bytes());
    option(&mut body, 0, &[]);
    block(to, SECTION, &body);
    for name in interfaces {
        let mut body = [u32::from(ETHERNET).to_le_bytes(), snaplen.to_le_bytes()].concat();
        option(&mut body, 2, name.as_bytes());
        option(&mut body, 9, &[9]); // ns
        option(&mut body, 0, &[]);
        block(to, INTERFACE, &body);
    }
}

fn time(to: &mut Vec<u8>, time: u64) {
    to.extend(((time >> 32) as u32).to_le_bytes());
    to.extend((time as u32).to_le_bytes());
}

/// Writes a frame.
pub fn packet(to: &mut Vec<u8>, packet: &Packet) {
    let mut body = packet.interface.to_le_bytes().to_vec();
    time(&mut body, packet.time);
    body.extend((packet.bytes.len() as u32).to_le_bytes());
    body.extend(packet.length.to_le_bytes());
    body.extend(&packet.bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    if let Some(comment) = &packet.comment {
        let end = (0..=comment.len().min(LONGEST_COMMENT)).rfind(|at| comment.is_char_boundary(*at));
        option(&mut body, 1, &comment.as_bytes()[..end.unwrap_or(0)]);
    }
    if let Some(direction) = packet.direction {
        option(&mut body, 2, &(direction as u32 + 1).to_le_bytes());
    }
    if packet.comment.is_some() || packet.direction.is_some() {
        option(&mut body, 0, &[]);
    }
    block(to, PACKET, &body);
}

/// Writes the number of packets of an interface that were lost so far.
pub fn statistics(to: &mut Vec<u8>, interface: u32, now: u64, lost: u64) {
    let mut body = interface.to_le_bytes().to_vec();
    time(&mut body, now);
    option(&mut body, 5, &lost.to_le_bytes());
    option(&mut body, 0, &[]);
    block(to, STATISTICS, &body);
}

/// Reads blocks from pieces as they come.
#[derive(Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Code and value of each option, until they end or make no sense.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (code, length) = (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
        let value = rest.get(..length.into()).filter(|_| code != 0)?;
        bytes = rest.get(value.len().next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

impl Reader {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Whether everything that was added has been read.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole block; `None` until more bytes come.
    ///
    /// # Errors
    /// This is not a pcapng file of this writer.
    pub fn block(&mut self) -> Result<Option<Block>, String> {
        let Some((kind, length)) = le32(&self.buffer, 0).zip(le32(&self.buffer, 4)) else { return Ok(None) };
        let length = length as usize;
        if !(12..=LONGEST_BLOCK).contains(&length) || !length.is_multiple_of(4) {
            return Err(format!("a pcapng block of {length} bytes; expected 12 to {LONGEST_BLOCK}, a multiple of 4"));
        }
        let Some(whole) = self.buffer.get(..length) else { return Ok(None) };
        if le32(whole, length - 4) != Some(length as u32) {
            return Err("a pcapng block whose two lengths differ".to_owned());
        }
        let read = read(kind, &whole[8..length - 4]);
        self.buffer.drain(..length);
        read.map(Some).ok_or_else(|| format!("a pcapng block of type {kind:#x} that is cut off or of another kind"))
    }
}

fn read(kind: u32, body: &[u8]) -> Option<Block> {
    Some(match kind {
        SECTION => {
            le32(body, 0).filter(|magic| *magic == MAGIC)?;
            Block::Section
        }
        INTERFACE => {
            let name = options(body.get(8..)?).find(|(code, _)| *code == 2);
            Block::Interface { name: name.map(|(_, name)| text(name)).unwrap_or_default() }
        }
        PACKET => {
            let [interface, high, low, kept, length] = [0, 4, 8, 12, 16].map(|at| le32(body, at));
            let rest = body.get(20..)?;
            let kept = kept? as usize;
            let bytes = rest.get(..kept)?.to_vec();
            let mut packet = Packet {
                interface: interface?,
                time: u64::from(high?) << 32 | u64::from(low?),
                length: length?,
                bytes,
                direction: None,
                comment: None,
            };
            for (code, value) in options(rest.get(kept.next_multiple_of(4)..).unwrap_or_default()) {
                match (code, le32(value, 0).map(|flags| flags & 3)) {
                    (1, _) => packet.comment = Some(text(value)),
                    (2, Some(1)) => packet.direction = Some(Direction::In),
                    (2, Some(2)) => packet.direction = Some(Direction::Out),
                    _ => {}
                }
            }
            Block::Packet(packet)
        }
        STATISTICS => {
            let lost = options(body.get(12..)?).find(|(code, value)| *code == 5 && value.len() == 8);
            let lost = lost.and_then(|(_, value)| value.first_chunk().copied()).map_or(0, u64::from_le_bytes);
            Block::Statistics { interface: le32(body, 0)?, lost }
        }
        other => Block::Other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn rng() -> SmallRng {
        let given = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(rand::random);
        println!("PERIGEE_FUZZ_SEED={seed}");
        SmallRng::seed_from_u64(seed)
    }

    fn random_packet(rng: &mut SmallRng) -> Packet {
        let length = rng.random_range(0..200);
        Packet {
            interface: rng.random_range(0..3),
            time: rng.random(),
            length: length + rng.random_range(0..2) * 1000,
            bytes: (0..length).map(|_| rng.random()).collect(),
            direction: [None, Some(Direction::In), Some(Direction::Out)][rng.random_range(0..3)],
            comment: rng.random_bool(0.5).then(|| "ä b".repeat(rng.random_range(0..9))),
        }
    }

    /// A file, and what is in it.
    fn file(rng: &mut SmallRng) -> (Vec<u8>, Vec<Block>) {
        let names = ["wan", "lan", ""].map(str::to_owned);
        let (mut bytes, mut blocks) = (Vec::new(), vec![Block::Section]);
        begin(&mut bytes, "perigee", &names, 1500);
        blocks.extend(names.map(|name| Block::Interface { name }));
        for _ in 0..rng.random_range(0..6) {
            if rng.random_bool(0.2) {
                let (interface, lost) = (rng.random_range(0..3), rng.random());
                statistics(&mut bytes, interface, 7, lost);
                blocks.push(Block::Statistics { interface, lost });
            } else {
                let one = random_packet(rng);
                packet(&mut bytes, &one);
                blocks.push(Block::Packet(one));
            }
        }
        (bytes, blocks)
    }

    #[test]
    fn what_is_written_is_read_however_it_comes() {
        let mut rng = rng();
        for _ in 0..3000 {
            let (bytes, expected) = file(&mut rng);
            let (mut reader, mut found, mut at) = (Reader::default(), Vec::new(), 0);
            while at < bytes.len() {
                let piece = rng.random_range(1..=bytes.len() - at).min(rng.random_range(1..300));
                reader.push(&bytes[at..at + piece]);
                at += piece;
                while let Some(block) = reader.block().unwrap() {
                    found.push(block);
                }
            }
            assert!(reader.is_empty());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn broken_files_are_refused_or_read_and_never_crash() {
        let mut rng = rng();
        let mut refused = 0;
        for _ in 0..30_000 {
            let (mut bytes, _) = file(&mut rng);
            for _ in 0..rng.random_range(1..5) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
            bytes.truncate(rng.random_range(0..=bytes.len()));
            let mut reader = Reader::default();
            reader.push(&bytes);
            loop {
                match reader.block() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => {
                        refused += 1;
                        break;
                    }
                }
            }
        }
        assert!(refused > 1000, "only {refused} were refused");
    }

    /// The first bytes as the specification has them.
    #[test]
    fn the_header_is_that_of_the_specification() {
        let mut bytes = Vec::new();
        begin(&mut bytes, "x", &[], 0);
        let expected = "0a0d0d0a 28000000 4d3c2b1a 01000000 ffffffff ffffffff 04000100 78000000 00000000 28000000";
        let hex: Vec<String> = bytes.chunks(4).map(|c| c.iter().map(|b| format!("{b:02x}")).collect()).collect();
        assert_eq!(hex.join(" "), expected);
    }

    #[test]
    fn a_long_comment_is_cut_between_letters() {
        let one = Packet { comment: Some("é".repeat(600)), ..random_packet(&mut rng()) };
        let (mut bytes, mut reader) = (Vec::new(), Reader::default());
        packet(&mut bytes, &one);
        reader.push(&bytes);
        let Ok(Some(Block::Packet(read))) = reader.block() else { panic!("a packet") };
        assert_eq!(read.comment, Some("é".repeat(500)));
    }
}
