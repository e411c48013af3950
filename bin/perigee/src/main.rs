// SPDX-License-Identifier: MIT
//! The only binary: the command line becomes a running router, or a question to one.
//!
//! ```text
//! run > launch (DPDK ports, twins, workers, API)      check, helper
//! demo > three namespaces around a `run`              show, route, neighbor, reload, trace, capture: questions over the unix socket
//! snabb > a Snabb program on DPDK ports       task > the tasks of a Lua script on DPDK ports
//! predict > a profile from measured points, and answers from it
//! ```
#![forbid(unsafe_code)]

// First, for its macros.
#[macro_use]
mod output;

mod audit;
#[cfg(feature = "measure")]
mod bench;
mod capture;
mod check;
mod cli;
mod client;
#[cfg(any(feature = "measure", feature = "predict"))]
mod date;
mod demo;
mod fabric;
mod filters;
#[cfg(feature = "measure")]
mod r#gen;
mod isolated;
mod launch;
#[cfg(feature = "measure")]
mod measure;
#[cfg(any(test, not(all(feature = "measure", feature = "predict"))))]
mod missing;
mod neighbor;
#[cfg(feature = "predict")]
mod predict;
mod reload;
mod route;
mod run;
mod scripts;
mod show;
mod signals;
mod snabb;
mod table;
mod task;
mod trace;

use clap::Parser;
use libbpf_rs::PrintLevel;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(missing) = processor_is_new_enough() {
        eprintln!(
            "perigee: this processor has no {missing}; build with RUSTFLAGS=-Ctarget-cpu=x86-64-v2 for older ones"
        );
        return ExitCode::FAILURE;
    }
    // What libbpf prints, such as the verifier's log, is for developers; sentences of ours say what was refused.
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| tracing::debug!("libbpf: {}", text.trim_end()))));
    let arguments = cli::Cli::parse_from(words(std::env::args_os()));
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("perigee: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The command line. Called `snabb`, by a link of that name or by a program of a Snabb tree that starts itself again,
/// perigee is `perigee snabb`.
fn words(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let name = given.next().unwrap_or_else(|| "perigee".into());
    let snabb = Path::new(&name).file_name().is_some_and(|name| name == "snabb").then(|| "snabb".into());
    std::iter::once(name).chain(snabb).chain(given).collect()
}

/// The binary is built for Haswell and newer (.cargo/config.toml).
#[cfg(target_arch = "x86_64")]
fn processor_is_new_enough() -> Result<(), &'static str> {
    match (is_x86_feature_detected!("avx2"), is_x86_feature_detected!("bmi2")) {
        (true, true) => Ok(()),
        (false, _) => Err("AVX2"),
        (_, false) => Err("BMI2"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_is_new_enough() -> Result<(), &'static str> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_called_snabb_runs_snabb_programs() {
        let of = |line: &[&str]| -> Vec<OsString> { words(line.iter().map(OsString::from)) };
        assert_eq!(of(&["/bin/snabb", "top"]), ["/bin/snabb", "snabb", "top"]);
        assert_eq!(of(&["perigee", "show"]), ["perigee", "show"]);
        assert_eq!(of(&[]), ["perigee"]);
    }
}
