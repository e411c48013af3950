// SPDX-License-Identifier: MIT
//! The layers that a change of a route goes through, each with those below it.

use crate::churn::netlink::{Change, Route as Sent, encode};
use crate::table::{Entry, Family};
use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use perigee_config::{Config, Machine, Stack};
use perigee_fib::{FibWriter, Lookup, LookupWriter, NextHopId, NextHopWriter, Published, Subscriber, structures};
use perigee_linux::{FeedId, Follower, Input, Port, Report, Setup, Table as _};
use perigee_modules::Tables;
use perigee_net::{InterfaceId, MacAddr, Prefix, PrefixOf, Route, RouteKey, RouteSource, RouteTarget};
use perigee_netlink::fpm;
use perigee_netlink::message::{Link, Message};
use perigee_packet::PortInfo;
use perigee_router::{Filters, Forwarding, Lookups};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most different gateways: hosts of the network that they are in.
pub const MOST_GATEWAYS: u32 = 60_000;
/// Messages that a resync takes at once.
const PART: usize = 1024;
/// Linux's number of the port that they are on.
const LINK: u32 = 7;
/// Its MAC address.
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Its interface.
const INTERFACE: InterfaceId = InterfaceId(0);
/// The routes' key.
const KEY: RouteKey = RouteKey::of(RouteSource::Linux);

/// How much of the way a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// A lookup structure alone
    Lookup,
    /// The routing table and the lookup structure
    Fib,
    /// A router's tables
    Router,
    /// From the kernel's messages on
    Netlink,
    /// From zebra's messages on
    Fpm,
}

impl Of {
    /// All of them.
    pub const ALL: [Of; 5] = [Of::Lookup, Of::Fib, Of::Router, Of::Netlink, Of::Fpm];
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Of::Lookup => "lookup",
            Of::Fib => "fib",
            Of::Router => "router",
            Of::Netlink => "netlink",
            Of::Fpm => "fpm",
        })
    }
}

/// One of them, with a table.
pub trait Layer {
    /// Announces or withdraws routes, named by their places in the table.
    fn change(&mut self, routes: &[u32], announce: bool) -> Result<()>;
    /// Makes that visible, and lets memory be used again.
    fn commit(&mut self) -> Result<()>;
    /// Reads the whole table again, as a resync does; false if that is no business of this layer.
    fn resync(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// At how many first addresses of prefixes a reader finds something else than the table has.
    fn wrong(&self) -> usize;
}

/// What differs between the families.
pub trait Routed: Family {
    /// An empty lookup structure of this name.
    fn lookup(name: &str) -> Result<Box<dyn LookupWriter<Self>>>;
    /// An empty forwarding table with it.
    fn fib(name: &str) -> Result<FibWriter>;
    /// The value of `fib` in a configuration.
    fn choice(name: &str) -> String;
    /// A gateway.
    fn gateway(number: u32) -> IpAddr;
    /// A prefix of either family.
    fn prefix(prefix: PrefixOf<Self>) -> Prefix;
}

impl Routed for u32 {
    fn lookup(name: &str) -> Result<Box<dyn LookupWriter<u32>>> {
        let structure = structures::IPV4.iter().find(|structure| structure.name == name);
        Ok((structure.context("no such structure")?.new)()?)
    }

    fn fib(name: &str) -> Result<FibWriter> {
        Ok(FibWriter::with(NextHopWriter::MAX, Self::lookup(name)?, (structures::DEFAULT6.new)()?)?)
    }

    fn choice(name: &str) -> String {
        format!("[\"{name}\", \"auto\"]")
    }

    fn gateway(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0002 + number).into()
    }

    fn prefix(prefix: PrefixOf<u32>) -> Prefix {
        prefix.into()
    }
}

impl Routed for u128 {
    fn lookup(name: &str) -> Result<Box<dyn LookupWriter<u128>>> {
        let structure = structures::IPV6.iter().find(|structure| structure.name == name);
        Ok((structure.context("no such structure")?.new)()?)
    }

    fn fib(name: &str) -> Result<FibWriter> {
        Ok(FibWriter::with(NextHopWriter::MAX, (structures::DEFAULT4.new)()?, Self::lookup(name)?)?)
    }

    fn choice(name: &str) -> String {
        format!("[\"auto\", \"{name}\"]")
    }

    fn gateway(number: u32) -> IpAddr {
        Ipv6Addr::from_bits(0xfd << 120 | u128::from(number + 2)).into()
    }

    fn prefix(prefix: PrefixOf<u128>) -> Prefix {
        prefix.into()
    }
}

/// A layer, still empty. The first `table` of the routes are those of the table, of which all others are copies.
pub fn make<A: Routed>(
    of: Of,
    structure: &str,
    routes: &[Entry<A>],
    table: usize,
    next_hops: u32,
) -> Result<Box<dyn Layer>> {
    let ids: Vec<u32> = routes.iter().map(|(_, id)| id.0 - NextHopId::FIRST_FREE).collect();
    let gateway = |at: usize| A::gateway(ids[at] % next_hops);
    let mut published = Published::new(());
    let subscriber = published.subscribe();
    Ok(match of {
        Of::Lookup => {
            let (routes, run, lookup) = (routes.to_vec(), Vec::new(), A::lookup(structure)?);
            Box::new(Alone { routes, table, run, lookup, published, subscriber })
        }
        Of::Fib => {
            let to = |at| Route {
                target: RouteTarget::Gateway { address: gateway(at), interface: Some(INTERFACE) },
                ..Route::new(RouteSource::Linux, RouteTarget::Blackhole)
            };
            let of = |(at, (prefix, _)): (usize, &Entry<A>)| (A::prefix(*prefix), to(at));
            let routes = routes.iter().enumerate().map(of).collect();
            Box::new(Routes { routes, table, fib: A::fib(structure)?, published, subscriber })
        }
        Of::Router | Of::Netlink | Of::Fpm => {
            let gateways = (0..routes.len()).map(gateway);
            let routes: Vec<_> = routes.iter().map(|(prefix, _)| A::prefix(*prefix)).zip(gateways).collect();
            let mut router = Router::new(of, &A::choice(structure), &routes, table)?;
            // The first tables, and what was made for them, are let go.
            router.commit()?;
            Box::new(router)
        }
    })
}

/// A lookup structure alone.
struct Alone<A: Family> {
    routes: Vec<Entry<A>>,
    table: usize,
    /// Empty between two changes.
    run: Vec<(PrefixOf<A>, Option<NextHopId>)>,
    lookup: Box<dyn LookupWriter<A>>,
    published: Published<()>,
    subscriber: Subscriber<()>,
}

impl<A: Family> Layer for Alone<A> {
    fn change(&mut self, routes: &[u32], announce: bool) -> Result<()> {
        if routes.len() > 1 {
            let of = |at: &u32| (self.routes[*at as usize].0, announce.then_some(self.routes[*at as usize].1));
            self.run.extend(routes.iter().map(of));
            self.run.sort_unstable_by_key(|(prefix, _)| *prefix);
            let done = self.lookup.change_all(&self.run);
            self.run.clear();
            return done.map_err(|(_, error)| error.into());
        }
        for at in routes {
            let (prefix, id) = self.routes[*at as usize];
            match announce {
                true => drop(self.lookup.insert(prefix, id)?),
                false => drop(self.lookup.remove(prefix)?),
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.lookup.commit()?;
        self.subscriber.refresh();
        self.lookup.reclaim(self.published.grace());
        Ok(())
    }

    fn wrong(&self) -> usize {
        let reader = self.lookup.reader();
        let is_wrong = |(at, (prefix, id)): &(usize, &Entry<A>)| {
            // A longer prefix may begin with the same address; it is the next one then.
            let next = self.routes[..self.table].get(at + 1).is_none_or(|(next, _)| next.addr() != prefix.addr());
            next && Lookup::lookup(&*reader, prefix.addr()) != *id
        };
        self.routes[..self.table].iter().enumerate().filter(is_wrong).count()
    }
}

/// Routes and what follows from them.
struct Routes {
    routes: Vec<(Prefix, Route)>,
    table: usize,
    fib: FibWriter,
    published: Published<()>,
    subscriber: Subscriber<()>,
}

impl Layer for Routes {
    fn change(&mut self, routes: &[u32], announce: bool) -> Result<()> {
        if routes.len() > 1 {
            self.fib.hold();
        }
        for (n, at) in routes.iter().enumerate() {
            if let Some(at) = routes.get(n + FibWriter::AHEAD) {
                self.fib.prefetch(self.routes[*at as usize].0);
            }
            let (prefix, route) = &self.routes[*at as usize];
            match announce {
                true => self.fib.insert(*prefix, route.clone())?,
                false => drop(self.fib.remove(*prefix, route.key())?),
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.fib.commit()?;
        self.subscriber.refresh();
        self.fib.reclaim(self.published.grace());
        Ok(())
    }

    fn wrong(&self) -> usize {
        let differs = |(prefix, _): &&(Prefix, Route)| {
            let first = prefix.addr();
            self.fib.reader().lookup(first).0 != self.fib.expected(first) || self.fib.rib().routes(*prefix).is_empty()
        };
        self.routes[..self.table].iter().filter(differs).count()
    }
}

/// A router's tables, and who writes to them.
struct Router {
    of: Of,
    routes: Vec<(Prefix, Route)>,
    table: usize,
    /// The messages that announce and withdraw each route, and where each ends.
    announcements: Messages,
    withdrawals: Messages,
    forwarding: Forwarding,
    follower: Follower,
    worker: Subscriber<Tables>,
}

/// Encoded messages, one after the other.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Messages {
    fn get(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[at] as usize]
    }

    /// Those of `count` routes from this one on.
    fn range(&self, first: usize, count: usize) -> &[u8] {
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let end = self.ends[first + count - 1];
        &self.bytes[start..end as usize]
    }

    fn push(&mut self, of: Of, change: Change, route: &Sent) {
        let start = self.bytes.len();
        if of == Of::Fpm {
            self.bytes.extend([1, 1, 0, 0]);
        }
        encode(&mut self.bytes, change, route, LINK);
        if of == Of::Fpm {
            let length = (self.bytes.len() - start) as u16;
            self.bytes[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        self.ends.push(self.bytes.len() as u32);
    }
}

impl Router {
    fn new(of: Of, fib: &str, routes: &[(Prefix, IpAddr)], table: usize) -> Result<Router> {
        let feed = if of == Of::Fpm { "[linux]\nfeed = \"fpm\"\n" } else { "" };
        let text = format!(
            "[router]\ncores = [0]\nfib = {fib}\n{feed}[port.a]\ndevice = \"heap0\"\n\
             addresses = [\"10.0.0.1/16\", \"fd00::1/64\"]\n"
        );
        let machine = Machine { cores: vec![0], fib: Lookups::default().names(), ..Machine::default() };
        let config = Config::parse_on("changes.toml", &text, &machine)?;
        let mac = MAC;
        let port = PortInfo {
            port: 0,
            device: "heap0".to_owned(),
            driver: "heap".to_owned(),
            mac,
            mtu: 1500,
            receive_queues: 1,
            transmit_queues: 1,
            numa_node: None,
            offloads: vec![],
            notes: vec![],
        };
        let forwarding = Forwarding::new(&config, &[port], Filters::default(), Lookups::default())?;
        let zebra = (of == Of::Fpm).then_some(FeedId::Zebra);
        let addresses = config.interfaces.iter().flat_map(|interface| interface.addresses.clone()).collect();
        let follower = Follower::new(Setup {
            linux: config.linux.clone(),
            namespace: None,
            identity: None,
            ports: vec![Port {
                name: "a".to_owned(),
                number: 0,
                mac,
                mtu: 1500,
                addresses,
                twin: Some(LINK),
                own: None,
                up: true,
            }],
            configured: 1,
            addresses: config.interfaces.iter().map(|interface| interface.addresses.clone()).collect(),
            neighbors: Vec::new(),
            stack: Stack::Perigee,
            helper: false,
            feeds: [FeedId::Kernel].into_iter().chain(zebra).collect(),
        });
        let (mut announcements, mut withdrawals) = (Messages::default(), Messages::default());
        for (prefix, gateway) in routes.iter().filter(|_| of != Of::Router) {
            let route = Sent { address: prefix.addr(), length: prefix.len(), gateway: *gateway };
            announcements.push(of, Change::Announce, &route);
            withdrawals.push(of, Change::Withdraw, &route);
        }
        let route = |(prefix, address): &(Prefix, IpAddr)| {
            let target = RouteTarget::Gateway { address: *address, interface: Some(INTERFACE) };
            (*prefix, Route::new(RouteSource::Linux, target))
        };
        let routes = routes.iter().map(route).collect();
        let worker = forwarding.subscribe();
        let mut router = Router { of, routes, table, announcements, withdrawals, forwarding, follower, worker };
        router.meet_link();
        Ok(router)
    }

    /// The follower learns which link is the port's.
    fn meet_link(&mut self) {
        self.report(FeedId::Kernel, Report::DumpBegins);
        self.name_link();
        self.report(FeedId::Kernel, Report::DumpEnds { complete: true });
        self.follower.settle(&mut self.forwarding);
    }

    /// Who sends the messages.
    fn feed(&self) -> FeedId {
        if self.of == Of::Fpm { FeedId::Zebra } else { FeedId::Kernel }
    }

    fn report(&mut self, feed: FeedId, report: Report) {
        self.follower.handle(0, Input::Reported(feed, report), &mut self.forwarding);
    }

    /// A dump of the kernel names it first.
    fn name_link(&mut self) {
        let (name, mac) = ("a".to_owned(), Some(MAC));
        let link = Link { index: LINK, name, up: true, carrier: true, mtu: 1500, mac, ..Link::default() };
        self.report(FeedId::Kernel, Report::Message { dumped: true, message: Message::Link(link) });
    }

    fn write(&mut self, routes: &[u32], announce: bool) -> Result<()> {
        for (n, at) in routes.iter().enumerate() {
            if let Some(at) = routes.get(n + FibWriter::AHEAD) {
                self.forwarding.prefetch(self.routes[*at as usize].0);
            }
            let (prefix, route) = &self.routes[*at as usize];
            match announce {
                true => drop(self.forwarding.insert(*prefix, route.clone())?),
                false => self.forwarding.withdraw(*prefix, KEY)?,
            }
        }
        Ok(())
    }
}

impl Layer for Router {
    fn change(&mut self, routes: &[u32], announce: bool) -> Result<()> {
        if routes.len() > 1 {
            self.forwarding.hold();
        }
        if self.of == Of::Router {
            return self.write(routes, announce);
        }
        let (mut messages, mut tally) = (Vec::with_capacity(routes.len()), perigee_netlink::decode::Tally::default());
        let feed = self.feed();
        let encoded = if announce { &self.announcements } else { &self.withdrawals };
        for at in routes {
            let bytes = encoded.get(*at);
            match self.of {
                Of::Fpm => messages.extend(fpm::unpack(bytes).0),
                _ => drop(perigee_netlink::decode::decode(bytes, None, &mut messages, &mut tally)),
            }
        }
        ensure!(messages.len() == routes.len(), "{} of {} messages were understood", messages.len(), routes.len());
        let mut messages = messages.into_iter();
        while let Some(message) = messages.next() {
            if let Some(prefix) = messages.as_slice().get(FibWriter::AHEAD).and_then(Message::prefix) {
                self.forwarding.prefetch(prefix);
            }
            self.report(feed, Report::Message { dumped: false, message });
        }
        Ok(())
    }

    fn resync(&mut self) -> Result<bool> {
        if self.of == Of::Router {
            return Ok(false);
        }
        let feed = self.feed();
        self.report(feed, Report::DumpBegins);
        if feed == FeedId::Kernel {
            self.name_link();
        }
        let (mut messages, mut tally) = (Vec::new(), perigee_netlink::decode::Tally::default());
        for first in (0..self.table).step_by(PART) {
            let bytes = self.announcements.range(first, PART.min(self.table - first));
            match self.of {
                Of::Fpm => messages.extend(fpm::unpack(bytes).0),
                _ => drop(perigee_netlink::decode::decode(bytes, None, &mut messages, &mut tally)),
            }
            self.forwarding.hold();
            for message in messages.drain(..) {
                self.report(feed, Report::Message { dumped: true, message });
            }
            self.commit()?;
        }
        self.report(feed, Report::DumpEnds { complete: true });
        self.commit()?;
        Ok(true)
    }

    fn commit(&mut self) -> Result<()> {
        self.follower.settle(&mut self.forwarding);
        self.forwarding.publish()?;
        self.worker.refresh();
        self.forwarding.reclaim();
        Ok(())
    }

    fn wrong(&self) -> usize {
        let tables: &Tables = &self.worker;
        let rib = perigee_linux::Table::rib(&self.forwarding);
        let differs = |(prefix, route): &&(Prefix, Route)| {
            let first = prefix.addr();
            let found = tables.find(first);
            found != perigee_linux::Audited::expected(&self.forwarding, first) || rib.route(*prefix, KEY) != Some(route)
        };
        self.routes[..self.table].iter().filter(differs).count()
    }
}
