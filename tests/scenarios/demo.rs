// SPDX-License-Identifier: MIT
//! The demonstration shows what it promises, or says what to do if it cannot.

use perigee_tests::{Asserts, Good, World, perigee, run, wait_until};
use std::fs;
use std::process::Command;

perigee_tests::scenarios![
    the_demo_reports_what_crossed_the_router,
    the_demo_of_the_in_kernel_plane_reports_that_workers_forward_next_to_nothing as root needs BIRDC,
    the_demo_of_bgp_reports_routes_that_come_and_go needs BIRDC,
    where_user_namespaces_are_refused_the_demo_says_so,
];

fn the_demo_reports_what_crossed_the_router(world: &World) {
    let interfaces = world.interfaces();
    let report = world.perigee(&["demo", "--json"]).good().out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON on standard output");
    assert_eq!(report["ping"]["loss"].as_f64(), Some(0.0), "{report}");
    assert!(report["iperf3"]["gbps"].as_f64() > Some(0.0), "{report}");
    assert!(report["traceroute"].to_string().contains("10."), "{report}");
    assert_eq!(world.interfaces(), interfaces);
    wait_until("all processes to end", || world.processes().is_empty());
}

fn the_demo_of_the_in_kernel_plane_reports_that_workers_forward_next_to_nothing(world: &World) {
    let report = world.perigee(&["demo", "--xdp", "--bgp", "--json"]).good().out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON on standard output");
    let packets = |report: &serde_json::Value, path: &str| report["packets"][path].as_u64().expect("a number");
    // Pings alone; a neighbor that is asked for meanwhile leaves one or two to a worker.
    assert!(packets(&report, "in_kernel") >= 50 && packets(&report, "fast_path") <= 10, "{report}");
    let report = world.perigee(&["demo", "--xdp", "--json"]).good().out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON on standard output");
    assert_eq!((report["ping"]["loss"].as_f64(), report["ping6"]["loss"].as_f64()), (Some(0.0), Some(0.0)), "{report}");
    assert!(report["iperf3"]["gbps"].as_f64() > Some(0.0), "{report}");
    assert!(packets(&report, "in_kernel") > 100 * (1 + packets(&report, "fast_path")), "{report}");
    wait_until("all processes to end", || world.processes().is_empty());
}

fn the_demo_of_bgp_reports_routes_that_come_and_go(world: &World) {
    let interfaces = world.interfaces();
    let report = world.perigee(&["demo", "--bgp", "--json"]).good().out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON on standard output");
    let bgp = &report["bgp"];
    let all = bgp["routes"].as_u64().expect("a number");
    for (event, wanted) in [("announced", all), ("withdrawn", all / 2), ("announced_again", all)] {
        assert_eq!(bgp[event]["linux"].as_u64(), Some(wanted), "{event}: {report}");
        assert_eq!(bgp[event]["perigee"].as_u64(), Some(wanted), "{event}: {report}");
    }
    for pings in ["pings", "pings_again"] {
        let list = bgp[pings].as_array().expect("a list");
        let lost = list.iter().filter(|ping| ping["ping"]["loss"].as_f64() != Some(0.0)).count();
        assert!(!list.is_empty() && lost == 0, "{pings}: {report}");
    }
    assert!(bgp["answered_after"].as_u64() > Some(0) && bgp["no_route_after"].as_u64() > Some(0), "{report}");
    assert_eq!(world.interfaces(), interfaces);
    wait_until("all processes to end", || world.processes().is_empty());
}

fn where_user_namespaces_are_refused_the_demo_says_so(world: &World) {
    fs::write("/proc/sys/user/max_user_namespaces", "0").expect("no more user namespaces in this one");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(perigee()).arg("demo");
    let output = run(command.env("NO_COLOR", "1")).refused("namespaces");
    let sentences: Vec<_> = output.text.lines().filter(|line| line.starts_with("perigee: ")).collect();
    assert_eq!(sentences.len(), 1, "one sentence:\n{}", output.text);
    assert!(!output.text.contains("panicked"), "{}", output.text);
    assert!(world.processes().is_empty());
}
