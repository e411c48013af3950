// SPDX-License-Identifier: MIT
//! Waiting for what other processes do, and for how long. Bounds suit a machine of today that is busy; where all is
//! slower, as in a guest without hardware's help, under valgrind or while compilers run, `PERIGEE_PATIENCE=5`
//! multiplies every one of them.

use crate::open::Open;
use anyhow::{Result, anyhow, bail};
use std::env::VarError;
use std::fmt::Debug;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waiting for anything longer than this is a failure. Minutes: they cost nothing where all is well, and the machine
/// may be busy.
pub const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// The limit when waiting for protocols with timers of their own, or for many thousands of routes.
pub const LONG_WAIT: Duration = Duration::from_secs(300);

/// The variable that multiplies all bounds.
pub const PATIENCE: &str = "PERIGEE_PATIENCE";

/// A bound on this machine: as it stands in the source, times `$PERIGEE_PATIENCE`. [`wait_for`] and all that waits by
/// it do this themselves; it is for deadlines that other code keeps.
///
/// # Errors
/// The variable is not a whole number from 1 to 1000.
pub fn patient(bound: Duration) -> Result<Duration> {
    static FACTOR: LazyLock<Result<u32, String>> = LazyLock::new(|| factor(std::env::var(PATIENCE)));
    FACTOR.as_ref().map(|factor| bound * *factor).map_err(|sentence| anyhow!("{sentence}"))
}

/// Lines for a router's `[router]`, by which it is as patient with its script and with its end: none where the variable
/// is not set. What `given` has of these keys stays.
///
/// # Errors
/// As [`patient`].
pub fn budgets(given: &str) -> Result<String> {
    // perigee's own values, and the longest that it takes.
    let budgets = [("stall_budget", 700, 60_000), ("end_budget", 30_000, 600_000)];
    let mut lines = String::new();
    for (key, own, longest) in budgets {
        let now = patient(Duration::from_millis(own))?.as_millis().min(longest);
        if now != u128::from(own) && !given.contains(key) {
            lines += &format!("{key} = \"{now}ms\"\n");
        }
    }
    Ok(lines)
}

fn factor(value: Result<String, VarError>) -> Result<u32, String> {
    let text = match value {
        Err(VarError::NotPresent) => return Ok(1),
        Err(VarError::NotUnicode(text)) => text.to_string_lossy().into_owned(),
        Ok(text) => text,
    };
    let number = text.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| format!("{PATIENCE}: found {text:?}, expected a whole number from 1 to 1000"))
}

/// Waits until something is there.
///
/// # Errors
/// It does not come in that time, times `$PERIGEE_PATIENCE`, or `look` fails.
#[track_caller]
pub fn wait_for<T>(longest: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let (longest, _open, start) = (patient(longest)?, Open::new(what), Instant::now());
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() > longest {
            bail!("waited {} s in vain for {what}", longest.as_secs());
        }
        sleep(Duration::from_millis(10));
    }
}

/// Waits until something holds.
///
/// # Errors
/// As [`wait_for`].
#[track_caller]
pub fn wait_until(longest: Duration, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_for(longest, what, || Ok(holds()?.then_some(())))
}

/// Waits until what is seen is as it is wanted, and returns it.
///
/// # Errors
/// As [`wait_for`]: the error says what was seen last.
#[track_caller]
pub fn wait_seeing<T: Debug>(
    longest: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T>,
    mut wanted: impl FnMut(&T) -> bool,
) -> Result<T> {
    let (longest, open, start) = (patient(longest)?, Open::new(what), Instant::now());
    loop {
        let seen = look()?;
        if wanted(&seen) {
            return Ok(seen);
        }
        if start.elapsed() > longest {
            bail!("waited {} s in vain for {what}; seen last: {seen:?}", longest.as_secs());
        }
        open.seen(format!("{seen:?}"));
        sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_last_is_said_where_a_wait_is_in_vain() {
        let mut seen = 0;
        let mut look = || {
            seen += 1;
            Ok(seen)
        };
        assert_eq!(wait_seeing(LONGEST_WAIT, "three", &mut look, |n| *n == 3).unwrap(), 3);
        let error = wait_seeing(Duration::ZERO, "a hundred", &mut look, |n| *n == 100).unwrap_err();
        assert!(error.to_string().starts_with("waited 0 s in vain for a hundred; seen last: "), "{error}");
    }

    #[test]
    fn patience_is_a_whole_number() {
        let of = |text: &str| factor(Ok(text.to_owned()));
        assert_eq!((factor(Err(VarError::NotPresent)), of("1"), of("1000")), (Ok(1), Ok(1), Ok(1000)));
        for wrong in ["", "0", "1001", "-1", "1.5", "5x"] {
            let expected = format!("PERIGEE_PATIENCE: found {wrong:?}, expected a whole number from 1 to 1000");
            assert_eq!(of(wrong), Err(expected));
        }
    }

    /// The variable belongs to a process, so each value is tried in one of its own: this test program again.
    #[test]
    fn every_wait_is_as_long_as_patience_says() {
        const INSIDE: &str = "PERIGEE_LAB_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            let error = wait_until(Duration::from_secs(1), "nothing", || Ok(false)).unwrap_err();
            println!("<{error}>");
            print!("{}", budgets("end_budget = \"1s\"").unwrap_or_default());
            return;
        }
        for (patience, said) in [
            ("2", "<waited 2 s in vain for nothing>\nstall_budget = \"1400ms\"\n"),
            ("much", "<PERIGEE_PATIENCE: found \"much\""),
        ] {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "waiting::tests::every_wait_is_as_long_as_patience_says", "--nocapture"]);
            let ended = crate::run(again.env(INSIDE, "1").env(PATIENCE, patience));
            // Where the variable is wrong, the wait for this program's end is not concerned: it is set for that one
            // only.
            assert!(ended.text.contains(said), "{}", ended.text);
        }
    }
}
