// SPDX-License-Identifier: MIT
//! Linux is the control plane: what `ip`, BIRD and FRR say there, the router does.
//!
//! | file | contents |
//! | --- | --- |
//! | `mod.rs` | what is known of Linux, and the turns in which its updates are taken |
//! | `routes.rs` | one route that is there or gone |
//! | `translate.rs` | Linux' routes in the router's words |
//! | `dump.rs` | a dump against what is there: only what differs changes |
//! | `audit.rs` | Linux, RIB and lookup structures compared |
//! | `links.rs` | links and addresses to interfaces, and the other way round |
//! | `neighbors.rs` | neighbors, both ways |
//! | `twins.rs` | twins and namespaces that went away are made anew |
//! | `errands.rs` | what the helper is asked without waiting |
//! | `status.rs` | `perigee show linux` |
//!
//! Updates come through a channel and are taken in turns of bounded time, but for the end of a dump; whatever the helper has to
//! do is done by another thread.

mod audit;
pub(crate) mod dump;
pub(crate) mod errands;
mod links;
mod neighbors;
mod routes;
mod status;
pub mod translate;
pub mod twins;

use crate::slow::SlowThread;
use audit::Audit;
use dump::Seen;
use errands::Errands;
use perigee_api::Reply;
use perigee_config::Linux as Config;
use perigee_net::{InterfaceAddress, InterfaceId, MacAddr, Prefix, RouteKey};
use perigee_netlink::message::{Link, Message, NextHopTo};
use perigee_netlink::{Source, Update};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use translate::{NextHops, Policy, Skip};

/// How long one turn may take, in ns: packets that wait for the slow path wait no longer for routes.
const TURN: u64 = 2_000_000;
/// Messages between two looks at the clock.
const STRIDE: usize = 32;
/// A table that has to be built anew for each commit is not, more often than this while changes keep coming, in ns.
pub(crate) const COMMIT_PAUSE: u64 = 250_000_000;

/// The feeds that a router follows; whoever starts it opens them.
#[derive(Default)]
pub struct LinuxFeeds {
    /// The twins' namespace.
    pub netlink: Option<Box<dyn Source>>,
    /// Routes alone, if they come from elsewhere.
    pub routes: Option<Box<dyn Source>>,
    /// The links of the router's own namespace, which are under its ports.
    pub underlay: Option<Box<dyn Source>>,
}

/// A feed, and what was heard of it.
pub(crate) struct Origin {
    pub source: Box<dyn Source>,
    /// Whether its routes count.
    pub routes: bool,
    /// Next-hop objects by its numbers.
    pub next_hops: NextHops,
    /// Ids that routes have named in the last whole dump, and since.
    pub named: HashSet<u32>,
    /// The dump that is on its way.
    pub dump: Option<Seen>,
    /// The rest of an update, and whether it belongs to the dump.
    work: Option<(bool, std::vec::IntoIter<Message>)>,
    /// Dumps that have to be done before one may be for an audit: one that was asked for may have begun before it was.
    pub wanted: u8,
    /// Whether a route was left out for a link that may come to be known.
    pub missed: bool,
    /// The first dump has come.
    pub complete: bool,
    /// News were lost, or nothing comes any more.
    pub lost: bool,
}

impl Origin {
    fn new(source: Box<dyn Source>, routes: bool) -> Origin {
        let (next_hops, named) = (NextHops::new(), HashSet::new());
        Origin {
            source,
            routes,
            next_hops,
            named,
            dump: None,
            work: None,
            wanted: 0,
            missed: false,
            complete: false,
            lost: false,
        }
    }
}

impl Origin {
    /// Asks for a dump that is to be done.
    pub fn ask(&mut self) {
        self.wanted = 2;
        self.source.dump();
    }

    /// Whether the dump on its way is only compared.
    fn is_audited(&self) -> bool {
        self.dump.as_ref().is_some_and(|seen| seen.audit.is_some())
    }
}

/// A link of Linux.
pub(crate) struct Known {
    pub link: Link,
    pub addresses: Vec<InterfaceAddress>,
    /// Addresses that it had, and when they went.
    pub gone: Vec<(u64, InterfaceAddress)>,
}

/// Numbers to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinuxCounters {
    /// Routes taken over, replaced and withdrawn.
    pub changes: u64,
    /// Routes that the table refused.
    pub refused: u64,
    /// Routes left out, by reason.
    pub skips: BTreeMap<Skip, u64>,
    /// Dumps compared.
    pub resyncs: u64,
    /// What a dump showed to differ, after the first.
    pub repaired: u64,
    /// Audits begun, and the differences found.
    pub audits: u64,
    pub audit_differences: u64,
    /// The last dump: seconds from its begin to its end.
    pub resync_seconds: f64,
}

/// What is known of Linux.
pub(crate) struct LinuxSide {
    pub config: Config,
    policy: Policy,
    /// Netlink first.
    pub origins: Vec<Origin>,
    pub underlay: Option<Box<dyn Source>>,
    /// Links under ports that have no carrier.
    no_carrier: BTreeSet<String>,
    pub errands: Option<Errands>,
    pub links: BTreeMap<u32, Known>,
    /// The interfaces behind links.
    by_link: HashMap<u32, InterfaceId>,
    /// Links or addresses have changed since interfaces were set.
    stale: bool,
    /// Neighbors that somebody has set by hand.
    permanent: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    /// What Linux has to be told of neighbors.
    told: BTreeMap<(InterfaceId, IpAddr), Option<MacAddr>>,
    /// IPv4 routes of which Linux has several with one metric: when the first goes, another takes its place, unsaid.
    appended: BTreeSet<(Prefix, RouteKey)>,
    /// IPv6 routes that the last dump did not name.
    doubtful: BTreeSet<(Prefix, RouteKey)>,
    /// Ports whose twins are being made anew.
    making: BTreeSet<usize>,
    /// Ports whose twins are to be made anew, with the addresses that they had.
    twinless: BTreeMap<usize, Vec<InterfaceAddress>>,
    /// The namespace's file as it was, to see whether it is the same.
    identity: Option<(u64, u64)>,
    namespace_gone: bool,
    /// Whether the sockets were asked for again.
    reopening: bool,
    /// Whether that has to be done again.
    retry: bool,
    pub counters: LinuxCounters,
    pub audit: Option<Audit>,
    next_audit: u64,
    /// Who waits for a dump: until so many have been compared.
    waiting: Vec<(u64, Reply)>,
    /// Said once of routes that are refused.
    complained: bool,
    /// When changes were made visible last.
    pub committed: u64,
}

impl LinuxSide {
    pub fn new(config: Config, feeds: LinuxFeeds, errands: Option<Errands>, identity: Option<(u64, u64)>) -> Self {
        use perigee_config::Feed;
        let LinuxFeeds { netlink, routes, underlay } = feeds;
        let netlink = netlink.map(|source| Origin::new(source, config.feed == Feed::Netlink));
        let routes = routes.map(|source| Origin::new(source, true));
        LinuxSide {
            policy: Policy::new(&config),
            config,
            origins: netlink.into_iter().chain(routes).collect(),
            underlay,
            no_carrier: BTreeSet::new(),
            errands,
            links: BTreeMap::new(),
            by_link: HashMap::new(),
            stale: false,
            permanent: BTreeMap::new(),
            told: BTreeMap::new(),
            appended: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            making: BTreeSet::new(),
            twinless: BTreeMap::new(),
            identity,
            namespace_gone: false,
            reopening: false,
            retry: false,
            counters: LinuxCounters::default(),
            audit: None,
            next_audit: 0,
            waiting: Vec::new(),
            complained: false,
            committed: 0,
        }
    }

    /// Other rules for which routes are followed: all are looked at again.
    pub fn set_config(&mut self, config: Config) {
        if self.config != config {
            self.policy = Policy::new(&config);
            self.config = config;
            self.dump_all();
        }
    }

    /// Interfaces have other numbers than before.
    pub fn interfaces_renumbered(&mut self) {
        self.by_link.clear();
        self.permanent.clear();
        self.stale = true;
        self.dump_all();
    }

    /// Asks every feed for all it knows.
    fn dump_all(&mut self) {
        self.origins.iter_mut().for_each(Origin::ask);
    }

    /// Links are known now that were not: zebra is to say again what was left out for them. The kernel is asked anyway.
    fn ask_for_what_was_missed(&mut self) {
        for origin in self.origins.iter_mut().skip(1).filter(|origin| origin.missed) {
            origin.missed = false;
            origin.ask();
        }
    }

    /// Whether a neighbor was set by hand in Linux.
    pub fn is_by_hand(&self, interface: InterfaceId, address: IpAddr) -> bool {
        self.permanent.contains_key(&(interface, address))
    }

    /// Asks the kernel for all it knows.
    pub fn dump(&mut self) {
        if let Some(origin) = self.origins.first_mut() {
            origin.ask();
        }
    }

    /// Asks the kernel for a dump that is only compared.
    pub fn dump_for_audit(&mut self) {
        if let Some(origin) = self.origins.first_mut() {
            origin.source.dump();
        }
    }

    /// Asks for the routes again: the kernel has taken some away without a word.
    fn suspect(&mut self) {
        if let Some(origin) = self.origins.first_mut().filter(|origin| origin.routes) {
            origin.ask();
        }
    }

    /// Whether there is more to take at once.
    pub fn busy(&self) -> bool {
        self.origins.iter().any(|origin| origin.work.is_some())
    }
}

/// What a turn takes next.
enum Piece {
    Begins,
    Ends { complete: bool },
    Lost,
    Broken(String),
    Message { dumped: bool, message: Message },
}

impl SlowThread {
    /// Takes updates for a bounded time; whether there were any.
    pub(crate) fn follow_linux(&mut self) -> bool {
        let start = (self.parts.clock)();
        let mut taken = 0usize;
        for at in 0..self.linux.origins.len() {
            // What zebra says of links means nothing before the kernel has named them.
            if at > 0 && !self.linux.origins[0].complete {
                break;
            }
            while let Some(piece) = self.next_piece(at) {
                self.take_piece(at, piece);
                taken += 1;
                if taken.is_multiple_of(STRIDE) && (self.parts.clock)() - start > TURN {
                    break;
                }
            }
        }
        self.follow_underlay();
        self.follow_errands();
        self.refresh_interfaces();
        if taken > 0 {
            self.follow_gateways();
            self.carry_out();
        }
        self.tell_neighbors();
        self.answer_resyncs();
        taken > 0
    }

    fn next_piece(&mut self, at: usize) -> Option<Piece> {
        let origin = &mut self.linux.origins[at];
        loop {
            if let Some((dumped, messages)) = &mut origin.work {
                if let Some(message) = messages.next() {
                    return Some(Piece::Message { dumped: *dumped, message });
                }
                origin.work = None;
            }
            match origin.source.next()? {
                Update::DumpBegins => return Some(Piece::Begins),
                Update::DumpEnds { complete } => return Some(Piece::Ends { complete }),
                Update::Lost => return Some(Piece::Lost),
                Update::Broken(why) => return Some(Piece::Broken(why)),
                Update::Dumped(messages) => origin.work = Some((true, messages.into_iter())),
                Update::News(messages) => origin.work = Some((false, messages.into_iter())),
            }
        }
    }

    fn take_piece(&mut self, at: usize, piece: Piece) {
        match piece {
            Piece::Begins => {
                let now = (self.parts.clock)();
                let audit = self.dump_is_for_audit(at);
                let origin = &mut self.linux.origins[at];
                if !audit {
                    origin.wanted = origin.wanted.saturating_sub(1);
                }
                origin.dump = Some(Seen::new(now, audit));
            }
            Piece::Ends { complete } => self.dump_ends(at, complete),
            Piece::Lost => {
                self.linux.origins[at].lost = true;
                tracing::info!("Linux had no room for its news: everything is read again");
            }
            Piece::Broken(why) => {
                self.linux.origins[at].lost = true;
                self.give_up_audit("Linux is not followed any more");
                self.linux.waiting.clear();
                tracing::error!("Linux is not followed any more: {why}; it is tried again");
                self.reopen();
            }
            Piece::Message { dumped, message } => self.take_message(at, dumped, message),
        }
    }

    fn take_message(&mut self, at: usize, dumped: bool, message: Message) {
        let origin = &mut self.linux.origins[at];
        match message {
            // A difference is noted, and nothing more.
            Message::Route(route) if dumped && origin.is_audited() => self.audit_route(at, &route),
            Message::Route(route) if origin.routes => self.route_is_there(at, dumped, &route),
            Message::RouteGone(route) if origin.routes => self.route_is_gone(at, &route),
            Message::Route(_) | Message::RouteGone(_) => {}
            Message::NextHop(next_hop) => {
                if let Some(seen) = origin.dump.as_mut().filter(|_| dumped) {
                    seen.next_hops.insert(next_hop.id);
                }
                let before = origin.next_hops.insert(next_hop.id, next_hop.to);
                self.next_hop_changed(at, next_hop.id, before);
            }
            Message::NextHopGone(id) => {
                let before = origin.next_hops.remove(&id);
                self.next_hop_changed(at, id, before);
            }
            Message::Link(link) => self.link_is_there(at, dumped, link),
            Message::LinkGone(index) => self.link_is_gone(index),
            Message::Address(address) => self.address_is_there(at, dumped, &address),
            Message::AddressGone(address) => self.address_is_gone(&address),
            Message::Neighbor(neighbor) => self.neighbor_is_there(at, dumped, &neighbor),
            Message::NeighborGone(neighbor) => self.neighbor_is_gone(&neighbor),
        }
    }

    /// The kernel says of each route what becomes of it when its next-hop object changes, unless it was told not to
    /// (nexthop_compat_mode); but routes of an object that is deleted go without a word.
    fn next_hop_changed(&mut self, at: usize, id: u32, before: Option<NextHopTo>) {
        let origin = &mut self.linux.origins[at];
        let now = origin.next_hops.get(&id);
        // zebra withdraws the routes of an object before the object.
        let unsaid = now.is_some() || at == 0;
        if unsaid && before.is_some_and(|before| now != Some(&before)) && origin.named.contains(&id) {
            origin.ask();
        }
    }
}
