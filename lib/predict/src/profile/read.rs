// SPDX-License-Identifier: MIT
//! From JSON to a profile: which keys there are, and of which kind their values. By hand, because readers that serde derives take
//! lists for objects and objects for words, which the ns-3 module does not.

use super::json::join;
use super::{FORMAT, Model, Per, Profile, Router, expected_count, is_count, key};
use crate::error::{Error, shown_key, shown_number, shown_text};
use serde_json::{Map, Value};

/// Takes a profile from JSON; whether its values are within their bounds is seen to elsewhere, but for whole numbers.
///
/// # Errors
/// Keys that are missing or unknown, values of the wrong kind.
pub(super) fn profile(json: &Value, file: &str) -> Result<Profile, Error> {
    let Value::Object(object) = json else {
        return Err(key(file, "profile", shown(json), "an object"));
    };
    // Format first: a file of another format has other keys, and that is not what is wrong.
    Section { object, path: "", file }.word("format", &[FORMAT])?;
    let root =
        Section::new(json, "", file, &["format", "name", "description", "model", "parameters", "router", "fit"])?;
    let name = root.text("name")?.to_owned();
    let description = match root.find("description") {
        None | Some(Value::Null) => None,
        Some(_) => Some(root.text("description")?.to_owned()),
    };
    let parameters = match root.word("model", &["eq7", "contention", "batch"])? {
        "eq7" => eq7,
        "contention" => contention,
        _ => batch,
    };
    let model = parameters(root.needed("parameters")?, file)?;
    let router = root.find("router").map_or_else(|| Ok(Router::default()), |json| router(json, file))?;
    Ok(Profile { name, description, model, router, fit: root.find("fit").cloned() })
}

fn eq7(json: &Value, file: &str) -> Result<Model, Error> {
    let section = Section::new(json, "parameters", file, &["a", "a0", "b", "b0"])?;
    let of = |key| section.number(key);
    Ok(Model::Eq7 { a: of("a")?, a0: of("a0")?, b: of("b")?, b0: of("b0")? })
}

fn contention(json: &Value, file: &str) -> Result<Model, Error> {
    let section = Section::new(json, "parameters", file, &["c0_ns", "c_byte_ns", "d_ns", "u_ns"])?;
    let of = |key| section.number(key);
    Ok(Model::Contention { c0_ns: of("c0_ns")?, c_byte_ns: of("c_byte_ns")?, d_ns: of("d_ns")?, u_ns: of("u_ns")? })
}

fn batch(json: &Value, file: &str) -> Result<Model, Error> {
    let keys = ["c_batch_ns", "c_packet_ns", "c_byte_ns", "miss_ns", "cache_bytes", "d_ns", "u_ns", "contention_per"];
    let section = Section::new(json, "parameters", file, &keys)?;
    let of = |key| section.number(key);
    let per_packet =
        section.find("contention_per").is_some() && section.word("contention_per", &["burst", "packet"])? == "packet";
    Ok(Model::Batch {
        c_batch_ns: of("c_batch_ns")?,
        c_packet_ns: of("c_packet_ns")?,
        c_byte_ns: of("c_byte_ns")?,
        miss_ns: of("miss_ns")?,
        cache_bytes: of("cache_bytes")?,
        d_ns: of("d_ns")?,
        u_ns: of("u_ns")?,
        contention_per: if per_packet { Per::Packet } else { Per::Burst },
    })
}

fn router(json: &Value, file: &str) -> Result<Router, Error> {
    let keys = [
        "burst",
        "receive_ring",
        "transmit_ring",
        "transmit_buffer",
        "transmit_timeout_us",
        "ports",
        "link_gbps",
        "sleep_after_us",
        "wake_up_us",
        "punt_share",
        "slow_path_ns",
        "punt_ring",
        "working_set_bytes",
    ];
    let section = Section::new(json, "router", file, &keys)?;
    let mut router = Router::default();
    for (key, value) in [
        ("burst", &mut router.burst),
        ("receive_ring", &mut router.receive_ring),
        ("transmit_ring", &mut router.transmit_ring),
        ("transmit_buffer", &mut router.transmit_buffer),
        ("ports", &mut router.ports),
        ("punt_ring", &mut router.punt_ring),
    ] {
        *value = section.count(key, *value)?;
    }
    for (key, value) in [
        ("transmit_timeout_us", &mut router.transmit_timeout_us),
        ("link_gbps", &mut router.link_gbps),
        ("wake_up_us", &mut router.wake_up_us),
        ("punt_share", &mut router.punt_share),
        ("slow_path_ns", &mut router.slow_path_ns),
        ("working_set_bytes", &mut router.working_set_bytes),
    ] {
        if section.find(key).is_some() {
            *value = section.number(key)?;
        }
    }
    if section.find("sleep_after_us").is_some_and(|value| !value.is_null()) {
        router.sleep_after_us = Some(section.number("sleep_after_us")?);
    }
    Ok(router)
}

/// A JSON object, and where it is.
struct Section<'a> {
    object: &'a Map<String, Value>,
    path: &'a str,
    file: &'a str,
}

impl<'a> Section<'a> {
    fn new(json: &'a Value, path: &'a str, file: &'a str, keys: &[&str]) -> Result<Self, Error> {
        let Value::Object(object) = json else {
            return Err(key(file, path, shown(json), "an object"));
        };
        if let Some(unknown) = object.keys().find(|name| !keys.contains(&name.as_str())) {
            let found = format!("the unknown key `{}`", shown_key(unknown));
            return Err(key(file, &join(path, unknown), found, format!("one of {}", keys.join(", "))));
        }
        Ok(Self { object, path, file })
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name)
    }

    fn needed(&self, name: &str) -> Result<&'a Value, Error> {
        let path = if self.path.is_empty() { "profile" } else { self.path };
        let missing = || key(self.file, path, format!("no `{name}`"), "this key, as the model or the format has it");
        self.find(name).ok_or_else(missing)
    }

    fn refuse(&self, name: &str, value: &Value, expected: impl Into<String>) -> Error {
        key(self.file, &join(self.path, name), shown(value), expected)
    }

    fn number(&self, name: &str) -> Result<f64, Error> {
        let value = self.needed(name)?;
        value.as_f64().ok_or_else(|| self.refuse(name, value, "a number"))
    }

    fn count(&self, name: &str, default: u32) -> Result<u32, Error> {
        let Some(value) = self.find(name) else { return Ok(default) };
        let count = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|&count| is_count(name, count));
        count.ok_or_else(|| self.refuse(name, value, expected_count(name)))
    }

    fn text(&self, name: &str) -> Result<&'a str, Error> {
        let value = self.needed(name)?;
        value.as_str().ok_or_else(|| self.refuse(name, value, "text"))
    }

    fn word(&self, name: &str, words: &[&str]) -> Result<&'a str, Error> {
        let value = self.needed(name)?;
        value.as_str().filter(|word| words.contains(word)).ok_or_else(|| match words {
            [word] => self.refuse(name, value, format!("{word:?}")),
            _ => self.refuse(name, value, format!("one of {}", words.join(", "))),
        })
    }
}

/// A value in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::String(text) => format!("\"{}\"", shown_text(text)),
        Value::Number(number) if number.is_f64() => shown_number(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}
