// SPDX-License-Identifier: MIT
//! JSON: each value is a string, the text that it prints and parses.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{InterfaceAddress, MacAddr, Namespace, Prefix};

macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
as_text!(InterfaceAddress, MacAddr, Namespace, Prefix);

/// For `#[serde(deserialize_with = "perigee_net::network")]` of a [`Prefix`] or an option of one: as [`Prefix::around`]
/// reads it. A prefix by itself refuses host bits.
///
/// # Errors
/// The text is not ADDRESS/LENGTH.
pub fn network<'de, D: Deserializer<'de>, P: From<Prefix>>(deserializer: D) -> Result<P, D::Error> {
    Ok(InterfaceAddress::deserialize(deserializer)?.network().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn both_ways<T>(text: &str)
    where
        T: Serialize + for<'de> Deserialize<'de> + PartialEq + Debug + std::str::FromStr<Err: Debug>,
    {
        let value: T = text.parse().unwrap();
        let json = format!("\"{text}\"");
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value);
        assert!(serde_json::from_str::<T>("\"\"").is_err() && serde_json::from_str::<T>("7").is_err());
    }

    #[test]
    fn values_are_their_text() {
        both_ways::<MacAddr>("02:00:00:00:00:01");
        both_ways::<Prefix>("2001:db8::/32");
        both_ways::<InterfaceAddress>("10.0.1.1/24");
        both_ways::<Namespace>("blue");
    }

    #[test]
    fn a_network_may_be_named_by_an_address_in_it() {
        let json = serde_json::from_str::<serde_json::Value>("\"10.1.2.3/8\"").unwrap();
        let expected: Prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!(network::<_, Prefix>(&json).unwrap(), expected);
        assert_eq!(network::<_, Option<Prefix>>(&json).unwrap(), Some(expected));
        assert!(serde_json::from_value::<Prefix>(json).is_err());
    }
}
