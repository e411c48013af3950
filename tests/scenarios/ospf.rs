// SPDX-License-Identifier: MIT
//! OSPF over the twins: adjacencies become Full, routes are exchanged, and traffic follows them.

use perigee_tests::{Needs, scenario_with};

const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1/64"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64", "fe80::2/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64", "fe80::3/64"]
"#;

#[test]
fn probe() {
    scenario_with(&[Needs::BIRD, Needs::FRR], |world| {
        let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
        let one = world.host("one", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
        let two = world.host("two", &["10.0.3.2/24", "2001:db8:3::2/64"], &[]);
        let router = world.router("", PORTS);
        let bird = world.bird("
router id 10.0.0.1;
log stderr all;
debug protocols { states, interfaces, events };
protocol device { }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol ospf v2 o { ipv4 { import all; export none; }; area 0 { interface \"wan\" { stub; }; interface \"one\", \"two\" { hello 1; dead 4; }; }; }
protocol ospf v3 o3 { ipv6 { import all; export none; }; area 0 { interface \"wan\" { stub; }; interface \"one\", \"two\" { hello 1; dead 4; }; }; }
");
        one.run("ip addr add 10.7.0.1/32 dev lo").good();
        two.run("ip addr add 10.7.0.2/32 dev lo").good();
        let far = one.bird("
router id 10.0.0.2;
log stderr all;
debug protocols { states, interfaces, events };
protocol device { }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol ospf v2 o { ipv4 { import all; export none; }; area 0 { interface \"lo\" { stub; }; interface \"eth0\" { hello 1; dead 4; }; }; }
protocol ospf v3 o3 { ipv6 { import all; export none; }; area 0 { interface \"lo\" { stub; }; interface \"eth0\" { hello 1; dead 4; }; }; }
");
        let frr = two.frr(
            &["zebra", "ospfd", "ospf6d"],
            "
interface eth0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf area 0
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
 ipv6 ospf6 area 0
interface lo
 ip ospf area 0
router ospf
 ospf router-id 10.0.0.3
router ospf6
 ospf6 router-id 10.0.0.3
",
        );
        std::thread::sleep(std::time::Duration::from_secs(20));
        println!("{}", bird.ask("show ospf neighbors o").text);
        println!("{}", bird.ask("show ospf neighbors o3").text);
        println!("{}", far.ask("show ospf neighbors o").text);
        println!("{}", far.ask("show ospf neighbors o3").text);
        println!("{}", frr.ask("show ip ospf neighbor").text);
        println!("{}", frr.ask("show ipv6 ospf6 neighbor").text);
        println!("{}", world.ip("route"));
        println!("{}", world.ip("-6 route"));
        println!("{}", router.ask("show drops").text);
        panic!("probe");
    });
}
