// SPDX-License-Identifier: MIT
//! The profiles for the ns-3 module: they must be what `perigee predict fit` makes of the published points today.

use perigee_predict::fit::{Kind, Options, fit};
use perigee_predict::profile::Router;
use perigee_predict::{Model, Profile, points};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn profile(name: &str) -> Profile {
    Profile::load(&repository().join("ns3/softrouter/examples/profiles").join(name)).expect("a profile")
}

#[test]
fn profiles_are_what_a_fit_writes() {
    for (name, file, kind) in [
        ("published-eq7", "four-points.csv", Kind::Eq7),
        ("published-contention", "contention-points.csv", Kind::Contention),
    ] {
        let kept = profile(&format!("{name}.json"));
        let points = points::load(&repository().join("examples/predict").join(file)).expect("points");
        let options = Options {
            kind: Some(kind),
            name: name.to_owned(),
            description: kept.description.clone(),
            router: Router { burst: 1, ..Router::default() },
            ..Options::default()
        };
        let fresh = fit(&points, file, &options).expect("a fit").profile;
        assert_eq!((&kept.name, &kept.router), (&fresh.name, &fresh.router));
        for ((parameter, kept), (_, fresh)) in kept.model.parameters().into_iter().zip(fresh.model.parameters()) {
            assert!(
                (kept - fresh).abs() <= 1e-9 * fresh.abs(),
                "{name}: {parameter} is {kept}, a fit gives {fresh}; examples/predict/README.md has the command"
            );
        }
        let points = |profile: &Profile| profile.fit.as_ref().and_then(|fit| fit["points"].as_array().map(Vec::len));
        assert_eq!((points(&kept), points(&fresh)), (Some(kept_points(kind)), Some(kept_points(kind))));
    }
}

fn kept_points(kind: Kind) -> usize {
    if kind == Kind::Eq7 { 4 } else { 3 }
}

#[test]
fn the_made_up_batch_server() {
    let profile = profile("batch-example.json");
    assert!(matches!(profile.model, Model::Batch { .. }) && profile.router.burst == 32);
    let service = profile.service(1, false, 0.0, 0.0);
    for n in 1..=32 {
        assert!((service.total_ns(&vec![64; n]) - (400.0 + 300.0 * n as f64)).abs() < 1e-9);
    }
}
