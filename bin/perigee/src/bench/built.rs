// SPDX-License-Identifier: MIT
//! Devices that are built for `perigee bench rfc2544`, one after the other, each in namespaces of its own.

use super::between::{Bench, Between};
use super::rfc2544::{GO_ON, Rfc2544Args, bench, measure};
use super::session::Plan;
use super::target::{self, Share, Target};
use super::{INTERRUPTED, Interrupt, Laboratory, PATIENCE, UNANSWERED, folder, mtu, output};
use crate::isolated::Isolated;
use crate::launch::plane;
use crate::measure::surroundings::Reset;
use anyhow::{Context as _, Result, ensure};
use perigee_lab::device::Device;
use perigee_lab::{Isolation, World};
use perigee_measure::report::{Device as Points, Report};
use perigee_measure::run::Test;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Without a target and without wires. The in-kernel plane is left out where it cannot be loaded.
const DEFAULT: [Target; 3] = [Target::Perigee, Target::PerigeeXdp, Target::Linux];

fn targets(args: &Rfc2544Args) -> &[Target] {
    if args.targets.is_empty() { &DEFAULT } else { &args.targets }
}

/// The targets, with their places in the list.
fn chosen(args: &Rfc2544Args) -> Vec<(usize, &Target)> {
    let mut chosen: Vec<_> = targets(args).iter().enumerate().collect();
    let too_long = args.sizes.iter().any(|size| *size > target::LONGEST_BY_XDP);
    let why = if too_long { Some("a veth takes no XDP program with frames that long") } else { plane::unavailable() };
    if args.targets.is_empty()
        && let Some(why) = why
    {
        eprintln!("perigee-xdp is left out: {why}");
        chosen.retain(|(_, target)| **target != Target::PerigeeXdp);
    }
    chosen
}

/// Runs the same command again in namespaces, for each device; prints the results beside each other if there are
/// several.
pub fn outside(args: &Rfc2544Args) -> Result<ExitCode> {
    ensure!(
        !matches!(args.reset, Some(Some(_))),
        "--reset with a command is for a box: a device that is built is stopped and started"
    );
    let chosen = chosen(args);
    let targets: Vec<&Target> = chosen.iter().map(|(_, target)| *target).collect();
    // Mistakes are found before anything is built.
    let folders = prepared(args, &targets)?;
    let mut unanswered = false;
    for ((number, target), folder) in chosen.iter().zip(&folders) {
        let (tun, command) = (target.is_router(), "bench rfc2544");
        let isolated = Isolated { name: "bench", command, who: "the benchmark", tools: &[], tun, patience: PATIENCE };
        let end = isolated.run(|_: Isolation, inside: &Path| {
            let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
            // In front of a command line that might end with --.
            let number = number.to_string().into();
            words.splice(2..2, ["--inside".into(), inside.into(), folder.into(), number]);
            words
        })?;
        let code = end.exit_code();
        if code == UNANSWERED {
            // The other devices may have an answer.
            unanswered = true;
        } else if code != 0 {
            let there_are: Vec<PathBuf> =
                folders.iter().filter(|folder| folder.join(folder::JSON).exists()).cloned().collect();
            if args.json && !there_are.is_empty() {
                print_json(&there_are)?;
            }
            if code == INTERRUPTED && folder::has_run(folder) {
                eprintln!("{GO_ON}");
            }
            return Ok(ExitCode::from(code));
        }
    }
    if args.json {
        print_json(&folders)?;
    } else if folders.len() > 1 {
        print!("{}", output::beside(&folders.iter().map(|folder| report(folder)).collect::<Result<Vec<_>>>()?));
    }
    Ok(if unanswered { ExitCode::from(UNANSWERED) } else { ExitCode::SUCCESS })
}

/// The folders of the devices' reports, as absolute paths.
fn prepared(args: &Rfc2544Args, targets: &[&Target]) -> Result<Vec<PathBuf>> {
    let several = targets.len() > 1;
    let mut folders: Vec<PathBuf> = Vec::new();
    for target in targets {
        let name = target.to_string();
        let named = args.report.as_ref().map(|report| match several {
            true => report.join(folder::plain(&name)),
            false => report.clone(),
        });
        let folder = std::path::absolute(folder::choose(named.as_deref(), &name, args.resume))?;
        ensure!(
            !folder.starts_with("/run"),
            "{} is not seen from inside of the namespaces: name a folder outside of /run",
            folder.display()
        );
        ensure!(
            !folders.contains(&folder),
            "{} would have the results of two devices: measure {name} by itself",
            folder.display()
        );
        folders.push(folder);
    }
    let any = folders.iter().any(|folder| folder::has_run(folder));
    let (_, cores) = target::share(args.machine.cores.as_ref(), args.device_cores.as_ref());
    for (target, folder) in targets.iter().zip(&folders) {
        // Of several, some may not have been begun.
        let resume = args.resume && (!several || !any || folder::has_run(folder));
        args.checked_plan(&target.to_string(), folder, resume, cores.len())?;
    }
    Ok(folders)
}

fn report(folder: &Path) -> Result<Report> {
    let path = folder.join(folder::JSON);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The report, or a list of them.
pub fn print_json(folders: &[PathBuf]) -> Result<()> {
    let reports = folders.iter().map(|folder| report(folder)).collect::<Result<Vec<_>>>()?;
    match reports.as_slice() {
        [one] => print!("{}", one.json()),
        several => println!("{}", serde_json::to_string_pretty(several).context("the reports are no JSON")?),
    }
    Ok(())
}

/// Builds a device and measures it, in the namespaces.
pub fn inside(args: &Rfc2544Args, temporary: &Path, report: &Path, number: &OsStr) -> Result<ExitCode> {
    let number = number.to_str().and_then(|number| number.parse::<usize>().ok());
    let target = number.and_then(|number| targets(args).get(number)).context("which target?")?;
    let Laboratory { world, interrupt, _input } = &Laboratory::enter(temporary)?;
    let (cores, device_cores) = target::share(args.machine.cores.as_ref(), args.device_cores.as_ref());
    // Where several are measured, this one may not have been begun.
    let resume = args.resume && folder::has_run(report);
    let mut plan = args.plan(&target.to_string(), report, resume, device_cores.len())?;
    let all: Vec<usize> = cores.iter().chain(&device_cores).copied().collect();
    let largest = plan.sizes.iter().copied().max().unwrap_or(64);
    let mtu = mtu(largest);
    let share = Share { cores: device_cores, mtu, static_neighbors: args.static_neighbors };
    let device = target.build(world, 0, &share)?;
    let names = target::tester_ports(&device.sides().each_ref().map(|side| side.port.clone()), largest);
    let macs = target.macs(&device);
    let bench = bench(args, &plan, cores)?;
    if args.floor.is_none() && plan.wants(Test::Latency) {
        floors(&mut plan, &bench, world, mtu, interrupt)?;
    }
    let device = Arc::new(Mutex::new(device));
    let alive = {
        let device = device.clone();
        // While it is being reset, nobody asks.
        move || device.try_lock().map_or(Ok(()), |mut device| device.running())
    };
    let mut between = Between::open(&bench, &names, macs, "it did not start as it should", interrupt)?;
    between.ports.reset = args.reset.is_some().then(|| restart(&device));
    let points = Points { flows: plan.flows * plan.ways.count(), cores: target.cores(&share) };
    let done = measure(args, plan, between, &all, Some(points), interrupt, alive);
    let removed = match Arc::into_inner(device) {
        Some(device) => device.into_inner().unwrap_or_else(PoisonError::into_inner).remove(),
        // A reset is still under way; it ends with the namespaces.
        None => Ok(()),
    };
    // If both failed, the first says why.
    done.and_then(|code| removed.map(|()| code))
}

/// Stops and starts a device.
fn restart(device: &Arc<Mutex<Device>>) -> Reset {
    let device = device.clone();
    Arc::new(move || {
        let reset = device.lock().unwrap_or_else(PoisonError::into_inner).reset();
        reset.map_err(|error| format!("The device was not reset: {error:#}."))
    })
}

/// Measures the tester's own latency, over a cable to itself.
fn floors(plan: &mut Plan, bench: &Bench, world: &World, mtu: u16, interrupt: &Interrupt) -> Result<()> {
    let mut cable = Between::cable(bench, &target::tester_ports(&world.loopback_cable(mtu)?, bench.largest.into()))?;
    for size in plan.sizes.clone() {
        eprintln!("The tester's own latency with frames of {size} bytes, over a cable to itself");
        plan.with_floor(size, cable.floor(size, interrupt)?, "the smallest over a cable to itself");
    }
    cable.close()
}
