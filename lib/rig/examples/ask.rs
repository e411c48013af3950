// SPDX-License-Identifier: MIT
//! Measures what lines of JSON on standard input ask for, each a [`Request`] or a part of one (the rest is as `perigee
//! run` is by default, on the last core), and answers each with a line.
//!
//! `echo '{"burst": 64, "load": {"paced": {"pps": 1e6, "process": "poisson"}}}' | cargo run --release -p perigee-rig
//! --example ask`

use anyhow::{Context as _, Result};
use perigee_rig::{Cores, Request, Rig, Settings};
use serde_json::Value;
use std::io::BufRead as _;

fn main() -> Result<()> {
    let hugepages = std::env::args().any(|word| word == "--hugepages");
    let cores = Cores::usable()?;
    let last = cores.list()[0];
    let mut rig = Rig::new(Settings { hugepages, cores })?;
    for line in std::io::stdin().lock().lines() {
        let mut request = serde_json::to_value(Request::new(vec![last]))?;
        let wanted: Value = serde_json::from_str(&line?).context("a request is a line of JSON")?;
        if let (Value::Object(request), Value::Object(wanted)) = (&mut request, wanted) {
            request.extend(wanted);
        }
        let sample = rig.measure(&serde_json::from_value(request)?)?;
        println!("{}", serde_json::to_string(&sample)?);
    }
    Ok(())
}
