// SPDX-License-Identifier: MIT
//! What the API can be asked, and how an answer comes back.

use std::net::IpAddr;
use std::path::PathBuf;

use perigee_net::Prefix;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::taps::TapRequest;

/// What the API can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Answered with a [`crate::answers::VersionStatus`].
    Version,
    /// Answered with a list of [`crate::answers::PortStatus`].
    ShowPorts,
    /// Answered with a list of [`crate::answers::WorkerStatus`].
    ShowWorkers,
    /// Answered as [`Request::ShowWorkers`]; each worker's longest gap begins anew.
    TakeGaps,
    /// Answered with a list of [`crate::answers::ModuleStatus`].
    ShowModules,
    /// Answered with a list of [`crate::answers::DropStatus`].
    ShowDrops,
    /// Answered with a [`crate::answers::RouteList`].
    ShowRoutes {
        /// Only those of this prefix and longer ones below it.
        within: Option<Prefix>,
        /// At most so many.
        limit: usize,
    },
    /// Answered with a list of [`crate::answers::FibStatus`].
    ShowFib,
    /// Answered with a list of [`crate::answers::NextHopEntry`].
    ShowNextHops,
    /// Answered with a list of [`crate::answers::NeighborEntry`].
    ShowNeighbors,
    /// Answered with a list of [`crate::answers::ScriptStatus`].
    ShowScripts,
    /// Answered with a list of [`crate::answers::FilterStatus`].
    ShowFilters,
    /// Answered with a [`crate::answers::LinuxStatus`].
    ShowLinux,
    /// Everything is read from Linux again. Answered with a [`crate::answers::LinuxStatus`] when that is done.
    Resync,
    /// Linux, RIB and lookup structures are compared. Answered with a [`crate::answers::AuditReport`] when that is done.
    Audit {
        /// Whether what differs is mended.
        repair: bool,
    },
    /// Answered with a [`crate::answers::ConfigText`].
    ShowConfig,
    /// Answered with an [`crate::answers::Outcome`].
    RouteAdd(RouteChange),
    /// Answered with an [`crate::answers::Outcome`].
    RouteDel(RouteChange),
    /// Answered with an [`crate::answers::Outcome`].
    Reload {
        /// Another script than the configured one.
        script: Option<PathBuf>,
    },
    /// Answered with a [`crate::answers::Snapshot`], which the server turns into text.
    Metrics,
    /// Answered with a [`crate::taps::TapOn`]; records follow through the request's outlet.
    Tap(TapRequest),
}

/// A route to add or to delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteChange {
    /// Its destinations; host bits are cleared.
    #[serde(deserialize_with = "perigee_net::network")]
    pub prefix: Prefix,
    /// The neighbor; needed to add, if there are no `gateways`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The interface; found by `via` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Whether `via` is no neighbor but a router that other routes lead to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// Several gateways, of which each flow takes one: 1 to 256, instead of `via`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<RouteGateway>,
    /// Before the metric: the lower is preferred; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<u8>,
    /// The lower is preferred.
    #[serde(default)]
    pub metric: u32,
}

impl RouteChange {
    /// A change that says nothing yet but its prefix.
    pub fn of(prefix: Prefix) -> Self {
        let gateways = Vec::new();
        Self { prefix, via: None, dev: None, recursive: false, gateways, preference: None, metric: 0 }
    }

    /// All gateways, also where there is only one.
    ///
    /// # Errors
    /// Both ways to name them are used.
    pub fn all_gateways(&self) -> Result<Vec<RouteGateway>, ApiError> {
        match (self.via, &self.gateways[..]) {
            (Some(via), []) => {
                Ok(vec![RouteGateway { via, dev: self.dev.clone(), recursive: self.recursive, weight: 1 }])
            }
            (None, gateways) => Ok(gateways.to_vec()),
            (Some(_), _) => Err(ApiError::invalid("`via` and `gateways` are both given; expected one of them")),
        }
    }
}

/// One of several gateways of a route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteGateway {
    /// Its address.
    pub via: IpAddr,
    /// The interface; found by `via` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Whether it is no neighbor but a router that other routes lead to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// Its part of the flows: 1 to 256.
    #[serde(default = "one")]
    pub weight: u16,
}

fn one() -> u16 {
    1
}

/// Whoever knows the answers: the router.
pub trait Backend: Send + Sync + 'static {
    /// Takes a request; the answer may be sent later and from another thread. Must not block: it is called on the
    /// API's only thread. A `reply` that is dropped is answered with an error.
    fn handle(&self, request: Request, reply: Reply);
}

/// Where a [`Backend`] sends its answer.
#[derive(Debug)]
pub struct Reply(pub(crate) oneshot::Sender<Result<Value, ApiError>>);

/// Where the answer to a [`Reply`] comes out, for who is no server.
#[derive(Debug)]
pub struct Answer(std::cell::RefCell<oneshot::Receiver<Result<Value, ApiError>>>);

impl Answer {
    /// The answer, if it has come. One that was dropped is an error.
    pub fn try_take(&self) -> Option<Result<Value, ApiError>> {
        match self.0.borrow_mut().try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(ApiError::failed("nobody answers"))),
        }
    }
}

impl Reply {
    /// A reply, and where its answer comes out.
    pub fn pair() -> (Reply, Answer) {
        let (sender, receiver) = oneshot::channel();
        (Reply(sender), Answer(receiver.into()))
    }

    /// Sends the answer, of the type that [`Request`] says. Whoever asked may be gone; then nothing happens.
    pub fn send<T: Serialize>(self, answer: Result<T, ApiError>) {
        let answer = answer.and_then(|value| {
            serde_json::to_value(value).map_err(|error| ApiError::failed(format!("the answer has no JSON: {error}")))
        });
        let _ = self.0.send(answer);
    }
}

/// A refusal: an HTTP status and one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// 400 to 599.
    pub status: u16,
    /// What was found, what was expected, what to do.
    pub message: String,
}

impl ApiError {
    /// 400: the request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into() }
    }

    /// 404: what it is about is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { status: 404, message: message.into() }
    }

    /// 409: the router's state does not allow it.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { status: 409, message: message.into() }
    }

    /// 500: the router failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: 500, message: message.into() }
    }
}
