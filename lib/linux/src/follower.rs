// SPDX-License-Identifier: MIT
//! The state of the follower, and where each input goes.

use crate::audit::Audit;
use crate::dump::Seen;
use crate::feed::Feed;
use crate::left_out::Named;
use crate::limit::Limit;
use crate::multicast::Multicast;
use crate::proxies::Proxies;
use crate::rules::Rules;
use crate::settings::Settings;
use crate::status::Counters;
use crate::translate::Policy;
use crate::{Effect, FeedId, HelperRequest, Identity, Input, Report, Setup, Table};
use perigee_config::{Feed as FeedChoice, Linux, Neighbor, Stack};
use perigee_net::{Exception, InterfaceAddress, InterfaceId, LinuxOnly, MacAddr, Prefix, RouteKey};
use perigee_netlink::message::{Address, Link, Message, Rule};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// How often twins and namespace are checked, in ns.
const TICK: u64 = 250_000_000;

/// A neighbor: its address means something only together with its link.
pub(crate) type NeighborKey = (InterfaceId, IpAddr);

/// A route: its prefix, and the key that distinguishes it from others to that prefix.
pub(crate) type RouteId = (Prefix, RouteKey);

/// A link of Linux.
pub(crate) struct Known {
    pub link: Link,
    pub addresses: Vec<Address>,
    /// Addresses that it has lost, and when.
    pub gone: Vec<(u64, InterfaceAddress)>,
}

/// The state machine that follows Linux.
pub struct Follower {
    pub(crate) setup: Setup,
    pub(crate) policy: Policy,
    /// The kernel's first.
    pub(crate) feeds: Vec<Feed>,
    pub(crate) links: BTreeMap<u32, Known>,
    /// The interfaces behind links.
    pub(crate) by_link: HashMap<u32, InterfaceId>,
    /// Links that a complete dump has named.
    pub(crate) named_links: BTreeSet<u32>,
    /// Links or addresses have changed since interfaces were set.
    pub(crate) stale: bool,
    /// Neighbors that operators have set in Linux.
    pub(crate) permanent: BTreeMap<NeighborKey, MacAddr>,
    /// Neighbors that have yet to be reported to Linux.
    pub(crate) unreported: BTreeMap<NeighborKey, Option<MacAddr>>,
    /// Neighbors that the router has put into Linux, as it wrote them last.
    pub(crate) in_linux: HashMap<NeighborKey, MacAddr>,
    /// Neighbors that somebody has changed in Linux, with what was taken over of each.
    pub(crate) by_hand: HashMap<NeighborKey, MacAddr>,
    /// Neighbors with the MAC address of a group in Linux, by link.
    pub(crate) group_neighbors: BTreeMap<(u32, IpAddr), MacAddr>,
    /// Those that it has taken out again, and how often: Linux has yet to say so.
    pub(crate) taken_out: HashMap<NeighborKey, u32>,
    /// Neighbors that Linux has not heard from for a while, where it does not see what is sent to them.
    pub(crate) unconfirmed: BTreeSet<(u32, IpAddr)>,
    /// The order in which Linux is to ask them. Some may have answered meanwhile.
    pub(crate) to_confirm: VecDeque<(u32, IpAddr)>,
    /// IPv4 routes of which Linux has several with one metric: when the first goes, another takes its place without a
    /// notification.
    pub(crate) appended: BTreeSet<RouteId>,
    /// IPv6 routes that the last dump did not name.
    pub(crate) doubtful: BTreeSet<RouteId>,
    pub(crate) multicast: Multicast,
    /// Linux's settings of its links.
    pub(crate) settings: Settings,
    pub(crate) proxies: Proxies,
    /// Where the router does not do what Linux's interfaces say, by link.
    pub(crate) differences: BTreeSet<(u32, String)>,
    /// Ports whose twins are being made again.
    pub(crate) making: BTreeSet<usize>,
    /// Ports whose twins have to be made again, with the addresses that they had.
    pub(crate) twinless: BTreeMap<usize, Vec<InterfaceAddress>>,
    /// The namespace's identity at the last check.
    pub(crate) identity: Option<Identity>,
    pub(crate) namespace_gone: bool,
    /// Whether the sockets were asked for again.
    pub(crate) reopening: bool,
    /// Whether that failed and has to be repeated.
    pub(crate) retry: bool,
    pub(crate) audit: Option<Audit>,
    /// When the next audit by the configuration is due; `None` before the first call with a time.
    pub(crate) next_audit: Option<u64>,
    pub(crate) counters: Counters,
    /// Changes with each change of Linux's routes in the table.
    pub(crate) version: u64,
    /// Whether a refused route has been logged.
    pub(crate) complained: bool,
    /// Routes that there is no room for.
    pub(crate) limit: Limit,
    /// Some of the routes that are left out.
    pub(crate) named_left_out: Named,
    /// The routes that Linux alone can forward by.
    pub(crate) linux_only: BTreeMap<RouteId, LinuxOnly>,
    /// Whether a route has an MTU.
    pub(crate) has_mtus: bool,
    /// The packets that need a closer look, by the route that asks for it.
    pub(crate) exceptions: BTreeMap<RouteId, Exception>,
    /// They have changed since they were passed on.
    pub(crate) exceptions_changed: bool,
    /// Linux's policy rules.
    pub(crate) rules: Vec<Rule>,
    /// What they mean here.
    pub(crate) meaning: Rules,
    /// The reasons for which a log line has named such a route.
    pub(crate) said: BTreeSet<LinuxOnly>,
    next_tick: u64,
    effects: VecDeque<Effect>,
}

impl Follower {
    /// A follower that does not know anything of Linux yet.
    pub fn new(setup: Setup) -> Follower {
        let netlink = setup.linux.feed == FeedChoice::Netlink;
        let feed = |id: &FeedId| Feed::new(*id, *id == FeedId::Zebra || netlink);
        Follower {
            policy: Policy::new(&setup.linux),
            feeds: setup.feeds.iter().map(feed).collect(),
            identity: setup.identity,
            setup,
            links: BTreeMap::new(),
            by_link: HashMap::new(),
            named_links: BTreeSet::new(),
            stale: false,
            permanent: BTreeMap::new(),
            unreported: BTreeMap::new(),
            in_linux: HashMap::new(),
            by_hand: HashMap::new(),
            group_neighbors: BTreeMap::new(),
            taken_out: HashMap::new(),
            unconfirmed: BTreeSet::new(),
            to_confirm: VecDeque::new(),
            appended: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            multicast: Multicast::default(),
            settings: Settings::default(),
            proxies: Proxies::default(),
            differences: BTreeSet::new(),
            making: BTreeSet::new(),
            twinless: BTreeMap::new(),
            namespace_gone: false,
            reopening: false,
            retry: false,
            audit: None,
            next_audit: None,
            counters: Counters::default(),
            version: 0,
            complained: false,
            limit: Limit::default(),
            named_left_out: Named::default(),
            linux_only: BTreeMap::new(),
            has_mtus: false,
            exceptions: BTreeMap::new(),
            exceptions_changed: false,
            rules: Vec::new(),
            meaning: Rules::default(),
            said: BTreeSet::new(),
            next_tick: 0,
            effects: VecDeque::new(),
        }
    }

    /// Takes an input at a time in ns; never fails.
    pub fn handle(&mut self, now: u64, input: Input, table: &mut dyn Table) {
        match input {
            Input::Reported(feed, report) => self.reported(now, feed, report, table),
            Input::PortLink { port, up } => self.port_link(port, up),
            Input::Neighbor { interface, address, mac } => self.neighbor_for_linux((interface, address), mac),
            Input::LinkChanged(change) => self.link_changed(&change),
            Input::Namespace(identity) => self.namespace_is(identity),
            Input::TwinMade { port, link } => self.twin_made(port, link),
            Input::TwinFailed { port, addresses } => self.twin_failed(port, &addresses),
            Input::Reopened => self.reopened(),
            Input::ReopenFailed => (self.reopening, self.retry) = (false, true),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, in ns.
    pub fn next_timeout(&self) -> u64 {
        self.next_tick
    }

    /// Begins what is due: making lost twins again, an audit. To be called after an [`Input::Namespace`].
    pub fn handle_timeout(&mut self, now: u64, table: &dyn Table) {
        self.next_tick = now + TICK;
        self.repair_twins(table);
        self.confirm_neighbors();
        self.refill(now, table);
        self.audit_when_due(now);
    }

    /// Brings interfaces and Linux's neighbors up to date with the inputs so far.
    pub fn settle(&mut self, table: &mut dyn Table) {
        self.refresh_interfaces(table);
        self.refresh_connected(table);
        self.refresh_multicast(table);
        self.refresh_exceptions(table);
        self.report_neighbors();
    }

    /// What the caller has to do next, if anything.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Takes a new configuration after a reload: which routes are followed, and its own addresses and neighbors.
    pub fn configure(
        &mut self,
        linux: Linux,
        addresses: Vec<Vec<InterfaceAddress>>,
        configured: usize,
        neighbors: Vec<Neighbor>,
    ) {
        for (port, addresses) in self.setup.ports.iter_mut().zip(&addresses) {
            port.addresses.clone_from(addresses);
        }
        (self.setup.addresses, self.stale) = (addresses, true);
        (self.setup.configured, self.setup.neighbors) = (configured, neighbors);
        if self.setup.linux != linux {
            let ruled = std::mem::take(&mut self.policy.ruled);
            self.policy = Policy::new(&linux);
            self.policy.ruled = ruled;
            self.setup.linux = linux;
            self.exceptions_changed = true;
            self.rules_changed();
            self.dump_all();
        }
    }

    /// Takes note that interfaces have new numbers after a reload.
    pub fn interfaces_renumbered(&mut self) {
        self.by_link.clear();
        self.permanent.clear();
        self.by_hand.clear();
        self.proxies.renumber();
        self.version += 1;
        (self.stale, self.multicast.stale) = (true, true);
        self.dump_all();
    }

    /// Asks the kernel for everything again. It is done when [`Status::resyncs`](crate::Status::resyncs) has reached
    /// the returned number; `None` if Linux is not followed.
    pub fn resync(&mut self) -> Option<u64> {
        self.feeds.first()?;
        // A dump in progress may already have passed the part that this one is requested for.
        let under_way = self.feeds.iter().any(|feed| feed.dump.is_some());
        self.request_dump();
        Some(self.counters.resyncs + 1 + u64::from(under_way))
    }

    /// Whether a feed's reports can be used yet: zebra's mean nothing before the kernel has named the links.
    pub fn is_ready_for(&self, feed: FeedId) -> bool {
        feed == FeedId::Kernel || self.feeds.first().is_some_and(|kernel| kernel.complete)
    }

    /// Whether each feed has named everything once.
    pub fn is_complete(&self) -> bool {
        self.feeds.iter().all(|feed| feed.complete)
    }

    /// Whether an operator has set a neighbor in Linux.
    pub fn is_permanent(&self, interface: InterfaceId, address: IpAddr) -> bool {
        self.permanent.contains_key(&(interface, address))
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// There is no helper any more.
    pub fn helper_is_gone(&mut self) {
        self.setup.helper = false;
    }

    /// Whether the stack is Linux's, whose interfaces the ports are.
    pub(crate) fn is_linuxs(&self) -> bool {
        self.setup.stack == Stack::Linux
    }

    /// Asks the helper, if there is one. Nothing of Linux's own interfaces is changed.
    pub(crate) fn ask_helper(&mut self, request: HelperRequest) {
        let changes_nothing = matches!(request, HelperRequest::Sockets(_) | HelperRequest::Confirm(_));
        if self.setup.helper && (changes_nothing || !self.is_linuxs()) {
            self.effect(Effect::Helper(request));
        }
    }

    pub(crate) fn feed(&mut self, id: FeedId) -> Option<&mut Feed> {
        self.feeds.iter_mut().find(|feed| feed.id == id)
    }

    /// Asks a feed for a dump that will be applied.
    pub(crate) fn ask(&mut self, id: FeedId) {
        if let Some(feed) = self.feed(id) {
            feed.wanted = 2;
            self.effect(Effect::Dump(id));
        }
    }

    /// Asks every feed for a dump.
    pub(crate) fn dump_all(&mut self) {
        let ids: Vec<FeedId> = self.feeds.iter().map(|feed| feed.id).collect();
        ids.into_iter().for_each(|id| self.ask(id));
    }

    /// Asks the kernel for a dump.
    pub(crate) fn request_dump(&mut self) {
        self.ask(FeedId::Kernel);
    }

    /// Asks the kernel for a dump that is only compared.
    pub(crate) fn dump_for_audit(&mut self) {
        if self.feed(FeedId::Kernel).is_some() {
            self.effect(Effect::Dump(FeedId::Kernel));
        }
    }

    /// Asks for the routes again, as the kernel has removed some without a notification.
    pub(crate) fn request_resync(&mut self) {
        if self.feed(FeedId::Kernel).is_some_and(|feed| feed.routes) {
            self.request_dump();
        }
    }

    /// New links or next-hop objects are known: asks for the routes again that named unknown ones.
    pub(crate) fn ask_for_what_was_missed(&mut self) {
        let missed = |feed: &mut Feed| std::mem::take(&mut feed.missed).then_some(feed.id);
        let ids: Vec<FeedId> = self.feeds.iter_mut().filter_map(missed).collect();
        ids.into_iter().for_each(|id| self.ask(id));
    }

    fn reported(&mut self, now: u64, id: FeedId, report: Report, table: &mut dyn Table) {
        match report {
            Report::Message { dumped, message } => self.message(now, id, dumped, message, table),
            Report::DumpBegins => {
                let audit = self.dump_is_for_audit(id);
                let Some(feed) = self.feed(id) else { return };
                if !audit {
                    feed.wanted = feed.wanted.saturating_sub(1);
                }
                let is_of_routes = feed.routes;
                feed.dump = Some(Seen::new(now, audit));
                if is_of_routes && !audit {
                    self.limit.since_dump = false;
                    self.limit.refused.dump_begins();
                    self.named_left_out.clear();
                }
                if id == FeedId::Kernel && !audit {
                    // The dump names those there are.
                    self.appended.clear();
                }
            }
            Report::DumpEnds { complete } => self.dump_ends(now, id, complete, table),
            Report::Lost => {
                if let Some(feed) = self.feed(id) {
                    feed.lost = true;
                    tracing::info!("Linux had no room for its notifications: everything is read again");
                }
            }
            Report::Broken(why) => {
                if let Some(feed) = self.feed(id) {
                    feed.lost = true;
                }
                self.give_up_audit();
                self.effect(Effect::ResyncsFailed);
                tracing::error!("Linux is not followed any more: {why}; it is tried again");
                self.reopen();
            }
        }
    }

    fn message(&mut self, now: u64, id: FeedId, dumped: bool, message: Message, table: &mut dyn Table) {
        let follows = self.setup.linux.feed != FeedChoice::None;
        if dumped && id == FeedId::Kernel && matches!(message, Message::Route(_)) {
            self.rules_seen();
        }
        self.limit.dumped = dumped;
        let Some(feed) = self.feed(id) else { return };
        match message {
            // The difference is only noted.
            Message::Route(route) if dumped && feed.is_audited() => self.audit_route(id, &route, table),
            Message::Route(route) if feed.routes => self.route_is_there(id, dumped, &route, table),
            Message::RouteGone(route) if feed.routes => self.route_is_gone(id, &route, table),
            Message::Route(_) | Message::RouteGone(_) => {}
            // Zebra names none: with its feed they are the kernel's all the same.
            Message::MulticastRoute(route) if follows => self.multicast_is_there(id, dumped, route),
            Message::MulticastRouteGone(key) if follows => self.multicast_is_gone(key),
            Message::MulticastRoute(_) | Message::MulticastRouteGone(_) => {}
            Message::Rule(rule) if follows => self.rule_is_there(dumped, rule),
            Message::RuleGone(rule) if follows => self.rule_is_gone(&rule),
            Message::Rule(_) | Message::RuleGone(_) => {}
            Message::NextHop(next_hop) => self.next_hop_is_there(id, dumped, next_hop),
            Message::NextHopGone(object) => self.next_hop_is_gone(id, object),
            Message::Link(link) => self.link_is_there(id, dumped, link),
            Message::LinkGone(index) => self.link_is_gone(now, index),
            Message::LinkMoved(index) => self.link_is_moved(now, index),
            Message::Address(address) => self.address_is_there(id, dumped, &address),
            Message::AddressGone(address) => self.address_is_gone(now, &address),
            Message::Neighbor(neighbor) => {
                // It may be on a new interface.
                self.refresh_interfaces(table);
                self.neighbor_is_there(id, dumped, &neighbor);
            }
            Message::NeighborGone(neighbor) => self.neighbor_is_gone(&neighbor),
            Message::ProxyNeighbor(one) => self.proxy_is_there(one),
            Message::ProxyNeighbors(all) => self.proxies_are(all),
            Message::NetworkSettings(settings) => self.settings_are_there(settings),
            Message::NetworkSettingsGone(v6, link) => self.settings_are_gone(v6, link),
        }
    }
}
