// SPDX-License-Identifier: MIT
//! Bytes as a source of choices: each choice takes as many bytes as it needs, and when none are left every choice is
//! the first one. So inputs stay meaningful when a fuzzer cuts, splices or lengthens them.

use rand::TryRng;
use std::convert::Infallible;

/// What is left of an input.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of an input.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next bytes, zeros behind the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.take(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// The next number of 16 bits.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next number of 32 bits.
    pub fn long(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// A number below `end`, by one byte up to 256, else by two.
    pub fn below(&mut self, end: usize) -> usize {
        let number = if end <= 256 { usize::from(self.byte()) } else { usize::from(self.word()) };
        if end == 0 { 0 } else { number % end }
    }

    /// One of several.
    pub fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.below(from.len())]
    }

    /// Whether something with a chance of `one` in 256 happens; never at the end.
    pub fn chance(&mut self, one: u8) -> bool {
        self.byte().wrapping_sub(1) < one
    }

    /// Up to `most` of the next bytes.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Some of the next bytes: as many as the next number says, up to `most`.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let n = self.below(most + 1);
        self.take(n)
    }

    /// [`Self::bytes`] as text.
    pub fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// What is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Where generators of the crates' tests ask for random numbers, the input answers.
impl TryRng for Input<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        // From the top, as ranges are chosen by the high bits; one byte is a choice among 256.
        Ok(u32::from(self.byte()) << 24 | u32::from(self.byte()) << 16)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_be_bytes(self.array()))
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        let bytes = self.take(to.len());
        to[..bytes.len()].copy_from_slice(bytes);
        to[bytes.len()..].fill(0);
        Ok(())
    }
}
