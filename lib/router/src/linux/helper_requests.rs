// SPDX-License-Identifier: MIT
//! Requests to the helper that nobody waits for: a thread makes them, one after the other.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perigee_helper::NetlinkSockets;
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, HelperError, LinkChange, SocketWanted, TwinStatus, TwinWanted};
use perigee_helper::{confine, privileges};
use perigee_linux::HelperRequest;
use perigee_net::{InterfaceAddress, Namespace};
use perigee_worker::Bell;

/// A change of a link that a reload waits for.
pub(crate) struct ReloadChange {
    /// The generation of the reload's script.
    pub generation: u64,
    /// Whether it is that of a VLAN, which Linux may not have.
    pub vlan: bool,
    pub change: LinkChange,
}

/// The answers that matter.
pub(crate) enum Done {
    /// A port's twin, or why there is none, and the addresses that it was to have.
    Twin(usize, Result<(Twin, TwinStatus), HelperError>, Vec<InterfaceAddress>),
    /// What came of a reload's change of a link.
    Changed(ReloadChange, Result<(), HelperError>),
    /// The reopened sockets, the last one for questions about single links.
    Sockets(Result<(NetlinkSockets, OwnedFd), HelperError>),
}

/// What the thread does.
enum Job {
    Request(HelperRequest),
    /// A reload's change of a link, which is answered.
    Change(ReloadChange),
    /// A VLAN interface of Linux on the twin of this name, and its number.
    MakeVlan(String, u16, TwinWanted),
    /// Deletes one.
    DeleteVlan(LinkChange),
    /// Has a standby of the helper started.
    StandBy,
}

/// The thread.
pub(crate) struct HelperThread {
    sender: Option<Sender<Job>>,
    done: Receiver<Done>,
    standby_asked: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HelperThread {
    /// Starts it. The bell is rung with each answer.
    pub fn start(helper: Arc<Helper>, namespace: Option<Namespace>, bell: Arc<Bell>) -> io::Result<HelperThread> {
        let (sender, requests) = channel();
        let (out, done) = channel();
        let standby_asked = Arc::new(AtomicBool::new(false));
        let asked = standby_asked.clone();
        let body = move || {
            let (mut said, mut refusals) = (None, Refusals::default());
            let _ = privileges::drop_all();
            // Whether the kernel can is said by others.
            let _ = confine::files(&[]);
            for job in requests {
                let done = match job {
                    Job::Request(request) => run(&helper, namespace.as_ref(), request, &mut refusals),
                    Job::Change(wanted) => {
                        let result = helper.change_link(&wanted.change);
                        Some(Done::Changed(wanted, result))
                    }
                    Job::MakeVlan(twin, vlan, wanted) => {
                        make_vlan(&helper, &twin, vlan, &wanted);
                        None
                    }
                    Job::DeleteVlan(change) => {
                        if let Err(error) = helper.change_link(&change) {
                            tracing::info!("the VLAN interface {} of Linux stays: {error}", change.name);
                        }
                        None
                    }
                    Job::StandBy => {
                        let failure = helper.stand_by().err().map(|error| error.to_string());
                        if let Some(error) = failure.as_ref().filter(|_| failure != said) {
                            tracing::warn!("{error}; it is tried again");
                        }
                        said = failure;
                        asked.store(false, Release);
                        None
                    }
                };
                if let Some(done) = done {
                    // The slow path's thread may be gone.
                    let _ = out.send(done);
                    bell.ring();
                }
            }
        };
        let thread = std::thread::Builder::new().name("helper".to_owned()).spawn(body)?;
        Ok(HelperThread { sender: Some(sender), done, standby_asked, thread: Some(thread) })
    }

    /// Puts one at the end of the queue.
    pub fn send(&self, request: HelperRequest) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(Job::Request(request)); // The thread ends only after this.
        }
    }

    /// Puts a reload's change of a link at the end of the queue; it is answered.
    pub fn change(&self, wanted: ReloadChange) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(Job::Change(wanted));
        }
    }

    /// Has Linux's interface of a VLAN made on the twin of this name.
    pub fn make_vlan(&self, twin: String, vlan: u16, wanted: TwinWanted) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(Job::MakeVlan(twin, vlan, wanted));
        }
    }

    /// Has one deleted.
    pub fn delete_vlan(&self, change: LinkChange) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(Job::DeleteVlan(change));
        }
    }

    /// Has a standby started once everything before it is done, if that is not under way.
    pub fn stand_by(&self) {
        if let Some(sender) = &self.sender
            && !self.standby_asked.swap(true, AcqRel)
        {
            let _ = sender.send(Job::StandBy);
        }
    }

    /// The next answer.
    pub fn done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there was reported there.
        }
    }
}

/// How long a refusal of neighbors is not repeated in the log.
const QUIET: Duration = Duration::from_secs(60);

/// What was refused, so that the log says it once.
#[derive(Default)]
struct Refusals {
    /// Of each link what was said last.
    links: BTreeMap<String, String>,
    /// When one of neighbors was said last: each names another neighbor.
    neighbors: Option<Instant>,
}

impl Refusals {
    fn link(&mut self, name: &str, result: Result<(), HelperError>) {
        let Err(error) = result else {
            self.links.remove(name);
            return;
        };
        let error = error.to_string();
        if self.links.insert(name.to_owned(), error.clone()).is_none_or(|said| said != error) {
            tracing::warn!("{error}; Linux shows another state of it than the port's");
        }
    }

    fn neighbors(&mut self, result: Result<(), HelperError>) {
        let Err(error) = result else { return };
        if self.neighbors.is_some_and(|said| said.elapsed() < QUIET) {
            return tracing::debug!("{error}");
        }
        self.neighbors = Some(Instant::now());
        tracing::warn!("{error}; `ip neigh` may lack others as well, and this is not repeated for a minute");
    }
}

/// A kernel without VLAN devices gets none.
fn make_vlan(helper: &Helper, twin: &str, vlan: u16, wanted: &TwinWanted) {
    match helper.make_vlan(twin, vlan, wanted) {
        Ok(()) => tracing::info!("Linux has the VLAN interface {}", wanted.name),
        Err(error) => tracing::info!("{error}; {} is the router's alone, and Linux does not see it", wanted.name),
    }
}

fn run(
    helper: &Helper,
    namespace: Option<&Namespace>,
    request: HelperRequest,
    refusals: &mut Refusals,
) -> Option<Done> {
    match request {
        HelperRequest::Neighbors(neighbors) => refusals.neighbors(helper.change_neighbors(&neighbors, namespace)),
        HelperRequest::Confirm(neighbors) => {
            if let Err(error) = helper.confirm_neighbors(&neighbors) {
                tracing::debug!("{error}");
            }
        }
        HelperRequest::Link(change) => refusals.link(&change.name, helper.change_link(&change)),
        HelperRequest::Prepare(preparation) => {
            if let Err(error) = helper.prepare_link(&preparation) {
                tracing::warn!("{error}; Linux may answer for the port on it");
            }
        }
        HelperRequest::Twin(index, wanted) => {
            return Some(Done::Twin(index, helper.make_twin(&wanted), wanted.addresses));
        }
        HelperRequest::Sockets(buffer) => {
            let questions = || helper.open_socket(SocketWanted::Dumps, namespace);
            let sockets = helper.netlink(buffer, namespace).and_then(|sockets| Ok((sockets, questions()?)));
            return Some(Done::Sockets(sockets));
        }
    }
    None
}
