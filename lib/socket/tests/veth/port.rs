// SPDX-License-Identifier: MIT
//! What a port says of itself, and why it does not open.

use super::*;

pub fn what_is_missing_is_said_in_a_sentence() {
    for (confined, sentence) in [
        ("setpriv --bounding-set -net_raw", "CAP_NET_RAW is needed: run as root"),
        (
            "prlimit --nofile=10",
            "Too many open files; each queue takes a file descriptor or more: raise the limit (`ulimit -n`)",
        ),
        ("prlimit --nofile=1000", "it opens"),
    ] {
        let mut words = confined.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(std::env::current_exe().unwrap()).env(CONFINED, "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(sentence), "{confined}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

pub fn what_a_port_says() {
    let pool = HeapPool::leak(64);
    let error = |config: SocketConfig| match SocketPort::open(&config, buffers(pool)) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    };
    let missing = error(SocketConfig::new("nothere0"));
    assert!(missing.starts_with("interface nothere0: it could not be found: No such device; "), "{missing}");
    let small = error(SocketConfig { room: 2048, ..SocketConfig::new("left") });
    assert!(small.contains("an MTU of 9000 needs packet buffers of 9022 bytes, and the pool's have 2048"), "{small}");
    let other = error(SocketConfig::new("lo"));
    assert!(other.contains("lo is no Ethernet interface"), "{other}");

    let mac = "02:00:00:00:00:09".parse().unwrap();
    let wanted =
        SocketConfig { mac: Some(mac), mtu: Some(3000), transmit_queues: 3, number: 5, ..SocketConfig::new("right") };
    let port = open(wanted, pool);
    let info = port.info();
    assert_eq!((info.port, info.device.as_str(), info.driver.as_str()), (5, "right", "packet"));
    assert_eq!((info.mac, info.mtu, info.receive_queues, info.transmit_queues), (mac, 3000, 1, 3));
    assert!(shown("right").contains("mtu 3000") && shown("right").contains("promiscuity 1 "));
    assert_eq!((port.link().up, port.link().speed), (true, Some(10_000)));
    port.set_mtu(1400).unwrap();
    assert!(port.info().mtu == 1400 && shown("right").contains("mtu 1400"));
    port.set_promiscuous(true).unwrap();
    port.set_promiscuous(true).unwrap();
    assert!(shown("right").contains("promiscuity 2 "));
    port.set_promiscuous(false).unwrap();
    assert!(shown("right").contains("promiscuity 1 "));

    let taken = port.rx_queue(0).unwrap();
    let again = port.rx_queue(0).err().unwrap().to_string();
    assert!(again.contains("receive queue 0 of port right is already in use"), "{again}");
    drop(taken);
    assert!(port.rx_queue(0).is_ok() && port.tx_queue(2).is_ok());
    let none = port.tx_queue(3).err().unwrap().to_string();
    assert!(none.contains("port right has no transmit queue 3: it has 3"), "{none}");
}
