// SPDX-License-Identifier: MIT
//! The API over a real socket, with a backend that knows a few answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perigee_api::answers::{Outcome, RouteList, VersionStatus, WorkerStatus};
use perigee_api::client::{ApiClient, ClientError};
use perigee_api::queries::{
    AddRoute, DeleteRoute, Reload, ShowNeighbors, ShowRoutes, ShowVersion, ShowWorkers, TakeGaps, Trace,
};
use perigee_api::{ApiError, Backend, Endpoint, Request, RouteChange, Server, Show};

/// Remembers what it was asked: the query without its reply.
#[derive(Default)]
struct Fake {
    asked: Mutex<Vec<String>>,
    /// How often all counters were gathered.
    gathered: AtomicU32,
}

impl Fake {
    fn note(&self, query: impl std::fmt::Debug) {
        self.asked.lock().unwrap().push(format!("{query:?}"));
    }
}

impl Backend for Fake {
    fn handle(&self, request: Request) {
        match request {
            Request::Show(Show::ShowWorkers(query, reply)) => {
                self.note(query);
                reply.send(Ok(vec![WorkerStatus { core: 3, ..WorkerStatus::default() }]));
            }
            Request::TakeGaps(query, reply) => {
                self.note(query);
                reply.send(Ok(Vec::new()));
            }
            Request::Show(Show::ShowRoutes(query, reply)) => {
                let total = query.limit.unwrap_or(ShowRoutes::LIMIT) as u64;
                self.note(query);
                reply.send(Ok(RouteList { total, ..RouteList::default() }));
            }
            Request::AddRoute(query, reply) => {
                self.note(query);
                reply.send(Ok(Outcome { message: "added".into() }));
            }
            Request::DeleteRoute(query, reply) => {
                self.note(query);
                reply.send(Err(ApiError::not_found("there is no route to 10.1.0.0/16")));
            }
            Request::Reload(query, reply) => {
                self.note(query);
                reply.send(Ok(Outcome::default()));
            }
            Request::Metrics(reply) => {
                self.gathered.fetch_add(1, Ordering::Relaxed);
                reply.send(Ok(Box::default()));
            }
            // From another thread, as the real one does it.
            Request::Show(Show::ShowVersion(_, reply)) => {
                drop(std::thread::spawn(move || reply.send(Ok(VersionStatus::default()))));
            }
            // A reply that is dropped is an error.
            other => self.note(other),
        }
    }
}

fn start(path: &Path) -> (Server, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let server = Server::start(path, None, fake.clone()).unwrap_or_else(|error| panic!("{error}"));
    (server, fake)
}

/// Status line and body of a raw request.
fn raw(path: &Path, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn requests_reach_the_backend_and_answers_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/perigee.sock");
    let (server, fake) = start(&path);
    let client = ApiClient::connect(&path).unwrap();
    assert_eq!(client.ask(&ShowWorkers {}).unwrap()[0].core, 3);
    assert_eq!(client.ask(&ShowVersion {}).unwrap(), VersionStatus::default());
    assert_eq!(client.ask(&ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap().total, 1000);
    let few = ShowRoutes { within: Some("10.0.0.0/8".parse().unwrap()), to: None, source: None, limit: Some(5) };
    assert_eq!(client.ask(&few).unwrap().total, 5);
    let via = Some("10.0.0.2".parse().unwrap());
    let change = RouteChange { via, ..RouteChange::of("10.1.0.0/16".parse().unwrap()) };
    assert_eq!(client.ask(&AddRoute(change.clone())).unwrap().message, "added");
    match client.ask(&DeleteRoute(change.clone())) {
        Err(ClientError::Refused { status: 404, message }) => assert_eq!(message, "there is no route to 10.1.0.0/16"),
        other => panic!("{other:?}"),
    }
    client.ask(&TakeGaps {}).unwrap();
    client.ask(&Reload { script: Some("/x.lua".into()), text: None }).unwrap();
    let text = client.metrics().unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    match client.ask(&ShowNeighbors {}) {
        Err(ClientError::Refused { status: 503, message }) => assert_eq!(message, "the router is stopping"),
        other => panic!("{other:?}"),
    }
    let asked = fake.asked.lock().unwrap();
    assert!(asked.contains(&format!("{:?}", Reload { script: Some("/x.lua".into()), text: None })), "{asked:?}");
    assert!(asked.contains(&format!("{:?}", TakeGaps {})), "{asked:?}");
    assert!(asked.contains(&format!("{:?}", DeleteRoute(change))), "{asked:?}");
    assert!(asked.contains(&format!("{few:?}")), "{asked:?}");
    drop(asked);
    drop(server);
    assert!(!path.exists(), "the socket is left behind");
    let gone = client.ask(&ShowVersion {}).unwrap_err().to_string();
    assert!(gone.starts_with("no router answers at "), "{gone}");
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let (_server, fake) = start(&path);
    let long = "x".repeat(70_000);
    let cases = [
        (request("GET", "/v1/nonsense", ""), "404", "there is no /v1/nonsense here"),
        (request("POST", "/v1/ports", ""), "405", "/v1/ports cannot be used with this method"),
        (request("POST", "/v1/routes", "{"), "400", "expected {\"prefix\": PREFIX"),
        (request("POST", "/v1/routes", "{\"prefix\":\"10.0.0.0/99\"}"), "400", "the body is not what was expected"),
        (request("POST", "/v1/routes", "{\"prefix\":\"10.0.0.0/8\",\"vai\":\"x\"}"), "400", "unknown field `vai`"),
        (request("POST", "/v1/reload", ""), "400", "{\"script\": PATH} or {}"),
        (request("GET", "/v1/routes?limit=many", ""), "400", "expected within=PREFIX, to=ADDRESS, source=SOURCE"),
        (request("GET", "/v1/routes?source=bgpd", ""), "400", "a protocol of Linux such as bgp, bird or 186"),
        (request("POST", "/v1/routes", &long), "413", "length limit exceeded"),
        // Whoever prints a refusal does not command the terminal by it.
        (request("GET", "/v1/routes?%1b%5b2J=1", ""), "400", "unknown field `?[2J`"),
        (request("POST", "/v1/routes", "{\"\\u001b[2J\":1}"), "400", "unknown field `?[2J`"),
    ];
    for (request, status, words) in cases {
        let (head, body) = raw(&path, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}\n{body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
        assert!(answer["error"].as_str().unwrap().contains(words), "{body}");
    }
    // A script's text may be longer.
    let script = format!("{{\"script\":\"/x.lua\",\"text\":\"{long}\"}}");
    assert!(raw(&path, &request("POST", "/v1/reload", &script)).0.starts_with("HTTP/1.1 200"));
    assert_eq!(fake.asked.lock().unwrap().drain(..).count(), 1);
    let (head, _) = raw(&path, "nonsense\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(fake.asked.lock().unwrap().is_empty(), "nonsense reached the router");
}

#[test]
fn metrics_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let server = Server::start(&path, Some("127.0.0.1:0".parse().unwrap()), Arc::new(Fake::default())).unwrap();
    let plain = request("GET", "/metrics", "");
    let (head, _) = raw(&path, &plain);
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let (head, _) = raw(&path, &plain.replace("host: x", "host: x\r\naccept: application/openmetrics-text"));
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    for (what, status) in [("/metrics", "200"), ("/v1/config", "404")] {
        let mut stream = TcpStream::connect(server.metrics().unwrap()).unwrap();
        stream.write_all(request("GET", what, "").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {answer}");
    }
}

/// To gather all counters is work for the slow path, which strangers must not be able to keep busy.
#[test]
fn counters_are_not_gathered_as_often_as_the_network_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let fake = Arc::new(Fake::default());
    let server = Server::start(&path, Some("127.0.0.1:0".parse().unwrap()), fake.clone()).unwrap();
    let (began, gathered) = (Instant::now(), || fake.gathered.load(Ordering::Relaxed));
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.metrics().unwrap()).unwrap();
        stream.write_all(request("GET", "/metrics", "").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let most = 1 + began.elapsed().as_millis() / Duration::from_millis(500).as_millis();
    let of_network = gathered();
    assert!((1..=most).contains(&of_network.into()), "{of_network} times, expected 1 to {most}");
    // The operator sees what is.
    for n in 1..=3 {
        raw(&path, &request("GET", "/metrics", ""));
        assert_eq!(gathered(), of_network + n);
    }
}

#[test]
fn the_socket_and_its_folder_are_the_users_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/perigee.sock");
    let (_server, _) = start(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

/// The bound socket stayed where there was no such group, and the next start took it for that of a killed router.
#[test]
fn a_group_that_is_unknown_leaves_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let start = |group| Server::start_for(Some(group), &path, None, Arc::new(Fake::default()));
    let error = start("no-such-group").unwrap_err().to_string();
    assert!(error.contains("there is no group no-such-group"), "{error}");
    assert!(!path.exists());
}

/// A folder that an operator had made for himself could be entered by all, as it was named like the router's.
#[test]
fn a_group_enters_the_folder_that_the_start_has_made_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let own = fs::metadata(folder.path()).unwrap().gid().to_string();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (made_before, expected) in [(false, 0o755), (true, 0o700)] {
        let home = folder.path().join(expected.to_string()).join("perigee");
        if made_before {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&home).unwrap();
        }
        let path = home.join("perigee.sock");
        let _server = Server::start_for(Some(&own), &path, None, Arc::new(Fake::default())).unwrap();
        let around = home.parent().unwrap();
        assert_eq!((mode(around), mode(&home), mode(&path)), (expected, expected, 0o660));
    }
}

#[test]
fn a_killed_routers_socket_is_replaced_a_living_ones_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "this is what a killed router leaves");
    let (server, _) = start(&path);
    let error = Server::start(&path, None, Arc::new(Fake::default())).unwrap_err().to_string();
    let expected = format!(
        "a running router uses {} already; stop it, or give this one another `name` or `socket` in [router]",
        path.display()
    );
    assert_eq!(error, expected);
    ApiClient::connect(&path).expect("the first router still answers");
    drop(server);
    fs::write(&path, "precious").unwrap();
    let error = Server::start(&path, None, Arc::new(Fake::default())).unwrap_err().to_string();
    assert!(error.contains("is there already and is no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_impossible_start_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = Server::start(&path, Some(taken.local_addr().unwrap()), Arc::new(Fake::default())).unwrap_err();
    assert!(error.to_string().contains("choose another `metrics`"), "{error}");
    assert!(!path.exists());
    let long = folder.path().join("x".repeat(120));
    let error = Server::start(&long, None, Arc::new(Fake::default())).unwrap_err().to_string();
    assert!(error.contains("choose another `socket`"), "{error}");
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Server::start(&folder.path().join("file/a.sock"), None, Arc::new(Fake::default())).unwrap_err();
    assert!(error.to_string().contains("cannot make the folder"), "{error}");
}

#[test]
fn the_end_does_not_wait_for_a_client_that_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let (server, _) = start(&path);
    let mut silent = UnixStream::connect(&path).unwrap();
    silent.write_all(b"GET /v1/ver").unwrap();
    drop(server); // would hang here
    assert!(!path.exists());
}

#[test]
fn an_answer_of_something_else_is_not_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        // The first connection only asks whether anybody listens.
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    });
    let client = ApiClient::connect(&path).unwrap();
    assert!(matches!(client.ask(&ShowWorkers {}), Err(ClientError::Strange(_))));
    other.join().unwrap();
}

/// `socket = "/nosuch/dir/x"` made the folders, and left them.
#[test]
fn folders_that_were_made_for_the_socket_are_removed_at_the_end() {
    let parent = tempfile::tempdir().unwrap();
    let [made, inner] = ["a", "a/b"].map(|name| parent.path().join(name));
    let start = |name: &str| Server::start(&inner.join(name), None, Arc::new(Fake::default())).unwrap();
    let server = start("x.sock");
    assert_eq!(server.made(), [inner.join("x.sock"), inner.clone(), made.clone()]);
    drop(server);
    assert!(!made.exists() && parent.path().exists());
    // Another router has come into it, which has made none itself.
    let (first, second) = (start("x.sock"), start("y.sock"));
    drop(first);
    assert!(inner.join("y.sock").exists());
    drop(second);
    assert!(inner.exists(), "who did not make it does not remove it");
    // A start that fails leaves none.
    std::fs::remove_dir_all(&made).unwrap();
    assert!(Server::start_for(Some("no such group"), &inner.join("x"), None, Arc::new(Fake::default())).is_err());
    let taken = inner.join("n".repeat(200));
    assert!(Server::start(&taken, None, Arc::new(Fake::default())).is_err());
    assert!(!made.exists());
}

#[test]
fn parameters_are_escaped_and_those_without_a_value_left_out() {
    let trace = |filter: Option<&str>, count| Trace { filter: filter.map(str::to_owned), count }.url();
    assert_eq!(trace(None, None), "/v1/trace");
    assert_eq!(trace(None, Some(3)), "/v1/trace?count=3");
    assert_eq!(trace(Some("tcp and (é) & 1-2"), None), "/v1/trace?filter=tcp+and+%28%C3%A9%29+%26+1-2");
    let routes = ShowRoutes { within: Some("2001:db8::/32".parse().unwrap()), to: None, source: None, limit: Some(1) };
    assert_eq!(routes.url(), "/v1/routes?within=2001%3Adb8%3A%3A%2F32&limit=1");
    let of_bgp = ShowRoutes { within: None, to: None, source: Some("bgp".parse().unwrap()), limit: None };
    assert_eq!(of_bgp.url(), "/v1/routes?source=linux%2Fbgp");
    assert_eq!(Reload { script: Some("/x.lua".into()), text: None }.url(), "/v1/reload");
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let (_server, fake) = start(&path);
    let long = request("GET", "/v1/workers", "").replace("host: x", &format!("host: x\r\ny: {}", "z".repeat(100_000)));
    let many = request("GET", "/v1/workers", "").replace("host: x", &format!("host: x{}", "\r\ny: z".repeat(1000)));
    for request in [long, many] {
        let mut stream = UnixStream::connect(&path).unwrap();
        // It may be refused before all of it is written.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    assert!(fake.asked.lock().unwrap().is_empty(), "too large a request reached the router");
}
