// SPDX-License-Identifier: MIT
//! The listeners' limits: how many connections, of whom, how large and how slow. What is beyond them is refused or
//! closed, never kept.
//!
//! When all places are taken, a connection that says nothing or takes nothing gives way to the next one (`guests.rs`);
//! where there is none, the next one is closed at once. When the process has no file descriptors left, that is said,
//! and listeners wait until some are free.

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::guests::{Entry, Guests, Noted, Place, Side, Watched};

/// What a listener takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Those of one address; of no meaning for a unix socket.
    pub of_address: usize,
    /// How long a request's head may take to arrive, and how long a connection may wait for the next.
    pub head: Duration,
    /// How long a connection may last; what is unanswered by then is cut off.
    pub life: Option<Duration>,
}

/// The API's own socket: its users are the operator's, and streams last as long as they are wanted.
pub(crate) const PRIVATE: Limits =
    Limits { connections: 128, of_address: usize::MAX, head: Duration::from_secs(30), life: None };

/// The metrics' listener, open to a network. A scraper comes back after its connection was closed.
pub(crate) const NETWORK: Limits =
    Limits { connections: 32, of_address: 8, head: Duration::from_secs(5), life: Some(Duration::from_secs(60)) };

/// The most bytes of a request's head, and of what is read ahead of it.
const HEAD: usize = 16 * 1024;
/// The most header fields.
const FIELDS: usize = 64;
/// How long to wait for descriptors when there are none, and between two log lines about one thing.
const PAUSE: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(10);

/// A listener of either kind.
pub(crate) trait Door: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and whose it is.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Door for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        UnixListener::accept(self).await.map(|(stream, _)| (stream, None))
    }
}

impl Door for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        TcpListener::accept(self).await.map(|(stream, address)| (stream, Some(address.ip())))
    }
}

/// Says something, but not again for [`QUIET`].
#[derive(Default)]
struct Said(Option<Instant>);

impl Said {
    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.0.is_none_or(|last| last.elapsed() >= QUIET) {
            self.0 = Some(Instant::now());
            tracing::warn!("{}", text());
        }
    }
}

/// Serves a listener until the stop; then connections may finish what they are at.
pub(crate) async fn keep<D: Door>(
    door: D,
    name: &str,
    app: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let (guests, mut connections) = (Arc::new(Guests::default()), JoinSet::new());
    let (mut full, mut failed) = (Said::default(), Said::default());
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            accepted = door.accept() => accepted,
            // What has ended gives its memory back.
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, who)) => {
                let from = || who.map_or_else(String::new, |who| format!(" from {who}"));
                let place = match guests.enter(who, &limits) {
                    Entry::Free(place) => place,
                    Entry::Instead(place) => {
                        full.say(|| {
                            format!(
                                "{name}: a connection{} took the place of an idle one, as there are too many",
                                from()
                            )
                        });
                        place
                    }
                    Entry::Refused => {
                        full.say(|| format!("{name}: a connection{} was refused, as there are too many", from()));
                        continue;
                    }
                };
                connections.spawn(serve(stream, place, app.clone(), limits, stopped.clone()));
                // Its request may be there already: it is read before the next connection comes.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                failed.say(|| format!("{name}: no connection can be accepted: {}", reason(&error)));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

/// What the system's refusal means, and what to do.
fn reason(error: &io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::MFILE) => {
            "the router has no file descriptor left; raise its limit (ulimit -n, LimitNOFILE=)".to_owned()
        }
        Some(rustix::io::Errno::NFILE) => "the system has no file left (fs.file-max)".to_owned(),
        Some(rustix::io::Errno::NOMEM | rustix::io::Errno::NOBUFS) => "the system has no memory left".to_owned(),
        _ => error.to_string(),
    }
}

/// Serves a connection: requests one after the other, none of them larger or slower than the limits.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    place: Place,
    app: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD).max_headers(FIELDS);
    let guest = place.guest.clone();
    let app = TowerToHyperService::new(app);
    let noted = service_fn(|request: Request<Incoming>| {
        let answer = app.call(request.map(|body| Noted::new(body, Side::Request, &guest)));
        let guest = guest.clone();
        async move { answer.await.map(|answer| answer.map(|body| Noted::new(body, Side::Answer, &guest))) }
    });
    let watched = Watched { stream, guest: guest.clone() };
    let connection = http.serve_connection(TokioIo::new(watched), noted);
    let mut connection = std::pin::pin!(connection);
    let life = async {
        match limits.life {
            Some(life) => tokio::time::sleep(life).await,
            None => std::future::pending().await,
        }
    };
    // How a connection ends is its peer's business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = guest.has_to_leave() => return,
        () = life => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let end = tokio::time::timeout(limits.head, connection);
    tokio::select! {
        _ = end => {}
        () = guest.has_to_leave() => {}
    }
}
