// SPDX-License-Identifier: MIT
//! What real programs report about the path through the router.

use anyhow::{Context, Result, bail};
use perigee_lab::{Host, LONGEST_WAIT, Pings, Process, Replies, wait_until};
use serde::Serialize;
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

/// How long iperf3 sends.
pub const IPERF_SECONDS: u32 = 3;

/// A TCP connection's throughput.
#[derive(Debug, PartialEq, Serialize)]
pub struct Iperf {
    /// 10^9 bits of payload per second, as received.
    pub gbps: f64,
    pub retransmits: u64,
}

/// Some pings from the client.
pub fn ping(client: &Host, address: &str, count: u64) -> Result<Replies> {
    let pings = Pings { count, interval: Duration::from_millis(100), patience: Duration::from_secs(20) };
    // It fails if nothing comes back, which its statistics show.
    let ended = client.run(&pings.command(address));
    let replies = pings.replies(&ended.out);
    let replies = replies.with_context(|| format!("`{}` is not understood: {}", ended.command, ended.complaint()))?;
    if replies.received == 0 {
        bail!("no ping to {address} came back");
    }
    Ok(replies)
}

/// The hops to an address, the first of which must be the router.
pub fn traceroute(client: &Host, address: &str, router: &str) -> Result<Vec<String>> {
    // One probe at a time: if there were many at once, the limits on ICMP errors would leave some unanswered.
    let text = client.run(&format!("traceroute -n -m 5 -w 20 -q 1 -N 1 {address}")).output()?;
    let hops = parse_traceroute(&text);
    if hops.first().map(String::as_str) != Some(router) || hops.last().map(String::as_str) != Some(address) {
        bail!("the way to {address} should be {router} {address}, but traceroute found: {}", hops.join(" "));
    }
    Ok(hops)
}

/// An address per hop, or `*`.
fn parse_traceroute(text: &str) -> Vec<String> {
    let hop = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<u8>().ok()?;
        Some(words.find(|word| word.parse::<IpAddr>().is_ok()).unwrap_or("*").to_owned())
    };
    text.lines().filter_map(hop).collect()
}

/// Starts the server's iperf3, which listens until it is dropped.
pub fn listen(server: &Host) -> Result<Process> {
    let mut listening = server.start("iperf3 --server --forceflush")?;
    wait_until(LONGEST_WAIT, "iperf3 to listen", || {
        listening.running()?;
        Ok(listening.stdout().contains("listening"))
    })?;
    Ok(listening)
}

/// Sends from the client to a server that listens.
pub fn iperf3(client: &Host, address: &str) -> Result<Iperf> {
    let words = format!("iperf3 --json --connect-timeout 5000 --time {IPERF_SECONDS} --client {address}");
    parse_iperf3(&client.run(&words).output()?)
}

/// iperf3 succeeds even if it fails: the error is in its JSON.
fn parse_iperf3(text: &str) -> Result<Iperf> {
    let answer: Value = serde_json::from_str(text).context("iperf3's answer is not understood")?;
    if let Some(error) = answer["error"].as_str() {
        bail!("iperf3 says: {error}");
    }
    let rate = answer["end"]["sum_received"]["bits_per_second"].as_f64();
    let retransmits = answer["end"]["sum_sent"]["retransmits"].as_u64();
    Ok(Iperf {
        gbps: (rate.context("iperf3 reports no throughput")? / 1e6).round() / 1e3,
        // Only Linux reports them.
        retransmits: retransmits.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceroute_lines() {
        let text = "traceroute to 10.0.2.2 (10.0.2.2), 30 hops max, 60 byte packets\n 1  10.0.1.1  0.443 ms\n 2  *\n 3  * 10.0.2.2  0.412 ms !X\n";
        assert_eq!(parse_traceroute(text), ["10.0.1.1", "*", "10.0.2.2"]);
        assert!(parse_traceroute("connect: Network is unreachable").is_empty());
    }

    #[test]
    fn iperf3_json() {
        let text = r#"{"end": {"sum_sent": {"bits_per_second": 1.27e9, "retransmits": 8255}, "sum_received": {"bits_per_second": 1.26e9}}}"#;
        assert_eq!(parse_iperf3(text).unwrap(), Iperf { gbps: 1.26, retransmits: 8255 });
        let refused = r#"{"start": {"connected": []}, "intervals": [], "end": {}, "error": "unable to connect to server: Network is unreachable"}"#;
        assert_eq!(
            parse_iperf3(refused).unwrap_err().to_string(),
            "iperf3 says: unable to connect to server: Network is unreachable"
        );
        assert!(parse_iperf3(r#"{"end": {}}"#).is_err() && parse_iperf3("").is_err());
    }
}
