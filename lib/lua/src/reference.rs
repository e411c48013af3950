// SPDX-License-Identifier: MIT
//! The API reference of the Snabb runtime, `docs/snabb-reference.md`, made from the doc comments of its Lua sources.

mod source;

use source::{Item, Kind, Source};
use std::fmt::Write as _;

/// The page, and what has no doc comment.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// In Markdown.
    pub page: String,
    /// A line for each public function or class without a doc comment: file, line and name.
    pub undocumented: Vec<String>,
}

const HEAD: &str = "<!-- Generated: cargo run -p perigee-lua --example snabb_reference > docs/snabb-reference.md -->

# Snabb reference

What `perigee snabb` offers to apps and programs, from the comments in `snabb/`. Modules are loaded by `require(\"NAME\")`;
`config`, `engine` (core.app), `link`, `main`, `memory`, `packet` and `timer` are global, too. A function is listed by the last
part of its module's name. Words in *italics* are arguments. [snabb.md](snabb.md) is the page to start with.
";

const GROUPS: [(&str, &str, &str); 4] = [
    ("core", "Core", "The engine and what it stands on."),
    ("lib", "Libraries", "What apps and programs use."),
    ("apps", "Apps", "What graphs are made of: `config.app(c, name, CLASS, {KEY = VALUE, ...})`."),
    ("program", "Programs", "`perigee snabb PROGRAM ARGS`; `-` and `_` are the same in names."),
];

struct Module<'a> {
    /// As for `require`.
    name: String,
    path: &'a str,
    source: Source,
    usage: Option<&'a str>,
}

/// The reference of `sources`: (path, text), as in [`crate::snabb::SOURCES`].
pub fn reference(sources: &[(&str, &str)]) -> Reference {
    let modules = modules(sources);
    let mut page = HEAD.to_owned();
    for (group, title, _) in GROUPS {
        write!(page, "\n## Contents: {}\n\n| module | what |\n| --- | --- |\n", title.to_lowercase()).expect(STRING);
        for module in modules.iter().filter(|module| module.group() == group) {
            let what = first_sentence(&module.text()).replace('|', "\\|");
            writeln!(page, "| [{}](#{}) | {what} |", module.title(), anchor(&module.title())).expect(STRING);
        }
    }
    for (group, title, about) in GROUPS {
        write!(page, "\n## {title}\n\n{about}\n").expect(STRING);
        for module in modules.iter().filter(|module| module.group() == group) {
            module.write(&mut page);
        }
    }
    Reference { page, undocumented: modules.iter().flat_map(Module::undocumented).collect() }
}

const STRING: &str = "writing to a string";

fn modules<'a>(sources: &[(&'a str, &'a str)]) -> Vec<Module<'a>> {
    let text = |path: &str| sources.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    let module = |(path, source): &(&'a str, &'a str)| {
        let stem = path.strip_suffix(".lua").filter(|stem| !is_test(stem))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let named_as_folder = folder.rsplit('/').next() == stem.rsplit('/').next();
        let usage = text(&format!("{folder}/README")).or_else(|| text(&format!("{folder}/README.inc")));
        Some(Module {
            name: stem.replace('/', "."),
            path,
            source: Source::read(source),
            usage: usage.filter(|_| path.starts_with("program/") && named_as_folder),
        })
    };
    let mut modules: Vec<_> = sources.iter().filter_map(module).collect();
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

fn is_test(stem: &str) -> bool {
    stem.ends_with("_test") || stem.ends_with("selftest")
}

impl Module<'_> {
    fn group(&self) -> &str {
        GROUPS
            .iter()
            .map(|(group, ..)| *group)
            .find(|group| self.path.starts_with(&format!("{group}/")))
            .unwrap_or("lib")
    }

    /// A program's name as one calls it, a module's as for `require`.
    fn title(&self) -> String {
        match (&self.usage, self.path.strip_prefix("program/").and_then(|path| path.rsplit_once('/'))) {
            (Some(_), Some((folder, _))) => format!("snabb {}", folder.replace('/', " ")),
            _ => self.name.clone(),
        }
    }

    /// The head comment without the module's name before it.
    fn text(&self) -> Vec<String> {
        let mut text = self.source.head.clone();
        if let Some(first) = text.first_mut() {
            let short = self.name.rsplit('.').next().unwrap_or("");
            // program.echo.echo calls itself program.echo.
            let names = [self.name.as_str(), self.name.strip_suffix(&format!(".{short}")).unwrap_or(""), short];
            let rest = names.iter().find_map(|name| first.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned));
            if let Some(rest) = rest {
                *first = capitalised(&rest);
            }
        }
        text
    }

    fn write(&self, page: &mut String) {
        write!(page, "\n### {}\n\n{}", self.title(), prose(&self.text(), "")).expect(STRING);
        if let Some(usage) = self.usage {
            // A program's functions are its own affair.
            write!(page, "\n```text\n{}\n```\n", usage.trim_end()).expect(STRING);
            return;
        }
        if let Some(class) = self.source.returns.as_deref().filter(|name| *name != "M" && is_identifier(name)) {
            write!(page, "\nThe module is the class `{class}`.\n").expect(STRING);
        }
        let mut listing = false;
        for item in self.source.items.iter().filter(|item| !item.doc.is_empty()) {
            if !matches!(item.kind, Kind::Class(_)) && !std::mem::replace(&mut listing, true) {
                page.push('\n');
            }
            if matches!(item.kind, Kind::Class(_)) {
                listing = false;
            }
            self.write_item(item, page);
        }
    }

    fn write_item(&self, item: &Item, page: &mut String) {
        if let Kind::Class(keys) = &item.kind {
            let name = &item.names[0];
            let mut doc = item.doc.clone();
            if let Some(rest) = doc[0].strip_prefix(&format!("{name}: ")) {
                doc[0] = capitalised(rest);
            }
            write!(page, "\n#### {}\n\n{}", self.qualified(item, name), prose(&doc, "")).expect(STRING);
            if !keys.is_empty() {
                let keys: Vec<_> = keys.iter().map(key_text).collect();
                write!(page, "\nKeys: {}.\n", keys.join(", ")).expect(STRING);
            }
            return;
        }
        let names: Vec<_> = item.names.iter().map(|name| self.signature(item, name)).collect();
        let text = prose(&item.doc, "  ");
        // The text follows on the same line.
        let line = format!("- {}: ", names.join(", "));
        if text.trim_start().starts_with("```") {
            writeln!(page, "{}\n\n{text}", line.trim_end().trim_end_matches(':')).expect(STRING);
        } else {
            let mut doc = item.doc.clone();
            doc[0] = format!("{line}{}", doc[0]);
            page.push_str(prose(&doc, "  ").trim_start());
        }
    }

    fn qualified(&self, item: &Item, name: &str) -> String {
        match (item.owner.as_str(), name) {
            ("M", _) => format!("{}.{name}", self.name),
            (_, "M") => format!("the class {}", self.name),
            _ => name.to_owned(),
        }
    }

    fn signature(&self, item: &Item, name: &str) -> String {
        // `lib.lua.class` and the like are known by their last part; the engine by its name as a global.
        let short = if self.name == "core.app" { "engine" } else { self.name.rsplit('.').next().unwrap_or("") };
        let owner = if item.owner == "M" { short } else { &item.owner };
        match &item.kind {
            Kind::Function(separator, arguments) => format!("`{owner}{separator}{name} ({arguments})`"),
            _ => format!("`{owner}.{name}`"),
        }
    }

    fn undocumented(&self) -> Vec<String> {
        if self.usage.is_some() {
            return Vec::new();
        }
        let missing = self.source.items.iter().filter(|item| item.doc.is_empty() && self.source.is_public(item));
        let mut lines: Vec<_> = missing
            .map(|item| {
                format!(
                    "snabb/{}:{}: {} has no doc comment",
                    self.path,
                    item.line,
                    self.signature(item, &item.names[0])
                )
            })
            .collect();
        if self.source.head.is_empty() {
            lines.push(format!("snabb/{}:2: there is no head comment", self.path));
        }
        lines
    }
}

fn key_text(key: &source::Key) -> String {
    match (&key.default, key.required) {
        (_, true) => format!("`{}` (required)", key.name),
        (Some(value), _) => {
            format!("`{}` (default `{}`)", key.name, value.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        (None, _) => format!("`{}`", key.name),
    }
}

fn is_identifier(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// As GitHub makes it of a heading.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
        .collect::<String>()
        .replace(' ', "-")
}

fn first_sentence(text: &[String]) -> String {
    let paragraph: Vec<_> =
        text.iter().take_while(|line| !line.is_empty() && !line.starts_with("  ")).cloned().collect();
    let text = escaped(&paragraph.join(" "));
    let end = text.match_indices(". ").map(|(at, _)| at).next();
    text[..end.unwrap_or(text.len())].trim_end_matches(['.', ':']).to_owned()
}

/// Lines of a comment as Markdown: paragraphs, and what is indented as it stands.
fn prose(lines: &[String], indent: &str) -> String {
    let mut page = String::new();
    for block in lines.split(String::is_empty) {
        for part in block.chunk_by(|a, b| a.starts_with("  ") == b.starts_with("  ")) {
            if !page.is_empty() {
                page.push('\n');
            }
            if part[0].starts_with("  ") {
                let text: String = part.iter().map(|line| format!("{indent}{}\n", &line[2..])).collect();
                write!(page, "{indent}```text\n{text}{indent}```\n").expect(STRING);
            } else {
                wrap(&escaped(&part.join(" ")), indent, &mut page);
            }
        }
    }
    page
}

/// Breaks a paragraph into lines of 120 characters at most, never where the new line would start like a list or a
/// heading.
fn wrap(text: &str, indent: &str, page: &mut String) {
    let mut width = indent.len();
    page.push_str(indent);
    for (n, word) in text.split_whitespace().enumerate() {
        let marks =
            word.starts_with(['#', '=', '>', '+', '-', '*', '|']) || word.ends_with(['.', ')']) && word.len() < 4;
        let length = word.chars().count();
        if n > 0 && width + 1 + length > 118 && !marks {
            write!(page, "\n{indent}").expect(STRING);
            width = indent.len();
        } else if n > 0 {
            page.push(' ');
            width += 1;
        }
        page.push_str(word);
        width += length;
    }
    page.push('\n');
}

/// `<` and underscores that Markdown would take for marks, outside of code.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut code, mut before) = (false, ' ');
    for c in text.chars() {
        code ^= c == '`';
        match c {
            '<' if !code => out.push_str("&lt;"),
            '_' if !code && !before.is_alphanumeric() => out.push_str("\\_"),
            c => out.push(c),
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "-- SPDX-License-Identifier: MIT\n-- apps.x.x: an app. It <does> _little.\n\nlocal M = {}\n\n\
        --- X: takes all.\nM.X = {config = {n = {required = true}, m = {default = 2}}}\n\
        --- Makes one.\nfunction M.X:new (conf)\nend\n\
        --- Helps:\n---   x | y\nfunction M.help ()\nend\nfunction M.X:push ()\nend\nreturn M\n";

    const SOURCES: [(&str, &str); 5] = [
        ("apps/x/x.lua", APP),
        ("apps/x/x_test.lua", APP),
        ("program/y/README", "Usage: y\n"),
        ("program/y/y.lua", "-- x\n-- program.y: a program.\nlocal M = {}\nfunction M.run (args)\nend\nreturn M\n"),
        ("log.lua", "-- x\nlocal M = {}\n"),
    ];

    #[test]
    fn a_page_is_made() {
        let Reference { page, undocumented } = reference(&SOURCES);
        let body = page.split_once("\n## Apps\n").expect("the group is there").1;
        let expected = "\n### apps.x.x\n\nAn app. It &lt;does> \\_little.\n\n#### apps.x.x.X\n\nTakes all.\n\n\
            Keys: `n` (required), `m` (default `2`).\n\n- `X:new (conf)`: Makes one.\n- `x.help ()`: Helps:\n\n\
            \u{20} ```text\n  x | y\n  ```\n\n## Programs\n";
        assert!(body.contains(expected), "{body}");
        assert!(page.contains("| [apps.x.x](#appsxx) | An app |"), "{page}");
        assert!(page.contains("| [snabb y](#snabb-y) | A program |"), "{page}");
        assert!(page.ends_with("### snabb y\n\nA program.\n\n```text\nUsage: y\n```\n"), "{page}");
        assert!(!page.contains("x_test"));
        assert_eq!(
            undocumented,
            ["snabb/apps/x/x.lua:15: `X:push ()` has no doc comment", "snabb/log.lua:2: there is no head comment",]
        );
    }

    #[test]
    fn lines_are_wrapped_where_that_changes_nothing() {
        let mut page = String::new();
        wrap(&"word - ".repeat(60), "  ", &mut page);
        assert!(page.lines().all(|line| line.starts_with("  word") && line.len() <= 122), "{page}");
        assert_eq!(page.split_whitespace().count(), 120);
    }
}
