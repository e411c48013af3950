// SPDX-License-Identifier: MIT
//! DPDK's example l3fwd: fetched from Debian's source package `dpdk`, its limits raised for a full table, built for
//! this machine's processor, and kept under `target/l3fwd`.

mod build;

pub use build::L3fwd;

use super::{Bed, Place};
use crate::table::{Entry, Family};
use crate::traffic;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Hugepages that a process of it takes, in MB, and some more.
pub const MEMORY: u32 = 2048;
/// The same where each packet buffer takes a page of its own.
const MEMORY_IN_PAGES: u32 = 3072;

/// Its lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// rte_lpm, rte_lpm6.
    Lpm,
    /// rte_fib, rte_fib6.
    Fib,
}

impl Lookup {
    pub const ALL: [Lookup; 2] = [Lookup::Lpm, Lookup::Fib];

    /// Its name in l3fwd's `--lookup`.
    pub fn name(self) -> &'static str {
        match self {
            Lookup::Lpm => "lpm",
            Lookup::Fib => "fib",
        }
    }

    /// How long it may take to load a full table: rte_lpm moves its rules with every insertion, which takes minutes.
    pub fn patience(self) -> Duration {
        match self {
            Lookup::Lpm => Duration::from_secs(900),
            Lookup::Fib => Duration::from_secs(180),
        }
    }
}

/// Rule files, in the form that l3fwd reads: one of each family, and how many routes are in them.
pub struct Rules {
    pub v4: PathBuf,
    pub v6: PathBuf,
    pub routes: u64,
}

impl Rules {
    /// Writes the routes of one family into a folder. A route's next hop is the port that the table's neighbor is on.
    pub fn write<A: Family>(folder: &Path, table: &[Entry<A>]) -> Result<Rules> {
        let (mut text, mut routes) = (String::new(), 0);
        let mut sorted: Vec<&Entry<A>> = table.iter().collect();
        // rte_lpm refuses a length of 0: its halves come first, so that a table's own routes of length 1 replace them.
        sorted.sort_by_key(|(prefix, _)| prefix.len() > 0);
        for (prefix, id) in sorted {
            let port = traffic::neighbor_of(id.0).map(traffic::port_of).context("a next hop has a neighbor")?;
            let whole = prefix.len() == 0;
            let halves = [A::ONES.truncate(0), A::ONES.truncate(1)].map(|half| (half, 1));
            let parts = if whole { &halves[..] } else { &[(prefix.addr(), prefix.len())] };
            for (address, length) in parts {
                writeln!(text, "R{}/{length} {port}", address.ip())?;
            }
            routes += parts.len() as u64;
        }
        let file = |family: u8| folder.join(format!("rules{family}-of-{}", A::NUMBER));
        // It wants a route of the other family, too.
        let [v4, v6] = [(4, "R192.0.2.0/24 0\n"), (6, "R2001:db8::/32 0\n")].map(|(family, other)| {
            let file = file(family);
            fs::write(&file, if family == A::NUMBER { &text } else { other }).map(|()| file)
        });
        Ok(Rules { v4: v4?, v6: v6?, routes })
    }
}

impl L3fwd {
    /// Its command line, with places for what is known of the bed. All of it is on one core: its main thread would spin
    /// on another.
    pub fn command(&self, lookup: Lookup) -> String {
        format!(
            "'{}' --no-pci --iova-mode=va {{memory}} --file-prefix={{file_prefix}} --lcores=0@{{core}} \
             --vdev={{device}} --vdev={{sink}} -- -p 3 --config='(0,0,0)' --lookup={} --rule_ipv4={{rules4}} \
             --rule_ipv6={{rules6}} --parse-ptype --eth-dest=0,02:01:00:00:00:00 --eth-dest=1,02:01:00:00:00:01",
            self.program.display(),
            lookup.name(),
        )
    }
}

/// The places in a peer's command line, for a bed.
pub fn places(bed: &Bed, prefix: &str, rules: &Rules) -> Vec<Place> {
    let source = bed.sources[0].display();
    let memory = match bed.hugepages {
        true => "--in-memory --single-file-segments".to_owned(),
        false => format!("--no-huge --no-shconf -m {MEMORY_IN_PAGES}"),
    };
    vec![
        ("source", source.to_string()),
        ("device", format!("net_pcap0,rx_pcap={source},infinite_rx=1")),
        // Nothing is received from it: net_pcap wants a source, and discards what it sends without a file to send to.
        ("sink", format!("net_pcap1,rx_pcap={source}")),
        ("core", bed.core.to_string()),
        ("other_core", bed.other_core.to_string()),
        ("file_prefix", prefix.to_owned()),
        ("memory", memory),
        ("rules4", rules.v4.display().to_string()),
        ("rules6", rules.v6.display().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::NextHopId;
    use perigee_net::{Prefix4, Prefix6};

    #[test]
    fn rules_are_prefixes_with_ports_and_the_default_route_has_two_halves() {
        let folder = tempfile::tempdir().unwrap();
        let id = |neighbor: u32| NextHopId(NextHopId::FIRST_FREE + neighbor);
        let v4 = [
            (Prefix4::new(0x8000_0000, 1).unwrap(), id(0)),
            (Prefix4::new(0, 0).unwrap(), id(3)),
            (Prefix4::new(0x0a01_0000, 16).unwrap(), id(4)),
        ];
        let rules = Rules::write(folder.path(), &v4).unwrap();
        let text = fs::read_to_string(&rules.v4).unwrap();
        assert_eq!(text, "R0.0.0.0/1 1\nR128.0.0.0/1 1\nR128.0.0.0/1 0\nR10.1.0.0/16 0\n");
        assert_eq!((rules.routes, fs::read_to_string(&rules.v6).unwrap().lines().count()), (4, 1));
        let v6 = [(Prefix6::new(0x2001_0db8 << 96, 32).unwrap(), id(1))];
        let rules = Rules::write(folder.path(), &v6).unwrap();
        assert_eq!(fs::read_to_string(&rules.v6).unwrap(), "R2001:db8::/32 1\n");
        assert!(fs::read_to_string(&rules.v4).unwrap().starts_with("R192.0.2.0/24 0"));
    }
}
