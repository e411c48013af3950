// SPDX-License-Identifier: MIT
//! The results of `perigee demo --bgp`: as text and as JSON.

use super::bgp::{ROUTES, Results, Table};
use super::report::{AccountsJson, accounts_text, ping};
use super::world::{CLIENT, SERVER};
use anyhow::Result;
use indicatif::HumanCount;
use perigee_lab::Replies;
use serde::Serialize;

/// The results as JSON.
#[derive(Serialize)]
struct Json<'a> {
    bgp: Bgp<'a>,
    #[serde(flatten)]
    accounts: AccountsJson<'a>,
}

#[derive(Serialize)]
struct Bgp<'a> {
    routes: usize,
    session_seconds: f64,
    announced: &'a Table,
    pings: Vec<Pinged<'a>>,
    withdrawn: &'a Table,
    answered_after: u64,
    no_route_after: u64,
    announced_again: &'a Table,
    pings_again: Vec<Pinged<'a>>,
}

#[derive(Serialize)]
struct Pinged<'a> {
    address: &'a str,
    ping: &'a Replies,
}

/// The results as JSON.
pub fn json(results: &Results) -> Result<String> {
    fn pinged(pings: &[(String, Replies)]) -> Vec<Pinged<'_>> {
        pings.iter().map(|(address, ping)| Pinged { address, ping }).collect()
    }
    let Results { session, announced, pings, withdrawn, left, no_route, again, pings_again, accounts } = results;
    let bgp = Bgp {
        routes: ROUTES,
        session_seconds: *session,
        announced,
        pings: pinged(pings),
        withdrawn,
        answered_after: *left,
        no_route_after: *no_route,
        announced_again: again,
        pings_again: pinged(pings_again),
    };
    Ok(serde_json::to_string_pretty(&Json { bgp, accounts: AccountsJson::new(accounts) })? + "\n")
}

/// The results as text.
pub fn text(results: &Results) -> String {
    let Results { session, announced, pings, withdrawn, left, no_route, again, pings_again, accounts } = results;
    let mut lines = vec![
        String::new(),
        format!(
            "  {} {}  ───  {} perigee {}  ───  {} {}",
            CLIENT.name, CLIENT.v4, CLIENT.router_v4, SERVER.router_v4, SERVER.v4, SERVER.name
        ),
        format!("{:37}BIRD, AS 65001  ◄── BGP ──►  BIRD, AS 65002", ""),
        String::new(),
        format!("  session      after {session:.1} s"),
        format!("  announced    {}", table(announced)),
        format!("  ping         {}", ping(&together(pings))),
        format!("  withdrawn    {}", table(withdrawn)),
        format!(
            "  ping         {left} of these networks answer, {no_route} have no route: so says {}",
            CLIENT.router_v4
        ),
        format!("  again        {}", table(again)),
        format!("  ping         {}", ping(&together(pings_again))),
        String::new(),
    ];
    lines.extend(accounts_text(accounts));
    lines.join("\n") + "\n"
}

fn table(table: &Table) -> String {
    let Table { linux, perigee, seconds } = table;
    format!("{} routes in Linux, {} in perigee after {seconds:.2} s", HumanCount(*linux), HumanCount(*perigee))
}

/// Sums up all pings.
fn together(pings: &[(String, Replies)]) -> Replies {
    let sent = pings.iter().map(|(_, ping)| ping.sent).sum::<u64>();
    let received = pings.iter().map(|(_, ping)| ping.received).sum::<u64>();
    Replies { loss: (100 * sent.saturating_sub(received)).div_ceil(sent.max(1)), sent, received, rtt_ms: None }
}

#[cfg(test)]
mod tests {
    use super::super::account::{Accounts, Hosts, Perigee};
    use super::*;
    use serde_json::Value;

    fn results() -> Results {
        let table = |linux, seconds| Table { linux, perigee: linux, seconds };
        let ping = || vec![("20.0.0.1".to_owned(), Replies { loss: 0, sent: 5, received: 5, rtt_ms: None })];
        Results {
            session: 1.25,
            announced: table(10_000, 0.5),
            pings: ping(),
            withdrawn: table(5000, 0.25),
            left: 3,
            no_route: 3,
            again: table(10_000, 0.5),
            pings_again: ping(),
            accounts: Accounts { hosts: Hosts::default(), perigee: Perigee::default(), drops: Vec::new() },
        }
    }

    #[test]
    fn json_has_what_programs_ask_for() {
        let json: Value = serde_json::from_str(&json(&results()).unwrap()).unwrap();
        assert_eq!(json["bgp"]["announced"]["perigee"], 10_000);
        assert_eq!(json["bgp"]["withdrawn"]["seconds"], 0.25);
        assert_eq!(json["bgp"]["pings"][0]["ping"]["loss"], 0);
        assert_eq!(json["counters_agree"], true);
    }

    #[test]
    fn text_fits_a_terminal() {
        let text = text(&results());
        assert!(text.contains("5,000 routes in Linux, 5,000 in perigee after 0.25 s"), "{text}");
        assert!(text.contains("5 of 5, 0 % loss"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
