// SPDX-License-Identifier: MIT
//! Connections that take all places of a listener: the owner of the router, and who reads its metrics, gets an answer
//! all the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use perigee_api::answers::WorkerStatus;
use perigee_api::client::ApiClient;
use perigee_api::queries::ShowVersion;
use perigee_api::{Backend, Request, Server, Show};

/// Bytes of a name in an answer that no socket's buffer holds.
const LONG: usize = 600_000;
/// Places of the API's socket.
const PLACES: usize = 128;

/// Answers at once.
struct Fake;

impl Backend for Fake {
    fn handle(&self, request: Request) {
        match request {
            Request::Metrics(reply) => reply.send(Ok(Box::default())),
            Request::Show(Show::ShowVersion(_, reply)) => reply.send(Ok(Default::default())),
            Request::Show(Show::ShowWorkers(_, reply)) => {
                reply.send(Ok(vec![WorkerStatus { queues: vec!["q".repeat(LONG)], ..WorkerStatus::default() }]))
            }
            // A reply that is dropped is an error.
            _ => {}
        }
    }
}

/// A server with metrics, in a folder that goes with it.
struct Scene {
    server: Server,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("perigee.sock");
        let server = Server::start(&socket, Some("0.0.0.0:0".parse().unwrap()), Arc::new(Fake)).unwrap();
        Scene { server, socket, _folder: folder }
    }

    fn metrics(&self) -> SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.server.metrics().unwrap().port()).into()
    }

    /// The metrics, asked for from an address of loopback. A connection that is closed before its answer leaves it
    /// empty.
    fn scrape(&self, from_address: [u8; 4]) -> String {
        let mut stream = from(from_address, self.metrics());
        let mut answer = String::new();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn ask(&self) {
        ApiClient::connect(&self.socket).unwrap().ask(&ShowVersion {}).unwrap();
    }
}

/// A connection from an address of loopback.
fn from(address: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(180), "waited 180 s in vain for {what}");
        // sleep: between two looks
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn connections_that_say_nothing_keep_nobody_else_out() {
    let scene = Scene::new();
    let mut slow: Vec<TcpStream> = (0..200).map(|_| from([127, 0, 0, 1], scene.metrics())).collect();
    slow.iter_mut().for_each(|stream| _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nx: "));
    assert!(scene.scrape([127, 0, 0, 2]).starts_with("HTTP/1.1 200"), "another address is served");
    assert!(scene.scrape([127, 0, 0, 1]).starts_with("HTTP/1.1 200"), "one of the same address gives way");
    scene.ask();
}

/// As 59 addresses did that shut out every scrape: whoever connects most closes its own connections.
#[test]
fn addresses_that_reconnect_keep_no_scraper_out() {
    let scene = Scene::new();
    let (to, ends, rounds) = (scene.metrics(), AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for first in [1, 21, 41] {
            let (ends, rounds) = (&ends, &rounds);
            scope.spawn(move || {
                let mut held: Vec<Option<TcpStream>> = Vec::new();
                held.resize_with(20, || None);
                while !ends.load(Ordering::Relaxed) {
                    for (place, host) in held.iter_mut().zip(first..) {
                        *place = Some(from([127, 0, 1, host], to));
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("each address to have connected often", || rounds.load(Ordering::Relaxed) > 60);
        let served = (1..=50).filter(|host| scene.scrape([127, 0, 2, *host]).starts_with("HTTP/1.1 200")).count();
        ends.store(true, Ordering::Relaxed);
        assert_eq!(served, 50, "of 50 scrapes");
    });
}

#[test]
fn silent_connections_of_the_operator_shut_nobody_out() {
    let scene = Scene::new();
    let mut silent: Vec<UnixStream> = (0..2 * PLACES).map(|_| UnixStream::connect(&scene.socket).unwrap()).collect();
    (0..10).for_each(|_| scene.ask());
    // Those that have begun to say something, or announce a body that does not come, are no better.
    for (index, stream) in silent.iter_mut().enumerate() {
        let begun: &[u8] = match index % 2 {
            0 => b"GET /v1/ver",
            _ => b"POST /v1/routes HTTP/1.1\r\nhost: x\r\ncontent-length: 10000\r\n\r\n{",
        };
        let _ = stream.write_all(begun);
    }
    (0..10).for_each(|_| scene.ask());
    let mut more: Vec<UnixStream> = (0..PLACES).map(|_| UnixStream::connect(&scene.socket).unwrap()).collect();
    for stream in &mut more {
        stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    }
    // They have been answered, and are kept for another request.
    (0..10).for_each(|_| scene.ask());
}

#[test]
fn slow_readers_of_the_api_shut_nobody_out() {
    let scene = Scene::new();
    // One after the other: none of them is silent for long, and each answer has begun.
    let begun = |_| {
        let mut stream = UnixStream::connect(&scene.socket).unwrap();
        stream.write_all(b"GET /v1/workers HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream
    };
    let _slow: Vec<UnixStream> = (0..PLACES).map(begun).collect();
    wait_until("a slow reader to give way", || {
        let client = ApiClient::connect(&scene.socket);
        client.is_ok_and(|client| client.ask(&ShowVersion {}).is_ok())
    });
}

/// A connection whose request is whole, and which takes its answer, is not closed for others' sake.
#[test]
fn who_is_being_answered_is_not_closed() {
    let scene = Scene::new();
    let mut busy = UnixStream::connect(&scene.socket).unwrap();
    busy.write_all(b"GET /v1/workers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    busy.read_exact(&mut [0; 12]).unwrap();
    let silent: Vec<UnixStream> = (0..2 * PLACES).map(|_| UnixStream::connect(&scene.socket).unwrap()).collect();
    scene.ask();
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"]"), "{} bytes", rest.len());
    drop(silent);
}
