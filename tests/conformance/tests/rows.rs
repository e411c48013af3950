// SPDX-License-Identifier: MIT
//! Every row for perigee with its default driver, each as a test, with one thread of the slow path and with three: all
//! rows of a router run side by side, when the first of them is asked for.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use perigee_conformance::rows::{ROWS, Row};
use perigee_conformance::run::{self, Report, Request, Verdict};
use perigee_conformance::target::Target;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

fn main() -> ExitCode {
    if let Some(code) = run::inside() {
        return code;
    }
    let arguments = Arguments::from_args();
    let trials = ROUTERS.iter().flat_map(|router| {
        // What is asked for runs together.
        let named = |at: &usize| is_asked(&arguments, &router.name(&ROWS[*at]));
        let asked: Vec<usize> = (0..ROWS.len()).filter(named).collect();
        (0..ROWS.len()).map(move |at| {
            let asked = asked.clone();
            Trial::ignorable_test(router.name(&ROWS[at]), move || router.result(at, &asked))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A router whose rows are tried.
struct Router {
    group: &'static str,
    slow_paths: u16,
    report: OnceLock<Result<Report, String>>,
}

static ROUTERS: [Router; 2] = [
    Router { group: "rows", slow_paths: 1, report: OnceLock::new() },
    Router { group: "rows_of_three_slow_paths", slow_paths: 3, report: OnceLock::new() },
];
/// One router at a time: a busy machine is no network.
static TURN: Mutex<()> = Mutex::new(());

impl Router {
    /// `rows::ipv4_37_redirects_are_sent_with_code_1_alone`.
    fn name(&self, row: &Row) -> String {
        let words = row.sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(str::to_lowercase).collect();
        format!("{}::{}_{}_{}", self.group, row.family.name(), row.number, words.join("_"))
    }

    /// The result of one row; runs all that are asked for, once.
    fn result(&self, at: usize, asked: &[usize]) -> Result<Completion, Failed> {
        let report = self.report.get_or_init(|| {
            let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            let program = perigee_lab::program().map_err(|error| format!("{error:#}"))?;
            let target =
                Target::Perigee { program, opened: "driver = \"packet\"".to_owned(), slow_paths: self.slow_paths };
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
}

fn is_asked(arguments: &Arguments, name: &str) -> bool {
    let fits = |text: &String| if arguments.exact { name == text } else { name.contains(text.as_str()) };
    arguments.filter.as_ref().is_none_or(fits) && !arguments.skip.iter().any(fits)
}
