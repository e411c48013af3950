// SPDX-License-Identifier: MIT
//! Every row for perigee with its default driver, each as a test: they run once, side by side, when the first of them is asked for.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use perigee_conformance::rows::{ROWS, Row};
use perigee_conformance::run::{self, Report, Request, Verdict};
use perigee_conformance::target::Target;
use std::process::ExitCode;
use std::sync::OnceLock;

fn main() -> ExitCode {
    if let Some(code) = run::inside() {
        return code;
    }
    let arguments = Arguments::from_args();
    // What is asked for runs together.
    let asked: Vec<usize> = (0..ROWS.len()).filter(|at| is_asked(&arguments, &name(&ROWS[*at]))).collect();
    let trial = |at: usize| {
        let asked = asked.clone();
        Trial::ignorable_test(name(&ROWS[at]), move || result(at, &asked))
    };
    libtest_mimic::run(&arguments, (0..ROWS.len()).map(trial).collect()).exit_code()
}

/// `rows::ipv4_37_redirects_are_sent_with_code_1_alone`.
fn name(row: &Row) -> String {
    let words = row.sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(str::to_lowercase).collect();
    format!("rows::{}_{}_{}", row.family.name(), row.number, words.join("_"))
}

fn is_asked(arguments: &Arguments, name: &str) -> bool {
    let fits = |text: &String| if arguments.exact { name == text } else { name.contains(text.as_str()) };
    arguments.filter.as_ref().is_none_or(fits) && !arguments.skip.iter().any(fits)
}

/// The result of one row; runs all that are asked for, once.
fn result(at: usize, asked: &[usize]) -> Result<Completion, Failed> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    let report = REPORT.get_or_init(|| {
        let program = perigee_lab::program().map_err(|error| format!("{error:#}"))?;
        let target = Target::Perigee { program, driver: "packet".to_owned() };
        let request = Request { target, rows: asked.to_vec(), links: 3, verbose: true, captures: None };
        run::run(&request, |_| {}).map_err(|error| format!("{error:#}"))
    });
    let report = match report {
        Ok(report) => report,
        // As for scenarios: where namespaces are refused the rows cannot run, which only CI takes for a failure.
        Err(reason) => {
            return match std::env::var("CI").as_deref() {
                Ok("true") => Err(format!("it cannot run here, and must under CI: {reason}").into()),
                _ => Ok(Completion::ignored_with(reason)),
            };
        }
    };
    if let Some(trouble) = report.trouble.first() {
        return Err(trouble.into());
    }
    let outcome = report.outcomes.iter().find(|outcome| outcome.row == at).ok_or("it did not run")?;
    match outcome.verdict {
        Verdict::Pass => Ok(Completion::Completed),
        Verdict::NotApplicable => Ok(Completion::ignored_with(&outcome.reason)),
        Verdict::Fail => Err(format!("{}\n{}", outcome.reason, outcome.frames.join("\n")).into()),
    }
}
