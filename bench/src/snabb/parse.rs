// SPDX-License-Identifier: MIT
//! What the programs print.

use anyhow::{Context as _, Result, bail, ensure};

/// Packets, and how long they took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub packets: f64,
    /// Seconds of CPU time.
    pub cpu: f64,
}

impl Sample {
    /// Millions of packets per second of CPU time.
    pub fn mpps(self) -> Result<f64> {
        ensure!(self.packets > 0.0 && self.cpu > 0.0, "{} packets in {} s of CPU time", self.packets, self.cpu);
        Ok(self.packets / self.cpu / 1e6)
    }
}

/// The line `NAME packets P cpu C wall W` of our own programs.
pub fn line(name: &str, said: &str) -> Result<Sample> {
    let found = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" packets "));
    let rest =
        found.with_context(|| format!("no line \"{name} packets ...\" in: {}", super::runtime::complaint(said)))?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [packets, "cpu", cpu, "wall", _] = words[..] else { bail!("expected packets, cpu and wall, found {rest:?}") };
    Ok(Sample { packets: packets.parse()?, cpu: cpu.parse()? })
}

/// A line of lwaftr's table: seconds since its start, and packets per second in both directions together since the line
/// before, in millions. The table: `Time (s),Decap. MPPS,Decap. Gbps,Encap. MPPS,Encap. Gbps`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LwaftrLine {
    pub time: f64,
    pub mpps: f64,
}

/// The table's complete lines so far.
pub fn lwaftr(csv: &str) -> Result<Vec<LwaftrLine>> {
    let Some((header, rows)) = csv.split_once('\n') else { return Ok(Vec::new()) };
    let rates: Vec<usize> =
        header.split(',').enumerate().filter(|(_, name)| name.ends_with("MPPS")).map(|(i, _)| i).collect();
    ensure!(header.starts_with("Time") && rates.len() == 2, "expected columns of time and two rates, found {header:?}");
    let complete = rows.rfind('\n').map_or("", |end| &rows[..end]);
    let parse = |row: &str| -> Result<LwaftrLine> {
        let cells: Vec<&str> = row.split(',').collect();
        let cell =
            |i: usize| cells.get(i).and_then(|cell| cell.parse::<f64>().ok()).with_context(|| format!("{row:?}"));
        Ok(LwaftrLine { time: cell(0)?, mpps: cell(rates[0])? + cell(rates[1])? })
    };
    // Averages in words follow at the end.
    complete.lines().take_while(|row| row.starts_with(|c: char| c.is_ascii_digit())).map(parse).collect()
}

/// Packets that the lines after the first one tell of, up to the last one.
pub fn lwaftr_packets(lines: &[LwaftrLine]) -> f64 {
    lines.windows(2).map(|pair| pair[1].mpps * 1e6 * (pair[1].time - pair[0].time)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_programs() {
        let said = "No PMU\nchain packets 3000000 cpu 0.25 wall 0.50\n";
        let sample = line("chain", said).unwrap();
        assert_eq!(sample, Sample { packets: 3e6, cpu: 0.25 });
        assert_eq!(sample.mpps().unwrap(), 12.0);
        assert!(line("forward", said).is_err());
        assert!(line("chain", "chain packets x cpu 1 wall 1").is_err());
        assert!(line("chain", "chain packets 1 cpu 1").is_err());
        // Nothing moved, or no time passed: no rate.
        assert!(line("chain", "chain packets 0 cpu 1 wall 1").unwrap().mpps().is_err());
        assert!(line("chain", "chain packets 1 cpu 0 wall 1").unwrap().mpps().is_err());
    }

    #[test]
    fn lwaftrs_table() {
        let csv = "Time (s),Decap. MPPS,Decap. Gbps,Encap. MPPS,Encap. Gbps\n1.0,2.0,9.0,3.0,9.9\n2.0,4.0,9.0,5.0,9.9\n4.0,1.0,1.0,1.0,1.0\n5.0,7";
        let lines = lwaftr(csv).unwrap();
        assert_eq!(lines.len(), 3); // the last one is not complete
        assert_eq!(lines[1], LwaftrLine { time: 2.0, mpps: 9.0 });
        assert_eq!(lwaftr_packets(&lines), 9e6 + 2.0 * 2e6);
        assert_eq!(lwaftr_packets(&lines[..1]), 0.0);
        assert!(lwaftr("").unwrap().is_empty() && lwaftr("Time (s)").unwrap().is_empty());
        assert!(lwaftr("benchmark,id,score,unit\ndecap_mpps,1,3.3,mpps\n").is_err());
        assert!(lwaftr(&csv.replace("2.0,4.0", "2.0,x")).is_err());
        // What it writes when it ends.
        let ended = format!("{csv}.0,0,0,0\nDecap. avg. Mpps: 6.163419\nDecap. avg. Gbps: 1.0\n");
        assert_eq!(lwaftr(&ended).unwrap().len(), 4);
    }
}
