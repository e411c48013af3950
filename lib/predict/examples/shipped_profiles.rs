// SPDX-License-Identifier: MIT
//! Fits the profiles that ship to their points again: `cargo run -p perigee-predict --example shipped_profiles`.
//!
//! For who changes how fits are made. Measuring again is `perigee predict calibrate`.

use perigee_predict::fit::{Kind, Options, fit};
use perigee_predict::{Profile, points, shipped};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    for shipped in shipped::ALL {
        let folder = folder().join(shipped.name);
        fs::write(folder.join("profile.json"), refitted(&folder)?.to_json())?;
    }
    Ok(())
}

/// Where profiles that ship are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles")
}

/// A folder's profile with the parameters and the report of a new fit; all else is measured, and stays.
pub fn refitted(folder: &Path) -> Result<Profile, Box<dyn Error>> {
    let kept = Profile::load(&folder.join("profile.json"))?;
    let file = folder.join("points.csv");
    let options = Options {
        kind: Kind::ALL.into_iter().find(|kind| kind.name() == kept.model.name()),
        router: kept.router,
        name: kept.name,
        description: kept.description,
        ..Options::default()
    };
    let mut fresh = fit(&points::load(&file)?, &file.display().to_string(), &options)?.profile;
    let reports = (fresh.fit.as_mut().and_then(|fit| fit.as_object_mut()), kept.fit);
    if let (Some(report), Some(serde_json::Value::Object(old))) = reports {
        for (key, value) in old {
            report.entry(key).or_insert(value);
        }
    }
    Ok(fresh)
}
