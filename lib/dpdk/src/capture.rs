// SPDX-License-Identifier: MIT
//! Capture files under ports (`net_pcap`): DPDK hands on what is in them, whatever it is. What is not Ethernet is
//! refused before.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Ethernet, from the registry of link types.
const ETHERNET: u32 = 1;
/// Bytes of a file in which its link type is looked for: a pcapng file may begin with other blocks.
const HEAD: u64 = 1 << 16;
/// Magic numbers of pcap files: with microseconds, with nanoseconds, and a variant with longer records.
const PCAP: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_BLOCK: u32 = 1;

/// Refuses a device that reads a capture whose frames are not those of Ethernet. A file that cannot be read is DPDK's
/// to refuse, as is one that is no capture; of pipes nothing may be read before.
///
/// # Errors
/// It reads one.
pub fn check_captures(devargs: &str) -> Result<()> {
    let read = devargs.split(',').filter_map(|part| part.strip_prefix("rx_pcap="));
    for path in read {
        if let Some(found) = link_type_of(Path::new(path)).filter(|found| *found != ETHERNET) {
            return Err(Error::new(format!(
                "{path} has frames of link type {found}, expected Ethernet (1): capture on an Ethernet interface, or convert it"
            )));
        }
    }
    Ok(())
}

fn link_type_of(path: &Path) -> Option<u32> {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut head = Vec::new();
    File::open(path).ok().filter(|_| is_file)?.take(HEAD).read_to_end(&mut head).ok()?;
    link_type(&head)
}

/// The link type of a pcap file, or of the first interface of a pcapng file, by its first bytes.
fn link_type(head: &[u8]) -> Option<u32> {
    for big in [false, true] {
        if PCAP.contains(&u32_at(head, 0, big)?) {
            // The upper bits are about checksums of frames.
            return Some(u32_at(head, 20, big)? & 0xffff);
        }
    }
    if u32_at(head, 0, true)? != SECTION {
        return None;
    }
    let big = u32_at(head, 8, true)? == BYTE_ORDER;
    let mut rest = head;
    loop {
        let (kind, length) = (u32_at(rest, 0, big)?, u32_at(rest, 4, big)?);
        if kind == INTERFACE_BLOCK {
            let bytes = *rest.get(8..)?.first_chunk::<2>()?;
            return Some(u32::from(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }));
        }
        if length < 12 {
            return None;
        }
        rest = rest.get(length.next_multiple_of(4) as usize..)?;
    }
}

fn u32_at(bytes: &[u8], at: usize, big: bool) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32], big: bool) -> Vec<u8> {
        words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    /// A section, a block of another kind, and an interface.
    fn pcapng(link: u16, big: bool) -> Vec<u8> {
        let link = if big { u32::from(link) << 16 } else { u32::from(link) };
        let section = [SECTION, 28, BYTE_ORDER, 1, u32::MAX, u32::MAX, 28];
        words(&[&section[..], &[0xbad, 16, 7, 16], &[INTERFACE_BLOCK, 20, link, 65_535, 20]].concat(), big)
    }

    #[test]
    fn link_types_of_both_formats_and_orders() {
        for big in [false, true] {
            for magic in PCAP {
                assert_eq!(link_type(&words(&[magic, 0, 0, 0, 65_535, 101], big)), Some(101));
                assert_eq!(link_type(&words(&[magic, 0, 0, 0, 65_535, 0x2400_0001], big)), Some(ETHERNET));
            }
            for link in [1, 113] {
                assert_eq!(link_type(&pcapng(link, big)), Some(u32::from(link)));
            }
        }
        for cut in 0..pcapng(1, false).len() - 10 {
            assert_eq!(link_type(&pcapng(1, false)[..cut]), None, "{cut}");
        }
        for other in [&b""[..], b"no capture, but a text", &words(&[SECTION, 4, BYTE_ORDER], false)] {
            assert_eq!(link_type(other), None);
        }
    }

    /// A port on a capture of raw IP counted its packets as other stations', and nothing was said.
    #[test]
    fn a_capture_that_is_not_ethernet_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, link| {
            let path = folder.path().join(name);
            std::fs::write(&path, words(&[PCAP[0], 0, 0, 0, 65_535, link], false)).unwrap();
            path.display().to_string()
        };
        let (raw, good) = (file("raw.pcap", 101), file("good.pcap", 1));
        let refused = check_captures(&format!("net_pcap0,rx_pcap={good},rx_pcap={raw}")).unwrap_err().to_string();
        assert!(refused.contains(&raw) && refused.contains("link type 101, expected Ethernet (1)"), "{refused}");
        for fine in [
            format!("net_pcap0,rx_pcap={good}"),
            format!("net_pcap0,tx_pcap={raw}"),
            "net_pcap0,rx_pcap=/does/not/exist".to_owned(),
            "net_pcap0,rx_pcap=/dev/null".to_owned(),
            "net_null0".to_owned(),
        ] {
            check_captures(&fine).unwrap_or_else(|error| panic!("{fine}: {error}"));
        }
    }
}
