// SPDX-License-Identifier: MIT
//! Linux's policy rules (`ip rule`).
//!
//! The router has one table. A rule that leads other packets to another table is followed as far as addresses,
//! protocol, ports, type of service and port say which packets those are: they are Linux's. One that leads all packets
//! to a table that is not followed makes that table's routes Linux's. Packets that come in by a port have no mark, and
//! Linux takes them for those of user 0: rules that ask for a mark or another user do not match.
//!
//! ```text
//!  0:      from all lookup local             ── ignored: the router knows its own addresses
//!  100:    from 10.1.0.0/16 lookup 100       ── an exception: such packets are Linux's
//!  200:    from all lookup 200               ── the routes of table 200 are Linux's, whatever longer ones `main` has
//!  300:    from all lookup main suppress_prefixlength 0
//!  400:    not from all fwmark 1 lookup 400  ── the routes of table 400 are Linux's, unless `main` has a longer one
//!  32766:  from all lookup main              ── the tables that are followed: rules behind it make no difference
//! ```

use crate::follower::{Follower, Known};
use crate::translate::Precedence;
use perigee_net::{Exception, ExceptionCause, FiveTuple, InterfaceId, Prefix, Selector};
use perigee_netlink::message::{Rule, RuleAction};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The table of addresses that are this machine's.
const LOCAL: u32 = 255;

/// What the rules mean for the router.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Packets that are Linux's.
    pub exceptions: Vec<Exception>,
    /// Tables whose routes are Linux's, by whether they are IPv6's and by number.
    pub tables: BTreeMap<(bool, u32), Precedence>,
    /// A sentence about each rule that makes a difference.
    pub said: Vec<String>,
}

/// What a rule asks of a packet.
enum About {
    /// No packet that comes in by a port matches.
    None,
    /// All do.
    All,
    /// These do.
    Some(Exception),
    /// Some of these do, and Linux alone knows which.
    Unclear(Exception),
}

/// What the rules are read with.
pub(crate) struct Reading<'a> {
    /// The tables that are followed.
    pub tables: &'a [u32],
    /// Whether the routes of other tables are reported.
    pub others_are_known: bool,
    /// Finds the port of an interface's name; `Some(None)`: packets come in there by several.
    pub port: &'a dyn Fn(&str) -> Option<Option<InterfaceId>>,
}

impl Rules {
    /// The meaning of these rules.
    pub fn new(rules: &[Rule], reading: &Reading<'_>) -> Rules {
        let mut meaning = Rules::default();
        for is_v6 in [false, true] {
            let mut sorted: Vec<&Rule> = rules.iter().filter(|rule| rule.is_v6 == is_v6).collect();
            sorted.sort_by_key(|rule| rule.priority);
            // Rules behind the last of the followed tables make no difference.
            let led_to = |rule: &&Rule| match (about(rule, reading), rule.action, rule.suppressed) {
                (About::All, RuleAction::Table(table), None) => reading.tables.contains(&table).then_some(table),
                _ => None,
            };
            let mut ahead: BTreeSet<u32> = sorted.iter().filter_map(led_to).collect();
            let mut precedence = Precedence::Any;
            for rule in sorted {
                meaning.follow(rule, reading, &mut precedence);
                if let Some(table) = led_to(&rule)
                    && ahead.remove(&table)
                    && ahead.is_empty()
                {
                    break;
                }
            }
        }
        meaning
    }

    /// Takes the next rule.
    fn follow(&mut self, rule: &Rule, reading: &Reading<'_>, precedence: &mut Precedence) {
        let is_followed = matches!(rule.action, RuleAction::Table(table) if reading.tables.contains(&table));
        match (about(rule, reading), rule.action) {
            (About::None, _) => {
                let sentence = || sentence(rule, "packets that come in by a port do not match");
                self.said.extend(rule.asks_for_more.then(sentence));
            }
            // A VRF's table is for packets that come in by the VRF.
            _ if rule.by_vrf => {}
            (_, RuleAction::Nothing) => {}
            (About::All, RuleAction::Table(LOCAL)) => {}
            (About::All, RuleAction::Table(_)) if is_followed => match rule.suppressed {
                None => {}
                Some(0) => *precedence = Precedence::Longest,
                // Routes of the followed tables are used that Linux does not use.
                Some(_) => self.except(rule, all(rule.is_v6)),
            },
            (About::All, RuleAction::Table(_)) if !reading.others_are_known => {
                let cause = match precedence {
                    Precedence::Any => ExceptionCause::Rule,
                    Precedence::Longest => ExceptionCause::Route,
                };
                self.except(rule, Exception { cause, ..all(rule.is_v6) });
            }
            (About::All, RuleAction::Table(table)) => {
                self.said.push(sentence(rule, "the routes of that table are Linux's"));
                self.tables.entry((rule.is_v6, table)).or_insert(*precedence);
            }
            (About::All, _) => self.except(rule, all(rule.is_v6)),
            // As the packets would be looked up without it.
            (About::Some(_), RuleAction::Table(_))
                if is_followed && self.tables.is_empty() && rule.suppressed.is_none() => {}
            (About::Some(exception) | About::Unclear(exception), _) => self.except(rule, exception),
        }
    }

    fn except(&mut self, rule: &Rule, exception: Exception) {
        self.said.push(sentence(rule, "such packets are Linux's"));
        self.exceptions.push(exception);
    }
}

/// All packets of a family.
fn all(is_v6: bool) -> Exception {
    let any: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let tuple = FiveTuple { dst: Prefix::truncated(any, 0).ok(), ..FiveTuple::default() };
    Exception { tuple, tos: None, input: None, cause: ExceptionCause::Rule }
}

/// Which packets a rule is about. In doubt these are more than in Linux, which decides about them.
fn about(rule: &Rule, reading: &Reading<'_>) -> About {
    let base = all(rule.is_v6);
    let (input, several) = match rule.input.as_deref().map(reading.port) {
        None => (None, false),
        Some(Some(port)) => (port, port.is_none()),
        // What comes in there does not come in by a port.
        Some(None) if !rule.inverted => return About::None,
        Some(None) => (None, true),
    };
    // What is not known may be a part of the ports and the type of service, such as a mask.
    let is_known = rule.unknown.is_none();
    let tuple = FiveTuple {
        src: rule.source,
        dst: rule.destination.or(base.tuple.dst),
        proto: rule.protocol,
        sport: rule.source_ports.filter(|_| is_known),
        dport: rule.destination_ports.filter(|_| is_known),
    };
    let selector = Selector { source: None, tos: rule.tos, metric: 0 };
    let exception = Exception { tuple, tos: selector.tos().filter(|_| is_known), input, ..base.clone() };
    let is_all = exception == base && !several && is_known;
    match () {
        () if rule.inverted && is_all => About::All,
        () if rule.inverted => About::Unclear(base),
        () if rule.asks_for_more => About::None,
        () if is_all => About::All,
        () if several || !is_known => About::Unclear(exception),
        () => About::Some(exception),
    }
}

/// The rule as `ip rule` writes it, and what comes of it.
fn sentence(rule: &Rule, what: &str) -> String {
    let mut text = format!("{}:", rule.priority);
    if rule.inverted {
        text.push_str(" not");
    }
    match (rule.source, rule.is_v6) {
        (Some(source), _) => drop(write!(text, " from {source}")),
        (None, _) => text.push_str(" from all"),
    }
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(text, " {name} {value}");
        }
    };
    field("to", rule.destination.map(|to| to.to_string()));
    field("tos", (rule.tos != 0).then(|| format!("0x{:02x}", rule.tos)));
    field("iif", rule.input.clone());
    field("ipproto", rule.protocol.map(|protocol| protocol.to_string()));
    field("sport", rule.source_ports.map(|ports| ports.to_string()));
    field("dport", rule.destination_ports.map(|ports| ports.to_string()));
    if rule.asks_for_more {
        text.push_str(" with a mark, a user, an output or a tunnel");
    }
    match rule.action {
        RuleAction::Table(table) => drop(write!(text, " lookup {}", perigee_config::table_name(table))),
        RuleAction::Refuse => text.push_str(" refused"),
        RuleAction::Jump(to) => drop(write!(text, " goto {to}")),
        RuleAction::Nothing => text.push_str(" nop"),
        RuleAction::Unknown(action) => drop(write!(text, " action {action}")),
    }
    if let Some(length) = rule.suppressed {
        let _ = write!(text, " suppress_prefixlength {length}");
    }
    let family = if rule.is_v6 { "IPv6 rule" } else { "rule" };
    format!("{family} {text}: {what}")
}

impl Follower {
    pub(crate) fn rule_is_there(&mut self, dumped: bool, rule: Rule) {
        let kernel = self.feeds.first_mut();
        if let Some(seen) = kernel.and_then(|feed| feed.dump_of(dumped)) {
            seen.rules.push(rule);
            return;
        }
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
            self.rules_changed();
        }
    }

    pub(crate) fn rule_is_gone(&mut self, rule: &Rule) {
        if let Some(at) = self.rules.iter().position(|other| other == rule) {
            self.rules.remove(at);
            self.rules_changed();
        }
    }

    /// A dump has named all rules, which stand before the routes.
    pub(crate) fn rules_seen(&mut self) {
        let Some(seen) = self.feeds.first_mut().and_then(|feed| feed.dump.as_mut()) else { return };
        if seen.audit.is_none() && !std::mem::replace(&mut seen.rules_are_complete, true) {
            let rules = std::mem::take(&mut seen.rules);
            if rules != self.rules {
                self.rules = rules;
                self.rules_changed();
            }
        }
    }

    /// Follows other rules, or interfaces of other names.
    pub(crate) fn rules_changed(&mut self) {
        let port = |name: &str| {
            let (link, _) = self.links.iter().find(|(_, known)| known.link.name == name)?;
            let is_member = |known: &Known| known.link.master.as_ref().is_some_and(|master| master.index == *link);
            let has_ports = || self.by_link.keys().filter_map(|link| self.links.get(link)).any(is_member);
            match self.by_link.get(link) {
                Some(id) => Some(Some(*id)),
                None => has_ports().then_some(None),
            }
        };
        let others_are_known = self.feeds.first().is_some_and(|kernel| kernel.routes);
        let reading = Reading { tables: &self.setup.linux.tables, others_are_known, port: &port };
        let now = Rules::new(&self.rules, &reading);
        if now == self.meaning {
            return;
        }
        for sentence in now.said.iter().filter(|sentence| !self.meaning.said.contains(sentence)) {
            tracing::warn!("Linux has the policy {sentence} (`perigee show linux` lists such rules)");
        }
        if now.tables != self.policy.ruled {
            self.policy.ruled.clone_from(&now.tables);
            self.dump_all();
        }
        self.meaning = now;
        self.stale = true;
        self.exceptions_changed = true;
    }
}
