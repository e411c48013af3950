// SPDX-License-Identifier: MIT
//! Text as JSON, with the rules that the ns-3 module has, too (`model/json-section.cc`): no byte order mark, no NUL byte, no deep
//! nesting, no key twice. Libraries differ in these, and a file is a profile for both readers or for none.

use crate::error::{Error, shown_key};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Levels of lists and objects, at most; the outermost is the first.
pub(super) const MAX_DEPTH: usize = 64;

/// Bytes as text.
///
/// # Errors
/// Bytes that are not UTF-8, and where.
pub(super) fn decode<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let found =
            bytes.get(at).map_or_else(|| "no byte".to_owned(), |byte| format!("byte 0x{byte:02x}, which is not UTF-8"));
        mistake(file, place(bytes, at), found)
    })
}

/// Text as JSON. Below the outermost key `fit`, keys may be there twice: the last counts.
///
/// # Errors
/// Text that is no JSON, nests deeper than 64 levels, or has a key twice.
pub(super) fn parse(text: &str, file: &str) -> Result<Value, Error> {
    if text.starts_with('\u{feff}') {
        return Err(mistake(file, (1, 1), "a byte order mark, which must not be there".to_owned()));
    }
    if let Some(at) = text.find('\0') {
        return Err(mistake(file, place(text.as_bytes(), at), "a NUL byte".to_owned()));
    }
    let wrong = RefCell::new(None);
    let mut json = serde_json::Deserializer::from_str(text);
    let reader = Reader { path: "", depth: 0, free: false, wrong: &wrong };
    let value = reader.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| {
        let at = (error.line(), error.column());
        match wrong.take() {
            Some(Wrong::Deep) => mistake(file, at, format!("more than {MAX_DEPTH} levels of lists and objects")),
            Some(Wrong::Twice { path, key }) => {
                let (file, found) = (file.to_owned(), format!("`{}` twice", shown_key(&key)));
                Error::Key { file, path, found, expected: "each key once".to_owned() }
            }
            None => {
                let text = error.to_string();
                let text = text.strip_suffix(&format!(" at line {} column {}", at.0, at.1)).unwrap_or(&text);
                mistake(file, at, format!("a mistake ({text})"))
            }
        }
    })
}

/// A key's place: `router.burst`.
pub(super) fn join(path: &str, key: &str) -> String {
    let key = shown_key(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn mistake(file: &str, (line, column): (usize, usize), found: String) -> Error {
    Error::Json { file: file.to_owned(), line, column, found }
}

/// Line and column of a byte, from 1 on.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |feed| feed + 1);
    (line, at - begin + 1)
}

/// What is JSON and yet refused.
enum Wrong {
    Deep,
    Twice { path: String, key: String },
}

/// Reads a value; `wrong` gets the reason of a refusal, which serde's errors have no room for.
struct Reader<'a> {
    /// Keys on the way to the value.
    path: &'a str,
    /// Lists and objects around it.
    depth: usize,
    /// Is it in the outermost `fit`?
    free: bool,
    wrong: &'a RefCell<Option<Wrong>>,
}

impl Reader<'_> {
    fn refuse<E: serde::de::Error>(&self, wrong: Wrong) -> E {
        *self.wrong.borrow_mut() = Some(wrong);
        E::custom("refused")
    }

    /// The levels of a list or object here. serde_json itself would give up after 127.
    fn deeper<E: serde::de::Error>(&self) -> Result<usize, E> {
        if self.depth >= MAX_DEPTH { Err(self.refuse(Wrong::Deep)) } else { Ok(self.depth + 1) }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is none"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Reader { depth, ..self })? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut values = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            // In a fit nobody asks for the way, which may be long.
            let path = if self.free { String::new() } else { join(self.path, &key) };
            if !self.free && values.contains_key(&key) {
                return Err(self.refuse(Wrong::Twice { path, key }));
            }
            let free = self.free || (self.depth == 0 && key == "fit");
            let value = object.next_value_seed(Reader { path: &path, depth, free, wrong: self.wrong })?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}
