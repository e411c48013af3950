// SPDX-License-Identifier: MIT
//! A value of the file before it is interpreted and afterwards, with its place.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;

use super::mistake::{Mistakes, Span};

/// The result of a parser; the error says why a value is refused, or nothing if that is obvious.
pub(crate) type Parsed<T> = Result<T, String>;

/// The error for a value of the wrong type or shape, with nothing to add.
pub(crate) fn unfit<T>() -> Parsed<T> {
    Err(String::new())
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub value: T,
    pub span: Span,
}

impl<T> At<T> {
    /// A value that comes from no file.
    pub fn nowhere(value: T) -> Self {
        Self { value, span: 0..0 }
    }
}

/// Places do not count: two files may have the same value in different lines.
impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A key's value, or an element of it, before it is interpreted.
pub(crate) struct Given<'t> {
    /// Where the key stands.
    pub key: Span,
    pub value: &'t Spanned<DeValue<'t>>,
    pub mistakes: &'t Mistakes<'t>,
}

impl<'t> Given<'t> {
    /// The value as `parse` reads it, or a mistake.
    pub fn parse<T>(&self, expected: &str, parse: impl FnOnce(&DeValue) -> Parsed<T>) -> Option<T> {
        match parse(self.value.get_ref()) {
            Ok(parsed) => Some(parsed),
            Err(why) if why.is_empty() => self.unfit(format_args!("expected {expected}")),
            Err(why) => {
                let found = Found(self.value.get_ref());
                self.mistakes.add(&self.value.span(), format!("found {found} ({why}), expected {expected}"));
                None
            }
        }
    }

    /// The elements of an array, or a mistake.
    pub fn elements(&self, expected: &str) -> Option<impl Iterator<Item = Given<'t>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            return self.unfit(format_args!("expected an array, each element {expected}"));
        };
        let (key, mistakes) = (self.key.clone(), self.mistakes);
        Some(array.iter().map(move |value| Given { key: key.clone(), value, mistakes }))
    }

    /// The mistake that the value is not what was `expected`, which begins with that word.
    pub fn unfit<T>(&self, expected: fmt::Arguments) -> Option<T> {
        let found = Found(self.value.get_ref());
        self.mistakes.add(&self.value.span(), format!("found {found}, {expected}"));
        None
    }
}

/// A value as a message shows it.
pub(crate) struct Found<'a>(pub &'a DeValue<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DeValue::String(text) if text.chars().count() > 80 => {
                write!(f, "a string of {} characters", text.chars().count())
            }
            DeValue::String(text) => write!(f, "{text:?}"),
            DeValue::Integer(number) => write!(f, "{number}"),
            DeValue::Float(number) => write!(f, "the fraction {number}"),
            DeValue::Boolean(value) => write!(f, "{value}"),
            DeValue::Datetime(_) => write!(f, "a date"),
            DeValue::Array(_) => write!(f, "an array"),
            DeValue::Table(_) => write!(f, "a table"),
        }
    }
}
