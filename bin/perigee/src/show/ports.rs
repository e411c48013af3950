// SPDX-License-Identifier: MIT
//! Ports, and what they have lost.

use crate::table::{Columns, or_dash};
use comfy_table::Table;
use perigee_api::answers::{KernelLosses, PortStatus};

/// The ports.
pub fn table(list: &[PortStatus]) -> Table {
    let addresses = |port: &PortStatus| {
        let each = port.interfaces.iter().flat_map(|i| {
            let name = if i.name == port.name { String::new() } else { format!("{}: ", i.name) };
            i.addresses.iter().map(move |address| format!("{name}{address}"))
        });
        each.collect::<Vec<_>>().join("\n")
    };
    let twin = |port: &PortStatus| {
        or_dash(port.twin.as_ref().map(|twin| {
            let lost = twin.dropped + twin.missed;
            let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
            format!("{} to Linux, {} back{lost}", twin.to_linux, twin.from_linux)
        }))
    };
    // The first interface is the port's own; the others are VLANs.
    let link = |port: &PortStatus| match port.interfaces.first() {
        _ if !port.link_up => "down",
        Some(interface) if !interface.up => "set down",
        _ => "up",
    };
    let in_kernel = |port: &PortStatus| {
        let share = port.plane.as_ref();
        or_dash(share.map(|share| {
            let to = if port.driver == "xdp-linux" { "Linux" } else { "workers" };
            format!("{} finished, {} out, {} to {to}", share.finished, share.sent, share.handed_on)
        }))
    };
    let columns = Columns::<PortStatus>::new()
        .text("port", |p| p.name.clone())
        .text("driver", |p| p.driver.clone())
        .text("mac", |p| p.mac)
        .text("link", link)
        .number("mtu", |p| p.interfaces.first().map_or(p.mtu, |interface| interface.mtu))
        .text("queues", |p| format!("{} in, {} out", p.receive_queues, p.transmit_queues))
        .number("received", |p| p.counters.receive_packets)
        .number("missed", missed)
        .number("errors", damaged)
        .number("sent", |p| p.counters.transmit_packets)
        .number("not sent", not_sent)
        .text("addresses", addresses)
        .text("twin", twin);
    // Only where there is such a plane.
    match list.iter().any(|port| port.plane.is_some()) {
        true => columns.text("in the kernel", in_kernel).table(list),
        false => columns.table(list),
    }
}

/// Frames that came in and that nobody had room for.
pub fn missed(port: &PortStatus) -> u64 {
    port.counters.receive_missed + kernel(port, |k| k.receive_dropped)
}

/// Frames that came in damaged or too long.
pub fn damaged(port: &PortStatus) -> u64 {
    port.counters.receive_errors + kernel(port, |k| k.receive_errors)
}

/// Frames that were to be sent and were not, at least.
pub fn not_sent(port: &PortStatus) -> u64 {
    let (c, by_linux) = (&port.counters, kernel(port, |k| k.transmit_dropped + k.transmit_errors));
    // Where an interface has no queue, Linux reports each frame that it drops to the sender, and both count it.
    c.transmit_dropped + c.transmit_errors.max(by_linux)
}

/// What Linux has lost under a port, if there is an interface of Linux's under it.
fn kernel(port: &PortStatus, count: impl Fn(&KernelLosses) -> u64) -> u64 {
    port.kernel.as_ref().map_or(0, count)
}

/// What a port has lost.
pub struct PortLoss {
    port: String,
    /// The counter's name in the API.
    counter: String,
    frames: u64,
    why: &'static str,
}

/// Frames lost before workers received them or after workers sent them. Counters that are zero have no line.
pub fn losses(list: &[PortStatus]) -> Vec<PortLoss> {
    let of_port = |port: &PortStatus| {
        let (c, twin) = (&port.counters, port.twin.as_ref());
        let own = [
            (
                "kernel.receive_dropped",
                kernel(port, |k| k.receive_dropped),
                "lost by Linux before they reached the port's queues",
            ),
            ("kernel.receive_errors", kernel(port, |k| k.receive_errors), "damaged when Linux received them"),
            ("counters.receive_missed", c.receive_missed, "a receive queue was full: workers were too slow"),
            ("counters.receive_errors", c.receive_errors, "damaged, or too long"),
            ("counters.transmit_dropped", c.transmit_dropped, "a transmit queue was full"),
            ("counters.transmit_errors", c.transmit_errors, "the device did not send them"),
            (
                "kernel.transmit_dropped",
                kernel(port, |k| k.transmit_dropped),
                "lost by Linux after the port's queues took them",
            ),
            ("kernel.transmit_errors", kernel(port, |k| k.transmit_errors), "Linux failed to send them"),
            ("twin.dropped", twin.map_or(0, |twin| twin.dropped), "for Linux, which had no room"),
            ("twin.missed", twin.map_or(0, |twin| twin.missed), "from Linux, not read fast enough"),
        ];
        let own = own.map(|(counter, frames, why)| (counter.to_owned(), frames, why)).into_iter();
        let why = "the device's own counter; may be part of another one";
        let device = port.device_counters.iter().map(|(name, n)| (format!("device_counters.{name}"), *n, why));
        let loss = |(counter, frames, why)| PortLoss { port: port.name.clone(), counter, frames, why };
        own.chain(device).map(loss).collect::<Vec<_>>()
    };
    list.iter().flat_map(of_port).filter(|loss| loss.frames > 0).collect()
}

/// What they have lost, a line for each counter.
pub fn losses_table(losses: &[PortLoss]) -> Table {
    Columns::<PortLoss>::new()
        .text("port", |loss| loss.port.clone())
        .text("counter", |loss| loss.counter.clone())
        .number("frames", |loss| loss.frames)
        .text("why", |loss| loss.why)
        .table(losses)
}
