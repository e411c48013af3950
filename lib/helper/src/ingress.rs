// SPDX-License-Identifier: MIT
//! Keeps Linux's own stack from what a port receives.
//!
//! The router reads frames by sockets, which see them before Linux does. Linux then takes those for the interface's own
//! MAC address, and broadcasts, for its own: an address on a twin is an address of the machine, whatever interface a
//! packet comes in by. So a station on the link reached Linux past filters, policer and checks of sources. A classifier
//! at the interface's ingress drops what is left there, behind the sockets and before Linux: by traffic control, as
//! that needs neither a program nor a library.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt};
use rtnetlink::Handle;
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use rustix::io::Errno;

use super::links::is_absent;

/// Before all classifiers of others: what they let through would reach Linux.
const PRIORITY: u16 = 1;
/// The kinds of queueing disciplines that have an ingress, of which an interface has one at most.
const KINDS: [&str; 2] = ["clsact", "ingress"];

/// `struct sock_filter`: returns `TC_ACT_SHOT`, which drops. One instruction: opcode, two jumps, operand.
const RETURN: u16 = 6;
const DROP: u32 = 2;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;

/// The interfaces that have an ingress to classify at, of somebody's. Linux lists those of all, so they are asked for
/// once for many.
pub(super) async fn all(netlink: &Handle) -> Result<BTreeSet<u32>, rtnetlink::Error> {
    let mut all = netlink.qdisc().get().execute();
    let mut found = BTreeSet::new();
    // The list is read to its end, as the socket is used again.
    while let Some(one) = all.try_next().await? {
        let has = |kind: &str| one.attributes.iter().any(|a| matches!(a, TcAttribute::Kind(name) if name == kind));
        found.extend(u32::try_from(one.header.index).ok().filter(|_| KINDS.into_iter().any(has)));
    }
    Ok(found)
}

/// Drops what comes in by the interface, behind the sockets that read it. It gets an ingress, unless one `was_there`.
pub(super) async fn close(netlink: &Handle, index: u32, was_there: bool) -> Result<(), rtnetlink::Error> {
    if !was_there {
        let mut message = of(index)?;
        message.header.parent = TcHandle::CLSACT;
        message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
        message.attributes.push(TcAttribute::Kind(KINDS[0].to_owned()));
        let create = NLM_F_CREATE | NLM_F_EXCL;
        match send(netlink, RouteNetlinkMessage::NewQueueDiscipline(message), create).await {
            // Somebody has made one meanwhile, or a request names the interface twice.
            Err(error) if is(&error, Errno::EXIST) => {}
            result => result?,
        }
    }
    let program = [&RETURN.to_ne_bytes()[..], &[0, 0], &DROP.to_ne_bytes()[..]].concat();
    let options = [
        TcFilterBpfOption::Other(DefaultNla::new(TCA_BPF_OPS_LEN, 1_u16.to_ne_bytes().to_vec())),
        TcFilterBpfOption::Other(DefaultNla::new(TCA_BPF_OPS, program)),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    let mut message = classifier(index)?;
    message.header.handle = TcHandle { major: 0, minor: 1 };
    message.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.to_owned()));
    message.attributes.push(TcAttribute::Options(options.into_iter().map(TcOption::Bpf).collect()));
    // One that is there already, as an earlier helper died, is replaced.
    send(netlink, RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_CREATE).await
}

/// Undoes [`close`]: the whole ingress, unless it `was_there` before. What is gone needs nothing.
pub(super) async fn open(netlink: &Handle, index: u32, was_there: bool) -> Result<(), rtnetlink::Error> {
    if was_there {
        return match send(netlink, RouteNetlinkMessage::DelTrafficFilter(classifier(index)?), 0).await {
            // Linux has several words for a classifier that is not there.
            Err(rtnetlink::Error::NetlinkError(_)) => Ok(()),
            result => result,
        };
    }
    let mut message = of(index)?;
    message.header.parent = TcHandle::CLSACT;
    match send(netlink, RouteNetlinkMessage::DelQueueDiscipline(message), 0).await {
        // There is none, or Linux has no traffic control.
        Err(error) if is_absent(&error) || is(&error, Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}

fn is(error: &rtnetlink::Error, refusal: Errno) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message)
        if message.to_io().raw_os_error() == Some(refusal.raw_os_error()))
}

fn of(index: u32) -> Result<TcMessage, rtnetlink::Error> {
    let index = i32::try_from(index).map_err(|_| rtnetlink::Error::RequestFailed)?;
    Ok(TcMessage::with_index(index))
}

/// The place of the classifier: packets of all protocols that come in.
fn classifier(index: u32) -> Result<TcMessage, rtnetlink::Error> {
    let all = u16::to_be(libc::ETH_P_ALL as u16);
    let mut message = of(index)?;
    message.header.parent = TcHandle { major: u16::MAX, minor: TcHandle::MIN_INGRESS };
    message.header.info = u32::from(PRIORITY) << 16 | u32::from(all);
    Ok(message)
}

async fn send(netlink: &Handle, message: RouteNetlinkMessage, flags: u16) -> Result<(), rtnetlink::Error> {
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut answers = netlink.clone().request(request)?;
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload
            && error.code.is_some()
        {
            return Err(rtnetlink::Error::NetlinkError(error));
        }
    }
    Ok(())
}
