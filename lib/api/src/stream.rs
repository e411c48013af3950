// SPDX-License-Identifier: MIT
//! Taps as streams: `GET /v1/trace` in lines of JSON, `GET /v1/capture` in pcapng. A stream lasts until the
//! requested number of records has come, the client goes away, or the router ends. Once a second it reports how many
//! were lost, which also shows whether the client is still there.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use tokio::time::{Instant, timeout_at};

use crate::Endpoint;
use crate::ask::{ApiError, Shared, ask, parameters};
use crate::declare::PATIENCE;
use crate::pcapng::{self, Packet};
use crate::queries::{Capture, Request, Trace};
use crate::taps::{Inlet, Outlet, Record, TapOn, TapRequest, TapWhat, TraceLine};

/// Time between two reports of losses.
const REPORT: Duration = Duration::from_secs(1);
/// Records in one piece of the body.
const PIECE: usize = 256;
/// Bytes of a packet that are kept, by default and at most.
const SNAPLEN: u32 = 65_535;

/// Turns the tap on.
async fn tap(
    backend: &Shared,
    what: TapWhat,
    filter: Option<String>,
    count: Option<u64>,
    snaplen: u32,
) -> Result<(TapOn, Inlet), ApiError> {
    if count == Some(0) {
        return Err(ApiError::invalid("found count=0, expected a number from 1 on"));
    }
    let (outlet, inlet) = Outlet::new(count, snaplen as usize);
    let request = TapRequest { what, filter: filter.unwrap_or_default(), outlet };
    let on = ask(backend, Duration::from_secs(PATIENCE), |reply| Request::Tap(request, reply)).await?;
    Ok((on, inlet))
}

pub(crate) async fn trace(State(backend): State<Shared>, uri: Uri) -> Result<Response, ApiError> {
    let Trace { filter, count } = parameters(&uri, Ok(Bytes::new()))?;
    let (_, inlet) = tap(&backend, TapWhat::Trace, filter, count, SNAPLEN).await?;
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, stream(inlet, count, Vec::new(), Lines)).into_response())
}

pub(crate) async fn capture(State(backend): State<Shared>, uri: Uri) -> Result<Response, ApiError> {
    let expected = Capture::EXPECTED;
    let Capture { port, what, filter, count, snaplen } = parameters(&uri, Ok(Bytes::new()))?;
    let what = match (port, what.as_deref()) {
        (Some(port), None) => TapWhat::Port(port),
        (None, Some("drops")) => TapWhat::Drops,
        (None, Some("punts")) => TapWhat::Punts,
        _ => return Err(ApiError::invalid(format!("it is not said what to capture; expected {expected}"))),
    };
    let snaplen = snaplen.filter(|bytes| *bytes > 0).unwrap_or(SNAPLEN).min(SNAPLEN);
    let (on, inlet) = tap(&backend, what, filter, count, snaplen).await?;
    let (numbers, names): (Vec<u16>, Vec<String>) = on.ports.into_iter().unzip();
    let mut first = Vec::new();
    pcapng::begin(&mut first, concat!("perigee ", env!("CARGO_PKG_VERSION")), &names, snaplen);
    let kind = [(header::CONTENT_TYPE, "application/x-pcapng")];
    Ok((kind, stream(inlet, count, first, Pcapng { numbers })).into_response())
}

/// The format of records.
trait Format: Send + 'static {
    /// Writes a record; returns whether it counts.
    fn record(&self, to: &mut Vec<u8>, record: Record) -> bool;
    /// Writes how many were lost so far.
    fn lost(&self, to: &mut Vec<u8>, lost: u64);
}

struct Lines;

impl Format for Lines {
    fn record(&self, to: &mut Vec<u8>, record: Record) -> bool {
        let Record::Trace(trace) = record else { return false };
        line(to, &TraceLine::Trace(trace));
        true
    }

    fn lost(&self, to: &mut Vec<u8>, lost: u64) {
        line(to, &TraceLine::Lost { lost });
    }
}

fn line(to: &mut Vec<u8>, line: &TraceLine) {
    // Names, numbers and lists: all of it has a form in JSON.
    if serde_json::to_writer(&mut *to, line).is_ok() {
        to.push(b'\n');
    }
}

struct Pcapng {
    /// Ports' numbers, by interface.
    numbers: Vec<u16>,
}

impl Format for Pcapng {
    fn record(&self, to: &mut Vec<u8>, record: Record) -> bool {
        let Record::Captured(captured) = record else { return false };
        let interface = self.numbers.iter().position(|number| *number == captured.port).unwrap_or(0) as u32;
        let (time, length, bytes) = (captured.time, captured.length, captured.bytes);
        let (direction, comment) = (captured.direction, captured.comment);
        pcapng::packet(to, &Packet { interface, time, length, bytes, direction, comment });
        true
    }

    fn lost(&self, to: &mut Vec<u8>, lost: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Nobody knows of which port they were: the first stands for all.
        pcapng::statistics(to, 0, now.as_nanos() as u64, lost);
    }
}

struct Stream<F> {
    inlet: Inlet,
    left: u64,
    format: F,
    first: Option<Vec<u8>>,
    report: Instant,
    ended: bool,
}

/// The body: pieces as records come.
fn stream<F: Format>(inlet: Inlet, count: Option<u64>, first: Vec<u8>, format: F) -> Body {
    let report = Instant::now() + REPORT;
    let state = Stream { inlet, left: count.unwrap_or(u64::MAX), format, first: Some(first), report, ended: false };
    let pieces = futures::stream::unfold(state, |mut state| async move {
        let piece = state.piece().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), state))
    });
    Body::from_stream(pieces)
}

impl<F: Format> Stream<F> {
    /// The next piece of the body, or its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        // A first piece at once tells the client that the tap is on.
        if let Some(mut first) = self.first.take() {
            self.format.lost(&mut first, self.inlet.lost());
            return Some(first);
        }
        let (mut piece, mut records) = (Vec::new(), Vec::new());
        match timeout_at(self.report, self.inlet.records.recv_many(&mut records, PIECE)).await {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(_) => {
                self.report = Instant::now() + REPORT;
                self.format.lost(&mut piece, self.inlet.lost());
                return Some(piece);
            }
        }
        for record in records {
            self.ended |= record == Record::End;
            if self.left > 0 && self.format.record(&mut piece, record) {
                self.left -= 1;
            }
        }
        self.ended |= self.left == 0;
        if self.ended {
            self.format.lost(&mut piece, self.inlet.lost());
        }
        Some(piece)
    }
}
