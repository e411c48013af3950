// SPDX-License-Identifier: MIT
//! The file of a run: JSON, a line each. The first line says what is measured and how, each further one is a trial. So
//! a run that is interrupted, even by a power failure, loses one trial at most.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::record::TrialRecord;
use super::settings::Settings;
use crate::environment::Environment;

/// The format's name, and its version.
pub const FORMAT: &str = "perigee-rfc2544/1";

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// What is measured, as people call it.
    pub target: String,
    pub settings: Settings,
    /// The machine at the beginning of the run.
    pub environment: Environment,
}

/// A run's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub header: Header,
    pub records: Vec<TrialRecord>,
    /// The bytes that were read: where to cut the file before it is added to.
    pub whole: u64,
    /// That the last line was cut off, a sentence.
    pub note: Option<String>,
}

/// A file that is not that of a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    #[error("{file}: found no whole line, expected a first one with the run's settings; start a new run")]
    Empty { file: String },
    #[error("{file}, line {line}: found {found}, expected {expected}; repair or remove the line, or start a new run")]
    Line { file: String, line: usize, found: String, expected: &'static str },
    #[error(
        "{file}: found the format {found:?}, expected {FORMAT:?}; read it with the version of perigee that wrote it"
    )]
    Format { file: String, found: String },
}

impl Header {
    pub fn new(target: &str, settings: &Settings, environment: &Environment) -> Self {
        let (settings, environment) = (settings.clone(), environment.clone());
        Self { format: FORMAT.to_owned(), target: target.to_owned(), settings, environment }
    }
}

/// A header or a record as a line, with its line feed.
pub fn line(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("headers and records are JSON") + "\n"
}

/// Reads a run's file; `file` is its name in errors. A last line without a line feed was cut off, and is left out with
/// a note.
///
/// # Errors
/// The first line that is not what it should be.
pub fn read(text: &[u8], file: &str) -> Result<Stored, StoreError> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = text[..whole].split_inclusive(|byte| *byte == b'\n').enumerate();
    let (_, first) = lines.next().ok_or_else(|| StoreError::Empty { file: file.to_owned() })?;
    // The format first: the rest may look different in others.
    let value: serde_json::Value = parse(first, file, 0, "the run's settings")?;
    if let Some(format) = value.get("format").and_then(|format| format.as_str()).filter(|format| *format != FORMAT) {
        return Err(StoreError::Format { file: file.to_owned(), found: format.to_owned() });
    }
    let header = parse(first, file, 0, "the run's settings")?;
    let records = lines.map(|(at, line)| parse(line, file, at, "a trial")).collect::<Result<Vec<_>, _>>()?;
    let note = (whole < text.len()).then(|| {
        format!("{file}, line {}: it is cut off, so this trial is left out, and will be run again", records.len() + 2)
    });
    Ok(Stored { header, records, whole: whole as u64, note })
}

fn parse<T: DeserializeOwned>(line: &[u8], file: &str, at: usize, expected: &'static str) -> Result<T, StoreError> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let wrong = |found: String| StoreError::Line { file: file.to_owned(), line: at + 1, found, expected };
    // Every text is one line of the file.
    let said = |error: &serde_json::Error| error.to_string().replace(" at line 1 column ", " at column ");
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (key, said) = (error.path().to_string(), said(error.inner()));
        wrong(if key == "." { said } else { format!("{key}: {said}") })
    })?;
    reader.end().map_err(|error| wrong(said(&error)))?;
    Ok(value)
}
