// SPDX-License-Identifier: MIT
//! Mistakes and where they stand: `FILE:LINE:COLUMN: found ..., expected ...`, with the line quoted and a caret.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// A byte range of the source text.
pub type Span = Range<usize>;

/// The longest part of a source line that is quoted, in characters.
const QUOTE: usize = 160;

/// How many mistakes are listed.
const MOST: usize = 100;

/// One mistake (or warning) in a configuration or routes file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file's name, as it was given.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What was found, and what was expected.
    pub message: String,
    /// The source line, printable, at most 160 characters of it.
    quote: String,
    /// Number of characters with carets below them; 0 if the place is beyond the quote.
    carets: usize,
}

impl Mistake {
    /// The same place with another message.
    pub(crate) fn says(self, message: String) -> Self {
        Self { message, ..self }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        let number = self.line.to_string();
        write!(f, "  {number} | {}", self.quote)?;
        if self.carets > 0 {
            let (margin, carets) = (" ".repeat(number.len()), "^".repeat(self.carets));
            let indent = " ".repeat(self.column - 1);
            write!(f, "\n  {margin} | {indent}{carets}")?;
        }
        Ok(())
    }
}

/// Why a configuration was not accepted. Nothing of it is used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read; the text says which, why, and what to do.
    #[error("{0}")]
    Unreadable(String),
    /// Every mistake that was found, in the order of the file.
    #[error("{}", listed(.0))]
    Mistakes(Vec<Mistake>),
}

impl ConfigError {
    /// The mistakes, empty if the file could not be read at all.
    pub fn mistakes(&self) -> &[Mistake] {
        match self {
            Self::Unreadable(_) => &[],
            Self::Mistakes(mistakes) => mistakes,
        }
    }
}

fn listed(mistakes: &[Mistake]) -> String {
    let each: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
    each.join("\n")
}

/// Where keys stand that name files: one that cannot be read is their mistake, which shows when the configuration is
/// read already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub script: Option<Mistake>,
    pub routes_file: Option<Mistake>,
}

/// Places do not count: two files may have the same value in different lines.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A text with a name, where byte offsets become lines and columns.
pub(super) struct Source<'t> {
    name: String,
    text: &'t str,
}

impl<'t> Source<'t> {
    pub fn new(name: &str, text: &'t str) -> Self {
        Self { name: name.to_owned(), text }
    }

    /// The mistake `message` at `span`. A span outside the text is moved to its end.
    pub fn mistake(&self, span: &Span, message: String) -> Mistake {
        let start = boundary(self.text, span.start);
        let end = boundary(self.text, span.end).max(start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |n| start + n);
        let before = self.text[line_start..start].chars().count();
        let width = self.text[start..end.min(line_end).max(start)].chars().count().max(1);
        Mistake {
            file: self.name.clone(),
            line: self.text[..line_start].matches('\n').count() + 1,
            column: before + 1,
            message,
            quote: quoted(&self.text[line_start..line_end]),
            carets: if before < QUOTE { width.min(QUOTE - before) } else { 0 },
        }
    }
}

/// The nearest character boundary at or before `offset`.
fn boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// A source line fit for a terminal: no control characters, one column each, and not endless.
pub(super) fn quoted(line: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = line.chars().take(QUOTE).map(printable).collect();
    shown.trim_end().to_owned()
}

/// Collects mistakes and warnings while a source is read. Sections of one file share it.
pub(super) struct Mistakes<'t> {
    source: Source<'t>,
    mistakes: RefCell<Vec<(Span, Mistake)>>,
    warnings: RefCell<Vec<Mistake>>,
}

impl<'t> Mistakes<'t> {
    pub fn new(name: &str, text: &'t str) -> Self {
        Self { source: Source::new(name, text), mistakes: RefCell::default(), warnings: RefCell::default() }
    }

    /// Beyond a hundred, more mistakes help nobody, and finding their lines costs time.
    pub fn add(&self, span: &Span, message: impl Into<String>) {
        if self.count() == MOST {
            return;
        }
        let mistake = self.source.mistake(span, message.into());
        self.mistakes.borrow_mut().push((span.clone(), mistake));
    }

    pub fn warn(&self, span: &Span, message: impl Into<String>) {
        self.warnings.borrow_mut().push(self.source.mistake(span, message.into()));
    }

    /// A place, for a mistake of which it is not known yet whether it is one.
    pub fn place(&self, span: &Span) -> Mistake {
        self.source.mistake(span, String::new())
    }

    pub fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }

    /// All mistakes in the order of the text, and all warnings.
    pub fn into_parts(self) -> (Vec<Mistake>, Vec<Mistake>) {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|(span, _)| span.start);
        (mistakes.into_iter().map(|(_, mistake)| mistake).collect(), self.warnings.into_inner())
    }
}
