// SPDX-License-Identifier: MIT
//! What Linux gets and what it sends; interfaces, tags and frames for others.

use crate::world::*;
use perigee_net::{Interface, InterfaceId, MacAddr};
use perigee_packet::wire::{ipv4, protocol};
use perigee_slowpath::*;

#[test]
fn everything_to_the_router_but_echo_goes_to_linux_unchanged() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.meet(a);
    for (protocol, to) in
        [(protocol::TCP, "10.0.1.1"), (protocol::UDP, "10.0.2.1"), (89, "224.0.0.5"), (132, "10.255.255.1")]
    {
        let packet = ip4(ipv4::Repr::new(a.v4, v4(to), protocol, 0), &[], b"\x08 whatever");
        let frame = [&ethernet(mac(LEFT), a.mac, &packet)[..], &[0; 6]].concat();
        w.punt(LEFT, &frame);
        assert_eq!(w.twin.pop(), Some((LEFT, frame)));
    }
    w.silent();
}

#[test]
fn what_linux_sends_goes_out_as_it_is() {
    let mut w = World::new();
    let frames = [
        ethernet(host(LEFT, 2).mac, mac(LEFT), &udp4(v4("10.0.1.1"), host(LEFT, 2).v4, 5)),
        b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x08\x06".to_vec(),
    ];
    for frame in &frames[..1] {
        w.input(Input::FromTwin { interface: LEFT, frame });
        assert_eq!(w.sent.pop(), Some((LEFT, frame.clone())));
    }
    // Whatever it is: Linux is trusted with its own frames.
    w.slow.handle(w.now, Input::FromTwin { interface: LEFT, frame: &frames[1] }, &w.table);
    assert_eq!(w.slow.poll_output(), Some(Output::Transmit { interface: LEFT, frame: frames[1].clone() }));
    w.slow.handle(w.now, Input::FromTwin { interface: LEFT, frame: b"short" }, &w.table);
    assert_eq!((w.slow.poll_output(), w.dropped("bad_frame")), (None, 1));
}

// Linux cuts to the twin's MTU. Between two changes of it, what is too long is dropped here and not by the device.
#[test]
fn packets_of_linux_beyond_the_mtu_are_counted() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let frame = |len| ethernet(a.mac, mac(LEFT), &udp4(v4("10.0.1.1"), a.v4, len));
    w.input(Input::FromTwin { interface: LEFT, frame: &frame(1480) });
    assert_eq!(w.sent.len(), 1);
    w.input(Input::FromTwin { interface: LEFT, frame: &frame(1481) });
    let six = ethernet(a.mac, mac(LEFT), &udp6(v6("2001:db8:1::1"), a.v6, 1461));
    w.input(Input::FromTwin { interface: LEFT, frame: &six });
    assert_eq!((w.sent.len(), w.dropped("too_big")), (1, 2));
}

#[test]
fn the_own_tag_is_taken_off_in_both_directions() {
    let mut w = World::bare(Config::default());
    w.set(LEFT, Interface { vlan: Some(100), ..interface(LEFT) });
    w.advance(2000);
    w.sent.clear();
    let a = host(LEFT, 2);
    w.meet(a);
    let plain = ethernet(mac(LEFT), a.mac, &udp4(a.v4, v4("10.0.1.1"), 5));
    let tag = |vid: u8| [&plain[..12], &[0x81, 0, 0x20, vid], &plain[12..]].concat();
    w.punt(LEFT, &tag(100));
    w.punt(LEFT, &plain);
    assert_eq!(w.twin, [(LEFT, plain.clone()), (LEFT, plain.clone())]);
    w.twin.clear();
    w.punt(LEFT, &tag(101));
    w.silent();
    assert_eq!(w.dropped("bad_frame"), 1);
    w.input(Input::FromTwin { interface: LEFT, frame: &tag(100) });
    assert_eq!(w.sent, [(LEFT, plain)]);
}

#[test]
fn frames_for_others_unknown_types_and_unknown_interfaces() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let packet = udp4(a.v4, v4("10.0.1.1"), 5);
    w.punt(LEFT, &ethernet(host(LEFT, 9).mac, a.mac, &packet));
    w.punt(InterfaceId(7), &ethernet(mac(LEFT), a.mac, &packet));
    w.punt(LEFT, &ethernet(mac(LEFT), MacAddr::BROADCAST, &packet));
    w.punt(LEFT, &[2; 13]);
    w.silent();
    let names = ["other_station", "unknown_interface", "bad_frame"];
    assert_eq!(names.map(|name| w.dropped(name)), [1, 1, 2]);
    // LLDP and the like are Linux's business.
    let lldp = framed(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]), a.mac, 0x88cc, b"lldp");
    w.punt(LEFT, &lldp);
    assert_eq!(w.twin, [(LEFT, lldp)]);
    assert_eq!(w.count("punted"), 5);
}

#[test]
fn inputs_about_unknown_interfaces_do_nothing() {
    let mut w = World::new();
    let gateway = v4("10.0.9.9").into();
    w.input(Input::Resolve { interface: InterfaceId(9), gateway });
    w.input(Input::SetNeighbor { interface: InterfaceId(9), address: gateway, mac: host(LEFT, 2).mac });
    w.input(Input::UnsetNeighbor { interface: InterfaceId(9), address: gateway });
    w.input(Input::Forget { interface: InterfaceId(9), gateway });
    w.input(Input::NeighborUsed { interface: InterfaceId(9), address: gateway });
    w.input(Input::RemoveInterface { id: InterfaceId(9) });
    w.silent();
    assert_eq!(w.slow.neighbors().count(), 0);
}
