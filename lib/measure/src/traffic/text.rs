// SPDX-License-Identifier: MIT
//! Fields as texts: what a flag of a command line, a string of a TOML file and a string of JSON all are.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a value from its text, or from a number that stands for the text of its digits (`sizes = 64`).
struct FromText<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a whole number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    /// Lua has no other numbers.
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Deserializes by [`FromStr`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(FromText(PhantomData))
}

/// JSON and TOML of types that have a text.
macro_rules! as_text {
    ($($kind:ty $(, $parameter:ident: $bound:path)?;)*) => {$(
        impl$(<$parameter: $bound>)? serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de $(, $parameter: $bound)?> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::traffic::text::deserialize(deserializer)
            }
        }
    )*};
}
pub(crate) use as_text;
