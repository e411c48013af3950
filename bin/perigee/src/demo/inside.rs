// SPDX-License-Identifier: MIT
//! The first process inside: builds, probes, reports. All others end with it.

use super::progress::step;
use super::router::Router;
use super::{DemoArgs, account, bgp, bgp_report, probes, report, world};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Pings to each of the server's addresses.
const PINGS: u32 = 10;

pub fn run(args: &DemoArgs, folder: &Path) -> Result<ExitCode> {
    end_with_input(folder)?;
    step("namespaces client, router, server; Linux forwards nothing", world::build)?;
    let mut router =
        step("perigee run: DPDK on two veth ports, one worker", || Router::start(folder, args.fib.as_deref()))?;
    let results = router.or_why(|router| match args.bgp {
        true => Ok(Results::Bgp(bgp::probe(router, folder)?)),
        false => Ok(Results::Ping(probe(router)?)),
    })?;
    if !args.keep {
        step("perigee stops, every packet buffer is back", || router.stop())?;
    }
    let report = match (&results, args.json) {
        (Results::Ping(results), true) => report::json(results)?,
        (Results::Ping(results), false) => report::text(results),
        (Results::Bgp(results), true) => bgp_report::json(results)?,
        (Results::Bgp(results), false) => bgp_report::text(results),
    };
    print(std::io::stdout(), &report)?;
    if args.keep {
        let hints = report::hints(folder, args.isolation, args.bgp)?;
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

/// Of either demonstration.
enum Results {
    Ping(report::Results),
    Bgp(bgp::Results),
}

fn print(mut to: impl Write, text: &str) -> Result<()> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush()).context("the results cannot be printed")
}

/// Real programs, then the accounts.
fn probe(router: &Router) -> Result<report::Results> {
    let [v4, v6] = [world::SERVER.v4, world::SERVER.v6];
    let ping = step(&format!("ping {v4}"), || probes::ping(v4, PINGS))?;
    let traceroute = step(&format!("traceroute {v4}"), || probes::traceroute(v4, world::CLIENT.router_v4))?;
    let iperf3 = step(&format!("iperf3 to {v4}, {} seconds", probes::IPERF_SECONDS), || probes::iperf3(v4))?;
    // Last, as the router uses no IPv6 address before it has made sure, for a second, that nobody else has it.
    let ping6 = step(&format!("ping {v6}"), || probes::ping(v6, PINGS))?;
    let accounts = step("perigee's counters against those of client and server", || account::settled(router))?;
    Ok(report::Results { ping, ping6, traceroute, iperf3, accounts })
}

/// Ends this process, and with it the namespaces, as soon as the process outside closes the pipe: it was told to end,
/// or is no more. In the second case nobody else removes the folder.
fn end_with_input(folder: &Path) -> Result<()> {
    let folder = folder.to_owned();
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = std::fs::remove_dir_all(folder);
        std::process::exit(1);
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(watch)?;
    Ok(())
}
