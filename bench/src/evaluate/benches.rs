// SPDX-License-Identifier: MIT
//! Other benches, each as a process of its own with `--json`: DPDK starts once in a process, and some want namespaces.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::{Display, Formatter};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How long a bench may take to end once it was asked to: it gives memory back, and takes namespaces down.
const ENDING: Duration = Duration::from_secs(25);

/// Runs `perigee-bench WORDS --json`, for at most `limit`; returns what it says. A bench that says something and fails
/// has found something wrong, which is in what it says.
///
/// # Errors
/// It says nothing; its own last line says why.
pub fn bench(words: &[String], limit: Duration) -> Result<Value> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let name = words.first().map_or("", String::as_str);
    eprintln!("  {}", words.join(" "));
    run(Command::new(program).args(words).arg("--json"), &format!("./x bench {name}"), limit)
}

/// A bench's words.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// What a bench has said, as its figure knows it.
///
/// # Errors
/// It has said something else.
pub fn parsed<T: DeserializeOwned>(said: &Value, bench: &str) -> Result<T> {
    T::deserialize(said).with_context(|| format!("./x bench {bench} says something else than expected"))
}

fn run(command: &mut Command, what: &str, limit: Duration) -> Result<Value> {
    // In the group of this process: Ctrl-C reaches both.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{what} does not start"))?;
    let (out, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            end(&mut child)?;
            bail!("{what} has not ended after {} s, and was ended", limit.as_secs());
        }
        sleep(Duration::from_millis(50));
    };
    let text = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
    let (out, errors) = (text(out), text(errors));
    match serde_json::from_str(&out) {
        Ok(said) => Ok(said),
        Err(_) => bail!("{what}: {}", complaint(&errors).unwrap_or_else(|| format!("it says nothing ({status})"))),
    }
}

/// Reads to the end, beside the process: a full pipe would stop it.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes); // what came until then counts
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Asks it to end; kills it if it does not.
fn end(child: &mut Child) -> Result<()> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM); // it may have ended just now
    }
    let asked = Instant::now();
    while child.try_wait()?.is_none() {
        if asked.elapsed() > ENDING {
            child.kill()?;
            child.wait()?;
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The line with the error: the last one of a bench's own, or the last one at all.
fn complaint(errors: &str) -> Option<String> {
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let own = lines.iter().rev().find_map(|line| line.strip_prefix("perigee-bench: "));
    own.or(lines.last().copied()).map(str::to_owned)
}

/// A median with its interval, as benches print it; of too few samples there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub median: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.low.zip(self.high) {
            Some((low, high)) => write!(f, "{:.2} ({low:.2} to {high:.2})", self.median),
            None => write!(f, "{:.2}", self.median),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shell(script: &str, limit: Duration) -> Result<Value> {
        run(Command::new("sh").args(["-c", script]), "./x bench this", limit)
    }

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn what_a_bench_says_counts_whatever_its_exit_code() {
        assert_eq!(shell("echo noise >&2; echo '[1]'; exit 1", LONG).unwrap(), json!([1]));
    }

    #[test]
    fn a_failure_is_one_line_that_says_why() {
        let error = |script: &str| shell(script, LONG).unwrap_err().to_string();
        let two = "echo 'perigee-bench: no root: sudo helps' >&2; echo at the end >&2; exit 1";
        assert_eq!(error(two), "./x bench this: no root: sudo helps");
        assert_eq!(error("echo killed >&2; exit 3"), "./x bench this: killed");
        assert!(error("exit 3").starts_with("./x bench this: it says nothing (exit status: 3"), "{}", error("exit 3"));
        assert!(error("echo '{\"half\": '").contains("says nothing"));
        let missing = run(&mut Command::new("/nonexistent/bench"), "./x bench that", LONG).unwrap_err();
        assert_eq!(missing.to_string(), "./x bench that does not start");
    }

    #[test]
    fn one_that_does_not_end_is_ended() {
        let error = shell("exec sleep 1000", Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.contains("has not ended after 0 s"), "{error}");
    }

    #[test]
    fn many_lines_do_not_stop_it() {
        let said = shell("i=0; while [ $i -lt 20000 ]; do echo 'a line of noise' >&2; i=$((i+1)); done; echo 7", LONG);
        assert_eq!(said.unwrap(), json!(7));
    }

    #[test]
    fn intervals_are_words() {
        let interval = |text: &str| serde_json::from_str::<Interval>(text).unwrap().to_string();
        assert_eq!(interval(r#"{"median": 1.5, "low": 1.25, "high": 2}"#), "1.50 (1.25 to 2.00)");
        assert_eq!(interval(r#"{"median": 1.5, "low": null, "high": null}"#), "1.50");
        assert!(parsed::<Interval>(&json!({"median": "x"}), "this").unwrap_err().to_string().contains("bench this"));
    }
}
