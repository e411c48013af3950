// SPDX-License-Identifier: MIT
//! `perigee show slowpath`.

use super::View;
use perigee_api::Answers;
use perigee_api::answers::SlowPathStatus;
use perigee_api::queries::ShowSlowPath;
use perigee_slowpath::CounterKind;

impl Answers<ShowSlowPath> for View<'_> {
    fn answer(&self, _: ShowSlowPath) -> SlowPathStatus {
        let reassembling = self.slow.reassembling();
        let counters = self.assistants.counters(self.slow);
        let events = counters.iter().filter(|count| count.kind != CounterKind::Drop);
        let events = events.map(|count| (count.name.to_owned(), count.value));
        let refused = ("neighbors_refused_by_tables".to_owned(), self.forwarding.refused_neighbors());
        SlowPathStatus {
            threads: self.assistants.threads() as u64,
            waiting: self.slow.queued() as u64,
            reassembling: reassembling.datagrams as u64,
            reassembling_bytes: reassembling.bytes as u64,
            events: events.chain([refused]).collect(),
        }
    }
}
