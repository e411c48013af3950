// SPDX-License-Identifier: MIT
//! The API: HTTP and JSON on a unix socket, in front of whoever knows the answers.
//!
//! | method and path | answer |
//! | --- | --- |
//! | `GET /v1/version` | [`crate::answers::VersionStatus`] |
//! | `GET /v1/ports`, `workers`, `modules`, `drops`, `fib`, `neighbors`, `nexthops`, `scripts`, `filters` | a list of `...Status` or `...Entry` |
//! | `GET /v1/routes?within=PREFIX&limit=N` | [`crate::answers::RouteList`] |
//! | `POST /v1/workers/gaps` with `{}` | the list of `GET /v1/workers`; each worker's longest gap begins anew at 0 |
//! | `GET /v1/linux` | [`crate::answers::LinuxStatus`] |
//! | `POST /v1/linux/resync` | the same, when everything has been read from Linux again |
//! | `POST /v1/audit` with `{"repair": true}` or `{}` | [`crate::answers::AuditReport`] |
//! | `GET /v1/config` | [`crate::answers::ConfigText`] |
//! | `POST /v1/routes`, `DELETE /v1/routes` with a [`RouteChange`] | [`crate::answers::Outcome`] |
//! | `POST /v1/reload` with `{"script": PATH}` or `{}` | [`crate::answers::Outcome`] |
//! | `GET /v1/trace?filter=EXPRESSION&count=N` | a stream of [`crate::taps::TraceLine`], one a line |
//! | `GET /v1/capture?port=NAME&filter=EXPRESSION&count=N&snaplen=BYTES`, or `what=drops`, `what=punts` | a stream of pcapng |
//! | `GET /metrics` | OpenMetrics text |
//!
//! An error is `{"error": "a sentence"}` under a status that fits.

//!
//! | file | contents |
//! | --- | --- |
//! | `request.rs` | what can be asked, of whatever implements [`Backend`] |
//! | `answers.rs` | what is answered |
//! | `server.rs`, `endpoints.rs`, `stream.rs` | HTTP on the socket |
//! | `client.rs` | the other side, for the command line |
//! | `metrics.rs` | the same as OpenMetrics text |
//! | `taps.rs`, `pcapng.rs` | what `perigee trace` and `perigee capture` get |
#![forbid(unsafe_code)]

pub mod answers;
pub mod client;
mod endpoints;
pub mod metrics;
pub mod pcapng;
mod request;
mod server;
mod stream;
pub mod taps;

pub use request::*;
pub use server::{Server, StartError};
