// SPDX-License-Identifier: MIT
//! Requests to the helper that nobody waits for: a thread makes them, one after the other.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use perigee_helper::NetlinkSockets;
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, HelperError, TwinStatus};
use perigee_helper::{confine, privileges};
use perigee_linux::HelperRequest;
use perigee_net::{InterfaceAddress, Namespace};
use perigee_worker::Bell;

/// The answers that matter.
pub(crate) enum Done {
    /// A port's twin, or why there is none, and the addresses that it was to have.
    Twin(usize, Result<(Twin, TwinStatus), HelperError>, Vec<InterfaceAddress>),
    /// The reopened sockets.
    Sockets(Result<NetlinkSockets, HelperError>),
}

/// The thread.
pub(crate) struct HelperThread {
    sender: Option<Sender<HelperRequest>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl HelperThread {
    /// Starts it. The bell is rung with each answer.
    pub fn start(helper: Arc<Helper>, namespace: Option<Namespace>, bell: Arc<Bell>) -> io::Result<HelperThread> {
        let (sender, requests) = channel();
        let (out, done) = channel();
        let body = move || {
            let _ = privileges::drop_all();
            // Whether the kernel can is said by others.
            let _ = confine::files(&[]);
            for request in requests {
                if let Some(done) = run(&helper, namespace.as_ref(), request) {
                    // The slow path's thread may be gone.
                    let _ = out.send(done);
                    bell.ring();
                }
            }
        };
        let thread = std::thread::Builder::new().name("helper".to_owned()).spawn(body)?;
        Ok(HelperThread { sender: Some(sender), done, thread: Some(thread) })
    }

    /// Puts one at the end of the queue.
    pub fn send(&self, request: HelperRequest) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(request); // The thread ends only after this.
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

fn run(helper: &Helper, namespace: Option<&Namespace>, request: HelperRequest) -> Option<Done> {
    let said = |result: Result<(), HelperError>| {
        if let Err(error) = result {
            tracing::debug!("{error}");
        }
    };
    match request {
        HelperRequest::Neighbors(neighbors) => said(helper.change_neighbors(&neighbors, namespace)),
        HelperRequest::Link(change) => said(helper.change_link(&change)),
        HelperRequest::Prepare(preparation) => {
            if let Err(error) = helper.prepare_link(&preparation) {
                tracing::warn!("{error}; Linux may answer for the port on it");
            }
        }
        HelperRequest::Twin(index, wanted) => {
            return Some(Done::Twin(index, helper.make_twin(&wanted), wanted.addresses));
        }
        HelperRequest::Sockets(buffer) => {
            return Some(Done::Sockets(helper.netlink(buffer, namespace)));
        }
    }
    None
}
