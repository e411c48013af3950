// SPDX-License-Identifier: MIT
//! Lists the scripts of `programs/`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=programs");
    let folder = Path::new("programs").canonicalize().expect("the folder of scripts");
    let mut paths: Vec<_> =
        folder.read_dir().expect("it can be read").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let one = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_str().expect("a name in UTF-8");
        format!("({name:?}, include_str!({:?})),", path.display())
    };
    let text: String = paths.iter().map(one).collect();
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("programs.rs"), format!("[{text}]")).expect("it can be written");
}
