// SPDX-License-Identifier: MIT
//! Paths and methods on one side, [`Request`] on the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get, post};
use perigee_net::Prefix;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{ApiError, Backend, Reply, Request, RouteChange, stream};
use crate::answers::Snapshot;
use crate::metrics;

/// The longest request body in bytes; the longest sensible one has a hundred.
const LONGEST_BODY: usize = 64 * 1024;
/// How long the router may think. A reload compiles scripts, so it is not short.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to read and compare whole tables.
const LONG_PATIENCE: Duration = Duration::from_secs(600);
/// Routes in an answer unless asked otherwise.
const ROUTES: usize = 1000;

pub(super) type Shared = Arc<dyn Backend>;

/// Everything, for the unix socket.
pub(super) fn everything(backend: Shared) -> Router {
    let routes = get(show_routes)
        .post(|state, body| change(state, body, Request::RouteAdd))
        .delete(|state, body| change(state, body, Request::RouteDel));
    Router::new()
        .route("/v1/version", show(Request::Version))
        .route("/v1/ports", show(Request::ShowPorts))
        .route("/v1/workers", show(Request::ShowWorkers))
        .route("/v1/workers/gaps", post(take_gaps))
        .route("/v1/modules", show(Request::ShowModules))
        .route("/v1/drops", show(Request::ShowDrops))
        .route("/v1/fib", show(Request::ShowFib))
        .route("/v1/neighbors", show(Request::ShowNeighbors))
        .route("/v1/nexthops", show(Request::ShowNextHops))
        .route("/v1/scripts", show(Request::ShowScripts))
        .route("/v1/filters", show(Request::ShowFilters))
        .route("/v1/linux", show(Request::ShowLinux))
        .route("/v1/linux/resync", post(resync))
        .route("/v1/audit", post(audit))
        .route("/v1/config", show(Request::ShowConfig))
        .route("/v1/routes", routes)
        .route("/v1/reload", post(reload))
        .route("/v1/trace", get(stream::trace))
        .route("/v1/capture", get(stream::capture))
        .merge(only_metrics())
        .method_not_allowed_fallback(async |uri: Uri| {
            let message = format!("{} cannot be used with this method", uri.path());
            ApiError { status: 405, message }
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(backend)
}

/// Only what may be read over the network.
pub(super) fn only_metrics() -> Router<Shared> {
    Router::new()
        .route("/metrics", get(show_metrics))
        .fallback(async |uri: Uri| ApiError::not_found(format!("there is no {} here", uri.path())))
}

/// Asks the backend and waits.
pub(super) async fn ask(backend: &Shared, request: Request) -> Result<Value, ApiError> {
    ask_for(backend, request, PATIENCE).await
}

async fn ask_for(backend: &Shared, request: Request, patience: Duration) -> Result<Value, ApiError> {
    let (sender, receiver) = oneshot::channel();
    backend.handle(request, Reply(sender));
    match tokio::time::timeout(patience, receiver).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(ApiError { status: 503, message: "the router is stopping".into() }),
        Err(_) => {
            let message = format!("the router did not answer within {} seconds", patience.as_secs());
            Err(ApiError { status: 504, message })
        }
    }
}

async fn resync(State(backend): State<Shared>) -> Result<Json<Value>, ApiError> {
    ask_for(&backend, Request::Resync, LONG_PATIENCE).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditBody {
    #[serde(default)]
    repair: bool,
}

async fn audit(State(backend): State<Shared>, body: Body) -> Result<Json<Value>, ApiError> {
    let AuditBody { repair } = read(body, "{\"repair\": true} or {}")?;
    ask_for(&backend, Request::Audit { repair }, LONG_PATIENCE).await.map(Json)
}

fn show(request: Request) -> MethodRouter<Shared> {
    get(async move |State(backend): State<Shared>| ask(&backend, request).await.map(Json))
}

async fn take_gaps(State(backend): State<Shared>) -> Result<Json<Value>, ApiError> {
    ask(&backend, Request::TakeGaps).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutesQuery {
    #[serde(default, deserialize_with = "perigee_net::network")]
    within: Option<Prefix>,
    limit: Option<usize>,
}

async fn show_routes(
    State(backend): State<Shared>,
    query: Result<Query<RoutesQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(query) = query.map_err(|error| {
        ApiError::invalid(format!("{}; expected within=PREFIX and limit=NUMBER", error.body_text()))
    })?;
    let request = Request::ShowRoutes { within: query.within, limit: query.limit.unwrap_or(ROUTES) };
    ask(&backend, request).await.map(Json)
}

type Body = Result<Bytes, BytesRejection>;

async fn change(
    State(backend): State<Shared>,
    body: Body,
    request: fn(RouteChange) -> Request,
) -> Result<Json<Value>, ApiError> {
    let change = read(body, "{\"prefix\": PREFIX, \"via\": ADDRESS, \"dev\": INTERFACE}")?;
    ask(&backend, request(change)).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadBody {
    script: Option<PathBuf>,
}

async fn reload(State(backend): State<Shared>, body: Body) -> Result<Json<Value>, ApiError> {
    let body: ReloadBody = read(body, "{\"script\": PATH} or {}")?;
    ask(&backend, Request::Reload { script: body.script }).await.map(Json)
}

fn read<T: DeserializeOwned>(body: Body, expected: &str) -> Result<T, ApiError> {
    let body = body.map_err(|error| ApiError { status: error.status().as_u16(), message: error.body_text() })?;
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::invalid(format!("the body is not what was expected: {error}; expected {expected}")))
}

async fn show_metrics(State(backend): State<Shared>) -> Result<Response, ApiError> {
    let answer = ask(&backend, Request::Metrics).await?;
    let snapshot: Snapshot = serde_json::from_value(answer)
        .map_err(|error| ApiError::failed(format!("the router's numbers are not understood: {error}")))?;
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((kind, metrics::render(&snapshot)).into_response())
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(json!({ "error": self.message }))).into_response()
    }
}
