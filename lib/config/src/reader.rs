// SPDX-License-Identifier: MIT
//! Reading typed values from a spanned TOML tree.
//!
//! A derived deserializer stops at the first error; the author of a configuration should see all mistakes at once. So
//! the tree is walked here: a [`Section`] is asked for each key that is declared for it, reports what does not fit,
//! and reports in [`Section::finish`] the keys that were never asked for.

use toml::de::{DeTable, DeValue};

use super::given::{At, Given};
use super::kind::Kind;
use super::mistake::{Mistakes, Span};

/// One table of the file, or one that is not there.
pub(crate) struct Section<'t> {
    /// Its head: `[port.wan]`.
    title: String,
    table: Option<&'t DeTable<'t>>,
    pub span: Span,
    asked: Vec<&'static str>,
    mistakes: &'t Mistakes<'t>,
}

impl<'t> Section<'t> {
    pub fn new(title: impl Into<String>, table: &'t DeTable<'t>, span: Span, mistakes: &'t Mistakes<'t>) -> Self {
        Self { title: title.into(), table: Some(table), span, asked: Vec::new(), mistakes }
    }

    /// The table that is given below the head `title`, or a mistake.
    fn of(given: &Given<'t>, title: String) -> Option<Self> {
        match given.value.get_ref().as_table() {
            Some(table) => Some(Self::new(title, table, given.value.span(), given.mistakes)),
            None => given.unfit(format_args!("expected a table headed {title}")),
        }
    }

    /// A section that the file does not have: every key by its default.
    pub fn absent(title: impl Into<String>, mistakes: &'t Mistakes<'t>) -> Self {
        Self { title: title.into(), table: None, span: 0..0, asked: Vec::new(), mistakes }
    }

    pub fn mistakes(&self) -> &'t Mistakes<'t> {
        self.mistakes
    }

    /// Its name in messages.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where `key` stands, if it is there at all.
    pub fn place(&self, key: &str) -> Option<Span> {
        let (key, _) = self.table?.get_key_value(key)?;
        Some(key.span())
    }

    /// Whether `key` has a value that switches nothing on: `false`, an array without elements, or a threshold of 1.
    pub fn is_off(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key)).map(toml::Spanned::get_ref);
        value.is_some_and(|value| match value {
            DeValue::Boolean(on) => !on,
            DeValue::Integer(threshold) => threshold.as_str() == "1",
            DeValue::Array(elements) => elements.is_empty(),
            _ => false,
        })
    }

    /// How many elements `key` has, if it is there and an array.
    pub fn elements(&self, key: &str) -> Option<usize> {
        Some(self.table?.get(key)?.get_ref().as_array()?.len())
    }

    /// Declares `keys` as known, without looking at their values.
    pub fn know(&mut self, keys: &[&'static str]) {
        self.asked.extend(keys);
    }

    /// The value of `key`, if it is there and right.
    pub fn key<T>(&mut self, key: &'static str, kind: &Kind<T>) -> Option<T> {
        match self.given(key) {
            Some(given) => kind.read(&given),
            None => {
                if let Some(expected) = kind.missing() {
                    self.miss(key, expected);
                }
                None
            }
        }
    }

    /// Reports that `key` is missing.
    pub fn miss(&self, key: &str, expected: &str) {
        self.mistakes.add(&self.span, format!("found no `{key}` in {}, expected {expected}", self.title));
    }

    fn given(&mut self, key: &'static str) -> Option<Given<'t>> {
        self.asked.push(key);
        let (name, value) = self.table?.get_key_value(key)?;
        Some(Given { key: name.span(), value, mistakes: self.mistakes })
    }

    /// The table `[key]`, or an absent one.
    pub fn table(&mut self, key: &'static str) -> Section<'t> {
        let title = format!("[{key}]");
        let there = self.given(key).and_then(|given| Self::of(&given, title.clone()));
        there.unwrap_or_else(|| Section::absent(title, self.mistakes))
    }

    /// The tables of the array `[[key]]`, in the file's order.
    pub fn tables(&mut self, key: &'static str) -> Vec<Section<'t>> {
        let Some(given) = self.given(key) else {
            return Vec::new();
        };
        if given.value.get_ref().as_array().is_none() {
            given.unfit::<()>(format_args!("expected tables headed [[{key}]]"));
            return Vec::new();
        }
        given
            .elements("")
            .into_iter()
            .flatten()
            .filter_map(|element| Self::of(&element, format!("[[{key}]]")))
            .collect()
    }

    /// The tables `[key.NAME]` with their names, in the file's order.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(At<String>, Section<'t>)> {
        let Some(given) = self.given(key) else {
            return Vec::new();
        };
        let path = match self.title.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            Some(parent) => format!("{parent}.{key}"),
            None => key.to_owned(),
        };
        let Some(table) = given.value.get_ref().as_table() else {
            let (what, example) = match given.value.get_ref() {
                DeValue::Integer(number) => (number.as_str().to_owned(), " of its own"),
                _ => ("NAME".to_owned(), ""),
            };
            given.unfit::<()>(format_args!("expected a table{example} headed [{path}.{what}]"));
            return Vec::new();
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let named = entries.into_iter().filter_map(|(name, value)| {
            let given = Given { key: name.span(), value, mistakes: self.mistakes };
            let section = Self::of(&given, format!("[{path}.{}]", name.get_ref().escape_debug()))?;
            Some((At { value: name.get_ref().to_string(), span: name.span() }, section))
        });
        named.collect()
    }

    /// Reports every key that was never asked for, with the nearest known one.
    pub fn finish(self) {
        for key in self.table.into_iter().flat_map(DeTable::keys) {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let mut known = self.asked.clone();
            known.sort_unstable();
            known.dedup();
            let hint = match nearest(name, &known) {
                Some(near) => format!("`{near}`"),
                // Keys of no table have to stand before the first head.
                None if name == "routes_file" => "it before the first head of a table".to_owned(),
                None => format!("one of {}", known.join(", ")),
            };
            let message = format!("found the unknown key `{}` in {}, expected {hint}", name.escape_debug(), self.title);
            self.mistakes.add(&key.span(), message);
        }
    }
}

/// The known word that is at most two edits (for short words one) away from `word`.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // A key of a thousand letters is not a typing error, and the distance is quadratic.
    if word.len() > 40 {
        return None;
    }
    let limit = if word.len() < 4 { 1 } else { 2 };
    let best = known.iter().map(|k| (strsim::levenshtein(word, k), *k)).min()?;
    (best.0 <= limit).then_some(best.1)
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
    }
}
