// SPDX-License-Identifier: MIT
//! Reading typed values from a spanned TOML tree.
//!
//! A derived deserializer stops at the first error; a configuration should be told all of its mistakes at once. So
//! the tree is walked by hand: a [`Section`] is asked for each key it may have, reports what does not fit, and in
//! [`Section::finish`] whatever nobody asked for. The questions are thereby the list of known keys.

use std::fmt;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::Mistakes;
pub(super) use super::mistake::Span;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub value: T,
    pub span: Span,
}

/// What a parser says about a value it does not take: why, or nothing if that is plain.
pub(super) type Parsed<T> = Result<T, String>;

/// A value of the wrong type or shape, with nothing to add.
pub(super) fn unfit<T>() -> Parsed<T> {
    Err(String::new())
}

/// One table of the file.
pub(super) struct Section<'t> {
    /// How the file calls it: `[port.wan]`.
    title: String,
    table: &'t DeTable<'t>,
    pub span: Span,
    asked: Vec<&'static str>,
    mistakes: &'t Mistakes<'t>,
}

impl<'t> Section<'t> {
    pub fn new(title: impl Into<String>, table: &'t DeTable<'t>, span: Span, mistakes: &'t Mistakes<'t>) -> Self {
        Self { title: title.into(), table, span, asked: Vec::new(), mistakes }
    }

    pub fn mistakes(&self) -> &'t Mistakes<'t> {
        self.mistakes
    }

    /// How messages call it.
    pub fn title(&self) -> &str {
        &self.title
    }

    fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// Where `key` stands, if it is there at all.
    pub fn place(&self, key: &str) -> Option<Span> {
        let (key, _) = self.table.get_key_value(key)?;
        Some(key.span())
    }

    /// How many elements `key` has, if it is there and an array.
    pub fn elements(&self, key: &str) -> Option<usize> {
        Some(self.table.get(key)?.get_ref().as_array()?.len())
    }

    /// Makes `key` a known one, without a look at its value.
    pub fn know(&mut self, key: &'static str) {
        self.asked.push(key);
    }

    /// The value of `key` as `parse` takes it; `expected` completes the sentence "found ..., expected".
    pub fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&DeValue) -> Parsed<T>,
    ) -> Option<At<T>> {
        let value = self.value(key)?;
        read_value(value, expected, self.mistakes, parse)
    }

    /// A string that `parse` takes.
    pub fn text<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Parsed<T>,
    ) -> Option<At<T>> {
        self.read(key, expected, |value| match value.as_str() {
            Some(text) => parse(text),
            None => unfit(),
        })
    }

    /// An integer within `range`; `what` names it and its unit.
    pub fn integer<T: TryFrom<i64>>(
        &mut self,
        key: &'static str,
        what: &str,
        range: RangeInclusive<i64>,
    ) -> Option<At<T>> {
        let expected = format!("{what} from {} to {}", range.start(), range.end());
        self.read(key, &expected, |value| {
            let number = integer_of(value).filter(|n| range.contains(n)).ok_or_else(String::new)?;
            T::try_from(number).map_err(|_| String::new())
        })
    }

    pub fn boolean(&mut self, key: &'static str) -> Option<At<bool>> {
        self.read(key, "true or false", |value| value.as_bool().map_or_else(unfit, Ok))
    }

    /// The elements of an array, each reported on its own.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        mut parse: impl FnMut(&DeValue) -> Parsed<T>,
    ) -> Vec<At<T>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            let found = Found(value.get_ref());
            self.mistakes.add(&value.span(), format!("found {found}, expected an array, each element {expected}"));
            return Vec::new();
        };
        array.iter().filter_map(|element| read_value(element, expected, self.mistakes, &mut parse)).collect()
    }

    /// The table `key`.
    pub fn table(&mut self, key: &'static str) -> Option<Section<'t>> {
        let value = self.value(key)?;
        self.subsection(value, format!("[{key}]"))
    }

    /// The tables of the array `[[key]]`, in the file's order.
    pub fn tables(&mut self, key: &'static str) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            let found = Found(value.get_ref());
            self.mistakes.add(&value.span(), format!("found {found}, expected tables headed [[{key}]]"));
            return Vec::new();
        };
        array.iter().filter_map(|element| self.subsection(element, format!("[[{key}]]"))).collect()
    }

    /// The tables `[key.NAME]` with their names, in the file's order.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(At<String>, Section<'t>)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            let found = Found(value.get_ref());
            self.mistakes.add(&value.span(), format!("found {found}, expected a table headed [{key}.NAME]"));
            return Vec::new();
        };
        let path = match self.title.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            Some(parent) => format!("{parent}.{key}"),
            None => key.to_owned(),
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let named = entries.into_iter().filter_map(|(name, value)| {
            let section = self.subsection(value, format!("[{path}.{}]", name.get_ref().escape_debug()))?;
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            Some((name, section))
        });
        named.collect()
    }

    fn subsection(&self, value: &'t Spanned<DeValue<'t>>, title: String) -> Option<Section<'t>> {
        match value.get_ref().as_table() {
            Some(table) => Some(Section::new(title, table, value.span(), self.mistakes)),
            None => {
                let found = Found(value.get_ref());
                self.mistakes.add(&value.span(), format!("found {found}, expected a table headed {title}"));
                None
            }
        }
    }

    /// `value`, or a mistake that `key` is missing. A key that is there but wrong was reported before.
    pub fn require<T>(&self, key: &str, expected: &str, value: Option<T>) -> Option<T> {
        if value.is_none() && self.table.get(key).is_none() {
            self.mistakes.add(&self.span, format!("found no `{key}` in {}, expected {expected}", self.title));
        }
        value
    }

    /// Reports every key that was never asked for, with the nearest known one.
    pub fn finish(self) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let mut known = self.asked.clone();
            known.sort_unstable();
            known.dedup();
            let hint = match nearest(name, &known) {
                Some(near) => format!("`{near}`"),
                None => format!("one of {}", known.join(", ")),
            };
            let message = format!("found the unknown key `{}` in {}, expected {hint}", name.escape_debug(), self.title);
            self.mistakes.add(&key.span(), message);
        }
    }
}

fn read_value<T>(
    value: &Spanned<DeValue>,
    expected: &str,
    mistakes: &Mistakes,
    parse: impl FnOnce(&DeValue) -> Parsed<T>,
) -> Option<At<T>> {
    match parse(value.get_ref()) {
        Ok(parsed) => Some(At { value: parsed, span: value.span() }),
        Err(why) => {
            let found = Found(value.get_ref());
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            mistakes.add(&value.span(), format!("found {found}{why}, expected {expected}"));
            None
        }
    }
}

/// The number behind a TOML integer, if it fits 64 bits.
pub(super) fn integer_of(value: &DeValue) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A value as a message shows it.
pub(super) struct Found<'a>(pub &'a DeValue<'a>);

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

/// The known word that is at most two edits (for short words one) away from `word`.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // A key of a thousand letters is no slip of the finger, and the distance is quadratic.
    if word.len() > 40 {
        return None;
    }
    let limit = if word.len() < 4 { 1 } else { 2 };
    let best = known.iter().map(|k| (distance(word, k), *k)).min()?;
    (best.0 <= limit).then_some(best.1)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested() {
        let known = ["addresses", "mtu", "queues"];
        assert_eq!(nearest("adresses", &known), Some("addresses"));
        assert_eq!(nearest("mtu_", &known), Some("mtu"));
        assert_eq!(nearest("speed", &known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
