// SPDX-License-Identifier: MIT
//! The results as text and as JSON, and what to try next.

use super::account::{Accounts, Hosts, Perigee};
use super::bgp::Birds;
use super::probes::Iperf;
use super::router::{self, BLOCKLIST, CONFIG, FASTPATH, LOG, SOCKET};
use super::world::{CLIENT, SERVER};
use crate::output::word;
use crate::show;
use anyhow::{Context, Result};
use indicatif::HumanCount;
use perigee_api::answers::{DropKind, DropStatus};
use perigee_lab::{Bird, Isolation, Replies};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// All results.
pub struct Results {
    pub ping: Replies,
    pub ping6: Replies,
    pub traceroute: Vec<String>,
    pub iperf3: Iperf,
    pub accounts: Accounts,
}

/// The results as JSON.
#[derive(Serialize)]
struct Json<'a> {
    ping: &'a Replies,
    ping6: &'a Replies,
    traceroute: &'a [String],
    iperf3: &'a Iperf,
    #[serde(flatten)]
    accounts: AccountsJson<'a>,
}

/// The counters as JSON.
#[derive(Serialize)]
pub struct AccountsJson<'a> {
    packets: Packets,
    drops: Vec<Drop<'a>>,
    /// The demo fails if they do not.
    counters_agree: bool,
    counters: Counters<'a>,
}

#[derive(Serialize)]
struct Packets {
    fast_path: u64,
    in_kernel: u64,
    slow_path: u64,
    to_linux: u64,
    dropped: u64,
}

#[derive(Serialize)]
struct Drop<'a> {
    module: &'a str,
    reason: &'a str,
    kind: DropKind,
    rfc: Option<&'a str>,
    packets: u64,
}

#[derive(Serialize)]
struct Counters<'a> {
    perigee: &'a Perigee,
    hosts: &'a Hosts,
}

impl<'a> AccountsJson<'a> {
    pub fn new(accounts: &'a Accounts) -> AccountsJson<'a> {
        let Accounts { hosts, perigee, drops } = accounts;
        let Perigee { fast_path, in_kernel, slow_path, to_linux, dropped, .. } = *perigee;
        let drop = |drop: &'a DropStatus| Drop {
            module: &drop.module,
            reason: &drop.reason,
            kind: drop.kind,
            rfc: drop.rfc.as_deref(),
            packets: drop.packets,
        };
        AccountsJson {
            packets: Packets { fast_path, in_kernel, slow_path, to_linux, dropped },
            drops: drops.iter().map(drop).collect(),
            counters_agree: true,
            counters: Counters { perigee, hosts },
        }
    }
}

/// The results as JSON.
pub fn json(results: &Results) -> Result<String> {
    let Results { ping, ping6, traceroute, iperf3, accounts } = results;
    let json = Json { ping, ping6, traceroute, iperf3, accounts: AccountsJson::new(accounts) };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

/// The results as text.
pub fn text(results: &Results) -> String {
    let mut lines = vec![
        String::new(),
        format!(
            "  {} {}  ───  {} perigee {}  ───  {} {}",
            CLIENT.name, CLIENT.v4, CLIENT.router_v4, SERVER.router_v4, SERVER.v4, SERVER.name
        ),
        String::new(),
        format!("  ping         {}", ping(&results.ping)),
        format!("  ping, IPv6   {}", ping(&results.ping6)),
        format!("  traceroute   {} hops: {}", results.traceroute.len(), results.traceroute.join(", ")),
        format!(
            "  iperf3       {:.2} Gbit/s, {} retransmits",
            results.iperf3.gbps,
            HumanCount(results.iperf3.retransmits)
        ),
        String::new(),
    ];
    lines.extend(accounts_text(&results.accounts));
    lines.join("\n") + "\n"
}

/// The counters as text.
pub fn accounts_text(accounts: &Accounts) -> Vec<String> {
    let Accounts { hosts, perigee, drops } = accounts;
    let mut lines = Vec::new();
    let paths = [
        ("fast path", perigee.fast_path, "forwarded by the script's loop"),
        ("in kernel", perigee.in_kernel, "forwarded by the in-kernel plane"),
        ("slow path", perigee.slow_path, "ARP, ND, ICMP, and everything for the router itself"),
        ("  to Linux", perigee.to_linux, "of these, given to the twin interfaces"),
        ("dropped", perigee.dropped, "on either path"),
    ];
    lines.extend(
        paths
            .into_iter()
            .filter(|(path, packets, _)| *path != "in kernel" || *packets > 0)
            .map(|(path, packets, what)| format!("  {path:<10} {:>11}  {what}", HumanCount(packets).to_string())),
    );
    lines.push(String::new());
    lines.extend(show::drops(drops, false).to_string().lines().map(|line| format!(" {}", line.trim_end())));
    lines.push(String::new());
    lines.push(format!(
        "  {} frames reached client and server; perigee sent {}, its workers {}{} of them,",
        HumanCount(hosts.received),
        HumanCount(perigee.sent),
        HumanCount(perigee.fast_path),
        match perigee.in_kernel {
            0 => String::new(),
            packets => format!(" and the in-kernel plane {}", HumanCount(packets)),
        }
    ));
    lines.push("  and Linux forwards nothing here: no packet went around perigee.".to_owned());
    if perigee.merged > 0 {
        let segments = HumanCount(perigee.merged + perigee.sent);
        lines.push(format!("  On a wire they would have been {segments}: segments of TCP cross as super-frames where both ends allow it."));
    }
    lines
}

/// Pings, and how long they took.
pub fn ping(ping: &Replies) -> String {
    let Replies { loss, sent, received, rtt_ms } = ping;
    let round_trip = rtt_ms
        .as_ref()
        .map(|rtt| format!(", round trip {:.2} / {:.2} / {:.2} ms (min / avg / max)", rtt.min, rtt.avg, rtt.max));
    format!("{received} of {sent}, {loss} % loss{}", round_trip.unwrap_or_default())
}

/// What to try while it runs. Other shells see neither our /run nor our namespaces, but they see the folder.
pub fn hints(folder: &Path, isolation: Isolation, birds: Option<&Birds>) -> Result<String> {
    // The process id in the /proc that other shells see.
    let own = std::fs::read_link("/proc/self").context("/proc/self cannot be read")?;
    let sudo = if std::env::var_os("SUDO_USER").is_some() { "sudo " } else { "" };
    let enter = format!("{sudo}{} {}", isolation.nsenter(), own.display());
    let at = |file: &str| word(folder.join(file).display());
    let keep_variable = if sudo.is_empty() { "" } else { "sudo --preserve-env=PERIGEE_SOCKET " };
    let perigee = keep_variable.to_owned() + &router::program()?;
    let on = |host: &str, command: &str| format!("{enter} ip netns exec {host} {command}");
    let birdc = |bird: &Bird, words: &str| format!("{sudo}birdc -s {} {words}", word(bird.socket().display()));
    let daemons = birds.map(|birds| {
        (
            "the routing daemons: what they know; withdraw routes while you ping",
            vec![
                birdc(&birds.own, "show protocols all to_server"),
                format!("{perigee} show routes --within 20.0.0.0/16"),
                on(CLIENT.name, "ping 20.39.15.1"),
                birdc(&birds.server, "disable upper"),
            ],
        )
    });
    let groups = [
        (
            "what the router knows and counts",
            vec![
                format!("export PERIGEE_SOCKET={}", at(SOCKET)),
                format!("{perigee} show drops"),
                format!("{perigee} show modules"),
            ],
        ),
        (
            "packets from the client, and a shell on it",
            vec![
                on(CLIENT.name, &format!("ping {}", SERVER.v4)),
                on(CLIENT.name, &format!("iperf3 -c {}", SERVER.v4)),
                on(CLIENT.name, "bash"),
            ],
        ),
        (
            "another fast path while packets flow; then the first one, with your changes",
            vec![format!("{perigee} reload {}", at(BLOCKLIST)), format!("{perigee} reload {}", at(FASTPATH))],
        ),
        (
            "a route, and the client's side of the router as Linux sees it",
            vec![
                format!("{perigee} route add 10.9.0.0/16 via {}", SERVER.v4),
                format!("{enter} ip address show {}", CLIENT.port),
            ],
        ),
    ];
    let mut text = String::from("\nStill running. To try in another shell:\n");
    for (title, commands) in groups.into_iter().chain(daemons) {
        write!(text, "\n  # {title}\n  {}\n", commands.join("\n  "))?;
    }
    write!(text, "\nLog: {}   Configuration: {}\nCtrl-C ends it and removes that folder.\n", at(LOG), at(CONFIG))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn results() -> Results {
        let drop = DropStatus {
            module: "ttl".to_owned(),
            reason: "expired".to_owned(),
            kind: DropKind::Punt,
            rfc: Some("RFC 1812 5.3.1".to_owned()),
            packets: 1,
            per_worker: vec![1],
        };
        Results {
            ping: Replies { loss: 0, sent: 10, received: 10, rtt_ms: None },
            ping6: Replies { loss: 10, sent: 10, received: 9, rtt_ms: None },
            traceroute: vec!["10.0.1.1".to_owned(), "10.0.2.2".to_owned()],
            iperf3: Iperf { gbps: 1.25, retransmits: 3 },
            accounts: Accounts { hosts: Hosts::default(), perigee: Perigee::default(), drops: vec![drop] },
        }
    }

    #[test]
    fn json_has_what_programs_ask_for() {
        let json: Value = serde_json::from_str(&json(&results()).unwrap()).unwrap();
        assert_eq!(json["ping"]["loss"], 0);
        assert_eq!(json["traceroute"][0], "10.0.1.1");
        assert_eq!(json["iperf3"]["gbps"], 1.25);
        let drop = r#"[{"module":"ttl","reason":"expired","kind":"punt","rfc":"RFC 1812 5.3.1","packets":1}]"#;
        assert_eq!(json["drops"], serde_json::from_str::<Value>(drop).unwrap());
    }

    #[test]
    fn text_fits_a_terminal() {
        let text = text(&results());
        assert!(text.contains("9 of 10, 10 % loss") && text.contains("1.25 Gbit/s"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
