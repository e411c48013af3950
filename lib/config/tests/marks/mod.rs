// SPDX-License-Identifier: MIT
//! Snippets of configurations with marks: «...» is the place that must be reported; the marks are taken out before
//! parsing.

use perigee_config::{Config, ConfigError, FibNames, Machine, Mistake};

/// Three lines that make a snippet a configuration.
pub const PORT: &str = "[port.wan]\ndevice = \"net_null0\"\naddresses = [\"10.0.0.1/24\", \"2001:db8::1/64\"]\n";

pub fn machine() -> Machine {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let fib = FibNames { v4: names(&["both", "old", "auto"]), v6: names(&["both", "new"]) };
    Machine { cores: vec![0, 1, 2, 3], fib, ..Machine::default() }
}

pub fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse_on("test.toml", text, &machine())
}

/// The text without marks, and line and column of each mark.
pub fn unmark(marked: &str) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut places) = (String::new(), Vec::new());
    for c in marked.chars() {
        match c {
            '«' => {
                let line = text.matches('\n').count() + 1;
                let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                places.push((line, column));
            }
            '»' => {}
            c => text.push(c),
        }
    }
    (text, places)
}

pub fn check(marked: &str, expected: &[&str]) {
    let (text, places) = unmark(marked);
    let error = parse(&text).expect_err(&text);
    compare(&text, error.mistakes(), &places, expected);
}

pub fn compare(text: &str, found: &[Mistake], places: &[(usize, usize)], expected: &[&str]) {
    let shown: Vec<String> = found.iter().map(Mistake::to_string).collect();
    let shown = shown.join("\n");
    let at: Vec<_> = found.iter().map(|m| (m.line, m.column)).collect();
    assert_eq!(at, places, "in\n{text}\n{shown}");
    for (mistake, words) in found.iter().zip(expected) {
        assert!(mistake.message.contains(words), "{words:?} is not in\n{shown}");
    }
    assert_eq!(found.len(), expected.len(), "in\n{text}\n{shown}");
}
