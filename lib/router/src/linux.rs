// SPDX-License-Identifier: MIT
//! I/O around the follower of Linux (lib/linux): feeds are read in turns of bounded time, the helper is asked by
//! another thread, replies wait for what the follower has to find out.
//!
//! ```text
//!  feeds ──updates──► turn (2 ms) ──Input──► Follower ──Effect──► feeds: dump
//!  helper thread ──answers──────────────────►   │                 helper thread: requests
//!                                               ▼                 replies; the slow path's neighbors
//!                                           Forwarding
//! ```

mod helper_requests;

pub(crate) use helper_requests::ReloadChange;
use helper_requests::{Done, HelperThread};
use perigee_api::answers::{self, LinuxStatus};
use perigee_api::{ApiError, Reply};
use perigee_config::{Config, Stack};
use perigee_fib::FibWriter;
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, HelperError, HelperHealth, LinkChange, NetlinkSockets, TwinStatus, TwinWanted};
use perigee_linux::{AuditReport, Effect, FeedId, Follower, Identity, Input, Port, Report, Setup};
use perigee_net::{Namespace, Prefix};
use perigee_netlink::message::Message;
use perigee_netlink::{KernelStatistics, LinkStatistics, Scope, Source, SourceCounters, Update};
use perigee_worker::Bell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::Refusal;
use crate::ports::Ports;

/// How long one turn may take, in ns; packets for the slow path wait for routes at most this long.
const TURN: u64 = 2_000_000;
/// Messages between two looks at the clock.
const STRIDE: usize = 32;

/// The feeds that a router follows; the caller opens them.
#[derive(Default)]
pub struct LinuxFeeds {
    /// The twins' namespace.
    pub netlink: Option<Box<dyn Source>>,
    /// Routes alone, if they come from elsewhere.
    pub routes: Option<Box<dyn Source>>,
    /// Knows what links in the twins' namespace have lost.
    pub statistics: Option<Box<dyn LinkStatistics>>,
}

/// The connections to Linux.
#[derive(Default)]
pub struct LinuxParts {
    /// Linux's reports.
    pub feeds: LinuxFeeds,
    /// The process that may change it.
    pub helper: Option<Arc<Helper>>,
}

/// A feed, and its messages that were not taken yet.
struct OpenFeed {
    id: FeedId,
    source: Box<dyn Source>,
    /// The rest of an update, and whether it belongs to a dump.
    rest: Option<(bool, IntoIter<Message>)>,
}

/// The follower of Linux, its feeds and the helper.
pub(crate) struct LinuxSide {
    pub follower: Follower,
    feeds: Vec<OpenFeed>,
    statistics: Option<Box<dyn LinkStatistics>>,
    helper: Option<Arc<Helper>>,
    thread: Option<HelperThread>,
    health: Option<HelperHealth>,
    /// What was said of twins and sockets that cannot be had again.
    said: BTreeMap<Option<usize>, String>,
    namespace: Option<Namespace>,
    bell: Arc<Bell>,
    /// Replies that wait until this many dumps have been compared.
    resyncs: Vec<(u64, Reply<LinuxStatus>)>,
    /// Replies that wait for the audit.
    audits: Vec<AuditReply>,
}

/// An answer of the helper.
pub(crate) enum HelperAnswer {
    /// It is the follower's.
    Input(Input),
    /// What came of a reload's change of a link.
    Changed(ReloadChange, Result<(), HelperError>),
}

/// What distinguishes a namespace from a later one of the same name: device and inode of its file.
fn identity(namespace: Option<&Namespace>) -> Option<Identity> {
    let file = std::fs::metadata(namespace?.path()).ok()?;
    Some((file.dev(), file.ino()))
}

impl LinuxSide {
    /// Starts the helper's thread; nothing is known of Linux yet.
    pub fn new(parts: LinuxParts, config: &Config, ports: &Ports, bell: &Arc<Bell>) -> LinuxSide {
        let LinuxParts { feeds: LinuxFeeds { netlink, routes, statistics }, helper } = parts;
        let namespace = config.router.namespace.clone();
        let follows = netlink.is_some();
        // Before there is a thread: while that asks for something, nothing is known of the helper.
        let health = helper.as_ref().and_then(|helper| helper.look());
        let thread = helper.clone().and_then(|helper| {
            let thread = HelperThread::start(helper, namespace.clone(), bell.clone());
            thread.inspect_err(|error| tracing::warn!("neighbors and links are not reported to Linux: {error}")).ok()
        });
        if let Some(thread) = &thread {
            thread.stand_by();
        }
        let open = |id| move |source| OpenFeed { id, source, rest: None };
        let kernel = netlink.map(open(FeedId::Kernel)).into_iter();
        let feeds: Vec<_> = kernel.chain(routes.map(open(FeedId::Zebra))).collect();
        let follower = Follower::new(Setup {
            linux: config.linux.clone(),
            identity: identity(namespace.as_ref()),
            namespace: namespace.clone(),
            ports: ports.iter().zip(&config.interfaces).map(|port| of_linux(port, config.router.stack)).collect(),
            configured: config.interfaces.len(),
            addresses: config.interfaces.iter().map(|interface| interface.addresses.clone()).collect(),
            neighbors: config.neighbors.clone(),
            stack: config.router.stack,
            helper: thread.is_some() && follows,
            feeds: feeds.iter().map(|feed| feed.id).collect(),
        });
        let (bell, resyncs, audits) = (bell.clone(), Vec::new(), Vec::new());
        let said = BTreeMap::new();
        LinuxSide { follower, feeds, statistics, helper, thread, health, said, namespace, bell, resyncs, audits }
    }

    /// How the helper was when it was looked at last.
    pub fn health(&self) -> Option<HelperHealth> {
        self.health
    }

    /// Looks whether the helper lives; returns whether one has died since.
    pub fn look_at_helper(&mut self) -> bool {
        let Some(now) = self.helper.as_ref().and_then(|helper| helper.look()) else { return false };
        let alive = HelperHealth { alive: true, answers: true, standby: false, deaths: 0, standby_deaths: 0 };
        let before = self.health.replace(now).unwrap_or(alive);
        if let Some(thread) = self.thread.as_ref().filter(|_| now.alive && !now.standby) {
            thread.stand_by();
        }
        if before.alive && !now.alive {
            tracing::error!(
                "the helper process and its standby have died: the router forwards, but changes nothing in Linux any more, \
                 and the interfaces under its ports will not be restored; start it again as soon as that suits"
            );
            self.follower.helper_is_gone();
        } else if before.deaths < now.deaths {
            tracing::warn!("the helper process has died; its standby has taken its place");
        } else if before.standby_deaths < now.standby_deaths {
            tracing::warn!("the standby of the helper process has died; another one is started");
        }
        if before.answers && now.alive && !now.answers {
            tracing::error!(
                "the helper process does not answer, and has no standby: the router forwards, but changes nothing in Linux until it does"
            );
        } else if !before.answers && now.answers {
            tracing::info!("the helper process answers again");
        }
        before.deaths < now.deaths
    }

    /// Passes the relevant parts of a new configuration to the follower.
    pub fn configure(&mut self, config: &Config) {
        let addresses = config.interfaces.iter().map(|interface| interface.addresses.clone()).collect();
        let (configured, neighbors) = (config.interfaces.len(), config.neighbors.clone());
        self.follower.configure(config.linux.clone(), addresses, configured, neighbors);
    }

    /// Whether everything that Linux says was read once, or nothing is read.
    pub fn is_complete(&self) -> bool {
        self.follower.is_complete()
    }

    /// Whether an update was only taken in part, so that there is more to do immediately.
    pub fn is_busy(&self) -> bool {
        self.feeds.iter().any(|feed| feed.rest.is_some())
    }

    /// The next report of a feed, if the follower wants reports yet; `ahead` is called with a prefix whose routes will
    /// change soon.
    pub fn next_report(&mut self, id: FeedId, ahead: impl FnOnce(Prefix)) -> Option<Report> {
        let ready = self.follower.is_ready_for(id);
        self.feeds.iter_mut().find(|feed| feed.id == id && ready)?.next(ahead)
    }

    /// Knows what links in the twins' namespace have lost, if they can be asked.
    pub fn statistics(&self) -> Option<&dyn LinkStatistics> {
        self.statistics.as_deref()
    }

    /// The namespace as it is now.
    pub fn look_at_namespace(&self) -> Option<Identity> {
        identity(self.namespace.as_ref())
    }

    /// Has a link changed for a reload, which is answered; returns whether there is somebody to do it.
    pub fn change_link(&mut self, wanted: ReloadChange) -> bool {
        self.thread.as_ref().map(|thread| thread.change(wanted)).is_some()
    }

    /// Has Linux's interface of a VLAN made on the twin of this name, if there is somebody to do it.
    pub fn make_vlan(&self, twin: String, vlan: u16, wanted: TwinWanted) {
        if let Some(thread) = &self.thread {
            thread.make_vlan(twin, vlan, wanted);
        }
    }

    /// Has one deleted.
    pub fn delete_vlan(&self, change: LinkChange) {
        if let Some(thread) = &self.thread {
            thread.delete_vlan(change);
        }
    }

    /// The next answer of the helper; a twin that was made is handed to the ports.
    pub fn next_answer(&mut self, mut set_twin: impl FnMut(usize, (Twin, TwinStatus))) -> Option<HelperAnswer> {
        Some(HelperAnswer::Input(match self.thread.as_ref()?.done()? {
            Done::Changed(wanted, result) => return Some(HelperAnswer::Changed(wanted, result)),
            Done::Twin(port, Ok(made), _) => {
                self.said.remove(&Some(port));
                let link = made.1.index;
                set_twin(port, made);
                Input::TwinMade { port, link }
            }
            Done::Twin(port, Err(error), addresses) => {
                self.say(Some(port), &error.to_string());
                Input::TwinFailed { port, addresses }
            }
            Done::Sockets(sockets) => match sockets.map_err(Refusal::from).and_then(|sockets| self.reopen(sockets)) {
                Ok(()) => {
                    self.said.remove(&None);
                    Input::Reopened
                }
                Err(error) => {
                    self.say(None, &error.to_string());
                    Input::ReopenFailed
                }
            },
        }))
    }

    /// Says once why a port's twin or (`None`) the sockets cannot be had again, however often it is tried.
    fn say(&mut self, what: Option<usize>, error: &str) {
        let alive = self.health.is_some_and(|health| health.alive);
        if self.said.insert(what, error.to_owned()).is_none_or(|said| said != error) && alive {
            tracing::warn!("{error}; it is tried again");
        }
    }

    fn reopen(&mut self, (sockets, questions): (NetlinkSockets, OwnedFd)) -> Result<(), Refusal> {
        let bell = self.bell.clone();
        let feed = perigee_netlink::follow(sockets, Scope::Everything, move || bell.ring())?;
        self.statistics = Some(Box::new(KernelStatistics::new(questions)));
        self.feeds.retain(|feed| feed.id != FeedId::Kernel);
        self.feeds.insert(0, OpenFeed { id: FeedId::Kernel, source: Box::new(feed), rest: None });
        Ok(())
    }

    /// Carries out an effect that is about feeds, helper and replies; the others are the slow path's.
    pub fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Dump(id) => self.feeds.iter_mut().filter(|feed| feed.id == id).for_each(|feed| feed.source.dump()),
            Effect::Helper(request) => {
                if let Some(thread) = &self.thread {
                    thread.send(request);
                }
            }
            // Dropping them answers them with an error.
            Effect::ResyncsFailed => self.resyncs.clear(),
            _ => {}
        }
    }

    /// An audit has ended, without a report if Linux is not followed any more. What the in-kernel plane reads otherwise
    /// counts if it did when the audit began and does `now`, or if it was repaired.
    pub fn end_audit(&mut self, report: Option<AuditReport>, now: Option<&[String]>) {
        let gone = || ApiError::failed("Linux is not followed any more");
        let report = report.map(audit_report).ok_or_else(gone);
        self.audits.drain(..).for_each(|audit| audit.answer(report.clone(), now.unwrap_or_default()));
    }

    /// Reads everything from Linux again; answered when that is done.
    pub fn resync(&mut self, reply: Reply<LinuxStatus>) {
        match self.follower.resync() {
            Some(wanted) => self.resyncs.push((wanted, reply)),
            None => {
                reply.send(Err(ApiError::conflict("no port has a twin, so Linux is not followed")));
            }
        }
    }

    /// Begins an audit; answered when it is over, with what the in-kernel plane reads otherwise than workers.
    pub fn audit(&mut self, now: u64, repair: bool, plane: Option<Vec<String>>, reply: Reply<answers::AuditReport>) {
        self.audits.push(AuditReply { reply, repair, plane });
        self.follower.begin_audit(now, repair);
    }

    /// Whether somebody waits for the audit: the others are the configuration's.
    pub fn audit_is_asked_for(&self) -> bool {
        !self.audits.is_empty()
    }

    /// The replies whose dump has come.
    pub fn resynced(&mut self) -> Vec<Reply<LinuxStatus>> {
        let done = self.follower.resyncs();
        self.resyncs.extract_if(.., |(wanted, _)| *wanted <= done).map(|(_, reply)| reply).collect()
    }

    /// The sums of the feeds' counters.
    pub fn counters(&self) -> SourceCounters {
        self.feeds.iter().map(|feed| feed.source.counters()).fold(SourceCounters::default(), |sum, feed| {
            SourceCounters {
                dumps: sum.dumps + feed.dumps,
                overruns: sum.overruns + feed.overruns,
                malformed: sum.malformed + feed.malformed,
                skipped: sum.skipped + feed.skipped,
            }
        })
    }
}

impl OpenFeed {
    fn next(&mut self, ahead: impl FnOnce(Prefix)) -> Option<Report> {
        loop {
            if let Some((dumped, messages)) = &mut self.rest {
                if let Some(message) = messages.next() {
                    // A dump is in order, and most of it is there already.
                    if !*dumped
                        && let Some(prefix) = messages.as_slice().get(FibWriter::AHEAD).and_then(Message::prefix)
                    {
                        ahead(prefix);
                    }
                    return Some(Report::Message { dumped: *dumped, message });
                }
                self.rest = None;
            }
            match self.source.next()? {
                Update::DumpBegins => return Some(Report::DumpBegins),
                Update::DumpEnds { complete } => return Some(Report::DumpEnds { complete }),
                Update::Lost => return Some(Report::Lost),
                Update::Broken(why) => return Some(Report::Broken(why)),
                Update::Dumped(messages) => self.rest = Some((true, messages.into_iter())),
                Update::Notifications(messages) => self.rest = Some((false, messages.into_iter())),
            }
        }
    }
}

/// A feed's turn of bounded time, which looks at the clock once in [`STRIDE`] messages.
pub(crate) struct Turn {
    began: u64,
    pub now: u64,
    pub taken: usize,
}

impl Turn {
    pub fn new(now: u64) -> Turn {
        Turn { began: now, now, taken: 0 }
    }

    /// Reads the clock at the beginning and the end of a dump, whose duration is measured.
    pub fn look_at_clock_for(&mut self, report: &Report, clock: impl FnOnce() -> u64) {
        if matches!(report, Report::DumpBegins | Report::DumpEnds { .. }) {
            self.now = clock();
        }
    }

    /// Counts one more message; returns whether there is time for another.
    pub fn goes_on(&mut self, clock: impl FnOnce() -> u64) -> bool {
        self.taken += 1;
        if self.taken.is_multiple_of(STRIDE) {
            self.now = clock();
        }
        self.now.saturating_sub(self.began) <= TURN
    }
}

/// A port, as the follower knows it. The first interfaces of the configuration are the ports' own.
fn of_linux((open, interface): (&crate::ports::OpenPort, &perigee_config::Interface), stack: Stack) -> Port {
    Port {
        name: open.name.clone(),
        number: open.info.port,
        mac: open.info.mac,
        mtu: open.info.mtu,
        addresses: interface.addresses.clone(),
        twin: open.twin.as_ref().map(|twin| twin.entry().index),
        own: open.below().filter(|_| stack == Stack::Linux).map(str::to_owned),
        up: false,
    }
}

/// Who waits for an audit.
struct AuditReply {
    reply: Reply<answers::AuditReport>,
    /// Whether differences are repaired.
    repair: bool,
    /// What the in-kernel plane read otherwise than workers when it began.
    plane: Option<Vec<String>>,
}

impl AuditReply {
    fn answer(self, report: Result<answers::AuditReport, ApiError>, now: &[String]) {
        let repair = self.repair;
        let plane = self.plane.map(|mut before| {
            // What was repaired is shown again meanwhile.
            before.retain(|part| repair || now.contains(part));
            before
        });
        self.reply.send(report.map(|report| {
            let differ = plane.as_ref().map_or(0, |plane| plane.len() as u64);
            let repaired = report.repaired + if repair { differ } else { 0 };
            answers::AuditReport { plane, total: report.total + differ, repaired, ..report }
        }));
    }
}

/// Converts a report into the API's form.
fn audit_report(report: AuditReport) -> answers::AuditReport {
    let difference = |difference: perigee_linux::Difference| answers::Difference {
        prefix: difference.prefix,
        kind: difference.kind.to_string(),
        metric: difference.metric,
        linux: difference.linux,
        rib: difference.rib,
        lookup: difference.lookup,
    };
    answers::AuditReport {
        linux_routes: report.linux_routes,
        rib_routes: report.rib_routes,
        prefixes: report.prefixes,
        next_hops: report.next_hops,
        neighbors: report.neighbors,
        plane: None,
        differences: report.differences.into_iter().map(difference).collect(),
        total: report.total,
        repaired: report.repaired,
        rules: report.rules,
        seconds: report.duration as f64 / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::SlowQueues;
    use perigee_netlink::message::{Link, Route, RouteKind};
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    /// A feed that has these updates to give, and these counts.
    #[derive(Clone, Default)]
    struct Feed(Arc<Mutex<VecDeque<Update>>>, SourceCounters);

    impl Source for Feed {
        fn next(&mut self) -> Option<Update> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        }
        fn dump(&mut self) {}
        fn counters(&self) -> SourceCounters {
            self.1
        }
    }

    fn link(index: u32) -> Message {
        Message::Link(Link { index, ..Link::default() })
    }

    fn open(updates: Vec<Update>) -> OpenFeed {
        let feed = Feed(Arc::new(Mutex::new(updates.into())), SourceCounters::default());
        OpenFeed { id: FeedId::Kernel, source: Box::new(feed), rest: None }
    }

    #[test]
    fn a_turn_looks_at_the_clock_now_and_then_and_ends_after_its_time() {
        let mut turn = Turn::new(1000);
        for n in 1..STRIDE {
            assert!(turn.goes_on(|| panic!("message {n}: a look at the clock costs more than a message")));
        }
        assert!(turn.goes_on(|| 1000 + TURN), "there is time up to the last ns");
        assert_eq!((turn.taken, turn.now), (STRIDE, 1000 + TURN));
        (1..STRIDE).for_each(|_| assert!(turn.goes_on(|| 0)));
        assert!(!turn.goes_on(|| 1001 + TURN));
    }

    #[test]
    fn a_dump_is_timed_from_its_beginning_to_its_end() {
        let mut turn = Turn::new(5);
        turn.look_at_clock_for(&Report::Message { dumped: true, message: link(1) }, || 7);
        assert_eq!(turn.now, 5);
        turn.look_at_clock_for(&Report::DumpBegins, || 8);
        assert_eq!(turn.now, 8);
        turn.look_at_clock_for(&Report::DumpEnds { complete: true }, || 9);
        assert_eq!(turn.now, 9);
    }

    #[test]
    fn updates_are_reported_message_by_message_in_order() {
        let mut feed = open(vec![
            Update::DumpBegins,
            Update::Dumped(vec![link(1), link(2)]),
            Update::Dumped(vec![]),
            Update::DumpEnds { complete: false },
            Update::Notifications(vec![link(3)]),
            Update::Lost,
        ]);
        let said: Vec<String> = std::iter::from_fn(|| feed.next(|_| ())).map(|report| format!("{report:?}")).collect();
        let message = |dumped, index| format!("{:?}", Report::Message { dumped, message: link(index) });
        let others = [Report::DumpBegins, Report::DumpEnds { complete: false }, Report::Lost];
        let [begins, ends, lost] = others.map(|report| format!("{report:?}"));
        assert_eq!(said, [begins, message(true, 1), message(true, 2), ends, message(false, 3), lost]);
    }

    /// Its memory is asked for early, which a dump, that is in order and mostly there already, has no need of.
    #[test]
    fn a_route_that_changes_soon_is_announced_ahead() {
        let route = |n: usize| {
            Message::Route(Route {
                prefix: format!("10.{n}.0.0/16").parse().unwrap(),
                table: 254,
                protocol: 12,
                kind: RouteKind::Blackhole,
                tos: 0,
                source: None,
                metric: 0,
                hops: Vec::new().into(),
                next_hop: 0,
                appended: false,
                replaces: false,
                encapsulated: false,
                mtu: 0,
                unknown: None,
            })
        };
        let routes: Vec<Message> = (0..FibWriter::AHEAD + 3).map(route).collect();
        for (update, expected) in [
            (Update::Notifications(routes.clone()), FibWriter::AHEAD + 1..FibWriter::AHEAD + 3),
            (Update::Dumped(routes), 0..0),
        ] {
            let (mut feed, mut ahead) = (open(vec![update]), Vec::new());
            while feed.next(|prefix| ahead.push(prefix.to_string())).is_some() {}
            assert_eq!(ahead, expected.map(|n| format!("10.{n}.0.0/16")).collect::<Vec<_>>());
        }
    }

    fn side(feeds: LinuxFeeds) -> LinuxSide {
        let text = "[router]\ncores = [0]\n[port.a]\ndevice = \"heap0\"\n";
        let machine = perigee_config::Machine { cores: vec![0], ..Default::default() };
        let config = Config::parse_on("test.toml", text, &machine).unwrap_or_else(|error| panic!("{error}"));
        let ports = Ports::new(&config, Vec::new(), SlowQueues::default(), None);
        LinuxSide::new(LinuxParts { feeds, helper: None }, &config, &ports, &Arc::new(Bell::new(|| ())))
    }

    #[test]
    fn the_counts_of_all_feeds_are_summed() {
        let counts = |n| SourceCounters { dumps: n, overruns: 2 * n, malformed: 3 * n, skipped: 5 * n };
        let feed = |n| Some(Box::new(Feed(Arc::default(), counts(n))) as Box<dyn Source>);
        let side = side(LinuxFeeds { netlink: feed(1), routes: feed(10), ..LinuxFeeds::default() });
        let SourceCounters { dumps, overruns, malformed, skipped } = side.counters();
        assert_eq!([dumps, overruns, malformed, skipped], [11, 22, 33, 55]);
    }

    #[test]
    fn a_feed_is_busy_while_a_part_of_an_update_is_left() {
        let feed = Feed::default();
        feed.0.lock().unwrap().push_back(Update::Notifications(vec![link(1), link(2)]));
        let mut side = side(LinuxFeeds { netlink: Some(Box::new(feed)), ..LinuxFeeds::default() });
        assert!(!side.is_busy());
        assert!(side.feeds[0].next(|_| ()).is_some() && side.is_busy(), "the second link is left");
        assert!(side.feeds[0].next(|_| ()).is_some() && side.feeds[0].next(|_| ()).is_none() && !side.is_busy());
    }

    #[test]
    fn who_waits_for_what_does_not_happen_any_more_is_answered() {
        let mut side = side(LinuxFeeds::default());
        let (resync, resynced) = Reply::pair();
        let (audit, audited) = Reply::pair();
        side.resyncs.push((1, resync));
        side.audits.push(AuditReply { reply: audit, repair: false, plane: None });
        assert!(side.resynced().is_empty() && resynced.try_take().is_none());
        side.carry_out(Effect::ResyncsFailed);
        assert!(resynced.try_take().is_some_and(|answer| answer.is_err()) && audited.try_take().is_none());
        side.end_audit(None, None);
        assert!(audited.try_take().is_some_and(|answer| answer.is_err()));
        let (reply, answer) = Reply::pair();
        side.resync(reply);
        assert!(answer.try_take().is_some_and(|answer| answer.is_err()), "no port has a twin");
    }

    #[test]
    fn what_the_in_kernel_plane_reads_otherwise_counts_if_it_does_so_at_both_ends_of_an_audit() {
        let audit = |repair: bool, before: Option<&[&str]>, now: &[&str]| {
            let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let (reply, answer) = Reply::pair();
            AuditReply { reply, repair, plane: before.map(words) }
                .answer(Ok(answers::AuditReport::default()), &words(now));
            let report = answer.try_take().unwrap().unwrap();
            (report.plane, report.total, report.repaired)
        };
        let filters = || Some(vec!["filters".to_owned()]);
        assert_eq!(audit(false, None, &["filters"]), (None, 0, 0), "there is no such plane");
        assert_eq!(audit(false, Some(&["ports"]), &["filters"]), (Some(vec![]), 0, 0), "it was shown them meanwhile");
        assert_eq!(audit(false, Some(&["ports", "filters"]), &["filters"]), (filters(), 1, 0));
        assert_eq!(audit(true, Some(&["filters"]), &[]), (filters(), 1, 1), "it was repaired");
    }

    #[test]
    fn an_audit_is_reported_with_its_counts_and_in_seconds() {
        let report = audit_report(AuditReport {
            linux_routes: 1,
            rib_routes: 2,
            prefixes: 3,
            next_hops: 4,
            neighbors: 5,
            differences: Vec::new(),
            total: 6,
            repaired: 7,
            rules: vec!["a rule".to_owned()],
            duration: 1_500_000_000,
        });
        let counts = [report.linux_routes, report.rib_routes, report.prefixes, report.next_hops, report.neighbors];
        assert_eq!((counts, report.total, report.repaired), ([1, 2, 3, 4, 5], 6, 7));
        assert_eq!((report.rules, report.seconds), (vec!["a rule".to_owned()], 1.5));
    }
}
