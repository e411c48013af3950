// SPDX-License-Identifier: MIT
//! Filter expressions of traces and captures: what is accepted reads as the same expression when it is written out, and decides on any
//! frame as that one does; what is not is refused in a sentence.

use crate::sentence;
use perigee_packet::Expression;
use perigee_packet::expression::LONGEST;

/// Runs one input: the expression up to the first zero, then a frame.
pub fn run(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, frame) = (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or(&[]));
    let port = |name: &str| ["wan", "lan"].iter().position(|known| *known == name).map(|number| number as u16);
    match Expression::parse(&text, port) {
        Ok(expression) => {
            let written = expression.to_string();
            let matched = [0, 1].map(|port| expression.matches(frame, port));
            if written.len() <= LONGEST {
                let again = Expression::parse(&written, port).unwrap_or_else(|error| panic!("{written:?}: {error}"));
                assert_eq!(again, expression, "{written:?}");
                assert_eq!([0, 1].map(|port| again.matches(frame, port)), matched);
            }
        }
        Err(error) => sentence::check(&error.to_string()),
    }
}
