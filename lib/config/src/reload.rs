// SPDX-License-Identifier: MIT
//! Which changes of a configuration need a restart.

use std::collections::BTreeMap;

use toml::Value;

use super::model::Config;
use super::section::Reload;

/// The keys of one table that a running router cannot change.
type Fixed = Vec<(&'static str, Option<Value>)>;

impl Config {
    /// What differs in `new` and cannot be changed in a running router: keys such as `router.burst` and `port.wan.mtu`,
    /// or heads of tables, such as `[[steer]]`, or `[port.lan]` for a port that only one of the two has.
    pub fn restart_needed(&self, new: &Self) -> Vec<String> {
        let ((old_heads, old), (new_heads, new)) = (self.fixed(), new.fixed());
        let added = new_heads.iter().filter(|head| !old.contains_key(*head));
        let mut changed = Vec::new();
        for head in old_heads.iter().chain(added) {
            let tables = |all: &BTreeMap<String, Vec<Fixed>>| all.get(head).cloned().unwrap_or_default();
            match (&tables(&old)[..], &tables(&new)[..]) {
                (before, now) if before == now => {}
                ([before], [now]) if !head.starts_with("[[") => {
                    let pairs = before.iter().zip(now).filter(|(before, now)| before != now);
                    changed.extend(pairs.map(|((key, _), _)| name(head, key)));
                }
                _ => changed.push(head.clone()),
            }
        }
        if changed.is_empty() && old_heads != new_heads {
            changed.push("the order of the ports".into());
        }
        changed
    }

    /// The heads of the tables in which there is something that needs a restart, and what stands below each of them.
    fn fixed(&self) -> (Vec<String>, BTreeMap<String, Vec<Fixed>>) {
        let (mut heads, mut tables) = (Vec::new(), BTreeMap::<_, Vec<Fixed>>::new());
        for table in self.tables() {
            let fixed = table.entries.into_iter().filter(|entry| entry.reload == Reload::Restart);
            let fixed: Fixed = fixed.map(|entry| (entry.key, entry.value)).collect();
            if fixed.is_empty() {
                continue;
            }
            if !tables.contains_key(&table.head) {
                heads.push(table.head.clone());
            }
            tables.entry(table.head).or_default().push(fixed);
        }
        (heads, tables)
    }
}

/// `router.burst` for `burst` below `[router]`.
fn name(head: &str, key: &str) -> String {
    match (head, key) {
        // There are three ways to write it.
        ("[router]", "cores") => "workers".into(),
        _ => format!("{}.{key}", head.trim_matches(['[', ']'])),
    }
}
