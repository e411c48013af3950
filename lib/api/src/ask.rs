// SPDX-License-Identifier: MIT
//! How a query gets from the server to the backend, and how its answer comes back.

use crate::queries::Request;
use crate::{Endpoint, Query};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Json, Response};
use hyper::StatusCode;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The source of the answers: the router.
pub trait Backend: Send + Sync + 'static {
    /// Takes a request; the answer may be sent later and from another thread. Must not block: it is called on the
    /// API's only thread. A reply that is dropped is answered with an error.
    fn handle(&self, request: Request);
}

/// Where a [`Backend`] sends an answer of type `A`.
#[derive(Debug)]
pub struct Reply<A>(oneshot::Sender<Result<A, ApiError>>);

/// Where the answer to a [`Reply`] arrives, for callers other than the server.
#[derive(Debug)]
pub struct Answer<A>(std::cell::RefCell<oneshot::Receiver<Result<A, ApiError>>>);

impl<A> Answer<A> {
    /// The answer, if it has come. One that was dropped is an error.
    pub fn try_take(&self) -> Option<Result<A, ApiError>> {
        match self.0.borrow_mut().try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(ApiError::failed("nobody answers"))),
        }
    }
}

impl<A> Reply<A> {
    /// A reply, and where its answer arrives.
    pub fn pair() -> (Reply<A>, Answer<A>) {
        let (sender, receiver) = oneshot::channel();
        (Reply(sender), Answer(receiver.into()))
    }

    /// Sends the answer. If the client is gone, nothing happens.
    pub fn send(self, answer: Result<A, ApiError>) {
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

    /// 404: the thing that it is about does not exist.
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

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(json!({ "error": self.message }))).into_response()
    }
}

pub(crate) type Shared = Arc<dyn Backend>;
pub(crate) type Body = Result<Bytes, BytesRejection>;

/// Asks the backend and waits.
pub(crate) async fn ask<A>(
    backend: &Shared,
    patience: Duration,
    request: impl FnOnce(Reply<A>) -> Request,
) -> Result<A, ApiError> {
    let (sender, receiver) = oneshot::channel();
    backend.handle(request(Reply(sender)));
    match tokio::time::timeout(patience, receiver).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(ApiError { status: 503, message: "the router is stopping".into() }),
        Err(_) => {
            let message = format!("the router did not answer within {} seconds", patience.as_secs());
            Err(ApiError { status: 504, message })
        }
    }
}

/// Asks a query and waits.
pub(crate) async fn ask_query<Q: Query>(backend: &Shared, query: Q) -> Result<Q::Answer, ApiError> {
    ask(backend, Q::PATIENCE, |reply| query.request(reply)).await
}

/// The parameters of a request. If it takes none, URL and body are ignored.
///
/// # Errors
/// They are not what [`Endpoint::EXPECTED`] says.
pub(crate) fn parameters<E: Endpoint>(uri: &Uri, body: Body) -> Result<E, ApiError> {
    let expected = E::EXPECTED;
    if expected.is_empty() {
        return serde_json::from_value(json!({})).map_err(|error| ApiError::failed(error.to_string()));
    }
    if E::METHOD == Method::GET {
        let query = axum::extract::Query::try_from_uri(uri).map(|axum::extract::Query(query)| query);
        return query.map_err(|error| misread(&error.body_text(), expected));
    }
    let body = body.map_err(|error| ApiError { status: error.status().as_u16(), message: error.body_text() })?;
    serde_json::from_slice(&body)
        .map_err(|error| misread(&format!("the body is not what was expected: {error}"), expected))
}

/// The refusal of parameters, which it quotes: what a terminal would take for commands is left out of them.
fn misread(why: &str, expected: &str) -> ApiError {
    ApiError::invalid(format!("{}; expected {expected}", why.replace(char::is_control, "?")))
}
