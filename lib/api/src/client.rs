// SPDX-License-Identifier: MIT
//! The other side of the API: for the command line. It blocks, so do not use it inside an async runtime.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::queries::Metrics;
use crate::{Endpoint, Query};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No router listens there, or we may not connect. The text says what to do.
    #[error("{0}")]
    Unreachable(String),
    /// The router's own error.
    #[error("{message}")]
    Refused {
        /// The HTTP status, 400 to 599.
        status: u16,
        /// One sentence.
        message: String,
    },
    /// The answer is not one of this API.
    #[error("the router's answer is not understood: {0}; is it of another version than this command?")]
    Strange(String),
}

/// How long a full queue of the listener is waited for, and between two tries.
const QUEUE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// A router's API.
#[derive(Debug)]
pub struct ApiClient {
    path: PathBuf,
    runtime: Runtime,
}

impl ApiClient {
    /// Finds the router that listens at `path`.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable(path, &error))?;
        let client = Self { path: path.to_owned(), runtime };
        client.runtime.block_on(client.socket())?;
        Ok(client)
    }

    /// The answer to a query.
    ///
    /// # Errors
    /// The router is gone, refuses, or answers something else.
    pub fn ask<Q: Query>(&self, query: &Q) -> Result<Q::Answer, ClientError> {
        understood(&self.exchange(query)?)
    }

    /// The answer to a query in its original form, including fields that this version does not know.
    ///
    /// # Errors
    /// As [`ApiClient::ask`].
    pub fn ask_json<Q: Query>(&self, query: &Q) -> Result<Value, ClientError> {
        understood(&self.exchange(query)?)
    }

    /// The answer to `GET /metrics`.
    ///
    /// # Errors
    /// The router is gone or refuses.
    pub fn metrics(&self) -> Result<String, ClientError> {
        let body = self.exchange(&Metrics {})?;
        String::from_utf8(body.into()).map_err(|error| ClientError::Strange(error.to_string()))
    }

    /// Gives the body of the answer to `GET path`, such as [`Endpoint::url`] of a trace, to `each` in pieces as they
    /// come. It stops when the body ends, when `each` returns false, or by Ctrl-C or SIGTERM, which is not an
    /// error.
    ///
    /// # Errors
    /// The router is gone or refuses.
    pub fn stream(&self, path: &str, each: impl FnMut(&[u8]) -> bool) -> Result<(), ClientError> {
        self.runtime.block_on(self.streamed(path, each))
    }

    async fn streamed(&self, path: &str, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), ClientError> {
        let no_signal = |error: io::Error| ClientError::Unreachable(format!("signals cannot be caught: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signal)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signal)?;
        let mut body = std::pin::pin!(self.answered(Method::GET, path, Bytes::new()).await?);
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| self.lost(&error))?;
            if frame.data_ref().is_some_and(|piece| !each(piece)) {
                return Ok(());
            }
        }
    }

    fn lost(&self, error: &hyper::Error) -> ClientError {
        ClientError::Unreachable(format!("the router at {} went away: {error}", self.path.display()))
    }

    fn exchange<E: Endpoint>(&self, endpoint: &E) -> Result<Bytes, ClientError> {
        let body = match E::METHOD {
            Method::GET => Vec::new(),
            _ => serde_json::to_vec(endpoint).map_err(|error| ClientError::Strange(error.to_string()))?,
        };
        self.runtime.block_on(async {
            let body = self.answered(E::METHOD, &endpoint.url(), body.into()).await?;
            Ok(body.collect().await.map_err(|error| self.lost(&error))?.to_bytes())
        })
    }

    /// One request on a connection of its own; the body of a good answer, as it comes.
    async fn answered(&self, method: Method, path: &str, body: Bytes) -> Result<Incoming, ClientError> {
        let lost = |error: hyper::Error| self.lost(&error);
        let stream = TokioIo::new(self.socket().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(lost)?;
        // Ends with the runtime, or when both the sender and the body are gone.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "perigee")
            .header(ACCEPT, "application/json, application/openmetrics-text")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| ClientError::Strange(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(lost)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await.map_err(lost)?.to_bytes();
        Err(refusal(status, &body))
    }

    /// A connection. While the listener's queue is full, a unix socket refuses at once: that is waited for.
    async fn socket(&self) -> Result<UnixStream, ClientError> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(&self.path).await {
                Err(error) if error.kind() == ErrorKind::WouldBlock && began.elapsed() < QUEUE => {
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => return outcome.map_err(|error| unreachable(&self.path, &error)),
            }
        }
    }
}

fn understood<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Strange(error.to_string()))
}

fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    let message = answer.as_ref().and_then(|value| value["error"].as_str());
    ClientError::Refused { status: status.as_u16(), message: message.unwrap_or(status.as_str()).to_owned() }
}

fn unreachable(path: &Path, error: &io::Error) -> ClientError {
    let path = path.display();
    ClientError::Unreachable(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
            "no router answers at {path}: is it running? `perigee run FILE` starts one; another one's socket is named with --socket"
        ),
        ErrorKind::PermissionDenied => {
            format!("no permission to use {path}: run this as the user who started the router")
        }
        _ => format!("cannot reach a router at {path}: {error}"),
    })
}
