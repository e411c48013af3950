// SPDX-License-Identifier: MIT
//! The subcommands that the quick build of `./x demo` leaves out: each says what makes the whole perigee.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Subcommands whose features were not built.
#[derive(Subcommand)]
pub enum Missing {
    /// Measure a device between two ports [not in this quick build: ./x build]
    #[cfg(any(test, not(feature = "measure")))]
    #[command(disable_help_flag = true)]
    Bench(Words),
    /// Generate traffic [not in this quick build: ./x build]
    #[cfg(any(test, not(feature = "measure")))]
    #[command(disable_help_flag = true)]
    Gen(Words),
    /// Predict how fast a router will be [not in this quick build: ./x build]
    #[cfg(any(test, not(feature = "predict")))]
    #[command(disable_help_flag = true)]
    Predict(Words),
}

/// Whatever follows.
#[derive(Args)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

impl Missing {
    /// # Errors
    /// Always: what to run.
    pub fn run(self) -> Result<ExitCode> {
        let (name, Words { words: _ }) = match self {
            #[cfg(any(test, not(feature = "measure")))]
            Missing::Bench(words) => ("bench", words),
            #[cfg(any(test, not(feature = "measure")))]
            Missing::Gen(words) => ("gen", words),
            #[cfg(any(test, not(feature = "predict")))]
            Missing::Predict(words) => ("predict", words),
        };
        bail!(
            "`perigee {name}` is not in this quick build, which `./x demo` made: `./x build` makes the whole perigee, \
             target/release/perigee"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Quick {
        #[command(subcommand)]
        command: Missing,
    }

    /// After `./x demo`, clap said "unrecognized subcommand 'gen'" to readers who followed the README.
    #[test]
    fn a_subcommand_that_the_demo_does_without_says_what_to_run() {
        for line in [
            "gen eth1 --to eth2 --rate 1Mpps --sizes imix",
            "bench rfc2544 linux",
            "bench",
            "bench --help",
            "predict run --rate 10Mpps --cores 1..4",
        ] {
            let words: Vec<_> = std::iter::once("perigee").chain(line.split(' ')).collect();
            let error = Quick::try_parse_from(&words).expect(line).command.run().unwrap_err().to_string();
            let name = words[1];
            assert!(error.starts_with(&format!("`perigee {name}` is not in this quick build")), "{error}");
            assert!(error.contains("`./x build` makes the whole perigee"), "{error}");
        }
    }
}
