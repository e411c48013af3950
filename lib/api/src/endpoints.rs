// SPDX-License-Identifier: MIT
//! The server's routes: every query of the registry, the streams, and `/metrics`.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodFilter, get, on};
use hyper::Method;
use serde_json::Value;
use std::time::Duration;

use crate::ask::{ApiError, Body, Shared, ask, ask_query, parameters};
use crate::declare::{PATIENCE, Visitor};
use crate::queries::{self, Capture, Metrics, Request, Trace};
use crate::{Endpoint, Query, metrics, stream};

/// The longest request body in bytes; the longest sensible one has a hundred.
const LONGEST_BODY: usize = 64 * 1024;

/// Everything, for the unix socket.
pub(crate) fn everything(backend: Shared) -> Router {
    let mut routes = Routes(only_metrics());
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

/// Only what may be read over the network.
pub(crate) fn only_metrics() -> Router<Shared> {
    Router::new()
        .route(Metrics::PATH, get(show_metrics))
        .fallback(async |uri: Uri| ApiError::not_found(format!("there is no {} here", uri.path())))
}

struct Routes(Router<Shared>);

impl Visitor for Routes {
    fn query<Q: Query>(&mut self) {
        let method = match Q::METHOD {
            Method::POST => MethodFilter::POST,
            Method::DELETE => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        self.0 = std::mem::take(&mut self.0).route(Q::PATH, on(method, answer::<Q>));
    }
}

/// Answers a query. By way of a [`Value`], so that the fields of an object come in alphabetical order.
async fn answer<Q: Query>(State(backend): State<Shared>, uri: Uri, body: Body) -> Result<Json<Value>, ApiError> {
    let answer = ask_query(&backend, parameters::<Q>(&uri, body)?).await?;
    let json = serde_json::to_value(answer);
    json.map(Json).map_err(|error| ApiError::failed(format!("the answer has no JSON: {error}")))
}

async fn show_metrics(State(backend): State<Shared>, headers: HeaderMap) -> Result<Response, ApiError> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = metrics::Format::accepted(accept);
    let snapshot = ask(&backend, Duration::from_secs(PATIENCE), Request::Metrics).await?;
    let kind = [(header::CONTENT_TYPE, format.content_type())];
    Ok((kind, metrics::render(&snapshot, format)).into_response())
}
