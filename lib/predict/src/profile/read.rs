// SPDX-License-Identifier: MIT
//! From JSON to a profile: which keys there are, and of which kind their values.

use super::{FORMAT, Model, Profile, key};
use crate::error::{Error, printable};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::error::Category;
use serde_json::{Map, Value, json};
use std::fmt;

/// The keys of a profile. Those of `parameters` depend on `model`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(rename = "format")]
    _format: String,
    name: String,
    description: Option<String>,
    model: String,
    parameters: Object,
    #[serde(default)]
    router: Object,
    fit: Option<Value>,
}

/// Reads a profile from JSON; whether its values are within their bounds is checked elsewhere.
///
/// # Errors
/// Text that is not JSON, keys that are missing, unknown or there twice, values of the wrong kind.
pub(super) fn profile(json: &[u8], file: &str) -> Result<Profile, Error> {
    #[derive(Deserialize)]
    struct Format {
        format: String,
    }
    // Format first: a file of another format has other keys, and that is not what is wrong.
    let Format { format } = text(json, file)?;
    if format != FORMAT {
        return Err(key(file, "format", format!("\"{}\"", printable(&format)), format!("{FORMAT:?}")));
    }
    let Keys { name, description, model, parameters: Object(parameters), router: Object(router), fit, .. } =
        text(json, file)?;
    let model = json!({"model": model, "parameters": parameters});
    let model = deserialize::<Model, _>(model).map_err(|wrong| wrong.at("", file))?;
    let router = deserialize(Value::Object(router)).map_err(|wrong| wrong.at("router", file))?;
    Ok(Profile { name, description, model, router, fit })
}

/// A value from the text of a whole file.
fn text<T: DeserializeOwned>(json: &[u8], file: &str) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = deserialize(&mut json).map_err(|wrong| wrong.at("", file))?;
    json.end().map(|()| value).map_err(|error| Wrong { path: String::new(), error }.at("", file))
}

fn deserialize<'de, T, D>(json: D) -> Result<T, Wrong>
where
    T: Deserialize<'de>,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(json)
        .map_err(|error| Wrong { path: error.path().to_string(), error: error.into_inner() })
}

/// Serde's error, and at which key: `.` if it is about the whole.
struct Wrong {
    path: String,
    error: serde_json::Error,
}

impl Wrong {
    /// The mistake in a section of a file.
    fn at(self, section: &str, file: &str) -> Error {
        let (line, column) = (self.error.line(), self.error.column());
        let said = self.error.to_string();
        let said = printable(said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said));
        if self.error.classify() != Category::Data {
            return Error::Json { file: file.to_owned(), line, column, found: said };
        }
        let keys = [section, &self.path].into_iter().filter(|part| !part.is_empty() && *part != ".");
        let path = printable(&keys.collect::<Vec<_>>().join("."));
        Error::Value { file: file.to_owned(), path: if path.is_empty() { "profile".to_owned() } else { path }, said }
    }
}

/// A JSON object with each key once. (By themselves, serde's structures also take lists, and maps take the last of
/// two.)
#[derive(Default)]
struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
                let mut object = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if object.contains_key(&key) {
                        return Err(de::Error::custom(format_args!("duplicate field `{key}`")));
                    }
                    object.insert(key, value);
                }
                Ok(Object(object))
            }
        }
        json.deserialize_map(Entries)
    }
}
