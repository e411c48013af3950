// SPDX-License-Identifier: MIT
//! The configuration's filters, compiled, with what they count.

use perigee_config::Config;
use perigee_modules::Counter;
use perigee_modules::hits::Hits;
use perigee_modules::policer::Policer;
use perigee_modules::rules::Filter;
use std::sync::Arc;

/// The configuration's filters, compiled.
#[derive(Clone, Default)]
pub struct Filters {
    /// Matches packets to drop, of those that ports receive.
    pub deny: Option<Arc<dyn Filter>>,
    /// Matches packets to drop, of those that Linux sends.
    pub deny_linux: Option<Arc<dyn Filter>>,
    /// Matches packets for the slow path, unless a device steers them there.
    pub steer: Option<Arc<dyn Filter>>,
    /// What ports may give the slow path.
    pub policer: Option<Arc<Policer>>,
    /// What they have decided about.
    pub tally: Tally,
}

/// The packets that each `[[filter]]` has decided about, by its place in the file.
#[derive(Clone, Default)]
pub struct Tally {
    /// A row for each worker, and one for the slow path's thread.
    pub(crate) hits: Arc<Hits>,
    /// The number of the latter.
    own: usize,
}

impl Tally {
    fn new(config: &Config) -> Tally {
        let own = config.workers.len();
        Tally { hits: Arc::new(Hits::new(config.filters.len(), own + 1)), own }
    }

    /// The counters that the slow path's thread adds to.
    pub(crate) fn own_row(&self) -> &[Counter] {
        self.hits.row(self.own)
    }
}

impl Filters {
    /// With the configuration's limits before the slow path, of ports that have these numbers.
    pub(super) fn policing(self, config: &Config, numbers: &[u16]) -> Filters {
        let width = numbers.iter().map(|number| usize::from(*number) + 1).max().unwrap_or(0);
        let mut limits = vec![config.policer.limits(); width];
        for (number, port) in numbers.iter().zip(&config.ports) {
            limits[usize::from(*number)] = port.policer.limits();
        }
        let policer = Policer::new(&limits, crate::slow::secret() as u64);
        Filters { policer: Some(Arc::new(policer)), ..self }
    }

    /// With counters at zero.
    pub(super) fn counting(self, config: &Config) -> Filters {
        Filters { tally: Tally::new(config), ..self }
    }

    /// With the counters of the filters before, if the configuration's list is the same, else with counters at zero: a
    /// number means another rule now.
    pub(super) fn counting_on(self, before: &Filters, configs: (&Config, &Config)) -> Filters {
        let (old, new) = configs;
        match old.filters == new.filters {
            true => Filters { tally: before.tally.clone(), ..self },
            false => self.counting(new),
        }
    }
}
