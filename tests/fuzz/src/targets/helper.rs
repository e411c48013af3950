// SPDX-License-Identifier: MIT
//! The router's requests to its helper, whose system is pretended: whatever comes, the helper answers in order, for each of many up to a
//! refusal. Once the router has started it does nothing to what the router had not named before. What it will restore at its end is
//! what was prepared. Whoever takes the router over has this socket, and nothing else.

use crate::input::Input;
use crate::sentence;
use perigee_helper::rehearsal::{Changeable, Each, Failure, Heard, Refusal, Rehearsal, System, Undo};
use perigee_helper::{AT_ONCE, LinkChange, LinkPreparation, NeighborChange, SocketWanted, TwinStatus, TwinWanted};
use perigee_net::{MacAddr, Namespace};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;

/// Most requests of one input.
const REQUESTS: usize = 64;
/// The longest message, in bytes.
const LONGEST: usize = 128 * 1024;

const NAMES: &[&str] = &["wan", "lan", "eth0", "eth1", "wan.7", "wan.7.7", "lan.4094", ".7", "lo", "all", "default"];
const NAMESPACES: &[&str] = &["blue", "red", "1", "4294967295", "/proc/1/ns/net", "/dev/zero"];
const PATHS: &[&str] =
    &["/etc/router.toml", "/etc/script.lua", "/etc/shadow", "/run/perigee", "/run/perigee/api", "", "/"];
const WORDS: &[&str] = &[
    "make_twins",
    "change_link",
    "link_macs",
    "prepare_links",
    "open_socket",
    "change_neighbors",
    "follow",
    "inherit",
    "confirm_neighbors",
    "make_vlan",
    "remove_at_end",
    "configuration",
    "open_file",
    "started",
    "standby",
    "stand_by",
];

/// Runs one input: requests, most of them in form.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut helper = Rehearsal::new(Pretended::new(), |_, text| text.lines().map(PathBuf::from).collect());
    for _ in 0..REQUESTS {
        if input.is_empty() {
            return;
        }
        let message = message(&mut input);
        // The end of the stream, to a socket that keeps messages apart; and what is too long for one, which ends the
        // helper.
        if message.is_empty() || message.len() > LONGEST {
            continue;
        }
        match helper.hear(&message).unwrap_or_else(|error| panic!("the helper ends: {error}: {}", text(&message))) {
            Heard::Answers(answers) => judge(&answers, &message, helper.system()),
            Heard::NoRequest(_) => {}
        }
        let prepared = helper.prepared();
        helper.system().is_restored_by(&prepared);
        let [own, standbys] = helper.known().unwrap_or_else(|error| panic!("{error}: {}", text(&message)));
        assert_eq!(own, standbys, "the standby knows something else");
    }
}

fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}

/// Panics if answers are none to this request.
fn judge(answers: &[(Value, Option<OwnedFd>)], message: &[u8], system: &mut Pretended) {
    let request: Value = serde_json::from_slice(message).expect("it was a request");
    let items = |word: &str| request.get(word).map(|items| items.as_array().map_or(0, Vec::len));
    let done = |answer: &Value| answer == "done";
    if let Some(count) = items("make_twins") {
        return judge_many(answers, count, |answer, fd| answer.get("twin").is_some() && fd);
    }
    if let Some(count) = items("link_macs") {
        return judge_many(answers, count, |answer, fd| answer.get("mac").is_some() && !fd);
    }
    if let Some(count) = items("prepare_links") {
        return judge_many(answers, count, |answer, fd| done(answer) && !fd);
    }
    let [(answer, fd)] = answers else { panic!("{} answers to one request", answers.len()) };
    match answer["failed"].as_str() {
        Some(why) => sentence::check(why),
        None if done(answer) && request.get("follow").is_some() => {
            assert!(!system.started, "it follows an interface once it has started");
            let names = request["follow"].as_array().into_iter().flatten().filter_map(Value::as_str);
            system.followed.extend(names.map(str::to_owned));
        }
        None if done(answer) => system.started |= request == "started" || request.get("started").is_some(),
        None => assert!((answer == "socket" || answer == "file") && fd.is_some(), "{answer}"),
    }
}

/// Each of many has its answer, until one is refused: then that is the last one.
fn judge_many(answers: &[(Value, Option<OwnedFd>)], count: usize, is_one: impl Fn(&Value, bool) -> bool) {
    let (last, before) = answers.split_last().expect("an answer");
    let answered = match last.0.get("refused") {
        None => answers,
        Some(refused) => {
            // What is refused before anything is done has none before it.
            let at = refused[0].as_u64().expect("a place") as usize;
            assert!(at >= before.len() && at < count.max(1), "{} answers, and {refused} of {count}", before.len());
            sentence::check(refused[1].as_str().expect("why"));
            before
        }
    };
    answered.iter().for_each(|(answer, fd)| assert!(is_one(answer, fd.is_some()), "{answer}"));
    assert!(answered.len() < answers.len() || answers.len() == count, "{} answers for {count}", answers.len());
}

/// A message: any bytes, or a request.
fn message(input: &mut Input) -> Vec<u8> {
    if input.chance(16) {
        return input.bytes(255).to_vec();
    }
    let mut message = serde_json::to_vec(&request(input)).expect("a value");
    if input.chance(16) && !message.is_empty() {
        let at = input.below(message.len());
        message.splice(at..at, input.bytes(8).iter().copied());
    }
    message
}

fn request(input: &mut Input) -> Value {
    let word = *input.pick(WORDS);
    let content = match word {
        "make_twins" => many(input, twin),
        "change_link" => json!({
            "name": name(input),
            "index": option(input, |input| json!(input.below(12))),
            "namespace": namespace(input),
            "up": option(input, |input| json!(input.chance(128))),
            "carrier": option(input, |input| json!(input.chance(128))),
            "mtu": option(input, number),
            "mac": option(input, mac),
            "remove": addresses(input),
            "add": addresses(input),
            "delete": input.chance(80),
        }),
        "link_macs" => many(input, name),
        "prepare_links" => many(input, |input| {
            json!({ "name": name(input), "other_mac": option(input, mac), "mtu": option(input, number) })
        }),
        "open_socket" => {
            let socket = match input.below(4) {
                0 => json!({ "monitor": number(input) }),
                1 => json!("dumps"),
                2 => json!({ "listener": input.pick(&["127.0.0.1:2620", "[::]:0", "nowhere"]) }),
                _ => json!("diagnosis"),
            };
            json!({ "socket": socket, "namespace": namespace(input) })
        }
        "change_neighbors" => {
            let neighbor = |input: &mut Input| {
                let address = ["10.0.0.2", "2001:db8::2", "::"][input.below(3)];
                json!({ "link": input.below(12), "address": address, "mac": option(input, mac) })
            };
            let neighbors: Vec<Value> = (0..input.below(4)).map(|_| neighbor(input)).collect();
            json!({ "neighbors": neighbors, "namespace": namespace(input) })
        }
        "inherit" => json!({ "file": path(input), "keep": input.chance(128) }),
        "follow" => Value::Array((0..input.below(4)).map(|_| name(input)).collect()),
        "confirm_neighbors" => {
            let neighbor = |input: &mut Input| {
                let address = ["10.0.0.2", "2001:db8::2", "::"][input.below(3)];
                json!([input.below(12), address])
            };
            Value::Array((0..input.below(4)).map(|_| neighbor(input)).collect())
        }
        "make_vlan" => {
            let vlan = [7, 4094, 0, 65535, 65536][input.below(5)];
            json!({ "on": name(input), "vlan": vlan, "wanted": twin(input) })
        }
        "remove_at_end" => Value::Array((0..input.below(4)).map(|_| path(input)).collect()),
        "configuration" | "open_file" => path(input),
        _ => return json!(word),
    };
    json!({ word: content })
}

/// As many as a request may be about; at times none, or one too many.
fn many(input: &mut Input, one: impl Fn(&mut Input) -> Value) -> Value {
    let count = match input.byte() {
        255 => AT_ONCE + 1,
        254 => 0,
        250..254 => AT_ONCE,
        byte => 1 + usize::from(byte) % 5,
    };
    Value::Array((0..count).map(|_| one(input)).collect())
}

fn option(input: &mut Input, value: impl FnOnce(&mut Input) -> Value) -> Value {
    if input.chance(128) { value(input) } else { Value::Null }
}

fn twin(input: &mut Input) -> Value {
    json!({
        "name": name(input),
        "mac": mac(input),
        "mtu": number(input),
        "namespace": namespace(input),
        "addresses": addresses(input),
        "up": input.chance(128),
    })
}

/// One of those that there are, or any text.
fn one_of(input: &mut Input, from: &[&str]) -> Value {
    match input.byte() {
        255 => json!(input.text(255).repeat(1 + input.below(400))),
        230..255 => json!(input.text(20)),
        byte => json!(from[usize::from(byte) % from.len()]),
    }
}

fn name(input: &mut Input) -> Value {
    one_of(input, NAMES)
}

fn path(input: &mut Input) -> Value {
    one_of(input, PATHS)
}

fn namespace(input: &mut Input) -> Value {
    if input.chance(100) { one_of(input, NAMESPACES) } else { Value::Null }
}

fn number(input: &mut Input) -> Value {
    match input.below(4) {
        0 => json!(1500),
        1 => json!(input.word()),
        2 => json!(u64::from_le_bytes(input.array())),
        _ => json!(-i64::from(input.word())),
    }
}

fn mac(input: &mut Input) -> Value {
    json!(if input.chance(230) { MacAddr(input.array()).to_string() } else { input.text(20) })
}

fn addresses(input: &mut Input) -> Value {
    let one = |input: &mut Input| {
        json!(["10.0.0.1/24", "2001:db8::1/64", "0.0.0.0/0", "::/128", "10.0.0.1/33"][input.below(5)])
    };
    Value::Array((0..input.below(3)).map(|_| one(input)).collect())
}

/// Where something is.
type Place = Option<Namespace>;

/// A system that does nothing, and knows what the router has named.
struct Pretended {
    /// Whether the router has been answered that it has started.
    started: bool,
    /// Interfaces by their names, with numbers; a number is that of one alone.
    links: BTreeMap<(Place, String), u32>,
    next: u32,
    /// Interfaces that were made for the router.
    own: BTreeSet<(Place, u32)>,
    /// Interfaces that were prepared.
    prepared: BTreeSet<u32>,
    /// What was named before the start.
    names: BTreeSet<(Place, String)>,
    namespaces: BTreeSet<Namespace>,
    /// Linux's own interfaces that were named before the start.
    followed: BTreeSet<String>,
}

impl Pretended {
    fn new() -> Pretended {
        let links = (1..).zip(["lo", "eth0", "eth1"]).map(|(number, name)| ((None, name.to_owned()), number)).collect();
        let (own, prepared, names, namespaces, followed) = Default::default();
        Pretended { started: false, links, next: 4, own, prepared, names, namespaces, followed }
    }

    /// What is `known` to be restored at the end is what was prepared, unless it is gone.
    fn is_restored_by(&self, known: &BTreeSet<u32>) {
        assert!(known.is_subset(&self.prepared), "{known:?} are restored, {:?} are prepared", self.prepared);
        let there = |link: &&u32| self.links.iter().any(|((place, _), number)| place.is_none() && number == *link);
        let left: Vec<&u32> = self.prepared.difference(known).filter(there).collect();
        assert!(left.is_empty(), "{left:?} stay prepared");
    }

    fn find(&self, place: &Place, name: &str) -> Result<u32, Failure> {
        let link = self.links.get(&(place.clone(), name.to_owned())).copied();
        link.ok_or_else(|| format!("there is no interface `{name}`; `ip link` lists those there are").into())
    }

    fn make(&mut self, place: &Place, name: &str) -> Result<u32, Failure> {
        // As Linux does.
        let odd =
            name.is_empty() || name.len() > 15 || name.contains(['/', ':', '\0']) || name.contains(char::is_whitespace);
        if odd || self.find(place, name).is_ok() {
            return Err(format!("cannot make `{name}`").into());
        }
        let number = self.next;
        self.next += 1;
        self.links.insert((place.clone(), name.to_owned()), number);
        self.own.insert((place.clone(), number));
        Ok(number)
    }

    /// Every deed enters its namespace.
    fn enter(&mut self, place: &Place) {
        let Some(namespace) = place else { return };
        let known =
            if self.started { self.namespaces.contains(namespace) } else { !self.namespaces.insert(namespace.clone()) };
        assert!(known || !self.started, "it enters {namespace} once it has started");
    }

    fn names(&mut self, place: &Place, name: &str) {
        let key = (place.clone(), name.to_owned());
        match self.started {
            true => assert!(self.names.contains(&key), "it names {name} in {place:?} once it has started"),
            false => drop(self.names.insert(key)),
        }
    }

    /// Whether an interface may be changed; once the router has started, those alone that were made for it.
    fn changes(&self, place: &Place, link: u32, changeable: &Changeable) -> Result<(), Failure> {
        assert_eq!(changeable.is_some(), self.started);
        match changeable {
            Some(changeable) if !changeable.contains(&link) => Err("it is no twin of the router's".to_owned().into()),
            _ => {
                let own = self.own.contains(&(place.clone(), link));
                assert!(!self.started || own, "it changes {link} in {place:?}, which is not the router's");
                Ok(())
            }
        }
    }
}

/// A descriptor that means nothing.
fn descriptor() -> OwnedFd {
    let file = std::fs::File::open("/dev/null").expect("/dev/null");
    file.into()
}

impl System for Pretended {
    fn make_twins(
        &mut self,
        namespace: Option<&Namespace>,
        wanted: &[TwinWanted],
        done: Each<(OwnedFd, TwinStatus)>,
    ) -> Result<(), Refusal> {
        let place = namespace.cloned();
        self.enter(&place);
        wanted.iter().for_each(|wanted| self.names(&place, &wanted.name));
        for (at, wanted) in wanted.iter().enumerate() {
            assert_eq!(wanted.namespace, place);
            let index = self.make(&place, &wanted.name).map_err(|failure| failure.at(at))?;
            if !done((descriptor(), TwinStatus { name: wanted.name.clone(), namespace: place.clone(), index })) {
                break;
            }
        }
        Ok(())
    }

    fn change(&mut self, change: LinkChange, changeable: Changeable) -> Result<Option<u32>, Failure> {
        self.enter(&change.namespace);
        let of_place = |(key, link): (&(Place, String), &u32)| (key.0 == change.namespace).then_some(*link);
        let index = match change.index {
            Some(index) if self.links.iter().filter_map(of_place).any(|link| link == index) => index,
            Some(index) => return Ok(change.delete.then_some(index)),
            None => self.find(&change.namespace, &change.name)?,
        };
        self.changes(&change.namespace, index, &changeable)?;
        if change.delete {
            self.links.retain(|(place, _), link| *place != change.namespace || *link != index);
            self.own.remove(&(change.namespace, index));
            return Ok(Some(index));
        }
        Ok(None)
    }

    fn macs(&mut self, names: &[String], done: Each<MacAddr>) -> Result<(), Refusal> {
        for (at, name) in names.iter().enumerate() {
            self.find(&None, name).map_err(|failure| failure.at(at))?;
            if !done(MacAddr([2; 6])) {
                break;
            }
        }
        Ok(())
    }

    fn look(&mut self, wanted: &[LinkPreparation], done: Each<Undo>) -> Result<(), Refusal> {
        wanted.iter().for_each(|wanted| self.names(&None, &wanted.name));
        for (at, wanted) in wanted.iter().enumerate() {
            let index = self.find(&None, &wanted.name).map_err(|failure| failure.at(at))?;
            if !done(Undo::of_nothing(&wanted.name, index)) {
                break;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, wanted: &[(LinkPreparation, Undo)], done: Each<()>) -> Result<(), Refusal> {
        for (at, (wanted, undo)) in wanted.iter().enumerate() {
            self.names(&None, &wanted.name);
            let index = self.find(&None, &wanted.name).map_err(|failure| failure.at(at))?;
            assert_eq!(index, undo.index());
            if wanted.mtu == Some(0) {
                return Err(Failure::from("the kernel refuses it".to_owned()).at(at));
            }
            self.prepared.insert(index);
            if !done(()) {
                break;
            }
        }
        Ok(())
    }

    fn gone(&mut self, links: Vec<u32>) -> Result<Vec<u32>, Failure> {
        let there = |link: &u32| self.links.iter().any(|((place, _), number)| place.is_none() && number == link);
        Ok(links.into_iter().filter(|link| !there(link)).collect())
    }

    fn open_socket(&mut self, wanted: SocketWanted, namespace: Option<&Namespace>) -> Result<OwnedFd, Failure> {
        self.enter(&namespace.cloned());
        let listens = matches!(wanted, SocketWanted::Listener(_));
        assert!(!self.started || !listens, "it listens once it has started");
        Ok(descriptor())
    }

    fn take_kept(&mut self, _: &Path) -> Option<Vec<Undo>> {
        assert!(!self.started, "it takes over interfaces once it has started");
        Some(Vec::new())
    }

    fn confirm_neighbors(&mut self, _: Vec<(u32, IpAddr)>, on: BTreeSet<String>) -> Result<(), Failure> {
        assert_eq!(on, self.followed, "it confirms neighbors elsewhere");
        Ok(())
    }

    fn change_neighbors(
        &mut self,
        neighbors: Vec<NeighborChange>,
        namespace: Option<&Namespace>,
        changeable: Changeable,
    ) -> Result<(), Failure> {
        let place = namespace.cloned();
        self.enter(&place);
        neighbors.iter().try_for_each(|neighbor| self.changes(&place, neighbor.link, &changeable))
    }

    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, changeable: Changeable) -> Result<u32, Failure> {
        let place = wanted.namespace;
        self.enter(&place);
        if !self.started {
            self.names(&place, &wanted.name);
        }
        let below = self.find(&place, &on)?;
        self.changes(&place, below, &changeable)?;
        // The configuration may gain VLANs: what is named after one of the router's interfaces is the router's.
        let after = wanted.name.strip_suffix(&format!(".{vlan}"));
        let known = self.names.contains(&(place.clone(), wanted.name.clone()));
        assert!(!self.started || known || after.is_some(), "it names {} once it has started", wanted.name);
        self.make(&place, &wanted.name)
    }

    fn identity(&mut self, path: &Path) -> Option<(u64, u64)> {
        assert!(!self.started, "it removes {} once it has started", path.display());
        Some((1, path.as_os_str().len() as u64))
    }

    fn open_file(
        &mut self,
        path: &Path,
        configuration: Option<&Path>,
        _: fn(&Path, &str) -> Vec<PathBuf>,
    ) -> Result<OwnedFd, Failure> {
        let refused = || Failure::from(format!("{} is no file that the configuration names", path.display()));
        configuration.filter(|configuration| *configuration == path).map(|_| descriptor()).ok_or_else(refused)
    }

    fn start_standby(&mut self, _: OwnedFd) -> io::Result<Child> {
        Err(io::Error::other("there is no process here"))
    }
}
