// SPDX-License-Identifier: MIT
//! The results, and the rows that `--json` prints.

use super::shapes::Shaped;
use crate::machine::Machine;
use crate::statistics::Median;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

/// All results.
pub struct Results {
    /// The machine that was measured on.
    pub machine: Machine,
    /// The core that was measured on.
    pub core: usize,
    /// DPDK's memory in hugepages? None if DPDK was not needed.
    pub dpdk_hugepages: Option<bool>,
    /// The file of the routing table; none if it is synthetic.
    pub table: Option<String>,
    /// By size of a table in bytes: million random reads per second.
    pub limits: Vec<(usize, f64)>,
    /// The results of each family.
    pub families: Vec<Family>,
}

/// One family.
pub struct Family {
    /// 4 or 6.
    pub number: u8,
    /// Prefixes in the table.
    pub routes: usize,
    /// Addresses per pattern.
    pub addresses: usize,
    /// Edges and their neighbors that were checked.
    pub edges: usize,
    /// The structure that ratios are against, if it took part.
    pub reference: Option<&'static str>,
    /// The patterns, in order.
    pub patterns: Vec<String>,
    /// The structures, in order.
    pub structures: Vec<Measured>,
    /// What they did with tables of other shapes.
    pub shapes: Vec<Shaped>,
    /// Structures that could not take part, and why.
    pub refused: Vec<(&'static str, String)>,
}

/// One structure.
pub struct Measured {
    pub name: &'static str,
    /// Million lookups per second, by pattern, by round.
    pub rates: Vec<Vec<f64>>,
    /// Bytes of the readers' half.
    pub bytes: usize,
    /// Seconds to build, the median of several if it is quick.
    pub build_s: f64,
    /// Changes per second, by round.
    pub changes: Vec<f64>,
    /// Wrong answers, by pattern; those at edges of prefixes count for each.
    pub wrong: Vec<u64>,
}

/// An object of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The structure's name.
    pub structure: &'static str,
    /// 4 or 6.
    pub family: u8,
    /// The pattern's name, "+packets" behind it if packets were touched.
    pub pattern: String,
    /// Million lookups per second, the median of all rounds.
    pub mlookups_per_s: f64,
    /// Bytes of the readers' half.
    pub bytes: usize,
    /// Seconds to build.
    pub build_s: f64,
    /// Withdrawals and announcements per second, both counted.
    pub changes_per_s: f64,
    /// Answers that differ from the oracle's: must be 0.
    pub wrong: u64,
    /// What the ratios are against; null without it.
    pub against: Option<&'static str>,
    /// Rate as a multiple of the reference's, taken within each round; the median with its interval.
    pub ratio: Option<Median>,
    /// Bytes as a share of the reference's.
    pub bytes_ratio: Option<f64>,
    /// Changes per second as a multiple of the reference's.
    pub changes_ratio: Option<f64>,
}

impl Measured {
    /// Changes per second, the median of all rounds; not a number if one was refused.
    pub fn changes_per_s(&self) -> f64 {
        Median::of(&self.changes).median
    }
}

impl Family {
    /// The structure that ratios are against.
    fn against(&self) -> Option<&Measured> {
        self.structures.iter().find(|structure| Some(structure.name) == self.reference)
    }

    /// One structure with one pattern.
    pub fn row(&self, structure: &Measured, pattern: usize) -> Row {
        let against = self.against();
        let within_rounds = |against: &Measured| {
            let pairs = structure.rates[pattern].iter().zip(&against.rates[pattern]);
            Median::of(&pairs.map(|(rate, against)| rate / against).collect::<Vec<f64>>())
        };
        Row {
            structure: structure.name,
            family: self.number,
            pattern: self.patterns[pattern].clone(),
            mlookups_per_s: Median::of(&structure.rates[pattern]).median,
            bytes: structure.bytes,
            build_s: structure.build_s,
            changes_per_s: structure.changes_per_s(),
            wrong: structure.wrong[pattern],
            against: self.reference,
            ratio: against.map(within_rounds),
            bytes_ratio: against.map(|against| structure.bytes as f64 / against.bytes as f64),
            changes_ratio: against
                .map(|against| structure.changes_per_s() / against.changes_per_s())
                .filter(|ratio| ratio.is_finite()),
        }
    }

    /// Every structure with every pattern.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let patterns = 0..self.patterns.len();
        self.structures.iter().flat_map(move |structure| patterns.clone().map(|pattern| self.row(structure, pattern)))
    }
}

impl Results {
    /// All rows.
    pub fn rows(&self) -> Vec<Row> {
        self.families.iter().flat_map(Family::rows).collect()
    }

    /// All rows, and those of the other shapes, for `--json`.
    pub fn all_rows(&self) -> Result<Vec<Value>> {
        let rows = self.rows().into_iter().map(|row| Ok(serde_json::to_value(row)?));
        let shapes = self.families.iter().flat_map(|family| &family.shapes);
        rows.chain(shapes.map(|shaped| Ok(serde_json::to_value(shaped)?))).collect()
    }

    /// Wrong answers of all rows.
    pub fn wrong(&self) -> u64 {
        let shapes = self.families.iter().flat_map(|family| &family.shapes);
        self.rows().iter().map(|row| row.wrong).sum::<u64>() + shapes.map(|shaped| shaped.wrong).sum::<u64>()
    }
}

/// Results for tests of the reports and charts.
#[cfg(test)]
pub fn sample() -> Results {
    let structure = |name, rate: f64, bytes, wrong| Measured {
        name,
        rates: vec![vec![rate, rate * 1.1, rate * 0.9], vec![rate / 2.0; 3]],
        bytes,
        build_s: 0.25,
        changes: vec![1e6, 2e6, 3e6],
        wrong: vec![0, wrong],
    };
    let family = |number, reference, structures| Family {
        number,
        routes: 901_899,
        addresses: 4 << 20,
        edges: 4 * 901_899,
        reference: Some(reference),
        patterns: vec!["uniform".into(), "routed+packets".into()],
        structures,
        shapes: vec![Shaped {
            structure: "dir24",
            family: number,
            shape: "hosts",
            prefixes: 20_000,
            tried: 20_000,
            refused: 0,
            removals_refused: 0,
            ns_per_insertion: 300.0,
            ns_per_flap: 250.0,
            ns_per_change_of_the_network: 12_000.0,
            ns_per_removal: 310.0,
            bytes_before: 1 << 20,
            bytes: 2 << 20,
            bytes_after: 1 << 20,
            wrong: 0,
        }],
        refused: vec![("rte_fib1", "next hop 200 does not fit".into())],
    };
    Results {
        machine: Machine::this(),
        core: 1,
        dpdk_hugepages: Some(false),
        table: Some("a<b.gz".into()),
        limits: vec![(256 << 10, 740.0), (64 << 20, 174.0)],
        families: vec![
            family(
                4,
                "rte_fib",
                vec![structure("dir24", 200.0, 72 << 20, 0), structure("rte_fib", 100.0, 36 << 20, 0)],
            ),
            family(
                6,
                "rte_fib6",
                vec![structure("trie6", 10.0, 2 << 20, 3), structure("rte_fib6", 20.0, 455 << 20, 0)],
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects_of_the_documented_shape() {
        let results = sample();
        let json = serde_json::to_value(results.rows()).unwrap();
        let rows = json.as_array().expect("an array");
        assert_eq!(rows.len(), 8);
        let all = results.all_rows().unwrap();
        assert_eq!((all.len(), &all[8]["shape"]), (10, &Value::from("hosts")));
        for row in rows {
            assert!(row["structure"].is_string() && row["pattern"].is_string());
            assert!([4, 6].contains(&row["family"].as_u64().unwrap()));
            for number in ["mlookups_per_s", "build_s", "changes_per_s"] {
                assert!(row[number].as_f64().unwrap() > 0.0, "{number}");
            }
            assert!(row["bytes"].is_u64() && row["wrong"].is_u64());
        }
        assert_eq!(rows[0]["ratio"]["median"], 2.0);
        assert_eq!(rows[0]["bytes_ratio"], 2.0);
        assert_eq!(results.wrong(), 3);
    }

    /// A structure whose changes failed once lost its lookups, too.
    #[test]
    fn without_changes_lookups_stay() {
        let mut results = sample();
        results.families[0].structures[1].changes.clear();
        let rows = serde_json::to_value(results.rows()).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["changes_per_s"].is_null()).expect("such a row");
        assert!(row["changes_ratio"].is_null() && row["mlookups_per_s"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn without_the_reference_there_are_no_ratios() {
        let mut results = sample();
        results.families[0].reference = None;
        let rows = serde_json::to_value(results.rows()).unwrap();
        assert!(rows[0]["ratio"].is_null() && rows[0]["against"].is_null() && rows[0]["bytes_ratio"].is_null());
    }
}
