// SPDX-License-Identifier: MIT
//! The API over its socket: bytes that are no HTTP, requests with any path, parameters and body, and each question in turn, to a whole
//! router. Every request gets an answer or a sentence why not, the router never fails because of one, and no connection is left open.

use crate::bed::{Bed, ONE_EACH};
use crate::frames::router::configuration;
use crate::input::Input;
use crate::kept::Kept;
use crate::sentence;
use perigee_api::{Backend, Request, Server};
use perigee_router::Mailbox;
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// How long an answer may take before the router counts as hanging.
const PATIENCE: Duration = Duration::from_secs(180);
/// The most requests of one input.
const REQUESTS: usize = 12;

const PATHS: [(&str, &str); 25] = [
    ("GET", "/v1/version"),
    ("GET", "/v1/ports"),
    ("GET", "/v1/workers"),
    ("POST", "/v1/workers/gaps"),
    ("GET", "/v1/modules"),
    ("GET", "/v1/drops"),
    ("GET", "/v1/slowpath"),
    ("GET", "/v1/routes"),
    ("POST", "/v1/routes"),
    ("DELETE", "/v1/routes"),
    ("GET", "/v1/fib"),
    ("GET", "/v1/neighbors"),
    ("GET", "/v1/neighbors/usage"),
    ("DELETE", "/v1/neighbors"),
    ("GET", "/v1/nexthops"),
    ("GET", "/v1/multicast"),
    ("GET", "/v1/scripts"),
    ("GET", "/v1/filters"),
    ("GET", "/v1/linux"),
    ("POST", "/v1/linux/resync"),
    ("POST", "/v1/audit"),
    ("GET", "/v1/config"),
    ("POST", "/v1/reload"),
    ("GET", "/metrics"),
    ("GET", "/v1/nothing"),
];
const STREAMS: [&str; 2] = ["/v1/trace", "/v1/capture"];
/// Pieces of parameters and bodies that lead further than single bytes.
const PIECES: [&str; 24] = [
    r#"{"prefix":"10.9.0.0/16","via":"10.0.2.2"}"#,
    r#"{"prefix":"2001:db8:9::/48","via":"2001:db8:2::2","dev":"b"}"#,
    r#"{"prefix":"198.51.100.0/24"}"#,
    r#"{"prefix":"0.0.0.0/0","gateways":[{"via":"10.0.2.2","weight":256},{"via":"10.0.3.9"}]}"#,
    r#"{"prefix":"10.9.0.0/16","via":"192.168.0.1","recursive":true,"metric":4294967295,"preference":255}"#,
    r#"{"repair":true}"#,
    r#"{"script":"/dev/null"}"#,
    r#"{"script":"broken.lua"}"#,
    r#"{"dev":"a"}"#,
    r#"{"address":"10.0.1.2"}"#,
    "{}",
    "[]",
    "within=10.0.0.0/8",
    "&limit=0",
    "limit=18446744073709551616",
    "filter=udp%20and%20port%209",
    "&count=1",
    "count=0",
    "port=a",
    "what=drops",
    "&snaplen=1",
    "%00%ff",
    "{\"prefix\":",
    "\u{1F980}",
];

/// The server, and the router that answers now.
struct Door {
    _server: Server,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

static CURRENT: Mutex<Option<Mailbox>> = Mutex::new(None);

struct Current;
impl Backend for Current {
    fn handle(&self, request: Request) {
        // Without a router the reply is dropped, and the client is told so.
        if let Some(mailbox) = CURRENT.lock().expect("no other thread has failed").as_ref() {
            mailbox.handle(request);
        }
    }
}

static DOOR: LazyLock<Door> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("api.sock");
    let server = Server::start(&path, None, Arc::new(Current)).expect("a server");
    Door { _server: server, path, _folder: folder }
});

/// Runs one input.
pub fn run(bytes: &[u8]) {
    ROUTER.with_borrow_mut(|router| {
        router.with(bytes, make, |(bed, _)| exchanges(bed, &mut Input::new(bytes)), |(bed, _)| {
            assert_eq!(bed.end(), 0, "packet buffers are missing");
        });
    });
}

thread_local! {
    /// The router, and the folder of its configuration, which it reloads.
    static ROUTER: RefCell<Kept<(Bed, tempfile::TempDir)>> = const { RefCell::new(Kept::new()) };
}

fn make() -> (Bed, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    (Bed::new(&configuration(1, 1), &folder.path().join("router.toml"), ONE_EACH), folder)
}

fn exchanges(bed: &mut Bed, input: &mut Input) {
    *CURRENT.lock().expect("no other thread has failed") = Some(bed.mailbox.clone());
    for _ in 0..REQUESTS {
        if input.is_empty() {
            break;
        }
        exchange(bed, &DOOR.path, input);
    }
    *CURRENT.lock().expect("no other thread has failed") = None;
}

/// One connection.
fn exchange(bed: &mut Bed, path: &Path, input: &mut Input) {
    match input.byte() {
        // Anything: it ends, with an answer or without.
        0..40 => {
            let (answer, _) = ask(bed, path, input.bytes(600), Ending::Ours);
            if let Some((status, _, _)) = parse(&answer) {
                assert!(status < 600, "{answer:?}");
            }
        }
        // A stream: its head is enough.
        40..60 => {
            let url = format!("{}?{}", STREAMS[input.below(2)], parameters(input));
            let (answer, _) = ask(bed, path, &request("GET", &url, ""), Ending::AfterHead);
            judge(&answer, &url);
        }
        choice => {
            let (mut method, url) = PATHS[input.below(PATHS.len())];
            if choice < 75 {
                method = ["GET", "POST", "DELETE", "PUT", "HEAD"][input.below(5)];
            }
            let text = parameters(input);
            let (url, body) =
                if method == "GET" { (format!("{url}?{text}"), String::new()) } else { (url.to_owned(), text) };
            let (answer, closed) = ask(bed, path, &request(method, &url, &body), Ending::Theirs);
            assert!(closed, "{method} {url}: the connection stays open");
            if method != "HEAD" {
                judge(&answer, &url);
            }
        }
    }
}

/// Parameters or a body, of pieces and of bytes.
fn parameters(input: &mut Input) -> String {
    let mut text = String::new();
    for _ in 0..input.below(4) {
        if input.chance(60) { text += &input.text(60) } else { text += PIECES[input.below(PIECES.len())] }
    }
    text
}

fn request(method: &str, url: &str, body: &str) -> Vec<u8> {
    let url: String = url.chars().map(|c| if c.is_ascii_graphic() { c } else { '+' }).collect();
    let length = body.len();
    format!("{method} {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Who ends a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The server, once it has answered.
    Theirs,
    /// We, as soon as the answer's head is here.
    AfterHead,
    /// We, as soon as everything is written.
    Ours,
}

/// Writes bytes and reads what comes back, while the router works; also whether the connection was closed at the other end.
fn ask(bed: &mut Bed, path: &Path, bytes: &[u8], ending: Ending) -> (Vec<u8>, bool) {
    let mut stream = UnixStream::connect(path).expect("the server listens");
    // The peer may have refused the request before all of it was written.
    let _ = stream.write_all(bytes);
    if ending == Ending::Ours {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    stream.set_nonblocking(true).expect("a socket");
    let (mut answer, mut buffer, start) = (Vec::new(), [0; 4096], Instant::now());
    loop {
        bed.slow.round();
        match stream.read(&mut buffer) {
            Ok(0) => return (answer, true),
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            // The server's thread needs the core, where there is but one.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return (answer, true),
        }
        let head = || answer.windows(4).any(|four| four == b"\r\n\r\n");
        if ending == Ending::AfterHead && head() {
            return (answer, false);
        }
        assert!(start.elapsed() < PATIENCE, "no answer to {:?}", String::from_utf8_lossy(bytes));
    }
}

/// Status, head and body of an answer.
fn parse(answer: &[u8]) -> Option<(u16, String, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, head.to_owned(), body.to_owned()))
}

/// Panics if an answer is none.
fn judge(answer: &[u8], url: &str) {
    let Some((status, head, body)) = parse(answer) else {
        panic!("{url}: no answer but {:?}", String::from_utf8_lossy(answer));
    };
    match status {
        200 if head.contains("application/json") => {
            serde_json::from_str::<serde_json::Value>(&body).unwrap_or_else(|error| panic!("{url}: {error}: {body}"));
        }
        200 if url.starts_with("/metrics") => assert!(body.ends_with('\n') && body.starts_with("# "), "{url}: {body}"),
        200 => {}
        400..500 => {
            // Too large a head is refused by the HTTP library, without a word.
            let value: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            match value["error"].as_str() {
                Some(message) => sentence::check(message),
                None => assert!(body.is_empty(), "{url}: {status} and {body}"),
            }
        }
        _ => panic!("{url}: {status} {body}"),
    }
}
