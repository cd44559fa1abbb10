//! Casts by `as` to a type that may be narrower than the number: it is then cut without a word. Tests may do so, and so
//! may constants and the functions that make them, for which conversions are not offered.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use syn::ext::IdentExt as _;
use syn::visit::Visit;
use syn::{Attribute, Expr, ExprCast, ImplItem, Item, Meta, TraitItem, Type, UnOp};

use super::Source;

/// Crates that compute with bits of packets, and with types of the kernel.
const APART: [&str; 3] = ["crates/player", "crates/stack", "crates/kernel"];

/// Folders of code that is no part of the program.
const TESTS: [&str; 4] = ["tests", "benches", "examples", "fuzz"];

/// The types.
const NARROW: [&str; 6] = ["u8", "u16", "u32", "i8", "i16", "i32"];

/// Every such cast, with its file and line.
pub(super) fn faults(sources: &[Source]) -> Vec<String> {
    let tests: BTreeSet<PathBuf> = sources.iter().flat_map(modules_of_tests).collect();
    let is_left_out = |path: &Path| {
        APART.iter().any(|folder| path.starts_with(folder))
            || path.iter().filter_map(OsStr::to_str).any(|part| TESTS.contains(&part))
            || path.with_extension("").ancestors().any(|module| tests.contains(module))
    };
    let checked = sources.iter().filter(|source| !is_left_out(&source.path));
    checked.flat_map(faults_of).collect()
}

fn faults_of(source: &Source) -> Vec<String> {
    let mut casts = Casts::default();
    casts.visit_file(&source.syntax);
    let fault = |(line, kind): &(usize, &str)| {
        let advice = "use try_from, from or to_be_bytes";
        format!("{}:{line}: a cast by `as` to {kind} may cut a number: {advice}", source.path.display())
    };
    casts.found.iter().map(fault).collect()
}

/// The modules in files of their own that only tests have, as paths without the extension.
fn modules_of_tests(source: &Source) -> Vec<PathBuf> {
    let name = source.path.file_stem().and_then(OsStr::to_str);
    let is_root = matches!(name, Some("lib" | "main" | "mod"));
    let folder = match source.path.parent() {
        Some(parent) if is_root => parent.to_owned(),
        _ => source.path.with_extension(""),
    };
    let module = |item: &Item| match item {
        Item::Mod(module) if module.content.is_none() && are_of_tests(&module.attrs) => {
            Some(folder.join(module.ident.unraw().to_string()))
        }
        _ => None,
    };
    source.syntax.items.iter().filter_map(module).collect()
}

/// Whether attributes say that an item is there for tests alone.
fn are_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let words = list.tokens.to_string();
            words.contains("test") && !words.contains("not")
        }
        _ => false,
    })
}

/// Collects the casts, each with its line and its type.
#[derive(Default)]
struct Casts {
    found: Vec<(usize, &'static str)>,
}

impl<'a> Visit<'a> for Casts {
    fn visit_item(&mut self, item: &'a Item) {
        let is_left_out = match item {
            Item::Const(_) | Item::Static(_) | Item::Enum(_) => true,
            Item::Fn(item) => item.sig.constness.is_some() || are_of_tests(&item.attrs),
            Item::Impl(item) => are_of_tests(&item.attrs),
            Item::Mod(item) => are_of_tests(&item.attrs),
            _ => false,
        };
        if !is_left_out {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let is_left_out = match item {
            ImplItem::Const(_) => true,
            ImplItem::Fn(item) => item.sig.constness.is_some() || are_of_tests(&item.attrs),
            _ => false,
        };
        if !is_left_out {
            syn::visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        if !matches!(item, TraitItem::Const(_)) {
            syn::visit::visit_trait_item(self, item);
        }
    }

    fn visit_expr_cast(&mut self, cast: &'a ExprCast) {
        let kind = match &*cast.ty {
            Type::Path(kind) => NARROW.into_iter().find(|narrow| kind.path.is_ident(narrow)),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| !is_self(&cast.expr)) {
            self.found.push((cast.as_token.span.start().line, kind));
        }
        syn::visit::visit_expr_cast(self, cast);
    }
}

/// Whether an operand is `self`, whose type says by which numbers its variants stand.
fn is_self(operand: &Expr) -> bool {
    match operand {
        Expr::Path(path) => path.path.is_ident("self"),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)) && is_self(&unary.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into(), syntax: syn::parse_file(text).unwrap() }
    }

    /// The lines and types of casts.
    fn casts(text: &str) -> Vec<(usize, &'static str)> {
        let mut casts = Casts::default();
        casts.visit_file(&syn::parse_file(text).unwrap());
        casts.found
    }

    const CUTS: &str = "fn f(a: u64) -> u16 {\n    a as u16\n}\n";

    #[test]
    fn a_cast_that_may_cut_is_a_fault() {
        let fault = "a cast by `as` to u16 may cut a number: use try_from, from or to_be_bytes";
        assert_eq!(faults(&[source("crates/a/src/x.rs", CUTS)]), [format!("crates/a/src/x.rs:2: {fault}")]);
        let both = "impl A {\n    fn g(&self) -> u64 {\n        (self.a as u8) as i32 as u64\n    }\n}\n";
        assert_eq!(casts(both), [(3, "i32"), (3, "u8")]);
    }

    #[test]
    fn other_casts_may_stay() {
        assert!(casts("fn f(a: u8) -> u64 { a as u64 + b as usize as u64 + c as f64 as u64 }").is_empty());
        let of_self = "impl A { fn a(self) -> u8 { self as u8 } fn b(&self) -> u8 { *self as u8 } }";
        assert!(casts(of_self).is_empty());
        let constants = [
            "const A: u8 = B as u8;",
            "static A: u8 = B as u8;",
            "const fn f(a: u64) -> u8 { a as u8 }",
            "enum E { A = B as u8 }",
            "impl A { const B: u8 = C as u8; const fn f(a: u64) -> u8 { a as u8 } }",
            "trait T { const B: u8 = C as u8; }",
            "fn f() { const A: u8 = B as u8; }",
        ];
        assert!(casts(&constants.join("\n")).is_empty());
    }

    #[test]
    fn tests_may_cast() {
        let tests = [
            "#[cfg(test)] mod tests { fn f() { a as u8; } }",
            "#[test] fn t() { a as u8; }",
            "impl A { #[cfg(test)] fn f() { a as u8; } }",
            "#[cfg(not(test))] fn f() { a as u8; }",
        ];
        assert_eq!(casts(&tests.join("\n")), [(4, "u8")]);
    }

    #[test]
    fn files_of_tests_may_cast() {
        let sources = [
            source("crates/a/src/lib.rs", "#[cfg(test)] mod fixture; mod x;"),
            source("crates/a/src/fixture.rs", CUTS),
            source("crates/a/src/fixture/more.rs", CUTS),
            source("crates/a/src/x.rs", "#[cfg(test)] mod checks;"),
            source("crates/a/src/x/checks.rs", CUTS),
            source("crates/a/tests/x.rs", CUTS),
            source("crates/a/benches/x.rs", CUTS),
            source("fuzz/src/x.rs", CUTS),
            source("crates/player/src/x.rs", CUTS),
        ];
        assert_eq!(faults(&sources), [] as [&str; 0]);
        assert_eq!(faults(&[source("crates/a/src/fixtures.rs", CUTS)]).len(), 1);
    }
}
