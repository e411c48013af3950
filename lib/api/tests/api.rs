// SPDX-License-Identifier: MIT
//! The API over a real socket, with a backend that knows a few answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use perigee_api::answers::{NeighborEntry, Outcome, RouteList, Snapshot, VersionStatus, WorkerStatus};
use perigee_api::client::{ApiClient, ClientError};
use perigee_api::{ApiError, Backend, Reply, Request, RouteChange, Server};
use serde_json::json;

/// Remembers what it was asked.
#[derive(Default)]
struct Fake {
    asked: Mutex<Vec<Request>>,
}

impl Backend for Fake {
    fn handle(&self, request: Request, reply: Reply) {
        self.asked.lock().unwrap().push(request.clone());
        match request {
            Request::ShowWorkers => reply.send(Ok(vec![WorkerStatus { core: 3, ..WorkerStatus::default() }])),
            Request::ShowRoutes { limit, .. } => {
                reply.send(Ok(RouteList { total: limit as u64, ..RouteList::default() }))
            }
            Request::RouteAdd(_) => reply.send(Ok(Outcome { message: "added".into() })),
            Request::RouteDel(_) => reply.send::<Outcome>(Err(ApiError::not_found("there is no route to 10.1.0.0/16"))),
            Request::Metrics => reply.send(Ok(Snapshot::default())),
            Request::ShowNeighbors => drop(reply),
            // From another thread, as the real one does it.
            Request::Version => drop(std::thread::spawn(move || reply.send(Ok(VersionStatus::default())))),
            _ => reply.send(Ok(json!([]))),
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
    assert_eq!(client.get::<Vec<WorkerStatus>>("/v1/workers").unwrap()[0].core, 3);
    assert_eq!(client.get::<VersionStatus>("/v1/version").unwrap(), VersionStatus::default());
    assert_eq!(client.get::<RouteList>("/v1/routes").unwrap().total, 1000);
    let routes: RouteList = client.get("/v1/routes?within=10.0.0.0/8&limit=5").unwrap();
    assert_eq!(routes.total, 5);
    let via = Some("10.0.0.2".parse().unwrap());
    let change = RouteChange { via, ..RouteChange::of("10.1.0.0/16".parse().unwrap()) };
    assert_eq!(client.post::<Outcome>("/v1/routes", &change).unwrap().message, "added");
    match client.delete::<Outcome>("/v1/routes", &change) {
        Err(ClientError::Refused { status: 404, message }) => assert_eq!(message, "there is no route to 10.1.0.0/16"),
        other => panic!("{other:?}"),
    }
    client.post::<Vec<WorkerStatus>>("/v1/workers/gaps", &json!({})).unwrap();
    client.post::<serde_json::Value>("/v1/reload", &json!({"script": "/x.lua"})).unwrap();
    let text = client.text("/metrics").unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    match client.get::<Vec<NeighborEntry>>("/v1/neighbors") {
        Err(ClientError::Refused { status: 503, message }) => assert_eq!(message, "the router is stopping"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(client.get::<WorkerStatus>("/v1/workers"), Err(ClientError::Strange(_))));
    let asked = fake.asked.lock().unwrap();
    assert!(asked.contains(&Request::Reload { script: Some("/x.lua".into()) }));
    assert!(asked.contains(&Request::TakeGaps));
    assert!(asked.contains(&Request::RouteDel(change)));
    assert!(asked.contains(&Request::ShowRoutes { within: Some("10.0.0.0/8".parse().unwrap()), limit: 5 }));
    drop(asked);
    drop(server);
    assert!(!path.exists(), "the socket is left behind");
    let gone = client.get::<VersionStatus>("/v1/version").unwrap_err().to_string();
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
        (request("POST", "/v1/reload", ""), "400", "expected {\"script\": PATH} or {}"),
        (request("GET", "/v1/routes?limit=many", ""), "400", "expected within=PREFIX and limit=NUMBER"),
        (request("POST", "/v1/routes", &long), "413", "length limit exceeded"),
    ];
    for (request, status, words) in cases {
        let (head, body) = raw(&path, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}\n{body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
        assert!(answer["error"].as_str().unwrap().contains(words), "{body}");
    }
    let (head, _) = raw(&path, "nonsense\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(fake.asked.lock().unwrap().is_empty(), "nonsense reached the router");
}

#[test]
fn metrics_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perigee.sock");
    let server = Server::start(&path, Some("127.0.0.1:0".parse().unwrap()), Arc::new(Fake::default())).unwrap();
    let (head, _) = raw(&path, &request("GET", "/metrics", ""));
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    for (what, status) in [("/metrics", "200"), ("/v1/config", "404")] {
        let mut stream = TcpStream::connect(server.metrics().unwrap()).unwrap();
        stream.write_all(request("GET", what, "").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {answer}");
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
