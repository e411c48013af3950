// SPDX-License-Identifier: MIT
//! Results and programs that must have succeeded, or failed.

use perigee_lab::Ended;

/// A result or a program that must have succeeded.
pub trait Good {
    /// What it is if it has.
    type Value;

    /// The value.
    ///
    /// # Panics
    /// It failed; the message says why.
    #[track_caller]
    fn good(self) -> Self::Value;
}

impl<T> Good for anyhow::Result<T> {
    type Value = T;

    fn good(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("{error:#}"),
        }
    }
}

impl Good for Ended {
    type Value = Ended;

    fn good(self) -> Ended {
        assert_eq!(self.code, Some(0), "{}:\n{}", self.command, self.text);
        self
    }
}

/// What else may be expected of a program that has ended.
pub trait Asserts {
    /// The program itself, if it failed and its output contains the text.
    ///
    /// # Panics
    /// It did not fail, or printed something else.
    #[track_caller]
    fn refused(self, text: &str) -> Ended;

    /// The program itself, if it was a ping and every echo was answered once, in order. While replies are late, ping
    /// sends more than `count`.
    ///
    /// # Panics
    /// A reply is missing, doubled or out of order.
    #[track_caller]
    fn every_reply(self, count: usize) -> Ended;

    /// How many echo requests a ping has sent.
    ///
    /// # Panics
    /// It does not say.
    #[track_caller]
    fn pings_sent(&self) -> u64;
}

impl Asserts for Ended {
    fn refused(self, text: &str) -> Ended {
        assert_eq!(self.code, Some(1), "{} was to fail:\n{}", self.command, self.text);
        assert!(self.text.contains(text), "{} did not say {text:?}, but:\n{}", self.command, self.text);
        self
    }

    fn every_reply(self, count: usize) -> Ended {
        let replies = self.out.lines().filter(|line| line.contains(" bytes from "));
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<usize>().ok();
        let numbers: Vec<_> = replies.filter_map(number).collect();
        let complete = numbers.len() >= count && numbers.iter().copied().eq(1..=numbers.len());
        assert!(complete && self.code == Some(0), "{}: {numbers:?}\n{}", self.command, self.text);
        assert!(!self.text.contains("DUP!"), "answered twice:\n{}", self.text);
        self
    }

    fn pings_sent(&self) -> u64 {
        let line = self.out.lines().find(|line| line.contains(" packets transmitted"));
        let number = line.and_then(|line| line.split(' ').next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{} does not say what it sent:\n{}", self.command, self.text))
    }
}
