// SPDX-License-Identifier: MIT
//! The table that is measured: prefixes of a file or synthetic ones, each with a next hop; the right answers, and which
//! addresses are drawn. All benchmarks that look routes up share it.

mod family;
mod oracle;
mod patterns;

use anyhow::{Context as _, Result};
pub use family::Family;
use flate2::read::MultiGzDecoder;
pub use oracle::{Entry, Ranges, edges};
pub use patterns::Pattern;
use perigee_fib::synth::Random;
use perigee_fib::{NextHopId, PrefixList};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

/// First bytes of a file compressed by gzip (RFC 1952 section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The prefixes of a file, plain or compressed.
pub fn read(file: &Path) -> Result<PrefixList> {
    let mut bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    if bytes.starts_with(&GZIP) {
        let mut plain = Vec::new();
        MultiGzDecoder::new(&bytes[..])
            .read_to_end(&mut plain)
            .with_context(|| format!("{} is damaged; expected a whole file compressed by gzip", file.display()))?;
        bytes = plain;
    }
    Ok(PrefixList::parse(&file.display().to_string(), &bytes)?)
}

/// The table of one family: each prefix once, with one of `next_hops` random next hops. Their ids are the first ones
/// that a router gives out.
pub fn entries<A: Family>(list: Option<&PrefixList>, next_hops: u32, seed: u64) -> Vec<Entry<A>> {
    let prefixes = list.map_or_else(|| A::synthetic(seed), |list| A::of(list).to_vec());
    let mut random = Random::new(seed);
    let mut seen = HashSet::with_capacity(prefixes.len());
    let mut id = |prefix| (prefix, NextHopId(NextHopId::FIRST_FREE + random.below(next_hops)));
    prefixes.into_iter().filter(|prefix| seen.insert(*prefix)).map(&mut id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    #[test]
    fn plain_and_compressed_files_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("routes"), folder.path().join("routes.gz"));
        let text = "10.0.0.0/8\n# more\n2001:db8::/32\n10.0.0.0/8\n";
        std::fs::write(&plain, text).unwrap();
        let mut encoder = GzEncoder::new(std::fs::File::create(&packed).unwrap(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let list = read(&plain).unwrap();
        assert_eq!(list, read(&packed).unwrap());
        let table = entries::<u32>(Some(&list), 250, 1);
        assert_eq!(table.len(), 1, "each prefix once");
        assert_eq!(entries::<u128>(Some(&list), 250, 1).len(), 1);

        let whole = std::fs::read(&packed).unwrap();
        std::fs::write(&packed, &whole[..whole.len() - 9]).unwrap();
        assert!(read(&packed).unwrap_err().to_string().contains("is damaged"));
    }

    #[test]
    fn mistakes_are_listed_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes");
        std::fs::write(&file, "10.0.0.0/8\n10.0.0.1/8\n10.0.0.0/40\n").unwrap();
        let error = format!("{:#}", read(&file).unwrap_err());
        let name = file.display();
        assert_eq!(
            error,
            format!(
                "{name}:2: 10.0.0.1/8 has bits set behind its length; expected 10.0.0.0/8\n\
                 {name}:3: 10.0.0.0/40: the length is too long; expected 0 to 32"
            )
        );
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn next_hops_are_fixed_by_the_seed() {
        let list = PrefixList { v4: (0..5000).map(perigee_net::Prefix4::host).collect(), v6: Vec::new() };
        let table = entries::<u32>(Some(&list), 250, 1);
        assert_eq!(table, entries::<u32>(Some(&list), 250, 1));
        assert_ne!(table, entries::<u32>(Some(&list), 250, 2));
        let ids: HashSet<u32> = table.iter().map(|(_, id)| id.0).collect();
        let (first, last) = (NextHopId::FIRST_FREE, NextHopId::FIRST_FREE + 249);
        assert_eq!((ids.len(), ids.iter().min(), ids.iter().max()), (250, Some(&first), Some(&last)));
    }
}
