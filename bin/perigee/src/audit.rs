// SPDX-License-Identifier: MIT
//! `perigee audit`: do Linux, the routes, the workers' lookup structures and the in-kernel plane agree?

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::Args;
use perigee_api::answers::{AuditReport, Difference};
use perigee_api::queries::Audit;
use std::process::ExitCode;

/// Arguments of `perigee audit`.
#[derive(Args)]
pub struct AuditArgs {
    /// Repair what differs
    #[arg(long)]
    repair: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    router: RouterArg,
}

/// Asks for an audit; fails if anything differs.
pub fn audit(args: &AuditArgs) -> Result<ExitCode> {
    let report = connect(&args.router)?.ask(&Audit { repair: args.repair })?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.differences.iter().for_each(|difference| println!("{}", line(difference)));
        for part in report.plane.iter().flatten() {
            println!("the in-kernel plane differs from the workers' tables: {part}");
        }
        println!("{}", summary(&report));
        report.rules.iter().for_each(|rule| println!("Linux has the policy {rule}"));
    }
    Ok(if report.total == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn line(difference: &Difference) -> String {
    let Difference { prefix, kind, metric, linux, rib, lookup } = difference;
    let prefix = prefix.map(|prefix| format!("{prefix} ")).unwrap_or_default();
    let metric = metric.filter(|metric| *metric != 0).map(|metric| format!("metric {metric} ")).unwrap_or_default();
    let sides = [("Linux", linux), ("RIB", rib), ("workers", lookup)];
    let sides = sides.into_iter().filter_map(|(name, says)| Some(format!("{name}: {}", says.as_ref()?)));
    format!("{prefix}{metric}{kind}; {}", sides.collect::<Vec<_>>().join("; "))
}

fn summary(report: &AuditReport) -> String {
    let AuditReport {
        linux_routes, rib_routes, prefixes, next_hops, neighbors, total, repaired, seconds, plane, ..
    } = report;
    let found = match total {
        0 => "no difference".to_owned(),
        1 => "1 difference".to_owned(),
        n => format!("{n} differences"),
    };
    let plane = match plane {
        Some(differences) if differences.is_empty() => "; the in-kernel plane reads the same tables",
        _ => "",
    };
    let repaired = if *repaired > 0 { format!(", {repaired} repaired in place") } else { String::new() };
    format!(
        "{found}{repaired}: {linux_routes} routes of Linux, {rib_routes} routes in the RIB, {prefixes} prefixes as workers \
         find them, {next_hops} next hops, {neighbors} neighbors, in {seconds:.2} s{plane}"
    )
}
