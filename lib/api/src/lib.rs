// SPDX-License-Identifier: MIT
//! The API: HTTP and JSON on a unix socket, in front of a [`Backend`] that knows the answers.
//!
//! docs/api.md lists the queries with their parameters and answers; it is written from these declarations. An error is
//! `{"error": "a sentence"}` under a status that fits.
//!
//! | file | contents |
//! | --- | --- |
//! | `queries.rs` | the registry: each query with method, path, parameters and answer |
//! | `answers.rs`, `answers/states.rs`, `answers/origin.rs` | the answers, the names of states and kinds in them, where routes came from |
//! | `declare.rs`, `document.rs` | what a declaration becomes; docs/api.md |
//! | `ask.rs` | [`Backend`] and [`Reply`]: how a query gets to the router and its answer back |
//! | `server.rs`, `endpoints.rs`, `stream.rs` | HTTP on the socket |
//! | `client.rs` | the other side, for the command line |
//! | `metrics.rs` | the counters as OpenMetrics text |
//! | `taps.rs`, `pcapng.rs` | what `perigee trace` and `perigee capture` get |
#![forbid(unsafe_code)]

pub mod answers;
mod ask;
pub mod client;
mod declare;
mod document;
mod doors;
mod endpoints;
mod guests;
pub mod metrics;
pub mod pcapng;
pub mod queries;
mod server;
mod stream;
pub mod taps;

pub use ask::{Answer, ApiError, Backend, Reply};
pub use declare::{Answers, Describe, Endpoint, Query};
pub use document::{Page, Row, documentation};
pub use queries::{Request, RouteChange, RouteGateway, Show};
pub use server::{Server, StartError};
