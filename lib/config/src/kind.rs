// SPDX-License-Identifier: MIT
//! Kinds of keys: how a value is read, printed and described. Small ones for integers, texts and choices; `optional`,
//! `required`, `at` and `list` make others of them.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;
use toml::de::DeValue;

use super::given::{At, Given, Parsed, unfit};
use super::values::{duration, duration_text};

/// A phrase, mostly a literal.
pub(crate) type Words = Cow<'static, str>;

type Reader<'k, T> = Box<dyn for<'t> Fn(&Given<'t>, &str) -> Option<T> + 'k>;
type Printer<'k, T> = Box<dyn Fn(&T) -> Option<Value> + 'k>;

/// What a key may hold.
pub(crate) struct Kind<'k, T> {
    /// Completes the sentence "found ..., expected".
    expected: Words,
    /// The phrase for the page, if it says more there or depends on the machine.
    described: Option<Words>,
    /// Completes "found no `KEY`, expected", if the key must be there.
    missing: Option<Words>,
    array: bool,
    read: Reader<'k, T>,
    print: Printer<'k, T>,
}

impl<'k, T: 'k> Kind<'k, T> {
    /// A kind that does everything by itself: `read` is given the value and `expected`, and reports what is wrong.
    pub fn new(
        expected: impl Into<Words>,
        read: impl for<'t> Fn(&Given<'t>, &str) -> Option<T> + 'k,
        print: impl Fn(&T) -> Option<Value> + 'k,
    ) -> Self {
        Self {
            expected: expected.into(),
            described: None,
            missing: None,
            array: false,
            read: Box::new(read),
            print: Box::new(print),
        }
    }

    /// Sets another phrase for the page than for messages.
    pub fn described(self, words: impl Into<Words>) -> Self {
        Self { described: Some(words.into()), ..self }
    }

    /// The value, or nothing if it was wrong, which is reported.
    pub fn read(&self, given: &Given) -> Option<T> {
        (self.read)(given, &self.expected)
    }

    /// The value as TOML; nothing if there is none.
    pub fn print(&self, value: &T) -> Option<Value> {
        (self.print)(value)
    }

    /// Type and range.
    pub fn describe(&self) -> Words {
        match &self.described {
            Some(words) => words.clone(),
            None if self.array => format!("an array, each element {}", self.expected).into(),
            None => self.expected.clone(),
        }
    }

    /// What was expected if a mandatory key is missing.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

/// A value that is parsed by itself and always printed.
pub(crate) fn value<'k, T: 'k>(
    expected: impl Into<Words>,
    parse: impl Fn(&DeValue) -> Parsed<T> + 'k,
    print: impl Fn(&T) -> Value + 'k,
) -> Kind<'k, T> {
    Kind::new(expected, move |given, expected| given.parse(expected, &parse), move |value| Some(print(value)))
}

/// A string that `parse` takes.
pub(crate) fn text<'k, T: Display + 'k>(
    expected: impl Into<Words>,
    parse: impl Fn(&str) -> Parsed<T> + 'k,
) -> Kind<'k, T> {
    value(expected, text_parser(parse), |value| value.to_string().into())
}

fn text_parser<T>(parse: impl Fn(&str) -> Parsed<T>) -> impl Fn(&DeValue) -> Parsed<T> {
    move |value| value.as_str().map_or_else(unfit, &parse)
}

/// An integer within `range`; `what` names it and its unit.
pub(crate) fn integer<'k, T>(what: &str, range: RangeInclusive<i64>) -> Kind<'k, T>
where
    T: TryFrom<i64> + Into<i64> + Copy + 'k,
{
    let expected = format!("{what} from {} to {}", range.start(), range.end());
    let parse = move |value: &DeValue| {
        let number = integer_of(value).filter(|n| range.contains(n)).ok_or_else(String::new)?;
        T::try_from(number).map_err(|_| String::new())
    };
    value(expected, parse, |number: &T| Value::Integer((*number).into()))
}

/// `true` or `false`.
pub(crate) fn boolean<'k>() -> Kind<'k, bool> {
    value("true or false", |value| value.as_bool().map_or_else(unfit, Ok), |on| Value::Boolean(*on))
}

/// One of `names`.
pub(crate) fn choice<'k, T: Copy + PartialEq + 'k>(names: &'static [(&'static str, T)]) -> Kind<'k, T> {
    let quoted: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
    let expected = match &quoted[..] {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    };
    let named = |text: &str| Some(names.iter().find(|(name, _)| *name == text)?.1);
    let parse = text_parser(move |text| named(text).map_or_else(unfit, Ok));
    value(expected, parse, |value| name_of(names, value).into())
}

/// The name of `value`, which is in the list.
pub(crate) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, named)| named == value).map_or("", |(name, _)| name)
}

/// A path, a relative one from `folder`.
pub(crate) fn path<'k>(expected: &'static str, folder: &'k Path) -> Kind<'k, PathBuf> {
    checked_path(expected, folder, Ok)
}

/// A path that `check` takes.
pub(crate) fn checked_path<'k>(
    expected: &'static str,
    folder: &'k Path,
    check: impl Fn(PathBuf) -> Parsed<PathBuf> + 'k,
) -> Kind<'k, PathBuf> {
    let parse = text_parser(move |text| match text.is_empty() || text.contains('\0') {
        true => unfit(),
        false => check(folder.join(text)),
    });
    value(expected, parse, |path| path.display().to_string().into())
}

/// A time that `check` takes.
pub(crate) fn time<'k>(
    expected: &'static str,
    check: impl Fn(Duration) -> Parsed<Duration> + 'k,
) -> Kind<'k, Duration> {
    value(expected, text_parser(move |text| check(duration(text)?)), |time| duration_text(*time).into())
}

/// An IP address with a port.
pub(crate) fn socket_address<'k>(expected: &'static str) -> Kind<'k, SocketAddr> {
    text(expected, |text| text.parse().map_err(|_| String::new()))
}

/// An IPv4 or IPv6 address.
pub(crate) fn ip_address<'k>() -> Kind<'k, IpAddr> {
    text("an IPv4 or IPv6 address", |text| text.parse().map_err(|_| String::new()))
}

/// A key that need not be there.
pub(crate) fn optional<'k, T: 'k>(kind: Kind<'k, T>) -> Kind<'k, Option<T>> {
    let Kind { expected, described, missing, array, read, print } = kind;
    Kind {
        expected,
        described,
        missing,
        array,
        read: Box::new(move |given, expected| read(given, expected).map(Some)),
        print: Box::new(move |value| print(value.as_ref()?)),
    }
}

/// A key that must be there; without it, or if it is wrong, a mistake is reported and there is nothing.
pub(crate) fn required<'k, T: 'k>(kind: Kind<'k, T>) -> Kind<'k, Option<T>> {
    let expected = kind.expected.clone();
    required_as(expected, kind)
}

/// Like [`required`], with its own phrase for a missing key.
pub(crate) fn required_as<'k, T: 'k>(missing: impl Into<Words>, kind: Kind<'k, T>) -> Kind<'k, Option<T>> {
    Kind { missing: Some(missing.into()), ..optional(kind) }
}

/// A value with its place, for a check against other values.
pub(crate) fn at<'k, T: 'k>(kind: Kind<'k, T>) -> Kind<'k, At<T>> {
    let Kind { expected, described, missing, array, read, print } = kind;
    Kind {
        expected,
        described,
        missing,
        array,
        read: Box::new(move |given, expected| Some(At { value: read(given, expected)?, span: given.value.span() })),
        print: Box::new(move |at| print(&at.value)),
    }
}

/// An array, with mistakes reported per element. Anything else is reported and becomes an empty list.
pub(crate) fn list<'k, T: 'k>(kind: Kind<'k, T>) -> Kind<'k, Vec<T>> {
    let Kind { expected, described, missing, read, print, .. } = kind;
    Kind {
        expected,
        described,
        missing,
        array: true,
        read: Box::new(move |given, expected| {
            let elements = given.elements(expected)?;
            Some(elements.filter_map(|element| read(&element, expected)).collect())
        }),
        print: Box::new(move |list| Some(Value::Array(list.iter().filter_map(&print).collect()))),
    }
}

/// The number behind a TOML integer, if it fits 64 bits.
pub(crate) fn integer_of(value: &DeValue) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
