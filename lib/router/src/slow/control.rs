// SPDX-License-Identifier: MIT
//! Requests of the API: what is shown is answered from a [`View`], by its file in `show/`; each change is a line here.

use super::SlowThread;
use crate::show::{self, View};
use perigee_api::answers::{LoadedRoutes, Outcome, WorkerStatus};
use perigee_api::queries::{FlushNeighbors, ShowWorkers};
use perigee_api::taps::{TapOn, TapRequest};
use perigee_api::{Answers, ApiError, Request, RouteChange};
use perigee_slowpath::Input;

impl SlowThread {
    /// Answers a request.
    pub(super) fn answer(&mut self, request: Request) {
        if matches!(request, Request::Show(_) | Request::Metrics(_)) {
            self.look_at_losses(self.now());
        }
        let view = self.view();
        match request {
            Request::Show(query) => query.answer(&view),
            Request::TakeGaps(_, reply) => reply.send(Ok(self.take_gaps())),
            Request::Metrics(reply) => reply.send(Ok(Box::new(show::snapshot(&view)))),
            Request::Resync(_, reply) => self.linux.resync(reply),
            Request::Audit(query, reply) => {
                let plane = self.plane_differences(query.repair);
                self.linux.audit(self.now(), query.repair, plane, reply);
            }
            Request::AddRoute(query, reply) => reply.send(self.route_add(&query.0)),
            Request::LoadRoutes(query, reply) => reply.send(Ok(self.route_load(&query.routes))),
            Request::DeleteRoute(query, reply) => reply.send(self.route_del(&query.0)),
            Request::FlushNeighbors(query, reply) => reply.send(self.flush_neighbors(&query)),
            Request::Reload(query, reply) => self.reload(query, reply),
            Request::Tap(request, reply) => reply.send(self.tap(request)),
        }
    }

    /// What the in-kernel plane reads otherwise than workers, if there is such a plane.
    pub(super) fn plane_differences(&self, repair: bool) -> Option<Vec<String>> {
        self.parts.workers.kernel_differences(&self.parts.forwarding.published(), repair)
    }

    /// The router as it is now.
    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now(),
            started: self.started,
            version: &self.parts.version,
            config: &self.parts.settings.config,
            ports: &self.parts.ports,
            workers: &self.parts.workers,
            forwarding: &self.parts.forwarding,
            slow: &self.slow,
            lost: self.lost,
            assistants: &self.parts.assistants,
            linux: &self.linux,
            scripts: &*self.parts.scripts,
            rebuild: &*self.parts.rebuild,
        }
    }

    /// The workers; each one's longest gap is measured from 0 again.
    fn take_gaps(&self) -> Vec<WorkerStatus> {
        let mut workers = self.view().answer(ShowWorkers {});
        for (worker, counters) in workers.iter_mut().zip(self.parts.workers.counters()) {
            worker.longest_gap = counters.longest_gap.take() as f64 / 1e9;
        }
        workers
    }

    fn route_add(&mut self, change: &RouteChange) -> Result<Outcome, ApiError> {
        let message = self.parts.forwarding.add_route(change)?;
        tracing::info!("{message}");
        self.follow_gateways();
        Ok(Outcome { message })
    }

    fn route_load(&mut self, changes: &[RouteChange]) -> LoadedRoutes {
        let loaded = self.parts.forwarding.load_routes(changes);
        let LoadedRoutes { added, changed, refused, .. } = loaded;
        tracing::info!("of {} static routes {added} were added, {changed} changed, {refused} refused", changes.len());
        self.follow_gateways();
        loaded
    }

    fn route_del(&mut self, change: &RouteChange) -> Result<Outcome, ApiError> {
        let message = self.parts.forwarding.delete_route(change)?;
        tracing::info!("{message}");
        self.follow_gateways();
        Ok(Outcome { message })
    }

    /// Forgets neighbors; operators see how many.
    fn flush_neighbors(&mut self, FlushNeighbors { dev, address }: &FlushNeighbors) -> Result<Outcome, ApiError> {
        let interfaces = self.parts.forwarding.interfaces();
        let find = |name: &String| {
            interfaces.by_name(name).ok_or_else(|| ApiError::invalid(format!("there is no interface `{name}`")))
        };
        let interface = dev.as_ref().map(find).transpose()?;
        let before = self.slow.counters().neighbors_flushed;
        self.tell(Input::FlushNeighbors { interface, address: *address });
        self.carry_out();
        let message = match self.slow.counters().neighbors_flushed - before {
            0 => "no such neighbor is known; static ones are not forgotten".to_owned(),
            1 => "1 neighbor forgotten".to_owned(),
            n => format!("{n} neighbors forgotten"),
        };
        Ok(Outcome { message })
    }

    fn tap(&mut self, request: TapRequest) -> Result<TapOn, ApiError> {
        // Others may have ended.
        self.mind_taps();
        let ports = self.parts.ports.iter().map(|port| (port.info.port, port.name.clone())).collect();
        let on = self.taps.turn_on(request, ports, (self.parts.clock)())?;
        self.parts.forwarding.set_taps(self.taps.for_workers());
        Ok(on)
    }
}
