// SPDX-License-Identifier: MIT
//! Rust's types as C writes them, and the values of constants.

use std::collections::BTreeMap;
use syn::{Abi, BinOp, Expr, Lit, PointerMutability, ReturnType, Type, UnOp};

/// What names stand for in the declarations that are checked.
#[derive(Default)]
pub(super) struct Types {
    types: BTreeMap<String, Named>,
    constants: BTreeMap<String, Expr>,
}

enum Named {
    /// A type of C's.
    C(String),
    Alias(Box<Type>),
}

impl Types {
    pub(super) fn structure(&mut self, rust: &str, c: &str) {
        self.types.insert(rust.to_owned(), Named::C(c.to_owned()));
    }

    pub(super) fn alias(&mut self, name: &str, ty: Box<Type>) {
        self.types.insert(name.to_owned(), Named::Alias(ty));
    }

    pub(super) fn constant(&mut self, name: &str, value: &Expr) {
        self.constants.insert(name.to_owned(), value.clone());
    }

    /// C's declaration of `name` with this type; with an empty name the type alone.
    ///
    /// # Errors
    /// What is not understood.
    pub(super) fn declare(&self, ty: &Type, name: &str) -> Result<String, String> {
        self.declare_as(ty, name, "")
    }

    /// C's declaration of a function.
    ///
    /// # Errors
    /// What is not understood.
    pub(super) fn function(
        &self,
        name: &str,
        parameters: impl Iterator<Item = Result<String, String>>,
        output: &ReturnType,
    ) -> Result<String, String> {
        let mut parameters = parameters.collect::<Result<Vec<_>, _>>()?;
        if parameters.is_empty() {
            parameters.push("void".to_owned());
        }
        let declarator = format!("{name}({})", parameters.join(", "));
        match output {
            ReturnType::Default => Ok(format!("void {declarator}")),
            ReturnType::Type(_, ty) => self.declare(ty, &declarator),
        }
    }

    /// From the outside in, as C's declarators are; the qualifier is the type's own.
    fn declare_as(&self, ty: &Type, declarator: &str, qualifier: &str) -> Result<String, String> {
        match ty {
            Type::Ptr(pointer) => {
                let to = if matches!(pointer.mutability, PointerMutability::Const(_)) { "const " } else { "" };
                self.declare_as(&pointer.elem, &format!("*{qualifier}{declarator}"), to)
            }
            Type::Array(array) => {
                let n = self.value(&array.len)?;
                let pointed_to = declarator.starts_with('*');
                let declarator = if pointed_to { format!("({declarator})[{n}]") } else { format!("{declarator}[{n}]") };
                self.declare_as(&array.elem, &declarator, qualifier)
            }
            Type::FnPtr(function) if function.variadic.is_none() && is_c(function.abi.as_ref()) => {
                let parameters = function.inputs.iter().map(|parameter| self.declare(&parameter.ty, ""));
                self.function(&format!("(*{qualifier}{declarator})"), parameters, &function.output)
            }
            Type::Path(path) => {
                let last = path.path.segments.last().filter(|last| last.arguments.is_empty());
                let name = last.map(|last| last.ident.to_string()).unwrap_or_default();
                let c = match (primitive(&name), self.types.get(&name)) {
                    (Some((c, _)), _) => c,
                    (None, Some(Named::C(c))) => c,
                    (None, Some(Named::Alias(ty))) => return self.declare_as(ty, declarator, qualifier),
                    (None, None) => return Err(format!("its type `{name}` is not known: declare it in ffi.rs")),
                };
                Ok(format!("{qualifier}{c} {declarator}").trim_end().to_owned())
            }
            _ => {
                Err("its type is not understood: use C's, structures, pointers, arrays, extern \"C\" functions"
                    .to_owned())
            }
        }
    }

    /// Does it point, perhaps by other pointers, to `c_void`?
    pub(super) fn is_any_pointer(&self, ty: &Type) -> bool {
        let Type::Ptr(pointer) = ty else { return false };
        matches!(&*pointer.elem, Type::Path(path) if path.path.is_ident("c_void")) || self.is_any_pointer(&pointer.elem)
    }

    /// Is it `[u8; 0]`?
    pub(super) fn is_empty(&self, ty: &Type) -> bool {
        matches!(ty, Type::Array(array) if self.value(&array.len) == Ok(0))
    }

    /// The value of a constant expression of integers.
    ///
    /// # Errors
    /// What is not understood.
    pub(super) fn value(&self, expression: &Expr) -> Result<i128, String> {
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().map_err(|error| error.to_string()),
                _ => Err("a constant that is no integer is not understood".to_owned()),
            },
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Ok(-self.value(&unary.expr)?),
            Expr::Binary(binary) => {
                let (left, right) = (self.value(&binary.left)?, self.value(&binary.right)?);
                let value = match binary.op {
                    BinOp::Add(_) => left.checked_add(right),
                    BinOp::Sub(_) => left.checked_sub(right),
                    BinOp::Mul(_) => left.checked_mul(right),
                    BinOp::BitOr(_) => Some(left | right),
                    BinOp::Shl(_) if (0..64).contains(&right) => left.checked_mul(1 << right),
                    _ => None,
                };
                value.ok_or("a constant's arithmetic is not understood: use + - * | << within 64 bits".to_owned())
            }
            Expr::Path(path) => {
                let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                match names.as_slice() {
                    [name] => self
                        .value(self.constants.get(name).ok_or_else(|| format!("its constant `{name}` is not known"))?),
                    [.., ty, what] if what == "MAX" => match primitive(ty) {
                        Some((_, Some(bits))) => Ok((1 << bits) - 1),
                        _ => Err(format!("its constant `{ty}::MAX` is not known")),
                    },
                    _ => Err("a constant of another file is not understood: write its value".to_owned()),
                }
            }
            _ => Err("a constant is not understood: use integers and + - * | <<".to_owned()),
        }
    }
}

/// Is it C's calling convention?
pub(super) fn is_c(abi: Option<&Abi>) -> bool {
    abi.is_some_and(|abi| abi.name.as_ref().is_none_or(|name| name.value() == "C"))
}

/// A type of Rust's own in C, and where it has no sign and the same width everywhere, its bits.
fn primitive(name: &str) -> Option<(&'static str, Option<u32>)> {
    Some(match name {
        "c_void" => ("void", None),
        "c_char" => ("char", None),
        "c_int" => ("int", None),
        "c_uint" => ("unsigned int", Some(32)),
        "i8" => ("int8_t", None),
        "i16" => ("int16_t", None),
        "i32" => ("int32_t", None),
        "i64" => ("int64_t", None),
        "u8" => ("uint8_t", Some(8)),
        "u16" => ("uint16_t", Some(16)),
        "u32" => ("uint32_t", Some(32)),
        "u64" | "AtomicU64" => ("uint64_t", Some(64)),
        "isize" => ("ssize_t", None),
        "usize" => ("size_t", None),
        "f64" => ("double", None),
        _ => return None,
    })
}
