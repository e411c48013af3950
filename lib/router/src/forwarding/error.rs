// SPDX-License-Identifier: MIT
//! Why routes or interfaces cannot be as they were requested.

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
    /// Interfaces that cannot be.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Gateways that cannot be the ways of one route.
    #[error(transparent)]
    Multipath(#[from] MultipathError),
    /// The configuration names a port that was not opened.
    #[error(
        "interface {name} is on port {port}, which is not there; expected one of the {ports} ports that were opened"
    )]
    NoPort {
        /// The interface.
        name: String,
        /// The place in the list of ports.
        port: u16,
        /// How many there are.
        ports: usize,
    },
    /// After a reload.
    #[error("its gateway is on no interface any more")]
    GatewayGone,
}

impl ForwardingError {
    /// Whether it is the route to this prefix that does not fit, rather than another one.
    pub fn is_about(&self, wanted: Prefix) -> bool {
        match self {
            ForwardingError::Fib(FibError::Lookup(LookupError::Full { prefix, .. })) => *prefix == wanted,
            _ => false,
        }
    }
}
