// SPDX-License-Identifier: MIT
//! A simulated kernel and zebra, the router's tables, and the caller between them and the follower.

use perigee_config::{Config, Linux, Stack};
use perigee_fib::{FibError, FibWriter, Interfaces, MulticastOrigin, NextHopId, NextHopInfo, Rib, structures};
use perigee_helper::LinkChange;
use perigee_linux::{
    AuditReport, Audited, Effect, FeedId, Follower, HelperRequest, Input, KnownNeighbor, Port, Report, Setup, Status,
    Table,
};
use perigee_net::{
    Exception, HostAddress, Interface, InterfaceId, MacAddr, MulticastRoute, Policy, Prefix, Route as FibRoute,
    RouteKey, RouteSource, RouteTarget,
};
use perigee_netlink::message::{
    Address, Hop, Hops, Link, Message, MulticastKey, MulticastRoute as LinuxMulticast, Neighbor, NetworkSettings,
    NextHop, NextHopTo, ProxyNeighbor, Route, RouteKind, Rule,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Linux's numbers of the twins of ports a and b.
pub const A: u32 = 10;
pub const B: u32 = 11;
/// A second, in ns.
pub const SECOND: u64 = 1_000_000_000;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

pub fn link(index: u32, name: &str) -> Link {
    Link { index, name: name.to_owned(), up: true, carrier: true, mtu: 1500, ..Link::default() }
}

pub fn address(link: u32, text: &str) -> Address {
    Address::new(link, text.parse().unwrap())
}

pub fn neighbor(link: u32, text: &str, mac: MacAddr) -> Neighbor {
    let (address, mac) = (ip(text), Some(mac));
    Neighbor {
        link,
        address,
        mac,
        permanent: false,
        reachable: true,
        stale: false,
        failed: false,
        external: false,
        protocol: 0,
    }
}

/// A route of the kernel's main table.
pub fn route(text: &str, metric: u32, hops: &[Hop]) -> Route {
    Route {
        prefix: prefix(text),
        table: 254,
        protocol: 12,
        kind: RouteKind::Unicast,
        tos: 0,
        source: None,
        metric,
        hops: hops.to_vec().into(),
        next_hop: 0,
        appended: false,
        replaces: false,
        encapsulated: false,
        mtu: 0,
        unknown: None,
    }
}

/// A multicast route: the links of its input and outputs, these with their TTL thresholds.
pub fn multicast(group: &str, source: Option<&str>, input: Option<u32>, outputs: &[(u32, u8)]) -> LinuxMulticast {
    LinuxMulticast { key: (ip(group), source.map(ip)), input, outputs: outputs.to_vec() }
}

/// A route by a next-hop object.
pub fn by_object(text: &str, object: u32) -> Route {
    Route { next_hop: object, ..route(text, 0, &[]) }
}

pub fn via(link: u32, gateway: &str) -> Hop {
    Hop { link, gateway: Some(ip(gateway)), weight: 1 }
}

/// The state of the kernel.
#[derive(Clone)]
pub struct Kernel {
    pub links: BTreeMap<u32, Link>,
    pub addresses: Vec<Address>,
    pub neighbors: Vec<Neighbor>,
    pub proxies: BTreeSet<ProxyNeighbor>,
    /// Of both families, links and conf/all.
    pub settings: BTreeMap<(bool, i32), NetworkSettings>,
    pub next_hops: BTreeMap<u32, NextHopTo>,
    /// nexthop_compat_mode: routes by an object say where these lead, and are reported when it is replaced.
    pub compatible: bool,
    pub routes: BTreeMap<(Prefix, u32), Route>,
    pub multicast: BTreeMap<MulticastKey, LinuxMulticast>,
    pub rules: Vec<Rule>,
    /// Routes with the prefix and metric of another, in order.
    pub beside: Vec<Route>,
    pub reports: VecDeque<Report>,
    /// How many times it was asked for a dump.
    pub dumps: u64,
}

impl Kernel {
    /// Two twins with addresses of both families.
    pub fn new() -> Kernel {
        let addresses = [(A, "10.0.1.1/24"), (A, "2001:db8:1::1/64"), (B, "10.0.2.1/24"), (B, "2001:db8:2::1/64")];
        Kernel {
            links: BTreeMap::from([(A, link(A, "a")), (B, link(B, "b"))]),
            addresses: addresses.map(|(link, text)| address(link, text)).to_vec(),
            neighbors: Vec::new(),
            proxies: BTreeSet::new(),
            settings: BTreeMap::new(),
            next_hops: BTreeMap::new(),
            compatible: false,
            routes: BTreeMap::new(),
            multicast: BTreeMap::new(),
            rules: Vec::new(),
            beside: Vec::new(),
            reports: VecDeque::new(),
            dumps: 0,
        }
    }

    /// Everything it has, in the order of its dumps.
    pub fn messages(&self) -> Vec<Message> {
        let object = |(id, to): (&u32, &NextHopTo)| Message::NextHop(NextHop { id: *id, to: to.clone() });
        let mut all: Vec<Message> = self.links.values().cloned().map(Message::Link).collect();
        all.extend(self.addresses.iter().copied().map(Message::Address));
        all.extend(self.all_settings().map(Message::NetworkSettings));
        all.extend(self.next_hops.iter().map(object));
        all.extend(self.neighbors.iter().copied().map(Message::Neighbor));
        all.extend(self.rules.iter().cloned().map(Message::Rule));
        for route in self.routes.values() {
            all.push(Message::Route(self.shown(route)));
            let beside = |other: &&Route| (other.prefix, other.metric) == (route.prefix, route.metric);
            all.extend(self.beside.iter().filter(beside).cloned().map(Message::Route));
        }
        all.extend(self.multicast.values().cloned().map(Message::MulticastRoute));
        all.push(Message::ProxyNeighbors(self.proxies.iter().copied().collect()));
        all
    }

    /// A dump names the settings of all links.
    fn all_settings(&self) -> impl Iterator<Item = NetworkSettings> {
        let links = self.links.keys().map(|link| *link as i32).chain([NetworkSettings::ALL]);
        links.flat_map(|link| [(false, link), (true, link)]).map(|(v6, link)| {
            let off = NetworkSettings { v6, link, proxy_neighbors: Some(false), ..NetworkSettings::default() };
            self.settings.get(&(v6, link)).copied().unwrap_or(off)
        })
    }

    /// A route as the kernel reports it.
    pub fn shown(&self, route: &Route) -> Route {
        match self.compatible
            && route.next_hop != 0
            && !matches!(self.next_hops.get(&route.next_hop), Some(NextHopTo::Blackhole))
        {
            true => Route { hops: ways(self, route).into(), ..route.clone() },
            false => route.clone(),
        }
    }

    /// An object goes, with its routes; groups lose it, and an empty one goes as well. Returns what the kernel reports
    /// if somebody has deleted it. With a link it goes silently: then the reports of IPv6's routes are all there is.
    pub fn remove_object(&mut self, id: u32) -> Vec<Message> {
        let mut reports = vec![Message::NextHopGone(id)];
        let gone: Vec<Route> = self.routes.values().filter(|route| route.next_hop == id).cloned().collect();
        for route in gone {
            self.routes.remove(&(route.prefix, route.metric));
            if route.prefix.addr().is_ipv6() && self.compatible {
                reports.push(Message::RouteGone(self.shown(&route)));
            }
        }
        let groups: Vec<u32> = self.next_hops.keys().copied().collect();
        for group in groups {
            let Some(NextHopTo::Group(members)) = self.next_hops.get(&group) else { continue };
            let left: Box<[(u32, u16)]> = members.iter().copied().filter(|(member, _)| *member != id).collect();
            if left.is_empty() {
                reports.extend(self.remove_object(group));
            } else if left.len() < members.len() {
                let to = NextHopTo::Group(left);
                self.next_hops.insert(group, to.clone());
                reports.push(Message::NextHop(NextHop { id: group, to }));
            }
        }
        self.next_hops.remove(&id);
        reports
    }

    /// The link loses its next-hop objects; returns what the kernel reports of that.
    pub fn flush_objects(&mut self, link: u32) -> Vec<Message> {
        let over = |(id, to): (&u32, &NextHopTo)| matches!(to, NextHopTo::Hop(hop) if hop.link == link).then_some(*id);
        let lost: Vec<u32> = self.next_hops.iter().filter_map(over).collect();
        let reports = lost.into_iter().flat_map(|id| self.remove_object(id)).collect::<Vec<_>>().into_iter();
        reports.filter(|report| matches!(report, Message::RouteGone(_))).collect()
    }

    /// The link has no carrier any more.
    pub fn lose_carrier(&mut self, index: u32) {
        let reports = self.flush_objects(index);
        reports.into_iter().for_each(|report| self.say(report));
        let link = self.links[&index].clone();
        self.set_link(Link { carrier: false, ..link });
    }

    /// Somebody deletes an object.
    pub fn delete_object(&mut self, id: u32) {
        let reports = self.remove_object(id);
        reports.into_iter().for_each(|report| self.say(report));
    }

    /// Answers a request for a dump.
    pub fn dump(&mut self) {
        self.dumps += 1;
        let messages = self.messages();
        self.reports.push_back(Report::DumpBegins);
        self.reports.extend(messages.into_iter().map(|message| Report::Message { dumped: true, message }));
        self.reports.push_back(Report::DumpEnds { complete: true });
    }

    /// A dump that the kernel itself reports as incomplete.
    pub fn broken_dump(&mut self, messages: Vec<Message>) {
        self.reports.push_back(Report::DumpBegins);
        self.reports.extend(messages.into_iter().map(|message| Report::Message { dumped: true, message }));
        self.reports.push_back(Report::DumpEnds { complete: false });
    }

    /// A notification.
    pub fn say(&mut self, message: Message) {
        self.reports.push_back(Report::Message { dumped: false, message });
    }

    pub fn add(&mut self, route: Route) {
        let replaces = self.routes.insert((route.prefix, route.metric), route.clone()).is_some();
        let shown = self.shown(&route);
        self.say(Message::Route(Route { replaces, ..shown }));
    }

    pub fn delete(&mut self, route: &Route) {
        self.routes.remove(&(route.prefix, route.metric));
        self.say(Message::RouteGone(route.clone()));
    }

    pub fn set_multicast(&mut self, route: LinuxMulticast) {
        self.multicast.insert(route.key, route.clone());
        self.say(Message::MulticastRoute(route));
    }

    pub fn delete_multicast(&mut self, key: MulticastKey) {
        self.multicast.remove(&key);
        self.say(Message::MulticastRouteGone(key));
    }

    pub fn set_link(&mut self, link: Link) {
        self.links.insert(link.index, link.clone());
        self.say(Message::Link(link));
    }

    pub fn delete_link(&mut self, index: u32) {
        self.links.remove(&index);
        self.addresses.retain(|address| address.link != index);
        self.say(Message::LinkGone(index));
    }

    /// The link has the address, or has it in another way.
    pub fn add_address(&mut self, address: Address) {
        let same = |other: &Address| (other.link, other.with_prefix) == (address.link, address.with_prefix);
        self.addresses.retain(|other| !same(other));
        self.addresses.push(address);
        self.say(Message::Address(address));
    }

    pub fn delete_address(&mut self, address: Address) {
        self.addresses.retain(|other| *other != address);
        self.say(Message::AddressGone(address));
    }

    pub fn set_neighbor(&mut self, neighbor: Neighbor) {
        self.neighbors.retain(|other| (other.link, other.address) != (neighbor.link, neighbor.address));
        self.neighbors.push(neighbor);
        self.say(Message::Neighbor(neighbor));
    }

    pub fn delete_neighbor(&mut self, neighbor: Neighbor) {
        self.neighbors.retain(|other| (other.link, other.address) != (neighbor.link, neighbor.address));
        self.say(Message::NeighborGone(neighbor));
    }

    /// An object is new, or replaced in place.
    pub fn set_object(&mut self, id: u32, to: NextHopTo) {
        let reports = self.replace_object(id, to);
        reports.into_iter().for_each(|report| self.say(report));
    }

    /// The same; returns what the kernel reports.
    pub fn replace_object(&mut self, id: u32, to: NextHopTo) -> Vec<Message> {
        let is_new = self.next_hops.insert(id, to.clone()).is_none();
        let mut reports = vec![Message::NextHop(NextHop { id, to })];
        if !is_new && self.compatible {
            let groups = self.next_hops.iter().filter(|(_, to)| is_member(id, to)).map(|(group, _)| *group);
            let by: BTreeSet<u32> = groups.chain([id]).collect();
            let routes = self.routes.values().filter(|route| by.contains(&route.next_hop));
            reports.extend(routes.map(|route| Message::Route(self.shown(route))));
        }
        reports
    }
}

/// The router's tables.
pub struct Router {
    pub fib: FibWriter,
    pub interfaces: Interfaces,
    /// Prefixes that workers do not find.
    pub forgotten: BTreeSet<Prefix>,
    /// Whether lookup structures refuse to be repaired.
    pub stubborn: bool,
    /// Whether changes wait to be made visible.
    pub uncommitted: bool,
    /// What the audit set neighbors to.
    pub repaired: Vec<(InterfaceId, IpAddr, Option<MacAddr>)>,
    /// Prefixes that do not fit.
    pub full: BTreeSet<Prefix>,
    /// The multicast routes, and how often they were set.
    pub multicast: Vec<(MulticastRoute, MulticastOrigin)>,
    pub multicast_sets: usize,
    /// Packets that need a closer look, and whether those that are Linux's are refused.
    pub exceptions: (Vec<Exception>, bool),
    /// Interfaces whose connected networks Linux says.
    pub linux_connects: BTreeSet<InterfaceId>,
}

impl Table for Router {
    fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }
    fn set_interfaces(&mut self, list: Vec<Interface>, host_addresses: Vec<HostAddress>) {
        self.interfaces = Interfaces::new(list).unwrap().with_host_addresses(host_addresses);
    }
    fn rib(&self) -> Rib<'_> {
        self.fib.rib()
    }
    fn insert(&mut self, prefix: Prefix, route: FibRoute) -> Result<bool, FibError> {
        assert_eq!(route.source, RouteSource::Linux, "the follower adds routes of Linux alone");
        if self.full.contains(&prefix) {
            return Err(FibError::Missing { prefix });
        }
        if self.rib().route(prefix, route.key()) == Some(&route) {
            return Ok(false);
        }
        self.fib.insert(prefix, route).map(|()| true)
    }
    fn stand_in(&mut self, prefix: Prefix, route: FibRoute) -> Result<bool, FibError> {
        self.fib.set_reserved(prefix, route)
    }
    fn has_room(&self) -> bool {
        self.fib.routes() < self.fib.most()
    }
    fn withdraw(&mut self, prefix: Prefix, key: RouteKey) -> Result<(), FibError> {
        assert_eq!(key.source, RouteSource::Linux, "the follower removes routes of Linux alone");
        self.fib.remove(prefix, key).map(drop)
    }
    fn set_exceptions(&mut self, list: Vec<Exception>, refused: bool) {
        self.exceptions = (list, refused);
    }
    fn set_linux_connects(&mut self, interfaces: BTreeSet<InterfaceId>) {
        self.linux_connects = interfaces;
    }
    fn set_multicast(&mut self, routes: Vec<(MulticastRoute, MulticastOrigin)>) {
        self.multicast = routes;
        self.multicast_sets += 1;
    }
}

impl Audited for Router {
    fn uncommitted(&self) -> bool {
        self.uncommitted
    }
    fn expected(&self, address: IpAddr) -> NextHopId {
        self.fib.expected(address)
    }
    fn found(&self, address: IpAddr) -> NextHopId {
        match self.forgotten.iter().any(|prefix| prefix.contains(address)) {
            true => NextHopId::NO_ROUTE,
            false => self.fib.expected(address),
        }
    }
    fn repair(&mut self, prefix: Prefix) -> Result<usize, FibError> {
        if self.stubborn {
            return Err(FibError::Missing { prefix });
        }
        self.forgotten.remove(&prefix);
        Ok(1)
    }
    fn next_hops(&self) -> Vec<NextHopInfo> {
        self.fib.next_hops().collect()
    }
    fn on_link(&self) -> Vec<KnownNeighbor> {
        let known =
            |(interface, address, mac): (_, _, Option<MacAddr>)| Some(KnownNeighbor { interface, address, mac: mac? });
        self.fib.on_link().filter_map(known).collect()
    }
    fn found_on_link(&self, interface: InterfaceId, address: IpAddr) -> Option<MacAddr> {
        self.fib.found_on_link(interface, address)
    }
    fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        self.repaired.push((interface, address, mac));
        self.fib.set_neighbor(interface, address, mac);
        self.fib.set_on_link(interface, address, mac.is_some()).unwrap();
    }
}

/// A router with a kernel, and the effects that the follower wanted.
pub struct World {
    pub now: u64,
    pub kernel: Kernel,
    /// What zebra reports, and what it repeats when it is asked to.
    pub zebra: VecDeque<Report>,
    pub zebra_routes: Vec<Route>,
    pub zebra_dumps: u64,
    pub router: Router,
    pub follower: Follower,
    /// The neighbors that the slow path knows.
    pub known: Vec<KnownNeighbor>,
    /// Requests to the helper and effects for the slow path since they were last taken.
    pub asked: Vec<HelperRequest>,
    pub effects: Vec<Effect>,
    pub audits: Vec<Option<AuditReport>>,
}

pub fn port(name: &str, number: u16, twin: u32, address: &str) -> Port {
    Port {
        name: name.to_owned(),
        number,
        mac: mac(number as u8),
        mtu: 1500,
        addresses: vec![address.parse().unwrap()],
        twin: Some(twin),
        own: None,
        up: false,
    }
}

/// The default `[linux]` of a configuration.
pub fn linux() -> Linux {
    let text = "[router]\ncores = [0]\n[port.a]\ndevice = \"heap0\"\n";
    let machine = perigee_config::Machine { cores: vec![0], ..perigee_config::Machine::default() };
    Config::parse_on("router.toml", text, &machine).unwrap_or_else(|error| panic!("{error}")).linux
}

/// Empty tables, of the lookup structures that are soonest made.
fn fib() -> FibWriter {
    let soonest = structures::IPV4.iter().find(|structure| structure.name == "dxr16").unwrap();
    FibWriter::with(1 << 16, (soonest.new)().unwrap(), (structures::DEFAULT6.new)().unwrap()).unwrap()
}

/// A router with two ports and a helper.
pub fn setup() -> Setup {
    Setup {
        linux: linux(),
        ports: vec![port("a", 0, A, "10.0.1.1/24"), port("b", 1, B, "10.0.2.1/24")],
        configured: 2,
        addresses: vec![vec![], vec![]],
        stack: Stack::Perigee,
        helper: true,
        feeds: vec![FeedId::Kernel],
        namespace: None,
        identity: None,
        neighbors: Vec::new(),
    }
}

pub fn interface(name: &str, port: u16, vlan: Option<u16>) -> Interface {
    let mac = mac(port as u8);
    Interface {
        name: name.to_owned(),
        port,
        vlan,
        mtu: 1500,
        mac,
        up: true,
        addresses: Vec::new(),
        attributes: Default::default(),
        policy: Policy::default(),
    }
}

impl World {
    /// The first dump has been applied.
    pub fn new() -> World {
        World::with(setup(), &[])
    }

    /// A world with VLANs in the configuration.
    pub fn with(setup: Setup, vlans: &[(&str, u16, u16)]) -> World {
        let mut world = World::before_the_first_dump(setup, vlans);
        world.kernel.dump();
        world.settle();
        world.asked.clear();
        world.effects.clear();
        world.kernel.dumps = 0;
        world
    }

    /// Nothing is known of Linux.
    pub fn before_the_first_dump(setup: Setup, vlans: &[(&str, u16, u16)]) -> World {
        let mut interfaces = vec![interface("a", 0, None), interface("b", 1, None)];
        interfaces.extend(vlans.iter().map(|(name, port, vlan)| interface(name, *port, Some(*vlan))));
        let setup = Setup { configured: interfaces.len(), ..setup };
        let ports = setup.ports.len();
        let router = Router {
            fib: fib(),
            interfaces: Interfaces::new(interfaces).unwrap(),
            forgotten: BTreeSet::new(),
            stubborn: false,
            uncommitted: false,
            repaired: Vec::new(),
            full: BTreeSet::new(),
            multicast: Vec::new(),
            multicast_sets: 0,
            exceptions: Default::default(),
            linux_connects: BTreeSet::new(),
        };
        let mut world = World {
            now: SECOND,
            kernel: Kernel::new(),
            zebra: VecDeque::new(),
            zebra_routes: Vec::new(),
            zebra_dumps: 0,
            router,
            follower: Follower::new(setup),
            known: Vec::new(),
            asked: Vec::new(),
            effects: Vec::new(),
            audits: Vec::new(),
        };
        (0..ports).for_each(|port| world.input(Input::PortLink { port, up: true }));
        world
    }

    /// Gives the follower one input, and carries out its effects.
    pub fn input(&mut self, input: Input) {
        self.follower.handle(self.now, input, &mut self.router);
        self.effects();
    }

    fn effects(&mut self) {
        while let Some(effect) = self.follower.poll_effect() {
            match effect {
                Effect::Dump(FeedId::Kernel) => self.kernel.dump(),
                Effect::Dump(FeedId::Zebra) => {
                    self.zebra_dumps += 1;
                    let routes = self.zebra_routes.iter().cloned();
                    self.zebra.push_back(Report::DumpBegins);
                    self.zebra.extend(routes.map(|r| Report::Message { dumped: true, message: Message::Route(r) }));
                    self.zebra.push_back(Report::DumpEnds { complete: true });
                }
                Effect::Helper(request) => self.asked.push(request),
                Effect::AuditEnded(report) => self.audits.push(report),
                Effect::ReportNeighbors => {
                    for KnownNeighbor { interface, address, mac } in self.known.clone() {
                        let neighbor = Input::Neighbor { interface, address, mac: Some(mac) };
                        self.follower.handle(self.now, neighbor, &mut self.router);
                    }
                }
                effect => self.effects.push(effect),
            }
        }
    }

    /// Takes everything that is waiting, until nothing is left.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if let Some(report) = self.kernel.reports.pop_front() {
                self.input(Input::Reported(FeedId::Kernel, report));
            } else if self.follower.is_ready_for(FeedId::Zebra) && !self.zebra.is_empty() {
                let report = self.zebra.pop_front().unwrap();
                self.input(Input::Reported(FeedId::Zebra, report));
            } else {
                self.follower.settle(&mut self.router);
                self.effects();
                let known = self.known.clone();
                let went_on = self.follower.go_on_with_audit(self.now, &mut self.router, &|| known.clone());
                self.effects();
                let zebra_waits = self.follower.is_ready_for(FeedId::Zebra) && !self.zebra.is_empty();
                if !went_on && self.kernel.reports.is_empty() && !zebra_waits {
                    return;
                }
            }
        }
        panic!("the follower never comes to rest");
    }

    /// Lets time pass, in steps of the follower's own.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.follower.next_timeout() <= end {
            self.now = self.now.max(self.follower.next_timeout());
            self.follower.handle_timeout(self.now, &self.router);
            self.effects();
            self.settle();
        }
        self.now = end;
    }

    /// An audit, from its begin to its end.
    pub fn audit(&mut self, repair: bool) -> AuditReport {
        self.follower.begin_audit(self.now, repair);
        self.effects();
        self.settle();
        self.audits.pop().expect("the audit ends").expect("Linux is followed")
    }

    pub fn status(&self) -> Status {
        self.follower.status()
    }

    /// The requests to the helper since the last call.
    pub fn requests(&mut self) -> Vec<HelperRequest> {
        std::mem::take(&mut self.asked)
    }

    /// The changes of links among them.
    pub fn changes(&mut self) -> Vec<LinkChange> {
        let changes = self.requests().into_iter();
        changes.filter_map(|r| if let HelperRequest::Link(change) = r { Some(change) } else { None }).collect()
    }

    /// The effects for the slow path since the last call.
    pub fn taken(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub fn interface(&self, name: &str) -> &Interface {
        self.router.interfaces.get(self.router.interfaces.by_name(name).unwrap()).unwrap()
    }

    /// The routes of Linux in the RIB: prefix, metric and preference, and where to.
    pub fn routes(&self) -> BTreeMap<(Prefix, u32), (u8, RouteTarget)> {
        let of_family = |is_v6| self.router.rib().routes_of_source(RouteSource::Linux, is_v6, None);
        let of_linux = of_family(false).chain(of_family(true));
        let metric = |route: &FibRoute| match &route.target {
            RouteTarget::Selective(selector) => selector.metric,
            _ => route.metric,
        };
        of_linux.map(|(p, route)| ((p, metric(route)), (route.preference, route.target.clone()))).collect()
    }

    /// The target of the RIB's route of Linux with metric 0.
    pub fn target(&self, text: &str) -> Option<RouteTarget> {
        self.routes().get(&(prefix(text), 0)).map(|(_, target)| target.clone())
    }
}

/// A route through one gateway, as the table has it.
pub fn gateway(interface: u16, text: &str) -> RouteTarget {
    RouteTarget::Gateway { address: ip(text), interface: Some(InterfaceId(interface)) }
}

/// The next hops of a route of the kernel, with its next-hop object resolved.
pub fn ways(kernel: &Kernel, route: &Route) -> Vec<Hop> {
    let hop = |id: u32, weight| match kernel.next_hops.get(&id) {
        Some(NextHopTo::Hop(hop)) => Some(Hop { weight, ..*hop }),
        _ => None,
    };
    match kernel.next_hops.get(&route.next_hop) {
        Some(NextHopTo::Hop(hop)) => vec![*hop],
        Some(NextHopTo::Group(members)) => members.iter().filter_map(|(id, weight)| hop(*id, *weight)).collect(),
        _ => Hops::as_slice(&route.hops).to_vec(),
    }
}

fn is_member(id: u32, group: &NextHopTo) -> bool {
    matches!(group, NextHopTo::Group(members) if members.iter().any(|(member, _)| *member == id))
}
