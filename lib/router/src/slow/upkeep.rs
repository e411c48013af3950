// SPDX-License-Identifier: MIT
//! Keeps everything in step: links, interfaces, gateways, taps, and everything that Linux reports.

use super::{LINKS, LINKS_TURN, SlowThread};
use crate::linux::{HelperAnswer, Turn};
use crate::show;
use perigee_api::Answers;
use perigee_api::queries::ShowLinux;
use perigee_api::taps::Record;
use perigee_config::HelperDeath;
use perigee_linux::{Effect, FeedId, HelperRequest, Input as FromLinux, KnownNeighbor};
use perigee_net::Interface;
use perigee_slowpath::{Input, NeighborInfo};

impl SlowThread {
    /// Checks the ports' links when that is due, and lets prefixes leave links that are down, for a bounded time;
    /// returns whether there was anything to do.
    pub(super) fn mind_links(&mut self, now: u64) -> bool {
        let due = now >= self.next_links;
        if due {
            self.next_links = now + LINKS;
        }
        let mut busy = due && self.look_at_links();
        if busy {
            self.set_interfaces();
        }
        while self.parts.forwarding.links_are_followed() {
            busy = true;
            self.parts.forwarding.follow_links();
            if self.now().saturating_sub(now) >= LINKS_TURN {
                break;
            }
        }
        busy
    }

    /// Checks the ports' links and reports changes: to the tables first, then to Linux; returns whether any has
    /// changed.
    pub(super) fn look_at_links(&mut self) -> bool {
        let changed = self.parts.ports.look_at_links();
        if !changed.is_empty() {
            self.parts.forwarding.set_links(self.parts.ports.without_link());
        }
        for (port, up) in &changed {
            self.report(FromLinux::PortLink { port: *port, up: *up });
        }
        self.follow_effects();
        !changed.is_empty()
    }

    /// Gives the slow path the interfaces as they are now.
    pub(crate) fn set_interfaces(&mut self) {
        let interfaces = self.parts.forwarding.interfaces().clone();
        for (id, interface) in interfaces.iter() {
            let up = interface.up && self.parts.ports.is_up(interface.port);
            let interface = Interface { up, ..interface.clone() };
            self.tell(Input::SetInterface { id, interface });
        }
        let stations = interfaces.host_addresses().iter().filter_map(|host| host.station);
        let ports = stations.filter_map(|station| interfaces.get(station.interface)).map(|interface| interface.port);
        self.parts.ports.take_all_frames(&ports.collect());
        self.tell(Input::SetHostAddresses { addresses: interfaces.host_addresses().to_vec() });
        self.carry_out();
    }

    /// Gives the slow path the configuration's neighbors, except for those that operators have set in Linux.
    pub(crate) fn set_static_neighbors(&mut self) {
        for neighbor in self.parts.settings.config.neighbors.clone() {
            let (interface, address) = (neighbor.interface, neighbor.address);
            if !self.linux.follower.is_permanent(interface, address) {
                self.tell(Input::SetNeighbor { interface, address, mac: neighbor.mac });
            }
        }
        self.carry_out();
    }

    /// Informs the slow path of changes in the gateways that routes need resolved.
    pub(crate) fn follow_gateways(&mut self) {
        let (new, gone) = self.parts.forwarding.changed_gateways();
        for (interface, gateway) in new {
            self.tell(Input::Resolve { interface, gateway });
        }
        for (interface, gateway) in gone {
            self.tell(Input::Forget { interface, gateway });
        }
        self.carry_out();
    }

    /// Hands out traces that have ended, and turns off taps whose clients are gone; returns whether there was anything
    /// to do.
    pub(super) fn mind_taps(&mut self) -> bool {
        if self.taps.is_empty() {
            return false;
        }
        let mut busy = false;
        while let Some((trace, outlet, epoch)) = self.taps.ended() {
            busy = true;
            outlet.put(Record::Trace(Box::new(show::trace_entry(&self.view(), &trace, epoch))));
        }
        if self.taps.turn_off_closed() {
            busy = true;
            self.parts.forwarding.set_taps(self.taps.for_workers());
        }
        busy
    }

    /// Gives the follower of Linux an input at the current time.
    pub(crate) fn report(&mut self, input: FromLinux) {
        let now = self.now();
        self.linux.follower.handle(now, input, &mut self.parts.forwarding);
    }

    /// Takes reports of Linux and the helper for a bounded time; returns whether there was anything to do.
    pub(super) fn follow_linux(&mut self) -> bool {
        let mut taken = 0;
        self.parts.forwarding.hold();
        for feed in [FeedId::Kernel, FeedId::Zebra] {
            let mut turn = Turn::new(self.now());
            while let Some(report) = self.linux.next_report(feed, |prefix| self.parts.forwarding.prefetch(prefix)) {
                turn.look_at_clock_for(&report, || (self.parts.clock)());
                let input = FromLinux::Reported(feed, report);
                self.linux.follower.handle(turn.now, input, &mut self.parts.forwarding);
                self.follow_effects();
                if !turn.goes_on(|| (self.parts.clock)()) {
                    break;
                }
            }
            taken += turn.taken;
        }
        if self.parts.ports.follow_underlay() && self.look_at_links() {
            self.set_interfaces();
        }
        for preparation in self.parts.ports.take_unprepared() {
            self.linux.carry_out(Effect::Helper(HelperRequest::Prepare(preparation)));
        }
        while let Some(answer) = self.linux.next_answer(|port, made| self.parts.ports.set_twin(port, made)) {
            match answer {
                HelperAnswer::Input(input) => self.report(input),
                HelperAnswer::Changed(wanted, result) => self.link_changed(wanted, result),
            }
        }
        self.linux.follower.settle(&mut self.parts.forwarding);
        self.follow_effects();
        if taken > 0 {
            self.follow_gateways();
        }
        for reply in self.linux.resynced() {
            reply.send(Ok(self.view().answer(ShowLinux {})));
        }
        self.carry_out() || taken > 0
    }

    /// Looks whether the helper lives; ends the router if that is configured.
    pub(super) fn look_at_helper(&mut self) {
        if self.linux.look_at_helper() && self.parts.settings.config.router.helper_death == HelperDeath::End {
            tracing::error!("the router ends, as `helper_death = \"end\"` says");
            self.parts.stop.request();
        }
    }

    /// What the follower of Linux does at intervals.
    pub(super) fn look_after_linux(&mut self, now: u64) {
        self.report(FromLinux::Namespace(self.linux.look_at_namespace()));
        self.linux.follower.handle_timeout(now, &self.parts.forwarding);
        self.follow_effects();
    }

    /// Continues an audit; returns whether there was anything to do.
    pub(super) fn go_on_with_audit(&mut self) -> bool {
        let now = self.now();
        let known = |n: NeighborInfo| Some(KnownNeighbor { interface: n.interface, address: n.address, mac: n.mac? });
        let neighbors = || self.slow.neighbors().filter(|n| n.reported).filter_map(known).collect();
        let busy = self.linux.follower.go_on_with_audit(now, &mut self.parts.forwarding, &neighbors);
        self.follow_effects();
        busy
    }

    /// Carries out what the follower of Linux has decided.
    pub(crate) fn follow_effects(&mut self) {
        while let Some(effect) = self.linux.follower.poll_effect() {
            match effect {
                Effect::InterfacesChanged => {
                    self.set_interfaces();
                    self.set_static_neighbors();
                    self.follow_gateways();
                }
                Effect::SetNeighbor { interface, address, mac } => {
                    self.tell(Input::SetNeighbor { interface, address, mac });
                }
                Effect::UnsetNeighbor { interface, address } => {
                    self.tell(Input::UnsetNeighbor { interface, address });
                }
                Effect::FlushNeighbor { interface, address } => {
                    self.tell(Input::FlushNeighbors { interface: Some(interface), address: Some(address) });
                }
                Effect::LearnNeighbor { interface, address, mac, by_hand, confirmed } => {
                    self.tell(Input::LearnNeighbor { interface, address, mac, replace: by_hand, confirmed });
                }
                Effect::SetProxy { interface, proxy } => self.tell(Input::SetProxy { interface, proxy }),
                Effect::ReportNeighbors => self.report_neighbors(),
                Effect::AuditEnded(report) => {
                    let asked = self.linux.audit_is_asked_for();
                    let plane = self.plane_differences(!asked && report.is_some());
                    if let Some(parts) = plane.as_ref().filter(|parts| !asked && !parts.is_empty()) {
                        let parts = parts.join(", ");
                        tracing::warn!("the in-kernel plane reads other {parts} than workers: it is shown them again");
                    }
                    self.linux.end_audit(report, plane.as_deref());
                }
                effect => self.linux.carry_out(effect),
            }
        }
    }

    /// Reports every neighbor that the slow path knows.
    fn report_neighbors(&mut self) {
        let reported = self.slow.neighbors().filter(|n| n.reported);
        let known: Vec<_> = reported.filter_map(|n| Some((n.interface, n.address, n.mac?))).collect();
        for (interface, address, mac) in known {
            self.report(FromLinux::Neighbor { interface, address, mac: Some(mac) });
        }
    }
}
