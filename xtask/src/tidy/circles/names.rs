//! The paths by which a Rust file names other files of its crate: in `use` items, and anywhere else in its code.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module or an item within a crate, from the crate's root.
pub(super) type Path = Vec<String>;

/// A path as it is written, in this module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) module: Path,
    pub(super) segments: Path,
}

/// Names in a file, apart from its tests.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) written: Vec<Written>,
    /// Imports by `use` items: the name here → the path as it is written.
    pub(super) imports: BTreeMap<String, Path>,
    /// Modules in files of their own that only tests have.
    pub(super) tests: Vec<String>,
}

impl Names {
    /// The names in the code of this module.
    pub(super) fn from_code(code: TokenStream, module: &Path) -> Self {
        let mut names = Self::default();
        names.walk(&code.into_iter().collect::<Vec<_>>(), module);
        names
    }

    fn walk(&mut self, tokens: &[TokenTree], module: &Path) {
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            place = match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' && is_of_tests(tokens.get(place + 1)) => {
                    self.skip_item(tokens, place + 2)
                }
                TokenTree::Ident(word) if word == "use" => self.import(tokens, place + 1, module),
                TokenTree::Ident(word) if word == "mod" => self.walk_module(tokens, place + 1, module),
                TokenTree::Ident(_) => self.note_path(tokens, place, module),
                TokenTree::Group(group) => {
                    self.walk(&group.stream().into_iter().collect::<Vec<_>>(), module);
                    place + 1
                }
                _ => place + 1,
            };
        }
    }

    /// Passes over an item of tests; returns the place after it.
    fn skip_item(&mut self, tokens: &[TokenTree], from: usize) -> usize {
        let is_end = |token: &TokenTree| match token {
            TokenTree::Punct(mark) => mark.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        let end = (from..tokens.len()).find(|&place| is_end(&tokens[place])).unwrap_or(tokens.len());
        let is_mod = |place: usize| matches!(&tokens[place], TokenTree::Ident(word) if word == "mod");
        let module = (from..end).find(|&place| is_mod(place)).and_then(|place| word(tokens.get(place + 1)));
        self.tests.extend(module);
        end + 1
    }

    /// Notes what a `use` item brings in; returns the place after it.
    fn import(&mut self, tokens: &[TokenTree], from: usize, module: &Path) -> usize {
        let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';');
        let end = (from..tokens.len()).find(|&place| is_end(&tokens[place])).unwrap_or(tokens.len());
        let mut found = Vec::new();
        expand(&tokens[from..end], &Vec::new(), &mut found);
        for (name, segments) in found {
            self.imports.insert(name, segments.clone());
            self.written.push(Written { module: module.clone(), segments });
        }
        end + 1
    }

    /// Walks a module that stands in this file; returns the place after its head or body.
    fn walk_module(&mut self, tokens: &[TokenTree], from: usize, module: &Path) -> usize {
        let (Some(name), Some(TokenTree::Group(body))) = (word(tokens.get(from)), tokens.get(from + 1))
        else {
            return from;
        };
        let inner = [module.as_slice(), &[name]].concat();
        self.walk(&body.stream().into_iter().collect::<Vec<_>>(), &inner);
        from + 2
    }

    /// Notes a path of two segments or more; returns the place after it.
    fn note_path(&mut self, tokens: &[TokenTree], from: usize, module: &Path) -> usize {
        let mut segments: Path = word(tokens.get(from)).into_iter().collect();
        let mut place = from + 1;
        while are_colons(tokens, place) {
            let Some(segment) = word(tokens.get(place + 2)) else { break };
            segments.push(segment);
            place += 3;
        }
        let follows = from.checked_sub(1).and_then(|before| tokens.get(before));
        let is_inner = matches!(follows, Some(TokenTree::Punct(mark)) if matches!(mark.as_char(), ':' | '.'));
        if segments.len() > 1 && !is_inner {
            self.written.push(Written { module: module.clone(), segments });
        }
        place
    }
}

/// The name that a token is, without the mark of a raw one.
fn word(token: Option<&TokenTree>) -> Option<String> {
    match token? {
        TokenTree::Ident(word) => Some(word.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

fn are_colons(tokens: &[TokenTree], place: usize) -> bool {
    let is_colon =
        |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
    is_colon(tokens.get(place)) && is_colon(tokens.get(place + 1))
}

/// Whether the brackets of an attribute ask for tests, as `[cfg(test)]` does.
fn is_of_tests(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    let words = group.stream().to_string();
    words.starts_with("cfg") && words.contains("test") && !words.contains("not")
}

/// The paths of a tree of imports, each with the name that it gets here.
fn expand(tree: &[TokenTree], before: &Path, found: &mut Vec<(String, Path)>) {
    let mut path = before.clone();
    let mut name = None;
    let mut tokens = tree.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => name = self::word(tokens.next()),
            TokenTree::Ident(_) => path.extend(word(Some(token))),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
                return inner.split(is_comma).for_each(|tree| expand(tree, &path, found));
            }
            TokenTree::Punct(mark) if mark.as_char() == '*' => name = Some("*".to_owned()),
            _ => {}
        }
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    if let Some(last) = path.last().filter(|_| path.len() > before.len() || !tree.is_empty()) {
        found.push((name.unwrap_or_else(|| last.clone()), path.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Names {
        Names::from_code(code.parse().unwrap(), &vec!["a".to_owned()])
    }

    fn written(code: &str) -> Vec<String> {
        names(code).written.iter().map(|one| one.segments.join("::")).collect()
    }

    #[test]
    fn imports_are_expanded() {
        let code = "use crate::x::{self, y::Z, w::*}; pub use super::b as c;";
        assert_eq!(written(code), ["crate::x", "crate::x::y::Z", "crate::x::w", "super::b"]);
        let imports = names(code).imports;
        assert_eq!(imports["c"], ["super", "b"]);
        assert_eq!(imports["x"], ["crate", "x"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_are_named() {
        assert_eq!(
            written("fn f() -> crate::x::Y { print!(\"{}\", child::g(a.b::<C>())) }"),
            ["crate::x::Y", "child::g"]
        );
    }

    #[test]
    fn tests_are_left_out() {
        let code =
            "#[cfg(test)] mod tests; #[cfg(test)] mod inner { use crate::x; } fn f() { crate::y::z() }";
        assert_eq!(written(code), ["crate::y::z"]);
        assert_eq!(names(code).tests, ["tests", "inner"]);
    }

    #[test]
    fn what_stands_in_an_inner_module_is_named_from_there() {
        let names = names("mod inner { use super::super::x::Y; }");
        assert_eq!(names.written[0].module, ["a", "inner"]);
    }
}
