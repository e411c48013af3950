// SPDX-License-Identifier: MIT
//! What a router prints at its end: where all packets that its workers received have gone.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// Where the packets that workers received have gone: once the workers have stopped, `received` is the sum of the
/// others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets received from devices.
    pub received: u64,
    /// Packets that devices took for transmission.
    pub transmitted: u64,
    /// Packets that ended under a reason.
    pub dropped: u64,
    /// Packets given to the slow path.
    pub punted: u64,
}

impl Display for Account {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Account { received, transmitted, dropped, punted } = self;
        write!(
            f,
            "{received} packets received, {transmitted} transmitted, {dropped} dropped, {punted} to the slow path"
        )
    }
}

impl FromStr for Account {
    type Err = String;

    /// What [`Display`] writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(", ").collect();
        let number = |at: usize, unit: &str| parts.get(at)?.strip_suffix(unit)?.trim_end().parse().ok();
        let account = || {
            Some(Account {
                received: number(0, "packets received")?,
                transmitted: number(1, "transmitted")?,
                dropped: number(2, "dropped")?,
                punted: number(3, "to the slow path")?,
            })
        };
        let whole = account().filter(|_| parts.len() == 4);
        whole.ok_or_else(|| format!("found {text:?}, expected a router's account of its packets"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let account = Account { received: 12, transmitted: 9, dropped: 2, punted: 1 };
        assert_eq!(account.to_string().parse(), Ok(account));
        for wrong in ["", "12 packets received", "x packets received, 9 transmitted, 2 dropped, 1 to the slow path"] {
            assert!(wrong.parse::<Account>().unwrap_err().contains("expected a router's account"), "{wrong}");
        }
    }
}
