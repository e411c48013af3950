// SPDX-License-Identifier: MIT
//! Mistakes in inputs: which file, where in it, what was found, what was expected.

use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A mistake in an input, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{file}: {cause}; expected {expected}", file = file.display())]
    File {
        file: PathBuf,
        /// The intended use.
        expected: &'static str,
        /// The system's error; part of the sentence, and so not its `source`.
        cause: std::io::Error,
    },
    /// A place in a JSON file.
    #[error("{file}: {path}: found {found}, expected {expected}")]
    Key {
        file: String,
        /// Keys from the outermost on, with dots: `parameters.c0_ns`.
        path: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// Keys or kinds of values in a JSON file.
    #[error("{file}: {path}: {said}")]
    Value {
        file: String,
        /// Keys from the outermost on, with dots.
        path: String,
        /// What was found and expected, as serde describes it.
        said: String,
    },
    /// A text that is not JSON.
    #[error("{file}:{line}:{column}: found a mistake ({found}), expected JSON")]
    Json {
        file: String,
        /// Line, from 1 on.
        line: usize,
        /// Column, from 1 on.
        column: usize,
        /// The parser's error.
        found: String,
    },
    /// Mistakes in several lines of a CSV file.
    #[error("{}", lines(first, *more))]
    Several {
        /// The first of them, at most [`MOST_SAID`].
        first: Vec<Error>,
        /// How many lines beyond those have one.
        more: usize,
    },
    /// A place in a CSV file.
    #[error("{file}:{line}: {column}found {found}, expected {expected}", column = column.as_ref().map(|c| format!("column {c}: ")).unwrap_or_default())]
    Cell {
        file: String,
        /// Line, from 1 on.
        line: u64,
        /// The column's name, if it is about one.
        column: Option<String>,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// Points that cannot answer the question.
    #[error("{0}")]
    Points(String),
}

/// Most mistakes of one file that are said.
pub const MOST_SAID: usize = 20;

/// A line each.
fn lines(first: &[Error], more: usize) -> String {
    let mut lines: Vec<String> = first.iter().map(Error::to_string).collect();
    match more {
        0 => {}
        1 => lines.push("... and 1 line more".into()),
        _ => lines.push(format!("... and {more} lines more")),
    }
    lines.join("\n")
}

/// Text of a file in a message: not too long, and without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MOST: usize = 300;
    let shown: String = text.chars().take(MOST).map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
    if text.chars().nth(MOST).is_some() { shown + "..." } else { shown }
}

/// A number in a message: exact, and never with hundreds of digits.
pub(crate) fn shown_number(number: f64) -> String {
    let plain = number == 0.0 || (1e-4..1e15).contains(&number.abs());
    if plain { number.to_string() } else { format!("{number:e}") }
}

/// A number that is out of bounds, rounded if it is out of them then, too.
pub(crate) fn shown_outside(number: f64, bounds: RangeInclusive<f64>) -> String {
    let rounded = format!("{number:.5e}").parse().unwrap_or(number);
    shown_number(if bounds.contains(&rounded) { number } else { rounded })
}
