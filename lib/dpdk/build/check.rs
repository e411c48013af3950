// SPDX-License-Identifier: MIT
//! Has the C compiler check what Rust declares of C: writes a C file that compiles only where sizes, offsets and types
//! of fields, values of constants and signatures of functions are those of the headers. `build.rs` compiles it with the
//! shim, so that another DPDK, or a slip in `ffi.rs`, is a compiler's error with the item's name and not a wrong access
//! to memory.
//!
//! Of `ffi.rs` every item is checked. `#[doc(alias = "struct rte_mbuf")]` names a structure's or a constant's
//! counterpart, functions have the same names. A field whose name starts with `_` fills a place: C has nothing by that
//! name. `_rest: [u8; 0]` at the end: C's structure is longer, and only C makes one. A `c_void` behind pointers of a
//! field stands for any type. What is not understood is refused. Of other files ([`Source::items`]) only what C relies
//! on is checked.

mod types;

use std::fmt::Write as _;
use syn::{Attribute, Expr, Fields, FnArg, ForeignItem, Ident, Item, ItemStruct, Lit, Meta, Signature, Type, UseTree};
use types::Types;

/// A file of Rust declarations.
pub struct Source<'a> {
    /// Its name in messages, as the compiler finds it from the crate's folder.
    pub path: &'a str,
    pub text: &'a str,
    /// The items to check, wherever in the file, and their names in C; `None`: all, which name their counterparts
    /// themselves.
    pub items: Option<&'a [(&'a str, &'a str)]>,
}

/// The C file. `opaque`: types that the sources use and do not declare, and their names in C.
///
/// # Errors
/// A sentence: what is not understood.
pub fn c_file(headers: &[&str], sources: &[Source], opaque: &[(&str, &str)]) -> Result<String, String> {
    let mut types = Types::default();
    opaque.iter().for_each(|&(rust, c)| types.structure(rust, c));
    let mut checks = Vec::new();
    for source in sources {
        let file = syn::parse_file(source.text).map_err(|error| format!("{}: {error}", source.path))?;
        let mut sort_in = |item: Item, c| {
            let name = name_of(&item);
            let sorted = sort_in(&mut checks, &mut types, source, item, c);
            sorted.map_err(|what| format!("{}: {name}: {what}", source.path))
        };
        match source.items {
            None => file.items.into_iter().try_for_each(|item| sort_in(item, None))?,
            Some(items) => items.iter().try_for_each(|&(rust, c)| match find(&file.items, rust) {
                Some(item) => sort_in(item.clone(), Some(c)),
                None => Err(format!("{}: there is no {rust}, C's {c}: adapt build/declarations.rs", source.path)),
            })?,
        }
    }
    let mut out = String::from("/* Written by lib/dpdk/build/check.rs. */\n#include <stddef.h>\n#include <stdint.h>\n");
    headers.iter().for_each(|header| line(&mut out, &format!("#include {header}")));
    for check in &checks {
        check.write(&mut out, &types).map_err(|what| format!("{}: {}: {what}", check.path, check.name()))?;
    }
    Ok(out)
}

/// Sorts an item in; `c`: its name in C, if it does not say that itself.
fn sort_in<'a>(
    checks: &mut Vec<Check<'a>>,
    types: &mut Types,
    source: &Source<'a>,
    item: Item,
    c: Option<&str>,
) -> Result<(), String> {
    let counterpart = |attributes: &[Attribute]| {
        let alias = said(attributes)?.alias.or(c.map(str::to_owned));
        alias.ok_or("it does not say what it is in C: give it a #[doc(alias = \"...\")]".to_owned())
    };
    let mut check = |what| checks.push(Check { path: source.path, text: source.text, what });
    match item {
        Item::Use(item) if is_plain(&item.tree) => {}
        Item::Use(_) => return Err("a glob or another name hides what a type is: name types as they are".to_owned()),
        Item::Struct(item) => {
            let c = counterpart(&item.attrs)?;
            types.structure(&item.ident.to_string(), &c);
            check(What::Structure { item, c });
        }
        Item::Const(item) => {
            let c = counterpart(&item.attrs)?;
            types.constant(&item.ident.to_string(), &item.expr);
            check(What::Constant { name: item.ident, value: *item.expr, c });
        }
        Item::Type(item) => types.alias(&item.ident.to_string(), item.ty),
        Item::Fn(item) if types::is_c(item.sig.abi.as_ref()) => check(What::Function(item.sig)),
        Item::ForeignMod(block) if types::is_c(Some(&block.abi)) => {
            for item in block.items {
                let ForeignItem::Fn(item) = item else {
                    return Err("only functions are understood: reach anything else by one of the shim's".to_owned());
                };
                said(&item.attrs).map_err(|what| format!("{}: {what}", item.sig.ident))?;
                check(What::Function(item.sig));
            }
        }
        _ => {
            return Err(
                "an item of this kind is not understood: declare it otherwise, or teach build/check.rs".to_owned()
            );
        }
    }
    Ok(())
}

/// An item by its name, also in modules of the file.
fn find<'a>(items: &'a [Item], wanted: &str) -> Option<&'a Item> {
    items.iter().find_map(|item| match item {
        Item::Mod(module) => find(module.content.as_ref().map_or(&[], |(_, items)| items), wanted),
        item => (name_of(item) == wanted).then_some(item),
    })
}

fn name_of(item: &Item) -> String {
    match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        Item::ForeignMod(_) => "extern".to_owned(),
        Item::Use(_) => "use".to_owned(),
        Item::Impl(_) => "impl".to_owned(),
        Item::Macro(_) => "macro".to_owned(),
        _ => "item".to_owned(),
    }
}

/// Does it bring names in as they are?
fn is_plain(tree: &UseTree) -> bool {
    match tree {
        UseTree::Path(path) => is_plain(&path.tree),
        UseTree::Group(group) => group.items.iter().all(is_plain),
        UseTree::Name(_) => true,
        _ => false,
    }
}

/// What attributes say.
#[derive(Default)]
struct Said {
    alias: Option<String>,
    repr_c: bool,
}

/// Reads attributes. One that could change what is declared, or when, is refused.
fn said(attributes: &[Attribute]) -> Result<Said, String> {
    let mut said = Said::default();
    for attribute in attributes {
        let is = |name| attribute.path().is_ident(name);
        let understood = match &attribute.meta {
            _ if ["allow", "derive", "expect", "inline"].into_iter().any(is) => true,
            Meta::NameValue(_) => is("doc"),
            Meta::List(list) if is("doc") => {
                said.alias = list.parse_args::<syn::MetaNameValue>().ok().and_then(|pair| match pair.value {
                    Expr::Lit(literal) if pair.path.is_ident("alias") => match literal.lit {
                        Lit::Str(text) => Some(text.value()),
                        _ => None,
                    },
                    _ => None,
                });
                said.alias.is_some()
            }
            Meta::List(list) if is("repr") => {
                said.repr_c = list.parse_args::<Ident>().is_ok_and(|ident| ident == "C");
                said.repr_c
            }
            Meta::List(list) => is("cfg") && list.parse_args::<Ident>().is_ok_and(|ident| ident == "test"),
            Meta::Path(_) => false,
        };
        if !understood {
            let name = attribute.path().get_ident().map_or_else(String::new, Ident::to_string);
            return Err(format!(
                "its attribute `{name}` is not understood, and may change what is declared: remove it"
            ));
        }
    }
    Ok(said)
}

/// An item to check, and where it is declared.
struct Check<'a> {
    path: &'a str,
    text: &'a str,
    what: What,
}

enum What {
    Structure { item: ItemStruct, c: String },
    Constant { name: Ident, value: Expr, c: String },
    Function(Signature),
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes all");
}

impl Check<'_> {
    fn name(&self) -> String {
        match &self.what {
            What::Structure { item, .. } => item.ident.to_string(),
            What::Constant { name, .. } => name.to_string(),
            What::Function(signature) => signature.ident.to_string(),
        }
    }

    fn write(&self, out: &mut String, types: &Types) -> Result<(), String> {
        match &self.what {
            What::Structure { item, c } => self.structure(out, types, item, c),
            What::Function(signature) => self.function(out, types, signature),
            What::Constant { name, value, c } => {
                let value = types.value(value)?;
                // In a type that is wider than all of C's, so that nothing is cut off before it is compared.
                let same = format!("(__int128)({c}) == {}", literal(value));
                self.assert(
                    out,
                    &[&format!("const {name}:")],
                    &same,
                    &format!("{name} is {value}, and {c} is not: take its value"),
                );
                Ok(())
            }
        }
    }

    /// The compiler takes the next line of C for this line of Rust: where these words come, one behind the other. syn
    /// knows that only with a feature of proc-macro2 that the workspace's derive macros would be compiled once more
    /// for.
    fn place(&self, out: &mut String, words: &[&str]) {
        let at = words.iter().fold(0, |at, word| at + self.text[at..].find(word).unwrap_or(0));
        let number = self.text[..at].matches('\n').count() + 1;
        line(out, &format!("#line {number} \"{}\"", self.path));
    }

    fn assert(&self, out: &mut String, words: &[&str], condition: &str, sentence: &str) {
        self.place(out, words);
        line(out, &format!("_Static_assert({condition}, \"{sentence}\");"));
    }

    /// The structure with Rust's fields, laid out by C, and a comparison with C's own.
    fn structure(&self, out: &mut String, types: &Types, item: &ItemStruct, c: &str) -> Result<(), String> {
        if !said(&item.attrs)?.repr_c || !item.generics.params.is_empty() {
            return Err("Rust lays it out as it likes: give it #[repr(C)], and no parameters".to_owned());
        }
        let fields: Vec<(String, &Type)> = match &item.fields {
            Fields::Named(fields) => {
                fields.named.iter().filter_map(|field| Some((field.ident.as_ref()?.to_string(), &field.ty))).collect()
            }
            // A name and no more: the signatures that use it check it.
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 && types.is_empty(&fields.unnamed[0].ty) => {
                return Ok(());
            }
            _ => {
                return Err(
                    "a field without a name is not understood, only ([u8; 0]) for a type of which only C knows more"
                        .to_owned(),
                );
            }
        };
        let rust = item.ident.to_string();
        line(out, &format!("struct rust_{rust} {{"));
        for (name, ty) in &fields {
            let declared = types.declare(ty, name).map_err(|what| format!("{name}: {what}"))?;
            line(out, &format!("\t{declared};"));
        }
        line(out, "};");
        let head = format!("struct {rust} ");
        for (name, ty) in fields.iter().filter(|(name, _)| !name.starts_with('_')) {
            self.field(out, &[&head, &format!(" {name}:")], (&rust, c), name, types.is_any_pointer(ty));
        }
        let ours = format!("struct rust_{rust}");
        if fields.last().is_some_and(|(name, ty)| name == "_rest" && types.is_empty(ty)) {
            let within = format!("sizeof({ours}) <= sizeof({c})");
            self.assert(out, &[&head], &within, &format!("{rust} is longer than {c}: leave out what C does not have"));
        } else {
            let same = format!("sizeof({ours}) == sizeof({c}) && _Alignof({ours}) == _Alignof({c})");
            let sentence = format!("{rust} has another size or alignment than {c}: declare all of its fields");
            self.assert(out, &[&head], &same, &sentence);
        }
        Ok(())
    }

    fn field(&self, out: &mut String, words: &[&str], (rust, c): (&str, &str), name: &str, any_pointer: bool) {
        let same_place = format!("offsetof(struct rust_{rust}, {name}) == offsetof({c}, {name})");
        self.assert(out, words, &same_place, &format!("{rust}.{name} lies elsewhere in {c}: put it where C has it"));
        let (ours, theirs) = (format!("((struct rust_{rust} *)0)->{name}"), format!("(({c} *)0)->{name}"));
        let (same, what) = match any_pointer {
            true => (format!("sizeof({ours}) == sizeof({theirs})"), "size"),
            false => (format!("__builtin_types_compatible_p(__typeof__({ours}), __typeof__({theirs}))"), "type"),
        };
        self.assert(out, words, &same, &format!("{rust}.{name} has another {what} in {c}: give it that one"));
    }

    /// The function with Rust's types, behind C's own declaration: the compiler compares them. Without that the first
    /// line is an error.
    fn function(&self, out: &mut String, types: &Types, signature: &Signature) -> Result<(), String> {
        if signature.variadic.is_some() || !signature.generics.params.is_empty() {
            return Err("a variadic or generic function is not understood: call it by one of the shim's".to_owned());
        }
        let parameters = signature.inputs.iter().map(|parameter| match parameter {
            FnArg::Typed(parameter) => types.declare(&parameter.ty, ""),
            FnArg::Receiver(_) => Err("C has no methods: write a function".to_owned()),
        });
        let name = signature.ident.to_string();
        let declared = types.function(&name, parameters, &signature.output)?;
        for text in [format!("_Static_assert(sizeof(&{name}) > 0, \"{name}\");"), format!("{declared};")] {
            self.place(out, &[&format!("fn {name}(")]);
            line(out, &text);
        }
        Ok(())
    }
}

/// An integer of up to 64 bits and a sign as C writes it.
fn literal(value: i128) -> String {
    format!("{}(__int128){}ULL", if value < 0 { "-" } else { "" }, value.unsigned_abs())
}
