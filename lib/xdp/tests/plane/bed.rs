// SPDX-License-Identifier: MIT
//! A rig of the user-space modules and the in-kernel plane, with the same tables.

use perigee_fib::{Arena, FibWriter, Published};
use perigee_modules::rules::{Filter, LinearFilter};
use perigee_modules::testing::{INTERFACES, NO_OUTPUT, PORTS, Rig, add_routes};
use perigee_modules::{Kind, Reason, Tables, all_reasons};
use perigee_net::Rule;
use perigee_xdp::layout::Counters;
use perigee_xdp::{LoadedPlane, PlaneCounters, PlanePort, PlaneView, Up};
use std::sync::Arc;

/// What comes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is sent by this port, as these bytes.
    Sent(u16, Vec<u8>),
    /// It is dropped, under this reason.
    Dropped(&'static str, &'static str),
    /// It goes up, to be judged by others.
    Up,
    /// Copies of it leave by several ports.
    Copied,
}

/// Results of an XDP program.
const ABORTED: u32 = 0;
const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;
/// The index of `lo` in every network namespace.
const LO: u32 = 1;

pub struct Bed {
    pub rig: Rig,
    pub plane: LoadedPlane,
    pub view: PlaneView,
    counters: PlaneCounters,
    /// Who gets what the plane does not finish.
    pub up: Up,
    /// The port that frames come in by now.
    port: u16,
    before: Box<Counters>,
}

fn list(rules: &[Rule]) -> Option<Arc<dyn Filter>> {
    (!rules.is_empty()).then(|| Arc::new(LinearFilter(rules.to_vec())) as Arc<dyn Filter>)
}

impl Bed {
    /// The small router of the modules' tests.
    pub fn new(filters: Vec<Rule>, steered: Vec<Rule>) -> Bed {
        Bed::with("auto", filters, steered, add_routes)
    }

    /// A router with a structure for IPv4 of this name, and these routes.
    pub fn with(v4: &str, filters: Vec<Rule>, steered: Vec<Rule>, routes: impl FnOnce(FibWriter) -> FibWriter) -> Bed {
        let rig = |arena: &Arc<Arena>| {
            let fib = FibWriter::in_arena(arena, 4096, v4, "range6").expect("room in the arena");
            Rig::with_routes(routes(fib), list(&filters), list(&steered))
        };
        let mut bed = Bed::around(rig);
        bed.follow_routes();
        bed
    }

    /// Both planes with tables of the caller's, which are made in the memory that both read.
    pub fn by_tables(tables: impl FnOnce(&Arc<Arena>) -> Tables) -> Bed {
        let rig = |arena: &Arc<Arena>| {
            let mut rig = Rig::new();
            rig.ctx.tables = Published::new(tables(arena)).subscribe();
            rig
        };
        let mut bed = Bed::around(rig);
        bed.publish();
        bed
    }

    fn around(rig: impl FnOnce(&Arc<Arena>) -> Rig) -> Bed {
        let plane = LoadedPlane::load(256 << 20).expect("the program loads");
        let maps = plane.maps().expect("descriptors");
        let view = PlaneView::new(&maps).expect("maps in memory");
        let counters = PlaneCounters::new(&maps).expect("a map in memory");
        for port in 0..=PORTS {
            plane.set_device(port.into(), LO).expect("lo");
        }
        let (rig, before) = (rig(view.arena()), counters.sum());
        Bed { rig, plane, view, counters, up: Up::Socket, port: 0, before }
    }

    /// Shows both planes the tables of the routes, which changes of these may have replaced.
    pub fn follow_routes(&mut self) {
        self.rig.publish();
        // By the clock, now and then a packet goes up instead of being sent back.
        for id in 0..INTERFACES {
            self.rig.change_interface(id.into(), |interface| interface.policy.redirects = false);
        }
        self.publish();
    }

    /// Shows the plane the rig's tables.
    pub fn publish(&mut self) {
        // Frames are tried on `lo`, which is the port that they come in by; what that one's number is, is changed.
        let port = |number: u16| {
            let link = if number == self.port { LO } else { 1000 + u32::from(number) };
            PlanePort { number, link, up: self.up, in_driver: true, sends: true }
        };
        let ports: Vec<_> = (0..PORTS).filter(|number| *number != u16::from(NO_OUTPUT) - 2).map(port).collect();
        // Frames are tried one by one: none is on its way.
        self.view.settle(self.view.shown());
        self.view.publish(&self.rig.ctx.tables, &ports).expect("the plane takes the tables");
    }

    /// What the modules make of a frame.
    pub fn in_user_space(&mut self, port: u16, frame: &[u8]) -> Outcome {
        let drops = || all_reasons().filter(|(_, _, info)| info.kind == Kind::Drop);
        let count = |rig: &Rig, reason: Reason| rig.ctx.counters.reason_packets(reason);
        let before: Vec<_> = drops().map(|(reason, ..)| count(&self.rig, reason)).collect();
        self.rig.receive(port, frame);
        self.rig.run_all();
        let sent = (0..PORTS).flat_map(|port| self.rig.sent(port).into_iter().map(move |frame| (port, frame)));
        let sent: Vec<_> = sent.collect();
        let up = self.rig.punted.try_iter().count();
        let dropped = drops().zip(before).find(|((reason, ..), before)| count(&self.rig, *reason) > *before);
        match (&sent[..], dropped) {
            ([(port, frame)], None) => Outcome::Sent(*port, frame.clone()),
            ([], Some(((_, module, info), _))) => Outcome::Dropped(module, info.name),
            ([], None) if up == 1 => Outcome::Up,
            // Copies may be dropped one by one.
            ([_, _, ..], _) => Outcome::Copied,
            ([], None) if up > 1 => Outcome::Copied,
            other => panic!("{other:?}, {up} went up"),
        }
    }

    /// What the in-kernel plane makes of it.
    pub fn in_kernel(&mut self, port: u16, frame: &[u8]) -> Outcome {
        if port != self.port {
            self.port = port;
            self.publish();
        }
        let tried = self.plane.try_frame(frame, LO, 1).expect("the kernel tries it");
        let now = self.counters.sum();
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let place = usize::from(port) + 1;
        let handed_on = now.ports[place].handed_on - before.ports[place].handed_on;
        let received = now.ports[place].received - before.ports[place].received;
        let sent = (0..).zip(now.ports.iter().zip(&before.ports)).find(|(_, (now, before))| now.sent > before.sent);
        let reason = (0..).zip(now.reasons.iter().zip(&before.reasons)).find(|(_, (now, before))| now > before);
        match (tried.action, handed_on, received, sent, reason) {
            (ABORTED, 1, 0, None, None) => Outcome::Up,
            (PASS, 1, 1, None, Some(_)) => Outcome::Up,
            (DROP, 0, 1, None, Some((number, _))) => {
                let (module, info) = Reason(number).describe().expect("a reason of the modules");
                Outcome::Dropped(module, info.name)
            }
            (REDIRECT, 0, 1, Some((port, _)), None) => Outcome::Sent(port - 1, tried.frame),
            (action, ..) => {
                panic!(
                    "action {action}, {handed_on} handed on, {received} received, {sent:?}, {reason:?}: {frame:02x?}"
                )
            }
        }
    }

    /// Whether the plane goes up with a frame that the modules finish, or does the same as they; what both did.
    pub fn compare(&mut self, port: u16, frame: &[u8]) -> (Outcome, Outcome) {
        let (user, kernel) = (self.in_user_space(port, frame), self.in_kernel(port, frame));
        assert!(
            kernel == Outcome::Up || kernel == user,
            "port {port}: {user:?}, in the kernel {kernel:?}: {frame:02x?}"
        );
        (user, kernel)
    }
}
