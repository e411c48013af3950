// SPDX-License-Identifier: MIT
//! What a Lua source says about itself: its head comment, and the doc comments above what it offers.
//!
//! A doc comment is a line that starts with `--- `, and the comment lines that follow it, directly above a function, a
//! method, or a value or class of the module (`M.name = ...`, `local Class = {...}`).

/// A source, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The head comment after the licence, without its dashes.
    pub head: Vec<String>,
    /// What it offers, in the order of the file.
    pub items: Vec<Item>,
    /// The table that it returns, such as `M`.
    pub returns: Option<String>,
    /// The classes among `items`, by their local names: (local name, name).
    aliases: Vec<(String, String)>,
}

/// A function, a method, a value or a class.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// The table that it is in: `M`, a class's name, or nothing (a class that is local to the file).
    pub owner: String,
    /// Its names; one, as a rule.
    pub names: Vec<String>,
    pub kind: Kind,
    /// The doc comment, without its dashes; empty: it has none.
    pub doc: Vec<String>,
    /// The line that it is declared in, from 1.
    pub line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.` or `:`, and the arguments.
    Function(char, String),
    Value,
    /// The keys of an app's argument, if it says them.
    Class(Vec<Key>),
}

/// A key of an app's argument, from its schema `config`.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub required: bool,
    pub default: Option<String>,
}

impl Source {
    /// Reads a source.
    pub fn read(text: &str) -> Source {
        let lines: Vec<&str> = text.lines().collect();
        let mut source = Source { head: head(&lines), ..Source::default() };
        source.returns =
            lines.iter().rev().find_map(|line| line.strip_prefix("return ")).map(|name| name.trim().to_owned());
        let mut doc = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let comment = line.trim_start().strip_prefix("--");
            if let Some(first) = comment.and_then(|rest| rest.strip_prefix('-')) {
                doc.push(first.strip_prefix(' ').unwrap_or(first).to_owned());
            } else if let Some(more) = comment.filter(|_| !doc.is_empty()) {
                doc.push(more.strip_prefix(' ').unwrap_or(more).to_owned());
            } else {
                let doc = std::mem::take(&mut doc);
                source.declaration(&lines, at, doc);
            }
        }
        source.items.retain(|item| item.names != ["selftest"]);
        source
    }

    /// Is it what `require` gives, or a class in it?
    pub fn is_public(&self, item: &Item) -> bool {
        let public =
            |table: &str| self.returns.as_deref() == Some(table) || self.aliases.iter().any(|(_, name)| name == table);
        let name = &item.names[0];
        !name.starts_with('_')
            && match &item.kind {
                Kind::Class(_) if item.owner.is_empty() => public(name),
                _ => public(&item.owner),
            }
    }

    fn declaration(&mut self, lines: &[&str], at: usize, doc: Vec<String>) {
        let line = lines[at].trim_start();
        let indented = line.len() < lines[at].len();
        if let Some(rest) = line.strip_prefix("function ") {
            if !indented || !doc.is_empty() {
                self.function(rest, at, doc);
            }
            return;
        }
        if indented {
            return;
        }
        let (local, line) = match line.strip_prefix("local ") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let Some((left, right)) = line.split_once(" = ") else { return };
        let names: Vec<&str> = left.split(',').map(str::trim).collect();
        if local {
            self.local(&names, right, lines, at, doc);
        } else {
            self.values(&names, lines, at, doc);
        }
    }

    fn function(&mut self, rest: &str, at: usize, doc: Vec<String>) {
        let Some((name, rest)) = rest.split_once('(') else { return };
        let Some((arguments, _)) = rest.split_once(')') else { return };
        let name = name.trim();
        let Some(dot) = name.rfind(['.', ':']) else { return };
        let (owner, separator, name) = (&name[..dot], name.as_bytes()[dot] as char, &name[dot + 1..]);
        let kind = Kind::Function(separator, arguments.trim().to_owned());
        self.items.push(Item { owner: self.class(owner), names: vec![name.to_owned()], kind, doc, line: at + 1 });
    }

    /// The name of a class that a table is known by: itself, `M.Name`, or another local name of that.
    fn class(&self, table: &str) -> String {
        let alias = self.aliases.iter().find(|(local, _)| local == table);
        let name = alias.map_or(table, |(_, name)| name);
        name.strip_prefix("M.").unwrap_or(name).to_owned()
    }

    /// `local Class = {...}`, or another name for a class.
    fn local(&mut self, names: &[&str], right: &str, lines: &[&str], at: usize, doc: Vec<String>) {
        for (name, value) in names.iter().zip(right.split(',')) {
            if let Some(class) = value.trim().strip_prefix("M.").filter(|class| starts_upper(class) || is_name(class)) {
                self.aliases.push(((*name).to_owned(), class.to_owned()));
            }
        }
        if names.len() == 1 && !doc.is_empty() {
            let kind = Kind::Class(schema(lines, at, names[0]));
            self.items.push(Item { owner: String::new(), names: vec![names[0].to_owned()], kind, doc, line: at + 1 });
        }
    }

    /// `M.name = ...`, `Class.name = ...`.
    fn values(&mut self, names: &[&str], lines: &[&str], at: usize, doc: Vec<String>) {
        if doc.is_empty() && !names.iter().all(|name| name.strip_prefix("M.").is_some_and(starts_upper)) {
            return;
        }
        let mut owner = String::new();
        let mut short = Vec::new();
        for name in names {
            let Some((table, name)) = name.rsplit_once('.') else { return };
            owner = self.class(table);
            short.push(name.to_owned());
        }
        let is_class = owner == "M" && short.len() == 1 && is_class(lines, at, &short[0]);
        if doc.is_empty() && !is_class {
            return;
        }
        let kind = if is_class {
            self.aliases.push((format!("M.{}", short[0]), short[0].clone()));
            Kind::Class(schema(lines, at, &short[0]))
        } else {
            Kind::Value
        };
        self.items.push(Item { owner, names: short, kind, doc, line: at + 1 });
    }
}

fn starts_upper(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Is a value of the module a class? It has a constructor in this file, or was made by what makes classes.
fn is_class(lines: &[&str], at: usize, name: &str) -> bool {
    let value = lines[at].split_once(" = ").map_or("", |(_, value)| value);
    if value.contains("subClass(") || value.starts_with("hardware.driver(") {
        return true;
    }
    let mut names = vec![format!("M.{name}")];
    let alias = format!("M.{name}");
    for line in lines {
        if let Some((left, right)) = line.strip_prefix("local ").and_then(|rest| rest.split_once(" = ")) {
            let pairs = left.split(',').map(str::trim).zip(right.split(',').map(str::trim));
            names.extend(pairs.filter(|(_, value)| *value == alias).map(|(local, _)| local.to_owned()));
        }
    }
    let made = |line: &&str| {
        let function = line.strip_prefix("function ").unwrap_or("");
        names.iter().any(|name| function.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(":new")))
    };
    value.trim() != "nil" && lines.iter().any(made)
}

/// The head comment: the comment lines behind the licence.
fn head(lines: &[&str]) -> Vec<String> {
    let comment = lines.iter().skip(1).map_while(|line| line.strip_prefix("--"));
    let mut text: Vec<String> = comment.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect();
    while text.first().is_some_and(String::is_empty) {
        text.remove(0);
    }
    text
}

/// The keys of a class's `config`, in its own table or assigned to it later; nothing where they are not written there.
fn schema(lines: &[&str], at: usize, class: &str) -> Vec<Key> {
    let text = without_comments(&lines[at..]);
    let own = text.split_once(" = ").map(|(_, value)| value).filter(|value| value.starts_with('{')).and_then(table);
    if let Some(config) = own.and_then(|own| entries(own).into_iter().find(|(name, _)| *name == "config")) {
        return keys(config.1);
    }
    let text = without_comments(lines);
    for name in [format!("\n{class}.config = "), format!("\nM.{class}.config = "), format!("\n{class}._config = ")] {
        if let Some((_, value)) = text.split_once(&name) {
            return table(value).map(|_| keys(value)).unwrap_or_default();
        }
    }
    Vec::new()
}

fn keys(schema: &str) -> Vec<Key> {
    let Some(inside) = table(schema) else { return Vec::new() };
    let key = |(name, value): (&str, &str)| {
        let fields = table(value).map(entries).unwrap_or_default();
        let field =
            |wanted: &str| fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
        Key { name: name.to_owned(), required: field("required").as_deref() == Some("true"), default: field("default") }
    };
    entries(inside).into_iter().map(key).collect()
}

/// What is between the braces that a text begins with.
fn table(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let mut depth = 0;
    for (at, c) in code(text) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if c == '}' { text.get(1..at) } else { None };
        }
    }
    None
}

/// The entries `name = value` of a table, between commas.
fn entries(inside: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in code(inside) {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts.into_iter().filter_map(entry).collect()
}

fn entry(part: &str) -> Option<(&str, &str)> {
    let (name, value) = part.split_once('=')?;
    Some((name.trim(), value.trim()))
}

fn without_comments(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let end = code(line).find(|(at, _)| line[*at..].starts_with("--")).map_or(line.len(), |(at, _)| at);
        text.push_str(&line[..end]);
        text.push('\n');
    }
    text
}

/// The characters of a text that are in no string, with their places.
fn code(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut before) = (None, ' ');
    text.char_indices().filter(move |(_, c)| {
        let last = std::mem::replace(&mut before, *c);
        match (quote, c) {
            (Some(mark), _) if *c == mark && last != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(*c),
            (None, _) => return true,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"-- SPDX-License-Identifier: MIT
--
-- apps.x: an app.
--
-- More.

local M = {}

--- Most of them.
M.most, M.least = 7, 1

--- Adder: adds
-- some.
M.Adder = {
   config = {
      -- how many
      n = {required = true}, -- {not this}
      to = {default = {1, "}"}}, speed = {}
   }
}
local Adder = M.Adder

--- Makes one.
function Adder:new(conf)
end

function Adder:push ()
end

function Adder:_inner() end

--- The sum of *a* and *b*.
function M.sum (a, b) return a + b end

local steps = {}
function steps.one () end

--- Held in the file.
local Kept = {}
Kept.config = {size = {default = 2}}

-- No doc comment.
function M.selftest () end

return M
"#;

    #[test]
    fn a_source_is_read() {
        let source = Source::read(TEXT);
        assert_eq!(source.head, ["apps.x: an app.", "", "More."]);
        assert_eq!(source.returns.as_deref(), Some("M"));
        let names: Vec<_> = source.items.iter().map(|item| (item.owner.as_str(), item.names.join("+"))).collect();
        let expected = [
            ("M", "most+least"),
            ("M", "Adder"),
            ("Adder", "new"),
            ("Adder", "push"),
            ("Adder", "_inner"),
            ("M", "sum"),
            ("steps", "one"),
            ("", "Kept"),
        ];
        assert_eq!(names, expected.map(|(owner, name)| (owner, name.to_owned())));
        assert_eq!(source.items[1].doc, ["Adder: adds", "some."]);
        assert_eq!(source.items[5].kind, Kind::Function('.', "a, b".to_owned()));
        assert_eq!(source.items[2].kind, Kind::Function(':', "conf".to_owned()));
        let public: Vec<_> = source.items.iter().map(|item| source.is_public(item)).collect();
        assert_eq!(public, [true, true, true, true, false, true, false, false]);
        assert!(source.items[3].doc.is_empty());
    }

    #[test]
    fn schemas_are_found() {
        let source = Source::read(TEXT);
        let key = |name: &str, required, default: Option<&str>| Key {
            name: name.to_owned(),
            required,
            default: default.map(str::to_owned),
        };
        let Kind::Class(keys) = &source.items[1].kind else { panic!("a class") };
        assert_eq!(keys, &[key("n", true, None), key("to", false, Some("{1, \"}\"}")), key("speed", false, None)]);
        let Kind::Class(keys) = &source.items[7].kind else { panic!("a class") };
        assert_eq!(keys, &[key("size", false, Some("2"))]);
    }

    #[test]
    fn odd_sources_do_no_harm() {
        for text in [
            "",
            "\n",
            "--- doc",
            "--- doc\n",
            "x\nM.A = {",
            "x\nfunction",
            "x\nfunction M.a (",
            "x\n--- d\nM.A = {config = {",
        ] {
            Source::read(text);
        }
        for end in 0..TEXT.len() {
            Source::read(&TEXT[..end]);
            Source::read(&TEXT[end..]);
        }
    }
}
