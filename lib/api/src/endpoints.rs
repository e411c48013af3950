// SPDX-License-Identifier: MIT
//! The server's routes: every query of the registry, the streams, and `/metrics`.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodFilter, get, on};
use hyper::Method;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

use crate::answers::Snapshot;
use crate::ask::{ApiError, Body, Shared, ask, ask_query, parameters};
use crate::declare::{LONGEST_BODY, PATIENCE, Visitor};
use crate::queries::{self, Capture, Metrics, Request, Trace};
use crate::{Endpoint, Query, metrics, stream};

/// How old counters may be that strangers are shown. To gather them takes the slow path longer than to forward some
/// thousand packets.
const FRESH: Duration = Duration::from_millis(500);

/// Everything, for the unix socket.
pub(crate) fn everything(backend: Shared) -> Router {
    let metrics = Router::new().route(Metrics::PATH, get(show_metrics));
    let mut routes = Routes(metrics.fallback(nothing_here));
    queries::each(&mut routes);
    routes
        .0
        .route(Trace::PATH, get(stream::trace))
        .route(Capture::PATH, get(stream::capture))
        .method_not_allowed_fallback(async |uri: Uri| {
            let message = format!("{} cannot be used with this method", uri.path());
            ApiError { status: 405, message }
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(backend)
}

/// Only what may be read over the network: the metrics, which are gathered at most every [`FRESH`], however many ask.
pub(crate) fn only_metrics(backend: Shared) -> Router {
    let gathered = Arc::new(Gathered { backend, last: Mutex::new(None) });
    Router::new().route(Metrics::PATH, get(show_gathered)).fallback(nothing_here).with_state(gathered)
}

async fn nothing_here(uri: Uri) -> ApiError {
    ApiError::not_found(format!("there is no {} here", uri.path()))
}

/// The last counters. Held while they are gathered, so that those who come meanwhile wait for them.
struct Gathered {
    backend: Shared,
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Gathered {
    async fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        let mut last = self.last.lock().await;
        if let Some((_, snapshot)) = last.as_ref().filter(|(when, _)| when.elapsed() < FRESH) {
            return Ok(snapshot.clone());
        }
        let snapshot: Arc<Snapshot> = Arc::from(snapshot(&self.backend).await?);
        *last = Some((Instant::now(), snapshot.clone()));
        Ok(snapshot)
    }
}

struct Routes(Router<Shared>);

impl Visitor for Routes {
    fn query<Q: Query>(&mut self) {
        let method = match Q::METHOD {
            Method::POST => MethodFilter::POST,
            Method::DELETE => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let answer = on(method, answer::<Q>).layer(DefaultBodyLimit::max(Q::LONGEST_BODY));
        self.0 = std::mem::take(&mut self.0).route(Q::PATH, answer);
    }
}

/// Answers a query. By way of a [`Value`], so that the fields of an object come in alphabetical order.
async fn answer<Q: Query>(State(backend): State<Shared>, uri: Uri, body: Body) -> Result<Json<Value>, ApiError> {
    let answer = ask_query(&backend, parameters::<Q>(&uri, body)?).await?;
    let json = serde_json::to_value(answer);
    json.map(Json).map_err(|error| ApiError::failed(format!("the answer has no JSON: {error}")))
}

async fn snapshot(backend: &Shared) -> Result<Box<Snapshot>, ApiError> {
    ask(backend, Duration::from_secs(PATIENCE), Request::Metrics).await
}

async fn show_metrics(State(backend): State<Shared>, headers: HeaderMap) -> Result<Response, ApiError> {
    Ok(written(&*snapshot(&backend).await?, &headers))
}

async fn show_gathered(State(gathered): State<Arc<Gathered>>, headers: HeaderMap) -> Result<Response, ApiError> {
    Ok(written(&*gathered.snapshot().await?, &headers))
}

fn written(snapshot: &Snapshot, headers: &HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = metrics::Format::accepted(accept);
    let kind = [(header::CONTENT_TYPE, format.content_type())];
    (kind, metrics::render(snapshot, format)).into_response()
}
