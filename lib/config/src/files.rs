// SPDX-License-Identifier: MIT
//! Which other files a configuration names, whatever else is in it: the helper opens these for a router that may not.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::folder_of;

/// The script and the routes file that `text`, the configuration at `path`, names; relative paths start at its folder.
/// What is not TOML names none.
pub fn files_named(path: &Path, text: &str) -> Vec<PathBuf> {
    let Ok(tree) = DeTable::parse(text) else { return Vec::new() };
    let root = tree.get_ref();
    let router = root.get("router").and_then(|value| value.get_ref().as_table());
    let script = router.and_then(|router| router.get("script"));
    let names = script.into_iter().chain(root.get("routes_file"));
    let name = path.display().to_string();
    let folder = folder_of(&name);
    let file = |name: &toml::Spanned<DeValue>| name.get_ref().as_str().map(|name| folder.join(name));
    names.filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_its_script_and_its_routes_file() {
        let named = |text| files_named(Path::new("/etc/r/my.toml"), text);
        let both = named("routes_file = \"/data/routes\"\n[router]\nscript = \"fast.lua\"\nburst = 0\n");
        assert_eq!(both, [Path::new("/etc/r/fast.lua"), Path::new("/data/routes")]);
        assert_eq!(named("script = \"a.lua\"\n[router]\nroutes_file = \"b\""), [] as [PathBuf; 0]);
        assert_eq!(named("router = 7\nroutes_file = 8"), [] as [PathBuf; 0]);
        assert_eq!(named("[router\nscript = \"a.lua\""), [] as [PathBuf; 0]);
    }
}
