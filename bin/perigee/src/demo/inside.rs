// SPDX-License-Identifier: MIT
//! The first process inside: builds, probes, reports. All others end with it.

use super::progress::step;
use super::world::{self, Network};
use super::{DemoArgs, account, bgp, bgp_report, probes, report, router};
use anyhow::{Context, Result};
use perigee_lab::{Host, Process, Router, isolation};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Pings to each of the server's addresses.
const PINGS: u64 = 10;

pub fn run(args: &DemoArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let network =
        step("namespaces client, router, server; Linux forwards nothing", || Network::build(folder, args.xdp))?;
    let by = if args.xdp { "in the kernel" } else { "by packet sockets" };
    let mut router = step(&format!("perigee run: two veth ports {by}, one worker"), || {
        let router = router::start(folder, args.fib.as_deref(), args.xdp)?;
        [&network.client, &network.server].into_iter().try_for_each(Host::has_link)?;
        Ok(router)
    })?;
    // These run until the end, for users who look around meanwhile.
    let (mut birds, mut listening) = (None, None);
    let results = router.or_why(|router| match args.bgp {
        true => Ok(Results::Bgp(bgp::probe(&network, router, birds.insert(bgp::start(&network)?))?)),
        false => Ok(Results::Ping(probe(&network, router, &mut listening)?)),
    })?;
    let mut kept = Some(router);
    if !args.keep
        && let Some(router) = kept.take()
    {
        step("perigee stops, every packet buffer is returned", || router.stop())?;
    }
    let report = match (&results, args.json) {
        (Results::Ping(results), true) => report::json(results)?,
        (Results::Ping(results), false) => report::text(results),
        (Results::Bgp(results), true) => bgp_report::json(results)?,
        (Results::Bgp(results), false) => bgp_report::text(results),
    };
    print(std::io::stdout(), &report)?;
    if let Some(mut router) = kept {
        let hints = report::hints(folder, args.isolation, birds.as_ref())?;
        // Only the JSON on standard output.
        if args.json {
            print(std::io::stderr(), &hints)?
        } else {
            print(std::io::stdout(), &hints)?
        }
        router.wait()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The results of either demonstration.
enum Results {
    Ping(report::Results),
    Bgp(bgp::Results),
}

fn print(mut to: impl Write, text: &str) -> Result<()> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush()).context("the results cannot be printed")
}

/// Real programs, then the accounts.
fn probe(network: &Network, router: &Router, listening: &mut Option<Process>) -> Result<report::Results> {
    let Network { client, server, .. } = network;
    let [v4, v6] = [world::SERVER.v4, world::SERVER.v6];
    let ping = step(&format!("ping {v4}"), || probes::ping(client, v4, PINGS))?;
    let traceroute = step(&format!("traceroute {v4}"), || probes::traceroute(client, v4, world::CLIENT.router_v4))?;
    let iperf3 = step(&format!("iperf3 to {v4}, {} seconds", probes::IPERF_SECONDS), || {
        *listening = Some(probes::listen(server)?);
        probes::iperf3(client, v4)
    })?;
    // Last, as the router takes a second to make sure that nobody else has its IPv6 address before it uses it.
    let ping6 = step(&format!("ping {v6}"), || probes::ping(client, v6, PINGS))?;
    let accounts = step("perigee's counters against those of client and server", || account::settled(network, router))?;
    Ok(report::Results { ping, ping6, traceroute, iperf3, accounts })
}
