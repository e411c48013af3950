// SPDX-License-Identifier: MIT
//! A line per step on standard error: a spinner that becomes `ok 0.3 s`, or plain text without a terminal.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Columns before the result.
const WIDTH: usize = 58;

/// Does the work, and shows progress and how long it took.
pub fn step<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let title = format!("{title:<WIDTH$}");
    let start = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let spinner = terminal.then(|| {
        let spinner = ProgressBar::new_spinner().with_message(title.clone());
        // If the template does not compile, indicatif's own style is used.
        spinner.set_style(
            ProgressStyle::with_template("{msg} {spinner:.cyan}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        spinner.enable_steady_tick(Duration::from_millis(80));
        spinner
    });
    if !terminal {
        eprint!("{title} ");
    }
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
        eprint!("{title} ");
    }
    let colours = terminal && std::env::var_os("NO_COLOR").is_none();
    let result_line = match (&result, colours) {
        (Ok(_), true) => format!("\x1b[32mok\x1b[0m {seconds:.1} s"),
        (Ok(_), false) => format!("ok {seconds:.1} s"),
        (Err(_), true) => "\x1b[31mfailed\x1b[0m".to_owned(),
        (Err(_), false) => "failed".to_owned(),
    };
    eprintln!("{result_line}");
    result
}
