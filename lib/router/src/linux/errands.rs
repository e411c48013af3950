// SPDX-License-Identifier: MIT
//! What the helper is asked to do without anybody waiting for it: a thread that asks, one thing after the other.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use perigee_helper::NetlinkSockets;
use perigee_helper::privileges;
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, LinkChange, NeighborChange, TwinStatus, TwinWanted};
use perigee_net::{InterfaceAddress, Namespace};
use perigee_worker::Bell;

/// A thing to do.
pub(crate) enum Errand {
    /// Tell Linux of neighbors.
    Neighbors(Vec<NeighborChange>),
    /// Change a twin.
    Link(LinkChange),
    /// Make the twin of a port anew.
    Twin(usize, TwinWanted),
    /// Open the sockets by which Linux is followed, with room for so many bytes.
    Sockets(usize),
}

/// What came of it, where that matters.
pub(crate) enum Done {
    /// A port's twin, or why there is none, and the addresses that it was to have.
    Twin(usize, Result<(Twin, TwinStatus), String>, Vec<InterfaceAddress>),
    /// The sockets.
    Sockets(Result<NetlinkSockets, String>),
}

/// The thread.
pub(crate) struct Errands {
    sender: Option<Sender<Errand>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Errands {
    /// Starts it. The bell is rung when something has come of an errand.
    pub fn start(helper: Arc<Helper>, namespace: Option<Namespace>, bell: Arc<Bell>) -> io::Result<Errands> {
        let (sender, errands) = channel();
        let (out, done) = channel();
        let body = move || {
            let _ = privileges::drop_all();
            for errand in errands {
                if let Some(done) = run(&helper, namespace.as_ref(), errand) {
                    // Whoever asked may be gone.
                    let _ = out.send(done);
                    bell.ring();
                }
            }
        };
        let thread = std::thread::Builder::new().name("errands".to_owned()).spawn(body)?;
        Ok(Errands { sender: Some(sender), done, thread: Some(thread) })
    }

    /// Puts one at the end of the line.
    pub fn send(&self, errand: Errand) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(errand); // The thread ends only after this.
        }
    }

    /// What has come of one.
    pub fn done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there was reported there.
        }
    }
}

fn run(helper: &Helper, namespace: Option<&Namespace>, errand: Errand) -> Option<Done> {
    let said = |result: Result<(), perigee_helper::HelperError>| {
        if let Err(error) = result {
            tracing::debug!("{error}");
        }
    };
    match errand {
        Errand::Neighbors(neighbors) => said(helper.change_neighbors(&neighbors, namespace)),
        Errand::Link(change) => said(helper.change_link(&change)),
        Errand::Twin(index, wanted) => {
            let made = helper.make_twin(&wanted).map_err(|error| error.to_string());
            return Some(Done::Twin(index, made, wanted.addresses));
        }
        Errand::Sockets(buffer) => {
            return Some(Done::Sockets(helper.netlink(buffer, namespace).map_err(|error| error.to_string())));
        }
    }
    None
}
