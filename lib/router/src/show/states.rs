// SPDX-License-Identifier: MIT
//! The router's states by the API's names.

use perigee_api::answers::{HelperState, LinuxFeed, LinuxState, NeighborState, RouteOrigin};
use perigee_config::Feed;
use perigee_helper::HelperHealth;
use perigee_linux::State as Following;
use perigee_net::RouteSource;
use perigee_slowpath::NeighborState as State;

/// Where a route came from.
pub(super) fn origin(source: RouteSource) -> RouteOrigin {
    match source {
        RouteSource::Local => RouteOrigin::Local,
        RouteSource::Connected => RouteOrigin::Connected,
        RouteSource::Static => RouteOrigin::Static,
        RouteSource::Linux => RouteOrigin::Linux,
        RouteSource::Dynamic => RouteOrigin::Dynamic,
    }
}

/// The state of a neighbor.
pub(super) fn neighbor(state: State) -> NeighborState {
    match state {
        State::Static => NeighborState::Static,
        State::Incomplete => NeighborState::Incomplete,
        State::Reachable => NeighborState::Reachable,
        State::Stale => NeighborState::Stale,
        State::Delay => NeighborState::Delay,
        State::Probe => NeighborState::Probe,
        State::Failed => NeighborState::Failed,
    }
}

/// Where the routes of Linux come from.
pub(super) fn feed(feed: Feed) -> LinuxFeed {
    match feed {
        Feed::Netlink => LinuxFeed::Netlink,
        Feed::Fpm => LinuxFeed::Fpm,
        Feed::None => LinuxFeed::None,
    }
}

/// How the helper is, if there is one.
pub(super) fn helper(health: Option<HelperHealth>) -> HelperState {
    match health {
        None => HelperState::None,
        Some(health) if health.alive && health.answers => HelperState::Alive,
        Some(health) if health.alive => HelperState::Silent,
        Some(_) => HelperState::Dead,
    }
}

/// Whether what is known of Linux is what Linux has.
pub(super) fn linux(state: Following) -> LinuxState {
    match state {
        Following::Off => LinuxState::Off,
        Following::Lost => LinuxState::Lost,
        Following::Reading => LinuxState::Reading,
        Following::Following => LinuxState::Following,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_alive_silent_or_dead() {
        let health =
            |alive, answers| Some(HelperHealth { alive, answers, standby: true, deaths: 0, standby_deaths: 0 });
        let all = [None, health(true, true), health(true, false), health(false, true), health(false, false)];
        let expected =
            [HelperState::None, HelperState::Alive, HelperState::Silent, HelperState::Dead, HelperState::Dead];
        assert_eq!(all.map(helper), expected);
    }
}
