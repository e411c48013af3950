// SPDX-License-Identifier: MIT
//! A list of prefixes as text, one per line, both families in any order: the form in which routing tables are passed
//! around.
//!
//! ```text
//! # a comment
//! 1.0.0.0/24
//! 2001:db8::/32    # another one
//! ```
//!
//! A list with a wrong line is refused as a whole.

use std::fmt;

use thiserror::Error;

use perigee_net::{Prefix, Prefix4, Prefix6, PrefixError};

/// How many wrong lines are listed; a file of the wrong kind may have a million of them.
const LISTED: usize = 20;
/// How much of a wrong line is quoted, in characters.
const QUOTED: usize = 80;

/// The prefixes of a list, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixList {
    /// IPv4.
    pub v4: Vec<Prefix4>,
    /// IPv6.
    pub v6: Vec<Prefix6>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    /// It is not a prefix.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// It goes on after the prefix.
    #[error("found \"{found}\" after the prefix; expected the end of the line, or a comment (#)")]
    More {
        /// The first word after the prefix.
        found: String,
    },
    /// It is not text.
    #[error("found bytes that are not UTF-8; expected ADDRESS/LENGTH like 10.0.0.0/8 or 2001:db8::/32")]
    NotText,
}

/// The wrong lines of a list, which is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct PrefixListError {
    /// The list's name, such as its file's.
    pub name: String,
    /// The first 20 wrong lines, at least one: number (from 1) and mistake.
    pub lines: Vec<(usize, LineError)>,
}

impl fmt::Display for PrefixListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, error)) in self.lines.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{}:{line}: {error}", self.name)?;
        }
        if self.lines.len() == LISTED {
            write!(f, "\n{}: there may be more wrong lines; these are the first {LISTED}", self.name)?;
        }
        Ok(())
    }
}

impl PrefixList {
    /// Parses `bytes`, the contents of the list called `name`.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<PrefixList, PrefixListError> {
        let mut list = PrefixList::default();
        let mut wrong = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            match parse_line(line) {
                Ok(None) => {}
                Ok(Some(Prefix::V4(prefix))) => list.v4.push(prefix),
                Ok(Some(Prefix::V6(prefix))) => list.v6.push(prefix),
                Err(error) => wrong.push((index + 1, error)),
            }
            if wrong.len() == LISTED {
                break;
            }
        }
        if wrong.is_empty() { Ok(list) } else { Err(PrefixListError { name: name.to_owned(), lines: wrong }) }
    }
}

/// The prefix on a line, if there is one.
fn parse_line(line: &[u8]) -> Result<Option<Prefix>, LineError> {
    let line = std::str::from_utf8(line).map_err(|_| LineError::NotText)?;
    let code = line.split('#').next().unwrap_or_default();
    let mut words = code.split_ascii_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let prefix = first.parse().map_err(|error| match error {
        PrefixError::Syntax { expected, .. } => PrefixError::Syntax { text: quoted(first), expected },
        other => other,
    })?;
    match words.next() {
        None => Ok(Some(prefix)),
        Some(found) => Err(LineError::More { found: quoted(found) }),
    }
}

/// The text as it may be shown on a terminal: escaped, and not too long.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &[u8]) -> String {
        PrefixList::parse("list", text).expect_err("a wrong list").to_string()
    }

    #[test]
    fn both_families_comments_and_empty_lines() {
        let text = b"# table\n1.0.0.0/24\n\n  2001:db8::/32 # documentation\r\n0.0.0.0/0\n::1/128";
        let list = PrefixList::parse("list", text).expect("a right list");
        assert_eq!(list.v4, ["1.0.0.0/24", "0.0.0.0/0"].map(|text| text.parse().expect(text)));
        assert_eq!(list.v6, ["2001:db8::/32", "::1/128"].map(|text| text.parse().expect(text)));
        assert_eq!(PrefixList::parse("list", b""), Ok(PrefixList::default()));
    }

    #[test]
    fn wrong_lines_are_named_with_what_was_expected() {
        assert_eq!(
            refusal(b"10.0.0.0/8\n10.1.2.3/8\n\n10.0.0.0/33\n::/129\nx\n10.0.0.0/8 via 10.0.0.1\n\xff/8\n"),
            "list:2: 10.1.2.3/8 has bits set behind its length; expected 10.0.0.0/8\n\
             list:4: 10.0.0.0/33: the length is too long; expected 0 to 32\n\
             list:5: ::/129: the length is too long; expected 0 to 128\n\
             list:6: \"x\" is not a prefix; expected ADDRESS/LENGTH like 10.0.0.0/8 or 2001:db8::/32\n\
             list:7: found \"via\" after the prefix; expected the end of the line, or a comment (#)\n\
             list:8: found bytes that are not UTF-8; expected ADDRESS/LENGTH like 10.0.0.0/8 or 2001:db8::/32"
        );
    }

    #[test]
    fn a_file_of_the_wrong_kind_is_not_listed_to_its_end() {
        let text = "wrong\n".repeat(1000);
        let error = PrefixList::parse("list", text.as_bytes()).expect_err("a wrong list");
        assert_eq!(error.lines.len(), LISTED);
        assert!(error.to_string().ends_with("these are the first 20"), "{error}");
        let long = refusal(&[b'x'; 100_000]);
        assert!(long.len() < 300, "{} bytes", long.len());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(v4: Vec<(u32, u8)>, v6: Vec<(u128, u8)>) {
            let v4: Vec<Prefix4> = v4.iter().map(|(a, l)| Prefix4::truncated(*a, l % 33).expect("a length")).collect();
            let v6: Vec<Prefix6> = v6.iter().map(|(a, l)| Prefix6::truncated(*a, l % 129).expect("a length")).collect();
            let lines = v4.iter().map(|p| format!("{p}\n")).chain(v6.iter().map(|p| format!("{p}\n")));
            let text: String = lines.collect();
            prop_assert_eq!(PrefixList::parse("list", text.as_bytes()), Ok(PrefixList { v4, v6 }));
        }

        /// It never panics; and an accepted list has as many prefixes as lines that are neither empty nor comments.
        #[test]
        fn any_bytes_are_read_or_refused(lines in proptest::collection::vec("[0-9a-f.:/# x\\PC]{0,24}", 0..50)) {
            let text = lines.join("\n");
            match PrefixList::parse("list", text.as_bytes()) {
                Ok(list) => {
                    let full = text.split('\n').filter(|line| !line.split('#').next().unwrap_or("").trim_ascii().is_empty());
                    prop_assert_eq!(list.v4.len() + list.v6.len(), full.count());
                }
                Err(error) => prop_assert!(!error.lines.is_empty() && error.lines.len() <= LISTED),
            }
        }

        #[test]
        fn raw_bytes_never_panic(bytes: Vec<u8>) {
            let _ = PrefixList::parse("list", &bytes).map_err(|error| error.to_string());
        }
    }
}
