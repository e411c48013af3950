// SPDX-License-Identifier: MIT
//! The open connections of a listener, and which of them gives way to another one when there is no place left.
//!
//! | a connection | gives way |
//! | --- | --- |
//! | has not sent a whole request, or none since its last answer | first: that of the address that has connected most often of late, and of these the oldest |
//! | does not take its answer, for a second | next: the one that has not taken anything for longest |
//! | waits for its answer, or takes it, or a stream | never |
//!
//! So neither connections that say nothing nor those that read nothing keep anybody out, and who connects again and
//! again closes its own connections, not those of others.

use hyper::body::{Body, Frame, SizeHint};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::doors::Limits;

/// How long a connection may take nothing of its answer before it may have to give way.
const STALLED: Duration = Duration::from_secs(1);
/// Addresses whose connections of late are counted; how often these counts are halved.
const COUNTED: usize = 1024;
const HALVED: Duration = Duration::from_secs(1);

/// What a connection is at.
#[derive(Debug)]
struct Manner {
    /// Its request is there as a whole, and its answer not yet written.
    working: bool,
    /// Since when it has been working or not.
    since: Instant,
    /// Since when its peer has taken nothing of what there is to write.
    stalled: Option<Instant>,
}

/// A connection: what it is at, and whether it has to end.
#[derive(Debug)]
pub(crate) struct Guest {
    manner: Mutex<Manner>,
    leave: Notify,
}

impl Guest {
    fn new() -> Arc<Guest> {
        let manner = Manner { working: false, since: Instant::now(), stalled: None };
        Arc::new(Guest { manner: Mutex::new(manner), leave: Notify::new() })
    }

    fn manner(&self) -> MutexGuard<'_, Manner> {
        self.manner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn works(&self, working: bool) {
        let mut manner = self.manner();
        (manner.working, manner.since) = (working, Instant::now());
    }

    /// Notes what became of an attempt to write.
    fn wrote<T>(&self, outcome: Poll<T>) -> Poll<T> {
        let mut manner = self.manner();
        match outcome.is_ready() {
            true => manner.stalled = None,
            false => _ = manner.stalled.get_or_insert_with(Instant::now),
        }
        outcome
    }

    /// Until the connection has to give way.
    pub(crate) async fn has_to_leave(&self) {
        self.leave.notified().await;
    }
}

/// All connections.
#[derive(Debug, Default)]
struct List {
    guests: Vec<(Option<IpAddr>, Arc<Guest>)>,
    /// How often each address has connected of late.
    recent: HashMap<Option<IpAddr>, u32>,
    halved: Option<Instant>,
}

/// The open connections of a listener.
#[derive(Debug, Default)]
pub(crate) struct Guests(Mutex<List>);

/// A place among them; given back when it is dropped.
pub(crate) struct Place {
    guests: Arc<Guests>,
    pub guest: Arc<Guest>,
}

/// How a connection got its place.
pub(crate) enum Entry {
    /// There was one.
    Free(Place),
    /// Another connection gave way.
    Instead(Place),
    /// All of them are busy.
    Refused,
}

impl Guests {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of an address, if there is one or another one gives way.
    pub(crate) fn enter(self: &Arc<Self>, who: Option<IpAddr>, limits: &Limits) -> Entry {
        let (who, mut list) = (who.map(network), self.list());
        list.count(who);
        let here = list.guests.iter().filter(|(other, _)| *other == who).count();
        let full = here >= limits.of_address;
        let makes_room = full || list.guests.len() >= limits.connections;
        if makes_room && !list.make_room(full.then_some(who)) {
            return Entry::Refused;
        }
        let guest = Guest::new();
        list.guests.push((who, guest.clone()));
        let place = Place { guests: self.clone(), guest };
        if makes_room { Entry::Instead(place) } else { Entry::Free(place) }
    }
}

/// Whose an address is: of IPv6, a station has a network to choose from.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        other => other,
    }
}

impl List {
    /// Counts a connection of an address.
    fn count(&mut self, who: Option<IpAddr>) {
        if self.halved.is_none_or(|last| last.elapsed() >= HALVED) {
            self.halved = Some(Instant::now());
            self.recent.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
        if self.recent.len() < COUNTED || self.recent.contains_key(&who) {
            let count = self.recent.entry(who).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    /// Ends a connection, one of an address if that is given; false: all of them are busy.
    fn make_room(&mut self, of: Option<Option<IpAddr>>) -> bool {
        let (mut silent, mut stalled) = (None, None);
        for (index, (who, guest)) in
            self.guests.iter().enumerate().filter(|(_, (who, _))| of.is_none_or(|of| of == *who))
        {
            let manner = guest.manner();
            match manner.stalled {
                None if !manner.working => {
                    let recent = self.recent.get(who).copied().unwrap_or(0);
                    silent = silent.max(Some((recent, manner.since.elapsed(), index)));
                }
                Some(since) if since.elapsed() >= STALLED => stalled = stalled.max(Some((since.elapsed(), index))),
                _ => {}
            }
        }
        let Some(index) = silent.map(|(_, _, index)| index).or(stalled.map(|(_, index)| index)) else { return false };
        self.guests.swap_remove(index).1.leave.notify_one();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.list().guests.retain(|(_, guest)| !Arc::ptr_eq(guest, &self.guest));
    }
}

/// A connection's stream, which notes whether its peer takes what is written.
pub(crate) struct Watched<S> {
    pub stream: S,
    pub guest: Arc<Guest>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.guest.wrote(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.guest.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Which body it is: the request is whole at the end of the one, and answered at the end of the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

/// A body whose end is noted.
pub(crate) struct Noted<B> {
    body: B,
    side: Side,
    guest: Arc<Guest>,
}

impl<B: Body> Noted<B> {
    pub(crate) fn new(body: B, side: Side, guest: &Arc<Guest>) -> Noted<B> {
        if side == Side::Request && body.is_end_stream() {
            guest.works(true);
        }
        Noted { body, side, guest: guest.clone() }
    }
}

impl<B: Body + Unpin> Body for Noted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if self.side == Side::Request && (matches!(frame, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.guest.works(true);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Noted<B> {
    fn drop(&mut self) {
        if self.side == Side::Answer {
            self.guest.works(false);
        }
    }
}
