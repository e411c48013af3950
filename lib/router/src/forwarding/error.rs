// SPDX-License-Identifier: MIT
//! Why routes or interfaces cannot be as requested.

use perigee_fib::{FibError, InterfaceError, LookupError};
use perigee_net::{MultipathError, Prefix};
use thiserror::Error;

/// A route, an interface or a whole table was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ForwardingError {
    /// The table refused a change of one route.
    #[error(transparent)]
    Fib(#[from] FibError),
    /// The table refused the routes of a configuration.
    #[error("routes: {0}")]
    Routes(FibError),
    /// The interfaces contradict each other.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The gateways cannot belong to one route.
    #[error(transparent)]
    Multipath(#[from] MultipathError),
    /// The configuration names a port that was not opened.
    #[error(
        "interface {name} is on port {port}, which is not there; expected one of the {ports} ports that were opened"
    )]
    NoPort {
        /// The interface.
        name: String,
        /// The index in the list of ports.
        port: u16,
        /// The number of ports that were opened.
        ports: usize,
    },
    /// There is no room for the configuration's routes, with those of Linux and operators.
    #[error(
        "there is no room for {routes} routes; raise `max_routes` of [router], give the router more memory, or have fewer routes"
    )]
    NoRoom {
        /// How many there are.
        routes: usize,
    },
    /// A reload took away the interface of a gateway.
    #[error("its gateway is on no interface any more")]
    GatewayGone,
}

impl ForwardingError {
    /// Whether it is about the route to this prefix, rather than about another one.
    pub fn is_about(&self, wanted: Prefix) -> bool {
        match self {
            ForwardingError::Fib(FibError::Lookup(LookupError::Full { prefix, .. })) => *prefix == wanted,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_about_the_prefix_that_found_no_room_and_no_other() {
        let [full, other]: [Prefix; 2] = ["10.0.0.0/8", "10.0.0.0/9"].map(|text| text.parse().unwrap());
        let no_room = LookupError::Full { prefix: full, structure: "narrow", what: "places", limit: 7 };
        let error = ForwardingError::Fib(FibError::Lookup(no_room));
        assert!(error.is_about(full) && !error.is_about(other));
        let of_all = LookupError::TableFull { prefixes: 9, structure: "narrow", what: "places", limit: 7 };
        for error in [ForwardingError::Fib(FibError::Lookup(of_all)), ForwardingError::GatewayGone] {
            assert!(!error.is_about(full), "{error}");
        }
    }
}
