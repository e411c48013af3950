// SPDX-License-Identifier: MIT
//! What came of the floods.

use super::AttackArgs;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// All floods.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// Frames per second asked for, except of scans.
    pub rate: u64,
    pub seconds: f64,
    /// Seconds until the last look at memory.
    pub rest: f64,
    pub rows: Vec<Row>,
}

/// A stream of pings.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pinged {
    pub sent: u64,
    pub answered: u64,
}

impl Pinged {
    fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}

/// New hosts of one place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asked {
    pub name: String,
    /// How long each took to answer, in seconds; none did not in four.
    pub seconds: Vec<Option<f64>>,
}

impl Asked {
    fn reached(&self) -> usize {
        self.seconds.iter().flatten().count()
    }

    fn longest(&self) -> f64 {
        self.seconds.iter().flatten().fold(0.0, |longest, seconds| seconds.max(longest))
    }

    /// Within a second through another port than the flood's, within three through the flooded one.
    fn held(&self) -> bool {
        let most = if self.name == "other ports" { 1.0 } else { 3.0 };
        self.reached() == self.seconds.len() && self.longest() <= most
    }
}

/// One flood.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub kind: String,
    /// Frames that were sent: per second, and in all; and how many of all frames the port took.
    pub rate: f64,
    /// How many were to be sent.
    pub wanted: f64,
    pub sent: u64,
    pub taken: u64,
    /// Through the router, between other ports, by IPv4 and IPv6.
    pub known: [Pinged; 2],
    /// To the router itself, through another port and through the flooded one.
    pub router: Pinged,
    pub router_same: Pinged,
    /// Between two namespaces that have nothing to do with the router, by IPv4 and IPv6.
    pub bystanders: [Pinged; 2],
    pub asked: Vec<Asked>,
    /// Sessions of OSPF and BGP that ended, on the flooded link.
    pub sessions_lost: u64,
    /// The router's memory in bytes, and its neighbors: before, at the end, and later.
    pub memory: [u64; 3],
    pub neighbors: [u64; 3],
    /// The reasons that counted most.
    pub drops: Vec<(String, u64)>,
}

impl Row {
    /// Whether nobody else noticed it: known traffic lost nothing, sessions stand, new hosts answered soon, and memory
    /// is back.
    pub fn held(&self) -> bool {
        // A flood that did not arrive proves nothing.
        let attacked = self.taken as f64 >= 0.9 * self.wanted && self.sent as f64 >= 0.9 * self.wanted;
        let known = self.known.iter().all(|pings| pings.lost() == 0);
        let asked = self.asked.iter().all(Asked::held);
        let bystanders = self.bystanders.iter().all(|pings| pings.lost() == 0);
        attacked && known && bystanders && asked && self.sessions_lost == 0 && self.memory_held()
    }

    /// Within a tenth.
    fn memory_held(&self) -> bool {
        self.memory[2] <= self.memory[0] + self.memory[0] / 10
    }

    /// A line of the table.
    pub fn line(&self) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let asked: Vec<String> = self
            .asked
            .iter()
            .map(|asked| format!("{}/{} {:.2} s", asked.reached(), asked.seconds.len(), asked.longest()))
            .collect();
        let drops: Vec<String> = self.drops.iter().map(|(name, packets)| format!("{name} {packets}")).collect();
        format!(
            "| {} | {:.1} | {} of {} | {} of {} | {} of {} | {} of {} | {} | {} | {} | {:.0}, {:.0}, {:.0} | {} | {} |",
            self.kind,
            self.rate / 1e3,
            self.known.iter().map(Pinged::lost).sum::<u64>(),
            self.known.iter().map(|pings| pings.sent).sum::<u64>(),
            self.router.lost(),
            self.router.sent,
            self.router_same.lost(),
            self.router_same.sent,
            self.bystanders.iter().map(Pinged::lost).sum::<u64>(),
            self.bystanders.iter().map(|pings| pings.sent).sum::<u64>(),
            asked.join(" | "),
            self.sessions_lost,
            if self.held() { "held" } else { "NOT HELD" },
            mb(self.memory[0]),
            mb(self.memory[1]),
            mb(self.memory[2]),
            self.neighbors.map(|n| n.to_string()).join(", "),
            drops.join(", ")
        )
    }
}

/// For people.
pub fn text(args: &AttackArgs, results: &Results) -> String {
    let mut text = format!(
        "{} seconds of each flood on one port; pings lost of those that crossed other ports (IPv4, IPv6), and of those to the router through \
         another port and the flooded one, and between bystanders, two namespaces that have nothing to do with the router; new hosts of both families that answered, and the longest wait; sessions of OSPF (both versions) and \
         BGP on the flooded link that ended; resident memory and neighbors before, at the end, and {} s later.\n\n",
        args.seconds, args.rest
    );
    let heads = [
        "flood",
        "kframes/s",
        "known traffic",
        "pings, other port",
        "pings, same port",
        "bystanders",
        "new hosts, other ports",
        "from the flooded link",
        "to the flooded link",
        "sessions lost",
        "",
        "memory in MB",
        "neighbors",
        "most dropped by",
    ];
    let _ = writeln!(text, "| {} |\n|{}", heads.join(" | "), " --- |".repeat(heads.len())); // a String takes everything
    for row in &results.rows {
        let _ = writeln!(text, "{}", row.line());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let pings = Pinged { sent: 100, answered: 100 };
        let asked = |name: &str, longest| Asked { name: name.to_owned(), seconds: vec![Some(0.1), Some(longest)] };
        Row {
            kind: "garbage".to_owned(),
            rate: 50_000.0,
            wanted: 500_000.0,
            sent: 500_000,
            taken: 500_000,
            known: [pings; 2],
            router: pings,
            router_same: pings,
            bystanders: [pings; 2],
            asked: vec![asked("other ports", 0.9), asked("from the link", 2.9)],
            sessions_lost: 0,
            memory: [100, 150, 109],
            neighbors: [2, 8000, 2],
            drops: Vec::new(),
        }
    }

    #[test]
    fn what_others_notice_breaks_a_row() {
        assert!(row().held());
        let broken: [fn(&mut Row); 9] = [
            |row| row.sent = 400_000,
            |row| row.taken = 400_000,
            |row| row.known[1].answered = 99,
            |row| row.bystanders[1].answered = 99,
            |row| row.sessions_lost = 1,
            |row| row.memory[2] = 111,
            |row| row.asked[0].seconds[0] = None,
            |row| row.asked[0].seconds[0] = Some(1.1),
            |row| row.asked[1].seconds[0] = Some(3.1),
        ];
        for change in broken {
            let mut row = row();
            change(&mut row);
            assert!(!row.held(), "{row:?}");
        }
    }
}
