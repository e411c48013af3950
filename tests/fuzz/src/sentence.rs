// SPDX-License-Identifier: MIT
//! Whether an error is one sentence: not empty, not a page, and nothing that a terminal would take for a command.

/// Most bytes of a sentence: what was found is quoted, and cut where it is long.
const LONGEST: usize = 2000;

/// Panics if a message is none.
pub fn check(message: &str) {
    assert!(!message.trim().is_empty(), "an error without a word");
    assert!(message.len() <= LONGEST, "an error of {} bytes: {message:?}", message.len());
    let strange = message.chars().find(|c| c.is_control());
    assert!(strange.is_none(), "an error with the control character {strange:?}: {message:?}");
}

/// Panics if one of several messages, a line each, is none.
pub fn check_lines(messages: &str) {
    assert!(!messages.trim().is_empty(), "an error without a word");
    messages.lines().for_each(check);
}
